//! S33: what guards writes decides as in a real kube-apiserver, and in no other cluster than its own.
//!
//! The same policies, bindings and webhooks are written there and in an embedded cluster, and the same requests sent. A
//! kube-apiserver follows its configurations by watches, so a difference counts once it has lasted.

use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::Instant;
use wheelhouse_tests::Spoke;
use wheelhouse_tests::hub::Settings;
use wheelhouse_tests::wire::{FakeSpoke, json_answer};

use super::support::{Answer, Fixture, User};
use super::{conversion, costs, mutations, spending};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How long a kube-apiserver may take to see what was written.
pub(super) const LASTING: Duration = Duration::from_secs(30);

/// The hub and the real server, with the same rights.
pub(super) struct Pair {
    pub(super) ours: User,
    pub(super) peer: User,
    /// What they answered differently.
    different: Mutex<Vec<String>>,
}

#[tokio::test(flavor = "multi_thread")]
async fn s33_policies_and_webhooks_decide_as_in_a_real_kube_apiserver() {
    let server = FakeSpoke::start(answer).await;
    // In an embedded cluster, which is a tenant's, only what the operator allows is called.
    let arguments = ["--allow-webhook-host".to_owned(), server.host()];
    let settings = Settings {
        arguments: arguments.into(),
        ..Settings::default()
    };
    let (fixture, spoke) = tokio::join!(Fixture::start_with(&[], settings), Spoke::start("peer"));
    fixture.embed("a").await;
    let text = std::fs::read_to_string(spoke.kubeconfig()).expect("the spoke has a kubeconfig");
    let pair = Pair {
        ours: fixture.admin().await,
        peer: User::connect("peer", &text).await,
        different: Mutex::default(),
    };
    pair.refuse_the_same().await;
    costs::estimate_the_same(&pair).await;
    spending::spend_the_same(&pair).await;
    conversion::convert_the_same(&pair, &server).await;
    pair.judge_the_same().await;
    mutations::mutate_the_same(&pair, &server).await;
    pair.call_the_same(&server).await;
    let different = pair.different.into_inner().expect("nothing panicked");
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

impl Pair {
    /// Sends a request to both.
    pub(super) async fn send(&self, method: &str, path: &str, body: &Value) -> (Answer, Answer) {
        let (method, content_type) = match method {
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            "PATCH" => ("PATCH", "application/merge-patch+json"),
            _ => (method, "application/json"),
        };
        let headers = [("content-type", content_type)];
        let ours = base(path);
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        tokio::join!(
            self.ours.send(method, &ours, &headers, body.clone()),
            self.peer.send(method, path, &headers, body.clone())
        )
    }

    /// Notes what is different; the trial goes on, to tell everything at once.
    pub(super) fn compare(&self, name: &str, ours: &Value, peers: &Value) {
        if ours != peers {
            let text = format!("{name}: the hub says {ours:#}\nkube-apiserver says {peers:#}");
            let mut different = self.different.lock().expect("nothing panicked");
            different.push(text);
        }
    }

    /// Sends a request to both until they answer the same, or have not for long.
    pub(super) async fn same(&self, name: &str, method: &str, path: &str, body: &Value) -> Answer {
        let deadline = Instant::now() + LASTING;
        loop {
            let (left, right) = self.send(method, path, body).await;
            if shown(&left) == shown(&right) || Instant::now() >= deadline {
                self.compare(name, &shown(&left), &shown(&right));
                return left;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What is not sound is refused in the same words.
    async fn refuse_the_same(&self) {
        for (name, resource, object) in unsound() {
            let path = format!("{GROUP}/{resource}?dryRun=All");
            let (left, right) = self.send("POST", &path, &object).await;
            self.compare(name, &shown(&left), &shown(&right));
            assert_eq!(right.status, 422, "{name}: {}", right.body);
        }
    }

    /// What policies say to a write.
    async fn judge_the_same(&self) {
        let limits = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "labels": {"limits": "yes"}},
            "data": {"max": "2"}});
        self.same("limits", "POST", MAPS, &limits).await;
        for (name, policy, binding, objects) in policies() {
            let path = format!("{GROUP}/validatingadmissionpolicies");
            self.same(name, "POST", &path, &policy).await;
            let path = format!("{GROUP}/validatingadmissionpolicybindings");
            self.same(name, "POST", &path, &binding).await;
            let mut refused = 0;
            for object in objects {
                let path = format!("{MAPS}?dryRun=All");
                let answer = self.same(name, "POST", &path, &object).await;
                refused +=
                    usize::from(answer.status != 201 || answer.headers.contains_key("warning"));
            }
            self.compare(name, &json!(refused > 0), &json!(true));
            for kind in [
                "validatingadmissionpolicybindings",
                "validatingadmissionpolicies",
            ] {
                let path = format!("{GROUP}/{kind}/guard");
                let (left, right) = self.send("DELETE", &path, &Value::Null).await;
                assert_eq!((left.status, right.status), (200, 200), "{name}");
            }
        }
    }

    /// What webhooks say to a write.
    async fn call_the_same(&self, server: &FakeSpoke) {
        for (name, kind, webhook, object, wanted) in webhooks(server) {
            let resource = format!("{}webhookconfigurations", kind.to_lowercase());
            let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
                "kind": format!("{kind}WebhookConfiguration"), "metadata": {"name": "guard"}, "webhooks": [webhook]});
            let path = format!("{GROUP}/{resource}");
            self.same(name, "POST", &path, &configuration).await;
            // Whether the other side sees the configuration is known once a write that it must refuse is refused.
            let path = format!("{MAPS}?dryRun=All");
            self.same(name, "POST", &path, &map("refused", json!({"say": "no"})))
                .await;
            let answer = self.same(name, "POST", &path, &object).await;
            self.compare(name, &json!(answer.status), &json!(wanted));
            let path = format!("{GROUP}/{resource}/guard");
            let (left, right) = self.send("DELETE", &path, &Value::Null).await;
            assert_eq!((left.status, right.status), (200, 200), "{name}");
        }
    }
}

pub(super) fn base(path: &str) -> String {
    format!("/clusters/a{path}")
}

/// What is compared of an answer: everything but what two servers choose for themselves.
fn shown(answer: &Answer) -> Value {
    let warnings = answer.headers.get_all("warning").iter();
    let warnings: Vec<_> = warnings.filter_map(|it| it.to_str().ok()).collect();
    let object = &answer.body;
    if object["kind"] != "Status" {
        let parts = ["spec", "webhooks", "data"].map(|part| object[part].clone());
        return json!({"status": answer.status, "object": parts, "labels": object["metadata"]["labels"], "warnings": warnings});
    }
    let message = answer.message();
    if answer.status == 500 {
        // What failed is told in the words of Go.
        let message = message.split(": ").next();
        return json!({"status": answer.status, "message": message, "warnings": warnings});
    }
    json!({"status": answer.status, "message": message, "reason": object["reason"],
        "causes": object["details"]["causes"], "warnings": warnings})
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "values are made where they are passed"
)]
fn map(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "1"}})
}

fn rule() -> Value {
    json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]})
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "values are made where they are passed"
)]
pub(super) fn policy(spec: Value) -> Value {
    let mut policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "guard"}, "spec": spec});
    if policy["spec"]["matchConstraints"].is_null() {
        policy["spec"]["matchConstraints"] = json!({"resourceRules": [rule()]});
    }
    policy
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "values are made where they are passed"
)]
pub(super) fn binding(spec: Value) -> Value {
    let mut binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "guard"}, "spec": spec});
    binding["spec"]["policyName"] = json!("guard");
    if binding["spec"]["validationActions"].is_null() {
        binding["spec"]["validationActions"] = json!(["Deny"]);
    }
    binding
}

/// Configurations that are refused.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn unsound() -> Vec<(&'static str, &'static str, Value)> {
    let policies = "validatingadmissionpolicies";
    let bindings = "validatingadmissionpolicybindings";
    let validations = |expression: &str| json!({"validations": [{"expression": expression}]});
    let hooks = |webhook: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "guard"}, "webhooks": [webhook]})
    };
    let hook = json!({"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://example.com/x"}, "rules": [rule()]});
    let with = |field: &str, value: Value| {
        let mut hook = hook.clone();
        hook[field] = value;
        hooks(hook)
    };
    let webhooks = "validatingwebhookconfigurations";
    vec![
        ("no expression", policies, policy(json!({}))),
        (
            "unknown name",
            policies,
            policy(validations("objekt.x == 1")),
        ),
        ("syntax", policies, policy(validations("object.x =="))),
        ("no bool", policies, policy(validations("'a'"))),
        (
            "params without kind",
            policies,
            policy(validations("params.x == 1")),
        ),
        (
            "policy without rules",
            policies,
            policy(json!({"validations": [{"expression": "true"}], "matchConstraints": {}})),
        ),
        (
            "failure policy",
            policies,
            policy(json!({"validations": [{"expression": "true"}], "failurePolicy": "Maybe"})),
        ),
        (
            "message",
            policies,
            policy(json!({"validations": [{"expression": "true", "message": "a\nb"}]})),
        ),
        (
            "reason",
            policies,
            policy(json!({"validations": [{"expression": "true", "reason": "Whim"}]})),
        ),
        (
            "message asks",
            policies,
            policy(json!({"validations": [{"expression": "true",
            "messageExpression": "authorizer.path('/x').check('get').reason()"}]})),
        ),
        (
            "variable",
            policies,
            policy(
                json!({"variables": [{"name": "a-b", "expression": "1"}], "validations": [{"expression": "true"}]}),
            ),
        ),
        (
            "unknown variable",
            policies,
            policy(json!({"variables": [{"name": "a", "expression": "1"}],
            "validations": [{"expression": "variables.b == 1"}]})),
        ),
        (
            "condition",
            policies,
            policy(
                json!({"matchConditions": [{"name": "", "expression": " "}], "validations": [{"expression": "true"}]}),
            ),
        ),
        (
            "annotation",
            policies,
            policy(json!({"auditAnnotations": [{"key": "a b", "valueExpression": "1"}]})),
        ),
        (
            "param kind",
            policies,
            policy(
                json!({"paramKind": {"apiVersion": "a/b/c", "kind": "X_"}, "validations": [{"expression": "true"}]}),
            ),
        ),
        (
            "no action",
            bindings,
            binding(json!({"validationActions": []})),
        ),
        (
            "deny and warn",
            bindings,
            binding(json!({"validationActions": ["Deny", "Warn", "Warn"]})),
        ),
        (
            "name and selector",
            bindings,
            binding(json!({"paramRef": {"name": "a", "selector": {}}})),
        ),
        ("no param", bindings, binding(json!({"paramRef": {}}))),
        (
            "binding rule",
            bindings,
            binding(
                json!({"matchResources": {"resourceRules": [{"operations": ["*", "CREATE"],
            "apiGroups": [], "apiVersions": [""], "resources": ["*", "pods", "*/*"]}]}}),
            ),
        ),
        ("hook name", webhooks, with("name", json!("short"))),
        ("side effects", webhooks, with("sideEffects", json!("Some"))),
        (
            "versions",
            webhooks,
            with("admissionReviewVersions", json!(["v7", "v7"])),
        ),
        ("timeout", webhooks, with("timeoutSeconds", json!(31))),
        (
            "http",
            webhooks,
            with(
                "clientConfig",
                json!({"url": "http://a@example.com/x?y=1#z"}),
            ),
        ),
        ("no client", webhooks, with("clientConfig", json!({}))),
        (
            "service",
            webhooks,
            with(
                "clientConfig",
                json!({"service": {"name": "a", "namespace": "b", "path": "x//y"}}),
            ),
        ),
        (
            "hook condition",
            webhooks,
            with(
                "matchConditions",
                json!([{"name": "a", "expression": "params.x"}]),
            ),
        ),
        (
            "resources",
            webhooks,
            with(
                "rules",
                json!([{"operations": ["READ"], "apiGroups": ["*", ""], "apiVersions": ["v1"],
            "resources": ["pods/*", "pods/status", ""], "scope": "Some"}]),
            ),
        ),
    ]
}

type Case = (&'static str, Value, Value, Vec<Value>);

/// Policies with their bindings, and objects that are sent to them.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn policies() -> Vec<Case> {
    let plain = |expression: &str| policy(json!({"validations": [{"expression": expression}]}));
    let red = map("red", json!({"color": "red"}));
    let blue = map("blue", json!({"color": "blue"}));
    let none = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "none"}});
    let both = || vec![red.clone(), blue.clone(), none.clone()];
    let color = "object.metadata.labels.color != 'red'";
    let params = |spec: Value| {
        let mut spec = spec;
        spec["parameterNotFoundAction"] = json!("Deny");
        binding(json!({"paramRef": spec}))
    };
    let by_params = || {
        policy(
            json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [
        {"expression": "object.metadata.name == 'limits' || size(object.metadata.name) <= int(params.data.max)"}]}),
        )
    };
    vec![
        (
            "an expression, and one that fails",
            plain(color),
            binding(json!({})),
            both(),
        ),
        (
            "failures ignored",
            policy(json!({"failurePolicy": "Ignore", "validations": [{"expression": color}]})),
            binding(json!({})),
            both(),
        ),
        (
            "message and reason",
            policy(json!({"validations": [
            {"expression": color, "message": "no red", "reason": "Forbidden"}]})),
            binding(json!({})),
            vec![red.clone()],
        ),
        (
            "made message",
            policy(
                json!({"variables": [{"name": "color", "expression": "object.metadata.labels.color"},
            {"name": "twice", "expression": "variables.color + variables.color"}],
            "validations": [{"expression": "variables.color != 'red'", "messageExpression": "'no ' + variables.twice + ' for ' + request.operation"}]}),
            ),
            binding(json!({})),
            both(),
        ),
        (
            "warnings",
            plain(color),
            binding(json!({"validationActions": ["Warn", "Audit"]})),
            both(),
        ),
        (
            "conditions",
            policy(
                json!({"matchConditions": [{"name": "red", "expression": "'color' in object.metadata.?labels.orValue({})"},
            {"name": "is-red", "expression": "object.metadata.labels.color == 'red'"}], "validations": [{"expression": "false"}]}),
            ),
            binding(json!({})),
            both(),
        ),
        (
            "failing condition",
            policy(
                json!({"matchConditions": [{"name": "a", "expression": "object.metadata.labels.color == 'red'"}],
            "validations": [{"expression": "false"}]}),
            ),
            binding(json!({})),
            both(),
        ),
        (
            "object selector",
            plain("false"),
            binding(
                json!({"matchResources": {"objectSelector": {"matchLabels": {"color": "red"}}}}),
            ),
            both(),
        ),
        (
            "namespace selector",
            plain("false"),
            binding(
                json!({"matchResources": {"namespaceSelector": {"matchLabels":
            {"kubernetes.io/metadata.name": "default"}}, "objectSelector": {"matchLabels": {"color": "red"}}}}),
            ),
            both(),
        ),
        (
            "excluded",
            policy(
                json!({"matchConstraints": {"resourceRules": [rule()], "excludeResourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"], "resourceNames": ["blue"]}]},
            "validations": [{"expression": "false"}]}),
            ),
            binding(json!({})),
            both(),
        ),
        (
            "namespace",
            plain(
                "namespaceObject.metadata.name == 'default' && request.namespace == 'default' && request.name == 'blue' \
            && request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap' && request.dryRun && oldObject == null",
            ),
            binding(json!({})),
            both(),
        ),
        (
            "authorizer",
            plain(
                "authorizer.group('').resource('pods').namespace('default').check('create').allowed() \
            && !authorizer.serviceAccount('default', 'x').group('').resource('pods').check('create').allowed() \
            && authorizer.requestResource.check('create').allowed() && object.metadata.name == 'blue'",
            ),
            binding(json!({})),
            both(),
        ),
        (
            "a parameter",
            by_params(),
            params(json!({"name": "limits", "namespace": "default"})),
            both(),
        ),
        (
            "parameters by label",
            by_params(),
            params(json!({"selector": {"matchLabels": {"limits": "yes"}}})),
            both(),
        ),
        (
            "an absent parameter",
            by_params(),
            params(json!({"name": "absent"})),
            both(),
        ),
        (
            "an unknown kind",
            policy(
                json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Absent"},
            "validations": [{"expression": "true"}]}),
            ),
            params(json!({"name": "limits"})),
            both(),
        ),
        (
            "too expensive",
            plain(
                "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, \
            [1,2,3,4,5,6,7,8,9].all(e, [1,2,3,4,5,6,7,8,9].all(f, [1,2,3,4,5,6,7,8,9].all(g, a + b + c + d + e + f + g > 0)))))))",
            ),
            binding(json!({})),
            vec![red.clone()],
        ),
    ]
}

type Hook = (&'static str, &'static str, Value, Value, u16);

/// Webhooks, each with an object that is sent and the status that must come of it.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn webhooks(server: &FakeSpoke) -> Vec<Hook> {
    let hook = |path: &str, more: Value| {
        let mut hook = json!({"name": "guard.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": server.client_config(path), "rules": [rule()], "timeoutSeconds": 2});
        for (field, value) in more.as_object().into_iter().flatten() {
            hook[field] = value.clone();
        }
        hook
    };
    let red = || map("red", json!({"color": "red"}));
    let says = |what: &str| map("red", json!({"say": what}));
    let plain = |path: &str| hook(path, json!({}));
    vec![
        ("allowed", "Validating", plain("/"), red(), 201),
        ("warned", "Validating", plain("/"), says("warn"), 201),
        (
            "denied in full",
            "Validating",
            plain("/"),
            says("status"),
            403,
        ),
        ("changed", "Mutating", plain("/"), says("label"), 201),
        (
            "a patch that does not fit",
            "Mutating",
            plain("/"),
            says("misfit"),
            500,
        ),
        (
            "a patch of a validating one",
            "Validating",
            plain("/"),
            says("label"),
            500,
        ),
        (
            "another review",
            "Validating",
            plain("/"),
            says("other"),
            500,
        ),
        (
            "broken, failing",
            "Validating",
            plain("/"),
            says("broken"),
            500,
        ),
        (
            "broken, ignored",
            "Validating",
            hook("/", json!({"failurePolicy": "Ignore"})),
            says("broken"),
            201,
        ),
        (
            "another object",
            "Validating",
            hook(
                "/",
                json!({"matchConditions": [
            {"name": "a", "expression": "object.metadata.labels.say == 'no'"}]}),
            ),
            says("status"),
            201,
        ),
        (
            "another label",
            "Mutating",
            hook(
                "/",
                json!({"objectSelector": {"matchLabels": {"say": "no"}}}),
            ),
            says("label"),
            201,
        ),
    ]
}

/// Answers reviews as the label `say` of the object has it.
fn answer(_head: &str, body: &[u8]) -> Vec<u8> {
    let review: Value = serde_json::from_slice(body).unwrap_or_default();
    if review["kind"] == "ConversionReview" {
        return conversion::answer(&review);
    }
    let request = &review["request"];
    let patch = |operations: Value| STANDARD.encode(operations.to_string());
    let mut response = json!({"uid": request["uid"], "allowed": true});
    match request["object"]["metadata"]["labels"]["say"]
        .as_str()
        .unwrap_or_default()
    {
        "no" => response["allowed"] = json!(false),
        "status" => {
            response["allowed"] = json!(false);
            response["status"] =
                json!({"code": 403, "reason": "Forbidden", "message": "not this one"});
        }
        "warn" => response["warnings"] = json!(["take care"]),
        "label" => {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(patch(
                json!([{"op": "add", "path": "/metadata/labels/made", "value": "yes"}])
            ));
        }
        "misfit" => {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(patch(
                json!([{"op": "remove", "path": "/metadata/labels/absent"}])
            ));
        }
        "other" => response["uid"] = json!("another"),
        "broken" => return json_answer(500, &json!({})),
        _ => {}
    }
    let review =
        json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
    json_answer(200, &review)
}

#[expect(clippy::too_many_lines, reason = "it is one story")]
#[tokio::test(flavor = "multi_thread")]
async fn s33_what_guards_one_cluster_acts_in_no_other() {
    let fixture = Fixture::start(&["alice", "bob", "carol"]).await;
    fixture.embed("a").await;
    fixture.embed("b").await;
    let (alice, bob) = (
        fixture.tenant("alice", "a").await,
        fixture.tenant("bob", "b").await,
    );
    let admin = fixture.admin().await;
    let at = |cluster: &str, path: &str| format!("{}{path}", super::support::base(cluster));
    let policies = format!("{GROUP}/validatingadmissionpolicies");
    let bindings = format!("{GROUP}/validatingadmissionpolicybindings");
    let limits = map("limits", json!({}));
    admin.post(MAPS, &limits).await.must(201);
    bob.post(&at("b", MAPS), &limits).await.must(201);

    // A tenant's policy refuses in its own cluster alone, and finds no parameters but its own.
    let refuses = policy(json!({"validations": [{"expression": "false", "message": "not here"}]}));
    alice.post(&at("a", &policies), &refuses).await.must(201);
    alice
        .post(&at("a", &bindings), &binding(json!({})))
        .await
        .must(201);
    let refused = alice.post(&at("a", MAPS), &limits).await;
    assert!(refused.message().contains("not here"), "{}", refused.body);
    for (user, cluster) in [(&bob, "b"), (&admin, "root")] {
        user.post(
            &at(cluster, &format!("{MAPS}?dryRun=All")),
            &map("x", json!({})),
        )
        .await
        .must(201);
    }
    let by_params = policy(
        json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "true"}]}),
    );
    alice
        .apply(&at("a", &format!("{policies}/guard")), &by_params)
        .await
        .must(200);
    let named = binding(json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}}));
    alice
        .apply(&at("a", &format!("{bindings}/guard")), &named)
        .await
        .must(200);
    let refused = alice.post(&at("a", MAPS), &map("x", json!({}))).await;
    assert!(
        refused.message().contains("no params found"),
        "{}",
        refused.body
    );
    alice
        .delete(&at("a", &format!("{bindings}/guard")))
        .await
        .must(200);

    // Who may write policies shows them nothing that it may not read.
    fixture.allow_access("carol", "a").await;
    let rules = [
        json!({"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}),
    ];
    fixture.grant("a", "carol", "policies", &rules).await;
    let carol = fixture.user("carol").await;
    carol.until_status(&at("a", &bindings), 200).await;
    let mut secret = by_params.clone();
    secret["metadata"]["name"] = json!("secrets");
    secret["spec"]["paramKind"]["kind"] = json!("Secret");
    let refused = carol.post(&at("a", &policies), &secret).await;
    assert!(
        refused.message().contains("must have \"get\" permission"),
        "{}",
        refused.body
    );
    let refused = carol.post(&at("a", &bindings), &named).await;
    assert!(
        refused.message().contains("referenced by paramRef"),
        "{}",
        refused.body
    );

    // A policy of root acts everywhere.
    admin.post(&policies, &refuses).await.must(201);
    admin.post(&bindings, &binding(json!({}))).await.must(201);
    for (user, cluster) in [(&alice, "a"), (&bob, "b"), (&admin, "root")] {
        let refused = user.post(&at(cluster, MAPS), &map("x", json!({}))).await;
        assert!(refused.message().contains("not here"), "{}", refused.body);
    }
    admin.delete(&format!("{bindings}/guard")).await.must(200);
    let server = FakeSpoke::start(answer).await;
    webhooks_are_called_where_they_may(&alice, &admin, &server).await;
    conversion::converts_where_it_may(&alice, &admin, &server).await;
}

/// A tenant does not make the hub call where it likes; root's webhooks see which cluster a write is in.
async fn webhooks_are_called_where_they_may(alice: &User, admin: &User, server: &FakeSpoke) {
    let at = |path: &str| format!("{}{path}", super::support::base("a"));
    let configurations = format!("{GROUP}/mutatingwebhookconfigurations");
    let configuration = |policy: &str, client: &Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "guard"}, "webhooks": [{"name": "guard.example.com", "sideEffects": "None",
            "failurePolicy": policy, "admissionReviewVersions": ["v1"], "clientConfig": client, "rules": [rule()]}]})
    };
    let client = server.client_config("/");
    let (object, path) = (
        map("x", json!({"say": "label"})),
        at(&format!("{MAPS}?dryRun=All")),
    );
    alice
        .post(&at(&configurations), &configuration("Fail", &client))
        .await
        .must(201);
    let refused = alice.post(&path, &object).await;
    assert_eq!(refused.status, 500, "{}", refused.body);
    assert!(
        refused.message().contains("--allow-webhook-host"),
        "{}",
        refused.body
    );
    let one = at(&format!("{configurations}/guard"));
    alice
        .apply(&one, &configuration("Ignore", &client))
        .await
        .must(200);
    let passed = alice.post(&path, &object).await.must(201);
    assert!(passed["metadata"]["labels"]["made"].is_null(), "{passed}");
    assert!(
        server.heads().is_empty(),
        "a tenant's webhook is not called"
    );
    alice.delete(&one).await.must(200);

    admin
        .post(&configurations, &configuration("Fail", &client))
        .await
        .must(201);
    let changed = alice.post(&path, &object).await.must(201);
    assert_eq!(changed["metadata"]["labels"]["made"], "yes", "{changed}");
    assert!(
        server.was_sent(r#""wheelhouse.dev/cluster":["a"]"#),
        "the review names the cluster"
    );
    assert!(!server.was_sent("authorization:"), "no credential is sent");
    admin
        .delete(&format!("{configurations}/guard"))
        .await
        .must(200);
    let service = json!({"service": {"namespace": "default", "name": "hook"}});
    admin
        .post(&configurations, &configuration("Fail", &service))
        .await
        .must(201);
    let refused = alice.post(&path, &object).await;
    assert!(
        refused.message().contains("no Service network"),
        "{}",
        refused.body
    );
}
