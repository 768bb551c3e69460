//! What the status of an instance says of its nodes: how each is and why, which objects the instance manages, and by which revision of its
//! definition.
//!
//! kro 0.9 has none of it, so all are there only where [`CompileOptions::node_status`](crate::CompileOptions) asks for them, and never in
//! the place of a field of the author. The objects have the shape of KREP-022; what is left out of a list is counted beside it.
//!
//! # Invariants
//! A status is written when it differs, so nothing in it changes while nothing happens: there is no time but that of the last
//! transition, and orders are those of the graph and of names. Texts come from spokes and authors: they are cut, and have no
//! control characters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::graph::CompiledGraph;
use crate::plan::{Managed, NodePlan, NodeReason, NodeState, Plan};
use crate::told::{MANAGED, MANAGED_OMITTED, NODES, NODES_OMITTED, REVISION};

/// Nodes of one status: more than definitions have that people read.
const NODE_COUNT_MAX: usize = 100;
/// Objects of one status: 30 KiB of them, where an instance is watched by many.
const MANAGED_COUNT_MAX: usize = 120;
/// Objects of one node, so that a collection leaves room for others.
const MANAGED_COUNT_OF_NODE_MAX: usize = 40;
/// Bytes of a message.
const MESSAGE_BYTES_MAX: usize = 512;
/// Bytes of a name, a kind and the like: more than Kubernetes permits for any.
const NAME_BYTES_MAX: usize = 253;

impl CompiledGraph {
    /// Adds to a status what a plan says of the nodes and of what is managed.
    pub(crate) fn tell_nodes(
        &self,
        status: &mut Map<String, Value>,
        instance: &Value,
        plan: &Plan,
        now: &str,
    ) {
        if self.told.nodes {
            let nodes = self.all_nodes(plan);
            let shown = shown(&nodes);
            put_count(status, NODES_OMITTED, nodes.len() - shown.len());
            let known = known(instance);
            let shown = shown.into_iter().map(|node| node.to_value(&known, now));
            status.insert(NODES.to_owned(), shown.collect());
        }
        if self.told.managed {
            let managed = self.managed(&plan.managed);
            put_count(status, MANAGED_OMITTED, plan.managed.len() - managed.len());
            status.insert(MANAGED.to_owned(), Value::Array(managed));
        }
    }

    /// Says by which revision of its definition the instance was reconciled.
    pub fn tell_revision(&self, status: &mut Value, number: i64) {
        if self.told.revision
            && let Some(status) = status.as_object_mut()
        {
            status.insert(REVISION.to_owned(), json!(number));
        }
    }

    /// Says of nodes that their objects wait to be deleted until somebody confirms it; `question` says how.
    pub fn tell_held(
        &self,
        status: &mut Value,
        instance: &Value,
        ids: &BTreeSet<String>,
        question: &str,
        now: &str,
    ) {
        if !self.told.nodes {
            return;
        }
        let known = known(instance);
        for node in status[NODES].as_array_mut().into_iter().flatten() {
            if node["id"].as_str().is_some_and(|id| ids.contains(id)) {
                let (state, reason) = (NodeState::InProgress, NodeReason::ConfirmationRequired);
                node["state"] = json!(state.as_str());
                node["reason"] = json!(reason.as_str());
                node["message"] = json!(printable(question, MESSAGE_BYTES_MAX));
                node["lastTransitionTime"] = json!(since(&known, node, now));
            }
        }
    }

    /// Leaves in a status of an instance that is being deleted what is there still: objects by their uids, and no nodes.
    pub(crate) fn tell_left(&self, status: &mut Map<String, Value>, left: &BTreeSet<&str>) {
        if self.told.nodes {
            status.remove(NODES);
            status.remove(NODES_OMITTED);
        }
        if self.told.managed
            && let Some(managed) = status.get_mut(MANAGED).and_then(Value::as_array_mut)
        {
            managed.retain(|it| it["uid"].as_str().is_some_and(|uid| left.contains(uid)));
            let omitted_count = left.len().saturating_sub(managed.len());
            put_count(status, MANAGED_OMITTED, omitted_count);
        }
    }

    /// The nodes of a plan, with those behind a failure.
    fn all_nodes(&self, plan: &Plan) -> Vec<NodePlan> {
        let mut nodes = plan.nodes.clone();
        if let Some(last) = nodes.last().map(|node| node.id.to_string()) {
            let behind = self.nodes.iter().skip(nodes.len());
            nodes.extend(behind.map(|node| NodePlan {
                id: Arc::clone(&node.id),
                kind: node.kind,
                state: NodeState::InProgress,
                reason: NodeReason::NotReached,
                message: Some(format!("node {} is in the way", dialect::quote(&last))),
                desired_count: None,
                observed_count: 0,
            }));
        }
        nodes
    }

    fn managed(&self, managed: &[Managed]) -> Vec<Value> {
        let mut counts: BTreeMap<Option<usize>, usize> = BTreeMap::new();
        let shown = managed.iter().filter(|it| {
            let count = counts.entry(it.node).or_default();
            *count += 1;
            *count <= MANAGED_COUNT_OF_NODE_MAX
        });
        let shown = shown.take(MANAGED_COUNT_MAX);
        shown.map(|it| self.managed_value(it)).collect()
    }

    fn managed_value(&self, managed: &Managed) -> Value {
        let reference = &managed.reference;
        let text = |text: &str| printable(text, NAME_BYTES_MAX);
        let mut value = Map::new();
        if let Some(node) = managed.node.and_then(|position| self.nodes.get(position)) {
            value.insert("nodeID".to_owned(), json!(*node.id));
        }
        let api_version = if reference.group.is_empty() {
            managed.version.clone()
        } else {
            format!("{}/{}", reference.group, managed.version)
        };
        value.insert("apiVersion".to_owned(), json!(text(&api_version)));
        value.insert("kind".to_owned(), json!(text(&reference.kind)));
        if !reference.namespace.is_empty() {
            value.insert("namespace".to_owned(), json!(text(&reference.namespace)));
        }
        value.insert("name".to_owned(), json!(text(&reference.name)));
        value.insert("uid".to_owned(), json!(text(&managed.uid)));
        Value::Object(value)
    }
}

// === impl NodePlan ===

impl NodePlan {
    /// Whether it is as it should be.
    fn is_well(&self) -> bool {
        matches!(self.state, NodeState::Synced | NodeState::Skipped)
    }

    fn to_value(&self, known: &BTreeMap<&str, &Value>, now: &str) -> Value {
        let mut node = json!({
            "id": *self.id,
            "state": self.state.as_str(),
            "reason": self.reason.as_str(),
            "observed": self.observed_count,
        });
        if let Some(message) = &self.message {
            node["message"] = json!(printable(message, MESSAGE_BYTES_MAX));
        }
        if let Some(desired_count) = self.desired_count {
            node["desired"] = json!(desired_count);
        }
        node["lastTransitionTime"] = json!(since(known, &node, now));
        node
    }
}

/// Chooses the nodes that are shown, in their order: before all those that are in the way, then those that wait for them.
fn shown(nodes: &[NodePlan]) -> Vec<&NodePlan> {
    let rank = |node: &NodePlan| (node.is_well(), node.reason.waits_for_others());
    let mut chosen: Vec<(usize, &NodePlan)> = nodes.iter().enumerate().collect();
    chosen.sort_by_key(|(position, node)| (rank(node), *position));
    chosen.truncate(NODE_COUNT_MAX);
    chosen.sort_by_key(|(position, _)| *position);
    chosen.into_iter().map(|(_, node)| node).collect()
}

/// The nodes as the status has them, by id.
fn known(instance: &Value) -> BTreeMap<&str, &Value> {
    let nodes = instance["status"][NODES].as_array().into_iter().flatten();
    nodes
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect()
}

/// Since when a node is as it is.
fn since<'a>(known: &BTreeMap<&str, &'a Value>, node: &Value, now: &'a str) -> &'a str {
    let id = node["id"].as_str().unwrap_or_default();
    let same = known
        .get(id)
        .filter(|known| known["state"] == node["state"] && known["reason"] == node["reason"]);
    same.and_then(|known| known["lastTransitionTime"].as_str())
        .unwrap_or(now)
}

fn put_count(status: &mut Map<String, Value>, name: &str, count: usize) {
    if count > 0 {
        status.insert(name.to_owned(), json!(count));
    } else {
        status.remove(name);
    }
}

/// Returns a text without control characters that is not longer than so many bytes: what a spoke or an author says may be anything.
pub fn printable(text: &str, bytes_max: usize) -> String {
    const CUT: &str = "...";
    let plain = |it: char| if it.is_control() { ' ' } else { it };
    if text.len() <= bytes_max {
        return text.chars().map(plain).collect();
    }
    let mut left = bytes_max - CUT.len();
    let mut short: String = text
        .chars()
        .take_while(|it| {
            let fits = it.len_utf8() <= left;
            left = left.saturating_sub(it.len_utf8());
            fits
        })
        .map(plain)
        .collect();
    short.push_str(CUT);
    short
}

#[cfg(test)]
mod tests;
