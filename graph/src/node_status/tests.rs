//! What instances say of their nodes.

use api::kro::RgdSpec;

use super::*;
use crate::plan::{NodeReason, Observed, PlanInput};
use crate::resolve::builtin_kinds::BuiltinKinds;
use crate::{CompileOptions, Settings, compatibility, compile_with};

const NOW: &str = "2026-01-01T00:00:05Z";
const LATER: &str = "2026-01-01T00:00:09Z";

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn compiled(node_status: bool, status: &Value, resources: &Value) -> Arc<CompiledGraph> {
    let spec = json!({"on": "boolean", "items": "[]string"});
    let schema = json!({"kind": "Web", "apiVersion": "v1", "spec": spec, "status": status});
    let definition = json!({"schema": schema, "resources": resources});
    let spec: RgdSpec = serde_json::from_value(definition).expect("is a spec");
    let options = CompileOptions {
        node_status,
        ..CompileOptions::default()
    };
    compile_with(&spec, "web", &BuiltinKinds, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// A node that waits, one that waits for it, one that is left out, one that needs that, and a collection.
fn graph() -> Arc<CompiledGraph> {
    let resources = json!([
        {"id": "first", "readyWhen": ["${first.data.ready == 'yes'}"], "template": map("first", &json!({"a": "b"}))},
        {"id": "second", "template": map("second", &json!({"a": "${first.data.ready}"}))},
        {"id": "absent", "includeWhen": ["${schema.spec.on}"], "template": map("absent", &json!({}))},
        {"id": "needs", "template": map("needs", &json!({"a": "${absent.metadata.name}"}))},
        {"id": "many", "forEach": [{"one": "${schema.spec.items}"}], "template": map("${'m-' + one}", &json!({}))},
    ]);
    compiled(true, &Value::Null, &resources)
}

fn instance(items: usize) -> Value {
    let items: Vec<String> = (0..items).map(|it| it.to_string()).collect();
    json!({
        "apiVersion": "kro.run/v1", "kind": "Web",
        "metadata": {"name": "demo", "namespace": "shop", "uid": "u", "generation": 1},
        "spec": {"on": false, "items": items},
    })
}

/// Plans, and lets what is planned be there, as often as asked for.
fn settle(graph: &CompiledGraph, instance: &Value, observed: &mut Observed, times: usize) -> Plan {
    let settings = Settings::default();
    let plan = |observed: &Observed| {
        graph.plan(&PlanInput {
            instance,
            observed,
            settings: &settings,
        })
    };
    for _ in 0..times {
        for apply in plan(observed).changes() {
            let mut live = apply.object.clone();
            let uid = format!("uid-of-{}", apply.id);
            live["metadata"]["uid"] = json!(uid);
            observed.applied(&apply.reference, crate::Applied::of(&apply.object, &live));
            observed.claimed(&apply.reference, &uid);
            observed.child(Arc::new(live));
        }
    }
    plan(observed)
}

fn told(status: &Value) -> Vec<(&str, &str, &str)> {
    let nodes = status["nodes"].as_array().expect("nodes").iter();
    let text =
        |node: &'_ Value, key: &str| node[key].as_str().map(str::to_owned).unwrap_or_default();
    nodes
        .map(|node| {
            assert!(!text(node, "lastTransitionTime").is_empty(), "{node}");
            (
                node["id"].as_str().unwrap_or_default(),
                node["state"].as_str().unwrap_or_default(),
                node["reason"].as_str().unwrap_or_default(),
            )
        })
        .collect()
}

#[test]
fn an_instance_says_its_revision_where_the_gate_is_open_and_the_name_is_free() {
    let resources = json!([{"id": "one", "template": map("one", &json!({}))}]);
    let own = json!({"graphRevision": "${one.metadata.name}"});
    for (gate, status, want) in [
        (true, &Value::Null, json!(7)),
        (false, &Value::Null, Value::Null),
        (true, &own, json!("one")),
    ] {
        let graph = compiled(gate, status, &resources);
        let (instance, mut observed) = (instance(0), Observed::new());
        let plan = settle(&graph, &instance, &mut observed, 1);
        let mut told = graph.status(&instance, &plan, NOW);
        graph.tell_revision(&mut told, 7);
        assert_eq!(told["graphRevision"], want, "{gate} {status}");
    }
}

#[test]
fn each_node_says_how_it_is_and_why() {
    let (graph, instance) = (graph(), instance(2));
    let mut observed = Observed::new();
    let plan = settle(&graph, &instance, &mut observed, 3);
    let status = graph.status(&instance, &plan, NOW);
    assert_eq!(
        told(&status),
        [
            ("first", "WAITING_FOR_READINESS", "ReadyWhenNotTrue"),
            ("second", "IN_PROGRESS", "DependencyNotReady"),
            ("absent", "SKIPPED", "IncludeWhenFalse"),
            ("needs", "SKIPPED", "DependencySkipped"),
            ("many", "SYNCED", "Ready"),
        ]
    );
    let message = |at: usize| status["nodes"][at]["message"].as_str().unwrap_or_default();
    assert!(
        message(0).contains("first.data.ready == 'yes'"),
        "{}",
        message(0)
    );
    assert!(message(1).contains("\"first\" not ready"), "{}", message(1));
    assert_eq!(message(2), "includeWhen is false: \"schema.spec.on\"");
    assert_eq!(
        message(3),
        "it depends on node \"absent\", which is not wanted"
    );
    assert_eq!(status["nodes"][4]["desired"], 2);
    assert_eq!(
        status["managedResources"],
        json!([
            {"nodeID": "first", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "first", "uid": "uid-of-first"},
            {"nodeID": "many", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "m-0", "uid": "uid-of-many-0"},
            {"nodeID": "many", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "m-1", "uid": "uid-of-many-1"},
        ])
    );
}

#[test]
fn nothing_is_written_again_while_nothing_happens() {
    let (graph, mut instance) = (graph(), instance(2));
    let mut observed = Observed::new();
    let plan = settle(&graph, &instance, &mut observed, 3);
    let status = graph.status(&instance, &plan, NOW);
    instance["status"] = status.clone();
    let plan = settle(&graph, &instance, &mut observed, 1);
    assert_eq!(graph.status(&instance, &plan, LATER), status);
    observed.failed("many-1", NodeReason::Denied, "no\u{1b}[2J\nway".to_owned());
    let plan = settle(&graph, &instance, &mut observed, 0);
    let status = graph.status(&instance, &plan, LATER);
    assert_eq!(told(&status)[4], ("many", "ERROR", "Denied"));
    assert_eq!(
        status["nodes"][4]["message"],
        "collection item 1: no [2J way"
    );
    assert_eq!(status["nodes"][4]["lastTransitionTime"], LATER);
    assert_eq!(status["nodes"][0]["lastTransitionTime"], NOW);
}

#[test]
fn what_is_held_says_so_and_since_when() {
    let (graph, mut instance) = (graph(), instance(2));
    let mut observed = Observed::new();
    let plan = settle(&graph, &instance, &mut observed, 3);
    let ids = BTreeSet::from(["many".to_owned()]);
    for (now, want) in [(NOW, NOW), (LATER, NOW)] {
        let mut status = graph.status(&instance, &plan, now);
        graph.tell_held(&mut status, &instance, &ids, "say so", now);
        assert_eq!(
            told(&status)[4],
            ("many", "IN_PROGRESS", "ConfirmationRequired")
        );
        assert_eq!(status["nodes"][4]["lastTransitionTime"], want);
        instance["status"] = status;
    }
}

#[test]
fn a_large_collection_does_not_blow_the_status_up() {
    let (graph, instance) = (graph(), instance(1000));
    let mut observed = Observed::new();
    let plan = settle(&graph, &instance, &mut observed, 2);
    let status = graph.status(&instance, &plan, NOW);
    let shown = status["managedResources"].as_array().expect("a list");
    assert_eq!(shown.len(), 1 + MANAGED_COUNT_OF_NODE_MAX);
    assert_eq!(shown[0]["nodeID"], "first");
    assert_eq!(status["managedResourcesOmitted"], 1001 - shown.len());
    assert!(
        status.to_string().len() < 16 * 1024,
        "{}",
        status.to_string().len()
    );
    let long = "\u{e4}".repeat(1000);
    let cut = printable(&long, MESSAGE_BYTES_MAX);
    assert!(
        cut.len() <= MESSAGE_BYTES_MAX && cut.ends_with("\u{e4}..."),
        "{cut}"
    );
}

#[test]
fn of_many_nodes_those_in_the_way_are_shown() {
    let resource = |at: usize| {
        let mut resource =
            json!({"id": format!("n{at}"), "template": map(&format!("n{at}"), &json!({"a": "b"}))});
        if at == 119 {
            resource["readyWhen"] = json!(["${n119.data.ready == 'yes'}"]);
        }
        resource
    };
    let resources: Vec<Value> = (0..120).map(resource).collect();
    let graph = compiled(true, &Value::Null, &json!(resources));
    let instance = instance(0);
    let plan = settle(&graph, &instance, &mut Observed::new(), 2);
    let status = graph.status(&instance, &plan, NOW);
    let told = told(&status);
    assert_eq!(told.len(), NODE_COUNT_MAX);
    assert_eq!(status["nodesOmitted"], 20);
    assert_eq!(
        told.last().map(|it| (it.0, it.2)),
        Some(("n119", "ReadyWhenNotTrue"))
    );
}

#[test]
fn what_is_behind_a_failure_is_named() {
    let resources = json!([
        {"id": "bad", "template": map("bad", &json!({"a": "${string(1 / (size(schema.spec.items) - 2))}"}))},
        {"id": "other", "template": map("other", &json!({}))},
    ]);
    let graph = compiled(true, &Value::Null, &resources);
    let instance = instance(2);
    let plan = settle(&graph, &instance, &mut Observed::new(), 1);
    let status = graph.status(&instance, &plan, NOW);
    assert_eq!(
        told(&status),
        [
            ("bad", "ERROR", "ResolutionFailed"),
            ("other", "IN_PROGRESS", "NotReached")
        ]
    );
}

#[test]
fn during_a_deletion_what_is_left_is_told() {
    let (graph, mut instance) = (graph(), instance(2));
    let plan = settle(&graph, &instance, &mut Observed::new(), 3);
    instance["status"] = graph.status(&instance, &plan, NOW);
    let left = BTreeSet::from(["uid-of-many-1"]);
    let status =
        crate::status::deleting(Some(&graph), &instance, "deleting resources", &left, LATER);
    assert_eq!(status["nodes"], Value::Null);
    let names: Vec<&Value> = status["managedResources"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["m-1"]);
}

#[test]
fn without_the_gate_nothing_differs_from_kro_and_closing_it_breaks_nobody() {
    let resources = json!([{"id": "a", "template": map("a", &json!({}))}]);
    let closed = compiled(false, &Value::Null, &resources);
    let open = compiled(true, &Value::Null, &resources);
    let names = |graph: &CompiledGraph| -> Vec<String> {
        let definition = serde_json::to_value(graph.definition()).expect("a definition");
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        let status = definition.pointer(status).and_then(Value::as_object);
        status.expect("a schema").keys().cloned().collect()
    };
    assert_eq!(names(&closed), ["conditions", "state"]);
    assert!(names(&open).contains(&"managedResources".to_owned()));
    let instance = instance(0);
    let plan = settle(&closed, &instance, &mut Observed::new(), 2);
    let status = closed.status(&instance, &plan, NOW);
    let keys: Vec<&String> = status.as_object().expect("a status").keys().collect();
    assert_eq!(keys, ["conditions", "state"]);
    for (from, to) in [(&open, &closed), (&closed, &open)] {
        let report =
            compatibility::compare(from.definition(), to.definition()).expect("comparable");
        assert_eq!(report.refusal("webs.kro.run"), None);
    }
}

#[test]
fn a_field_of_the_author_keeps_its_name() {
    let resources = json!([{"id": "a", "template": map("a", &json!({}))}]);
    let status = json!({"nodes": "${a.metadata.name}"});
    let graph = compiled(true, &status, &resources);
    let instance = instance(0);
    let plan = settle(&graph, &instance, &mut Observed::new(), 2);
    let status = graph.status(&instance, &plan, NOW);
    assert_eq!(status["nodes"], "a");
    assert_eq!(status["managedResources"][0]["name"], "a");
    // Its own go from a CRD only as any field does.
    let before = graph.definition();
    let after = compiled(true, &Value::Null, &resources);
    let report = compatibility::compare(before, after.definition()).expect("comparable");
    assert!(report.refusal("webs.kro.run").is_some());
}
