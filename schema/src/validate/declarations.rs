//! What rules may know of a value: its schema as a type of the expression language.
//!
//! Values that a schema does not describe are invisible to rules: fields below `x-kubernetes-preserve-unknown-fields`
//! have no type, and a node without a type has no rules.
//!
//! Source: `apiserver/pkg/cel/common/schemas.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use expressions::{DeclType, ListKind, ObjectType};

use crate::structural::{ListType, Schema, ValueType};

/// The name of the type of `self`; fields of it are named below it.
const SELF_TYPE: &str = "selfType";

/// Whether a value is a resource, whose type and name rules may use whatever its schema says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The root of an object, or an embedded resource.
    Resource,
    /// Anything else.
    Field,
}

/// The type of a value of this schema; `None` where rules cannot see it.
pub fn declaration(schema: &Schema, level: Level) -> Option<DeclType> {
    declare(schema, level, SELF_TYPE)
}

fn declare(schema: &Schema, level: Level, name: &str) -> Option<DeclType> {
    if schema.int_or_string {
        return Some(DeclType::Dyn);
    }
    match schema.value_type? {
        ValueType::Array => {
            let element = declare_child(schema.items.as_deref()?, &format!("{name}.@idx"))?;
            let kind = match schema.list_type {
                Some(ListType::Set) => ListKind::Set,
                Some(ListType::Map) => ListKind::Map(schema.list_map_keys.clone()),
                Some(ListType::Atomic) | None => ListKind::Atomic,
            };
            Some(DeclType::List(Arc::new(expressions::ListType {
                element,
                kind,
            })))
        }
        ValueType::Object => match schema.additional.schema() {
            Some(element) => {
                let value = declare_child(element, &format!("{name}.@elem"))?;
                let key = DeclType::String;
                Some(DeclType::Map(Arc::new(expressions::MapType { key, value })))
            }
            None => Some(object(schema, level, name)),
        },
        ValueType::String => Some(match schema.format.as_deref() {
            Some("byte") => DeclType::Bytes,
            Some("duration") => DeclType::Duration,
            Some("date" | "date-time") => DeclType::Timestamp,
            _ => DeclType::String,
        }),
        ValueType::Boolean => Some(DeclType::Bool),
        ValueType::Number => Some(DeclType::Double),
        ValueType::Integer => Some(DeclType::Int),
    }
}

fn declare_child(schema: &Schema, name: &str) -> Option<DeclType> {
    let level = if schema.embedded_resource {
        Level::Resource
    } else {
        Level::Field
    };
    declare(schema, level, name)
}

fn object(schema: &Schema, level: Level, name: &str) -> DeclType {
    let mut fields = BTreeMap::new();
    for (field, property) in &schema.properties {
        if let Some(declared) = declare_child(property, &format!("{name}.{field}")) {
            fields.insert(field.clone(), declared);
        }
    }
    if level == Level::Resource {
        fields.insert("apiVersion".to_owned(), DeclType::String);
        fields.insert("kind".to_owned(), DeclType::String);
        fields.insert("metadata".to_owned(), object_meta(name));
    }
    DeclType::Object(Arc::new(ObjectType {
        name: name.to_owned(),
        fields,
        open: false,
    }))
}

/// All that rules may know of metadata.
fn object_meta(name: &str) -> DeclType {
    let fields = ["name", "generateName"].map(|field| (field.to_owned(), DeclType::String));
    DeclType::object(format!("{name}.metadata"), fields)
}
