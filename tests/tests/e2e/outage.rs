//! A spoke that goes away is waited for, and named.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use client::{Connection, Identity};
use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wheelhouse_tests::{Kubectl, eventually, wait::PATIENCE};

use super::stage::{Stage, gone, instance, until};

/// Bodies of this many pieces are more than the hub and a spoke take before they are read.
const PIECES: usize = 56;
const PIECE: &[u8] = &[b' '; 16 * 1024];

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

    stage.east.start_api().await;
    the_spoke_is_back(&stage, &path).await;
}

/// Everything converges without a restart of the hub.
async fn the_spoke_is_back(stage: &Stage, path: &Kubectl) {
    gone(path, &["get", "webapp", "shop"]).await;

    // What could not be told meanwhile is told now.
    let about = "involvedObject.name=shop,reason=DeletionBlocked";
    let events = ["get", "events", "--field-selector", about];
    until(path, &events, "the deletion's wait is told", |list| {
        list["items"].to_string().contains("waiting for spoke")
    })
    .await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_spoke_that_hangs_holds_up_no_other_request_of_a_connection() {
    let stage = Stage::bare().await;
    let kubeconfig = std::fs::read_to_string(stage.hub.kubeconfig()).expect("it was written");
    let connection = client::connect(&kubeconfig, None, &client::Options::default())
        .await
        .expect("a kubeconfig of the hub's");
    stage.path().must(&["get", "configmaps"]).await;
    stage.east.api().signal("STOP");

    // Argo CD has one connection for all clusters, a host cluster one for all its users.
    let (mut hanging, mut taken) = (JoinSet::new(), Vec::new());
    for _ in 0..12 {
        let begun = Arc::new(AtomicBool::new(false));
        let pieces = stream::iter(0..PIECES).map({
            let begun = Arc::clone(&begun);
            move |_| {
                begun.store(true, Ordering::Relaxed);
                Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from_static(PIECE)))
            }
        });
        let request = http::Request::post("/clusters/east/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(StreamBody::new(pieces))
            .expect("a request");
        let connection = connection.clone();
        hanging.spawn(async move { connection.send(request, Identity::Kubeconfig).await });
        taken.push(begun);
    }
    eventually("the bodies of all are taken", || async {
        match taken
            .iter()
            .filter(|it| !it.load(Ordering::Relaxed))
            .count()
        {
            0 => Ok(()),
            count => Err(format!("{count} wait")),
        }
    })
    .await;
    timeout(PATIENCE, review(&connection))
        .await
        .expect("an answer");
    let ended = hanging.try_join_next();
    assert!(ended.is_none(), "it waited for another call: {ended:?}");
    drop(hanging);
    stage.east.api().signal("CONT");
}

/// Asks something of the hub's own that needs a body.
async fn review(connection: &Connection) {
    let body = r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}"#;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(http_body_util::Full::new(Bytes::from_static(
            body.as_bytes(),
        )))
        .expect("a request");
    let answer = connection.send(request, Identity::Kubeconfig).await;
    let answer = answer.expect("its connection lives");
    let (head, body) = answer.into_parts();
    let body = body.collect().await.expect("it is whole").to_bytes();
    assert_eq!(head.status, 201, "{}", String::from_utf8_lossy(&body));
}
