//! Definitions, instances and what is seen around them, held against what kro 0.9.4 itself made of the same.
//!
//! `vectors/cases.json` holds definitions over a few kinds of its own, with instances to plan for; `vectors/answers.json` holds
//! kro's answers: the refusal, or the order, the dependencies, the generated definition, and for each plan the outcome of
//! every node and the status. Where kro walks a Go map it refuses with one of several texts; ours is one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::kro::RgdSpec;
use api::{GroupVersion, GroupVersionKind, meta};
use schema::Schema;
use serde_json::{Value, json};
use wheelhouse_graph::{
    Apply, CompileOptions, CompiledGraph, NodePlan, NodeState, ObjectRef, Observed, Plan,
    PlanInput, ResolveError, ResolvedKind, SchemaResolver, Settings, compile_with,
};

/// Cases whose answer is another than kro's, each with the reason why.
const DIFFERENT: [(&str, &str); 11] = [
    (
        "forEach dyn",
        "kro refuses what is not known to be a list; we let it pass and see when there is a value",
    ),
    (
        "readyWhen dyn",
        "likewise, for what is not known to be a bool",
    ),
    ("includeWhen dyn", "likewise"),
    (
        "literal bare int-or-string",
        "kro wants anyOf beside x-kubernetes-int-or-string; the API server does not",
    ),
    (
        "name empty",
        "the parser's position of an expression that is empty: 1:1, not 1:0",
    ),
    ("eval int key / p", "says int where Go says int64"),
    ("eval int key / q", "says int where Go says int64"),
    (
        "eval bad timestamp / p",
        "another text for the same failure",
    ),
    (
        "eval bad timestamp / q",
        "another text for the same failure",
    ),
    (
        "eval nan / p",
        "kro fails later, when it writes the object as JSON",
    ),
    (
        "eval nan / q",
        "kro fails later, when it writes the object as JSON",
    ),
];

struct Kinds {
    kinds: BTreeMap<GroupVersionKind, ResolvedKind>,
    group_versions: BTreeSet<GroupVersion>,
}

impl SchemaResolver for Kinds {
    fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
        if let Some(kind) = self.kinds.get(gvk) {
            return Ok(kind.clone());
        }
        Err(if self.group_versions.contains(&gvk.group_version()) {
            ResolveError::KindNotFound(gvk.clone())
        } else {
            ResolveError::GroupVersionNotServed(gvk.group_version())
        })
    }
}

impl Kinds {
    fn read(list: &Value) -> Self {
        let mut kinds = Self {
            kinds: BTreeMap::new(),
            group_versions: BTreeSet::from([GroupVersion::new("kro.run", "v1alpha1")]),
        };
        for kind in list.as_array().expect("a list") {
            let text = |name: &str| kind[name].as_str().expect("a text").to_owned();
            let gvk = GroupVersionKind::new(text("Group"), text("Version"), text("Kind"));
            let schema = Schema::from_openapi(&kind["Schema"]).expect("is a schema");
            let namespaced = kind["Namespaced"].as_bool().expect("a bool");
            kinds.group_versions.insert(gvk.group_version());
            kinds.kinds.insert(
                gvk,
                ResolvedKind {
                    schema,
                    namespaced,
                    resource: text("Resource"),
                },
            );
        }
        kinds
    }
}

struct Vectors {
    kinds: Kinds,
    /// Each case with kro's answer.
    cases: Vec<(Value, Value)>,
}

impl Vectors {
    fn read() -> Self {
        let mut input: Value =
            serde_json::from_str(include_str!("vectors/cases.json")).expect("is JSON");
        let answers: Vec<Value> =
            serde_json::from_str(include_str!("vectors/answers.json")).expect("is JSON");
        let kinds = Kinds::read(&input["kinds"]);
        let cases: Vec<Value> = serde_json::from_value(input["cases"].take()).expect("a list");
        assert_eq!(cases.len(), answers.len(), "each case has an answer");
        Self {
            kinds,
            cases: cases.into_iter().zip(answers).collect(),
        }
    }

    fn compile(&self, case: &Value) -> Result<Arc<CompiledGraph>, String> {
        let spec: RgdSpec =
            serde_json::from_value(case["spec"].clone()).map_err(|error| error.to_string())?;
        let omit = case["omit"].as_bool().unwrap_or_default();
        let options = CompileOptions {
            omit,
            ..CompileOptions::default()
        };
        compile_with(&spec, "test", &self.kinds, &options).map_err(|error| error.to_string())
    }
}

fn name(value: &Value) -> &str {
    value["name"].as_str().expect("has a name")
}

fn is_different(name: &str) -> bool {
    DIFFERENT.iter().any(|(different, _)| *different == name)
}

#[test]
fn definitions_are_accepted_and_refused_as_by_kro() {
    let vectors = Vectors::read();
    let mut wrong = Vec::new();
    for (case, answer) in vectors
        .cases
        .iter()
        .filter(|(case, _)| !is_different(name(case)))
    {
        let refusals: Vec<&str> = answer["errors"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let accepted = answer["order"].is_array() || answer["crd"].is_object();
        match vectors.compile(case) {
            Ok(_) if accepted => {}
            Err(error) if refusals.contains(&error.as_str()) => {}
            Ok(_) => wrong.push(format!("{}: accepted\n    kro: {refusals:?}", name(case))),
            Err(error) => wrong.push(format!(
                "{}: {error}\n    kro: {}",
                name(case),
                refusals.join("\n    or:  ")
            )),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn accepted_definitions_come_out_as_kros() {
    let vectors = Vectors::read();
    let mut wrong = Vec::new();
    for (case, answer) in vectors
        .cases
        .iter()
        .filter(|(case, _)| !is_different(name(case)))
    {
        if !answer["crd"].is_object() {
            continue;
        }
        let Ok(graph) = vectors.compile(case) else {
            continue;
        };
        let mut check = |what: &str, got: Value, want: &Value| {
            if got != *want {
                wrong.push(format!(
                    "{}: {what}: {}",
                    name(case),
                    difference("", &got, want)
                ));
            }
        };
        let orders: BTreeMap<&str, i64> = graph
            .nodes()
            .iter()
            .map(|node| (&**node.id(), node.apply_order()))
            .collect();
        if answer["order"].is_array() {
            check("order", json!(graph.topological_order()), &answer["order"]);
            check("apply orders", json!(orders), &answer["applyOrders"]);
        }
        let dependencies: BTreeMap<&str, BTreeSet<&str>> = graph
            .resources_status()
            .iter()
            .map(|resource| {
                (
                    resource.id.as_str(),
                    resource
                        .dependencies
                        .iter()
                        .map(|other| other.id.as_str())
                        .collect(),
                )
            })
            .collect();
        let want = answer
            .get("dependencies")
            .cloned()
            .unwrap_or_else(|| json!({}));
        check("dependencies", json!(dependencies), &want);
        let definition = graph.definition().to_value();
        check(
            "definition",
            definition["spec"].clone(),
            &answer["crd"]["spec"],
        );
        for part in ["name", "labels", "annotations"] {
            check(
                part,
                definition["metadata"][part].clone(),
                &answer["crd"]["metadata"][part],
            );
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn plans_come_out_as_kros() {
    let vectors = Vectors::read();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (case, answer) in vectors
        .cases
        .iter()
        .filter(|(case, _)| !is_different(name(case)))
    {
        let Ok(graph) = vectors.compile(case) else {
            continue;
        };
        let plans = case["plans"].as_array().into_iter().flatten();
        for (input, want) in plans.zip(answer["plans"].as_array().into_iter().flatten()) {
            let label = format!("{} / {}", name(case), name(input));
            if is_different(&label) {
                continue;
            }
            count += 1;
            let differences = compare_plan(&graph, input, want);
            wrong.extend(
                differences
                    .into_iter()
                    .map(|difference| format!("{label}: {difference}")),
            );
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(count > 50, "there are plans");
}

/// Plans for an instance, with everything answered.
fn plan(graph: &CompiledGraph, input: &Value) -> Plan {
    let settings = Settings::default();
    let mut observed = Observed::new();
    for live in input["observed"].as_array().into_iter().flatten() {
        // What kro observes is the instance's own.
        let mut live = live.clone();
        live["metadata"]["uid"] = json!("u");
        observed.claimed(&ObjectRef::of(&live), "u");
        observed.child(Arc::new(live));
    }
    loop {
        let plan = graph.plan(&PlanInput {
            instance: &input["instance"],
            observed: &observed,
            settings: &settings,
        });
        if !plan.incomplete {
            return plan;
        }
        for wanted in &plan.wanted {
            let found = input["externals"][&*wanted.node]
                .as_array()
                .into_iter()
                .flatten();
            observed.external(wanted, found.cloned().map(Arc::new).collect());
        }
    }
}

fn compare_plan(graph: &CompiledGraph, input: &Value, want: &Value) -> Vec<String> {
    let plan = plan(graph, input);
    let mut wrong = Vec::new();
    let nodes = want["nodes"].as_array().expect("a list");
    for (node, want) in plan.nodes.iter().zip(nodes) {
        wrong.extend(compare_node(&plan, node, want));
    }
    if plan.nodes.len() != nodes.len() {
        wrong.push(format!(
            "{} nodes, kro has {}",
            plan.nodes.len(),
            nodes.len()
        ));
    }
    match want["statusError"].as_str() {
        Some(error) if plan.status_error.as_deref() != Some(error) => {
            wrong.push(format!(
                "status error {:?}\n    kro: {error}",
                plan.status_error
            ));
        }
        None if plan.status != want["status"] => {
            wrong.push(format!(
                "status {}",
                difference("", &plan.status, &want["status"])
            ));
        }
        _ => {}
    }
    wrong.extend(compare_conditions(graph, input, &plan, want));
    wrong
}

fn compare_node(plan: &Plan, node: &NodePlan, want: &Value) -> Option<String> {
    let id = &node.id;
    let got = match node.state {
        NodeState::Skipped => "ignored",
        NodeState::Error => "error",
        NodeState::InProgress if node.message.is_some() => "pending",
        _ => "desired",
    };
    if want["outcome"] != got {
        return Some(format!(
            "{id} is {got} ({:?}), kro says {want}",
            node.message
        ));
    }
    if got == "pending" || got == "error" {
        let text = node.message.clone().unwrap_or_default();
        return (want["text"] != text).then(|| format!("{id}: {text}\n    kro: {}", want["text"]));
    }
    if got == "ignored" || node.kind.is_external() || plan.failure.is_some() {
        return None;
    }
    let objects: Vec<Value> = plan
        .applies
        .iter()
        .filter(|apply| apply.node == *id)
        .map(undecorated)
        .collect();
    let desired = want["desired"].as_array().into_iter().flatten();
    let desired: Vec<Value> = desired.cloned().map(without_decorations).collect();
    (objects != desired)
        .then(|| format!("{id}: {}", difference("", &json!(objects), &json!(desired))))
}

/// Compares the author's conditions.
fn compare_conditions(
    graph: &CompiledGraph,
    input: &Value,
    plan: &Plan,
    want: &Value,
) -> Option<String> {
    if !graph.has_author_conditions() {
        return None;
    }
    let status = graph.status(&input["instance"], plan, "2026-01-01T00:00:09Z");
    let read = |list: &Value, names: [&str; 4]| -> Vec<Vec<String>> {
        let conditions = list.as_array().into_iter().flatten();
        conditions
            .map(|condition| {
                names
                    .iter()
                    .map(|name| condition[name].as_str().unwrap_or_default().to_owned())
                    .collect()
            })
            .collect()
    };
    let got = read(
        &status["conditions"],
        ["type", "status", "reason", "message"],
    );
    let wanted = read(
        &want["conditions"],
        ["ConditionType", "Status", "Reason", "Message"],
    );
    let is_degraded = want["degraded"].is_string();
    if got == wanted && (status["state"] == "ERROR") == is_degraded {
        return None;
    }
    Some(format!(
        "conditions {got:?} in {}, kro has {wanted:?}, degraded {is_degraded}",
        status["state"]
    ))
}

fn undecorated(apply: &Apply) -> Value {
    assert_eq!(
        ObjectRef::of(&apply.object),
        apply.reference,
        "it names its object"
    );
    without_decorations(apply.object.clone())
}

/// Takes off what kro writes on every child.
fn without_decorations(mut object: Value) -> Value {
    let metadata = meta::metadata_mut(&mut object);
    for part in ["labels", "annotations"] {
        let Some(map) = metadata.get_mut(part).and_then(Value::as_object_mut) else {
            continue;
        };
        map.retain(|key, _| {
            !(key.contains("kro.run/")
                || key.starts_with("applyset.")
                || key == "app.kubernetes.io/managed-by")
        });
        if map.is_empty() {
            metadata.remove(part);
        }
    }
    object
}

/// Returns where two values differ first.
fn difference(path: &str, got: &Value, want: &Value) -> String {
    match (got, want) {
        (Value::Object(got), Value::Object(want)) => {
            let keys: BTreeSet<&String> = got.keys().chain(want.keys()).collect();
            let null = Value::Null;
            let at = |map: &serde_json::Map<String, Value>, key: &str| map.get(key).cloned();
            let differs = keys.into_iter().find(|key| at(got, key) != at(want, key));
            differs.map_or(String::new(), |key| {
                let (got, want) = (
                    got.get(key).unwrap_or(&null),
                    want.get(key).unwrap_or(&null),
                );
                difference(&format!("{path}.{key}"), got, want)
            })
        }
        (Value::Array(got), Value::Array(want)) if got.len() == want.len() => {
            let differs = got
                .iter()
                .zip(want)
                .enumerate()
                .find(|(_, (got, want))| got != want);
            differs.map_or(String::new(), |(index, (got, want))| {
                difference(&format!("{path}[{index}]"), got, want)
            })
        }
        (got, want) => format!("{path}: got {got}, want {want}"),
    }
}
