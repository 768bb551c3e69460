//! The logical clusters that there are, each with its current view.

use std::collections::HashMap;
use std::sync::Arc;

use api::LogicalCluster;
use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::scope::ResourceScope;
use super::view::{ClusterView, ResourceName};
use crate::served::{ContentHash, ServedKinds};

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

    /// Root's, or else that of the first cluster (by name) that has one: all clusters of one kind's definition may
    /// differ, and an answer over all of them must take one.
    pub(super) fn lookup_anywhere(&self, name: &ResourceName<'_>) -> Option<Arc<ResourceScope>> {
        let slots = self.slots.load();
        if let Some(scope) = slots
            .get(&LogicalCluster::root())
            .and_then(|slot| slot.load().lookup(name))
        {
            return Some(scope);
        }
        drop(slots);
        self.names()
            .iter()
            .find_map(|cluster| self.view(cluster)?.lookup(name))
    }

    /// The kinds of all clusters together; of a name that several serve, root's or the first cluster's.
    pub(super) fn served_anywhere(&self) -> Arc<ServedKinds> {
        let root = LogicalCluster::root();
        let mut names = self.names();
        names.sort_by_key(|name| *name != root);
        let all: Vec<_> = names
            .iter()
            .filter_map(|name| self.view(name))
            .map(|view| view.served())
            .collect();
        let mut hashes: Vec<_> = all.iter().map(|served| served.hash()).collect();
        hashes.dedup();
        let mut everywhere = self.everywhere.lock();
        if let Some((known, served)) = everywhere.as_ref()
            && *known == hashes
        {
            return Arc::clone(served);
        }
        let mut kinds = std::collections::BTreeMap::new();
        for kind in all.iter().flat_map(|served| served.kinds()) {
            kinds
                .entry(kind.gvr.clone())
                .or_insert_with(|| Arc::clone(kind));
        }
        let served = Arc::new(ServedKinds::new(kinds.into_values().collect()));
        *everywhere = Some((hashes, Arc::clone(&served)));
        served
    }
}
