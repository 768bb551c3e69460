//! Writes of instances in spokes: where they were made, or tried where the spoke's admission judges them.

use std::fmt;

use api::wheelhouse::author::User;
use api::{GroupVersionResource, LogicalCluster};
use futures::future::BoxFuture;
use serde_json::Value;

use super::{Call, Target};
use crate::refusal::Refusal;

/// A write of an instance in a spoke.
#[derive(Debug, Clone)]
pub struct SpokeWrite {
    /// The spoke.
    pub cluster: LogicalCluster,
    /// The resource.
    pub gvr: GroupVersionResource,
    /// The namespace; empty where the kind has none.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// What is done to it.
    pub verb: SpokeVerb,
    /// The object to be created, or what changes, as a merge patch (RFC 7396).
    pub body: Value,
    /// Who wants it.
    pub user: User,
    /// The field manager.
    pub manager: String,
    /// Whether it is only tried.
    pub is_trial: bool,
}

/// What is done to an instance in a spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpokeVerb {
    /// It is created.
    Create,
    /// It is changed.
    Patch,
    /// It is deleted.
    Delete,
}

/// Writes instances in spokes.
pub trait SpokeWrites: fmt::Debug + Send + Sync {
    /// Reads an instance in its spoke, as the hub.
    ///
    /// # Errors
    /// What the spoke says against it, and 503 where it cannot be asked.
    fn read<'a>(&'a self, write: &'a SpokeWrite) -> BoxFuture<'a, Result<Value, Refusal>>;

    /// Writes an instance in its spoke, as the user. Returns it as it is there then.
    ///
    /// # Errors
    /// What the spoke says against it, and 503 where it cannot be asked.
    fn write<'a>(&'a self, write: &'a SpokeWrite) -> BoxFuture<'a, Result<Value, Refusal>>;
}

// === impl SpokeWrite ===

impl SpokeWrite {
    /// Prepares a dry run of what a call addresses, with no body yet. `manager` is the field manager that the query names, or empty.
    pub(crate) fn of(call: &Call<'_>, target: &Target, user: User, manager: &str) -> Self {
        let info = call.info;
        Self {
            cluster: target.cluster.clone(),
            gvr: GroupVersionResource::new(
                info.group.as_str(),
                info.version.as_str(),
                info.resource.as_str(),
            ),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            verb: SpokeVerb::Create,
            body: Value::Null,
            user,
            manager: call.manager(manager),
            is_trial: true,
        }
    }
}
