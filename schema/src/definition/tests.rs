use serde_json::json;

use super::*;

fn definition(version: &Value) -> CustomResourceDefinition {
    let value = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "bars.example.com", "uid": "u", "resourceVersion": "1"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "bars", "kind": "Bar"}, "versions": [version]}});
    let mut definition = CustomResourceDefinition::from_value(&value).unwrap();
    complete(&mut definition);
    note_stored_version(&mut definition);
    definition
}

fn plain() -> CustomResourceDefinition {
    definition(&json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}}))
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_left_out_is_filled_in() {
    let definition = plain();
    let names = &definition.spec.names;
    assert_eq!(
        (names.singular.as_str(), names.list_kind.as_str()),
        ("bar", "BarList")
    );
    assert_eq!(
        definition.spec.conversion.as_ref().unwrap().strategy,
        "None"
    );
    assert_eq!(definition.status.as_ref().unwrap().stored_versions, ["v1"]);
    assert_eq!(validate_definition(&definition), vec![]);
}

#[test]
fn names_by_which_objects_are_stored_never_change() {
    let old = plain();
    let mut established = old.clone();
    let condition = json!([{"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}]);
    established.status.as_mut().unwrap().conditions = serde_json::from_value(condition).unwrap();
    let mut new = old.clone();
    new.spec.scope = Scope::Cluster;
    new.spec.names.kind = "Baz".to_owned();
    assert_eq!(
        texts(&validate_definition_update(&new, &old)),
        Vec::<String>::new()
    );
    assert_eq!(
        texts(&validate_definition_update(&new, &established)),
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.names.kind: Invalid value: \"Baz\": field is immutable"
        ]
    );
    new = old.clone();
    new.spec.group = "example.org".to_owned();
    assert_eq!(
        texts(&validate_definition_update(&new, &old)),
        ["spec.group: Invalid value: \"example.org\": field is immutable"]
    );
}

#[test]
fn a_version_that_may_be_stored_is_not_removed() {
    let old = plain();
    let mut new = definition(&json!({"name": "v2", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}}));
    new.status.as_mut().unwrap().stored_versions = vec!["v1".to_owned(), "v2".to_owned()];
    let errors = texts(&validate_definition_update(&new, &old));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with(
        "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"
    ));
}

#[test]
fn warnings_are_given_once() {
    let doubtful = definition(
        &json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
        {"type": "object", "properties": {"a": {"type": "string", "format": "colour"}}}}}),
    );
    assert_eq!(
        warnings(&doubtful, Some(&plain())),
        ["unrecognized format \"colour\""]
    );
    assert_eq!(warnings(&doubtful, Some(&doubtful)), Vec::<String>::new());
}

#[test]
fn no_schema_makes_the_judge_panic() {
    let hostile = [
        json!(null),
        json!([]),
        json!("text"),
        json!({"type": 5, "properties": [], "items": 3, "anyOf": {}, "enum": 1}),
        json!({"type": "object", "properties": {"a": null, "b": 1, "c": []}}),
        json!({"type": "object", "x-kubernetes-validations": [null, {"rule": 5}]}),
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "((((("}}}),
        json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1e300, "multipleOf": 0, "default": 1}}}),
        json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [1]}}}),
    ];
    for schema in hostile {
        let definition = definition(&json!({"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}));
        drop(validate_definition(&definition));
        drop(warnings(&definition, None));
    }
}
