//! What clients read.

use api::{
    discovery::ApiGroupDiscoveryList,
    group::{GroupVersionKind, GroupVersionResource},
};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::*;
use crate::served::{KindDigest, KindSource, ServedKind, ServedKinds, ServedSubresource};

fn served(group: &str, version: &str, resource: &str, kind: &str) -> Arc<ServedKind> {
    let gvk = GroupVersionKind::new(group, version, kind);
    Arc::new(ServedKind {
        gvr: GroupVersionResource::new(group, version, resource),
        subresources: vec![
            ServedSubresource {
                name: "status".to_owned(),
                gvk: gvk.clone(),
                verbs: vec!["get".to_owned()],
            },
            ServedSubresource {
                name: "scale".to_owned(),
                gvk: GroupVersionKind::new("autoscaling", "v1", "Scale"),
                verbs: vec!["get".to_owned()],
            },
        ],
        list_kind: format!("{kind}List"),
        gvk,
        singular: kind.to_lowercase(),
        namespaced: true,
        short_names: vec!["w".to_owned()],
        categories: vec!["all".to_owned()],
        verbs: vec!["get".to_owned(), "list".to_owned()],
        storage_version_hash: "abc=".to_owned(),
        definition_schema: None,
        schema_hash: 0,
        selectable_fields: Vec::new(),
        source: KindSource::Definition,
        digest: KindDigest::default(),
    })
}

fn documents(kinds: Vec<Arc<ServedKind>>) -> Arc<Documents> {
    Arc::new(Documents::new(groups_of(&ServedKinds::new(kinds))))
}

fn parts(accept: &str, etag: Option<&HeaderValue>) -> Parts {
    let mut request = Request::get("/apis").header("accept", accept);
    if let Some(etag) = etag {
        request = request.header("if-none-match", etag);
    }
    request.body(()).unwrap().into_parts().0
}

async fn value_of(response: Response) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[test]
fn a_path_is_a_page() {
    for (path, want) in [
        ("/api", Some(Page::Core)),
        ("/api/", Some(Page::Core)),
        ("/api/v1", Some(Page::CoreVersion("v1"))),
        ("/apis", Some(Page::Groups)),
        ("/apis/a.b", Some(Page::Group("a.b"))),
        ("/apis/a.b/v1/", Some(Page::GroupVersion("a.b", "v1"))),
        ("/apis/a.b/v1/x", None),
        ("/api/v1/x", None),
        ("/", None),
        ("/version", None),
    ] {
        assert_eq!(Page::of(path), want, "{path}");
    }
}

#[test]
fn groups_are_in_the_order_of_their_priority_and_versions_in_that_of_their_age() {
    let groups = groups_of(&ServedKinds::new(vec![
        served("z.io", "v1alpha1", "zs", "Z"),
        served("z.io", "v1", "zs", "Z"),
        served("z.io", "v2beta1", "zs", "Z"),
        served("a.io", "v1", "as", "A"),
        served("batch", "v1", "jobs", "Job"),
        served("", "v1", "pods", "Pod"),
        served("apps", "v1", "deployments", "Deployment"),
    ]));
    let names: Vec<&str> = groups
        .groups
        .iter()
        .map(|group| group.metadata.name.as_str())
        .collect();
    assert_eq!(names, ["", "apps", "batch", "a.io", "z.io"]);
    let versions: Vec<&str> = groups.groups[4]
        .versions
        .iter()
        .map(|version| version.version.as_str())
        .collect();
    assert_eq!(versions, ["v1", "v2beta1", "v1alpha1"]);
}

#[tokio::test]
async fn the_aggregated_document_carries_its_type_and_its_etag() {
    let documents = documents(vec![
        served("a.io", "v1", "widgets", "Widget"),
        served("", "v1", "pods", "Pod"),
    ]);
    let accept = format!("{},application/json", api::discovery::AGGREGATED_V2);
    let response = serve(&documents, Page::Groups, &parts(&accept, None)).unwrap();
    assert_eq!(
        response.headers()["content-type"],
        api::discovery::AGGREGATED_V2
    );
    assert_eq!(response.headers()["vary"], "Accept");
    let etag = response.headers()["etag"].clone();
    let list: ApiGroupDiscoveryList = serde_json::from_value(value_of(response).await).unwrap();
    assert_eq!(list.api_version, "apidiscovery.k8s.io/v2");
    assert_eq!(list.items.len(), 1, "the core group has a page of its own");
    assert_eq!(list.items[0].versions[0].freshness, "Current");

    let again = serve(&documents, Page::Groups, &parts(&accept, Some(&etag))).unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(again.headers()["etag"], etag);

    let other = self::documents(vec![served("a.io", "v1", "gadgets", "Gadget")]);
    let changed = serve(&other, Page::Groups, &parts(&accept, Some(&etag))).unwrap();
    assert_eq!(changed.status(), 200);
}

#[tokio::test]
async fn the_legacy_documents_say_the_same() {
    let documents = documents(vec![
        served("a.io", "v1", "widgets", "Widget"),
        served("", "v1", "pods", "Pod"),
    ]);
    for (page, want) in [
        (
            Page::Core,
            json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]}),
        ),
        (
            Page::Groups,
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [{
            "name": "a.io", "versions": [{"groupVersion": "a.io/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "a.io/v1", "version": "v1"}}]}),
        ),
        (
            Page::GroupVersion("a.io", "v1"),
            json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": "a.io/v1", "resources": [
                {"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget",
                 "verbs": ["get", "list"], "shortNames": ["w"], "categories": ["all"], "storageVersionHash": "abc="},
                {"name": "widgets/status", "singularName": "", "namespaced": true, "kind": "Widget", "verbs": ["get"]},
                {"name": "widgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
                 "version": "v1", "kind": "Scale", "verbs": ["get"]}]}),
        ),
    ] {
        let response = serve(&documents, page, &parts("application/json", None)).unwrap();
        assert_eq!(value_of(response).await, want, "{page:?}");
    }
    for page in [
        Page::Group("b.io"),
        Page::GroupVersion("a.io", "v2"),
        Page::CoreVersion("v2"),
        Page::GroupVersion("", "v1"),
    ] {
        let refusal = serve(&documents, page, &parts("application/json", None)).unwrap_err();
        assert!(
            refusal.status().is_none(),
            "{page:?} is answered in plain text"
        );
    }
}

#[test]
fn what_the_hub_serves_covers_what_the_spoke_serves() {
    let spoke = groups_of(&ServedKinds::new(vec![
        served("", "v1", "pods", "Pod"),
        served("a.io", "v1", "widgets", "Widget"),
        served("a.io", "v1", "gadgets", "Gadget"),
        served("a.io", "v1beta1", "widgets", "Widget"),
    ]));
    let hub = groups_of(&ServedKinds::new(vec![
        served("a.io", "v2", "widgets", "Widget"),
        served("b.io", "v1", "things", "Thing"),
    ]));
    let merged = spoke.overlaid(hub);
    let flat: Vec<String> = merged
        .groups
        .iter()
        .flat_map(|group| {
            group.versions.iter().flat_map(|version| {
                version.resources.iter().map(|resource| {
                    format!(
                        "{}/{}/{}",
                        group.metadata.name, version.version, resource.resource
                    )
                })
            })
        })
        .collect();
    assert_eq!(
        flat,
        [
            "/v1/pods",
            "a.io/v2/widgets",
            "a.io/v1/gadgets",
            "b.io/v1/things"
        ]
    );
}

#[test]
fn a_subresource_of_a_built_in_kind_names_a_group_only_where_it_is_another() {
    for (source, status) in [
        (KindSource::BuiltIn, ("", "")),
        (KindSource::Definition, ("a.io", "v1")),
    ] {
        let mut kind = Arc::unwrap_or_clone(served("a.io", "v1", "widgets", "Widget"));
        kind.source = source;
        let groups = groups_of(&ServedKinds::new(vec![Arc::new(kind)])).groups;
        let resource = &groups[0].versions[0].resources[0];
        let kinds: Vec<_> = resource
            .subresources
            .iter()
            .filter_map(|it| it.response_kind.as_ref())
            .map(|it| (it.group.as_str(), it.version.as_str()))
            .collect();
        assert_eq!(kinds, [status, ("autoscaling", "v1")]);
    }
}
