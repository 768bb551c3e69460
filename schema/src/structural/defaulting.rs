//! Fills in defaults, where the parent exists.
//!
//! Invariant: defaulting twice changes nothing.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go`.

use serde_json::Value;

use super::Schema;

/// Fills in the defaults of `schema`: missing fields, and nulls that are not values.
pub fn default(value: &mut Value, schema: &Schema) {
    if !schema.below.defaults {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                match fields.get_mut(name) {
                    None => drop(fields.insert(name.clone(), default.clone())),
                    Some(field) => replace_null(field, property),
                }
            }
            for (name, field) in fields {
                if let Some(property) = schema.properties.get(name) {
                    default(field, property);
                } else if let Some(element) = schema.additional.schema() {
                    replace_null(field, element);
                    default(field, element);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else {
                return;
            };
            for item in items {
                replace_null(item, item_schema);
                default(item, item_schema);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace_null(value: &mut Value, schema: &Schema) {
    if value.is_null() && !schema.nullable {
        // Without a default it stays null, which validation refuses.
        *value = schema.default.clone().unwrap_or(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_appear_where_the_parent_exists() {
        let schema = Schema::from_openapi(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "object", "default": {}, "properties": {"c": {"type": "integer", "default": 1}}},
            "n": {"type": "string", "nullable": true, "default": "x"},
            "l": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "string", "default": "d"}},
        }}}}))
        .unwrap();
        let cases = [
            ("no parent", json!({}), json!({})),
            (
                "parent",
                json!({"spec": {}}),
                json!({"spec": {"a": "x", "b": {"c": 1}, "n": "x"}}),
            ),
            (
                "nulls",
                json!({"spec": {"a": null, "b": {"c": null}, "n": null, "m": {"k": null}}}),
                json!({"spec": {"a": "x", "b": {"c": 1}, "n": null, "m": {"k": "d"}}}),
            ),
            (
                "items",
                json!({"spec": {"a": "1", "b": {}, "n": "1", "l": [{}, {"p": "UDP"}, 3]}}),
                json!({"spec": {"a": "1", "b": {"c": 1}, "n": "1", "l": [{"p": "TCP"}, {"p": "UDP"}, 3]}}),
            ),
            (
                "another type",
                json!({"spec": "text"}),
                json!({"spec": "text"}),
            ),
        ];
        for (name, mut value, want) in cases {
            default(&mut value, &schema);
            assert_eq!(value, want, "{name}");
            default(&mut value, &schema);
            assert_eq!(value, want, "{name}, twice");
        }
    }
}
