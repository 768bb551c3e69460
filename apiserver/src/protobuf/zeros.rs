//! What Go leaves out of an object when it writes it: fields with `omitempty` that hold the zero value of their type. A field
//! that is a pointer stays, whatever it points to.
//!
//! kube-apiserver decodes what a client sends into Go structs, so `minReadySeconds: 0` is not there afterwards.
//!
//! Source: `encoding/json` (`omitempty`); which fields have it is in the tables.

use serde_json::{Map, Value};

use super::message::SCHEMA;
use super::tables::{FieldKind, FieldRule, Shape, Tables};

/// Takes the zero values out of an object of a built-in kind. Its metadata has rules of its own.
pub(crate) fn omit_zeros(object: &mut Value, api_version: &str, kind: &str) {
    let tables = Tables::get();
    let (Some(message), Value::Object(fields)) = (tables.root_name(api_version, kind), object)
    else {
        return;
    };
    let metadata = fields.remove_entry("metadata");
    omit(tables, message, fields);
    fields.extend(metadata);
}

fn omit(tables: &Tables, message: &str, fields: &mut Map<String, Value>) {
    fields.retain(|name, value| {
        let Some(rule) = tables.field(message, name) else {
            return true;
        };
        if let Some(inner) = inner(rule) {
            visit(tables, inner, value);
        }
        !(rule.omit_zero && rule.shape == Shape::Single && is_zero(rule.kind, value))
    });
}

/// Takes the zero values out of all objects of a message that a field holds.
fn visit(tables: &Tables, (message, shape): (&str, Shape), value: &mut Value) {
    match (shape, value) {
        (Shape::Map, Value::Object(entries)) => {
            for entry in entries.values_mut() {
                visit(tables, (message, Shape::Single), entry);
            }
        }
        // A union of a schema and a list of them is a list too.
        (_, Value::Array(items)) => {
            for item in items {
                visit(tables, (message, Shape::Single), item);
            }
        }
        (_, Value::Object(fields)) => omit(tables, message, fields),
        _ => {}
    }
}

/// The message of a field, and how often it occurs.
fn inner(rule: &FieldRule) -> Option<(&'static str, Shape)> {
    match rule.kind {
        FieldKind::Message(message) => Some((message, rule.shape)),
        FieldKind::SchemaOrArray | FieldKind::SchemaOrBool | FieldKind::SchemaOrStrings => {
            Some((SCHEMA, rule.shape))
        }
        _ => None,
    }
}

/// Whether a value is what `omitempty` leaves out. It never leaves out structs, of which a quantity is one.
fn is_zero(kind: FieldKind, value: &Value) -> bool {
    match (kind, value) {
        (FieldKind::Text | FieldKind::Bytes, Value::String(text)) => text.is_empty(),
        (FieldKind::Integer | FieldKind::Double | FieldKind::Float, Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        (FieldKind::Boolean, Value::Bool(flag)) => !flag,
        _ => false,
    }
}
