//! Resolving kinds: what the graph asks of the cluster that will receive its objects.

use std::sync::Arc;

use api::{GroupVersion, GroupVersionKind};
use schema::{Schema, builtin::catalog};

/// Resolves kinds of the cluster that is to receive the objects: their schemas and where they are served.
pub trait SchemaResolver: Send + Sync {
    /// Resolves a kind.
    ///
    /// # Errors
    /// `GroupVersionNotServed` or `KindNotFound` when the cluster was asked and does not serve it; `Unavailable` when it
    /// could not be asked.
    fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError>;
}

/// A kind as a cluster serves it.
#[derive(Clone, Debug)]
pub struct ResolvedKind {
    /// The schema of whole objects.
    pub schema: Arc<Schema>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The plural name of the endpoint.
    pub resource: String,
}

/// Why a kind could not be resolved; the texts are kro's.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ResolveError {
    /// The cluster does not serve the group in that version.
    #[error("cannot resolve group version {:?}: schema not found", .0.to_string())]
    GroupVersionNotServed(GroupVersion),
    /// The cluster serves the group in that version, but not the kind.
    #[error(
        "cannot resolve group version kind {:?}: schema not found",
        .0.to_string()
    )]
    KindNotFound(GroupVersionKind),
    /// The cluster could not be asked; the text says why.
    #[error("{0}")]
    Unavailable(String),
}

// === impl ResolvedKind ===

impl ResolvedKind {
    /// Returns a kind that every cluster has; `None` for one that is not built in.
    pub fn built_in(gvk: &GroupVersionKind) -> Option<Self> {
        let resource = catalog().by_kind(gvk)?;
        Some(Self {
            schema: catalog().schema(gvk)?,
            namespaced: resource.namespaced,
            resource: resource.resource.clone(),
        })
    }
}

// === impl ResolveError ===

impl ResolveError {
    /// Returns the error for a kind that a cluster does not serve. `is_version_served` tells whether it serves other kinds of
    /// that group and version; those of built-in kinds it serves in any case.
    pub fn not_served(gvk: &GroupVersionKind, is_version_served: bool) -> Self {
        let version = gvk.group_version();
        let mut built_in = catalog().resources().iter();
        if is_version_served || built_in.any(|it| it.gvr().group_version() == version) {
            return Self::KindNotFound(gvk.clone());
        }
        Self::GroupVersionNotServed(version)
    }
}

/// A cluster with the built-in kinds and no other.
#[cfg(test)]
pub(crate) mod builtin_kinds {
    use super::*;

    pub(crate) struct BuiltinKinds;

    impl SchemaResolver for BuiltinKinds {
        fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
            ResolvedKind::built_in(gvk).ok_or_else(|| ResolveError::KindNotFound(gvk.clone()))
        }
    }
}
