//! Resolving kinds: what the graph asks of the cluster that will receive its objects.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use api::{GroupVersion, GroupVersionKind, crd::CustomResourceDefinition};
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
    /// Returns a kind that every cluster has, or that the hub keeps for each; `None` for any other.
    pub fn built_in(gvk: &GroupVersionKind) -> Option<Self> {
        let Some(resource) = catalog().by_kind(gvk) else {
            return kros().get(gvk).cloned();
        };
        Some(Self {
            schema: catalog().schema(gvk)?,
            namespaced: resource.namespaced,
            resource: resource.resource.clone(),
        })
    }

    /// Returns the kind that a definition serves under a version.
    ///
    /// # Errors
    /// Where the version is not served, or has no structural schema.
    pub fn defined(definition: &CustomResourceDefinition, version: &str) -> Result<Self, String> {
        let spec = &definition.spec;
        let mut served = spec.versions.iter().filter(|it| it.served);
        let found = served.find(|it| it.name == version);
        let schema = found.and_then(|it| it.schema.as_ref()?.open_api_v3_schema.as_ref());
        let schema = schema.ok_or_else(|| format!("version {version} has no schema"))?;
        Ok(Self {
            schema: Schema::from_openapi(schema).map_err(|error| error.to_string())?,
            namespaced: spec.scope.is_namespaced(),
            resource: spec.names.plural.clone(),
        })
    }
}

/// Returns kro's own kinds, which the hub keeps for every logical cluster, whatever is behind it.
fn kros() -> &'static BTreeMap<GroupVersionKind, ResolvedKind> {
    static KINDS: LazyLock<BTreeMap<GroupVersionKind, ResolvedKind>> = LazyLock::new(|| {
        let definitions = api::kro::definitions();
        let definitions = definitions.iter().map(CustomResourceDefinition::from_value);
        let kinds = definitions.flatten().flat_map(|definition| {
            let versions = definition.spec.versions.iter().map(|it| it.name.clone());
            let kinds = versions.filter_map(|version| {
                let spec = &definition.spec;
                let gvk = GroupVersionKind::new(&spec.group, &version, &spec.names.kind);
                Some((gvk, ResolvedKind::defined(&definition, &version).ok()?))
            });
            kinds.collect::<Vec<_>>()
        });
        kinds.collect()
    });
    &KINDS
}

// === impl ResolveError ===

impl ResolveError {
    /// Returns the error for a kind that a cluster does not serve. `is_version_served` tells whether it serves other kinds of
    /// that group and version; those of built-in kinds it serves in any case.
    pub fn not_served(gvk: &GroupVersionKind, is_version_served: bool) -> Self {
        let version = gvk.group_version();
        let mut built_in = catalog().resources().iter();
        if is_version_served
            || built_in.any(|it| it.gvr().group_version() == version)
            || kros().keys().any(|it| it.group_version() == version)
        {
            return Self::KindNotFound(gvk.clone());
        }
        Self::GroupVersionNotServed(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kros_own_kinds_are_kinds_of_every_cluster() {
        for definition in api::kro::definitions() {
            let spec = &definition["spec"];
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
            let gvk = GroupVersionKind::new(&group, "v1alpha1", &kind);
            let found = ResolvedKind::built_in(&gvk).expect("it has a structural schema");
            assert!(!found.namespaced, "{kind}");
            assert_eq!(found.resource, text(&spec["names"]["plural"]));
        }
        let other = GroupVersionKind::new(api::kro::GROUP, "v1alpha1", "WebApp");
        assert!(ResolvedKind::built_in(&other).is_none());
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
