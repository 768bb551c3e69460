//! The old value of a node, where an update has one: by key in maps, by keys in list-maps, nowhere else.
//!
//! Source: `apiserver/pkg/cel/common/{equality,maplist}.go`.

use serde_json::Value;

use crate::structural::{ListType, Schema, ValueType};

/// The old value that a new one replaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Correlation<'a> {
    old: &'a Value,
}

// === impl Correlation ===

impl<'a> Correlation<'a> {
    pub(super) fn new(old: &'a Value) -> Self {
        Self { old }
    }

    /// The old value of a field that both have and the schema knows.
    pub(super) fn field(self, schema: &Schema, name: &str) -> Option<Self> {
        schema.field(name)?;
        self.old.as_object()?.get(name).map(Self::new)
    }

    /// The old item with the keys of `item`, in a list-map.
    pub(super) fn item(self, schema: &Schema, item: &Value) -> Option<Self> {
        old_item(schema, self.old.as_array()?, item).map(Self::new)
    }

    /// Whether the node is unchanged. Nodes whose fields the schema does not know count as changed.
    pub(super) fn is_unchanged(self, new: &Value, schema: &Schema) -> bool {
        match (self.old, new) {
            (Value::Array(old_items), Value::Array(items)) => {
                if old_items.len() != items.len() {
                    return false;
                }
                let Some(item_schema) = schema.items.as_deref().filter(|_| is_list_map(schema))
                else {
                    return old_items == items;
                };
                items.iter().all(|item| {
                    self.item(schema, item)
                        .is_some_and(|old| old.is_unchanged(item, item_schema))
                })
            }
            (Value::Object(old_fields), Value::Object(fields)) => {
                old_fields.len() == fields.len()
                    && fields.iter().all(|(name, field)| {
                        let child = schema.field(name);
                        let old = self.field(schema, name);
                        child
                            .zip(old)
                            .is_some_and(|(child, old)| old.is_unchanged(field, child))
                    })
            }
            (old, new) => old == new,
        }
    }
}

/// The item of `old_items` with the keys of `item`; the first where there are several.
pub(super) fn old_item<'a>(
    schema: &Schema,
    old_items: &'a [Value],
    item: &Value,
) -> Option<&'a Value> {
    if !is_list_map(schema) {
        return None;
    }
    let keys = keys(schema, item)?;
    old_items
        .iter()
        .find(|old| self::keys(schema, old).is_some_and(|old| old == keys))
}

fn is_list_map(schema: &Schema) -> bool {
    schema.list_type == Some(ListType::Map)
        && schema.value_type == Some(ValueType::Array)
        && !schema.list_map_keys.is_empty()
}

/// The scalar keys of an item; `None` if one is missing.
fn keys<'a>(schema: &Schema, item: &'a Value) -> Option<Vec<&'a Value>> {
    let fields = item.as_object()?;
    let scalar =
        |value: &&Value| matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_));
    schema
        .list_map_keys
        .iter()
        .map(|key| fields.get(key).filter(scalar))
        .collect()
}
