//! What is doubtful about a definition, but accepted.

use api::crd::{CustomResourceDefinition, DefinitionVersion};
use dialect::quote;
use serde_json::Value;

use crate::structural::{Schema, ValueType};
use crate::validate::is_recognised_format;

/// Warnings about a definition that `old` did not already deserve.
pub fn warnings(
    definition: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
) -> Vec<String> {
    let known = old.map(collect).unwrap_or_default();
    collect(definition)
        .into_iter()
        .filter(|text| !known.contains(text))
        .collect()
}

/// In the order of the schemas, repeated as often as they occur; what all versions have in common is judged once.
fn collect(definition: &CustomResourceDefinition) -> Vec<String> {
    let schema = |version: &DefinitionVersion| version.schema.as_ref()?.open_api_v3_schema.clone();
    let mut schemas: Vec<Value> = definition.spec.versions.iter().filter_map(schema).collect();
    if schemas
        .windows(2)
        .all(|pair| matches!(pair, [left, right] if left == right))
    {
        schemas.truncate(1);
    }
    let mut doubts = Vec::new();
    for schema in &schemas {
        walk(schema, &mut doubts);
    }
    doubts
}

fn walk(schema: &Value, doubts: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        return;
    };
    let text = |name: &str| keywords.get(name).and_then(Value::as_str);
    if let Some(format) = text("format").filter(|format| !format.is_empty()) {
        let value_type = text("type").and_then(ValueType::from_name);
        let node = Schema {
            value_type,
            ..Schema::default()
        };
        if !is_recognised_format(&node, format) {
            doubts.push(format!("unrecognized format {}", quote(format)));
        }
    }
    for name in ["items", "not", "additionalProperties"] {
        keywords
            .get(name)
            .into_iter()
            .for_each(|child| walk(child, doubts));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let branches = keywords
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        branches.for_each(|branch| walk(branch, doubts));
    }
    let properties = keywords
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    properties.for_each(|(_, property)| walk(property, doubts));
}
