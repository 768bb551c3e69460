//! The schemas of a definition. Go reads them into structs that contain themselves, so that the schema of the kind does not say what is in
//! them: what is unknown there is dropped, and a value of a wrong type cannot be read.
//!
//! Source: apiextensions-apiserver `pkg/apis/apiextensions/v1/types_jsonschema.go`, `marshal.go`.

use dialect::json::type_word;
use serde_json::{Map, Value, json};

use super::super::message::SCHEMA;
use super::super::tables::{FieldKind, FieldRule, Shape, Tables, VALIDATION_RULE};
use super::Wrong;

const EXTERNAL_DOCS: &str = "apiextensions.v1.ExternalDocumentation";

/// Returns whether a field holds a list or a map.
pub(super) fn is_container(tables: &Tables, message: &str, name: &str) -> bool {
    let rule = tables.field(message, name);
    rule.is_some_and(|rule| matches!(rule.shape, Shape::Repeated | Shape::Map))
}

/// Returns whether values of a message are in schemas.
pub(super) fn is_of(message: &str) -> bool {
    matches!(message, SCHEMA | VALIDATION_RULE | EXTERNAL_DOCS)
}

/// Returns the paths of the fields in the schemas of an object that Go does not know: `spec.versions[0].schema.openAPIV3Schema.typo`. Types that
/// read themselves tell nothing of what is in them.
pub(crate) fn unknown_in_schemas(object: &Value, api_version: &str, kind: &str) -> Vec<String> {
    let tables = Tables::get();
    let mut found = Vec::new();
    // No other kind has schemas.
    let message = tables
        .root_name(api_version, kind)
        .filter(|_| kind == "CustomResourceDefinition");
    if let (Some(message), Value::Object(fields)) = (message, object) {
        unknown(tables, message, "", fields, &mut found);
    }
    found
}

fn unknown(
    tables: &Tables,
    message: &str,
    path: &str,
    fields: &Map<String, Value>,
    found: &mut Vec<String>,
) {
    for (name, value) in fields {
        let place = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let Some(rule) = tables.field(message, name) else {
            if is_of(message) {
                found.push(place);
            }
            continue;
        };
        let FieldKind::Message(inner) = rule.kind else {
            continue;
        };
        match (rule.shape, value) {
            (Shape::Single | Shape::Inline, Value::Object(fields)) => {
                unknown(tables, inner, &place, fields, found);
            }
            (Shape::Map, Value::Object(entries)) => {
                for (key, entry) in entries {
                    if let Value::Object(fields) = entry {
                        unknown(tables, inner, &format!("{place}.{key}"), fields, found);
                    }
                }
            }
            (Shape::Repeated, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    if let Value::Object(fields) = item {
                        unknown(tables, inner, &format!("{place}[{index}]"), fields, found);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Checks a value that is no object.
pub(super) fn scalar(rule: &FieldRule, value: &Value) -> Result<(), Wrong> {
    let go_type = match (rule.kind, value) {
        (FieldKind::RawJson, _)
        | (FieldKind::Text, Value::String(_))
        | (FieldKind::Boolean, Value::Bool(_))
        | (FieldKind::Double, Value::Number(_)) => return Ok(()),
        (FieldKind::Integer, Value::Number(number)) if number.is_i64() => return Ok(()),
        (FieldKind::Integer, Value::Number(number)) => {
            return Err(Wrong {
                found: format!("number {number}"),
                go_type: "int64".into(),
                is_own: false,
            });
        }
        (FieldKind::Integer, _) => "int64".to_owned(),
        _ => rule.element_type(),
    };
    Err(mistyped(value, go_type))
}

pub(super) fn mistyped(value: &Value, go_type: impl Into<std::borrow::Cow<'static, str>>) -> Wrong {
    Wrong {
        found: type_word(value).to_owned(),
        go_type: go_type.into(),
        is_own: false,
    }
}

/// Returns what Go makes of null in a list or a map.
pub(super) fn zero(kind: FieldKind) -> Value {
    match kind {
        FieldKind::Message(_) => json!({}),
        FieldKind::Text => json!(""),
        _ => Value::Null,
    }
}
