//! One apply, end to end.

use std::time::Duration;

use wheelhouse_tests::{Hub, Spoke, pods, wait::within};

use super::stage::{WEBAPP, instance};

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn an_instance_at_a_path_comes_alive_in_that_spoke_and_in_no_other() {
    let (hub, east, west) = tokio::join!(Hub::start(), Spoke::start("east"), Spoke::start("west"));
    tokio::join!(hub.join(&east), hub.join(&west));
    hub.root().apply(WEBAPP).await;
    hub.root()
        .must(&[
            "wait",
            "--for=condition=Ready",
            "rgd/webapp",
            "--timeout=30s",
        ])
        .await;
    let path = hub.at("east");
    path.apply(&instance("shop", "message: hello, expose: true"))
        .await;
    pods::make_ready(&east.kubectl(), "shop").await;
    within(
        Duration::from_secs(30),
        "the Deployment's status turns ready",
        || async {
            let deployment = east.kubectl().json(&["get", "deployment", "shop"]).await?;
            if deployment["status"]["availableReplicas"] == 1 {
                Ok(())
            } else {
                Err("not yet".into())
            }
        },
    )
    .await;
    path.must(&[
        "wait",
        "--for=condition=Ready",
        "webapp/shop",
        "--timeout=2s",
    ])
    .await;

    let seen = path
        .json(&["get", "webapp", "shop"])
        .await
        .expect("the instance is at the path");
    assert_eq!(seen["status"]["state"], "ACTIVE", "{seen}");
    assert_eq!(
        seen["status"]["available"], 1,
        "projected from the Deployment: {seen}"
    );
    let uid = seen["metadata"]["uid"].as_str().expect("a uid");

    for (kind, name, node) in [
        ("configmap", "shop-config", "config"),
        ("deployment", "shop", "deployment"),
        ("service", "shop", "service"),
        ("ingress", "shop", "ingress"),
    ] {
        let child = east
            .kubectl()
            .json(&["get", kind, name])
            .await
            .expect("the child is in east");
        let labels = &child["metadata"]["labels"];
        for (key, want) in [
            ("kro.run/owned", "true"),
            ("kro.run/instance-id", uid),
            ("kro.run/instance-name", "shop"),
            ("kro.run/instance-namespace", "default"),
            ("kro.run/instance-group", "kro.run"),
            ("kro.run/instance-version", "v1alpha1"),
            ("kro.run/instance-kind", "WebApp"),
            ("kro.run/node-id", node),
            ("app.kubernetes.io/managed-by", "kro"),
        ] {
            assert_eq!(labels[key], want, "{key} of {kind} {name}: {labels}");
        }
        assert_eq!(
            labels["applyset.kubernetes.io/part-of"],
            seen["metadata"]["labels"]["applyset.kubernetes.io/id"],
            "{kind} {name} is a member of the instance's ApplySet"
        );
        let order = &child["metadata"]["annotations"]["internal.kro.run/apply-order"];
        assert!(
            order.is_string(),
            "the apply order of {kind} {name}: {child}"
        );
        let managers = child["metadata"]["managedFields"].to_string();
        let shown = east
            .kubectl()
            .json(&["get", kind, name, "--show-managed-fields"])
            .await
            .expect("the child is in east");
        let managers = format!("{managers}{}", shown["metadata"]["managedFields"]);
        assert!(
            managers.contains("kro.run/applyset"),
            "the manager of {kind} {name}: {managers}"
        );
    }

    west.kubectl()
        .must(&["get", "crd", "webapps.kro.run"])
        .await;
    let instances = west
        .kubectl()
        .json(&["get", "webapps", "-A"])
        .await
        .expect("the CRD serves");
    assert_eq!(
        instances["items"].as_array().map(Vec::len),
        Some(0),
        "no instance in west"
    );
    for kind in ["configmaps", "deployments", "services", "ingresses"] {
        let selector = ["get", kind, "-A", "-l", "kro.run/owned=true"];
        let children = west.kubectl().json(&selector).await.expect("west answers");
        assert_eq!(
            children["items"].as_array().map(Vec::len),
            Some(0),
            "{kind} in west"
        );
    }
    let at_west = hub
        .at("west")
        .json(&["get", "webapps", "-A"])
        .await
        .expect("served at west");
    assert_eq!(
        at_west["items"].as_array().map(Vec::len),
        Some(0),
        "nothing at west's path"
    );
    super::preview::what_is_foretold_happens(&hub, &east).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_records_its_authenticated_author_where_no_client_can_change_it() {
    let stage = super::stage::Stage::set().await;
    let path = stage.path();
    let key = "internal.wheelhouse.dev/author";
    let forged = format!(
        "apiVersion: kro.run/v1alpha1\nkind: WebApp\nmetadata:\n  name: forged\n  \
         namespace: default\n  annotations: {{{key}: '{{\"username\":\"mallory\"}}'}}\n\
         spec: {{message: hello}}\n"
    );
    path.apply(&forged).await;
    let get = ["get", "webapp", "forged"];
    let author = |object: &serde_json::Value| {
        object["metadata"]["annotations"][key]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let made = path.json(&get).await.expect("it is there");
    assert!(
        author(&made).contains("\"admin\""),
        "the certificate's user: {made}"
    );
    let annotation = format!("{key}=mallory");
    path.run(&["annotate", "--overwrite", "webapp", "forged", &annotation])
        .await;
    let kept = path.json(&get).await.expect("it is there");
    assert_eq!(author(&kept), author(&made), "an update does not change it");
    let revisions = stage
        .hub
        .root()
        .json(&["get", "graphrevisions"])
        .await
        .expect("they list");
    let revision = &revisions["items"][0];
    assert!(
        author(revision).contains("\"admin\""),
        "the definition's author: {revision}"
    );
    assert_eq!(revision["spec"]["revision"], 1, "revisions count from one");
    let version = made["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    assert_eq!(
        version.len(),
        16,
        "epoch times ten to the thirteenth plus n: {version}"
    );
}
