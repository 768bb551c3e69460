//! Deletion takes everything away, in reverse order, and leaves the spoke as it was.

use std::collections::BTreeMap;

use wheelhouse_tests::{Kubectl, eventually};

use super::stage::{Stage, gone};

const KINDS: &str = "configmaps,deployments,services,ingresses,secrets,serviceaccounts";

#[tokio::test(flavor = "multi_thread")]
async fn deletion_takes_children_away_in_reverse_order_and_leaves_the_spoke_as_it_was() {
    let stage = Stage::set().await;
    let (path, direct) = (stage.path(), stage.direct());
    let before = inventory(&direct).await;
    stage.bring_up("shop", "message: hello, expose: true").await;

    // A finalizer of the test's own holds the first wave: the others must wait for it.
    let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    direct
        .must(&["patch", "ingress", "shop", "--type=merge", "-p", hold])
        .await;
    path.must(&["delete", "webapp", "shop", "--wait=false"])
        .await;
    eventually("the ingress is being deleted", || async {
        let ingress = direct.json(&["get", "ingress", "shop"]).await?;
        if ingress["metadata"]["deletionTimestamp"].is_null() {
            return Err("not yet".to_owned());
        }
        Ok(())
    })
    .await;
    for (kind, name) in [
        ("service", "shop"),
        ("deployment", "shop"),
        ("configmap", "shop-config"),
    ] {
        let child = direct
            .json(&["get", kind, name])
            .await
            .expect("a later wave");
        assert!(
            child["metadata"]["deletionTimestamp"].is_null(),
            "{kind} waits: {child}"
        );
    }
    let waiting = path
        .json(&["get", "webapp", "shop"])
        .await
        .expect("it waits");
    assert_eq!(waiting["status"]["state"], "DELETING", "{waiting}");
    let free = r#"{"metadata":{"finalizers":null}}"#;
    direct
        .must(&["patch", "ingress", "shop", "--type=merge", "-p", free])
        .await;
    gone(&path, &["get", "webapp", "shop"]).await;
    gone(&direct, &["get", "webapp", "shop"]).await;
    eventually("the spoke is as it was", || async {
        let after = inventory(&direct).await;
        if after == before {
            Ok(())
        } else {
            Err(format!("{before:?} became {after:?}"))
        }
    })
    .await;
    let ledgers = stage
        .path()
        .json(&["get", "inventories"])
        .await
        .expect("they list");
    assert_eq!(
        ledgers["items"].as_array().map(Vec::len),
        Some(0),
        "no ledger is left: {ledgers}"
    );
}

/// Returns name and uid of everything in the default namespace.
async fn inventory(kubectl: &Kubectl) -> BTreeMap<String, String> {
    let listed = kubectl
        .json(&["get", KINDS, "-n", "default"])
        .await
        .expect("the spoke lists");
    let items = listed["items"].as_array().cloned().unwrap_or_default();
    items
        .iter()
        .map(|item| {
            let name = format!("{}/{}", item["kind"], item["metadata"]["name"]);
            (name, item["metadata"]["uid"].to_string())
        })
        .collect()
}
