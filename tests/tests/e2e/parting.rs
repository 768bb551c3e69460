//! A spoke with instances goes only as somebody has said: drained, or abandoned with a list of what is left there.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use wheelhouse_tests::{assets, wait::PATIENCE};

use super::stage::{Stage, gone, instance, until};

const EMBEDDED: &str = "apiVersion: wheelhouse.dev/v1alpha1\nkind: Spoke\nmetadata: {name: inner}\nspec: {provider: Embedded}\n";

/// The finalizers of an object.
fn finalizers(object: &Value) -> Vec<&str> {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

const WAITS: &str = "waiting: 1 instance is left in logical cluster \"inner\"; delete them first, or drain the spoke";

/// What is of an embedded cluster is nowhere else: it can be drained, and there is nothing to abandon.
async fn an_embedded_cluster_is_drained(stage: &mut Stage) {
    let (root, inner) = (stage.hub.root(), stage.hub.at("inner"));
    root.apply(EMBEDDED).await;
    let ready = [
        "wait",
        "--for=condition=Ready",
        "spoke/inner",
        "--timeout=60s",
    ];
    root.must(&ready).await;
    let served = ["get", "crd", "webapps.kro.run"];
    until(&inner, &served, "its kind is served", |_| true).await;
    inner.apply(&instance("own", "message: own")).await;
    let made = ["get", "configmap", "own-config"];
    until(&inner, &made, "its children are made", |_| true).await;
    let abandoned = stage.hub.wheelhouse(&["spoke", "abandon", "inner"]).await;
    assert_eq!(abandoned.code, 1, "{abandoned:?}");
    assert!(
        abandoned.stderr.contains("nothing was changed"),
        "{abandoned:?}"
    );
    // The story: a hub that starts knew of no instance yet, and let the Spoke go that waited for one.
    root.must(&["delete", "spoke", "inner", "--wait=false"])
        .await;
    let spoke = ["get", "spoke", "inner"];
    until(&root, &spoke, "it waits", |o| {
        o["status"]["message"] == WAITS
    })
    .await;
    stage.hub.kill();
    stage.hub.launch().await;
    let east = [
        "wait",
        "--for=condition=Ready",
        "spoke/east",
        "--timeout=60s",
    ];
    root.must(&east).await;
    inner.must(&["get", "webapp", "own"]).await;
    let held = root.json(&spoke).await.expect("it is held");
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    let drain = ["spoke", "remove", "inner", "--drain"];
    stage.hub.wheelhouse(&drain).await.succeeded("drain");
    // The cluster's objects are what they were, but for its instances.
    root.apply(EMBEDDED).await;
    root.must(&ready).await;
    until(&inner, &served, "its kind is served again", |_| true).await;
    gone(&inner, &["get", "webapp", "own"]).await;
    gone(&inner, &made).await;
    let remove = ["spoke", "remove", "inner"];
    stage.hub.wheelhouse(&remove).await.succeeded("remove");
}

/// A drain of a cluster that does not answer says so and waits, and whoever gives up on the cluster ends it.
async fn drained_in_vain_and_abandoned(stage: &Stage) {
    let waits = "which is unreachable since";
    let mut drain = tokio::process::Command::new(assets::wheelhouse())
        .args(["spoke", "remove", "east", "--drain", "--kubeconfig"])
        .arg(stage.hub.kubeconfig())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("wheelhouse can be started");
    let stderr = drain.stderr.take().expect("it is piped");
    let mut lines = BufReader::new(stderr).lines();
    let told = tokio::time::timeout(PATIENCE, async {
        while let Some(line) = lines.next_line().await.expect("text") {
            if line.contains("draining: 1 instance is left") && line.contains(waits) {
                return true;
            }
        }
        false
    });
    assert_eq!(told.await, Ok(true), "why it waits is told");
    let abandoned = stage.hub.wheelhouse(&["spoke", "abandon", "east"]).await;
    abandoned.succeeded("spoke abandon");
    let drained = drain.wait().await.expect("it ends");
    assert!(
        drained.success(),
        "spoke remove --drain, of a spoke that is gone then: {drained}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn a_spoke_with_instances_goes_drained_or_abandoned_and_never_of_itself() {
    let mut stage = Stage::set().await;
    an_embedded_cluster_is_drained(&mut stage).await;
    let (path, direct, root) = (stage.path(), stage.direct(), stage.hub.root());
    let (shop, born) = (["get", "webapp", "shop"], ["get", "webapp", "born"]);
    let config = |name: &'static str| ["get", "configmap", name];
    path.apply(&instance("shop", "message: shop")).await;
    direct.apply(&instance("born", "message: born")).await;
    until(&path, &born, "it is imported", |o| {
        o["metadata"]["annotations"]["wheelhouse.dev/origin"] == "spoke"
    })
    .await;
    for name in ["shop-config", "born-config"] {
        until(&direct, &config(name), "its children are made", |_| true).await;
    }

    // Nobody has said what becomes of them: it waits, and nothing is deleted.
    let spoke = ["get", "spoke", "east"];
    until(&root, &spoke, "its instances are counted", |o| {
        o["status"]["instances"]["total"] == 2
    })
    .await;
    let held = stage.hub.wheelhouse(&["spoke", "remove", "east"]).await;
    assert_eq!(held.code, 1, "{held:?}");
    assert!(held.stderr.contains("nothing was changed"), "{held:?}");
    let kept = root.json(&spoke).await.expect("it is there");
    assert!(kept["metadata"]["deletionTimestamp"].is_null(), "{kept}");
    root.must(&["delete", "spoke", "east", "--wait=false"])
        .await;
    let held = stage.hub.wheelhouse(&["spoke", "remove", "east"]).await;
    assert_eq!(held.code, 1, "{held:?}");
    assert!(held.stderr.contains("drain or abandon"), "{}", held.stderr);
    // Said of another Spoke, of that name: it is not meant.
    let other = "wheelhouse.dev/parting=drain/00000000-0000-4000-8000-000000000000";
    root.must(&["annotate", "spoke", "east", other]).await;
    until(&root, &spoke, "it goes on waiting", |o| {
        let message = o["status"]["message"].as_str().unwrap_or_default();
        message.starts_with("waiting: ") && message.contains("drain or abandon")
    })
    .await;
    let there = direct.json(&shop).await.expect("its mirror is there");
    assert!(there["metadata"]["deletionTimestamp"].is_null(), "{there}");

    // Drained: what was made at the path goes with its children. What was created in the spoke stays, and nothing holds it.
    let drained = stage
        .hub
        .wheelhouse(&["spoke", "remove", "east", "--drain"])
        .await;
    let told = drained.stderr.contains("left in the cluster as they are: ");
    assert!(told, "{drained:?}");
    let maps = root
        .must(&["get", "configmaps", "-n", "kube-system", "-o", "yaml"])
        .await;
    for (part, want) in [
        (" WebApp default/born ", true),
        (" ConfigMap default/born-config ", true),
        ("shop", false),
    ] {
        assert_eq!(maps.contains(part), want, "{part}: {maps}");
    }
    drained.succeeded("spoke remove --drain");
    let credential = [
        "wait",
        "--for=delete",
        "secret/spoke-east",
        "--namespace=kube-system",
    ];
    root.run(&credential)
        .await
        .succeeded("its credential goes with it");
    gone(&direct, &shop).await;
    gone(&direct, &config("shop-config")).await;
    let left = direct.json(&born).await.expect("it is its makers'");
    assert_eq!(finalizers(&left), Vec::<&str>::new(), "{left}");
    assert!(left["metadata"]["deletionTimestamp"].is_null(), "{left}");
    direct
        .json(&config("born-config"))
        .await
        .expect("with its children");
    direct.must(&["delete", "webapp", "born"]).await;

    // A kind that stays on the hub, and one that does not: the spoke that joins gets the latter.
    let kept = r#"{"metadata":{"annotations":{"kro.run/distribute":"false"}}}"#;
    root.must(&["patch", "rgd", "webapp", "--type=merge", "-p", kept])
        .await;
    direct.must(&["delete", "crd", "webapps.kro.run"]).await;
    stage.hub.join(&stage.east).await;
    let refused = path.run(&["get", "webapps"]).await;
    assert_ne!(refused.code, 0, "the kind stays on the hub: {refused:?}");
    root.must(&["get", "webapps"]).await;
    let refused = direct.run(&["get", "crd", "webapps.kro.run"]).await;
    assert!(refused.stderr.contains("not found"), "{refused:?}");
    root.must(&["annotate", "rgd", "webapp", "kro.run/distribute-"])
        .await;
    until(
        &direct,
        &["get", "crd", "webapps.kro.run"],
        "it is distributed",
        |_| true,
    )
    .await;

    // Abandoned while it is away: the hub forgets the instances, and names what is left.
    until(
        &path,
        &["get", "servedresources", "webapps.kro.run"],
        "the kind is served",
        |o| o["spec"]["state"] == "Serving",
    )
    .await;
    path.apply(&instance("late", "message: late")).await;
    let there = until(
        &direct,
        &config("late-config"),
        "its children are made",
        |_| true,
    )
    .await;
    until(
        &path,
        &["get", "inventories", "-A"],
        "the ledger knows it",
        |o| {
            o.to_string()
                .contains(there["metadata"]["uid"].as_str().unwrap_or("none"))
        },
    )
    .await;
    stage.east.stop_api();
    drained_in_vain_and_abandoned(&stage).await;
    let maps = root
        .json(&["get", "configmaps", "-n", "kube-system"])
        .await
        .expect("a list");
    let maps = maps["items"].as_array().into_iter().flatten();
    let remains: Vec<&str> = maps
        .filter_map(|map| map["data"]["objects"].as_str())
        .collect();
    let want = format!(
        "ConfigMap default/late-config {} of WebApp default/late",
        there["metadata"]["uid"].as_str().unwrap_or_default()
    );
    assert!(
        remains
            .iter()
            .any(|text| text.lines().any(|line| line == want)),
        "{want}: {remains:?}"
    );
    stage.east.start_api().await;
    direct
        .json(&config("late-config"))
        .await
        .expect("nothing is deleted there");
}
