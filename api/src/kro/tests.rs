use serde_json::json;

use super::*;
use crate::crd::CustomResourceDefinition;

#[test]
fn a_definition_keeps_what_the_user_sent() {
    let value = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "app"},
        "spec": {
            "schema": {
                "apiVersion": "v1alpha1", "kind": "App", "group": "kro.run", "scope": "Namespaced",
                "spec": {"name": "string | default=\"a\""}, "status": {"x": "${a.b}"},
                "additionalPrinterColumns": [], "shortNames": ["a"], "metadata": {"labels": {"k": "v"}},
            },
            "resources": [
                {"id": "a", "template": {"kind": "ConfigMap", "data": {"n": 1.0, "z": null}}, "readyWhen": ["${true}"]},
                {"id": "b", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"selector": "${x}"}},
                 "forEach": [{"r": "${schema.spec.rs}"}, {"s": "${schema.spec.ss}"}]},
            ],
        },
    });
    let definition = ResourceGraphDefinition::from_value(&value).unwrap();
    assert_eq!(definition.to_value(), value);
    assert!(definition.spec.schema.is_namespaced());
}

#[test]
fn group_and_scope_have_defaults() {
    let spec =
        RgdSpec::from_value(&json!({"schema": {"kind": "App", "apiVersion": "v1"}})).unwrap();
    assert_eq!(
        (spec.schema.group.as_str(), spec.schema.scope.as_str()),
        ("kro.run", "Namespaced")
    );
    assert_eq!(spec.schema.additional_printer_columns, None);
    assert_eq!(
        RgdSpec::from_value(&json!({"schema": {"kind": 1}}))
            .unwrap_err()
            .code,
        400
    );
}

#[test]
fn a_revision_holds_the_whole_spec() {
    let spec = GraphRevisionSpec {
        revision: 3,
        snapshot: GraphRevisionSnapshot {
            name: "app".to_owned(),
            generation: 2,
            spec: RgdSpec::default(),
        },
    };
    let revision = GraphRevision::new("app-r00003", spec);
    assert_eq!(
        GraphRevision::from_value(&revision.to_value()).unwrap(),
        revision
    );
}

#[test]
fn the_definitions_of_both_kinds_are_definitions() {
    let definitions = definitions();
    let names: Vec<String> = definitions
        .iter()
        .map(|value| {
            let definition = CustomResourceDefinition::from_value(value).unwrap();
            assert_eq!(
                definition.metadata.name,
                definition.group_resource().to_string()
            );
            let version = definition.spec.storage_version().unwrap();
            assert!(version.has_status());
            assert_eq!(version.open_api_schema().unwrap()["type"], "object");
            assert_eq!(
                definition.to_value(),
                *value,
                "a member that the type does not know"
            );
            definition.metadata.name
        })
        .collect();
    assert_eq!(
        names,
        [
            "resourcegraphdefinitions.kro.run",
            "graphrevisions.internal.kro.run"
        ]
    );
    let schema = &definitions[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let fields = &schema["properties"]["spec"]["properties"]["schema"]["properties"];
    for field in ["apiVersion", "kind", "group", "scope"] {
        assert_eq!(
            fields[field]["x-kubernetes-validations"],
            json!([{"rule": "self == oldSelf", "message": format!("{field} is immutable")}])
        );
    }
    let selectable = &definitions[1]["spec"]["versions"][0]["selectableFields"];
    assert_eq!(*selectable, json!([{"jsonPath": ".spec.snapshot.name"}]));
}
