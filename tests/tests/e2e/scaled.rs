//! The gate `InstanceScale`: `kubectl scale` of an instance at the path of a cluster whose Spoke opens it.

use wheelhouse_tests::Kubectl;

use super::stage::{Stage, gone, until};

const SCALED: &str = r#"
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: scaled}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Scaled
    metadata:
      annotations:
        wheelhouse.dev/scale: >-
          {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.observed", "labelSelectorPath": ".status.selector"}
    spec: {size: "integer | default=1"}
    status: {observed: "${deployment.spec.replicas}", selector: "app=${deployment.metadata.name}"}
  resources:
  - id: deployment
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: "${schema.metadata.name}"}
      spec:
        replicas: ${schema.spec.size}
        selector: {matchLabels: {app: "${schema.metadata.name}"}}
        template:
          metadata: {labels: {app: "${schema.metadata.name}"}}
          spec: {containers: [{name: web, image: web}]}
"#;
const INSTANCE: &str =
    "{apiVersion: kro.run/v1alpha1, kind: Scaled, metadata: {name: one, namespace: default}}";

/// Scales at a spoke's path and in an embedded cluster, which is there already.
pub(crate) async fn instances_are_scaled(stage: &Stage) {
    let root = stage.hub.root();
    let (east, inner) = (stage.path(), stage.hub.at("inner"));
    tokio::join!(
        one_is_scaled(&root, "east", &east),
        one_is_scaled(&root, "inner", &inner)
    );
}

async fn one_is_scaled(root: &Kubectl, spoke: &str, path: &Kubectl) {
    let gate = r#"{"spec":{"kro":{"featureGates":{"InstanceScale":true}}}}"#;
    root.must(&["patch", "spoke", spoke, "--type=merge", "-p", gate])
        .await;
    path.apply(SCALED).await;
    path.must(&[
        "wait",
        "--for=condition=Ready",
        "rgd/scaled",
        "--timeout=30s",
    ])
    .await;
    path.apply(INSTANCE).await;
    let scale = ["get", "scaled", "one", "--subresource=scale"];
    until(path, &scale, "it has a scale", |scale| {
        scale["status"]["replicas"] == 1 && scale["status"]["selector"] == "app=one"
    })
    .await;
    path.must(&[
        "scale",
        "scaled/one",
        "--replicas=3",
        "--current-replicas=1",
    ])
    .await;
    let deployment = ["get", "deployment", "one"];
    until(path, &deployment, "its child follows", |deployment| {
        deployment["spec"]["replicas"] == 3
    })
    .await;
    until(path, &scale, "it is told", |scale| {
        scale["spec"]["replicas"] == 3 && scale["status"]["replicas"] == 3
    })
    .await;

    // The annotation goes, and the subresource with it. The instance stays as it is.
    let remove = r#"[{"op": "remove", "path": "/spec/schema/metadata"}]"#;
    path.must(&["patch", "rgd", "scaled", "--type=json", "-p", remove])
        .await;
    gone(path, &scale).await;
    path.must(&["get", "scaled", "one"]).await;
}
