//! Fills in defaults, where the parent exists.
//!
//! # Invariants
//! - Defaulting twice changes nothing.
//! - What a default adds is charged before it is added: one that stands in the items of a list is added to each of them, and
//!   an empty item takes three bytes of a request.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go`.

use api::growth::{Growth, TooLarge};
use serde_json::Value;

use super::Schema;

/// Fills in the defaults of `schema`: missing fields, and nulls that are not values.
///
/// # Errors
/// The defaults would take more memory than one object may. Those that were filled in by then stay.
pub fn default(value: &mut Value, schema: &Schema) -> Result<(), TooLarge> {
    default_within(value, schema, &mut Growth::of_object())
}

/// [`default`], for as much memory as `growth` has left.
///
/// # Errors
/// As [`default`].
pub fn default_within(
    value: &mut Value,
    schema: &Schema,
    growth: &mut Growth,
) -> Result<(), TooLarge> {
    if !schema.below.defaults {
        return Ok(());
    }
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                match fields.get_mut(name) {
                    None => {
                        growth.charge_field(name, fields.len())?;
                        growth.charge_value(default)?;
                        fields.insert(name.clone(), default.clone());
                    }
                    Some(field) => replace_null(field, property, growth)?,
                }
            }
            for (name, field) in fields {
                if let Some(property) = schema.properties.get(name) {
                    default_within(field, property, growth)?;
                } else if let Some(element) = schema.additional.schema() {
                    replace_null(field, element, growth)?;
                    default_within(field, element, growth)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else {
                return Ok(());
            };
            for item in items {
                replace_null(item, item_schema, growth)?;
                default_within(item, item_schema, growth)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn replace_null(value: &mut Value, schema: &Schema, growth: &mut Growth) -> Result<(), TooLarge> {
    if value.is_null() && !schema.nullable {
        // Without a default it stays null, which validation refuses.
        if let Some(default) = &schema.default {
            growth.charge_value(default)?;
            *value = default.clone();
        }
    }
    Ok(())
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
            assert_eq!(default(&mut value, &schema), Ok(()), "{name}");
            assert_eq!(value, want, "{name}");
            assert_eq!(default(&mut value, &schema), Ok(()), "{name}");
            assert_eq!(value, want, "{name}, twice");
        }
    }

    #[test]
    fn defaults_of_many_empty_items_end_where_the_object_is_too_large() {
        let schema = Schema::from_openapi(&json!({"type": "object", "properties": {"l": {
            "type": "array", "items": {"type": "object", "properties": {
                "a": {"type": "object", "default": {}, "properties": {
                    "b": {"type": "string", "default": "x".repeat(1_000)}}}}}}}}))
        .unwrap();
        let items = |count: usize| json!({"l": vec![json!({}); count]});
        assert_eq!(
            default(&mut items(1_000), &schema),
            Ok(()),
            "a list as people write it"
        );
        let mut bomb = items(500_000);
        assert!(
            default(&mut bomb, &schema).is_err(),
            "1.5 MiB that would be a gigabyte"
        );
        let filled = bomb["l"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| **item != json!({}));
        assert!(filled.count() < 50_000, "it ended when the bound was met");
    }
}
