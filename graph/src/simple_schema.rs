//! SimpleSchema: the short notation of `spec.schema.spec` and `spec.schema.types`, made into OpenAPI v3.
//!
//! A field is a type and, after the first `|`, markers; a YAML map is a nested object; a name that is no type is a
//! custom type, whose schema is copied in. Invariants: `required` is sorted; an object gets `default: {}` when none of
//! its fields is required and one of them has a default, so that the API server fills in nested defaults.
//!
//! Where kro walks a Go map, we walk in key order: of several mistakes in one schema ours is always the same first one.
//! A `default` that kro would write into the definition as broken JSON is refused here, not at the definition's creation.
//!
//! Source: kro `pkg/simpleschema/transform.go`, `simpleschema.go`.

mod markers;
mod types;

use std::collections::BTreeMap;

use api::growth::{Growth, TooLarge, depth};

use serde_json::{Map, Value, json};

use crate::dag::{Builder, DagError};
use crate::simple_schema::types::Type;

/// Makes the OpenAPI schema of an instance's `spec`; `types` are the custom types.
///
/// # Errors
/// kro's text for the first mistake, in key order.
pub(crate) fn to_openapi(
    spec: &Map<String, Value>,
    types: &Map<String, Value>,
) -> Result<Value, String> {
    Transformer::load(types)?.object(spec)
}

/// How deep the schema of a custom type may be: an object of the API, and so a generated CRD, is no deeper.
const DEPTH_MAX: usize = 120;

/// Turns fields into schemas, knowing the custom types.
///
/// Each use of a custom type is a copy of its schema, so a few types that are made of each other twice would fill any
/// memory. All copies together take no more than an object may.
struct Transformer {
    custom_types: BTreeMap<String, CustomType>,
    growth: Growth,
}

struct CustomType {
    schema: Value,
    /// An alias with `required=true` makes every field of this type required.
    required: bool,
}

// === impl Transformer ===

impl Transformer {
    fn load(types: &Map<String, Value>) -> Result<Self, String> {
        let mut transformer = Self {
            custom_types: BTreeMap::new(),
            growth: Growth::of_object(),
        };
        for name in order_of_types(types)? {
            let Some(notation) = types.get(&name) else {
                continue;
            };
            let custom_type = transformer
                .custom_type(&name, notation)
                .map_err(|error| format!("building schema for {name}: {error}"))?;
            transformer.custom_types.insert(name, custom_type);
        }
        Ok(transformer)
    }

    fn custom_type(&mut self, name: &str, notation: &Value) -> Result<CustomType, String> {
        let mut required = Vec::new();
        let schema = self.field(name, notation, &mut required)?;
        if depth(&schema, DEPTH_MAX) > DEPTH_MAX {
            return Err(format!("its schema has more than {DEPTH_MAX} levels"));
        }
        Ok(CustomType {
            schema,
            required: !required.is_empty(),
        })
    }

    fn object(&mut self, fields: &Map<String, Value>) -> Result<Value, String> {
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut child_has_default = false;
        for (name, notation) in fields {
            let schema = self
                .field(name, notation, &mut required)
                .map_err(|error| format!("field {name}: {error}"))?;
            child_has_default |= schema.get("default").is_some();
            properties.insert(name.clone(), schema);
        }
        let mut schema = json!({"type": "object"});
        if !properties.is_empty() {
            schema["properties"] = Value::Object(properties);
        }
        if required.is_empty() {
            if child_has_default {
                schema["default"] = json!({});
            }
        } else {
            required.sort();
            schema["required"] = json!(required);
        }
        Ok(schema)
    }

    fn field(
        &mut self,
        name: &str,
        notation: &Value,
        required: &mut Vec<String>,
    ) -> Result<Value, String> {
        match notation {
            Value::String(text) => self.field_from_text(name, text, required),
            Value::Object(fields) => self.object(fields),
            other => Err(unexpected_type(other)),
        }
    }

    fn field_from_text(
        &mut self,
        name: &str,
        text: &str,
        required: &mut Vec<String>,
    ) -> Result<Value, String> {
        let (type_text, markers_text) = split(text);
        let field_type = types::parse(type_text)?;
        let markers = match markers_text {
            Some(text) => markers::parse(text)?,
            None => Vec::new(),
        };
        let mut schema = self.schema_of(&field_type)?;
        if let Type::Custom(custom) = &field_type
            && self
                .custom_types
                .get(custom)
                .is_some_and(|custom_type| custom_type.required)
        {
            required.push(name.to_owned());
        }
        if markers::apply(&mut schema, &markers)? {
            required.extend(
                markers
                    .iter()
                    .filter(|marker| marker.is_required())
                    .map(|_| name.to_owned()),
            );
        }
        Ok(schema)
    }

    fn schema_of(&mut self, field_type: &Type) -> Result<Value, String> {
        Ok(match field_type {
            Type::Atomic(openapi) => json!({"type": openapi}),
            Type::Object => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            Type::List(element) => json!({"type": "array", "items": self.schema_of(element)?}),
            Type::Map(element) => {
                json!({"type": "object", "additionalProperties": self.schema_of(element)?})
            }
            Type::Custom(name) => match self.custom_types.get(name) {
                Some(custom_type) => {
                    let charged = self.growth.charge_value(&custom_type.schema);
                    charged.map_err(|TooLarge { bytes_max }| {
                        format!(
                            "type {name}: the schemas of custom types, copied to wherever they are used, would take \
                             more than {bytes_max} bytes of memory"
                        )
                    })?;
                    custom_type.schema.clone()
                }
                None => return Err(format!("unknown type: {name}")),
            },
        })
    }
}

/// Orders the custom types so that each comes after those it is made of.
fn order_of_types(types: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut parsed = BTreeMap::new();
    for (name, notation) in types {
        let dependencies =
            type_dependencies(notation).map_err(|error| format!("parsing type {name}: {error}"))?;
        parsed.insert(name.as_str(), dependencies);
    }
    let mut builder = Builder::default();
    for name in parsed.keys() {
        builder
            .add_vertex(name, 0)
            .map_err(|error| error.to_string())?;
    }
    let mut refused = None;
    for (name, dependencies) in &parsed {
        if let Err(error) = builder.add_dependencies(name, dependencies) {
            refused = Some(error);
            break;
        }
    }
    // A cycle among the types before is found first, as by kro.
    let dag = builder.build().map_err(|error| match &error {
        DagError::Cycle { vertex, .. } => format!("cyclic dependency in type {vertex}: {error}"),
        other => other.to_string(),
    })?;
    match refused {
        Some(error) => Err(error.to_string()),
        None => Ok(dag.topological_order()),
    }
}

fn type_dependencies(notation: &Value) -> Result<Vec<String>, String> {
    match notation {
        Value::String(text) => {
            let (type_text, _) = split(text);
            Ok(types::parse(type_text)?
                .custom_name()
                .into_iter()
                .map(str::to_owned)
                .collect())
        }
        Value::Object(fields) => {
            let mut dependencies = Vec::new();
            for (name, field) in fields {
                let of_field =
                    type_dependencies(field).map_err(|error| format!("field {name}: {error}"))?;
                dependencies.extend(of_field);
            }
            Ok(dependencies)
        }
        other => Err(unexpected_type(other)),
    }
}

fn unexpected_type(value: &Value) -> String {
    format!("unexpected type: {}", dialect::value::type_name(value))
}

/// Splits a field at its first `|`.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once('|') {
        Some((type_text, markers)) => (type_text, Some(markers)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests;
