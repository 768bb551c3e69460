//! The project's own kinds and kro's, which behave as if they were defined in the cluster.

use api::{GroupResource, kro, wheelhouse};

use super::Strategy;
use super::custom::{AUTHORED, CUSTOM};
use super::rules::AfterCommit;

/// Spokes and records of what is served for them: they define what a cluster serves.
const DEFINING: Strategy = Strategy {
    after_commit: AfterCommit::AwaitsRegistry,
    ..CUSTOM
};

/// The strategy of one of these kinds.
pub(super) fn of(resource: &GroupResource) -> &'static Strategy {
    match (resource.group.as_str(), resource.resource.as_str()) {
        (kro::GROUP | kro::INTERNAL_GROUP, _) => &AUTHORED,
        (wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE)
        | (wheelhouse::INTERNAL_GROUP, wheelhouse::SERVED_RESOURCE_RESOURCE) => &DEFINING,
        _ => &CUSTOM,
    }
}
