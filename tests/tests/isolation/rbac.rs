//! S02: RBAC decides as in a real kube-apiserver.
//!
//! Random policies are created there and in an embedded cluster; both must accept the same objects, and then answer the
//! same SubjectAccessReviews. A policy follows its objects by watches, so a difference counts once it has lasted.

use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use storage_conformance::{Random, Trial};
use tokio::time::Instant;
use wheelhouse_tests::Spoke;

use super::support::{Fixture, RBAC, User};

const S02: Trial = Trial("S02");

/// Questions to each policy. The suite asks one policy, `hack/soak S02` fifty.
const QUESTIONS: usize = 2_000;
const POLICIES_OF_A_SOAK: usize = 5;
const AT_ONCE: usize = 24;
/// How long a watch may take to bring an object into a policy, and a controller to aggregate roles.
const LASTING: Duration = Duration::from_secs(20);

const VERBS: [&str; 10] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "impersonate",
    "*",
];
const GROUPS: [&str; 5] = ["", "apps", "kro.run", "rbac.authorization.k8s.io", "*"];
const RESOURCES: [&str; 14] = [
    "pods",
    "pods/log",
    "pods/*",
    "*/scale",
    "*/status",
    "deployments",
    "deployments/scale",
    "secrets",
    "configmaps",
    "webapps",
    "serviceaccounts",
    "roles",
    "Pods",
    "*",
];
const NAMES: [&str; 4] = ["x", "y", "x.y", "*"];
const PATHS: [&str; 10] = [
    "/healthz",
    "/healthz/*",
    "/livez",
    "/metrics",
    "/api",
    "/api/*",
    "/api*",
    "*",
    "/logs/a",
    "/openapi/v3",
];
const USERS: [&str; 4] = ["ann", "ben", "system:serviceaccount:n1:robot", "Ann"];
const USER_GROUPS: [&str; 5] = [
    "team",
    "ops",
    "system:serviceaccounts",
    "system:serviceaccounts:n1",
    "system:authenticated",
];
const NAMESPACES: [&str; 3] = ["default", "n1", "n2"];
const ROLES: [&str; 8] = ["r0", "r1", "r2", "r3", "view", "edit", "admin", "absent"];

struct Draw(Random);

#[tokio::test(flavor = "multi_thread")]
async fn s02_rbac_answers_as_a_real_kube_apiserver() {
    let (fixture, spoke) = tokio::join!(Fixture::start(&[]), Spoke::start("peer"));
    fixture.embed("a").await;
    let ours = fixture.admin().await;
    let text = std::fs::read_to_string(spoke.kubeconfig()).expect("the spoke has a kubeconfig");
    let peer = User::connect("peer", &text).await;
    let base = "/clusters/a";
    // The first gate, which a real cluster does not have.
    for user in ["ann", "ben", "Ann"] {
        fixture.allow_access(user, "a").await;
    }
    for name in ["n1", "n2"] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ours.post(&format!("{base}/api/v1/namespaces"), &namespace)
            .await
            .must(201);
        peer.post("/api/v1/namespaces", &namespace).await.must(201);
    }
    let histories = if Trial::factor() == 1 {
        1
    } else {
        POLICIES_OF_A_SOAK
    };
    for seed in Trial::seeds(histories) {
        let mut draw = Draw(Random::new(seed));
        let objects = policy(&mut draw, seed);
        let mut refused = 0;
        for (path, object) in &objects {
            let (a, b) = (format!("{base}{path}"), path.clone());
            let (left, right) = tokio::join!(ours.post(&a, object), peer.post(&b, object));
            assert_eq!(
                left.status, right.status,
                "seed {seed}: {object} is answered with {} by the hub, with {} by kube-apiserver",
                left.body, right.body
            );
            refused += usize::from(left.status != 201);
        }
        let questions: Vec<Value> = (0..QUESTIONS).map(|_| question(&mut draw)).collect();
        let asked = stream::iter(questions).map(|question| ask(&ours, &peer, question));
        let answers: Vec<_> = asked.buffer_unordered(AT_ONCE).collect().await;
        let allowed = answers
            .iter()
            .filter(|answer| matches!(answer, Ok(true)))
            .count();
        let differences: Vec<&String> = answers
            .iter()
            .filter_map(|answer| answer.as_ref().err())
            .collect();
        println!(
            "S02: seed {seed}: {} objects, {refused} refused by both; {QUESTIONS} questions, {allowed} allowed, {} differences",
            objects.len(),
            differences.len()
        );
        assert!(
            differences.is_empty(),
            "seed {seed}: {differences:#?}\nrepeat it: {}",
            S02.repeat(seed)
        );
        assert!(
            allowed > QUESTIONS / 20 && allowed < QUESTIONS * 19 / 20,
            "both answers are frequent: {allowed}"
        );
        for (user, base) in [(&ours, base), (&peer, "")] {
            forget(user, base).await;
        }
    }
}

/// Asks both, until they agree or have disagreed for long.
async fn ask(ours: &User, peer: &User, question: Value) -> Result<bool, String> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": question,
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let ours_path = format!("/clusters/a{path}");
    let deadline = Instant::now() + LASTING;
    loop {
        let (left, right) = tokio::join!(ours.post(&ours_path, &review), peer.post(path, &review));
        let verdict = |body: &Value| {
            (
                body["status"]["allowed"] == true,
                body["status"]["denied"] == true,
            )
        };
        if left.status == right.status && verdict(&left.body) == verdict(&right.body) {
            return Ok(left.body["status"]["allowed"] == true);
        }
        if Instant::now() > deadline {
            return Err(format!(
                "{question}: the hub {} {}, kube-apiserver {} {}",
                left.status, left.body["status"], right.status, right.body["status"]
            ));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Deletes the objects of a seed.
async fn forget(user: &User, base: &str) {
    for kind in ["clusterrolebindings", "clusterroles"] {
        user.delete(&format!("{base}{RBAC}/{kind}?labelSelector=trial"))
            .await
            .must(200);
    }
    for namespace in NAMESPACES {
        for kind in ["rolebindings", "roles"] {
            let path = format!("{base}{RBAC}/namespaces/{namespace}/{kind}?labelSelector=trial");
            user.delete(&path).await.must(200);
        }
    }
}

/// Draws roles and bindings, with the collections they go to.
fn policy(draw: &mut Draw, seed: u64) -> Vec<(String, Value)> {
    let mut objects = Vec::new();
    for n in 0..4 {
        let rules: Vec<Value> = (0..=draw.below(3)).map(|_| rule(draw)).collect();
        let role = named("ClusterRole", &format!("r{n}"), json!({"rules": rules}));
        objects.push((format!("{RBAC}/clusterroles"), role));
    }
    // One that has the rules of others, and one that gives its own to `view`.
    let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]});
    let whole = named(
        "ClusterRole",
        "whole",
        json!({"aggregationRule": selector, "rules": []}),
    );
    objects.push((format!("{RBAC}/clusterroles"), whole));
    for (name, label) in [
        ("part", "part"),
        ("more", "rbac.authorization.k8s.io/aggregate-to-view"),
    ] {
        let mut part = named(
            "ClusterRole",
            name,
            json!({"rules": [rule(draw), rule(draw)]}),
        );
        part["metadata"]["labels"][label] = json!(if label == "part" { "yes" } else { "true" });
        objects.push((format!("{RBAC}/clusterroles"), part));
    }
    for namespace in NAMESPACES {
        for n in 0..3 {
            let rules: Vec<Value> = (0..=draw.below(2)).map(|_| rule(draw)).collect();
            let role = named("Role", &format!("r{n}"), json!({"rules": rules}));
            objects.push((format!("{RBAC}/namespaces/{namespace}/roles"), role));
        }
        for n in 0..6 {
            let kind = draw.pick(&["Role", "ClusterRole"]);
            let role = draw.pick(&ROLES);
            let binding = binding(draw, "RoleBinding", &format!("b{n}"), (kind, role));
            objects.push((
                format!("{RBAC}/namespaces/{namespace}/rolebindings"),
                binding,
            ));
        }
    }
    for n in 0..10 {
        let role = if n == 0 { "whole" } else { draw.pick(&ROLES) };
        let name = format!("b{n}-{seed}");
        let binding = binding(draw, "ClusterRoleBinding", &name, ("ClusterRole", role));
        objects.push((format!("{RBAC}/clusterrolebindings"), binding));
    }
    objects
}

fn named(kind: &str, name: &str, rest: Value) -> Value {
    let mut object = rest;
    object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": name, "labels": {"trial": "yes"}});
    object
}

fn binding(draw: &mut Draw, kind: &str, name: &str, (role_kind, role): (&str, &str)) -> Value {
    let group = "rbac.authorization.k8s.io";
    let subjects: Vec<Value> = (0..=draw.below(2))
        .map(|_| match draw.below(3) {
            0 => json!({"kind": "User", "apiGroup": group, "name": draw.pick(&USERS)}),
            1 => json!({"kind": "Group", "apiGroup": group, "name": draw.pick(&USER_GROUPS)}),
            _ => json!({"kind": "ServiceAccount", "namespace": draw.pick(&["n1", "n2"]), "name": "robot"}),
        })
        .collect();
    let role_ref = json!({"apiGroup": group, "kind": role_kind, "name": role});
    named(
        kind,
        name,
        json!({"roleRef": role_ref, "subjects": subjects}),
    )
}

fn rule(draw: &mut Draw) -> Value {
    if draw.below(5) == 0 {
        return json!({"nonResourceURLs": draw.some(&PATHS), "verbs": draw.some(&VERBS)});
    }
    let mut rule = json!({
        "apiGroups": draw.some(&GROUPS), "resources": draw.some(&RESOURCES), "verbs": draw.some(&VERBS),
    });
    if draw.below(3) == 0 {
        rule["resourceNames"] = json!(draw.some(&NAMES));
    }
    rule
}

/// Draws who asks, and what.
fn question(draw: &mut Draw) -> Value {
    let mut question = json!({"user": draw.pick(&USERS)});
    if draw.below(2) == 0 {
        question["groups"] = json!(draw.some(&USER_GROUPS));
    }
    if draw.below(6) == 0 {
        let path = draw.pick(&[
            "/healthz",
            "/healthz/ping",
            "/livez",
            "/metrics",
            "/api",
            "/api/v1",
            "/apis",
            "/logs/a",
            "/",
            "/openapi/v3",
        ]);
        question["nonResourceAttributes"] = json!({"path": path, "verb": draw.pick(&VERBS)});
        return question;
    }
    let (resource, subresource) = draw
        .pick(&[
            "pods",
            "pods/log",
            "pods/status",
            "deployments",
            "deployments/scale",
            "webapps/scale",
            "secrets",
            "configmaps",
            "roles",
            "serviceaccounts/token",
            "*",
        ])
        .split_once('/')
        .map_or((None, ""), |(resource, subresource)| {
            (Some(resource), subresource)
        });
    let resource = resource.unwrap_or_else(|| {
        draw.pick(&[
            "pods",
            "deployments",
            "secrets",
            "configmaps",
            "webapps",
            "roles",
            "Pods",
            "*",
        ])
    });
    question["resourceAttributes"] = json!({
        "verb": draw.pick(&VERBS), "group": draw.pick(&GROUPS), "resource": resource, "subresource": subresource,
        "namespace": draw.pick(&["", "default", "n1", "n2", "n3"]), "name": draw.pick(&["", "", "x", "y", "z", "*"]),
    });
    question
}

// === impl Draw ===

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0.below(end)
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// One or two of them, or often all.
    fn some<'a>(&mut self, of: &[&'a str]) -> Vec<&'a str> {
        if of.contains(&"*") && self.below(3) == 0 {
            return vec!["*"];
        }
        (0..=self.below(2)).map(|_| self.pick(of)).collect()
    }
}
