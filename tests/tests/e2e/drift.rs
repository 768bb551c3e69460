//! What is changed behind the hub's back comes back, and what the user changes arrives.

use serde_json::Value;

use super::{
    kept, scaled,
    stage::{Stage, gone, instance, until},
    told,
};

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn children_follow_the_instance_and_nothing_else() {
    let stage = Stage::set().await;
    let (path, direct) = (stage.path(), stage.direct());
    stage.bring_up("shop", "message: hello, expose: true").await;

    // Edited in the spoke: undone.
    let edit = r#"{"data":{"message":"tampered"}}"#;
    direct
        .must(&["patch", "configmap", "shop-config", "-p", edit])
        .await;
    let config = ["get", "configmap", "shop-config"];
    until(&direct, &config, "the edit is undone", |o| {
        o["data"]["message"] == "hello"
    })
    .await;

    // Deleted in the spoke: put back.
    let before = direct
        .json(&["get", "service", "shop"])
        .await
        .expect("the service");
    direct.must(&["delete", "service", "shop"]).await;
    let service = until(
        &direct,
        &["get", "service", "shop"],
        "the service is back",
        |o| o["metadata"]["uid"] != before["metadata"]["uid"],
    )
    .await;
    assert_eq!(
        service["spec"]["ports"][0]["port"], 80,
        "as it was: {service}"
    );

    // Fields that others own stay theirs.
    direct
        .must(&[
            "annotate",
            "configmap",
            "shop-config",
            "example.com/note=mine",
        ])
        .await;

    // Changed at the path: the children change.
    path.apply(&instance("shop", "message: goodbye, expose: true"))
        .await;
    let config = until(&direct, &config, "the change arrives", |o| {
        o["data"]["message"] == "goodbye"
    })
    .await;
    assert_eq!(
        config["metadata"]["annotations"]["example.com/note"], "mine",
        "{config}"
    );

    // A condition that turns false prunes.
    direct.must(&["get", "ingress", "shop"]).await;
    path.apply(&instance("shop", "message: goodbye, expose: false"))
        .await;
    gone(&direct, &["get", "ingress", "shop"]).await;
    direct.must(&["get", "service", "shop"]).await;

    // The mirror's spec is not an intent, and neither is its deletion.
    let mirror = ["get", "webapp", "shop"];
    let edit = r#"{"spec":{"message":"tampered"}}"#;
    direct
        .must(&["patch", "webapp", "shop", "--type=merge", "-p", edit])
        .await;
    until(&direct, &mirror, "the mirror is undone", |o| {
        o["spec"]["message"] == "goodbye"
    })
    .await;
    told::event_of(&path, "webapp/shop", &["EditUndone", "at the hub's path"]).await;
    let before = direct.json(&mirror).await.expect("the mirror");
    direct
        .must(&["delete", "webapp", "shop", "--wait=false"])
        .await;
    until(&direct, &mirror, "the mirror is back", |o| {
        o["metadata"]["uid"] != before["metadata"]["uid"]
            && o["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    let kept = path.json(&mirror).await.expect("the instance stays");
    assert!(kept["metadata"]["deletionTimestamp"].is_null(), "{kept}");

    // Nor is its status, which is looked at again some seconds later.
    let is_active = |mirror: &Value| mirror["status"]["state"] == "ACTIVE";
    until(&direct, &mirror, "the mirror has a status", is_active).await;
    let edit = r#"{"status":{"state":"TAMPERED"}}"#;
    direct
        .must(&[
            "patch",
            "webapp",
            "shop",
            "--subresource=status",
            "--type=merge",
            "-p",
            edit,
        ])
        .await;

    told::is_told(&stage).await;
    scaled::instances_are_scaled(&stage).await;
    kept::what_is_to_stay_stays(&stage).await;
    until(&direct, &mirror, "the status is the hub's again", is_active).await;
}
