//! What passes between a client of the hub and a spoke.

use bytes::Bytes;
use client::{Connection, Identity};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use serde_json::json;
use wheelhouse_tests::{FakeSpoke, Hub, eventually, fake_spoke::Mode};

use super::joined::{calls, endpoint};

async fn connect(hub: &Hub) -> Connection {
    let kubeconfig = std::fs::read_to_string(hub.kubeconfig()).expect("it was written");
    let connection = client::connect(&kubeconfig, None, &client::Options::default()).await;
    connection.expect("a kubeconfig of the hub's")
}

async fn get(
    hub: &Connection,
    path: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let answer = hub.send(request, Identity::Kubeconfig).await;
    let (head, body) = answer.expect("an answer").into_parts();
    let body = body.collect().await.expect("all of it").to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    (head.status, head.headers, text)
}

const PATH: &str = "/clusters/east/api/v1/namespaces/default/configmaps";

/// Lets alice enter east.
async fn let_alice_enter(hub: &Hub) {
    let root = calls(hub).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "enters-east"}, "rules": [{"apiGroups": ["wheelhouse.dev"],
            "resources": ["spokes"], "resourceNames": ["east"], "verbs": ["access"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "alice-enters-east"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "enters-east"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    let rbac = |resource| endpoint("root", "rbac.authorization.k8s.io/v1", resource, "");
    let made = root.create(&rbac("clusterroles"), &role).await;
    made.expect("the role is made");
    let made = root.create(&rbac("clusterrolebindings"), &binding).await;
    made.expect("the binding is made");
}

/// Sends a request as alice, with all that could make her another user, and looks at what arrives.
async fn identity_passes_and_nothing_else(hub: &Connection, east: &FakeSpoke) {
    let withheld = [
        ("cookie", "session=stolen"),
        ("impersonate_user", "system:admin"),
        ("x_remote_user", "system:admin"),
        ("x-remote-user", "system:admin"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-http-method-override", "DELETE"),
        // The hub is trusted in a spoke, and what it says is sampled there.
        (
            "traceparent",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
        ("tracestate", "a=b"),
        ("baggage", "a=b"),
    ];
    let mut headers = vec![
        ("impersonate-user", "alice"),
        ("impersonate-uid", "42"),
        ("x-alice", "passes"),
    ];
    headers.extend(withheld);
    eventually("alice may enter", || async {
        let (status, _, text) = get(hub, &format!("{PATH}?alice"), &headers).await;
        status.is_success().then_some(()).ok_or(text)
    })
    .await;
    let seen = east.seen();
    let seen = seen.iter().rev().find(|seen| seen.path.ends_with("?alice"));
    let seen = &seen.expect("the spoke was asked").headers;
    assert_eq!(seen["impersonate-user"], "alice", "{seen:?}");
    assert_eq!(seen["impersonate-uid"], "42", "{seen:?}");
    assert_eq!(seen["x-alice"], "passes", "{seen:?}");
    for (name, _) in withheld {
        assert!(!seen.contains_key(name), "{name}: {seen:?}");
    }
    assert!(!seen.contains_key("authorization"), "{seen:?}");
}

/// The class of CVE-2022-3172: kubectl sends its token to where a redirect points.
#[tokio::test(flavor = "multi_thread")]
async fn s11_neither_a_redirect_of_a_spoke_nor_what_says_who_a_client_is_passes() {
    let hub = Hub::start().await;
    let (east, attacker) = tokio::join!(FakeSpoke::start("east"), FakeSpoke::start("attacker"));
    let from = east.kubeconfig().display().to_string();
    let added = hub
        .wheelhouse(&["spoke", "add", "east", "--from", &from])
        .await;
    added.succeeded("spoke add");
    let connection = connect(&hub).await;
    super::joined::until(&calls(&hub).await, "east", "Ready", "True").await;
    let_alice_enter(&hub).await;
    identity_passes_and_nothing_else(&connection, &east).await;

    // A redirect is refused, for reads and watches, and by the hub's own calls.
    east.set(Mode::Redirect(format!("https://{}/", attacker.address())));
    for query in ["", "?watch=true"] {
        // The mode cuts the connections of before; a request on one of them is told so.
        let asked = eventually("an answer that was not cut", || async {
            let asked = get(&connection, &format!("{PATH}{query}"), &[]).await;
            match asked.0 {
                StatusCode::SERVICE_UNAVAILABLE => Err(asked.2),
                _ => Ok(asked),
            }
        });
        let (status, headers, text) = asked.await;
        assert_eq!(status, StatusCode::BAD_GATEWAY, "{text}");
        assert!(!headers.contains_key("location"), "{headers:?}");
        let refusal = "the backend attempted to redirect this request, which is not permitted";
        assert!(text.contains(refusal), "{text}");
    }
    eventually("the hub itself was redirected", || async {
        let count = east.asked_count();
        (count > 6).then_some(()).ok_or(count.to_string())
    })
    .await;
    assert_eq!(attacker.asked_count(), 0, "nobody went there");

    // What a spoke serves is no page of the hub's.
    east.set(Mode::Honest);
    eventually("east is back", || async {
        let (status, headers, text) = get(&connection, PATH, &[]).await;
        if !status.is_success() {
            return Err(text);
        }
        let policy = "default-src 'none'; sandbox";
        assert_eq!(headers["content-security-policy"], policy);
        assert_eq!(headers["x-content-type-options"], "nosniff");
        Ok(())
    })
    .await;
}
