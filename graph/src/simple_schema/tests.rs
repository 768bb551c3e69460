//! Tables of the notation: what comes out, and in which words a mistake is refused.

use serde_json::{Value, json};

use super::*;

fn openapi(spec: &Value, types: &Value) -> Result<Value, String> {
    to_openapi(
        spec.as_object().expect("a map"),
        types.as_object().expect("a map"),
    )
}

/// The schema of one field `f`.
fn field(notation: &str) -> Result<Value, String> {
    let schema = openapi(&json!({"f": notation}), &json!({}))?;
    Ok(schema["properties"]["f"].clone())
}

#[test]
fn types_become_openapi() {
    let cases = [
        ("string", json!({"type": "string"})),
        (" integer ", json!({"type": "integer"})),
        ("boolean", json!({"type": "boolean"})),
        ("float", json!({"type": "number"})),
        (
            "object",
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "[]string",
            json!({"type": "array", "items": {"type": "string"}}),
        ),
        (
            "[]map[string] integer",
            json!({"type": "array", "items": {"type": "object", "additionalProperties": {"type": "integer"}}}),
        ),
        (
            "map[string][]float",
            json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}}),
        ),
    ];
    for (notation, want) in cases {
        assert_eq!(field(notation), Ok(want), "{notation}");
    }
}

#[test]
fn mistakes_in_types_are_refused() {
    let deep = "[]".repeat(17) + "string";
    let cases = [
        ("", "field f: empty type".to_owned()),
        (" | required=true", "field f: empty type".to_owned()),
        ("[]", "field f: empty slice element type".to_owned()),
        (
            "map[int]string",
            "field f: map key must be string".to_owned(),
        ),
        (
            "map[string]",
            "field f: map value type is required".to_owned(),
        ),
        ("number", "field f: unknown type: number".to_owned()),
        ("string?", "field f: unknown type: string?".to_owned()),
        (
            &deep,
            "field f: type nesting too deep (max 16): \"string\"".to_owned(),
        ),
    ];
    for (notation, want) in cases {
        assert_eq!(field(notation), Err(want), "{notation}");
    }
    for (notation, want) in [
        (json!(["a"]), "field f: unexpected type: []interface {}"),
        (json!(5), "field f: unexpected type: int64"),
        (json!(1.5), "field f: unexpected type: float64"),
        (json!(true), "field f: unexpected type: bool"),
        (json!(null), "field f: unexpected type: <nil>"),
    ] {
        assert_eq!(
            openapi(&json!({"f": notation}), &json!({})),
            Err(want.to_owned())
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn markers_change_the_schema_of_their_field() {
    let string = |key: &str, value: Value| {
        let mut schema = json!({"type": "string"});
        schema[key] = value;
        schema
    };
    let list = |key: &str, value: Value| {
        let mut schema = json!({"type": "array", "items": {"type": "string"}});
        schema[key] = value;
        schema
    };
    let cases = [
        ("string | default=abc", string("default", json!("abc"))),
        ("string | default=\"a b\"", string("default", json!("a b"))),
        (
            r#"string | default="a\\nb""#,
            string("default", json!("a\nb")),
        ),
        (
            r#"string | default="a\tb""#,
            string("default", json!("a\tb")),
        ),
        ("string | default='a'", string("default", json!("'a'"))),
        ("string | default=a=b", string("default", json!("a=b"))),
        (
            "integer | default=3",
            json!({"type": "integer", "default": 3}),
        ),
        (
            "float | default=3.5",
            json!({"type": "number", "default": 3.5}),
        ),
        (
            "boolean | default=true",
            json!({"type": "boolean", "default": true}),
        ),
        (
            "boolean | default=1",
            json!({"type": "boolean", "default": 1}),
        ),
        (
            "object | default={\"a\": [1, 2]}",
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": {"a": [1, 2]}}),
        ),
        (
            "[]string | default=[\"a\", \"b\"]",
            list("default", json!(["a", "b"])),
        ),
        (
            "string | description=\"some words\"",
            string("description", json!("some words")),
        ),
        (
            "integer | minimum=1 maximum=2.5",
            json!({"type": "integer", "minimum": 1, "maximum": 2.5}),
        ),
        ("string | minimum=1", string("minimum", json!(1))),
        ("string | enum=\"a, b\"", string("enum", json!(["a", "b"]))),
        (
            "integer | enum=\"1,2\"",
            json!({"type": "integer", "enum": [1, 2]}),
        ),
        (
            "string | pattern=\"^[a-z]+$\"",
            string("pattern", json!("^[a-z]+$")),
        ),
        (
            "string | minLength=1 maxLength=3",
            json!({"type": "string", "minLength": 1, "maxLength": 3}),
        ),
        (
            "string | immutable=true validation=\"self != ''\"",
            string(
                "x-kubernetes-validations",
                json!([
                    {"rule": "self == oldSelf", "message": "field is immutable"},
                    {"rule": "self != ''", "message": "validation failed"},
                ]),
            ),
        ),
        ("string | immutable=false", json!({"type": "string"})),
        (
            "[]string | uniqueItems=true",
            list("x-kubernetes-list-type", json!("set")),
        ),
        (
            "[]string | listType=atomic",
            list("x-kubernetes-list-type", json!("atomic")),
        ),
        (
            "[]object | listType=map listMapKey=a listMapKey=b minItems=1 maxItems=2",
            json!({
                "type": "array",
                "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a", "b"],
                "minItems": 1,
                "maxItems": 2,
            }),
        ),
    ];
    for (notation, want) in cases {
        assert_eq!(field(notation), Ok(want), "{notation}");
    }
}

#[test]
fn the_marker_parser_has_kros_traps() {
    let cases = [
        ("string | default= abc", "marker key 'abc' without a value"),
        ("string | default=", "default value \"\" "),
        ("string | required=true ", "marker key '' without a value"),
        ("string |", "marker key '' without a value"),
        ("string | =1", "empty marker key"),
        (
            "string | foo bar=1",
            "invalid marker key \"foobar\": unknown marker: foobar",
        ),
        (
            "string | required=true | default=x",
            "invalid marker key \"|default\": unknown marker: |default",
        ),
        ("string | default=\"abc", "unclosed quote"),
        ("string | default=\"", "unclosed quote"),
        ("object | default={\"a\": 1", "unclosed bracket/brace"),
        ("object | default=}", "unmatched closing bracket/brace"),
        (
            "string | description=role for ACK",
            "marker key 'forACK' without a value",
        ),
    ];
    for (notation, want) in cases {
        match field(notation) {
            Ok(schema) => assert_eq!(
                (notation, schema),
                (
                    "string | default=",
                    json!({"type": "string", "default": ""})
                )
            ),
            Err(error) => assert_eq!(error, format!("field f: {want}"), "{notation}"),
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mistakes_in_markers_are_refused() {
    let cases = [
        (
            "string | required=yes",
            "failed to parse required marker value: strconv.ParseBool: parsing \"yes\": invalid syntax",
        ),
        (
            "integer | default=x",
            "default value must be a valid integer, got: x",
        ),
        (
            "float | default=x",
            "default value must be a valid number, got: x",
        ),
        (
            "boolean | default=x",
            "default value must be a valid boolean, got: x",
        ),
        (
            "integer | minimum=x",
            "failed to parse minimum enum value: strconv.ParseFloat: parsing \"x\": invalid syntax",
        ),
        (
            "string | enum=\"a,,b\"",
            "empty enum values are not allowed",
        ),
        (
            "boolean | enum=\"true\"",
            "enum values only supported for string and integer types, got type: boolean",
        ),
        (
            "integer | enum=\"1,x\"",
            "failed to parse integer enum value: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "integer | minLength=1",
            "minLength marker is only valid for string types, got type: integer",
        ),
        (
            "string | maxLength=x",
            "failed to parse maxLength value: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "string | maxItems=1",
            "maxItems marker is only valid for array types, got type: string",
        ),
        (
            "string | pattern=\"\"",
            "pattern marker value cannot be empty",
        ),
        (
            "integer | pattern=a",
            "pattern marker is only valid for string types, got type: integer",
        ),
        (
            "string | uniqueItems=true",
            "uniqueItems marker is only valid for array types, got type: string",
        ),
        (
            "[]string | listType=map uniqueItems=true",
            "cannot set unique when listType is set to map",
        ),
        (
            "string | listType=map",
            "listType marker only applies to array types",
        ),
        (
            "[]string | listType=x",
            "unsupported value for listType x, needs to be one of atomic, set, or map",
        ),
        (
            "[]string | listMapKey=a",
            "listMapKey set while listType is unset, listType must be set to map",
        ),
        (
            "[]string | listMapKey=a listType=set",
            "listMapKey set while listType is set to set, listType must be set to map",
        ),
        (
            "[]string | listMapKey=a listMapKey=a",
            "duplicate listMapKey marker, value a",
        ),
        ("string | validation=\" \"", "validation failed"),
        (
            "string | immutable=x",
            "failed to parse immutable marker value: strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
    ];
    for (notation, want) in cases {
        assert_eq!(
            field(notation),
            Err(format!("field f: {want}")),
            "{notation}"
        );
    }
    assert!(
        field("string | pattern=\"[a\"")
            .expect_err("no pattern")
            .contains("invalid pattern regex: error parsing regexp: ")
    );
}

#[test]
fn an_object_defaults_to_empty_when_its_fields_do_the_rest() {
    let cases = [
        (
            "a default deep down makes all the way up default",
            json!({"a": {"b": "string | default=x"}, "c": "string"}),
            json!({
                "type": "object", "default": {},
                "properties": {
                    "a": {"type": "object", "default": {}, "properties": {"b": {"type": "string", "default": "x"}}},
                    "c": {"type": "string"},
                },
            }),
        ),
        (
            "a required field forbids it",
            json!({"z": "string | required=true default=x", "a": "string | required=true"}),
            json!({
                "type": "object", "required": ["a", "z"],
                "properties": {"a": {"type": "string"}, "z": {"type": "string", "default": "x"}},
            }),
        ),
        (
            "nothing to default",
            json!({"a": {}}),
            json!({"type": "object", "properties": {"a": {"type": "object"}}}),
        ),
        ("no fields", json!({}), json!({"type": "object"})),
    ];
    for (name, spec, want) in cases {
        assert_eq!(openapi(&spec, &json!({})), Ok(want), "{name}");
    }
}

#[test]
fn custom_types_are_copied_in() {
    let types = json!({
        "Server": {"name": "Name", "ports": "[]Port"},
        "Port": {"number": "integer | required=true"},
        "Name": "string | required=true default=x",
    });
    let port = json!({"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}});
    let name = json!({"type": "string", "default": "x"});
    let got = openapi(
        &json!({"servers": "[]Server", "n": "Name | default=y", "m": "map[string]Name"}),
        &types,
    );
    let want = json!({
        "type": "object",
        "required": ["n"],
        "properties": {
            "n": {"type": "string", "default": "y"},
            "m": {"type": "object", "additionalProperties": name},
            "servers": {"type": "array", "items": {
                "type": "object", "required": ["name"],
                "properties": {"name": name, "ports": {"type": "array", "items": port}},
            }},
        },
    });
    assert_eq!(got, Ok(want));
}

#[test]
fn mistakes_in_custom_types_are_refused() {
    let cases = [
        (json!({"A": "B"}), "node B does not exist"),
        (
            json!({"A": {"f": "[]B"}, "B": "A"}),
            "cyclic dependency in type B: graph contains a cycle: A -> B -> A",
        ),
        (json!({"A": "[]A"}), "self references are not allowed"),
        (json!({"A": 1}), "parsing type A: unexpected type: int64"),
        (
            json!({"A": {"f": "[]"}}),
            "parsing type A: field f: empty slice element type",
        ),
        (
            json!({"A": "string | x=1"}),
            "building schema for A: invalid marker key \"x\": unknown marker: x",
        ),
    ];
    for (types, want) in cases {
        assert_eq!(openapi(&json!({}), &types), Err(want.to_owned()), "{types}");
    }
}

#[test]
fn a_chain_of_as_many_types_as_fit_into_a_definition_takes_no_stack() {
    const COUNT: usize = 30_000;
    let name = |place: usize| format!("T{place:05}");
    let chain = |last: &str| {
        let types = (0..COUNT).map(|place| {
            let next = if place + 1 < COUNT {
                name(place + 1)
            } else {
                last.to_owned()
            };
            (name(place), Value::from(next))
        });
        Value::Object(types.collect())
    };
    let schema = openapi(&json!({"f": "T00000"}), &chain("string")).expect("is a schema");
    assert_eq!(schema["properties"]["f"], json!({"type": "string"}));
    let error = openapi(&json!({"f": "T00000"}), &chain("T00000")).expect_err("is a ring");
    assert!(
        error.starts_with("cyclic dependency in type T29999: graph contains a cycle: "),
        "{}",
        error.chars().take(200).collect::<String>()
    );
}

#[test]
fn types_that_grow_with_each_use_are_refused() {
    let named = |place: usize| format!("T{place:03}");
    let types = |of: &dyn Fn(String) -> Value, count: usize| {
        let types = (0..count).map(|place| {
            let made_of = if place == 0 {
                "string".to_owned()
            } else {
                named(place - 1)
            };
            (named(place), of(made_of))
        });
        Value::Object(types.collect())
    };
    let doubled = |part: String| json!({"x": part, "y": part});
    let listed = |part: String| Value::from(format!("[]{part}"));
    let spec = json!({"f": "string"});
    openapi(&spec, &types(&doubled, 8)).expect("256 strings are few");
    let error = openapi(&spec, &types(&doubled, 60)).expect_err("2^60 strings are not");
    assert!(
        error.ends_with("would take more than 67108864 bytes of memory"),
        "{error}"
    );
    openapi(&spec, &types(&listed, 40)).expect("lists of lists of lists");
    let error = openapi(&spec, &types(&listed, 999)).expect_err("deeper than any stack");
    assert!(
        error.ends_with("its schema has more than 120 levels"),
        "{error}"
    );
}
