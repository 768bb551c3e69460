//! A watch whose definition is deleted, of both.

use serde_json::{Value, json};
use wheelhouse_tests::support::{CRDS, MERGE_PATCH, PATIENCE, User};

const NAME: &str = "ends.example.com";
const ENDS: &str = "/apis/example.com/v1/namespaces/default/ends";

/// Deletes a definition with two objects, one of which is held by a finalizer: the definition waits for it, and a watch tells of
/// both before it ends.
pub(super) async fn a_watch_ends_with_its_definition(hub: &User, spoke: &User, embedded: &str) {
    let prefix = format!("/clusters/{embedded}");
    let (ours, peers) = tokio::join!(played(hub, &prefix), played(spoke, ""));
    assert_eq!(ours, peers, "the events");
    let kinds: Vec<_> = ours.iter().map(|line| line.split(' ').next()).collect();
    let want = ["DELETED", "MODIFIED", "Terminating", "403", "DELETED"].map(Some);
    assert_eq!(kinds, want, "{ours:?}");
}

async fn played(user: &User, prefix: &str) -> Vec<String> {
    let (crds, ends) = (format!("{prefix}{CRDS}"), format!("{prefix}{ENDS}"));
    let definition = format!("{crds}/{NAME}");
    let schema = json!({"type": "object"});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let made = json!({"metadata": {"name": NAME}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"kind": "End", "plural": "ends"}, "versions": versions,
    }});
    user.post(&crds, &made).await.must(201);
    user.until(&definition, "it is established", |answer| {
        condition(&answer.body, "Established").starts_with("Established True")
    })
    .await;
    user.until_status(&ends, 200).await;
    let object = |name: &str, finalizers: Value| {
        json!({
            "apiVersion": "example.com/v1", "kind": "End", "metadata": {"name": name, "finalizers": finalizers},
        })
    };
    user.post(&ends, &object("free", json!([]))).await.must(201);
    let held = object("held", json!(["example.com/hold"]));
    user.post(&ends, &held).await.must(201);
    let listed = user.get(&ends).await.must(200);
    let version = listed["metadata"]["resourceVersion"].as_str();
    let version = version.expect("a version");
    let watched = format!("{ends}?watch=true&resourceVersion={version}");
    let mut watch = user.watch(&watched).await.expect("it is watched");
    user.delete(&definition).await.must(200);
    let mut told = Vec::new();
    for _ in 0..2 {
        let event = watch.next(PATIENCE).await.expect("an event");
        told.push(brief(&event.expect("the watch goes on")));
    }
    let waiting = user.until(&definition, "it waits for the object", |answer| {
        condition(&answer.body, "Terminating").contains("InProgress")
    });
    told.push(condition(&waiting.await.body, "Terminating"));
    let late = user.post(&ends, &object("late", json!([]))).await;
    told.push(format!("{} {}", late.status, late.body));
    let release = json!({"metadata": {"finalizers": null}});
    user.patch(&format!("{ends}/held"), MERGE_PATCH, &release)
        .await
        .must(200);
    user.until_status(&definition, 404).await;
    while let Some(event) = watch.next(PATIENCE).await.expect("an event, or the end") {
        told.push(brief(&event));
    }
    told
}

fn brief(event: &Value) -> String {
    let metadata = &event["object"]["metadata"];
    let deleted = metadata["deletionTimestamp"].is_string();
    let (kind, name) = (event["type"].as_str(), metadata["name"].as_str());
    let (kind, name) = (kind.unwrap_or("no type"), name.unwrap_or("no name"));
    format!("{kind} {name} deleted={deleted} {}", metadata["finalizers"])
}

fn condition(definition: &Value, kind: &str) -> String {
    let conditions = definition["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|it| it["type"] == kind);
    let text = |name: &str| found.map_or("", |it| it[name].as_str().unwrap_or_default());
    let (status, reason, message) = (text("status"), text("reason"), text("message"));
    format!("{kind} {status} {reason} {message}")
}
