//! How the syncer names what it works on.

use std::fmt;

use api::{GroupKind, LogicalCluster};
use client::reflector::RawObject;
use serde_json::Value;

/// One instance within its logical cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InstanceKey {
    /// Group and kind.
    pub(crate) group_kind: GroupKind,
    /// Namespace; empty for a cluster-scoped kind.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
}

/// Labels on a child that name its instance. Source: kro `pkg/metadata`, kept by `graph`.
const PARENT_GROUP: &str = "kro.run/instance-group";
const PARENT_KIND: &str = "kro.run/instance-kind";
const PARENT_NAME: &str = "kro.run/instance-name";
const PARENT_NAMESPACE: &str = "kro.run/instance-namespace";

// === impl InstanceKey ===

impl InstanceKey {
    /// Names an instance that a watch delivered.
    pub(crate) fn of_instance(group_kind: &GroupKind, object: &RawObject) -> Self {
        Self {
            group_kind: group_kind.clone(),
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone(),
        }
    }

    /// Names the instance that a child's labels point to, if they do.
    pub(crate) fn of_parent(child: &RawObject) -> Option<Self> {
        let label = |key: &str| child.labels.get(key).cloned();
        Some(Self {
            group_kind: GroupKind {
                group: label(PARENT_GROUP)?,
                kind: label(PARENT_KIND)?,
            },
            namespace: label(PARENT_NAMESPACE).unwrap_or_default(),
            name: label(PARENT_NAME)?,
        })
    }
}

impl fmt::Display for InstanceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return write!(f, "{} {}", self.group_kind, self.name);
        }
        write!(f, "{} {}/{}", self.group_kind, self.namespace, self.name)
    }
}

/// Returns the logical cluster that the hub says an object is in.
pub(crate) fn cluster_of(object: &RawObject) -> Option<LogicalCluster> {
    object
        .annotations
        .get(api::cluster::ANNOTATION)?
        .parse()
        .ok()
}

/// Reads a string below a path of keys.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    let mut at = value;
    for key in path {
        at = &at[*key];
    }
    at.as_str().unwrap_or_default()
}
