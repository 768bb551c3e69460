//! Maps: a JSON object by reference, or entries that an expression made.
//!
//! A JSON object with a declared object type is read as one: a field that is `null` counts as
//! absent, and a name that is no identifier is also found under its escaped form. Undeclared
//! fields of an object stay visible (kro's divergence from Kubernetes; the checker refuses them
//! unless the type is open).

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Declared, Key, Text, Value};
use crate::error::Failure;
use crate::types::{DeclType, unescape};

/// A map value.
#[derive(Clone, Debug)]
pub(crate) enum Map<'v> {
    /// A JSON object, with its declared map or object type.
    Json(&'v serde_json::Map<String, Json>, Declared<'v>),
    /// Entries in the order of their keys.
    Entries(Arc<[(Key<'v>, Value<'v>)]>),
}

// === impl Map ===

impl<'v> Map<'v> {
    pub(super) fn json(fields: &'v serde_json::Map<String, Json>, ty: Declared<'v>) -> Self {
        Self::Json(fields, ty)
    }

    /// Makes a map.
    ///
    /// # Errors
    ///
    /// Returns the key that occurs twice.
    pub(crate) fn of(mut entries: Vec<(Key<'v>, Value<'v>)>) -> Result<Self, Key<'v>> {
        entries.sort_by(|(left, _), (right, _)| left.order(right));
        let repeated = entries.windows(2).find_map(|pair| match pair {
            [(left, _), (right, _)] if left.order(right).is_eq() => Some(left.clone()),
            _ => None,
        });
        match repeated {
            Some(key) => Err(key),
            None => Ok(Self::Entries(Arc::from(entries))),
        }
    }

    /// Makes a map of text keys; of equal keys the last wins.
    pub(crate) fn of_text(entries: Vec<(Text<'v>, Value<'v>)>) -> Self {
        let entries = entries.into_iter();
        Self::of_last(
            entries
                .map(|(key, value)| (Key::String(key), value))
                .collect(),
        )
    }

    /// Makes a map; of equal keys the last wins.
    ///
    /// Source: `evalMap` in `cel-go/interpreter/interpretable.go`.
    pub(crate) fn of_last(mut sorted: Vec<(Key<'v>, Value<'v>)>) -> Self {
        sorted.sort_by(|(left, _), (right, _)| left.order(right));
        sorted.reverse();
        sorted.dedup_by(|(left, _), (right, _)| left.order(right).is_eq());
        sorted.reverse();
        Self::Entries(Arc::from(sorted))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(fields, _) => fields.len(),
            Self::Entries(entries) => entries.len(),
        }
    }

    /// The value under a key.
    pub(crate) fn get(&self, key: &Value<'_>) -> Result<Option<Value<'v>>, Failure> {
        match (self, Key::of(key)) {
            (Self::Json(..), Some(Key::String(name))) => self.field(&name),
            (Self::Entries(entries), Some(key)) => Ok(find(entries, &key)),
            _ => Ok(None),
        }
    }

    /// The value under a text key, or the field of that name.
    pub(crate) fn field(&self, name: &str) -> Result<Option<Value<'v>>, Failure> {
        match self {
            Self::Entries(entries) => Ok(find(entries, &Key::String(Text::Borrowed(name)))),
            Self::Json(fields, None) => Ok(fields.get(name).map(Value::from_json)),
            Self::Json(fields, Some(ty)) => typed_field(fields, name, ty),
        }
    }

    /// The keys, in order. Fields of a declared object that are `null` are left out.
    pub(crate) fn keys(&self) -> Vec<Value<'v>> {
        match self {
            Self::Entries(entries) => entries.iter().map(|(key, _)| key.value()).collect(),
            Self::Json(fields, ty) => {
                let object = matches!(ty, Some(DeclType::Object(_)));
                fields
                    .iter()
                    .filter(|(_, value)| !(object && value.is_null()))
                    .map(|(name, _)| Value::from(name.as_str()))
                    .collect()
            }
        }
    }

    /// The entries, in the order of their keys.
    pub(crate) fn entries(&self) -> Result<Vec<(Key<'v>, Value<'v>)>, Failure> {
        match self {
            Self::Entries(entries) => Ok(entries.to_vec()),
            Self::Json(fields, ty) => {
                let mut entries = Vec::with_capacity(fields.len());
                for name in fields.keys() {
                    let value = match ty {
                        None => fields.get(name).map(Value::from_json),
                        Some(ty) => typed_field(fields, name, ty)?,
                    };
                    if let Some(value) = value {
                        entries.push((Key::String(Text::Borrowed(name)), value));
                    }
                }
                Ok(entries)
            }
        }
    }
}

fn find<'v>(entries: &[(Key<'v>, Value<'v>)], wanted: &Key<'_>) -> Option<Value<'v>> {
    let index = entries
        .binary_search_by(|(key, _)| key.order(wanted))
        .ok()?;
    entries.get(index).map(|(_, value)| value.clone())
}

fn typed_field<'v>(
    fields: &'v serde_json::Map<String, Json>,
    name: &str,
    ty: &'v DeclType,
) -> Result<Option<Value<'v>>, Failure> {
    match ty {
        DeclType::Map(map) => fields
            .get(name)
            .map(|value| Value::from_typed_json(value, &map.value))
            .transpose(),
        DeclType::Object(object) => {
            let found = fields.get_key_value(name).or_else(|| {
                let name = unescape(name)?;
                fields.get_key_value(&name)
            });
            match found {
                None | Some((_, Json::Null)) => Ok(None),
                Some((name, value)) => match object.fields.get(name) {
                    Some(ty) => Value::from_typed_json(value, ty).map(Some),
                    None => Ok(Some(Value::from_json(value))),
                },
            }
        }
        _ => Ok(fields.get(name).map(Value::from_json)),
    }
}
