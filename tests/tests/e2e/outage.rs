//! A spoke that goes away is waited for, and named.

use super::stage::{Stage, gone, instance, until};

#[tokio::test(flavor = "multi_thread")]
async fn with_the_spoke_away_the_hub_goes_on_and_everything_converges_on_return() {
    let mut stage = Stage::set().await;
    let path = stage.path();
    stage.bring_up("shop", "message: hello").await;
    stage.east.stop_api();

    // Deletion waits and says so.
    path.must(&["delete", "webapp", "shop", "--wait=false"])
        .await;
    let seen = until(&path, &["get", "webapp", "shop"], "the wait is told", |o| {
        let conditions = o["status"]["conditions"].to_string();
        conditions.contains("waiting for spoke") && conditions.contains("unreachable since")
    })
    .await;
    assert_eq!(seen["status"]["state"], "DELETING", "{seen}");

    // A passed-through read names the spoke; it is no empty list and no 404.
    let refused = path.run(&["get", "configmaps"]).await;
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(
        refused.stderr.contains("ServiceUnavailable"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("east"),
        "it names the spoke: {}",
        refused.stderr
    );

    // Hub-stored reads and writes go on.
    path.apply(&instance("late", "message: later")).await;
    let late = path
        .json(&["get", "webapp", "late"])
        .await
        .expect("hub-stored");
    assert_eq!(late["spec"]["replicas"], 1, "defaulted: {late}");
    path.must(&["get", "webapps"]).await;
    let listed = stage.hub.root().must(&["get", "spokes"]).await;
    assert!(
        listed.contains("False"),
        "get spokes tells that it is not fine:\n{listed}"
    );
    until(
        &path,
        &["get", "webapp", "late"],
        "it says what it waits for",
        |o| {
            o["status"]["conditions"]
                .to_string()
                .contains("waiting for spoke")
        },
    )
    .await;

    // Back, without a restart of the hub.
    stage.east.start_api().await;
    gone(&path, &["get", "webapp", "shop"]).await;
    let direct = stage.direct();
    gone(&direct, &["get", "configmap", "shop-config"]).await;
    wheelhouse_tests::pods::make_ready(&direct, "late").await;
    path.must(&[
        "wait",
        "--for=condition=Ready",
        "webapp/late",
        "--timeout=30s",
    ])
    .await;
    path.must(&["get", "configmaps"]).await;
    let ready = [
        "wait",
        "--for=condition=Ready",
        "spoke/east",
        "--timeout=30s",
    ];
    stage.hub.root().must(&ready).await;
}
