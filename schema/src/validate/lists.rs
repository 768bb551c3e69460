//! Uniqueness in lists that are sets or maps.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go`.

use std::collections::HashMap;

use api::{FINDINGS_MAX, FieldError, FieldPath};
use serde_json::{Map, Value};

use crate::structural::{ListType, Schema};

/// Reports the second of each set of equal items.
pub(super) fn validate(object: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if schema.below.associative_lists {
        walk(object, schema, &FieldPath::root(), &mut errors);
    }
    errors
}

/// Walks a value that has such lists by its schema: a path is made for each step.
fn walk(value: &Value, schema: &Schema, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if errors.len() >= FINDINGS_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            if let Some(element) = schema.additional.schema() {
                for (name, field) in fields.iter().filter(|_| element.below.associative_lists) {
                    walk(field, element, &path.key(name), errors);
                }
            }
            for (name, field) in fields {
                if let Some(property) = schema.properties.get(name)
                    && property.below.associative_lists
                {
                    walk(field, property, &path.child(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type {
                Some(ListType::Set) => set(items, path, errors),
                Some(ListType::Map) => map(items, schema, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            let Some(item_schema) = schema
                .items
                .as_ref()
                .filter(|it| it.below.associative_lists)
            else {
                return;
            };
            for (index, item) in items.iter().enumerate() {
                walk(item, item_schema, &path.index(index), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn set(items: &[Value], path: &FieldPath, errors: &mut Vec<FieldError>) {
    for index in second_occurrences(items.iter().map(Value::to_string))
        .into_iter()
        .take(FINDINGS_MAX)
    {
        errors.extend(
            items
                .get(index)
                .map(|item| FieldError::duplicate(&path.index(index), item.clone())),
        );
    }
}

fn map(items: &[Value], schema: &Schema, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, item) in items.iter().enumerate() {
        if !item.is_object() && !item.is_null() {
            let detail = "must be an object for an array of list-type map";
            errors.push(FieldError::invalid(
                &path.index(index),
                item.clone(),
                detail,
            ));
            return;
        }
    }
    let keys: Vec<Value> = items.iter().map(|item| key(item, schema)).collect();
    for index in second_occurrences(keys.iter().map(Value::to_string))
        .into_iter()
        .take(FINDINGS_MAX)
    {
        errors.extend(
            keys.get(index)
                .map(|key| FieldError::duplicate(&path.index(index), key.clone())),
        );
    }
}

/// The key fields that an item has.
fn key(item: &Value, schema: &Schema) -> Value {
    let mut key = Map::new();
    for name in &schema.list_map_keys {
        if let Some(value) = item.get(name) {
            key.insert(name.clone(), value.clone());
        }
    }
    Value::Object(key)
}

/// Canonical JSON is unique, since maps are sorted.
fn second_occurrences(texts: impl Iterator<Item = String>) -> Vec<usize> {
    let mut counts: HashMap<String, u32> = HashMap::new();
    let mut seconds = Vec::new();
    for (index, text) in texts.enumerate() {
        let count = counts.entry(text).or_default();
        *count = count.saturating_add(1);
        if *count == 2 {
            seconds.push(index);
        }
    }
    seconds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_second_of_equal_items_is_reported() {
        let schema = Schema::from_openapi(&json!({"type": "object", "properties": {
            "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["p", "q"],
                "items": {"type": "object", "properties": {"p": {"type": "integer"}, "q": {"type": "string"}}}},
        }}))
        .unwrap();
        let cases = [
            (
                "distinct",
                json!({"s": ["a", "b"], "m": [{"p": 1}, {"p": 1, "q": "x"}]}),
                vec![],
            ),
            (
                "set",
                json!({"s": ["a", "b", "a", "a"]}),
                vec!["s[2]: Duplicate value: \"a\""],
            ),
            (
                "map",
                json!({"m": [{"p": 1, "q": "x", "v": 1}, {"p": 1, "q": "x"}]}),
                vec!["m[1]: Duplicate value: {\"p\":1,\"q\":\"x\"}"],
            ),
            (
                "no keys",
                json!({"m": [{}, null]}),
                vec!["m[1]: Duplicate value: {}"],
            ),
            (
                "no object",
                json!({"m": [1]}),
                vec!["m[0]: Invalid value: 1: must be an object for an array of list-type map"],
            ),
        ];
        for (name, object, want) in cases {
            let errors: Vec<String> = validate(&object, &schema)
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(errors, want, "{name}");
        }
    }
}
