//! Definitions of custom resources, and JSON paths.

use api::crd::CustomResourceDefinition;
use schema::columns::Columns;
use schema::jsonpath::{self, JsonPath};
use schema::structural::{self, MalformedFields, Schema};
use schema::{definition, validate};
use serde_json::Value;

use crate::{Target, input};

/// A definition and an object: an accepted schema can be used, and using it twice is using it once.
pub(crate) const DEFINITION: Target = Target {
    name: "definition",
    run: |data| {
        let [definition, object] = input::parts::<2>(data);
        let Some(value) = input::document(definition) else {
            return;
        };
        let Ok(mut definition) = CustomResourceDefinition::from_value(&value) else {
            return;
        };
        definition::complete(&mut definition);
        definition::note_stored_version(&mut definition);
        if !definition::validate_definition(&definition).is_empty() {
            return;
        }
        let object = input::document(object).unwrap_or_else(|| value.clone());
        for version in &definition.spec.versions {
            let openapi = version
                .schema
                .as_ref()
                .and_then(|schema| schema.open_api_v3_schema.as_ref());
            let openapi = openapi.expect("an accepted version has a schema");
            let schema = Schema::from_openapi(openapi).expect("an accepted schema is structural");
            drop(Columns::of_version(&version.additional_printer_columns));
            normalize(object.clone(), &schema);
        }
    },
    seeds: &[
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.a.io}\nspec:\n  group: a.io\n  scope: Namespaced\n  names: {plural: xs, kind: X}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            type: object\n            required: [a]\n            properties:\n              a: {type: integer, default: 1, maximum: 5, x-kubernetes-validations: [{rule: 'self < 4 || self == oldSelf'}]}\n              b: {type: string, pattern: '^(a|b)+$', nullable: true, format: date-time}\n              c: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, v: {x-kubernetes-int-or-string: true}}}}\n              d: {type: object, additionalProperties: {type: number, multipleOf: 0.1}}\n              e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}\n    subresources: {status: {}, scale: {specReplicasPath: .spec.a, statusReplicasPath: .status.a}}\n    additionalPrinterColumns: [{name: A, type: string, jsonPath: '.spec.c[*].k'}]\n    selectableFields: [{jsonPath: .spec.b}]\n====\n{\"apiVersion\":\"a.io/v1\",\"kind\":\"X\",\"metadata\":{\"name\":\"a\",\"labels\":{\"a\":\"b\"}},\"spec\":{\"a\":2,\"b\":null,\"c\":[{\"k\":\"x\",\"v\":1},{\"k\":\"x\"}],\"d\":{\"a\":0.3},\"e\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":1}},\"f\":1}}",
    ],
    corpus: Some(("crds", ".yaml")),
    made: None,
    words: &[
        "type: ",
        "default: ",
        "x-kubernetes-validations: [{rule: '",
        "x-kubernetes-int-or-string: true",
        "anyOf: [",
        "oneOf: [",
        "not: {",
        "nullable: true",
        "pattern: '",
        "format: ",
        "enum: [",
        "multipleOf: ",
        "minLength: ",
        "x-kubernetes-preserve-unknown-fields: true",
        "x-kubernetes-embedded-resource: true",
        "uniqueItems: true",
        "x-kubernetes-list-type: set",
        "additionalProperties: ",
        "required: [",
        "exclusiveMaximum: true",
        "\n====\n",
    ],
};

fn normalize(mut object: Value, schema: &Schema) {
    if !object.is_object() {
        return;
    }
    drop(structural::unknown_fields(&object, schema));
    if structural::coerce_metadata(&mut object, schema, MalformedFields::Refused).is_err() {
        return;
    }
    structural::prune(&mut object, schema);
    structural::drop_nulls(&mut object, schema);
    if structural::default(&mut object, schema).is_err() {
        return;
    }
    let once = object.clone();
    let again = structural::coerce_metadata(&mut object, schema, MalformedFields::Refused);
    assert!(again.is_ok(), "metadata in its form stays well-formed");
    structural::prune(&mut object, schema);
    structural::drop_nulls(&mut object, schema);
    structural::default(&mut object, schema).expect("what was defaulted has its defaults");
    assert_eq!(object, once, "twice is once");
    let unknown = structural::unknown_fields(&object, schema);
    assert!(unknown.is_empty(), "what was pruned is known: {unknown:?}");
    drop(validate(&object, schema, None));
    let update = validate(&object, schema, Some(&once));
    assert!(
        !update
            .iter()
            .any(|error| error.to_string().contains("rule compile error")),
        "rules of an accepted definition compile"
    );
}

/// JSON paths of columns, on one object.
pub(crate) const JSON_PATH: Target = Target {
    name: "json-path",
    run: |data| {
        let [path, object] = input::parts::<2>(data);
        let Ok(path) = JsonPath::parse(input::text(path)) else {
            return;
        };
        let object = input::document(object).unwrap_or_default();
        if let Ok(found) = path.evaluate(&object) {
            for value in found {
                drop(jsonpath::text(&value));
            }
        }
        drop(path.simple_fields());
    },
    seeds: &[
        ".spec.list[?(@.name==\"a\")].value\n====\n{\"spec\":{\"list\":[{\"name\":\"a\",\"value\":[1,2]},{\"name\":\"b\"}]}}",
        "{.a[1:-1:2]}{['b','c']}{..d}{range .e[*]}{.f}{end}\n====\n{\"a\":[1,2,3],\"b\":{\"c\":{\"d\":1}},\"e\":[{\"f\":1}]}",
    ],
    corpus: None,
    made: None,
    words: &[
        "[*]", "..", "[?(@.", "==", "[-1]", "[0:9:2]", "['", "{range ", "{end}", "@", "\\.",
        "\n====\n",
    ],
};
