//! Ways around a right that is narrower than what is asked for.

#![expect(clippy::too_many_lines, reason = "a story is told in one piece")]

use http::Method;
use serde_json::{Value, json};

use super::world::{ADMIN, Findings, Sent, World, rule};

const CONFIGMAPS: &str = "/api/v1/namespaces/here/configmaps";
const SECRETS: &str = "/api/v1/namespaces/here/secrets";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/here/widgets";
const GRAPHS: &str = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";
const AUTHOR: &str = "internal.wheelhouse.dev/author";

/// A kind with status and scale.
pub(super) fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                }},
            }],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"a": 1, "replicas": 1}})
}

fn configmap(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn expect_all(world: &World, token: &str, table: &[(Method, &str, Value, u16)]) {
    let mut findings = Findings::default();
    for (method, path, body, code) in table {
        let answer = world.ask(token, method.clone(), path, body.clone()).await;
        findings.expect(answer.code == *code, || {
            format!("{token} {method} {path}: {}", answer.text)
        });
    }
}

fn get(path: &str, code: u16) -> (Method, &str, Value, u16) {
    (Method::GET, path, Value::Null, code)
}

#[tokio::test]
async fn a_right_in_a_namespace_stays_there() {
    let world = World::new().await;
    let rules = json!([rule(&["get", "list", "watch"], "", &["configmaps"], &[])]);
    world.grant("", "here", "alice", rules).await;
    world.made(CONFIGMAPS, &configmap("a")).await;
    world
        .made("/api/v1/namespaces/there/configmaps", &configmap("a"))
        .await;
    world.settled().await;
    let table = [
        get(CONFIGMAPS, 200),
        get("/api/v1/namespaces/here/configmaps/a", 200),
        get("/clusters/root/api/v1/namespaces/here/configmaps/a", 200),
        get("/api/v1/configmaps", 403),
        get("/api/v1/configmaps?watch=true", 403),
        get(
            "/api/v1/configmaps?fieldSelector=metadata.namespace%3Dhere",
            403,
        ),
        get("/api/v1/namespaces//configmaps", 403),
        get("/api/v1/namespaces/there/configmaps", 403),
        get("/api/v1/namespaces/there/configmaps/a", 403),
        get("/api/v1/namespaces/here/secrets", 403),
        get("/api/v1/namespaces/here/configmaps/a/status", 403),
        get("/api/v1/namespaces/here", 403),
        get("/api/v1/namespaces/HERE/configmaps", 403),
        get("/api/v1/namespaces/here/../there/configmaps", 400),
        get("/api/v1/namespaces/here/%2e%2e/there/configmaps", 400),
        get("/api/v1/namespaces/here%2F..%2Fthere/configmaps", 400),
        get("/api/v1/namespaces/here%00/configmaps", 403),
        get("/API/v1/namespaces/here/configmaps", 403),
        get("/apis/apps/v1/namespaces/here/configmaps", 403),
        get("/clusters/east/api/v1/namespaces/here/configmaps", 403),
        // Root is one of all clusters, and the only one that lets her look.
        get("/clusters/*/api/v1/namespaces/here/configmaps", 200),
        get("/clusters/*/api/v1/namespaces/there/configmaps", 403),
        get("/clusters/*/api/v1/configmaps", 403),
        get("/clusters/*/api/v1/configmaps?watch=true", 403),
        (Method::POST, CONFIGMAPS, configmap("b"), 403),
        (
            Method::PUT,
            "/api/v1/namespaces/here/configmaps/a",
            configmap("a"),
            403,
        ),
        (
            Method::PATCH,
            "/api/v1/namespaces/here/configmaps/a",
            json!({}),
            403,
        ),
        (
            Method::DELETE,
            "/api/v1/namespaces/here/configmaps/a",
            Value::Null,
            403,
        ),
        (Method::DELETE, CONFIGMAPS, Value::Null, 403),
    ];
    expect_all(&world, "alice", &table).await;
    // A namespace in the path of a kind that has none must not lend the namespace's rights.
    world
        .grant("", "here", "bob", json!([rule(&["*"], "*", &["*"], &[])]))
        .await;
    world.settled().await;
    let table = [
        get(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/here/clusterroles",
            404,
        ),
        get(
            "/apis/wheelhouse.dev/v1alpha1/namespaces/here/spokes/east",
            404,
        ),
        get("/apis/wheelhouse.dev/v1alpha1/spokes/east", 403),
        get("/api/v1/namespaces/here", 200),
        get("/api/v1/namespaces/there", 403),
        get("/api/v1/namespaces", 403),
        get("/metrics", 403),
        (Method::DELETE, "/api/v1/namespaces/there", Value::Null, 403),
    ];
    expect_all(&world, "bob", &table).await;
}

#[tokio::test]
async fn a_right_to_one_name_shows_no_other() {
    let mut findings = Findings::default();
    let world = World::new().await;
    for name in ["mine", "other"] {
        let secret =
            json!({"metadata": {"name": name}, "stringData": {"k": format!("canary-{name}")}});
        world.made(SECRETS, &secret).await;
    }
    let verbs = [
        "get",
        "list",
        "watch",
        "delete",
        "deletecollection",
        "patch",
        "update",
    ];
    world
        .grant(
            "",
            "",
            "alice",
            json!([rule(&verbs, "", &["secrets"], &["mine"])]),
        )
        .await;
    world.settled().await;
    // The key of a page is relative to the range; this one tries to begin elsewhere.
    let token = crate::objects::ContinueToken::after(None, "/../other").encode();
    for (query, code) in [
        ("/mine", 200),
        ("?fieldSelector=metadata.name%3Dmine", 200),
        ("?fieldSelector=metadata.name%3D%3Dmine&watch=true", 200),
        (
            "?fieldSelector=metadata.name%3Dmine,metadata.name%3Dother",
            200,
        ),
        (
            "?fieldSelector=metadata.name%3Dmine&fieldSelector=metadata.name%3Dother",
            200,
        ),
        ("?fieldSelector=metadata.name%3Dmine&fieldSelector=", 200),
        (
            "?fieldSelector=metadata.name%3Dmine&limit=1&continue=bm9uc2Vuc2U",
            400,
        ),
        ("?fieldSelector=metadata.name%3Dmine&labelSelector=!x", 200),
        ("", 403),
        ("/other", 403),
        ("?watch=true", 403),
        ("?fieldSelector=metadata.name!%3Dx", 403),
        ("?fieldSelector=metadata.name%3Dother", 403),
        ("?fieldSelector=&fieldSelector=metadata.name%3Dmine", 403),
        ("?fieldSelector=type%3DOpaque", 403),
    ] {
        let answer = world.get("alice", &format!("{SECRETS}{query}")).await;
        findings.expect(answer.code == code, || format!("{query}: {}", answer.text));
        assert!(
            !answer.text.contains(&base64_of("canary-other")),
            "{query} shows the other one"
        );
    }
    for (path, code) in [
        ("/api/v1/watch/namespaces/here/secrets/mine", 200),
        (
            "/api/v1/watch/namespaces/here/secrets/mine?fieldSelector=metadata.name%3Dother",
            400,
        ),
        (
            "/api/v1/watch/namespaces/here/secrets?fieldSelector=metadata.name%3Dmine",
            403,
        ),
        ("/api/v1/watch/namespaces/here/secrets", 403),
        ("/api/v1/watch/secrets", 403),
        (
            &format!("{SECRETS}?fieldSelector=metadata.name%3Dmine&limit=1&continue={token}"),
            400,
        ),
    ] {
        let answer = world.get("alice", path).await;
        findings.expect(answer.code == code, || format!("{path}: {}", answer.text));
        assert!(
            !answer.text.contains(&base64_of("canary-other")),
            "{path} shows the other one"
        );
    }
    let table = [
        (Method::DELETE, SECRETS, Value::Null, 403),
        (
            Method::DELETE,
            "/api/v1/namespaces/here/secrets?fieldSelector=metadata.name%3Dmine",
            Value::Null,
            403,
        ),
        (
            Method::DELETE,
            "/api/v1/namespaces/here/secrets/other",
            Value::Null,
            403,
        ),
        (
            Method::PATCH,
            "/api/v1/namespaces/here/secrets/mine",
            json!({"metadata": {"name": "other"}}),
            400,
        ),
    ];
    expect_all(&world, "alice", &table).await;
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test]
async fn a_subresource_is_another_right_than_its_resource() {
    let mut findings = Findings::default();
    let world = World::new().await;
    world
        .made(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &widgets(),
        )
        .await;
    world.until(ADMIN, WIDGETS, 200).await;
    world.made(WIDGETS, &widget("a")).await;
    let a = "/apis/example.com/v1/namespaces/here/widgets/a";
    let status = "/apis/example.com/v1/namespaces/here/widgets/a/status";
    let scale = "/apis/example.com/v1/namespaces/here/widgets/a/scale";
    for (user, resource) in [
        ("alice", "widgets"),
        ("bob", "widgets/status"),
        ("carol", "widgets/scale"),
    ] {
        let rules = json!([rule(
            &["get", "update", "patch", "delete"],
            "example.com",
            &[resource],
            &[]
        )]);
        world.grant("", "here", user, rules).await;
    }
    world
        .grant(
            "",
            "here",
            "dave",
            json!([rule(&["*"], "example.com", &["*/status"], &[])]),
        )
        .await;
    world.settled().await;
    for (user, own) in [
        ("alice", a),
        ("bob", status),
        ("carol", scale),
        ("dave", status),
    ] {
        for path in [a, status, scale] {
            let code = if path == own { 200 } else { 403 };
            expect_all(
                &world,
                user,
                &[
                    get(path, code),
                    (Method::PATCH, path, json!({"metadata": {}}), code),
                ],
            )
            .await;
        }
    }
    let sneaky = json!({
        "metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}, "finalizers": ["x.io/y"]},
        "spec": {"a": 2}, "status": {"a": 2},
    });
    let answer = world
        .ask("bob", Method::PATCH, status, sneaky.clone())
        .await;
    findings.expect(answer.code == 200, || answer.text.clone());
    let live = world.get(ADMIN, a).await.json();
    assert_eq!(
        (&live["spec"], &live["status"]),
        (&json!({"a": 1, "replicas": 1}), &json!({"a": 2}))
    );
    for field in ["labels", "annotations", "finalizers"] {
        assert_eq!(
            live["metadata"].get(field),
            None,
            "status does not write {field}"
        );
    }
    let answer = world
        .ask("alice", Method::PATCH, a, json!({"status": {"a": 3}}))
        .await;
    findings.expect(answer.code == 200, || answer.text.clone());
    let live = world.get(ADMIN, a).await.json();
    assert_eq!(
        live["status"],
        json!({"a": 2}),
        "the resource does not write status"
    );
}

#[tokio::test]
async fn a_change_neither_moves_nor_creates_without_the_right_to() {
    let world = World::new().await;
    world
        .made(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &widgets(),
        )
        .await;
    world.until(ADMIN, WIDGETS, 200).await;
    world.made(WIDGETS, &widget("a")).await;
    let rules = json!([
        rule(
            &["get", "update", "patch"],
            "example.com",
            &["widgets"],
            &[]
        ),
        rule(
            &["get", "update", "patch"],
            "coordination.k8s.io",
            &["leases"],
            &[]
        ),
    ]);
    world.grant("", "here", "alice", rules).await;
    world.settled().await;
    let a = "/apis/example.com/v1/namespaces/here/widgets/a";
    let moved = |name: &str, namespace: &str| {
        let mut widget = widget(name);
        widget["metadata"]["namespace"] = json!(namespace);
        widget["metadata"]["resourceVersion"] = json!("0");
        widget
    };
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}});
    let table = [
        (Method::PATCH, a, json!({"metadata": {"name": "b"}}), 400),
        (
            Method::PATCH,
            a,
            json!({"metadata": {"namespace": "there"}}),
            400,
        ),
        (Method::PUT, a, moved("b", "here"), 400),
        (Method::PUT, a, moved("a", "there"), 400),
        (
            Method::PUT,
            "/apis/example.com/v1/namespaces/there/widgets/a",
            moved("a", "here"),
            403,
        ),
        (
            Method::PUT,
            "/apis/coordination.k8s.io/v1/namespaces/here/leases/l",
            lease,
            403,
        ),
    ];
    expect_all(&world, "alice", &table).await;
    for (what, path, body) in [
        (
            "creates",
            format!("{WIDGETS}/new?fieldManager=m"),
            widget("new").to_string(),
        ),
        (
            "moves",
            format!("{a}?fieldManager=m"),
            moved("a", "there").to_string(),
        ),
    ] {
        let answer = world
            .send(Sent {
                token: "alice",
                method: Method::PATCH,
                path: &path,
                headers: &[("content-type", "application/apply-patch+yaml")],
                body: Value::String(body),
            })
            .await;
        assert!(
            matches!(answer.code, 400 | 403),
            "an apply that {what}: {answer:?}"
        );
    }
    for (name, operations) in [
        (
            "name",
            json!([{"op": "replace", "path": "/metadata/name", "value": "b"}]),
        ),
        (
            "namespace",
            json!([{"op": "replace", "path": "/metadata/namespace", "value": "there"}]),
        ),
    ] {
        let answer = world
            .send(Sent {
                token: "alice",
                method: Method::PATCH,
                path: a,
                headers: &[("content-type", "application/json-patch+json")],
                body: Value::String(operations.to_string()),
            })
            .await;
        assert_eq!(answer.code, 400, "a JSON patch of the {name}: {answer:?}");
    }
    assert_eq!(
        world
            .get(ADMIN, "/apis/example.com/v1/widgets")
            .await
            .json()["items"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn a_cluster_lends_no_right_to_another() {
    let mut findings = Findings::default();
    let world = World::new().await;
    let access = |names: &[&str]| json!([rule(&["access"], "wheelhouse.dev", &["spokes"], names)]);
    let read = || json!([rule(&["get", "list", "watch"], "", &["configmaps"], &[])]);
    // bob enters east and reads there; carol enters east and reads in root; dave reads in east and does not enter.
    world.grant("", "", "bob", access(&["east"])).await;
    world.grant("/clusters/east", "", "bob", read()).await;
    world.grant("", "", "carol", access(&["east"])).await;
    world.grant("", "", "carol", read()).await;
    world
        .grant(
            "/clusters/east",
            "",
            "dave",
            json!([rule(&["*"], "*", &["*"], &[])]),
        )
        .await;
    world.grant("/clusters/east", "", "dave", access(&[])).await;
    world.settled().await;
    let root = "/api/v1/configmaps";
    let east = "/clusters/east/api/v1/configmaps";
    for (user, path, code) in [
        ("bob", east, 200),
        ("bob", root, 403),
        ("bob", "/clusters/root/api/v1/configmaps", 403),
        ("bob", "/clusters/west/api/v1/configmaps", 403),
        ("bob", "/clusters/nowhere/api/v1/configmaps", 403),
        ("bob", "/clusters/*/api/v1/configmaps", 200),
        ("bob", "/clusters/*/api/v1/secrets", 403),
        ("bob", "/clusters/*/apis", 403),
        ("bob", "/clusters/EAST/api/v1/configmaps", 400),
        ("bob", "/Clusters/east/api/v1/configmaps", 403),
        ("bob", "/clusters/east/clusters/root/api/v1/configmaps", 404),
        ("bob", "/clusters/east/clusters/west/api/v1/configmaps", 404),
        ("bob", "/clusters/east/../root/api/v1/configmaps", 400),
        ("bob", "/clusters/east/%2e%2e/root/api/v1/configmaps", 400),
        ("bob", "/clusters/east%2F..%2Froot/api/v1/configmaps", 400),
        ("bob", "/clusters/east%2Fapi/v1/configmaps", 400),
        (
            "bob",
            "/clusters/east/api/v1/namespaces/..%2f..%2froot/configmaps",
            400,
        ),
        ("bob", "/clusters//api/v1/configmaps", 400),
        ("bob", "/clusters/east-b/api/v1/configmaps", 403),
        ("bob", "/clusters/eas/api/v1/configmaps", 403),
        ("carol", root, 200),
        ("carol", east, 403),
        ("carol", "/clusters/*/api/v1/configmaps", 200),
        ("dave", east, 403),
        ("dave", root, 403),
        ("dave", "/clusters/*/api/v1/configmaps", 403),
    ] {
        let answer = world.get(user, path).await;
        findings.expect(answer.code == code, || {
            format!("{user} {path}: {}", answer.text)
        });
    }
    for path in ["/metrics", "/clusters/root/metrics"] {
        assert_eq!(world.get(ADMIN, path).await.code, 200, "{path}");
    }
    let below = world.get(ADMIN, "/clusters/east/metrics").await;
    assert_eq!(
        below.code, 404,
        "what is about the process is not told as a cluster's"
    );
}

/// What a client writes into an object never says in which cluster it is.
#[tokio::test]
async fn a_forged_cluster_is_not_believed() {
    let world = World::new().await;
    let mut forged = configmap("forged");
    forged["metadata"]["annotations"] = json!({"kcp.io/cluster": "root", "z": "z"});
    world
        .made(
            "/clusters/east/api/v1/namespaces/default/configmaps",
            &forged,
        )
        .await;
    let list = world
        .get(ADMIN, "/clusters/*/api/v1/configmaps?partial=true")
        .await
        .json();
    let items = list["items"].as_array().unwrap();
    let found = items
        .iter()
        .find(|item| item["metadata"]["name"] == "forged")
        .unwrap();
    assert_eq!(found["metadata"]["annotations"]["kcp.io/cluster"], "east");
}

#[tokio::test]
async fn the_author_is_who_the_server_saw() {
    let mut findings = Findings::default();
    let world = World::new().await;
    for user in ["alice", "bob"] {
        let rules = json!([rule(&["*"], "kro.run", &["*"], &[])]);
        world.grant("", "", user, rules).await;
    }
    world.settled().await;
    let forged = json!({AUTHOR: "{\"username\":\"admin\",\"groups\":[\"system:masters\"]}"});
    let graph = |kind: &str| {
        json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": "web", "annotations": forged},
            "spec": {"schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {}}, "resources": []},
        })
    };
    let created = world.ask("alice", Method::POST, GRAPHS, graph("Web")).await;
    assert_eq!(created.code, 201, "{}", created.text);
    let path = format!("{GRAPHS}/web");
    let json_patch = json!([{"op": "add", "path": "/metadata/annotations/internal.wheelhouse.dev~1author", "value": "x"}]);
    let remove =
        json!([{"op": "remove", "path": "/metadata/annotations/internal.wheelhouse.dev~1author"}]);
    let mut applied = graph("Web");
    applied["metadata"]["labels"] = json!({"a": "b"});
    let status = format!("{path}/status");
    for (name, method, path, media, body) in [
        (
            "a merge patch",
            Method::PATCH,
            path.clone(),
            "application/merge-patch+json",
            json!({"metadata": {"annotations": forged}}),
        ),
        (
            "its removal",
            Method::PATCH,
            path.clone(),
            "application/merge-patch+json",
            json!({"metadata": {"annotations": null}}),
        ),
        (
            "a JSON patch",
            Method::PATCH,
            path.clone(),
            "application/json-patch+json",
            json_patch,
        ),
        (
            "a JSON patch that removes",
            Method::PATCH,
            path.clone(),
            "application/json-patch+json",
            remove,
        ),
        (
            "an apply",
            Method::PATCH,
            format!("{path}?fieldManager=m&force=true"),
            "application/apply-patch+yaml",
            applied,
        ),
        (
            "a patch of the status",
            Method::PATCH,
            status,
            "application/merge-patch+json",
            json!({"metadata": {"annotations": forged}, "spec": {"resources": [{"id": "x"}]}, "status": {"state": "Active"}}),
        ),
    ] {
        let answer = world
            .send(Sent {
                token: "bob",
                method,
                path: &path,
                headers: &[("content-type", media)],
                body: Value::String(body.to_string()),
            })
            .await;
        findings.expect(answer.code == 200, || format!("{name}: {}", answer.text));
        let live = world.get(ADMIN, &format!("{GRAPHS}/web")).await.json();
        assert_eq!(
            author(&live),
            "alice",
            "{name} by bob changes no intent: {live:#}"
        );
    }
    let mut replaced = graph("Web");
    let live = world.get(ADMIN, &path).await.json();
    replaced["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    replaced["spec"]["resources"] = json!([{"id": "x", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}}]);
    let answer = world.ask("bob", Method::PUT, &path, replaced).await;
    findings.expect(answer.code == 200, || answer.text.clone());
    assert_eq!(
        author(&answer.json()),
        "bob",
        "who changes the intent is its author"
    );
    let direct = world.get(ADMIN, &format!("{GRAPHS}/web")).await.json();
    assert_eq!(author(&direct), "bob");
}

fn author(object: &Value) -> String {
    let text = object["metadata"]["annotations"][AUTHOR]
        .as_str()
        .unwrap_or_default();
    let author: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    assert!(
        !author["groups"].to_string().contains("masters"),
        "{author}"
    );
    author["username"].as_str().unwrap_or_default().to_owned()
}

/// What stands in these objects is done with the hub's rights, so `*` does not reach them.
#[tokio::test]
async fn what_the_hub_writes_for_itself_nobody_else_writes() {
    let world = World::new().await;
    for cluster in ["", "/clusters/east"] {
        let path = format!("{cluster}/apis/rbac.authorization.k8s.io/v1/clusterrolebindings");
        world
            .bind(&path, "eve", "ClusterRole", "cluster-admin")
            .await;
    }
    world.settled().await;
    let inventories = "/apis/internal.wheelhouse.dev/v1alpha1/namespaces/default/inventories";
    let revisions = "/apis/internal.kro.run/v1alpha1/graphrevisions";
    for prefix in ["", "/clusters/east"] {
        for (path, deletion) in [(inventories, 403), (revisions, 404)] {
            let path = format!("{prefix}{path}");
            let one = format!("{path}/x");
            let status = format!("{path}/x/status");
            let table = [
                get(&one, 404),
                (
                    Method::POST,
                    path.as_str(),
                    json!({"metadata": {"name": "x"}}),
                    403,
                ),
                (Method::PUT, one.as_str(), json!({}), 403),
                (Method::PATCH, one.as_str(), json!({}), 403),
                (Method::PATCH, status.as_str(), json!({}), 403),
                (Method::DELETE, one.as_str(), Value::Null, deletion),
            ];
            expect_all(&world, "eve", &table).await;
        }
    }
    let review = json!({"spec": {"resourceAttributes": {
        "verb": "create", "group": "internal.wheelhouse.dev", "resource": "inventories", "namespace": "default",
    }}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = world.ask("eve", Method::POST, path, review).await.json();
    assert_eq!(answer["status"]["allowed"], false, "{answer}");
}
