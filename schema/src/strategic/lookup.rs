//! How the fields of a kind merge, looked up in its schema.
//!
//! Kubernetes looks into its Go structs. Where it names the struct in an error, the name of the kind stands here for
//! the object itself, and the name of the field for what is below.
//!
//! Source: `apimachinery/pkg/util/strategicpatch/meta.go`.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::PatchError;
use crate::fieldmanager::OBJECT_META;
use crate::structural::{PatchStrategy, Schema, ValueType};

/// A node of the schema, with the strategy of the field that led to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup<'a> {
    schema: &'a Schema,
    name: &'a str,
    is_root: bool,
    strategy: PatchStrategy,
    merge_key: Option<&'a str>,
    work: &'a Work,
}

/// The comparisons that a patch may still make. Items of lists are found by walking, so that a list of many times a list
/// of many is what a patch can cost.
#[derive(Debug)]
pub(crate) struct Work(Cell<usize>);

/// Comparisons of one patch: a thousand items against ten thousand, twice. They take well below a second.
const COMPARISONS_MAX: usize = 20_000_000;

// === impl Work ===

impl Work {
    pub(crate) fn new() -> Self {
        Self(Cell::new(COMPARISONS_MAX))
    }
}

// === impl Lookup ===

impl<'a> Lookup<'a> {
    /// The object itself.
    pub(crate) fn root(schema: &'a Schema, kind: &'a str, work: &'a Work) -> Self {
        Self {
            schema,
            name: kind,
            is_root: true,
            strategy: PatchStrategy::default(),
            merge_key: None,
            work,
        }
    }

    /// Charges the comparison of each of `left` items with each of `right`.
    pub(crate) fn charge(&self, left: usize, right: usize) -> Result<(), PatchError> {
        let left = self.work.0.get().checked_sub(left.saturating_mul(right));
        self.work.0.set(left.unwrap_or(0));
        left.map(drop).ok_or(PatchError::TooManyItems)
    }

    /// A field that holds a map.
    pub(crate) fn map_field(&self, name: &str) -> Result<Self, PatchError> {
        self.field(name)
    }

    /// A field that holds a list: the schema of its items.
    pub(crate) fn list_field(&self, name: &str) -> Result<Self, PatchError> {
        let field = self.field(name)?;
        match &field.schema.items {
            Some(items) if items.value_type == Some(ValueType::Array) => {
                Err(PatchError::Other("unexpected slice of slice".to_owned()))
            }
            Some(items) => Ok(Self {
                schema: items,
                ..field
            }),
            None if field.schema.value_type.is_none() => Ok(field),
            None => Err(PatchError::Other(
                "expected slice or array type, but got: struct".to_owned(),
            )),
        }
    }

    /// What exists in a Go struct even where the object does not have it.
    pub(crate) fn zero(&self, name: &str) -> Option<Value> {
        let field = self.schema.properties.get(name)?;
        match (field.value_type, &field.default) {
            (Some(ValueType::Object), Some(Value::Object(default))) if default.is_empty() => {
                Some(Value::Object(Map::new()))
            }
            _ => None,
        }
    }

    /// Whether the field is replaced and not merged.
    pub(crate) fn replaces(&self) -> bool {
        self.strategy.replace
    }

    /// Whether items of the list are merged.
    pub(crate) fn merges(&self) -> bool {
        self.strategy.merge
    }

    /// The field by which items of the list are told apart.
    pub(crate) fn merge_key(&self) -> Option<&'a str> {
        self.merge_key
    }

    fn field(&self, name: &str) -> Result<Self, PatchError> {
        if self.is_root && name == "metadata" {
            return Ok(Self {
                is_root: false,
                name: "ObjectMeta",
                schema: &OBJECT_META,
                ..*self
            });
        }
        let Some((name, field)) = self.schema.properties.get_key_value(name) else {
            return Err(PatchError::Other(if self.schema.properties.is_empty() {
                "merging an object in json but data type is not struct, instead is: map".to_owned()
            } else {
                format!(
                    "unable to find api field in struct {} for the json field {}",
                    self.name,
                    dialect::quote(name)
                )
            }));
        };
        Ok(Self {
            schema: field,
            name,
            is_root: false,
            strategy: field.patch_strategy,
            merge_key: field.patch_merge_key.as_deref(),
            work: self.work,
        })
    }
}
