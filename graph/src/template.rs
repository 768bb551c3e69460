//! Templates: finding the expressions in an object, and checking its literals against the schema on the way.
//!
//! A scalar that is one whole `${…}` keeps the type of its expression; text around expressions makes a string template,
//! which is compiled as one concatenation. Below a node that preserves unknown fields, and in objects without a schema
//! (external references, definitions, status), everything is taken as it comes.
//!
//! Source: kro `pkg/graph/parser/parser.go`, `schemaless.go`, `conditions.go`.

use std::sync::Arc;

use schema::Schema;
use schema::structural::{Additional, ValueType};
use serde_json::{Map, Value};

use crate::field_path;
use crate::scalar::{self, Scalar, Source};

/// An expression at a place of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Found {
    /// Where, as `spec.containers[0].image`.
    pub(crate) path: String,
    pub(crate) source: Source,
}

/// What an object without a schema holds.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Schemaless {
    pub(crate) found: Vec<Found>,
    /// Where there are scalars without an expression.
    pub(crate) plain: Vec<String>,
}

/// Takes the expressions out of an object that has no schema.
///
/// # Errors
/// kro's text, when an expression is nested in another.
pub(crate) fn extract_schemaless(object: &Value) -> Result<Schemaless, String> {
    let mut out = Schemaless::default();
    walk_schemaless(object, "", &mut out)?;
    Ok(out)
}

fn walk_schemaless(value: &Value, path: &str, out: &mut Schemaless) -> Result<(), String> {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                walk_schemaless(value, &field_path::join(path, name), out)?;
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk_schemaless(item, &field_path::join_index(path, index), out)?;
            }
        }
        Value::String(text) => match scalar::scan(text)? {
            Scalar::Plain => out.plain.push(path.to_owned()),
            Scalar::Standalone(source) | Scalar::Template(source) => {
                out.found.push(Found {
                    path: path.to_owned(),
                    source,
                });
            }
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => out.plain.push(path.to_owned()),
    }
    Ok(())
}

/// Takes the expressions out of an object and checks the rest of it against the schema.
///
/// # Errors
/// kro's text for the first literal that does not fit, in key order, or for a nested expression.
pub(crate) fn extract(object: &Value, schema: &Schema, path: &str) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    walk(object, schema, path, &mut found)?;
    Ok(found)
}

fn walk(value: &Value, schema: &Schema, path: &str, found: &mut Vec<Found>) -> Result<(), String> {
    let expected = Expected::of(schema, path)?;
    match value {
        Value::Null => Ok(()),
        Value::Object(map) => walk_object(map, value, (schema, &expected), path, found),
        Value::Array(items) => walk_array(items, value, (schema, &expected), path, found),
        Value::String(text) => walk_text(text, &expected, path, found),
        Value::Bool(_) | Value::Number(_) => check_scalar(value, &expected, path),
    }
}

fn walk_object(
    map: &Map<String, Value>,
    value: &Value,
    (schema, expected): (&Schema, &Expected),
    path: &str,
    found: &mut Vec<Found>,
) -> Result<(), String> {
    if schema.preserve_unknown_fields {
        return walk_preserved(value, path, found);
    }
    if !expected.has("object") && matches!(schema.additional, Additional::None) {
        return Err(format!(
            "expected {expected} type for path {path}, got object"
        ));
    }
    for (name, value) in map {
        let field = field_schema(schema, name).ok_or_else(|| {
            format!("error getting field schema for path {path}.{name}: schema not found for field {name}")
        })?;
        walk(value, &field, &field_path::join(path, name), found)?;
    }
    Ok(())
}

/// Finds the schema of a field; where anything is permitted it is an empty one, which kro then finds no type in.
fn field_schema(schema: &Schema, name: &str) -> Option<Arc<Schema>> {
    if let Some(field) = schema.field(name) {
        return Some(Arc::clone(field));
    }
    matches!(schema.additional, Additional::Any).then(Arc::default)
}

fn walk_array(
    items: &[Value],
    value: &Value,
    (schema, expected): (&Schema, &Expected),
    path: &str,
    found: &mut Vec<Found>,
) -> Result<(), String> {
    if schema.preserve_unknown_fields {
        return walk_preserved(value, path, found);
    }
    if !expected.has("array") {
        return Err(format!(
            "expected {expected} type for path {path}, got array"
        ));
    }
    let Some(item_schema) = &schema.items else {
        return Err(format!(
            "invalid array schema for path {path}: neither Items.Schema nor Properties are defined"
        ));
    };
    for (index, item) in items.iter().enumerate() {
        walk(
            item,
            item_schema,
            &field_path::join_index(path, index),
            found,
        )?;
    }
    Ok(())
}

fn walk_preserved(value: &Value, path: &str, found: &mut Vec<Found>) -> Result<(), String> {
    let mut out = Schemaless::default();
    walk_schemaless(value, path, &mut out)?;
    found.append(&mut out.found);
    Ok(())
}

fn walk_text(
    text: &str,
    expected: &Expected,
    path: &str,
    found: &mut Vec<Found>,
) -> Result<(), String> {
    let source = match scalar::scan(text)? {
        Scalar::Standalone(source) => source,
        _ if !expected.has("string") && !expected.any => {
            return Err(format!(
                "expected {expected} type for path {path}, got string"
            ));
        }
        Scalar::Template(source) => source,
        Scalar::Plain => return Ok(()),
    };
    found.push(Found {
        path: path.to_owned(),
        source,
    });
    Ok(())
}

fn check_scalar(value: &Value, expected: &Expected, path: &str) -> Result<(), String> {
    let is_integer = value.is_i64();
    let fits = expected.any
        || match value {
            Value::Bool(_) => expected.has("boolean"),
            _ => expected.has("number") || (is_integer && expected.has("integer")),
        };
    if fits {
        return Ok(());
    }
    let got = match value {
        Value::Bool(_) => "boolean",
        _ if is_integer => "integer",
        other => dialect::value::type_name(other),
    };
    Err(format!(
        "expected {expected} type for path {path}, got {got}"
    ))
}

/// The types that a literal may have at a node.
struct Expected {
    types: Vec<&'static str>,
    any: bool,
}

// === impl Expected ===

impl Expected {
    fn of(schema: &Schema, path: &str) -> Result<Self, String> {
        let some = |types: Vec<&'static str>| Ok(Self { types, any: false });
        if schema.preserve_unknown_fields {
            return Ok(Self {
                types: vec!["any"],
                any: true,
            });
        }
        if schema.int_or_string {
            // The built-in ones are published as oneOf, the others are marked.
            return some(match schema.format.as_deref() {
                Some("quantity") => vec!["string", "number"],
                Some("int-or-string") => vec!["integer", "string"],
                _ => vec!["string", "integer"],
            });
        }
        let from_combinators = combined_types(schema);
        if !from_combinators.is_empty() {
            return some(from_combinators);
        }
        if let Some(value_type) = schema.value_type {
            return some(vec![type_name(value_type)]);
        }
        match schema.additional {
            Additional::Any | Additional::Schema(_) => Ok(Self {
                types: vec!["any"],
                any: true,
            }),
            Additional::None if has_combinators(schema) => Err("unknown schema type".to_owned()),
            Additional::None => Err(format!(
                "schema at path {path} has no valid type, OneOf, AnyOf, or AdditionalProperties"
            )),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.types.contains(&name)
    }
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.types.join(" or "))
    }
}

fn has_combinators(schema: &Schema) -> bool {
    schema.constraints.as_ref().is_some_and(|constraints| {
        !(constraints.one_of.is_empty() && constraints.any_of.is_empty())
    })
}

/// Collects the types of `oneOf`, or else of `anyOf`; a branch that requires or forbids fields speaks of an object.
fn combined_types(schema: &Schema) -> Vec<&'static str> {
    let Some(constraints) = &schema.constraints else {
        return Vec::new();
    };
    let collect = |branches: &[Arc<Schema>]| {
        let mut types: Vec<&str> = Vec::new();
        for branch in branches {
            let forbids = branch
                .constraints
                .as_ref()
                .is_some_and(|constraints| constraints.not.is_some());
            let implied = (!branch.required.is_empty() || forbids).then_some("object");
            for name in implied.into_iter().chain(branch.value_type.map(type_name)) {
                if !types.contains(&name) {
                    types.push(name);
                }
            }
        }
        types
    };
    let one_of = collect(&constraints.one_of);
    if one_of.is_empty() {
        collect(&constraints.any_of)
    } else {
        one_of
    }
}

fn type_name(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Object => "object",
        ValueType::Array => "array",
        ValueType::String => "string",
        ValueType::Integer => "integer",
        ValueType::Number => "number",
        ValueType::Boolean => "boolean",
    }
}

#[cfg(test)]
mod tests;
