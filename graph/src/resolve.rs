//! Resolving kinds: what the graph asks of the cluster that will receive its objects.

use std::sync::Arc;

use api::{GroupVersion, GroupVersionKind};
use schema::Schema;

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

/// A cluster with the built-in kinds and no other.
#[cfg(test)]
pub(crate) mod builtin_kinds {
    use schema::builtin::catalog;

    use super::*;

    pub(crate) struct BuiltinKinds;

    impl SchemaResolver for BuiltinKinds {
        fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
            let Some((resource, schema)) = catalog().by_kind(gvk).zip(catalog().schema(gvk)) else {
                return Err(ResolveError::KindNotFound(gvk.clone()));
            };
            let (namespaced, resource) = (resource.namespaced, resource.resource.clone());
            Ok(ResolvedKind {
                schema,
                namespaced,
                resource,
            })
        }
    }
}
