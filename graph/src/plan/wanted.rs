//! What a plan asks to be read.

use std::sync::Arc;

use api::{GroupVersionKind, GroupVersionResource};

/// An external reference with its expressions resolved.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Wanted {
    /// The node.
    pub node: Arc<str>,
    /// The kind.
    pub gvk: GroupVersionKind,
    /// Its endpoint.
    pub gvr: GroupVersionResource,
    /// The namespace; empty for cluster-scoped kinds, and with a selector for all namespaces.
    pub namespace: String,
    /// Which object, or which objects.
    pub target: Target,
}

/// Which object, or which objects, an external reference means.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Target {
    /// The one of that name.
    Name(String),
    /// All that a selector selects, in its text form; empty for everything.
    Selector(String),
}
