use serde_json::json;

use super::*;
use crate::testing::{Server, json as answer_json, reply};

fn widget() -> (GroupVersionKind, GroupVersionResource) {
    let version = GroupVersion::new("example.com", "v1");
    (
        version.with_kind("Widget"),
        version.with_resource("widgets"),
    )
}

#[tokio::test]
async fn the_aggregated_form_takes_two_requests() {
    let server = Server::start(|request| {
        let items = if request.uri().path().ends_with("/api") {
            json!([{"metadata": {}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
                {"resource": "pods", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}, "scope": "Namespaced",
                 "singularResource": "pod", "verbs": ["get", "list"], "shortNames": ["po"]}]}]}])
        } else {
            json!([
                {"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
                    {"resource": "widgets", "responseKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
                     "scope": "Cluster", "singularResource": "widget", "verbs": ["get"],
                     "subresources": [{"subresource": "status", "verbs": ["get"]}]}]}]},
                {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]},
            ])
        };
        answer_json(200, &json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {}, "items": items}))
    })
    .await;
    let dynamic = Dynamic::new(server.connect().await.client());
    let kinds = fetch(&dynamic, Some(&"east".parse().unwrap()))
        .await
        .unwrap();
    assert_eq!(
        server.lines(),
        ["GET /clusters/east/api", "GET /clusters/east/apis"]
    );
    let (gvk, gvr) = widget();
    let info = kinds.kind(&gvk).unwrap();
    assert_eq!((info.gvr.clone(), info.namespaced), (gvr.clone(), false));
    assert_eq!(info.subresources, ["status"]);
    assert_eq!(kinds.resource(&gvr).unwrap().0, &gvk);
    assert!(
        kinds
            .kind(&GroupVersionKind::new("", "v1", "Pod"))
            .unwrap()
            .namespaced
    );
    assert_eq!(
        kinds.stale,
        BTreeSet::from([GroupVersion::new("metrics.k8s.io", "v1beta1")])
    );
    assert!(kinds.serves(&GroupVersion::new("metrics.k8s.io", "v1beta1")));
}

#[tokio::test]
async fn a_server_without_the_aggregated_form_is_asked_for_each_version() {
    let server = Server::start(|request| match request.uri().path() {
        "/api" => answer_json(200, &json!({"kind": "APIVersions", "versions": ["v1"]})),
        "/apis" => answer_json(200, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [{
            "name": "example.com",
            "versions": [{"groupVersion": "example.com/v1beta1", "version": "v1beta1"}, {"groupVersion": "example.com/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"}}]})),
        "/apis/example.com/v1" => answer_json(200, &json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": "example.com/v1", "resources": [
                {"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget", "verbs": ["get", "list"]},
                {"name": "widgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]}]})),
        _ => reply(503, "backend away"),
    })
    .await;
    let kinds = fetch(&Dynamic::new(server.connect().await.client()), None)
        .await
        .unwrap();
    let (gvk, gvr) = widget();
    let info = kinds.kind(&gvk).unwrap();
    assert_eq!(
        (&info.gvr, info.namespaced, info.subresources.as_slice()),
        (&gvr, true, &["scale".to_owned()][..])
    );
    let version = |version: &str| GroupVersion::new("example.com", version);
    assert_eq!(
        kinds.versions,
        [
            GroupVersion::new("", "v1"),
            version("v1"),
            version("v1beta1")
        ]
    );
    assert_eq!(
        kinds.stale,
        BTreeSet::from([GroupVersion::new("", "v1"), version("v1beta1")])
    );
}

#[tokio::test]
async fn a_server_that_fails_serves_nothing_rather_than_little() {
    let server = Server::start(|request| match request.uri().path() {
        "/api" => answer_json(200, &json!({"kind": "APIVersions", "versions": ["v1"]})),
        _ => reply(500, "boom"),
    })
    .await;
    let error = fetch(&Dynamic::new(server.connect().await.client()), None)
        .await
        .unwrap_err();
    assert_eq!(error.status().unwrap().code, 500);
}
