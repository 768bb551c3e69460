//! The logical clusters that there are, each with its current view.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::{GroupVersionResource, LogicalCluster};
use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::scope::ResourceScope;
use super::view::{ClusterKind, ClusterView};
use crate::served::{ContentHash, ServedKind, ServedKinds};

/// All clusters. The map is replaced when one comes or goes, a slot's content when its kinds change.
#[derive(Debug, Default)]
pub(super) struct Clusters {
    slots: ArcSwap<HashMap<LogicalCluster, Arc<ArcSwap<ClusterView>>>>,
    /// Guards the union of all clusters' kinds, with the hashes that it was made of.
    everywhere: Mutex<Option<(Vec<ContentHash>, Arc<ServedKinds>)>>,
}

// === impl Clusters ===

impl Clusters {
    pub(super) fn view(&self, cluster: &LogicalCluster) -> Option<Arc<ClusterView>> {
        self.slots.load().get(cluster).map(|slot| slot.load_full())
    }

    pub(super) fn names(&self) -> Vec<LogicalCluster> {
        let mut names: Vec<_> = self.slots.load().keys().cloned().collect();
        names.sort();
        names
    }

    /// Puts a view in place; only the follower does.
    pub(super) fn put(&self, cluster: &LogicalCluster, view: ClusterView) {
        let view = Arc::new(view);
        if let Some(slot) = self.slots.load().get(cluster) {
            slot.store(view);
            return;
        }
        let mut slots = HashMap::clone(&self.slots.load());
        slots.insert(cluster.clone(), Arc::new(ArcSwap::new(view)));
        self.slots.store(Arc::new(slots));
    }

    /// Takes a cluster away; only the follower does.
    pub(super) fn remove(&self, cluster: &LogicalCluster) -> Option<Arc<ClusterView>> {
        let mut slots = HashMap::clone(&self.slots.load());
        let removed = slots.remove(cluster)?;
        self.slots.store(Arc::new(slots));
        Some(removed.load_full())
    }

    /// A cluster's definition, by the name that a key has for the cluster.
    pub(super) fn lookup(
        &self,
        cluster: &str,
        name: &GroupVersionResource,
    ) -> Option<Arc<ResourceScope>> {
        let slots = self.slots.load();
        slots.get(cluster)?.load().lookup_gvr(name)
    }

    /// The clusters that serve a resource in a version: root first, the others by name.
    pub(super) fn serving(&self, name: &GroupVersionResource) -> Vec<LogicalCluster> {
        let slots = self.slots.load();
        let mut serving: Vec<_> = slots
            .iter()
            .filter(|(_, slot)| slot.load().lookup_gvr(name).is_some())
            .map(|(cluster, _)| cluster.clone())
            .collect();
        serving.sort_by(|a, b| (!a.is_root(), a).cmp(&(!b.is_root(), b)));
        serving
    }

    /// The clusters of spokes for which no version of a resource is stored, by name.
    pub(super) fn relaying(&self, name: &GroupVersionResource) -> Vec<LogicalCluster> {
        let resource = name.group_resource();
        let slots = self.slots.load();
        let mut relaying: Vec<_> = slots
            .iter()
            .filter(|(_, slot)| {
                let view = slot.load();
                view.kind() == ClusterKind::Composite && !view.stores(&resource)
            })
            .map(|(cluster, _)| cluster.clone())
            .collect();
        relaying.sort();
        relaying
    }

    /// The kinds of all clusters together.
    pub(super) fn served_anywhere(&self) -> Arc<ServedKinds> {
        let root = LogicalCluster::root();
        let mut names = self.names();
        names.sort_by_key(|name| *name != root);
        let views = names.iter().filter_map(|name| self.view(name));
        let all: Vec<_> = views.map(|view| view.served()).collect();
        let mut hashes: Vec<_> = all.iter().map(|served| served.hash()).collect();
        hashes.dedup();
        let mut everywhere = self.everywhere.lock();
        if let Some((known, served)) = everywhere.as_ref()
            && *known == hashes
        {
            return Arc::clone(served);
        }
        let served = together(&all);
        *everywhere = Some((hashes, Arc::clone(&served)));
        served
    }
}

/// The kinds of several clusters; where they serve a name differently, what they have in common.
pub(super) fn together(all: &[Arc<ServedKinds>]) -> Arc<ServedKinds> {
    // Most clusters serve the same: each set counts once.
    let mut sets = std::collections::HashSet::new();
    let mut kinds: BTreeMap<&GroupVersionResource, Vec<&Arc<ServedKind>>> = BTreeMap::new();
    for served in all.iter().filter(|served| sets.insert(served.hash())) {
        for kind in served.kinds() {
            kinds.entry(&kind.gvr).or_default().push(kind);
        }
    }
    let common = |kinds: &Vec<&Arc<ServedKind>>| {
        let first = kinds.first()?;
        if kinds.iter().all(|kind| Arc::ptr_eq(kind, first)) {
            return Some(Arc::clone(first));
        }
        ServedKind::common(kinds).map(Arc::new)
    };
    Arc::new(ServedKinds::new(
        kinds.values().filter_map(common).collect(),
    ))
}
