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

/// Revisions, which are looked up by their definition: there are as many times five as there are definitions.
const REVISIONS: Strategy = Strategy {
    selectable: &[("spec.snapshot.name", "spec.snapshot.name")],
    ..AUTHORED
};

/// The strategy of one of these kinds.
pub(super) fn of(resource: &GroupResource) -> &'static Strategy {
    find(&resource.group, &resource.resource)
}

pub(super) fn find(group: &str, resource: &str) -> &'static Strategy {
    match (group, resource) {
        (kro::INTERNAL_GROUP, kro::REVISION_RESOURCE) => &REVISIONS,
        (kro::GROUP | kro::INTERNAL_GROUP, _) => &AUTHORED,
        (wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE)
        | (wheelhouse::INTERNAL_GROUP, wheelhouse::SERVED_RESOURCE_RESOURCE) => &DEFINING,
        _ => &CUSTOM,
    }
}
