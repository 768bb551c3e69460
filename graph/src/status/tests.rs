//! Statuses from the first look to the end of an instance.

use std::sync::Arc;

use api::kro::RgdSpec;

use super::*;
use crate::plan::{Observed, PlanInput};
use crate::resolve::builtin_kinds::BuiltinKinds;
use crate::{Applied, Settings, compile};

const NOW: &str = "2026-01-01T00:00:05Z";
const LATER: &str = "2026-01-01T00:00:09Z";

fn graph(status: &Value) -> Arc<CompiledGraph> {
    let definition = json!({
        "schema": {"kind": "Web", "apiVersion": "v1", "spec": {"name": "string", "zero": "integer"}, "status": status},
        "resources": [{
            "id": "config",
            "readyWhen": ["${config.data.ready == 'yes'}"],
            "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
        }],
    });
    let spec: RgdSpec = serde_json::from_value(definition).expect("is a spec");
    compile(&spec, "web", &BuiltinKinds).unwrap_or_else(|error| panic!("{error}"))
}

fn instance() -> Value {
    json!({
        "apiVersion": "kro.run/v1", "kind": "Web",
        "metadata": {
            "name": "demo", "namespace": "shop", "uid": "u", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"name": "n", "zero": 0},
    })
}

/// A plan for an instance whose child says whether it is ready; `None` when there is none.
fn plan(graph: &CompiledGraph, instance: &Value, ready: Option<&str>) -> Plan {
    let settings = Settings::default();
    let mut observed = Observed::new();
    let input = PlanInput {
        instance,
        observed: &observed,
        settings: &settings,
    };
    let first = graph.plan(&input);
    if let (Some(ready), Some(apply)) = (ready, first.applies.first()) {
        let mut live = apply.object.clone();
        live["data"]["ready"] = json!(ready);
        observed.applied(&apply.reference, Applied::of(&apply.object, &live));
        observed.child(Arc::new(live));
    }
    graph.plan(&PlanInput {
        instance,
        observed: &observed,
        settings: &settings,
    })
}

/// Type, status, reason and message of every condition, in order.
fn conditions(status: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    status["conditions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|c| {
            format!(
                "{} {} {}: {}",
                text(&c["type"]),
                text(&c["status"]),
                text(&c["reason"]),
                text(&c["message"])
            )
        })
        .collect()
}

#[test]
fn an_instance_becomes_active_in_kros_words() {
    let graph = graph(&json!({"phase": "${config.data.ready}", "state": "${config.data.a}"}));
    let mut instance = instance();
    let status = graph.status(&instance, &plan(&graph, &instance, None), NOW);
    assert_eq!(status["state"], "IN_PROGRESS");
    assert_eq!(
        conditions(&status)[2],
        "ResourcesReady False NotReady: resource reconciliation failed: cluster mutated"
    );
    assert_eq!(status.get("phase"), None);

    let status = graph.status(&instance, &plan(&graph, &instance, Some("no")), NOW);
    assert_eq!(status["state"], "IN_PROGRESS");
    let message = "resource reconciliation failed: apply results contain errors: waiting for node \"config\": readyWhen \
                   condition evaluated to false: \"config.data.ready == 'yes'\" (waiting for readiness)";
    assert_eq!(
        conditions(&status)[2],
        format!("ResourcesReady False NotReady: {message}")
    );
    assert_eq!(
        conditions(&status)[3],
        format!("Ready False NotReady: {message}")
    );
    instance["status"] = status;

    let status = graph.status(&instance, &plan(&graph, &instance, Some("yes")), LATER);
    assert_eq!(
        conditions(&status),
        [
            "InstanceManaged True Managed: instance is properly managed with finalizers and labels",
            "GraphResolved True Resolved: runtime graph created and all resources resolved",
            "ResourcesReady True AllResourcesReady: all resources are created and ready",
            "Ready True Ready: ",
        ]
    );
    assert_eq!(status["state"], "ACTIVE");
    assert_eq!(status["phase"], "yes", "and the author's own state is not");
    instance["status"] = status.clone();
    let much_later = "2026-02-01T00:00:00Z";
    let again = graph.status(&instance, &plan(&graph, &instance, Some("yes")), much_later);
    assert_eq!(
        again, status,
        "nothing has changed, so nothing is to be written"
    );
}

#[test]
fn a_status_field_that_fails_is_told() {
    let graph = graph(&json!({"bad": "${1 / schema.spec.zero}", "good": "${config.data.ready}"}));
    let instance = instance();
    let status = graph.status(&instance, &plan(&graph, &instance, Some("yes")), NOW);
    assert_eq!(status["state"], "ERROR");
    assert_eq!(status["good"], "yes");
    assert_eq!(
        conditions(&status)[2],
        "ResourcesReady False NotReady: resource reconciliation failed: eval \"1 / schema.spec.zero\": division by zero"
    );
}

#[test]
fn a_suspended_instance_shows_what_it_knows_of_itself() {
    let graph = graph(&json!({"phase": "${config.data.ready}", "name": "${schema.spec.name}"}));
    let mut instance = instance();
    instance["status"] = graph.status(&instance, &plan(&graph, &instance, Some("yes")), NOW);
    let status = graph.suspended_status(&instance, LATER);
    assert_eq!(status["name"], "n");
    assert_eq!(status.get("phase"), None);
    assert_eq!(status["state"], "ACTIVE");
    assert_eq!(
        conditions(&status)[2],
        "ResourcesReady False ReconciliationSuspended: reconciliation suspended via kro.run/reconcile annotation"
    );
}

#[test]
fn an_instance_without_a_graph_keeps_what_it_had() {
    let graph = graph(&json!({"phase": "${config.data.ready}"}));
    let mut instance = instance();
    instance["status"] = graph.status(&instance, &plan(&graph, &instance, Some("yes")), NOW);
    let status = unresolved(
        None,
        &instance,
        "latest issued graph revision 2 failed",
        LATER,
    );
    assert_eq!(status["phase"], "yes");
    assert_eq!(status["state"], "ERROR");
    let found = conditions(&status);
    assert!(
        found.contains(
            &"GraphResolved False ResolutionFailed: latest issued graph revision 2 failed"
                .to_owned()
        ),
        "{found:?}"
    );
}

#[test]
fn deletion_is_told_over_what_was() {
    let graph = graph(&json!({"phase": "${config.data.ready}"}));
    let mut instance = instance();
    instance["status"] = graph.status(&instance, &plan(&graph, &instance, Some("yes")), NOW);
    instance["metadata"]["deletionTimestamp"] = json!(LATER);
    instance["metadata"]["generation"] = json!(2);
    let status = deleting(
        None,
        &instance,
        "deleting resources",
        &BTreeSet::new(),
        LATER,
    );
    assert_eq!(status["state"], "DELETING");
    assert_eq!(status["phase"], "yes");
    assert_eq!(
        conditions(&status)[2],
        "ResourcesReady Unknown UnderDeletion: deleting resources"
    );
    assert_eq!(
        conditions(&status)[3],
        "Ready Unknown UnderDeletion: deleting resources"
    );
    for condition in status["conditions"].as_array().expect("a list") {
        assert_eq!(condition["observedGeneration"], 2);
    }
}

#[test]
fn the_authors_conditions_stand_in_place_of_kros() {
    let new = |kind: &str, status: &str| {
        format!(
            "${{runtime.newCondition({{type: '{kind}', status: {status}, reason: 'R', message: ''}})}}"
        )
    };
    let graph = graph(&json!({"conditions": [
        new("Available", "config.data.ready == 'yes' ? 'True' : 'False'"),
        new("Mirror", "runtime.condition(schema, 'Ready').status"),
    ]}));
    assert!(graph.has_author_conditions());
    let mut instance = instance();
    let status = graph.status(&instance, &plan(&graph, &instance, Some("no")), NOW);
    assert_eq!(
        conditions(&status),
        ["Available False R: ", "Mirror False R: "]
    );
    assert_eq!(
        status["conditions"][0].get("message"),
        None,
        "an empty message is left out"
    );
    assert_eq!(status["conditions"][0]["lastTransitionTime"], NOW);
    instance["status"] = status;

    // Without the child the first gives nothing: what was written before stays.
    let status = graph.status(&instance, &plan(&graph, &instance, None), LATER);
    assert_eq!(
        conditions(&status),
        ["Mirror False R: ", "Available False R: "]
    );
    assert_eq!(status["conditions"][0]["lastTransitionTime"], NOW);

    let status = graph.status(&instance, &plan(&graph, &instance, Some("yes")), LATER);
    assert_eq!(
        conditions(&status),
        ["Available True R: ", "Mirror True R: "]
    );
    assert_eq!(status["conditions"][0]["lastTransitionTime"], LATER);
    assert_eq!(status["state"], "ACTIVE");
    instance["status"] = status;

    // Deletion lays kro's condition over them, whether or not there is a graph to ask.
    for graph in [Some(&*graph), None] {
        let status = deleting(
            graph,
            &instance,
            "deleting resources",
            &BTreeSet::new(),
            LATER,
        );
        assert_eq!(
            conditions(&status),
            [
                "ResourcesReady Unknown UnderDeletion: deleting resources",
                "Available True R: ",
                "Mirror True R: "
            ]
        );
        let status = unresolved(graph, &instance, "x", LATER);
        assert_eq!(
            conditions(&status),
            ["Available True R: ", "Mirror True R: "]
        );
    }
}
