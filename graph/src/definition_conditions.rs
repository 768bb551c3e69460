//! The conditions of ResourceGraphDefinitions and GraphRevisions, in kro's words.
//!
//! Source: kro `pkg/controller/resourcegraphdefinition/controller_status.go`,
//! `pkg/controller/graphrevision/controller_status.go`.

use api::kro::keys;

use crate::conditions::{ConditionSet, Mark};

/// The latest revision is compiled and serves.
pub fn revision_resolved(revision: i64) -> Mark {
    let message = format!("revision {revision} compiled and active");
    Mark::holds(
        keys::CONDITION_GRAPH_REVISIONS_RESOLVED,
        keys::REASON_RESOLVED,
        message,
    )
}

/// The definition compiles.
pub fn graph_accepted() -> Mark {
    let message = "resource graph and schema are valid";
    Mark::holds(keys::CONDITION_GRAPH_ACCEPTED, keys::REASON_VALID, message)
}

/// The definition does not compile.
pub fn graph_refused(message: &str) -> Mark {
    Mark::fails(
        keys::CONDITION_GRAPH_ACCEPTED,
        keys::REASON_INVALID_RESOURCE_GRAPH,
        message,
    )
}

/// The generated kind is served.
pub fn kind_ready(kind: &str) -> Mark {
    let message = format!("kind {kind} has been accepted and ready");
    Mark::holds(keys::CONDITION_KIND_READY, keys::REASON_READY, message)
}

/// The generated kind is not served.
pub fn kind_unready(message: &str) -> Mark {
    Mark::fails(keys::CONDITION_KIND_READY, keys::REASON_FAILED, message)
}

/// Instances are reconciled.
pub fn controller_running() -> Mark {
    Mark::holds(
        keys::CONDITION_CONTROLLER_READY,
        keys::REASON_RUNNING,
        "controller is running",
    )
}

/// Instances are not reconciled.
pub fn controller_failed(message: &str) -> Mark {
    Mark::fails(
        keys::CONDITION_CONTROLLER_READY,
        keys::REASON_FAILED_TO_START,
        message,
    )
}

/// A revision compiles.
pub fn revision_verified() -> Mark {
    let message = "graph revision compiled and verified";
    Mark::holds(
        keys::CONDITION_GRAPH_VERIFIED,
        keys::REASON_VERIFIED,
        message,
    )
}

/// The state of a definition: active as long as an accepted graph is served, whatever its revisions are doing.
pub fn definition_state(conditions: &ConditionSet) -> &'static str {
    let served = [
        keys::CONDITION_GRAPH_ACCEPTED,
        keys::CONDITION_KIND_READY,
        keys::CONDITION_CONTROLLER_READY,
    ];
    if served.into_iter().all(|kind| conditions.is_true(kind)) {
        keys::RGD_STATE_ACTIVE
    } else {
        keys::RGD_STATE_INACTIVE
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conditions::{DEFINITION, READY};

    #[test]
    fn a_definition_is_active_while_its_revisions_are_unresolved() {
        let object =
            json!({"metadata": {"generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}});
        let mut set = ConditionSet::open(&DEFINITION, &object, "2026-01-01T00:00:01Z");
        assert_eq!(definition_state(&set), "Inactive");
        for mark in [graph_accepted(), kind_ready("WebApp"), controller_running()] {
            set.mark(mark);
        }
        assert_eq!(definition_state(&set), "Active");
        assert!(!set.is_ready());
        set.mark(revision_resolved(1));
        assert!(set.is_true(READY));
        let messages: Vec<&str> = set
            .conditions()
            .iter()
            .filter_map(|condition| condition.message.as_deref())
            .collect();
        assert_eq!(
            messages,
            [
                "resource graph and schema are valid",
                "kind WebApp has been accepted and ready",
                "controller is running",
                "revision 1 compiled and active",
                "",
            ]
        );
        set.mark(graph_refused("no"));
        assert_eq!(definition_state(&set), "Inactive");
    }
}
