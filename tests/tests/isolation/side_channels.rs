//! S32: what a tenant must not learn of another, not even that it exists. What it can learn is listed in SECURITY.md.

use serde_json::{Value, json};

use super::support::{Answer, Fixture, JSON, RBAC, User};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// What of an answer could tell: everything but what the hub draws for each.
fn told(answer: &Answer, name: &str) -> (u16, Vec<(String, String)>, String) {
    let headers = answer
        .headers
        .iter()
        .filter(|(header, _)| !["date", "audit-id"].contains(&header.as_str()))
        .map(|(header, value)| {
            (
                header.to_string(),
                value.to_str().unwrap_or("?").replace(name, "<name>"),
            )
        })
        // The length of a name that the caller has sent itself.
        .filter(|(header, _)| header != "content-length")
        .collect();
    (
        answer.status,
        headers,
        answer.body.to_string().replace(name, "<name>"),
    )
}

/// Sends the same with one name and with another; the answers must not differ.
async fn must_not_tell(
    user: &User,
    method: &str,
    there: &str,
    absent: &str,
    make: impl Fn(&str) -> (String, Value),
) {
    let mut answers = Vec::new();
    for name in [there, absent] {
        let (path, body) = make(name);
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = user
            .send(method, &path, &[("content-type", JSON)], body)
            .await;
        answers.push(told(&answer, name));
    }
    let (path, _) = make(there);
    assert_eq!(answers[0], answers[1], "{method} {path} as {}", user.name);
    assert!(
        matches!(answers[0].0, 400..=499),
        "{method} {path} as {}: {:?}",
        user.name,
        answers[0]
    );
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread")]
async fn s32_a_refusal_does_not_tell_what_exists() {
    let fixture = Fixture::start(&["alice", "bob", "nobody"]).await;
    fixture.embed("a").await;
    fixture.embed("taken").await;
    let alice = fixture.tenant("alice", "a").await;
    let bob = fixture.tenant("bob", "taken").await;
    bob.post(&format!("/clusters/taken{MAPS}"), &map("secret-plan"))
        .await
        .must(201);
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = "/clusters/a/api/v1/namespaces/default/serviceaccounts/default/token";
    let token = alice.post(path, &request).await.must(201);
    let token = token["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned();
    let users = [
        alice.clone(),
        fixture.user("nobody").await,
        fixture.bearer("a ServiceAccount of a", &token).await,
        fixture.bearer("a guess", "a-guess").await,
    ];
    for user in &users {
        clusters_do_not_tell(user).await;
    }
    names_do_not_tell(&fixture, &alice).await;
    pages_do_not_tell(&alice, &bob).await;
    reviews_do_not_tell(&alice).await;
}

/// Whether a cluster exists, and what is in it.
async fn clusters_do_not_tell(user: &User) {
    let rests = [
        "",
        "/api",
        "/apis",
        "/version",
        "/openapi/v2",
        "/openapi/v3",
        "/api/v1/namespaces",
        "/api/v1/configmaps?watch=true",
        "/api/v1/namespaces/default/configmaps/secret-plan",
        "/apis/kro.run/v1alpha1/resourcegraphdefinitions",
    ];
    for rest in rests {
        for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
            must_not_tell(user, method, "taken", "absent", |name| {
                (format!("/clusters/{name}{rest}"), Value::Null)
            })
            .await;
        }
    }
    must_not_tell(user, "POST", "taken", "absent", |name| {
        (format!("/clusters/{name}{MAPS}"), map("x"))
    })
    .await;
    // As a Spoke of root, the object that stands for the cluster.
    let spokes = "/apis/wheelhouse.dev/v1alpha1/spokes";
    for method in ["GET", "DELETE", "PUT"] {
        must_not_tell(user, method, "taken", "absent", |name| {
            (
                format!("{spokes}/{name}"),
                json!({"metadata": {"name": name}}),
            )
        })
        .await;
    }
    must_not_tell(user, "POST", "taken", "absent", |name| {
        (spokes.to_owned(), json!({"metadata": {"name": name}}))
    })
    .await;
}

/// Whether an object exists where the caller has no right to it, in its own cluster and in root.
async fn names_do_not_tell(fixture: &Fixture, alice: &User) {
    fixture.allow_access("nobody", "a").await;
    let nobody = fixture.user("nobody").await;
    alice
        .post(&format!("/clusters/a{MAPS}"), &map("there"))
        .await
        .must(201);
    let body = |name: &str| map(name);
    for method in ["GET", "DELETE", "PUT", "PATCH"] {
        must_not_tell(&nobody, method, "there", "absent", |name| {
            (format!("/clusters/a{MAPS}/{name}"), body(name))
        })
        .await;
    }
    must_not_tell(&nobody, "POST", "there", "absent", |name| {
        (format!("/clusters/a{MAPS}"), body(name))
    })
    .await;
    must_not_tell(&nobody, "POST", "default", "absent", |name| {
        (
            format!("/clusters/a/api/v1/namespaces/{name}/configmaps"),
            body("x"),
        )
    })
    .await;
    // The right to create tells of a name that it is taken, as in Kubernetes; the right to another namespace does not.
    let role = json!({"metadata": {"name": "x"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}]});
    alice
        .post(
            "/clusters/a/api/v1/namespaces",
            &json!({"metadata": {"name": "own"}}),
        )
        .await
        .must(201);
    alice
        .post(
            &format!("/clusters/a{RBAC}/namespaces/own/rolebindings"),
            &role,
        )
        .await
        .must(201);
    nobody
        .until_status("/clusters/a/api/v1/namespaces/own/configmaps", 200)
        .await;
    must_not_tell(&nobody, "GET", "there", "absent", |name| {
        (format!("/clusters/a{MAPS}/{name}"), Value::Null)
    })
    .await;
}

/// A continue token of one cluster shows nothing of another.
async fn pages_do_not_tell(alice: &User, bob: &User) {
    for n in 0..3 {
        bob.post(
            &format!("/clusters/taken{MAPS}"),
            &map(&format!("page-{n}")),
        )
        .await
        .must(201);
    }
    let page = bob
        .get("/clusters/taken/api/v1/configmaps?limit=1")
        .await
        .must(200);
    let token = page["metadata"]["continue"]
        .as_str()
        .expect("there is more");
    let answer = alice
        .get(&format!(
            "/clusters/a/api/v1/configmaps?limit=500&continue={token}"
        ))
        .await;
    assert!(
        !answer.body.to_string().contains("page-"),
        "a page of another cluster: {}",
        answer.body
    );
    assert!(
        answer.status == 200 || answer.status == 400 || answer.status == 410,
        "{}",
        answer.body
    );
    // A revision of another cluster's object is no way to it either.
    let revision = page["metadata"]["resourceVersion"]
        .as_str()
        .expect("a list has one");
    for rest in [
        format!("resourceVersion={revision}"),
        format!("resourceVersion={revision}&resourceVersionMatch=Exact"),
    ] {
        let answer = alice
            .get(&format!("/clusters/a/api/v1/configmaps?{rest}"))
            .await;
        assert!(
            !answer.body.to_string().contains("page-"),
            "{rest}: {}",
            answer.body
        );
    }
}

/// Reviews of a tenant answer from its own cluster alone.
async fn reviews_do_not_tell(alice: &User) {
    let path = "/clusters/a/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let ask = |user: &str, namespace: &str| json!({"spec": {"user": user, "resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": namespace}}});
    let known = alice.post(path, &ask("bob", "default")).await.must(201);
    let unknown = alice.post(path, &ask("rob", "default")).await.must(201);
    assert_eq!(
        known["status"], unknown["status"],
        "bob exists in another cluster"
    );
    let access = json!({"spec": {"user": "bob", "resourceAttributes": {
        "verb": "access", "group": "wheelhouse.dev", "resource": "spokes", "name": "taken"}}});
    let answer = alice.post(path, &access).await.must(201);
    assert_ne!(
        answer["status"]["allowed"], true,
        "root's rights are not told: {answer}"
    );
}
