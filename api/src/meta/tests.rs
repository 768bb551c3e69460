use serde_json::json;

use super::*;

#[test]
fn what_is_absent_or_malformed_reads_as_empty() {
    for object in [
        json!({}),
        json!(null),
        json!({"metadata": null}),
        json!({"metadata": {"name": 1, "labels": [], "finalizers": {}, "generation": "1"}}),
    ] {
        assert_eq!(name(&object), "", "{object}");
        assert_eq!(generation(&object), 0, "{object}");
        assert!(labels(&object).is_none(), "{object}");
        assert!(finalizers(&object).is_empty(), "{object}");
        assert!(!is_terminating(&object), "{object}");
        assert!(owner_references(&object).is_empty(), "{object}");
    }
}

#[test]
fn setters_make_what_is_missing_and_remove_what_is_empty() {
    let mut object = json!({"spec": 1});
    set_name(&mut object, "a");
    set_namespace(&mut object, "b");
    set_annotation(&mut object, "k", "v");
    assert!(add_finalizer(&mut object, "x/y"));
    assert!(!add_finalizer(&mut object, "x/y"));
    assert_eq!(
        object,
        json!({"spec": 1, "metadata": {"name": "a", "namespace": "b",
            "annotations": {"k": "v"}, "finalizers": ["x/y"]}})
    );
    set_namespace(&mut object, "");
    remove_annotation(&mut object, "k");
    assert!(remove_finalizer(&mut object, "x/y"));
    assert!(!remove_finalizer(&mut object, "x/y"));
    assert_eq!(object, json!({"spec": 1, "metadata": {"name": "a"}}));
}

#[test]
fn typed_metadata_leaves_out_what_is_empty_and_reads_null_as_empty() {
    let metadata: ObjectMeta = serde_json::from_value(json!({
        "name": "a", "labels": null, "finalizers": null, "creationTimestamp": null, "selfLink": "/x"
    }))
    .unwrap();
    assert_eq!(
        serde_json::to_value(&metadata).unwrap(),
        json!({"name": "a"})
    );
}

#[test]
fn times_have_the_precision_of_their_type() {
    let now: jiff::Timestamp = "2024-02-03T04:05:06.789123456Z".parse().unwrap();
    assert_eq!(time_now_text(now), "2024-02-03T04:05:06Z");
    assert_eq!(parse_time("2024-02-03T04:05:06.789123456Z"), Some(now));
    assert_eq!(parse_time("2024-02-03T05:05:06.789123456+01:00"), Some(now));
    assert_eq!(parse_time("yesterday"), None);
}

#[test]
fn the_controller_is_the_reference_that_says_so() {
    let object = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"},
        {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true},
    ]}});
    assert_eq!(controller_of(&object).unwrap().kind, "B");
}

#[test]
fn resource_versions_compare_as_integers() {
    for (version, than, want) in [
        ("10", "9", true),
        ("9", "10", false),
        ("10", "10", false),
        ("11", "10", true),
    ] {
        assert_eq!(is_newer(version, than), want, "{version} newer than {than}");
    }
}
