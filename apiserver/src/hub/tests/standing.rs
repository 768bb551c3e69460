//! What goes on is looked at for little, and nothing of it is kept once it has ended. What is lost and how it is told: `tests/tests/isolation/revocation.rs`.

use http::{Request, header};
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::time::Instant;

use super::world::{ADMIN, World};
use crate::request::Peer;
use crate::respond::{RequestBody, Response};

const WATCH_COUNT: usize = 1000;
const MAPS: &str = "/api/v1/namespaces/here/configmaps";
/// A thousand looks at a token and a role: hundredths of this in a release build on a machine that has time.
const LOOK_MS_MAX: u128 = 500;

async fn watch(world: &World, token: &str) -> Response {
    let request = Request::get(format!("{MAPS}?watch=true"))
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(RequestBody::empty())
        .unwrap();
    let answer = world.hub.answer(request, &Peer::Unknown, None).await;
    assert_eq!(answer.status(), 200);
    answer
}

#[tokio::test]
async fn a_thousand_watches_are_looked_at_in_a_moment_and_forgotten_when_they_end() {
    let world = World::new().await;
    let account = json!({"metadata": {"name": "bot"}});
    world
        .made("/api/v1/namespaces/here/serviceaccounts", &account)
        .await;
    let path = "/api/v1/namespaces/here/serviceaccounts/bot/token";
    let made = world.made(path, &json!({"spec": {}})).await;
    let token = made["status"]["token"].as_str().unwrap();
    let binding = json!({
        "metadata": {"name": "bot"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "here", "name": "bot"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    world.made(bindings, &binding).await;
    world.until(token, MAPS, 200).await;
    let mut open = Vec::new();
    for _ in 0..WATCH_COUNT {
        open.push(watch(&world, token).await);
    }
    let standings = &world.hub.parts.standings;
    assert_eq!(standings.open_count(), WATCH_COUNT);
    let since = Instant::now();
    let for_spokes = world.hub.look_at_standings().await;
    let took = since.elapsed();
    assert!(for_spokes.is_empty(), "no spoke has a say");
    assert_eq!(standings.open_count(), WATCH_COUNT, "all hold");
    assert!(took.as_millis() < LOOK_MS_MAX, "{took:?}");
    open.truncate(WATCH_COUNT / 2);
    assert_eq!(
        standings.open_count(),
        WATCH_COUNT / 2,
        "what has ended is forgotten"
    );
    let gone = world
        .ask(
            ADMIN,
            http::Method::DELETE,
            &format!("{bindings}/bot"),
            json!(null),
        )
        .await;
    assert_eq!(gone.code, 200, "{}", gone.text);
    world.until(token, MAPS, 403).await;
    world.hub.look_at_standings().await;
    for answer in open {
        let told = answer.into_body().collect().await.unwrap().to_bytes();
        let told = String::from_utf8_lossy(&told);
        assert!(
            told.contains("\"ERROR\"") && told.contains("\"code\":403"),
            "{told}"
        );
    }
    assert_eq!(standings.open_count(), 0);
}
