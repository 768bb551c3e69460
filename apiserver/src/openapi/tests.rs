//! The index, its hashes, and what clients may keep.

use api::group::{GroupVersionKind, GroupVersionResource};
use http::Request;

use super::*;
use crate::served::{KindDigest, KindSource, ServedKind, ServedKinds};

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
        digest: KindDigest::default(),
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
        serve_document(
            "apis/a.io/v1",
            &document,
            &parts(uri, headers),
            now(),
            OldHash::Redirected,
        )
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

    // A host has an index of before, and relays no redirect.
    let answered = serve_document(
        "apis/a.io/v1",
        &document,
        &parts("/x?hash=OLD", &[]),
        now(),
        OldHash::Answered,
    );
    let answered = answered.unwrap();
    assert_eq!(answered.headers()["etag"], format!("\"{hash}\""));
    assert!(
        answered.headers().get("expires").is_none(),
        "not to be kept"
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

#[test]
fn version_2_is_made_of_all_documents_of_version_3() {
    let schema = serde_json::json!({"type": "object", "properties": {
        "count": {"type": "integer", "default": 1, "minimum": 0},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
        "maybe": {"type": "string", "nullable": true},
    }});
    let mut kind = ServedKind::clone(&served("a.io", "widgets", 1));
    kind.gvk.kind = "Widget".to_owned();
    kind.list_kind = "WidgetList".to_owned();
    kind.verbs = vec!["get".to_owned(), "patch".to_owned()];
    kind.definition_schema = Some(schema.to_string().into());
    let kinds = ServedKinds::new(vec![Arc::new(kind)]);
    let cache = Cache::default();
    let documents = cache.v2(&kinds);
    let document: Value = serde_json::from_slice(&documents.json).unwrap();

    assert_eq!(document["swagger"], "2.0");
    let widget = &document["definitions"]["io.a.v1.Widget"];
    assert_eq!(
        widget["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    for (name, want) in [
        (
            "count",
            serde_json::json!({"type": "integer", "minimum": 0}),
        ),
        (
            "port",
            serde_json::json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            "open",
            serde_json::json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        ("maybe", serde_json::json!({})),
    ] {
        assert_eq!(widget["properties"][name], want, "{name}");
    }
    let patch = &document["paths"]["/apis/a.io/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Widget");
    let consumed = patch["consumes"].as_array().unwrap();
    assert!(
        consumed.contains(&serde_json::json!("application/apply-patch+yaml")),
        "{consumed:?}"
    );
    let names: Vec<&str> = patch["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|parameter| parameter["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"fieldValidation") && names.contains(&"body"),
        "{names:?}"
    );
    let unresolved: Vec<String> = references(&document)
        .into_iter()
        .filter(|name| document["definitions"].get(name).is_none())
        .collect();
    assert_eq!(unresolved, [""; 0], "every reference resolves");
}

/// The names of all definitions that a document refers to.
fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| match value.as_str() {
                Some(text) if key == "$ref" => {
                    vec![text.trim_start_matches("#/definitions/").to_owned()]
                }
                _ => references(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn version_2_is_json_or_protobuf_as_the_client_asks() {
    let documents = Cache::default().v2(&ServedKinds::new(vec![served("a.io", "widgets", 1)]));
    let protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    for (accept, want) in [
        ("", Some("application/json")),
        ("application/json, */*", Some("application/json")),
        (
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
            Some(protobuf),
        ),
        (protobuf, Some(protobuf)),
        ("text/html", None),
    ] {
        let headers = [("accept", accept)];
        let headers = if accept.is_empty() {
            &[][..]
        } else {
            &headers[..]
        };
        let got = serve_v2(&documents, &parts("/openapi/v2", headers));
        let got = got
            .as_ref()
            .ok()
            .map(|response| &response.headers()["content-type"]);
        assert_eq!(got.map(|value| value.to_str().unwrap()), want, "{accept}");
    }
}
