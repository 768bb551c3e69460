//! The index, its hashes, and what clients may keep.

use api::group::{GroupVersionKind, GroupVersionResource};
use http::Request;

use super::*;
use crate::served::{KindSource, ServedKind, ServedKinds};

fn served(group: &str, resource: &str, schema_hash: u64) -> Arc<ServedKind> {
    Arc::new(ServedKind {
        gvr: GroupVersionResource::new(group, "v1", resource),
        gvk: GroupVersionKind::new(group, "v1", resource),
        list_kind: "List".to_owned(),
        singular: String::new(),
        namespaced: true,
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: vec!["get".to_owned()],
        subresources: Vec::new(),
        storage_version_hash: String::new(),
        definition_schema: None,
        schema_hash,
        selectable_fields: Vec::new(),
        source: KindSource::Definition,
    })
}

fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::get(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn now() -> jiff::Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

#[test]
fn a_path_is_a_page() {
    for (path, want) in [
        ("/openapi/v2", Some(Page::V2)),
        ("/openapi/v3", Some(Page::Index)),
        ("/openapi/v3/", Some(Page::Index)),
        ("/openapi/v3/api/v1", Some(Page::Document("api/v1"))),
        (
            "/openapi/v3/apis/a.io/v1",
            Some(Page::Document("apis/a.io/v1")),
        ),
        ("/openapi/v4", None),
        ("/openapi", None),
    ] {
        assert_eq!(Page::of(path), want, "{path}");
    }
}

#[test]
fn a_hash_changes_with_its_own_group_alone() {
    let cache = Cache::default();
    let before = cache.index(&ServedKinds::new(vec![
        served("", "pods", 1),
        served("a.io", "widgets", 1),
    ]));
    let after = cache.index(&ServedKinds::new(vec![
        served("", "pods", 1),
        served("a.io", "widgets", 2),
    ]));
    assert_eq!(before.hashes["api/v1"], after.hashes["api/v1"]);
    assert_ne!(before.hashes["apis/a.io/v1"], after.hashes["apis/a.io/v1"]);
}

#[test]
fn a_document_under_its_hash_may_be_kept_and_one_under_an_old_hash_has_moved() {
    let cache = Cache::default();
    let kinds = ServedKinds::new(vec![served("a.io", "widgets", 1)]);
    let document = cache.document(&kinds, "apis/a.io/v1").unwrap();
    let hash = document.hash.clone();
    let serve = |uri: &str, headers: &[(&str, &str)]| {
        serve_document("apis/a.io/v1", &document, &parts(uri, headers), now())
    };

    let plain = serve("/x", &[]).unwrap();
    assert_eq!(plain.headers()["etag"], format!("\"{hash}\""));
    assert!(
        plain.headers().get("expires").is_none(),
        "only under its hash"
    );

    let kept = serve(&format!("/x?hash={hash}"), &[]).unwrap();
    assert_eq!(kept.headers()["cache-control"], "public, immutable");
    assert_eq!(kept.headers()["expires"], "Sun, 21 Nov 2027 10:00:00 GMT");

    let known = serve("/x", &[("if-none-match", &format!("\"{hash}\""))]).unwrap();
    assert_eq!(known.status(), 304);

    let moved = serve("/x?hash=OLD", &[]).unwrap_err();
    assert_eq!(
        moved.to_string(),
        format!("moved to /openapi/v3/apis/a.io/v1?hash={hash}")
    );

    let refused = serve(
        "/x",
        &[(
            "accept",
            "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
        )],
    );
    assert_eq!(refused.unwrap_err().status().unwrap().code, 406);
}

#[test]
fn what_is_not_served_has_no_document() {
    let kinds = ServedKinds::new(vec![served("a.io", "widgets", 1)]);
    assert!(Cache::default().document(&kinds, "apis/b.io/v1").is_none());
}
