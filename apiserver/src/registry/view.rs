//! What one logical cluster serves at one moment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use api::{GroupResource, GroupVersionResource};
use indexmap::{Equivalent, IndexMap};

use super::compile::Installed;
use super::scope::ResourceScope;
use crate::served::{ServedKind, ServedKinds};

/// What stands behind a logical cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterKind {
    /// The hub itself.
    Root,
    /// Nothing: this server serves all built-in kinds for it.
    Embedded,
    /// A real cluster: the hub stores instances and RGDs, the rest is relayed.
    Composite,
}

/// The kinds that every cluster of one [`ClusterKind`] serves.
#[derive(Debug, Default)]
pub(super) struct Layer {
    scopes: IndexMap<GroupVersionResource, Arc<ResourceScope>>,
    /// Kinds that are listed in discovery and answered elsewhere (reviews).
    pub(super) unstored: Vec<Arc<ServedKind>>,
}

/// What a cluster serves. Immutable.
#[derive(Clone)]
pub(super) struct ClusterView {
    kind: ClusterKind,
    layer: Arc<Layer>,
    /// Shared by the views before and after, of which there is one for each change.
    installed: IndexMap<Arc<GroupResource>, Arc<Installed>>,
    served: OnceLock<Arc<ServedKinds>>,
}

/// A resource in a version, borrowed: finds what a [`GroupVersionResource`] with the same fields, in the same order, is the key of.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct ResourceName<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) resource: &'a str,
}

/// A resource whatever its version, borrowed: likewise for a [`GroupResource`].
#[derive(Debug, Clone, Copy, Hash)]
struct AnyVersion<'a> {
    group: &'a str,
    resource: &'a str,
}

// === impl ResourceName ===

impl Equivalent<GroupVersionResource> for ResourceName<'_> {
    fn equivalent(&self, key: &GroupVersionResource) -> bool {
        (self.group, self.version, self.resource) == (&*key.group, &*key.version, &*key.resource)
    }
}

// === impl AnyVersion ===

impl Equivalent<Arc<GroupResource>> for AnyVersion<'_> {
    fn equivalent(&self, key: &Arc<GroupResource>) -> bool {
        (self.group, self.resource) == (&*key.group, &*key.resource)
    }
}

// === impl Layer ===

impl Layer {
    pub(super) fn new(scopes: Vec<ResourceScope>, unstored: Vec<Arc<ServedKind>>) -> Self {
        let scopes = scopes
            .into_iter()
            .map(|scope| (scope.kind.gvr.clone(), Arc::new(scope)));
        Self {
            scopes: scopes.collect(),
            unstored,
        }
    }

    #[cfg(test)]
    pub(super) fn get(
        &self,
        group: &str,
        version: &str,
        resource: &str,
    ) -> Option<&Arc<ResourceScope>> {
        self.scopes
            .get(&GroupVersionResource::new(group, version, resource))
    }

    fn has_resource(&self, resource: &GroupResource) -> bool {
        self.scopes
            .keys()
            .any(|gvr| gvr.group == resource.group && gvr.resource == resource.resource)
    }
}

// === impl ClusterView ===

impl ClusterView {
    pub(super) fn new(kind: ClusterKind, layer: Arc<Layer>) -> Self {
        Self {
            kind,
            layer,
            installed: IndexMap::new(),
            served: OnceLock::new(),
        }
    }

    pub(super) fn kind(&self) -> ClusterKind {
        self.kind
    }

    pub(super) fn lookup(&self, name: &ResourceName<'_>) -> Option<Arc<ResourceScope>> {
        if let Some(scope) = self.layer.scopes.get(name) {
            return Some(Arc::clone(scope));
        }
        let any_version = AnyVersion {
            group: name.group,
            resource: name.resource,
        };
        let installed = self.installed.get(&any_version)?;
        installed.versions.get(name.version).map(Arc::clone)
    }

    pub(super) fn lookup_gvr(&self, gvr: &GroupVersionResource) -> Option<Arc<ResourceScope>> {
        self.lookup(&ResourceName {
            group: &gvr.group,
            version: &gvr.version,
            resource: &gvr.resource,
        })
    }

    /// Whether the cluster's layer has a resource, so that no definition can add it.
    pub(super) fn is_built_in(&self, resource: &GroupResource) -> bool {
        self.layer.has_resource(resource)
    }

    pub(super) fn installed(&self, resource: &GroupResource) -> Option<&Arc<Installed>> {
        self.installed.get(resource)
    }

    /// Whether the cluster has a resource in some version.
    pub(super) fn stores(&self, resource: &GroupResource) -> bool {
        self.is_built_in(resource) || self.installed.contains_key(resource)
    }

    pub(super) fn all_installed(&self) -> impl Iterator<Item = &Arc<Installed>> {
        self.installed.values()
    }

    /// The same view with a definition's scopes, or without them.
    pub(super) fn with(&self, resource: &GroupResource, installed: Option<Installed>) -> Self {
        let mut view = self.clone();
        view.served = OnceLock::new();
        match installed {
            Some(installed) => {
                let (resource, installed) = (Arc::new(resource.clone()), Arc::new(installed));
                drop(view.installed.insert(resource, installed));
            }
            None => drop(view.installed.swap_remove(resource)),
        }
        view
    }

    /// Everything that is served, for discovery and OpenAPI; made when it is first asked for.
    pub(super) fn served(&self) -> Arc<ServedKinds> {
        let served = self.served.get_or_init(|| {
            let installed = self.installed_scopes().filter(|scope| scope.is_served());
            let stored = self.layer.scopes.values().chain(installed);
            let mut kinds: Vec<_> = stored.map(|scope| Arc::clone(&scope.kind)).collect();
            kinds.extend(self.layer.unstored.iter().map(Arc::clone));
            Arc::new(ServedKinds::new(kinds))
        });
        Arc::clone(served)
    }

    /// One scope of each place in the store that the cluster has objects in.
    pub(super) fn resources(&self) -> Vec<Arc<ResourceScope>> {
        let mut found: BTreeMap<GroupResource, Arc<ResourceScope>> = BTreeMap::new();
        for scope in self.layer.scopes.values().chain(self.installed_scopes()) {
            let is_stored_version = scope.version.api_version == scope.rules.storage.api_version;
            let resource = scope.rules.resource.clone();
            if is_stored_version {
                found.insert(resource, Arc::clone(scope));
            } else {
                found.entry(resource).or_insert_with(|| Arc::clone(scope));
            }
        }
        found.into_values().collect()
    }

    /// The one of [`ClusterView::resources`] that is stored under these names.
    pub(super) fn stored(&self, group: &str, resource: &str) -> Option<Arc<ResourceScope>> {
        let installed = self.installed.get(&AnyVersion { group, resource });
        let of_definition = installed
            .into_iter()
            .flat_map(|installed| installed.versions.values());
        let of_layer = self.layer.scopes.values();
        let mut found: Option<&Arc<ResourceScope>> = None;
        for scope in of_definition.chain(of_layer) {
            let stored = &scope.rules.resource;
            if (stored.group.as_str(), stored.resource.as_str()) != (group, resource) {
                continue;
            }
            if scope.version.api_version == scope.rules.storage.api_version {
                return Some(Arc::clone(scope));
            }
            found.get_or_insert(scope);
        }
        found.cloned()
    }

    /// A kind, in any version that is served.
    pub(super) fn of_kind(&self, group: &str, kind: &str) -> Option<Arc<ResourceScope>> {
        let installed = self.installed.values();
        let installed = installed.flat_map(|installed| installed.versions.values());
        let served = installed.filter(|scope| scope.is_served());
        let mut all = self.layer.scopes.values().chain(served);
        let found = all.find(|scope| scope.kind.gvk.group == group && scope.kind.gvk.kind == kind);
        found.cloned()
    }

    fn installed_scopes(&self) -> impl Iterator<Item = &Arc<ResourceScope>> {
        // In the order of names, so that equal views are seen as equal.
        let sorted: BTreeMap<_, _> = self.installed.iter().collect();
        sorted
            .into_values()
            .flat_map(|installed| installed.versions.values())
    }
}

impl fmt::Debug for ClusterView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterView")
            .field("kind", &self.kind)
            .field("installed", &self.installed.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::builtin;
    use super::*;

    #[test]
    fn a_resource_is_found_as_the_list_of_all_has_it() {
        for kind in [
            ClusterKind::Root,
            ClusterKind::Embedded,
            ClusterKind::Composite,
        ] {
            let view = ClusterView::new(kind, builtin::layer(kind));
            let all = view.resources();
            assert!(!all.is_empty(), "{kind:?} has resources");
            for scope in all {
                let name = &scope.rules.resource;
                let found = view.stored(&name.group, &name.resource);
                let is_same = found.is_some_and(|found| Arc::ptr_eq(&found, &scope));
                assert!(is_same, "{kind:?}: {name}");
            }
        }
    }

    #[test]
    fn a_kind_is_found_by_its_name() {
        let kind = ClusterKind::Embedded;
        let view = ClusterView::new(kind, builtin::layer(kind));
        let found = view.of_kind("apps", "Deployment").expect("it is built in");
        assert_eq!(found.kind.gvr.resource, "deployments", "its resource");
        assert!(view.of_kind("apps", "Widget").is_none(), "no such kind");
    }
}
