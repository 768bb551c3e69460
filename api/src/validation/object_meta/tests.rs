use serde_json::json;

use super::*;

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_new_object_is_judged_by_name_scope_and_content() {
    let path = FieldPath::new("metadata");
    let long = "x".repeat(ANNOTATIONS_BYTES_MAX);
    for (metadata, scope, want) in [
        (
            json!({"name": "a", "namespace": "b"}),
            Scope::Namespaced,
            vec![],
        ),
        (
            json!({"name": "a.b", "generateName": "a-"}),
            Scope::Cluster,
            vec![],
        ),
        (
            json!({}),
            Scope::Cluster,
            vec!["metadata.name: Required value: name or generateName is required"],
        ),
        (
            json!({"name": "a"}),
            Scope::Namespaced,
            vec!["metadata.namespace: Required value"],
        ),
        (
            json!({"name": "a", "namespace": "b"}),
            Scope::Cluster,
            vec!["metadata.namespace: Forbidden: not allowed on this type"],
        ),
        (
            json!({"name": "a", "generation": -1}),
            Scope::Cluster,
            vec!["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            json!({"name": "a", "annotations": {"K": long}}),
            Scope::Cluster,
            vec!["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        (
            json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
            Scope::Cluster,
            vec![
                r#"metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#,
            ],
        ),
        (
            json!({"name": "a", "managedFields": [{"operation": "Merge", "manager": "a\u{7}", "fieldsType": "V2"}]}),
            Scope::Cluster,
            vec![
                r#"metadata.managedFields[0].operation: Unsupported value: "Merge": supported values: "Apply", "Update""#,
                r#"metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`"#,
                r#"metadata.managedFields[0].manager: Invalid value: "a\a": invalid character U+0007 (at position 1)"#,
            ],
        ),
    ] {
        let object = json!({ "metadata": metadata });
        let errors = validate_object_meta(&object, scope, NameRule::DnsSubdomain, &path);
        assert_eq!(texts(&errors), want);
    }
}

#[test]
fn labels_and_finalizers_are_qualified_names() {
    let object =
        json!({"metadata": {"name": "A", "labels": {"a b": "c d"}, "finalizers": ["x y"]}});
    let errors = validate_object_meta(
        &object,
        Scope::Cluster,
        NameRule::DnsSubdomain,
        &FieldPath::new("metadata"),
    );
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "metadata.name",
            "metadata.labels",
            "metadata.labels",
            "metadata.finalizers"
        ]
    );
}

#[test]
fn owners_are_complete_and_at_most_one_controls() {
    let references = json!([
        {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true},
        {"apiVersion": "a/b/c", "kind": "", "name": "b", "uid": "2", "controller": true},
        {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "3"},
    ]);
    assert_eq!(
        texts(&validate_owner_references(
            &references,
            &FieldPath::new("r")
        )),
        [
            r#"r[1].apiVersion: Invalid value: "a/b/c": must be <group>/<version> or <version>"#,
            "r[1].kind: Required value: must not be empty",
            &format!(
                r#"r: Invalid value: {references}: Only one reference can have Controller set to true. Found "true" in references for A/a and /b"#
            ),
            r#"r[2]: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"3"}: /v1, Kind=Event is disallowed from being an owner"#,
        ]
    );
}

#[test]
fn an_update_keeps_identity_and_adds_no_finalizer_to_what_goes() {
    let old = json!({"metadata": {"name": "a", "uid": "1", "generation": 2, "resourceVersion": "5",
        "creationTimestamp": "t", "deletionTimestamp": "d", "finalizers": ["x/a"]}});
    let path = FieldPath::new("metadata");
    assert_eq!(validate_object_meta_update(&old, &old, &path), []);
    let new = json!({"metadata": {"name": "b", "uid": "2", "generation": 1,
        "creationTimestamp": "u", "finalizers": ["z/c", "x/a", "z/b"]}});
    assert_eq!(
        texts(&validate_object_meta_update(&new, &old, &path)),
        [
            r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"z/b", "z/c"}"#,
            "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            r#"metadata.name: Invalid value: "b": field is immutable"#,
            r#"metadata.uid: Invalid value: "2": field is immutable"#,
            r#"metadata.creationTimestamp: Invalid value: "u": field is immutable"#,
            "metadata.deletionTimestamp: Invalid value: null: field is immutable",
        ]
    );
}

#[test]
fn finalizers_without_a_domain_are_warned_of() {
    let path = FieldPath::new("metadata.finalizers");
    assert_eq!(
        finalizer_warnings(&["a/b", "orphan", "kubernetes", "x"], &path),
        [
            r#"metadata.finalizers: "x": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"#
        ]
    );
}
