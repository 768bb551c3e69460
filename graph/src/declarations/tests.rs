//! Types of schemas, schemas of types, and what fits where.

use serde_json::json;

use super::*;

fn declared(schema: &Value) -> DeclType {
    declare(&Schema::from_openapi(schema).expect("is a schema"), "t")
}

#[test]
fn schemas_are_declared_as_kro_declares_them() {
    let cases = [
        (json!({"type": "string"}), "string"),
        (json!({"type": "string", "format": "byte"}), "bytes"),
        (
            json!({"type": "string", "format": "date-time"}),
            "timestamp",
        ),
        (json!({"type": "string", "format": "duration"}), "duration"),
        (json!({"type": "number"}), "double"),
        (
            json!({"type": "array", "items": {"type": "integer"}}),
            "list(int)",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "boolean"}}),
            "map(string, bool)",
        ),
        (json!({"x-kubernetes-int-or-string": true}), "dyn"),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), "dyn"),
        (json!({"type": "object", "properties": {"a": {}}}), "t"),
    ];
    for (schema, want) in cases {
        assert_eq!(declared(&schema).to_string(), want, "{schema}");
    }
    let nested = declared(&json!({
        "type": "object",
        "properties": {"list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}}},
    }));
    let DeclType::Object(object) = nested else {
        panic!("is an object")
    };
    assert_eq!(object.fields["list"].to_string(), "list(t.list.@idx)");
}

#[test]
fn status_fields_get_the_schema_of_their_type() {
    let open = || json!({"x-kubernetes-preserve-unknown-fields": true});
    let object = declared(&json!({
        "type": "object",
        "properties": {
            "namespace": {"type": "string"}, "a-b": {"type": "string"},
            "at": {"type": "string", "format": "date-time"}, "any": {"x-kubernetes-int-or-string": true},
        },
    }));
    let cases = [
        (DeclType::Bool, json!({"type": "boolean"})),
        (DeclType::Uint, json!({"type": "integer"})),
        (DeclType::Double, json!({"type": "number"})),
        (DeclType::Bytes, json!({"type": "string", "format": "byte"})),
        (DeclType::Dyn, open()),
        (
            DeclType::list(DeclType::String),
            json!({"type": "array", "items": {"type": "string"}}),
        ),
        (
            DeclType::map(DeclType::String, DeclType::Dyn),
            json!({"type": "object", "additionalProperties": open()}),
        ),
        (
            DeclType::Timestamp,
            json!({
                "description": "Timestamp representing a creation time",
                "type": "string", "format": "date-time",
            }),
        ),
        (
            DeclType::Duration,
            json!({
                "description": "unknown CEL type: google.protobuf.Duration",
                "x-kubernetes-preserve-unknown-fields": true,
            }),
        ),
        (
            DeclType::optional(DeclType::String),
            json!({
                "description": "unknown CEL type: optional_type(string)",
                "x-kubernetes-preserve-unknown-fields": true,
            }),
        ),
        (
            object,
            json!({"type": "object", "properties": {
                "__namespace__": {"type": "string"}, "a__dash__b": {"type": "string"},
                "at": open(), "any": open(),
            }}),
        ),
    ];
    for (declared, want) in cases {
        assert_eq!(status_schema(&declared), want, "{declared}");
    }
}

#[test]
fn what_does_not_fit_is_told_in_kros_words() {
    let object = |name: &str, fields: &[(&str, DeclType)]| {
        let fields = fields
            .iter()
            .map(|(field, ty)| ((*field).to_owned(), ty.clone()));
        DeclType::object(name, fields)
    };
    let small = object("small", &[("a", DeclType::String)]);
    let big = object("big", &[("a", DeclType::String), ("b", DeclType::Int)]);
    let strings = || DeclType::map(DeclType::String, DeclType::String);
    let cases = [
        (DeclType::String, DeclType::String, None),
        (DeclType::Dyn, DeclType::String, None),
        (DeclType::optional(DeclType::String), DeclType::String, None),
        (small.clone(), big.clone(), None),
        (small.clone(), strings(), None),
        (
            DeclType::Bool,
            DeclType::String,
            Some("type kind mismatch: got \"bool\", expected \"string\""),
        ),
        (
            DeclType::Null,
            DeclType::String,
            Some("type kind mismatch: got \"null_type\", expected \"string\""),
        ),
        (
            big.clone(),
            small,
            Some("field \"b\" exists in output but not in expected type"),
        ),
        (
            big.clone(),
            strings(),
            Some(
                "struct field \"b\" incompatible with map value type: type kind mismatch: got \"int\", expected \
                 \"string\"",
            ),
        ),
        (
            DeclType::map(DeclType::String, DeclType::Int),
            big,
            Some(
                "map value incompatible with struct field \"a\": type kind mismatch: got \"int\", expected \
                 \"string\"",
            ),
        ),
        (
            DeclType::list(DeclType::Int),
            DeclType::list(DeclType::String),
            Some(
                "list element type incompatible: type kind mismatch: got \"int\", expected \"string\"",
            ),
        ),
        (
            DeclType::String,
            DeclType::list(DeclType::Dyn),
            Some("list parameter count mismatch: got 0, expected 1"),
        ),
        (
            DeclType::String,
            strings(),
            Some("map parameter count mismatch: got 0, expected 2"),
        ),
    ];
    for (output, expected, want) in cases {
        let got = mismatch(&output, &expected);
        assert_eq!(got.as_deref(), want, "{output} for {expected}");
    }
}
