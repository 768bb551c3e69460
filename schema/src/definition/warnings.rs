//! What is doubtful about a definition, but accepted.

use std::collections::BTreeSet;

use api::crd::{CustomResourceDefinition, DefinitionVersion};
use api::go_format::quote;
use serde_json::Value;

use crate::structural::{Schema, ValueType};
use crate::validate::is_recognised_format;

/// Warnings about a definition that `old` did not already deserve.
pub fn warnings(
    definition: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
) -> Vec<String> {
    let found = collect(definition);
    let known = old.map(collect).unwrap_or_default();
    let mut warnings: Vec<String> = Vec::new();
    for text in found.formats {
        if !known.formats.contains(&text) {
            warnings.push(text);
        }
    }
    warnings.extend(found.sets.difference(&known.sets).cloned());
    warnings
}

#[derive(Default)]
struct Doubts {
    /// In the order of the schema, repeated as often as they occur.
    formats: Vec<String>,
    sets: BTreeSet<String>,
}

fn collect(definition: &CustomResourceDefinition) -> Doubts {
    let mut doubts = Doubts::default();
    let schema = |version: &DefinitionVersion| version.schema.as_ref()?.open_api_v3_schema.clone();
    for schema in definition.spec.versions.iter().filter_map(schema) {
        walk(&schema, &mut doubts);
    }
    doubts
}

fn walk(schema: &Value, doubts: &mut Doubts) {
    let Some(keywords) = schema.as_object() else { return };
    let text = |name: &str| keywords.get(name).and_then(Value::as_str);
    if let Some(format) = text("format").filter(|format| !format.is_empty()) {
        let value_type = text("type").and_then(ValueType::from_name);
        let node = Schema { value_type, ..Schema::default() };
        if !is_recognised_format(&node, format) {
            doubts.formats.push(format!("unrecognized format {}", quote(format)));
        }
    }
    let items = keywords.get("items");
    if text("x-kubernetes-list-type") == Some("set")
        && let Some(item_type @ ("object" | "array")) =
            items.and_then(|items| items.get("type")?.as_str())
    {
        doubts.sets.insert(format!(
            "x-kubernetes-list-type: set for items of type {item_type:?} is not supported by server-side apply or CEL \
             validation rules"
        ));
    }
    for name in ["items", "not", "additionalProperties"] {
        keywords.get(name).into_iter().for_each(|child| walk(child, doubts));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let branches = keywords.get(name).and_then(Value::as_array).into_iter().flatten();
        branches.for_each(|branch| walk(branch, doubts));
    }
    let properties = keywords.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.for_each(|(_, property)| walk(property, doubts));
}
