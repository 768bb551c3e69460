//! What is doubtful about a definition, but accepted.

use api::crd::{CustomResourceDefinition, DefinitionVersion};
use dialect::quote;
use serde_json::{Map, Value};

use super::nodes::each_node;
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
        each_node(schema, &mut |keywords| {
            doubts.extend(unrecognized(keywords));
        });
    }
    doubts
}

fn unrecognized(keywords: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| keywords.get(name).and_then(Value::as_str);
    let format = text("format").filter(|format| !format.is_empty())?;
    let value_type = text("type").and_then(ValueType::from_name);
    let node = Schema {
        value_type,
        ..Schema::default()
    };
    (!is_recognised_format(&node, format)).then(|| format!("unrecognized format {}", quote(format)))
}
