//! What is made in a spoke itself comes to the hub, belongs to its makers, and is never deleted by the hub's own wish.

use serde_json::{Value, json};

use super::stage::{Stage, gone, instance, until};

/// A field of an object, as text.
fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn an_instance_made_in_a_spoke_is_taken_up_and_stays_its_makers() {
    let stage = Stage::set().await;
    let (path, direct) = (stage.path(), stage.direct());
    let born = ["get", "webapp", "born"];
    let config = ["get", "configmap", "born-config"];

    // Made in the spoke: it comes to the hub with its uid, and gets its children.
    direct
        .apply(&instance("born", "message: hello, expose: false"))
        .await;
    let there = direct.json(&born).await.expect("it was made");
    let here = until(&path, &born, "it is taken up", |_| true).await;
    assert_eq!(
        text(&here, "/metadata/uid"),
        text(&there, "/metadata/uid"),
        "the uid: {here}"
    );
    assert_eq!(
        here["metadata"]["annotations"]["wheelhouse.dev/origin"], "spoke",
        "{here}"
    );
    until(&direct, &config, "its children are made", |o| {
        o["data"]["message"] == "hello"
    })
    .await;
    until(&direct, &born, "it has its status in the spoke", |o| {
        o["status"]["conditions"].is_array()
    })
    .await;

    // Changed in the spoke: nothing is undone, the change comes to the hub.
    let edit = r#"{"metadata":{"labels":{"team":"x"}},"spec":{"message":"edited"}}"#;
    direct
        .must(&["patch", "webapp", "born", "--type=merge", "-p", edit])
        .await;
    until(&path, &born, "the change is at the path", |o| {
        o["spec"]["message"] == "edited" && o["metadata"]["labels"]["team"] == "x"
    })
    .await;
    until(&direct, &config, "the children follow", |o| {
        o["data"]["message"] == "edited"
    })
    .await;

    // Changed at the path: the spoke has it before the user is answered.
    let edit = r#"{"spec":{"message":"from the path"}}"#;
    path.must(&["patch", "webapp", "born", "--type=merge", "-p", edit])
        .await;
    let there = direct.json(&born).await.expect("it is there");
    assert_eq!(there["spec"]["message"], "from the path", "{there}");
    until(&direct, &config, "the children follow", |o| {
        o["data"]["message"] == "from the path"
    })
    .await;
    // Nobody but the server says where an instance was made.
    path.must(&["annotate", "webapp", "born", "wheelhouse.dev/origin-"])
        .await;
    let here = path.json(&born).await.expect("it is here");
    assert_eq!(
        here["metadata"]["annotations"]["wheelhouse.dev/origin"], "spoke",
        "{here}"
    );

    // A copy of a mirror, with all its marks, is nobody's mirror.
    path.apply(&instance("shop", "message: shop, expose: false"))
        .await;
    let mirror = until(&direct, &["get", "webapp", "shop"], "the mirror", |o| {
        !o["metadata"]["finalizers"].is_null()
    })
    .await;
    let copy = json!({"apiVersion": mirror["apiVersion"], "kind": mirror["kind"], "spec": {"message": "copy"},
        "metadata": {"name": "copy", "namespace": "default", "labels": mirror["metadata"]["labels"],
            "annotations": mirror["metadata"]["annotations"], "finalizers": mirror["metadata"]["finalizers"]}});
    direct.apply(&copy.to_string()).await;
    let there = direct
        .json(&["get", "webapp", "copy"])
        .await
        .expect("it was made");
    let here = until(&path, &["get", "webapp", "copy"], "it is taken up", |_| {
        true
    })
    .await;
    assert_eq!(
        text(&here, "/metadata/uid"),
        text(&there, "/metadata/uid"),
        "the copy stays: {here}"
    );

    // Deleted in the spoke: that is meant; its children go first.
    direct
        .must(&["delete", "webapp", "born", "--wait=false"])
        .await;
    gone(&path, &born).await;
    gone(&direct, &born).await;
    gone(&direct, &config).await;
    // Deleted at the path: it goes in the spoke.
    path.must(&["delete", "webapp", "copy", "--wait=false"])
        .await;
    gone(&path, &["get", "webapp", "copy"]).await;
    gone(&direct, &["get", "webapp", "copy"]).await;
    path.must(&["delete", "webapp", "shop"]).await;

    // There before the spoke was joined: nobody gets the kind from the hub before the hub has it.
    let root = stage.hub.root();
    root.must(&["delete", "spoke", "east", "--timeout=60s"])
        .await;
    for name in ["one", "two", "three"] {
        direct
            .apply(&instance(name, "message: early, expose: false"))
            .await;
    }
    let early = direct
        .json(&["get", "webapps"])
        .await
        .expect("they were made");
    stage.hub.join(&stage.east).await;
    let record = ["get", "servedresources", "webapps.kro.run"];
    until(&path, &record, "the kind is served by the hub", |o| {
        o["spec"]["state"] == "Serving"
    })
    .await;
    let listed = path
        .json(&["get", "webapps"])
        .await
        .expect("the hub serves them");
    let uids = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().into_iter().flatten();
        let mut uids: Vec<String> = items
            .map(|it| text(it, "/metadata/uid").to_owned())
            .collect();
        uids.sort();
        uids
    };
    assert_eq!(uids(&listed), uids(&early), "all of them, as they are");
}
