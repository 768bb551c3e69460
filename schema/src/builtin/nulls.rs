//! What Go makes of `null` in a built-in object.
//!
//! A field that is null is as if it were absent. An entry of a map and an item of a list are there, whatever they hold:
//! they get the zero value of their type, as `{"data": {"a": null}}` is an empty text under `a`.
//!
//! Source: `encoding/json` (a null leaves what it is decoded into as it is); compared with a kube-apiserver 1.36.3.

use serde_json::{Value, json};

use crate::structural::{Additional, Schema, ValueType};

/// Takes null fields out of an object, and gives null entries and items the zero values of their types.
pub fn read_nulls(object: &mut Value, schema: &Schema) {
    match object {
        Value::Object(fields) => fields.retain(|name, field| {
            let (element, is_field) = match (schema.properties.get(name), &schema.additional) {
                (Some(declared), _) => (declared, true),
                (None, Additional::Schema(element)) => (element, false),
                // Unknown, or of no type: what becomes of it is decided elsewhere.
                (None, Additional::Any | Additional::None) => return true,
            };
            if field.is_null() && is_field {
                return false;
            }
            read_element(field, element);
            true
        }),
        Value::Array(items) => {
            if let Some(element) = &schema.items {
                for item in items {
                    read_element(item, element);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn read_element(value: &mut Value, schema: &Schema) {
    if value.is_null() {
        *value = zero(schema);
    } else {
        read_nulls(value, schema);
    }
}

fn zero(schema: &Schema) -> Value {
    match schema.value_type {
        Some(ValueType::Object) => json!({}),
        Some(ValueType::Array) => json!([]),
        Some(ValueType::String) => json!(""),
        Some(ValueType::Integer | ValueType::Number) => json!(0),
        Some(ValueType::Boolean) => json!(false),
        None if schema.format.as_deref() == Some("quantity") => json!("0"),
        None if schema.int_or_string => json!(0),
        None => Value::Null,
    }
}
