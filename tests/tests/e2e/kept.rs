//! The gate `ResourceDeletionPolicy`: children that stay when nothing wants them any more, at the path of a cluster whose Spoke opens it.

use serde_json::Value;
use wheelhouse_tests::Kubectl;

use super::{
    stage::{Stage, gone, until},
    told,
};

/// What is retained has the name that the next wish gives it; what is orphaned, and what goes, are there once.
const KEEPER: &str = r#"
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata:
  name: keeper
  annotations: {wheelhouse.dev/owner-references: "true"}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Keeper
    spec: {slug: "string | default=x", policy: "string | default=Retain", loose: "boolean | default=true"}
  resources:
  - id: data
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: ${schema.metadata.name}-data-${schema.spec.slug}
        annotations: {wheelhouse.dev/deletion-policy: "${schema.spec.policy}"}
      data: {slug: "${schema.spec.slug}"}
  - id: loose
    includeWhen: ["${schema.spec.loose}"]
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: ${schema.metadata.name}-loose
        labels: {app: loose}
        annotations: {wheelhouse.dev/deletion-policy: Orphan}
      data: {slug: "${schema.spec.slug}"}
  - id: plain
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-plain"}
"#;
const POLICY: &str = "wheelhouse.dev/deletion-policy";
const INSTANCE: &str =
    "{apiVersion: kro.run/v1alpha1, kind: Keeper, metadata: {name: one, namespace: default}}";

/// At a spoke's path, and in an embedded cluster, which is there already.
pub(crate) async fn what_is_to_stay_stays(stage: &Stage) {
    let root = stage.hub.root();
    let (east, inner) = (stage.path(), stage.hub.at("inner"));
    tokio::join!(
        one_cluster_keeps(&root, "east", &east),
        one_cluster_keeps(&root, "inner", &inner)
    );
}

async fn one_cluster_keeps(root: &Kubectl, spoke: &str, path: &Kubectl) {
    let gate = r#"{"spec":{"kro":{"featureGates":{"ResourceDeletionPolicy":true}}}}"#;
    root.must(&["patch", "spoke", spoke, "--type=merge", "-p", gate])
        .await;
    what_is_no_policy_is_refused(path).await;
    path.apply(KEEPER).await;
    ready(path, "rgd/keeper").await;
    path.apply(INSTANCE).await;
    ready(path, "keeper/one").await;
    let owners =
        |name| async move { configmap(path, name).await["metadata"]["ownerReferences"].take() };
    assert!(
        owners("one-plain").await.is_array(),
        "what goes has an owner"
    );
    for name in ["one-data-x", "one-loose"] {
        assert_eq!(
            owners(name).await,
            Value::Null,
            "{name} stays, and would go after an owner"
        );
    }
    what_a_person_protects_has_no_owner(path).await;
    let data = uid(path, "one-data-x").await;
    let loose = uid(path, "one-loose").await;

    // An orphan is nobody's: no label, no manager, and what others make of it stays.
    change(path, r#"{"spec":{"loose":false}}"#).await;
    let orphan = ["get", "configmap", "one-loose", "--show-managed-fields"];
    let orphan = until(path, &orphan, "it is nobody's", |orphan| {
        orphan["metadata"]["labels"] == serde_json::json!({"app": "loose"})
    })
    .await;
    let managers = orphan["metadata"]["managedFields"].to_string();
    assert!(!managers.contains("kro.run/applyset"), "{managers}");
    told::event_of(
        path,
        "keeper/one",
        &["Orphaned", "ConfigMap default/one-loose"],
    )
    .await;
    let own = r#"{"data":{"slug":"mine"}}"#;
    path.must(&["patch", "configmap", "one-loose", "--type=merge", "-p", own])
        .await;

    // What is retained stays where the name changes, and when the instance goes.
    change(path, r#"{"spec":{"slug":"y"}}"#).await;
    ready(path, "configmap/one-data-y").await;
    told::event_of(
        path,
        "keeper/one",
        &["Retained", "ConfigMap default/one-data-x"],
    )
    .await;
    what_is_said_wrongly_is_not_deleted(path).await;
    for (name, want) in [("one-data-x", &data), ("one-loose", &loose)] {
        assert_eq!(uid(path, name).await, *want, "{name} is the same object");
    }
    path.must(&["get", "configmap", "one-data-y"]).await;
    assert_eq!(
        configmap(path, "one-loose").await["data"]["slug"],
        "mine",
        "nobody undoes it"
    );

    what_was_retained_is_taken_up(path, &data).await;
}

/// An instance of the same name takes up what was retained, and nothing else.
async fn what_was_retained_is_taken_up(path: &Kubectl, data: &str) {
    path.apply(INSTANCE).await;
    let again = ["get", "keeper", "one"];
    let again = until(path, &again, "it is told what is in its way", |it| {
        it["status"]["conditions"].to_string().contains("one-loose")
    })
    .await;
    assert!(
        again["status"]["conditions"]
            .to_string()
            .contains("was not made for this instance"),
        "{again}"
    );
    change(path, r#"{"spec":{"loose":false}}"#).await;
    ready(path, "keeper/one").await;
    assert_eq!(uid(path, "one-data-x").await, data, "it was taken up");
    path.must(&["delete", "keeper", "one", "--timeout=30s"])
        .await;
    gone(path, &["get", "configmap", "one-plain"]).await;
    assert_eq!(uid(path, "one-data-x").await, data, "and retained again");
}

/// For as long as the live object says so.
async fn what_a_person_protects_has_no_owner(path: &Kubectl) {
    let plain = ["get", "configmap", "one-plain"];
    let retained = format!("{POLICY}=Retain");
    let nothing = format!("{POLICY}-");
    for (said, has_owner) in [(&retained, false), (&nothing, true)] {
        path.must(&["annotate", "configmap", "one-plain", said])
            .await;
        until(path, &plain, "its owner follows the annotation", |it| {
            it["metadata"]["ownerReferences"].is_array() == has_owner
        })
        .await;
    }
}

/// In a template.
async fn what_is_no_policy_is_refused(path: &Kubectl) {
    path.apply(&KEEPER.replace("deletion-policy: Orphan", "deletion-policy: orphan"))
        .await;
    let refused = until(path, &["get", "rgd", "keeper"], "it is refused", |it| {
        it["status"]["state"] == "Inactive"
    })
    .await;
    let told = refused["status"]["conditions"].to_string();
    assert!(told.contains("is not Delete, Retain or Orphan"), "{told}");
}

/// Somebody writes another word, and deletes the instance: nothing of that is deleted until the word is right.
async fn what_is_said_wrongly_is_not_deleted(path: &Kubectl) {
    let instance = ["get", "keeper", "one"];
    change(path, r#"{"spec":{"policy":"Keep"}}"#).await;
    let is_told = |it: &Value| {
        it["status"]["conditions"]
            .to_string()
            .contains(r#"\"Keep\" is not Delete"#)
    };
    until(path, &instance, "the expression gives no policy", is_told).await;
    change(path, r#"{"spec":{"policy":"Retain"}}"#).await;
    ready(path, "keeper/one").await;
    let wrong = format!("{POLICY}=maybe");
    path.must(&["annotate", "configmap", "one-plain", &wrong])
        .await;
    path.must(&["delete", "keeper", "one", "--wait=false"])
        .await;
    let is_told = |it: &Value| {
        it["status"]["conditions"]
            .to_string()
            .contains("ConfigMap default/one-plain: annotation")
    };
    until(path, &instance, "the deletion waits", is_told).await;
    path.must(&["get", "configmap", "one-plain"]).await;
    let right = format!("{POLICY}=Delete");
    path.must(&["annotate", "configmap", "one-plain", &right, "--overwrite"])
        .await;
    gone(path, &instance).await;
    gone(path, &["get", "configmap", "one-plain"]).await;
}

async fn change(path: &Kubectl, patch: &str) {
    path.must(&["patch", "keeper", "one", "--type=merge", "-p", patch])
        .await;
}

async fn ready(path: &Kubectl, what: &str) {
    let wait = match what.split_once('/') {
        Some(("configmap", _)) => "--for=create",
        _ => "--for=condition=Ready",
    };
    path.must(&["wait", wait, what, "--timeout=30s"]).await;
}

async fn configmap(path: &Kubectl, name: &str) -> Value {
    let object = path.json(&["get", "configmap", name]).await;
    object.unwrap_or_else(|error| unreachable!("{name} is there: {error}"))
}

async fn uid(path: &Kubectl, name: &str) -> String {
    let object = configmap(path, name).await;
    object["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
