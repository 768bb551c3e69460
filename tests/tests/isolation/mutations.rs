//! S33: what policies make of an object, at the hub and at a real kube-apiserver.
//!
//! Two things are not played. A policy that gives a new object another name is obeyed by a kube-apiserver and refused by the hub,
//! which has authorized the name in the request. A kube-apiserver panics where the value of an operation is a list of
//! `Object`s; the hub takes them.
//!
//! The order of several policies is the hub's by name, and a kube-apiserver's at random: it goes through a map, anew after each
//! change of a configuration (`policy_source.go`, `calculatePolicyData`). So the trial changes a binding until its order is ours.

use serde_json::{Value, json};
use tokio::time::Instant;
use wheelhouse_tests::wire::FakeSpoke;

use super::admission::{LASTING, Pair};
use super::support::Answer;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A policy with what its mutations are, and requests.
struct Case {
    name: &'static str,
    /// Specs of policies, which act in the order of their names.
    policies: Vec<Value>,
    /// Method, path and body.
    requests: Vec<(&'static str, String, Value)>,
}

/// Policies change writes of both servers in the same way.
pub(super) async fn mutate_the_same(pair: &Pair, server: &FakeSpoke) {
    for (name, object) in unsound() {
        let path = format!("{GROUP}/mutatingadmissionpolicies?dryRun=All");
        let (left, right) = pair.send("POST", &path, &object).await;
        pair.compare(name, &shown(&left), &shown(&right));
        assert_eq!(right.status, 422, "{name}: {}", right.body);
    }
    let seen = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mutated"}, "data": {"max": "2"}});
    same(pair, "an object", ("POST", MAPS, &seen)).await;
    for case in cases() {
        act(pair, &case.name.replace(' ', "-"), &case.policies).await;
        for (method, path, body) in &case.requests {
            let path = format!("{path}?dryRun=All");
            same(pair, case.name, (method, &path, body)).await;
        }
        end(pair, case.policies.len()).await;
    }
    with_a_webhook(pair, server).await;
}

/// A policy and a webhook see each other's changes.
async fn with_a_webhook(pair: &Pair, server: &FakeSpoke) {
    let hook = json!({"name": "guard.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 2,
        "reinvocationPolicy": "IfNeeded", "clientConfig": server.client_config("/"), "rules": [rule("", "configmaps")]});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "guard"}, "webhooks": [hook]});
    let path = format!("{GROUP}/mutatingwebhookconfigurations");
    same(pair, "a webhook", ("POST", &path, &configuration)).await;
    let mut counting = policy("JSONPatch", &appends("p"));
    counting["reinvocationPolicy"] = json!("IfNeeded");
    act(pair, "with-a-webhook", &[counting]).await;
    for say in ["label", "nothing"] {
        let object = map("webhooked", &json!({"say": say, "order": ""}));
        let path = format!("{MAPS}?dryRun=All");
        same(pair, "with a webhook", ("POST", &path, &object)).await;
    }
    end(pair, 1).await;
    let path = format!("{GROUP}/mutatingwebhookconfigurations/guard");
    let (left, right) = pair.send("DELETE", &path, &Value::Null).await;
    assert_eq!((left.status, right.status), (200, 200), "{path}");
}

/// Sends a request to both until they answer the same, or have not for long.
async fn same(pair: &Pair, name: &str, (method, path, body): (&str, &str, &Value)) {
    let deadline = Instant::now() + LASTING;
    loop {
        let (left, right) = pair.send(method, path, body).await;
        let (left, right) = (shown(&left), shown(&right));
        if left == right || Instant::now() >= deadline {
            pair.compare(&format!("{name}: {method} {path} {body}"), &left, &right);
            return;
        }
        order_again(pair).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Lets the kube-apiserver put policies into another order, where there are several.
async fn order_again(pair: &Pair) {
    let path = format!("{GROUP}/mutatingadmissionpolicybindings/guard-1");
    let (_, binding) = pair.send("GET", &path, &Value::Null).await;
    let version = &binding.body["metadata"]["resourceVersion"];
    if binding.status == 200 {
        let body = json!({"metadata": {"annotations": {"changed-after": version}}});
        pair.send("PATCH", &path, &body).await;
    }
}

/// Writes policies with their bindings, and waits until they act.
///
/// Beside them is one that marks secrets with the name of the case: it was written last, so a server by which a secret is
/// marked knows the others too.
async fn act(pair: &Pair, case: &str, specs: &[Value]) {
    let mark = format!("Object{{metadata: Object.metadata{{annotations: {{'case': '{case}'}}}}}}");
    let mut mark = policy("ApplyConfiguration", &mark);
    mark["matchConstraints"]["resourceRules"] = json!([rule("", "secrets")]);
    for (index, spec) in specs.iter().chain([&mark]).enumerate() {
        let name = if index == specs.len() {
            "marks".to_owned()
        } else {
            format!("guard-{index}")
        };
        let (mut spec, mut binding) = (spec.clone(), json!({"policyName": name}));
        for field in ["paramRef", "matchResources"] {
            if let Some(value) = spec.as_object_mut().and_then(|spec| spec.remove(field)) {
                binding[field] = value;
            }
        }
        for (kind, resource, spec) in [
            ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", spec),
            (
                "MutatingAdmissionPolicyBinding",
                "mutatingadmissionpolicybindings",
                binding,
            ),
        ] {
            let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": name}, "spec": spec});
            let path = format!("{GROUP}/{resource}");
            let (left, right) = pair.send("POST", &path, &object).await;
            pair.compare(&format!("{case}: {kind}"), &shown(&left), &shown(&right));
            assert_eq!(
                (left.status, right.status),
                (201, 201),
                "{case}: {} {}",
                left.body,
                right.body
            );
        }
    }
    let path = "/api/v1/namespaces/default/secrets?dryRun=All";
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "probe"}});
    let deadline = Instant::now() + LASTING;
    loop {
        let (_, right) = pair.send("POST", path, &secret).await;
        if right.body["metadata"]["annotations"]["case"] == *case {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "the policies of {case} do not act: {}",
            right.body
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn end(pair: &Pair, count: usize) {
    for index in 0..=count {
        let name = if index == count {
            "marks".to_owned()
        } else {
            format!("guard-{index}")
        };
        for resource in [
            "mutatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
        ] {
            let path = format!("{GROUP}/{resource}/{name}");
            let (left, right) = pair.send("DELETE", &path, &Value::Null).await;
            assert_eq!((left.status, right.status), (200, 200), "{path}");
        }
    }
}

/// What is compared of an answer: everything but what two servers choose for themselves.
fn shown(answer: &Answer) -> Value {
    let mut object = answer.body.clone();
    if object["kind"] == "Status" {
        let message = answer.message();
        // What does not fit is told in the words of Go's libraries.
        let cut = ["JSON Patch: ", "strict decoding error", " Object: "].iter();
        let end = cut.filter_map(|it| message.find(it)).min();
        let message = message.get(..end.unwrap_or(message.len()));
        let causes = end.map_or(object["details"]["causes"].clone(), |_| Value::Null);
        let message = if answer.status == 500 { None } else { message };
        return json!({"status": answer.status, "message": message, "reason": object["reason"], "causes": causes});
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
        for owner in metadata
            .get_mut("managedFields")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            owner["time"] = Value::Null;
        }
    }
    json!({"status": answer.status, "object": object})
}

fn map(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "1"}})
}

fn rule(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]})
}

/// The spec of a policy of one mutation.
fn policy(kind: &str, expression: &str) -> Value {
    let field = if kind == "JSONPatch" {
        "jsonPatch"
    } else {
        "applyConfiguration"
    };
    let rules = [rule("", "configmaps"), rule("apps", "deployments")];
    json!({"matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": "Never",
        "mutations": [{"patchType": kind, field: {"expression": expression}}]})
}

/// A JSON patch that appends to the label `order`.
fn appends(text: &str) -> String {
    format!(
        "has(object.metadata.labels) ? [JSONPatch{{op: 'add', path: '/metadata/labels/order', value: object.metadata.labels[?'order'].orValue('') + '{text}'}}] : []"
    )
}

/// Policies that are refused.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn unsound() -> Vec<(&'static str, Value)> {
    let fields = "Object{data: {'a': 'b'}}";
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut spec = policy("ApplyConfiguration", fields);
        edit(&mut spec);
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": "guard"}, "spec": spec})
    };
    let expression = |kind: &str, source: &str| {
        let spec = policy(kind, source);
        with(&|it| *it = spec.clone())
    };
    vec![
        ("no mutations", with(&|it| it["mutations"] = json!([]))),
        ("no rules", with(&|it| it["matchConstraints"] = json!({}))),
        (
            "no reinvocation policy",
            with(&|it| it["reinvocationPolicy"] = json!("")),
        ),
        (
            "unknown reinvocation policy",
            with(&|it| it["reinvocationPolicy"] = json!("Often")),
        ),
        (
            "unknown failure policy",
            with(&|it| it["failurePolicy"] = json!("Perhaps")),
        ),
        (
            "unknown type of patch",
            with(&|it| it["mutations"][0]["patchType"] = json!("Merge")),
        ),
        (
            "the other patch",
            with(&|it| it["mutations"][0]["patchType"] = json!("JSONPatch")),
        ),
        (
            "both patches",
            with(&|it| {
                it["mutations"][0]["jsonPatch"] = json!({"expression": "[JSONPatch{op: 'test'}]"});
            }),
        ),
        (
            "no expression",
            with(&|it| it["mutations"][0]["applyConfiguration"] = json!({"expression": " "})),
        ),
        (
            "deletions",
            with(&|it| {
                it["matchConstraints"]["resourceRules"][0]["operations"] =
                    json!(["CREATE", "DELETE"]);
            }),
        ),
        (
            "a variable of a patch",
            with(&|it| it["variables"] = json!([{"name": "v", "expression": "Object{}"}])),
        ),
        (
            "a condition of a patch",
            with(&|it| {
                it["matchConditions"] =
                    json!([{"name": "c", "expression": "Object{} == Object{}"}]);
            }),
        ),
        ("a map", expression("ApplyConfiguration", "{'data': {}}")),
        ("a part", expression("ApplyConfiguration", "Object.spec{}")),
        (
            "an unknown type",
            expression("ApplyConfiguration", "Objekt{}"),
        ),
        ("a list of maps", expression("JSONPatch", "[{'op': 'add'}]")),
        ("an empty list", expression("JSONPatch", "[]")),
        ("no list", expression("JSONPatch", "JSONPatch{op: 'add'}")),
        (
            "a number as operation",
            expression("JSONPatch", "[JSONPatch{op: 1}]"),
        ),
        (
            "params without kind",
            expression("ApplyConfiguration", "Object{data: params.data}"),
        ),
        ("syntax", expression("ApplyConfiguration", "Object{data: }")),
    ]
}

/// Requests that the cases send: maps with and without labels, and one that is there.
fn maps() -> Vec<(&'static str, String, Value)> {
    let plain = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}});
    let at = format!("{MAPS}/mutated");
    vec![
        (
            "POST",
            MAPS.to_owned(),
            map("labelled", &json!({"color": "red"})),
        ),
        ("POST", MAPS.to_owned(), plain),
        (
            "PATCH",
            at,
            json!({"metadata": {"labels": {"color": "blue"}}}),
        ),
    ]
}

fn deployments() -> Vec<(&'static str, String, Value)> {
    let containers = json!([{"name": "app", "image": "app", "env": [{"name": "A", "value": "1"}],
        "ports": [{"containerPort": 80}]}]);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}}}});
    vec![("POST", DEPLOYMENTS.to_owned(), deployment)]
}

fn cases() -> Vec<Case> {
    let mut cases = made();
    cases.extend(failing());
    cases.extend(invoked());
    cases
}

/// Patches of each type.
fn made() -> Vec<Case> {
    let apply = |expression: &str| policy("ApplyConfiguration", expression);
    let patch = |expression: &str| policy("JSONPatch", expression);
    let one = |name, spec, requests| Case {
        name,
        policies: vec![spec],
        requests,
    };
    vec![
        one(
            "fields of maps",
            apply("Object{metadata: Object.metadata{labels: Object.metadata.labels{env: 'prod'}}, data: {'b.c': '2', 'a': string(object.metadata.name)}}"),
            maps(),
        ),
        one(
            "optional fields",
            apply("Object{?data: has(object.metadata.labels) ? optional.of({'b': '2'}) : optional.none()}"),
            maps(),
        ),
        one(
            "operations",
            patch(
                "has(object.metadata.labels) ? [JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/env'), value: 'prod'}]
                : [JSONPatch{op: 'add', path: '/data', value: {}}, JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a~b').replace('~0', '-'), value: 'yes'}]",
            ),
            maps(),
        ),
        one(
            "moves and copies",
            patch("[JSONPatch{op: 'add', path: '/data', value: {'x': '1'}}, JSONPatch{op: 'copy', from: '/data/x', path: '/data/y'}, JSONPatch{op: 'move', from: '/data/x', path: '/data/z'}]"),
            maps(),
        ),
        one(
            "a test that does not hold",
            patch("[JSONPatch{op: 'test', path: '/metadata/name', value: 'plain'}, JSONPatch{op: 'add', path: '/data', value: {'x': '1'}}]"),
            maps(),
        ),
        one(
            "a test of nothing",
            patch("[JSONPatch{op: 'test', path: '/metadata/absent', value: 'plain'}, JSONPatch{op: 'add', path: '/data', value: {'x': '1'}}]"),
            maps(),
        ),
        one(
            "lists by their keys",
            apply(
                "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
                containers: object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, env: [Object.spec.template.spec.containers.env{name: 'B', value: '2'}]})
                + [Object.spec.template.spec.containers{name: 'sidecar', image: 'sidecar', ports: [Object.spec.template.spec.containers.ports{containerPort: 81}]}]}}}}",
            ),
            deployments(),
        ),
        one(
            "objects in operations",
            patch(
                "[JSONPatch{op: 'add', path: '/spec/template/spec/initContainers', value: [{'name': 'first', 'image': 'first'}]},
                JSONPatch{op: 'add', path: '/spec/template/spec/securityContext', value: Object.spec.template.spec.securityContext{runAsNonRoot: true}},
                JSONPatch{op: 'add', path: '/spec/template/spec/containers/-', value: {'name': 'last', 'image': 'last'}},
                JSONPatch{op: 'replace', path: '/spec/replicas', value: 3}]",
            ),
            deployments(),
        ),
    ]
}

/// Patches that do not fit.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn failing() -> Vec<Case> {
    let one = |name, spec, requests| Case {
        name,
        policies: vec![spec],
        requests,
    };
    let apply = |expression: &str| policy("ApplyConfiguration", expression);
    let mut ignored = apply("Object{data: {'a': object.metadata.labels.absent}}");
    ignored["failurePolicy"] = json!("Ignore");
    vec![
        one(
            "an expression that fails",
            apply("Object{data: {'a': object.metadata.labels.color}}"),
            maps(),
        ),
        one("a failure that is ignored", ignored, maps()),
        one(
            "another type of a field",
            apply("Object{data: Object.spec{a: 'b'}}"),
            maps(),
        ),
        one(
            "an unknown field",
            apply("Object{dota: {'a': 'b'}}"),
            maps(),
        ),
        one("a number as text", apply("Object{data: {'a': 1}}"), maps()),
        one(
            "a selector as a whole",
            apply(
                "Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}",
            ),
            deployments(),
        ),
        one(
            "a list as a whole",
            apply(
                "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'app', args: ['a']}]}}}}",
            ),
            deployments(),
        ),
        one(
            "a path to nothing",
            policy(
                "JSONPatch",
                "[JSONPatch{op: 'remove', path: '/data/absent'}]",
            ),
            maps(),
        ),
        one(
            "a test below nothing",
            policy(
                "JSONPatch",
                "[JSONPatch{op: 'test', path: '/absent/b', value: 1}]",
            ),
            maps(),
        ),
        one(
            "an unknown operation",
            policy(
                "JSONPatch",
                "[JSONPatch{op: 'set', path: '/data', value: 1}]",
            ),
            maps(),
        ),
        one(
            "an unknown member",
            policy(
                "JSONPatch",
                "[JSONPatch{op: 'add', path: '/dota', value: {'a': 'b'}}]",
            ),
            maps(),
        ),
        one(
            "an invalid object",
            policy(
                "JSONPatch",
                "[JSONPatch{op: 'add', path: '/data', value: {'a b': 'c'}}]",
            ),
            maps(),
        ),
    ]
}

/// When policies are evaluated, and with what.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn invoked() -> Vec<Case> {
    let one = |name, spec, requests| Case {
        name,
        policies: vec![spec],
        requests,
    };
    let fields = |more: Value, expression: &str| {
        let mut spec = policy("ApplyConfiguration", expression);
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        spec
    };
    let appending = |text: &str, reinvocation: &str| {
        let mut spec = policy("JSONPatch", &appends(text));
        spec["reinvocationPolicy"] = json!(reinvocation);
        spec
    };
    let (never, needed) = ("Never", "IfNeeded");
    let mut cases = vec![
        one(
            "conditions",
            fields(
                json!({"matchConditions": [{"name": "c", "expression": "has(object.metadata.labels) && request.operation == 'CREATE'"}]}),
                "Object{data: {'c': 'yes'}}",
            ),
            maps(),
        ),
        one(
            "a condition that fails",
            fields(
                json!({"matchConditions": [{"name": "c", "expression": "object.metadata.labels.color == 'red'"}]}),
                "Object{data: {'c': 'yes'}}",
            ),
            maps(),
        ),
        one(
            "variables",
            fields(
                json!({"variables": [{"name": "n", "expression": "size(object.metadata.name)"}, {"name": "t", "expression": "string(variables.n + 1)"}]}),
                "Object{data: {'n': variables.t}}",
            ),
            maps(),
        ),
        one(
            "parameters",
            fields(
                json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}}),
                "Object{data: {'max': params.data.max}}",
            ),
            maps(),
        ),
        one(
            "parameters that are not there",
            fields(
                json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "paramRef": {"name": "absent", "parameterNotFoundAction": "Deny"}}),
                "Object{data: {'max': params.data.max}}",
            ),
            maps(),
        ),
        one(
            "a binding for some",
            fields(
                json!({"matchResources": {"objectSelector": {"matchLabels": {"color": "red"}}}}),
                "Object{data: {'c': 'yes'}}",
            ),
            maps(),
        ),
        one(
            "namespace and old object",
            fields(
                json!({}),
                "Object{data: {'ns': namespaceObject.metadata.name, 'old': string(oldObject != null)}}",
            ),
            maps(),
        ),
    ];
    let several = [
        (
            "after each other",
            vec![appending("a", never), appending("b", never)],
        ),
        (
            "again after the second",
            vec![appending("a", needed), appending("b", never)],
        ),
        ("again after themselves", vec![appending("a", needed)]),
        (
            "all again",
            vec![appending("a", needed), appending("b", needed)],
        ),
    ];
    cases.extend(several.map(|(name, policies)| Case {
        name,
        policies,
        requests: maps(),
    }));
    cases
}
