use api::{ClusterScope, GroupResource, LogicalCluster};
use serde_json::{Value, json};

use super::*;

fn cluster(name: &str) -> LogicalCluster {
    name.parse().expect("a cluster name")
}

fn widgets() -> ResourcePrefix {
    ResourcePrefix::new(&GroupResource {
        group: "example.com".into(),
        resource: "widgets".into(),
    })
}

#[test]
fn keys_come_apart_as_they_were_made() {
    let core = GroupResource {
        group: String::new(),
        resource: "pods".into(),
    };
    for (prefix, group, resource, namespace) in [
        (widgets(), "example.com", "widgets", "ns"),
        (ResourcePrefix::new(&core), "", "pods", ""),
    ] {
        let key = prefix.key(&cluster("east"), namespace, "a");
        let parts = parse_key(&key).expect("a key");
        let want = StorageKeyParts {
            group,
            resource,
            cluster: "east",
            namespace,
            name: "a",
        };
        assert_eq!(parts, want);
    }
    for bad in ["", "/", "/g/r/c/ns", "/g/r/c/ns/n/more", "g/r/c/ns/n"] {
        assert_eq!(parse_key(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn a_range_holds_its_own_keys_and_no_neighbour() {
    let prefix = widgets();
    let east = ClusterScope::One(cluster("east"));
    let range = prefix.range(&east, Some("a"));
    for (cluster_name, namespace, inside) in [
        ("east", "a", true),
        ("east", "a-b", false),
        ("east", "", false),
        ("east-2", "a", false),
    ] {
        let key = prefix.key(&cluster(cluster_name), namespace, "x");
        assert_eq!(range.contains(&key), inside, "{cluster_name}/{namespace}");
    }
    let all = prefix.range(&ClusterScope::All, None);
    let key = prefix.key(&cluster("west"), "b", "x");
    assert!(all.contains(&key), "every cluster is in the range of all");
}

fn sample() -> Value {
    json!({
        "kind": "Widget", "apiVersion": "example.com/v1", "data": {"metadata": {"name": "not this"}},
        "metadata": {
            "managedFields": [{"manager": "kubectl"}], "name": "a", "namespace": "ns", "uid": "u-1",
            "labels": {"app": "web", "tier": "front"}, "finalizers": ["x/y"], "resourceVersion": "7",
        },
    })
}

#[test]
fn the_canonical_form_puts_the_head_first_and_managed_fields_last() {
    let encoded = encode(&sample(), RevisionSlot::Reserve);
    let text = String::from_utf8(encoded.bytes.clone()).expect("text");
    assert_eq!(
        text,
        concat!(
            r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"finalizers":["x/y"],"#,
            r#""labels":{"app":"web","tier":"front"},"name":"a","namespace":"ns","#,
            r#""resourceVersion":"0000000000000000","uid":"u-1","managedFields":[{"manager":"kubectl"}]},"#,
            r#""data":{"metadata":{"name":"not this"}}}"#
        )
    );
    let stamp = encoded.stamp.expect("a slot");
    let mut bytes = encoded.bytes;
    stamp_bytes(&mut bytes, stamp, 1_000_000_000_000_042);
    let back: Value = serde_json::from_slice(&bytes).expect("JSON");
    let mut want = sample();
    want["metadata"]["resourceVersion"] = json!("1000000000000042");
    assert_eq!(back, want);
}

#[test]
fn a_slot_is_reserved_wherever_resource_version_would_stand() {
    for metadata in [
        json!({}),
        json!({"name": "a"}),
        json!({"uid": "u"}),
        json!({"zzz": 1}),
    ] {
        let encoded = encode(&json!({"metadata": metadata}), RevisionSlot::Reserve);
        let stamp = encoded.stamp.expect("a slot");
        assert_eq!(
            encoded.bytes.get(stamp..stamp + 16),
            Some(&b"0000000000000000"[..])
        );
        serde_json::from_slice::<Value>(&encoded.bytes).expect("JSON");
    }
    let omitted = encode(&sample(), RevisionSlot::Omit);
    assert!(!String::from_utf8_lossy(&omitted.bytes).contains("resourceVersion"));
}

#[test]
fn the_head_is_read_from_any_layout() {
    let canonical = encode(&sample(), RevisionSlot::Keep).bytes;
    let pretty = serde_json::to_vec_pretty(&sample()).expect("JSON");
    for bytes in [canonical, pretty] {
        let head = head(&bytes).expect("a head");
        assert_eq!((head.name.as_ref(), head.namespace.as_ref()), ("a", "ns"));
        assert_eq!(head.uid, "u-1");
        assert_eq!(head.labels.get("app"), Some("web"));
        assert_eq!(head.labels.get("absent"), None);
        assert!(head.finalized && !head.deleting && !head.owned, "{head:?}");
        assert_eq!(
            bytes.get(head.resource_version.expect("a version")),
            Some(&b"7"[..])
        );
    }
}

#[test]
fn broken_bytes_have_no_head() {
    for bytes in [
        "",
        "{",
        "[]",
        "null",
        r#"{"metadata""#,
        r#"{"metadata":{"name":"a"#,
        r#"{"kind":"x"}"#,
        "{\"a\":}",
    ] {
        assert_eq!(head(bytes.as_bytes()), None, "{bytes}");
    }
}

#[test]
fn the_cluster_is_spliced_into_whatever_annotations_there_are() {
    for metadata in [
        json!({}),
        json!({"name": "a"}),
        json!({"annotations": {}}),
        json!({"annotations": {"a": "b"}}),
    ] {
        let bytes = encode(
            &json!({"kind": "X", "metadata": metadata}),
            RevisionSlot::Keep,
        )
        .bytes;
        let mut out = Vec::new();
        splice_cluster(&mut out, &bytes, "east").expect("an object");
        let mut want = json!({"kind": "X", "metadata": metadata});
        want["metadata"]["annotations"]["kcp.io/cluster"] = json!("east");
        assert_eq!(serde_json::from_slice::<Value>(&out).expect("JSON"), want);
    }
}

#[test]
fn version_revision_and_metadata_are_rewritten_in_place() {
    let bytes = encode(&sample(), RevisionSlot::Reserve).bytes;
    let mut out = Vec::new();
    with_api_version(&mut out, &bytes, "example.com/v2beta1").expect("an object");
    let value: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(value["apiVersion"], "example.com/v2beta1");
    out.clear();
    with_revision(&mut out, &bytes, 1_000_000_000_000_043).expect("an object");
    let value: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(value["metadata"]["resourceVersion"], "1000000000000043");
    out.clear();
    write_partial_metadata(&mut out, &bytes).expect("an object");
    let value: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(value["kind"], "PartialObjectMetadata");
    assert_eq!(value["metadata"]["labels"]["app"], "web");
    assert_eq!(value.get("data"), None);
}

#[test]
fn continue_tokens_come_back() {
    for revision in [None, Some(1_000_000_000_000_042)] {
        let token = ContinueToken::after(revision, "ns/a");
        assert_eq!(
            ContinueToken::decode(&token.encode()).expect("a token"),
            token
        );
    }
    for bad in ["", "!!", "e30", "eyJ2IjoieCIsInJ2IjoxLCJzdGFydCI6ImEifQ"] {
        assert!(ContinueToken::decode(bad).is_err(), "{bad}");
    }
}
