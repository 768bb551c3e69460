//! S33: what rules and policies cost where they run, as the hub and a real kube-apiserver count it.
//!
//! The objects are those around the first one at which the real server ends an expression, or all of them: the hub is asked
//! the same, and must say the same in the same words.

use serde_json::{Value, json};

use super::admission::{Pair, base, binding, policy};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SPENDERS: &str = "/apis/example.com/v1/namespaces/default/spenders";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";

/// Compares every number with every other one, and reads a text.
const SQUARE: &str = "self.numbers.all(i, self.numbers.all(j, i <= j || self.numbers.size() > 0)) && self.text.startsWith('x')";

/// Rules and policies end at the same objects.
pub(super) async fn spend_the_same(pair: &Pair) {
    let (left, right) = pair.send("POST", DEFINITIONS, &definition()).await;
    assert_eq!(
        (left.status, right.status),
        (201, 201),
        "{} {}",
        left.body,
        right.body
    );
    pair.ours.until_status(&base(SPENDERS), 200).await;
    pair.peer.until_status(SPENDERS, 200).await;
    let path = format!("{SPENDERS}?dryRun=All");
    let rough = boundary(pair, "one rule", &path, (352, 354), |count| {
        spender(&[(count, 1)])
    })
    .await;
    // A unit is ten characters.
    let within = |length| spender(&[(rough, length)]);
    boundary(
        pair,
        "one rule, to the unit",
        &path,
        (17_100, 17_120),
        within,
    )
    .await;
    let together = |count| spender(&[(rough, 1), (rough, 1), (rough, 1), (count, 1)]);
    boundary(pair, "all rules", &path, (204, 206), together).await;
    spend_in_policies(pair).await;
}

async fn spend_in_policies(pair: &Pair) {
    let squares = "variables.keys.all(i, variables.keys.all(j, i <= j || object.data[i] != ''))";
    let several: Vec<Value> = (0..12).map(|_| json!({"expression": squares})).collect();
    let inner = "object.data.all(i, object.data.all(j, i != j || i == j))";
    let ways = [
        (
            "one validation",
            json!({"validations": [{"expression": squares}]}),
            364,
        ),
        ("all validations", json!({"validations": several}), 332),
        (
            "a variable",
            json!({"variables": [{"name": "all", "expression": inner}],
                "validations": [{"expression": "variables.all || true"}, {"expression": "variables.all"}]}),
            407,
        ),
        ("all variables", all_variables(inner), 371),
        (
            "match conditions",
            json!({"matchConditions": (0..3).map(|index| json!({"name": format!("c{index}"), "expression": inner}))
                .collect::<Vec<_>>(), "validations": [{"expression": "true"}]}),
            371,
        ),
    ];
    for (name, mut spec, last) in ways {
        if spec["variables"].is_null() {
            spec["variables"] = json!([{"name": "keys", "expression": "object.data.map(k, k)"}]);
        }
        let policies = format!("{GROUP}/validatingadmissionpolicies");
        pair.same(name, "POST", &policies, &policy(spec)).await;
        let bindings = format!("{GROUP}/validatingadmissionpolicybindings");
        pair.same(name, "POST", &bindings, &binding(json!({})))
            .await;
        let entries = |count: usize| {
            let data: serde_json::Map<_, _> = (0..count)
                .map(|index| (format!("k{index}"), json!("v")))
                .collect();
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "spender"}, "data": data})
        };
        boundary(pair, name, MAPS, (last - 1, last + 1), entries).await;
        for path in [format!("{bindings}/guard"), format!("{policies}/guard")] {
            let (left, right) = pair.send("DELETE", &path, &Value::Null).await;
            assert_eq!((left.status, right.status), (200, 200), "{name}");
        }
    }
}

/// Twelve variables, each below its own limit.
fn all_variables(expression: &str) -> Value {
    let names: Vec<String> = (0..12).map(|index| format!("v{index}")).collect();
    let variables = names
        .iter()
        .map(|name| json!({"name": name, "expression": expression}));
    let read: Vec<String> = names
        .iter()
        .map(|name| format!("variables.{name}"))
        .collect();
    json!({"variables": variables.collect::<Vec<_>>(), "validations": [{"expression": read.join(" && ")}]})
}

/// Returns the largest size that is accepted, of two of which the first one is.
async fn boundary(
    pair: &Pair,
    name: &str,
    path: &str,
    (mut accepted, mut refused): (usize, usize),
    object: impl Fn(usize) -> Value,
) -> usize {
    // The larger one first: where it is refused, both servers know the configuration.
    let answer = pair.same(name, "POST", path, &object(refused)).await;
    assert_ne!(
        answer.status, 201,
        "{name}: {refused} cost too much: {}",
        answer.body
    );
    let answer = pair.same(name, "POST", path, &object(accepted)).await;
    assert_eq!(
        answer.status, 201,
        "{name}: {accepted} do not: {}",
        answer.body
    );
    while refused - accepted > 1 {
        let middle = usize::midpoint(accepted, refused);
        let answer = pair.same(name, "POST", path, &object(middle)).await;
        if answer.status == 201 {
            accepted = middle;
        } else {
            refused = middle;
        }
    }
    accepted
}

/// An object with items of so many numbers, and a text of so many characters.
fn spender(items: &[(usize, usize)]) -> Value {
    let items: Vec<Value> = items
        .iter()
        .map(|(count, length)| {
            json!({"numbers": (0..*count).collect::<Vec<_>>(), "text": "x".repeat(*length)})
        })
        .collect();
    json!({"apiVersion": "example.com/v1", "kind": "Spender", "metadata": {"name": "spender"}, "spec": {"items": items}})
}

fn definition() -> Value {
    // Three rules of each item: alone, one is estimated below the limit.
    let rules: Vec<Value> = (0..3).map(|_| json!({"rule": SQUARE})).collect();
    let item = json!({"type": "object", "required": ["numbers", "text"], "x-kubernetes-validations": rules, "properties": {
        "numbers": {"type": "array", "maxItems": 440, "items": {"type": "integer"}},
        "text": {"type": "string", "maxLength": 100_000}}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "items": {"type": "array", "maxItems": 4, "items": item}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "spenders.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "spenders", "singular": "spender", "kind": "Spender", "listKind": "SpenderList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}
