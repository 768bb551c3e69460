//! What is asked of a built-in object beyond its shape.
//!
//! Kubernetes validates its own kinds in Go, kind by kind. Here only what the schemas say is asked: types, enums,
//! required fields (of which an empty text is a missing one, since decoding cannot tell them apart) and the syntax of
//! quantities. What Kubernetes asks beyond that is in the strategies of the API server, which know the kinds.

use api::{FINDINGS_MAX, FieldError, FieldPath};
use dialect::Quantity;
use serde_json::Value;

use super::canonical::is_quantity;
use crate::path::Path;
use crate::structural::{Schema, ValueType};

/// What is wrong with a built-in object.
pub fn validate(object: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = crate::validate::validate(object, schema, None);
    walk(object, schema, &Path::Root, &mut errors);
    errors
}

fn walk(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if errors.len() >= FINDINGS_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            for name in &schema.required {
                let is_text = schema
                    .properties
                    .get(name)
                    .is_some_and(|it| it.value_type == Some(ValueType::String));
                if is_text && fields.get(name).is_some_and(|it| it == "") {
                    errors.push(FieldError::required(&field(&Path::Field(path, name)), ""));
                }
            }
            for (name, inner) in fields {
                // The status is the server's own, and empty at first.
                if name == "status" && matches!(path, Path::Root) {
                    continue;
                }
                if let Some(child) = schema.field(name) {
                    walk(inner, child, &Path::Field(path, name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else {
                return;
            };
            for (index, item) in items.iter().enumerate() {
                walk(item, item_schema, &Path::Index(path, index), errors);
            }
        }
        Value::String(text) if is_quantity(schema) => {
            if let Err(error) = Quantity::parse(text.trim()) {
                errors.push(FieldError::invalid(
                    &field(path),
                    text.as_str(),
                    error.to_string(),
                ));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn field(path: &Path<'_>) -> FieldPath {
    FieldPath::new(path.to_string())
}
