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

    what_it_owns_is_orphaned(&stage).await;
}

/// Left alone, with all that they own; and a definition of this path. The children are owned too where the definition asks for that.
async fn what_it_owns_is_orphaned(stage: &Stage) {
    let (path, direct) = (stage.path(), stage.direct());
    let owns = "wheelhouse.dev/owner-references=true";
    let root = stage.hub.root();
    root.must(&["annotate", "rgd", "webapp", owns]).await;
    stage.bring_up("shop", "message: hello").await;
    for child in ["configmap/shop-config", "deployment/shop", "service/shop"] {
        is_owned(&path, child).await;
        is_owned(&direct, child).await;
    }
    owned(stage, "orphan").await;
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

/// Makes an instance in the hub and a map in the spoke that the instance `shop` owns, both at the path.
///
/// The story: the spoke knows the instance by the uid of its mirror, and its garbage collector deleted what named the hub's.
async fn owned(stage: &Stage, name: &str) {
    let (path, direct) = (stage.path(), stage.direct());
    let uid = uid_of(&path, "webapp/shop").await;
    let owner = format!(
        "ownerReferences: [{{apiVersion: kro.run/v1alpha1, kind: WebApp, name: shop, uid: {uid}, \
         blockOwnerDeletion: true}}]"
    );
    let metadata = format!("name: {name}, {owner}");
    let dependent = instance(name, "message: hello");
    path.apply(&dependent.replace(&format!("name: {name}"), &metadata))
        .await;
    let map = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{{metadata}, finalizers: [example.com/hold]}}}}"
    );
    path.apply(&map).await;
    for kubectl in [&path, &direct] {
        is_owned(kubectl, &format!("configmap/{name}")).await;
    }
}

/// Requires that an object names the instance `shop` as its owner, by the uid that the instance has there.
async fn is_owned(kubectl: &Kubectl, resource: &str) {
    let uid = uid_of(kubectl, "webapp/shop").await;
    until(kubectl, &["get", resource], "shop owns it", |object| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| owners.len() == 1 && owners[0]["uid"] == uid.as_str())
    })
    .await;
}

async fn uid_of(kubectl: &Kubectl, resource: &str) -> String {
    let object = kubectl.json(&["get", resource]).await.expect("it is there");
    let uid = object["metadata"]["uid"].as_str();
    uid.expect("every object has a uid").to_owned()
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
