//! The kinds that definitions are compiled against where there is no cluster.

use std::collections::{BTreeMap, BTreeSet};

use api::{GroupVersion, GroupVersionKind, crd::CustomResourceDefinition};
use graph::{ResolveError, ResolvedKind, SchemaResolver};

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
        for gvk in served(definition) {
            let kind = ResolvedKind::defined(definition, &gvk.version)?;
            self.versions.insert(gvk.group_version());
            self.defined.insert(gvk, kind);
        }
        Ok(())
    }

    /// Adds what a definition serves and is not there yet.
    ///
    /// # Errors
    /// As [`Self::define`].
    pub(super) fn define_missing(
        &mut self,
        definition: &CustomResourceDefinition,
    ) -> Result<(), String> {
        let is_known = |gvk: &GroupVersionKind| self.defined.contains_key(gvk);
        if served(definition).all(|gvk| is_known(&gvk)) {
            return Ok(());
        }
        let before = self.defined.clone();
        self.define(definition)?;
        self.defined.extend(before);
        Ok(())
    }
}

fn served(definition: &CustomResourceDefinition) -> impl Iterator<Item = GroupVersionKind> + '_ {
    let spec = &definition.spec;
    let versions = spec.versions.iter().filter(|version| version.served);
    versions.map(|version| GroupVersionKind::new(&spec.group, &version.name, &spec.names.kind))
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
