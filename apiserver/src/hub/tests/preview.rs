//! Previews: who may ask, and what whoever previews can do for them.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::world::{ADMIN, NOBODY, World, rule};
use crate::respond::RequestBody;

const PREVIEWS: &str = "/apis/wheelhouse.dev/v1alpha1/definitionpreviews";

fn body() -> Value {
    json!({"spec": {"definition": {"metadata": {"name": "x"}}}})
}

#[tokio::test]
async fn whoever_previews_reads_as_the_caller_and_writes_nothing() {
    let world = World::new().await;
    let nobody_previews = world.ask(ADMIN, Method::POST, PREVIEWS, body()).await;
    assert_eq!(nobody_previews.code, 503, "{nobody_previews:?}");
    world.hub.set_previewer(Arc::new(|caller, home, spec| {
        Box::pin(async move {
            let mut codes = Vec::new();
            for (method, path) in [
                (Method::GET, "/api/v1/namespaces"),
                (Method::GET, "/clusters/east/api/v1/namespaces"),
                (Method::POST, "/api/v1/namespaces"),
                (Method::DELETE, "/api/v1/namespaces/here"),
            ] {
                // What somebody else says of the sender does not count.
                let request = http::Request::builder()
                    .method(method)
                    .uri(path)
                    .header("authorization", "Bearer admin")
                    .body(RequestBody::full("{}"));
                let answer = caller.send(request.unwrap()).await;
                codes.push(answer.status().as_u16());
            }
            json!({"codes": codes, "home": home.as_str(), "name": spec.definition["metadata"]["name"]})
        })
    }));
    let asks = || rule(&["create"], "wheelhouse.dev", &["definitionpreviews"], &[]);
    let denied = world.ask("alice", Method::POST, PREVIEWS, body()).await;
    assert_eq!(denied.code, 403, "{denied:?}");
    world.grant("", "", "alice", json!([asks()])).await;
    world.settled().await;
    for (token, want) in [
        (ADMIN, json!([200, 200, 400, 400])),
        ("alice", json!([403, 403, 400, 400])),
    ] {
        let answer = world.ask(token, Method::POST, PREVIEWS, body()).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        let status = answer.json()["status"].clone();
        assert_eq!(
            status,
            json!({"codes": want, "home": "root", "name": "x"}),
            "{token}"
        );
    }
    let at_east = format!("/clusters/east{PREVIEWS}");
    let answer = world.ask(ADMIN, Method::POST, &at_east, body()).await;
    assert_eq!(answer.json()["status"]["home"], "east");
    for (token, method, path, body, code) in [
        ("alice", Method::POST, at_east.as_str(), body(), 403),
        (NOBODY, Method::POST, PREVIEWS, body(), 403),
        (ADMIN, Method::POST, PREVIEWS, json!({"spec": {}}), 400),
        (ADMIN, Method::GET, PREVIEWS, Value::Null, 405),
        (
            ADMIN,
            Method::GET,
            &format!("{PREVIEWS}/x"),
            Value::Null,
            404,
        ),
    ] {
        let answer = world.ask(token, method.clone(), path, body).await;
        assert_eq!(answer.code, code, "{method} {path} as {token}: {answer:?}");
    }
    let listed = world
        .get(ADMIN, "/apis/wheelhouse.dev/v1alpha1")
        .await
        .json();
    let resources = listed["resources"].as_array().cloned().unwrap_or_default();
    let found = resources
        .iter()
        .find(|it| it["name"] == "definitionpreviews");
    assert_eq!(found.map(|it| it["verbs"].clone()), Some(json!(["create"])));
}
