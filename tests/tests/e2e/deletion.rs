//! Deletion takes everything away, in reverse order, and leaves the spoke as it was.

use std::collections::BTreeMap;

use wheelhouse_tests::{Kubectl, eventually};

use super::stage::{Stage, gone, instance, until};

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

/// Argo CD prunes in the foreground. The finalizer stayed on every instance of a real spoke for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreground_deletion_ends_once_what_the_instance_owns_in_hub_and_spoke_is_gone() {
    let stage = Stage::set().await;
    let (path, direct) = (stage.path(), stage.direct());
    stage.bring_up("shop", "message: hello").await;
    owned(&stage, "foreground").await;
    path.must(&[
        "delete",
        "webapp",
        "shop",
        "--cascade=foreground",
        "--wait=false",
    ])
    .await;
    // The map in the spoke is held by the test: it holds the instance.
    let going = |object: &serde_json::Value| !object["metadata"]["deletionTimestamp"].is_null();
    until(
        &direct,
        &["get", "configmap", "foreground"],
        "the spoke collects",
        going,
    )
    .await;
    gone(&direct, &["get", "deployment", "shop"]).await;
    let held = path.json(&["get", "webapp", "shop"]).await;
    let finalizers = held.expect("it waits")["metadata"]["finalizers"].to_string();
    assert!(finalizers.contains("foregroundDeletion"), "{finalizers}");
    let free = r#"{"metadata":{"finalizers":null}}"#;
    direct
        .must(&[
            "patch",
            "configmap",
            "foreground",
            "--type=merge",
            "-p",
            free,
        ])
        .await;
    for resource in ["webapp/shop", "webapp/foreground"] {
        gone(&path, &["get", resource]).await;
        gone(&direct, &["get", resource]).await;
    }

    // Left alone, with all that they own; and a definition of this path.
    stage.bring_up("shop", "message: hello").await;
    owned(&stage, "orphan").await;
    path.must(&[
        "delete",
        "webapp",
        "shop",
        "--cascade=orphan",
        "--timeout=60s",
    ])
    .await;
    gone(&direct, &["get", "webapp", "shop"]).await;
    for (kubectl, resource) in [(&path, "webapp/orphan"), (&direct, "configmap/orphan")] {
        let left = kubectl.json(&["get", resource]).await.expect("it is left");
        let metadata = &left["metadata"];
        assert!(metadata["deletionTimestamp"].is_null(), "{left}");
        assert!(metadata["ownerReferences"].is_null(), "{left}");
    }
    let own = "{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: own}, \
        spec: {schema: {apiVersion: v1alpha1, kind: Own, spec: {}}, resources: []}}";
    path.apply(own).await;
    path.must(&[
        "delete",
        "rgd",
        "own",
        "--cascade=foreground",
        "--timeout=60s",
    ])
    .await;
}

/// Makes an instance in the hub and a map in the spoke that the instance `shop` owns, each by the uid that it has there.
async fn owned(stage: &Stage, name: &str) {
    let owner = async |kubectl: &Kubectl| {
        let shop = kubectl.json(&["get", "webapp", "shop"]).await;
        let uid = shop.expect("it is there")["metadata"]["uid"].clone();
        format!(
            "ownerReferences: [{{apiVersion: kro.run/v1alpha1, kind: WebApp, name: shop, uid: {uid}, \
             blockOwnerDeletion: true}}]"
        )
    };
    let (path, direct) = (stage.path(), stage.direct());
    let metadata = format!("name: {name}, {}", owner(&path).await);
    let dependent = instance(name, "message: hello");
    path.apply(&dependent.replace(&format!("name: {name}"), &metadata))
        .await;
    let metadata = format!("name: {name}, {}", owner(&direct).await);
    let map = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{{metadata}, finalizers: [example.com/hold]}}}}"
    );
    direct.apply(&map).await;
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
