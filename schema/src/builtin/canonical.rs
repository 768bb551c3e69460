//! The form in which a built-in object comes back from the server: what decoding into Go structs and encoding again
//! does to it.
//!
//! Empty lists and maps that are optional go, quantities are written canonically. Empty texts and zeros stay where they
//! were given, because the document does not say which of them Go would leave out.
//!
//! Invariant: doing it twice changes nothing.

use dialect::Quantity;
use serde_json::Value;

use crate::structural::{Schema, ValueType};

/// Brings a built-in object into the form in which it is kept.
pub fn canonicalize(object: &mut Value, schema: &Schema) {
    match object {
        Value::Object(fields) => fields.retain(|name, field| {
            let Some(child) = schema.field(name) else {
                return true;
            };
            canonicalize(field, child);
            let is_declared = schema.properties.contains_key(name);
            let is_required = schema.required.iter().any(|it| it == name);
            !is_declared || is_required || !is_left_out(field, child)
        }),
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else {
                return;
            };
            for item in items {
                canonicalize(item, item_schema);
            }
        }
        Value::String(_) | Value::Number(_) if is_quantity(schema) => {
            let text = object
                .as_str()
                .map_or_else(|| object.to_string(), str::to_owned);
            if let Ok(quantity) = Quantity::parse(text.trim()) {
                *object = Value::String(quantity.to_string());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether values of this schema are quantities.
pub(super) fn is_quantity(schema: &Schema) -> bool {
    schema.int_or_string && schema.format.as_deref() == Some("quantity")
}

/// Lists and maps are left out when empty; structs are pointers, and an empty one means something.
fn is_left_out(value: &Value, schema: &Schema) -> bool {
    match value {
        Value::Array(items) => items.is_empty() && schema.value_type == Some(ValueType::Array),
        Value::Object(fields) => {
            fields.is_empty()
                && schema.value_type == Some(ValueType::Object)
                && schema.properties.is_empty()
                && schema.additional.schema().is_some()
        }
        _ => false,
    }
}
