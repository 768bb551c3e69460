//! An instance that is not ready, and the node in the way.
//!
//! The node is the one that the status of the instance names, where the gate `InstanceNodeStatus` is open; elsewhere the one that the
//! message of a condition names, if it does.

use api::meta;
use serde::Serialize;
use serde_json::Value;

/// Reasons of nodes that only wait for another one.
const OF_OTHERS: [&str; 5] = [
    "DataPending",
    "DependencyFailed",
    "DependencyNotReady",
    "IncludeWhenPending",
    "NotReached",
];

/// An instance that is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    pub(super) cluster: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) state: String,
    /// The first node in the way; empty where the instance does not say.
    pub(super) node: String,
    pub(super) reason: String,
    pub(super) message: String,
}

// === impl Waiting ===

impl Waiting {
    /// Reads an instance; `None` for one that is ready.
    pub(super) fn of(cluster: &str, instance: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let status = &instance["status"];
        if status["state"] == "ACTIVE" {
            return None;
        }
        let nodes = status["nodes"].as_array();
        let held: Vec<&Value> = nodes
            .into_iter()
            .flatten()
            .filter(|node| node["state"] != "SYNCED" && node["state"] != "SKIPPED")
            .filter(|node| node["id"].is_string())
            .collect();
        let is_first = |node: &&&Value| {
            let reason = node["reason"].as_str().unwrap_or_default();
            !OF_OTHERS.contains(&reason)
        };
        let node = held.iter().find(is_first).or_else(|| held.first());
        let conditions = status["conditions"].as_array();
        let conditions = conditions.into_iter().flatten();
        let failing = conditions.filter(|it| it["status"] != "True" && it["type"] != "Ready");
        // One that nobody has come to yet says nothing.
        let failing = failing.min_by_key(|it| it["reason"] == api::kro::keys::REASON_AWAITING);
        let why = node.copied().or(failing);
        let message = why.map(|why| text(&why["message"])).unwrap_or_default();
        let node = match node {
            Some(node) => text(&node["id"]),
            None => node_in(&message).to_owned(),
        };
        Some(Self {
            cluster: cluster.to_owned(),
            kind: meta::kind(instance).to_owned(),
            namespace: meta::namespace(instance).to_owned(),
            name: meta::name(instance).to_owned(),
            state: text(&status["state"]),
            node,
            reason: why.map(|why| text(&why["reason"])).unwrap_or_default(),
            message,
        })
    }

    /// Its cluster, kind, namespace and name.
    pub(super) fn address(&self) -> String {
        format!("{}/{}/{}", self.cluster, self.kind, self.place())
    }

    /// Its namespace and name.
    pub(super) fn place(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

/// Returns the node that a message of kro names as the cause: the one that another depends on before that one. Empty where it names none.
fn node_in(message: &str) -> &str {
    let after = |words| message.split_once(words).map(|(_, rest)| rest);
    let named = after("dependent node \"").or_else(|| after("node \""));
    named
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_node_in_the_way_is_named_and_not_one_that_waits_for_it() {
        let node = |id: &str, state: &str, reason: &str| json!({"id": id, "state": state, "reason": reason, "message": format!("of {id}")});
        let nodes = json!([
            node("a", "SYNCED", "Ready"),
            node("b", "IN_PROGRESS", "DependencyNotReady"),
            node("c", "WAITING_FOR_READINESS", "ReadyWhenNotTrue"),
        ]);
        let conditions = json!([{"type": "ResourcesReady", "status": "False", "reason": "NotReady", "message": "of it"}]);
        let instance = |nodes: &Value| {
            json!({
                "kind": "App", "metadata": {"name": "one", "namespace": "x"},
                "status": {"state": "IN_PROGRESS", "nodes": nodes, "conditions": conditions},
            })
        };
        let of = |nodes: &Value| {
            let waiting = Waiting::of("east", &instance(nodes)).expect("it is not ready");
            (waiting.node, waiting.reason, waiting.message)
        };
        let words = |it: [&str; 3]| (it[0].to_owned(), it[1].to_owned(), it[2].to_owned());
        assert_eq!(of(&nodes), words(["c", "ReadyWhenNotTrue", "of c"]));
        let waits = json!({"type": "InstanceManaged", "status": "Unknown", "reason": "AwaitingReconciliation", "message": "a"});
        let mut in_root = instance(&json!(null));
        in_root["status"]["conditions"] = json!([waits, conditions[0]]);
        let why = Waiting::of("root", &in_root).expect("it is not ready");
        assert_eq!(why.message, "of it", "not what nobody has come to");
        for odd in [json!(null), json!("mine"), json!([1, {}])] {
            assert_eq!(of(&odd), words(["", "NotReady", "of it"]), "{odd}");
        }
        for (message, want) in [
            (
                "waiting for node \"db\": readyWhen (waiting for readiness)",
                "db",
            ),
            (
                "gvr \"v1, Resource=pods\": node \"web\": dependent node \"db\" not ready",
                "db",
            ),
            ("resource reconciliation failed: cluster mutated", ""),
            ("node \"", ""),
        ] {
            assert_eq!(node_in(message), want, "{message}");
        }
        let ready = json!({"status": {"state": "ACTIVE", "nodes": nodes}});
        assert_eq!(Waiting::of("east", &ready), None);
        let waiting = Waiting::of("east", &instance(&nodes)).expect("it is not ready");
        assert_eq!(
            (waiting.place().as_str(), waiting.state.as_str()),
            ("x/one", "IN_PROGRESS")
        );
    }
}
