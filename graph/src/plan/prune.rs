//! Pruning: members of the ApplySet that no node wants any more.
//!
//! It is safe only when every node said what it wants and every apply succeeded. Waves go against the topological
//! order; what no node of the graph knows goes first.
//!
//! Source: kro `pkg/controller/instance/resources.go` pruneOrphans.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use api::kro::keys;
use api::meta;
use serde_json::Value;

use super::{NodeState, ObjectRef, Plan};

/// Objects that may be deleted at once.
#[derive(Clone, Debug)]
pub struct PruneWave {
    /// Their node's position in the topological order; one behind the last for those of no node.
    pub position: usize,
    /// The objects.
    pub objects: Vec<Arc<Value>>,
}

// === impl Plan ===

impl Plan {
    /// Whether members that the plan does not want may be deleted: every node said what it wants, and everything that it
    /// wants is there.
    pub fn prune_allowed(&self) -> bool {
        self.settled() && self.nodes.iter().all(|node| node.state != NodeState::Error)
    }

    /// Finds the members that are to go, in the order in which they go; a wave is deleted when the one before it was.
    /// Nothing when [`Self::prune_allowed`] is false. Delete with the uid as a precondition; after a conflict keep
    /// `inventory_before` and plan again.
    pub fn prune(&self, members: &[Arc<Value>]) -> Vec<PruneWave> {
        if !self.prune_allowed() {
            return Vec::new();
        }
        let wanted: HashSet<&ObjectRef> =
            self.applies.iter().map(|apply| &apply.reference).collect();
        let mut waves: BTreeMap<usize, Vec<Arc<Value>>> = BTreeMap::new();
        for member in members {
            if wanted.contains(&ObjectRef::of(member)) {
                continue;
            }
            let node = meta::label(member, keys::LABEL_NODE_ID).unwrap_or_default();
            let position = self.nodes.iter().position(|other| &*other.id == node);
            waves
                .entry(position.unwrap_or(self.nodes.len()))
                .or_default()
                .push(Arc::clone(member));
        }
        waves
            .into_iter()
            .rev()
            .map(|(position, objects)| PruneWave { position, objects })
            .collect()
    }
}
