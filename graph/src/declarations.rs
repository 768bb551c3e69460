//! Declared types: what a schema says to the expressions that read an object, and what an expression says to a schema.
//!
//! Every id of a definition is declared with the type made of its kind's schema; that is the seam for the type checker.
//! Each object type is named after its place (`__type_web.spec.ports.@idx`), because CEL compares objects by name.
//!
//! Source: kro `pkg/cel/schemas.go`, `pkg/graph/schema/conversion_cel_type.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use expressions::{DeclType, ListKind, ListType, ObjectType};
use schema::Schema;
use schema::structural::{Additional, ListType as SchemaListType, ValueType};
use serde_json::{Map, Value, json};

/// What the names of declared types begin with.
pub(crate) const TYPE_NAME_PREFIX: &str = "__type_";

/// Makes the declared type of values of a schema; `name` is the type's name and the root of those below it.
pub(crate) fn declare(schema: &Schema, name: &str) -> DeclType {
    declare_typed(schema, name).unwrap_or(DeclType::Dyn)
}

/// As [`declare`]; nothing where the schema has no type. kro does not declare such fields, so that no expression can name
/// them, and they are missing in the schema of a status that shows the object around them.
fn declare_typed(schema: &Schema, name: &str) -> Option<DeclType> {
    if schema.int_or_string {
        return Some(DeclType::Dyn);
    }
    Some(match schema.value_type? {
        ValueType::Boolean => DeclType::Bool,
        ValueType::Integer => DeclType::Int,
        ValueType::Number => DeclType::Double,
        ValueType::String => match schema.format.as_deref() {
            Some("byte") => DeclType::Bytes,
            Some("duration") => DeclType::Duration,
            Some("date" | "date-time") => DeclType::Timestamp,
            _ => DeclType::String,
        },
        ValueType::Array => return declare_list(schema, name),
        ValueType::Object => declare_object(schema, name),
    })
}

fn declare_list(schema: &Schema, name: &str) -> Option<DeclType> {
    let kind = match schema.list_type {
        Some(SchemaListType::Set) => ListKind::Set,
        Some(SchemaListType::Map) => ListKind::Map(schema.list_map_keys.clone()),
        Some(SchemaListType::Atomic) | None => ListKind::Atomic,
    };
    let element = declare_typed(schema.items.as_ref()?, &format!("{name}.@idx"))?;
    Some(DeclType::List(Arc::new(ListType { element, kind })))
}

fn declare_object(schema: &Schema, name: &str) -> DeclType {
    if let Additional::Schema(values) = &schema.additional {
        return DeclType::map(DeclType::String, declare(values, &format!("{name}.@elem")));
    }
    // Of `additionalProperties: true` kro sees an object without fields.
    let fields: BTreeMap<String, DeclType> = schema
        .properties
        .iter()
        .filter_map(|(field, schema)| {
            let declared = declare_typed(schema, &format!("{name}.{field}"))?;
            Some((field.clone(), declared))
        })
        .collect();
    let open = schema.preserve_unknown_fields;
    DeclType::Object(Arc::new(ObjectType {
        name: name.to_owned(),
        fields,
        open,
    }))
}

/// Makes the schema of a status field from the type of its expression; what is not known may be anything.
pub(crate) fn status_schema(declared: &DeclType) -> Value {
    match declared {
        DeclType::Dyn | DeclType::Param(_) => json!({"x-kubernetes-preserve-unknown-fields": true}),
        DeclType::Null => json!({
            "description": "null type - any value allowed",
            "x-kubernetes-preserve-unknown-fields": true,
        }),
        DeclType::Timestamp => json!({
            "description": "Timestamp representing a creation time",
            "type": "string",
            "format": "date-time",
        }),
        DeclType::List(list) => json!({"type": "array", "items": status_schema(&list.element)}),
        DeclType::Map(map) => {
            json!({"type": "object", "additionalProperties": status_schema(&map.value)})
        }
        DeclType::Object(_) => schema_of_object(declared),
        other => primitive(other).unwrap_or_else(|| {
            json!({
                "description": format!("unknown CEL type: {}", runtime_name(other)),
                "x-kubernetes-preserve-unknown-fields": true,
            })
        }),
    }
}

/// Makes the schema of an object as declared. Below an object kro loses the words on timestamps and the like, and names
/// fields as expressions do (`__namespace__`).
fn schema_of_object(declared: &DeclType) -> Value {
    match declared {
        DeclType::List(list) => json!({"type": "array", "items": schema_of_object(&list.element)}),
        DeclType::Map(map) => {
            json!({"type": "object", "additionalProperties": schema_of_object(&map.value)})
        }
        DeclType::Object(object) => {
            let properties: Map<String, Value> = object
                .fields
                .iter()
                .filter_map(|(name, field)| {
                    Some((expressions::escape(name)?, schema_of_object(field)))
                })
                .collect();
            let mut schema = json!({"type": "object"});
            if !properties.is_empty() {
                schema["properties"] = Value::Object(properties);
            }
            schema
        }
        other => primitive(other)
            .unwrap_or_else(|| json!({"x-kubernetes-preserve-unknown-fields": true})),
    }
}

fn primitive(declared: &DeclType) -> Option<Value> {
    Some(match declared {
        DeclType::Bool => json!({"type": "boolean"}),
        DeclType::Int | DeclType::Uint => json!({"type": "integer"}),
        DeclType::Double => json!({"type": "number"}),
        DeclType::String => json!({"type": "string"}),
        DeclType::Bytes => json!({"type": "string", "format": "byte"}),
        _ => return None,
    })
}

/// Names a type as Go prints it outside the checker.
pub(crate) fn runtime_name(declared: &DeclType) -> String {
    match declared {
        DeclType::Null => "null_type".to_owned(),
        DeclType::Duration => "google.protobuf.Duration".to_owned(),
        DeclType::Timestamp => "google.protobuf.Timestamp".to_owned(),
        DeclType::Optional(inner) => format!("optional_type({})", runtime_name(inner)),
        other => other.to_string(),
    }
}

/// Returns why a value of type `output` cannot stand where `expected` is wanted, in kro's words; `None` when it can, or
/// when that is not known before there is a value.
pub(crate) fn mismatch(output: &DeclType, expected: &DeclType) -> Option<String> {
    match (output, expected) {
        (DeclType::Dyn | DeclType::Param(_), _) | (_, DeclType::Dyn | DeclType::Param(_)) => None,
        (DeclType::Optional(inner), expected) => mismatch(inner, expected),
        (DeclType::Map(map), DeclType::Object(object)) => map_for_object(map, object),
        (DeclType::Object(object), DeclType::Map(map)) => object_for_map(object, map),
        (output, DeclType::List(wanted)) => match output {
            DeclType::List(list) => mismatch(&list.element, &wanted.element)
                .map(|why| format!("list element type incompatible: {why}")),
            // kro counts type parameters; only a map has as many as it takes to be told apart by kind.
            DeclType::Map(map) => mismatch(&map.key, &wanted.element)
                .map(|why| format!("list element type incompatible: {why}")),
            _ => Some("list parameter count mismatch: got 0, expected 1".to_owned()),
        },
        (output, DeclType::Map(wanted)) => match output {
            DeclType::Map(map) => mismatch(&map.key, &wanted.key)
                .map(|why| format!("map key type incompatible: {why}"))
                .or_else(|| {
                    mismatch(&map.value, &wanted.value)
                        .map(|why| format!("map value type incompatible: {why}"))
                }),
            DeclType::List(_) => Some("map parameter count mismatch: got 1, expected 2".to_owned()),
            _ => Some("map parameter count mismatch: got 0, expected 2".to_owned()),
        },
        (DeclType::Object(object), DeclType::Object(wanted)) => objects(object, wanted),
        // A scalar or a list in the place of an object: kro finds no fields and lets it pass.
        (_, DeclType::Object(_)) => None,
        (output, expected)
            if std::mem::discriminant(output) == std::mem::discriminant(expected) =>
        {
            None
        }
        (output, expected) => Some(format!(
            "type kind mismatch: got \"{}\", expected \"{}\"",
            runtime_name(output),
            runtime_name(expected)
        )),
    }
}

fn objects(output: &ObjectType, expected: &ObjectType) -> Option<String> {
    if expected.open || output.name == expected.name {
        return None;
    }
    output
        .fields
        .iter()
        .find_map(|(name, field)| match expected.fields.get(name) {
            None => Some(format!(
                "field \"{name}\" exists in output but not in expected type"
            )),
            Some(wanted) => mismatch(field, wanted)
                .map(|why| format!("field \"{name}\" has incompatible type: {why}")),
        })
}

fn map_for_object(map: &expressions::MapType, object: &ObjectType) -> Option<String> {
    if !matches!(map.key, DeclType::String) {
        return Some("map keys must be strings to assign to struct".to_owned());
    }
    object.fields.iter().find_map(|(name, field)| {
        mismatch(&map.value, field)
            .map(|why| format!("map value incompatible with struct field \"{name}\": {why}"))
    })
}

fn object_for_map(object: &ObjectType, map: &expressions::MapType) -> Option<String> {
    if !matches!(map.key, DeclType::String) {
        return Some("map key type must be string when assigning struct → map".to_owned());
    }
    object.fields.iter().find_map(|(name, field)| {
        mismatch(field, &map.value)
            .map(|why| format!("struct field \"{name}\" incompatible with map value type: {why}"))
    })
}

#[cfg(test)]
mod tests;
