//! The kinds that definitions are compiled against where there is no cluster.

use std::collections::{BTreeMap, BTreeSet};

use api::{GroupVersion, GroupVersionKind, crd::CustomResourceDefinition};
use graph::{ResolveError, ResolvedKind, SchemaResolver};
use schema::Schema;

/// The built-in kinds, and those of CustomResourceDefinitions.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    defined: BTreeMap<GroupVersionKind, ResolvedKind>,
    versions: BTreeSet<GroupVersion>,
}

// === impl Kinds ===

impl Kinds {
    /// Adds what a definition serves.
    ///
    /// # Errors
    /// A schema of it is not structural.
    pub(super) fn define(&mut self, definition: &CustomResourceDefinition) -> Result<(), String> {
        let spec = &definition.spec;
        for version in spec.versions.iter().filter(|version| version.served) {
            let openapi = version
                .schema
                .as_ref()
                .and_then(|it| it.open_api_v3_schema.as_ref());
            let openapi =
                openapi.ok_or_else(|| format!("version {} has no schema", version.name))?;
            let schema = Schema::from_openapi(openapi).map_err(|error| error.to_string())?;
            let gvk = GroupVersionKind::new(&spec.group, &version.name, &spec.names.kind);
            let kind = ResolvedKind {
                schema,
                namespaced: spec.scope.is_namespaced(),
                resource: spec.names.plural.clone(),
            };
            self.versions.insert(gvk.group_version());
            self.defined.insert(gvk, kind);
        }
        Ok(())
    }
}

impl SchemaResolver for Kinds {
    fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
        if let Some(kind) = self.defined.get(gvk) {
            return Ok(kind.clone());
        }
        ResolvedKind::built_in(gvk).ok_or_else(|| {
            ResolveError::not_served(gvk, self.versions.contains(&gvk.group_version()))
        })
    }
}
