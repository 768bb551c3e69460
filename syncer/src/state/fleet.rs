//! The targets that are connected now, by logical cluster.

use std::{collections::BTreeMap, sync::Arc};

use api::LogicalCluster;
use parking_lot::RwLock;

use super::target::Target;

/// Targets by logical cluster. Root is always there.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    // Guards the map; never held across an await.
    targets: RwLock<BTreeMap<LogicalCluster, Arc<Target>>>,
}

// === impl Fleet ===

impl Fleet {
    /// Returns the target of a logical cluster.
    pub(crate) fn get(&self, cluster: &LogicalCluster) -> Option<Arc<Target>> {
        self.targets.read().get(cluster).cloned()
    }

    /// Returns all targets.
    pub(crate) fn all(&self) -> Vec<Arc<Target>> {
        self.targets.read().values().cloned().collect()
    }

    /// Takes up a target; one that was there before is ended.
    pub(crate) fn connect(&self, target: Arc<Target>) {
        let before = self.targets.write().insert(target.cluster.clone(), target);
        if let Some(before) = before {
            before.token.cancel();
        }
    }

    /// Ends the target of a logical cluster.
    pub(crate) fn disconnect(&self, cluster: &LogicalCluster) {
        let before = self.targets.write().remove(cluster);
        if let Some(before) = before {
            before.token.cancel();
        }
    }
}
