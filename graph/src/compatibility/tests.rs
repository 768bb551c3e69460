//! Every kind of change, on the side where it belongs.

use serde_json::json;

use super::*;

fn versions(spec: &Value) -> Value {
    json!([{
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }])
}

fn object(properties: &Value, required: &Value) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn changes_of_a_schema_are_told_apart() {
    let one = |schema: Value| object(&json!({"f": schema}), &json!([]));
    let text = |more: Value| {
        let mut schema = json!({"type": "string"});
        for (key, value) in more.as_object().expect("a map") {
            schema[key] = value.clone();
        }
        one(schema)
    };
    let number = |more: Value| {
        let mut schema = text(more);
        schema["properties"]["f"]["type"] = json!("integer");
        schema
    };
    let list = |more: Value| {
        let mut schema = text(more);
        schema["properties"]["f"]["type"] = json!("array");
        schema
    };
    let none = || json!({});
    let cases = [
        (
            "removed",
            text(none()),
            object(&none(), &json!([])),
            "!Property f was removed",
        ),
        (
            "added",
            object(&none(), &json!([])),
            text(none()),
            "Optional property f was added",
        ),
        (
            "type",
            text(none()),
            number(none()),
            "!Type changed from string to integer",
        ),
        (
            "description",
            text(none()),
            text(json!({"description": "d"})),
            "Description field was changed from  to d",
        ),
        (
            "default",
            text(json!({"default": "a"})),
            text(json!({"default": "b"})),
            "Default value was changed from \"a\" to \"b\"",
        ),
        (
            "pattern added",
            text(none()),
            text(json!({"pattern": "a"})),
            "!Validation pattern a was added",
        ),
        (
            "pattern changed",
            text(json!({"pattern": "b"})),
            text(json!({"pattern": "a"})),
            "!Validation pattern changed from b to a",
        ),
        (
            "pattern removed",
            text(json!({"pattern": "b"})),
            text(none()),
            "Validation pattern b was removed",
        ),
        (
            "minimum added",
            number(none()),
            number(json!({"minimum": 1})),
            "!Minimum constraint 1 was added",
        ),
        (
            "minimum up",
            number(json!({"minimum": 1})),
            number(json!({"minimum": 2.5})),
            "!Minimum was increased from 1 to 2.5",
        ),
        (
            "minimum down",
            number(json!({"minimum": 2})),
            number(json!({"minimum": 1})),
            "Minimum was decreased from 2 to 1",
        ),
        (
            "maximum down",
            number(json!({"maximum": 2})),
            number(json!({"maximum": 1})),
            "!Maximum was decreased from 2 to 1",
        ),
        (
            "maximum up",
            number(json!({"maximum": 1})),
            number(json!({"maximum": 2})),
            "Maximum was increased from 1 to 2",
        ),
        (
            "maximum removed",
            number(json!({"maximum": 1})),
            number(none()),
            "Maximum constraint 1 was removed",
        ),
        (
            "length",
            text(json!({"maxLength": 5})),
            text(json!({"maxLength": 4})),
            "!MaxLength was decreased from 5 to 4",
        ),
        (
            "items",
            list(json!({"minItems": 1})),
            list(json!({"minItems": 2})),
            "!MinItems was increased from 1 to 2",
        ),
        (
            "items' schema",
            list(json!({"items": {"type": "string"}})),
            list(json!({"items": {"type": "integer"}})),
            "!Type changed from string to integer",
        ),
        (
            "items gone",
            list(json!({"items": {"type": "string"}})),
            list(none()),
            "!Property items was removed",
        ),
        (
            "enum less",
            text(json!({"enum": ["a", "b"]})),
            text(json!({"enum": ["a"]})),
            "!Enum value \"b\" was removed",
        ),
        (
            "enum more",
            text(json!({"enum": ["a"]})),
            text(json!({"enum": ["a", "b"]})),
            "Enum value \"b\" was added",
        ),
        (
            "enum comes whole",
            text(none()),
            text(json!({"enum": ["a"]})),
            "",
        ),
        (
            "rules",
            text(none()),
            text(json!({"x-kubernetes-validations": [{"rule": "true"}]})),
            "",
        ),
        ("format", text(none()), text(json!({"format": "byte"})), ""),
    ];
    for (name, old, new, want) in cases {
        let report = compare_versions(&versions(&old), &versions(&new)).expect(name);
        let breaking = report.breaking.iter().map(|change| format!("!{change}"));
        let got: Vec<String> = breaking
            .chain(report.other.iter().map(ToString::to_string))
            .collect();
        assert_eq!(got.join("; "), want, "{name}");
        assert!(
            compare_versions(&versions(&new), &versions(&new))
                .expect(name)
                .is_empty(),
            "{name}"
        );
    }
}

#[test]
fn required_fields_break_unless_a_default_steps_in() {
    let plain = json!({"f": {"type": "string"}});
    let defaulted = json!({"f": {"type": "string", "default": "x"}});
    let (no, yes) = (json!([]), json!(["f"]));
    let none = json!({});
    let cases = [
        (
            "newly required",
            object(&plain, &no),
            object(&plain, &yes),
            "!Field f is newly required",
        ),
        (
            "no longer required",
            object(&plain, &yes),
            object(&plain, &no),
            "Field f is no longer required",
        ),
        (
            "new and required",
            object(&none, &no),
            object(&plain, &yes),
            "!Optional property f was added",
        ),
        (
            "new, required, defaulted",
            object(&none, &no),
            object(&defaulted, &yes),
            "Optional property f was added",
        ),
        (
            "default lost",
            object(&defaulted, &yes),
            object(&plain, &yes),
            "!Default value removed from required field f; Default value was changed from \"x\" to ",
        ),
    ];
    for (name, old, new, want) in cases {
        let report = compare_versions(&versions(&old), &versions(&new)).expect(name);
        let breaking = report.breaking.iter().map(|change| format!("!{change}"));
        let got: Vec<String> = breaking
            .chain(report.other.iter().map(ToString::to_string))
            .collect();
        assert_eq!(got.join("; "), want, "{name}");
    }
}

#[test]
fn changes_of_the_version_are_seen() {
    let base = versions(&json!({"type": "object"}));
    let with = |pointer: &str, value: Value| {
        let mut versions = base.clone();
        versions[0][pointer] = value;
        versions
    };
    let cases = [
        (
            "name",
            with("name", json!("v2")),
            "!Type changed from v1 to v2",
        ),
        (
            "served",
            with("served", json!(false)),
            "!Type changed from true to false",
        ),
        (
            "status",
            with("subresources", json!({})),
            "!Property status was removed",
        ),
        (
            "columns",
            with("additionalPrinterColumns", json!([{"name": "A"}])),
            "Additional printer columns were changed",
        ),
        (
            "no columns",
            with("additionalPrinterColumns", json!([])),
            "",
        ),
    ];
    for (name, new, want) in cases {
        let report = compare_versions(&base, &new).expect(name);
        let breaking = report.breaking.iter().map(|change| format!("!{change}"));
        let got: Vec<String> = breaking
            .chain(report.other.iter().map(ToString::to_string))
            .collect();
        assert_eq!(got.join("; "), want, "{name}");
    }
    let column = |priority: Value| {
        with(
            "additionalPrinterColumns",
            json!([{"name": "A", "priority": priority}]),
        )
    };
    assert!(
        compare_versions(&column(json!(0)), &column(json!(null)))
            .expect("one each")
            .is_empty()
    );
    assert_eq!(
        compare_versions(&json!([]), &base).expect_err("none"),
        "expected exactly one version in each CRD, got 0 old and 1 new versions"
    );
}

#[test]
fn a_refusal_spells_out_three_changes() {
    let old = object(
        &json!({"a": {"type": "string"}, "b": {}, "c": {}, "d": {}, "e": {}}),
        &json!([]),
    );
    let new = object(&json!({"a": {"type": "integer"}}), &json!([]));
    let report = compare_versions(&versions(&old), &versions(&new)).expect("compares");
    assert_eq!(
        report.refusal("webs.kro.run").as_deref(),
        Some(
            "cannot update CRD webs.kro.run: breaking changes detected: Type changed from string to integer; \
             Property b was removed; Property c was removed; and 2 more changes"
        )
    );
    assert_eq!(Report::default().refusal("x"), None);
}
