//! What a plan comes to: the state of the instance, its readiness in kro's words, its inventory.
//!
//! Source: kro `pkg/controller/instance/state.go`, `controller.go`, `resources.go`, `applyset/applyset.go`.

use api::kro::keys;
use api::{GroupKind, meta};
use dialect::quote;
use serde_json::Value;

use super::{Apply, InstanceState, NodeState, ObjectRef, Plan};
use crate::conditions::Mark;
use crate::graph::Node;
use crate::inventory::Inventory;

/// The inventory of what is to be applied.
pub(super) fn inventory_of(applies: &[Apply], instance: &Value) -> Inventory {
    let mut inventory = Inventory::empty(instance);
    let own = meta::namespace(instance);
    for apply in applies {
        let ObjectRef {
            group,
            kind,
            namespace,
            ..
        } = &apply.reference;
        let group_kind = GroupKind {
            group: group.clone(),
            kind: kind.clone(),
        };
        inventory.group_kinds.insert(group_kind);
        if apply.namespaced && namespace != own {
            inventory.namespaces.insert(namespace.clone());
        }
    }
    inventory
}

/// Words the refusal to take over an object of another ApplySet.
pub(super) fn membership_conflict(desired: &Value, node: &Node, live: &Value) -> Option<String> {
    let wanted = meta::label(desired, keys::LABEL_APPLYSET_PART_OF).unwrap_or_default();
    let found = meta::label(live, keys::LABEL_APPLYSET_PART_OF).unwrap_or_default();
    if found.is_empty() || found == wanted {
        return None;
    }
    let gvk = &node.gvk;
    Some(format!(
        "resource belongs to a different ApplySet: {} ({}/{}, Kind={}) belongs to ApplySet {}, cannot reassign to {}",
        ObjectRef::of(live).short(),
        gvk.group,
        gvk.version,
        gvk.kind,
        quote(found),
        quote(wanted)
    ))
}

// === impl Plan ===

impl Plan {
    /// The state of the instance, as far as its nodes make it.
    pub fn state(&self) -> InstanceState {
        // What fails without a node to blame (two nodes claim one object) leaves the instance on its way, as in kro.
        let mut state = if self.failure.is_some() {
            InstanceState::InProgress
        } else {
            InstanceState::Active
        };
        for node in &self.nodes {
            match node.state {
                NodeState::Error => return InstanceState::Error,
                NodeState::Synced | NodeState::Skipped => {}
                NodeState::InProgress | NodeState::Deleting | NodeState::WaitingForReadiness => {
                    state = InstanceState::InProgress;
                }
            }
        }
        if self.status_error.is_some() {
            InstanceState::Error
        } else {
            state
        }
    }

    /// What the condition `ResourcesReady` says.
    pub(crate) fn resources_ready(&self) -> Mark {
        const KIND: &str = keys::CONDITION_RESOURCES_READY;
        if let Some(why) = &self.deleting {
            return Mark::fails(KIND, keys::REASON_RESOURCE_DELETING, why.as_str());
        }
        let Some(why) = self.why_not_ready() else {
            return Mark::holds(
                KIND,
                keys::REASON_ALL_RESOURCES_READY,
                keys::MESSAGE_ALL_RESOURCES_READY,
            );
        };
        Mark::fails(
            KIND,
            keys::REASON_NOT_READY,
            format!("resource reconciliation failed: {why}"),
        )
    }

    fn why_not_ready(&self) -> Option<String> {
        if let Some(why) = &self.failure {
            return Some(why.clone());
        }
        let errors: Vec<&str> = self
            .nodes
            .iter()
            .filter(|node| {
                matches!(
                    node.state,
                    NodeState::Error | NodeState::WaitingForReadiness
                )
            })
            .filter_map(|node| node.message.as_deref())
            .collect();
        if !errors.is_empty() {
            return Some(format!(
                "apply results contain errors: {}",
                errors.join("\n")
            ));
        }
        if let Some(why) = &self.unresolved {
            return Some(format!("waiting for unresolved resource: {why}"));
        }
        if let Some(why) = &self.status_error {
            return Some(why.clone());
        }
        if self.state() == InstanceState::Active {
            None
        } else {
            Some("cluster mutated".to_owned())
        }
    }
}
