//! What is found in objects, and which literals are refused.

use serde_json::json;

use super::*;

fn schema() -> Arc<Schema> {
    Schema::from_openapi(&json!({
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
        },
    }))
    .expect("is a schema")
}

fn lines(found: &[Found]) -> Vec<String> {
    let line = |found: &Found| match &found.source.template {
        Some(template) => format!("{} = {} from {template}", found.path, found.source.text),
        None => format!("{} = {}", found.path, found.source.text),
    };
    found.iter().map(line).collect()
}

#[test]
fn expressions_are_found_where_they_are() {
    let object = json!({
        "text": "a-${x}-${y + 'z'}",
        "count": "${n}",
        "list": [{"name": "plain"}, {"name": "${m}"}],
        "labels": {"a.b/c": "${l}", "plain": "$HOME ${"},
        "open": {"any": ["${deep}", 5, {"x": "${\"${VAR}\"}"}]},
        "port": "${p}",
    });
    let found = extract(&object, &schema(), "").expect("fits");
    let want = [
        "count = n",
        "labels[\"a.b/c\"] = l",
        "list[1].name = m",
        "open.any[0] = deep",
        "open.any[2].x = \"${VAR}\"",
        "port = p",
        "text = \"a-\" + (x) + \"-\" + (y + 'z') from a-${x}-${y + 'z'}",
    ];
    assert_eq!(lines(&found), want);
}

#[test]
fn literals_that_do_not_fit_are_refused() {
    let cases = [
        (
            json!({"text": 5}),
            "expected string type for path text, got integer",
        ),
        (
            json!({"text": 1.5}),
            "expected string type for path text, got float64",
        ),
        (
            json!({"count": "x"}),
            "expected integer type for path count, got string",
        ),
        (
            json!({"count": "x${n}"}),
            "expected integer type for path count, got string",
        ),
        (
            json!({"count": true}),
            "expected integer type for path count, got boolean",
        ),
        (
            json!({"list": {}}),
            "expected array type for path list, got object",
        ),
        (
            json!({"labels": []}),
            "expected object type for path labels, got array",
        ),
        (
            json!({"labels": {"a": 1}}),
            "expected string type for path labels.a, got integer",
        ),
        (
            json!({"port": 1.5}),
            "expected string or integer type for path port, got float64",
        ),
        (
            json!({"list": [{"nope": 1}]}),
            "error getting field schema for path list[0].nope: schema not found for field nope",
        ),
        (
            json!({"nope": 1}),
            "error getting field schema for path .nope: schema not found for field nope",
        ),
        (
            json!({"text": "${a ${b}}"}),
            "nested expressions are not allowed unless inside string literals",
        ),
    ];
    for (object, want) in cases {
        assert_eq!(
            extract(&object, &schema(), ""),
            Err(want.to_owned()),
            "{object}"
        );
    }
    for fits in [
        json!({"text": null}),
        json!({"port": 80}),
        json!({"port": "http"}),
        json!({"count": 3}),
    ] {
        assert_eq!(extract(&fits, &schema(), ""), Ok(Vec::new()), "{fits}");
    }
}

#[test]
fn quantities_may_be_any_number() {
    let pod = schema::builtin::catalog()
        .definition("io.k8s.api.core.v1.ResourceRequirements")
        .expect("is built in");
    let limits = |cpu: Value| json!({"limits": {"cpu": cpu}});
    for fits in [json!(0.5), json!(2), json!("500m"), json!("${x}")] {
        assert!(extract(&limits(fits.clone()), &pod, "").is_ok(), "{fits}");
    }
    assert_eq!(
        extract(&limits(json!(true)), &pod, "resources"),
        Err("expected string or number type for path resources.limits.cpu, got boolean".to_owned())
    );
}

#[test]
fn without_a_schema_everything_is_taken_as_it_comes() {
    let object = json!({"a": {"b": ["${x}", "plain", 5]}, "c": null, "d.e": "t-${y}"});
    let out = extract_schemaless(&object).expect("parses");
    assert_eq!(
        lines(&out.found),
        ["a.b[0] = x", "[\"d.e\"] = \"t-\" + (y) from t-${y}"]
    );
    assert_eq!(out.plain, ["a.b[1]", "a.b[2]", "c"]);
}
