//! Strategic merge patch: a merge patch in which the schema says how lists merge, with directives for the rest.
//!
//! Only built-in kinds take it: their schemas carry patch strategies and merge keys. Directives:
//! - `$patch: replace | delete` in a map, or in an item of a list (`merge` is refused there, as in Kubernetes);
//! - `$retainKeys`: what else the map holds goes;
//! - `$setElementOrder/<list>`: the order of the items that the patch speaks of;
//! - `$deleteFromPrimitiveList/<list>`: scalars to take out of a list.
//!
//! Source: `apimachinery/pkg/util/strategicpatch/patch.go`.

mod lists;
mod lookup;

use std::collections::HashSet;

use api::Status;
use api::status::StatusReason;
use dialect::value::{plain, type_name};
use serde_json::{Map, Value};

use crate::structural::Schema;

use lists::ListRules;
use lookup::{Lookup, Work};

pub(crate) const DIRECTIVE: &str = "$patch";
const REPLACE: &str = "replace";
const DELETE: &str = "delete";
const MERGE: &str = "merge";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Why a patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch, or the object, is no map.
    #[error("invalid JSON document")]
    NotAnObject,
    /// A list of lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// `$retainKeys` is no list, or leaves out a field of the patch.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// `$setElementOrder` is no list, or names no field.
    #[error("invalid patch format of setElementOrder list")]
    SetElementOrder,
    /// `$deleteFromPrimitiveList` names no field.
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    /// Lists of so many items that comparing them would take too long.
    #[error(
        "the lists of the patch and of the object have too many items to be merged: use another kind of patch"
    )]
    TooManyItems,
    /// Anything else, in Kubernetes' words.
    #[error("{0}")]
    Other(String),
}

/// Applies a patch to an object of this kind.
///
/// # Errors
///
/// Returns what is wrong with the patch. Nothing is applied in part.
pub fn strategic_merge(
    object: Value,
    patch: Value,
    schema: &Schema,
    kind: &str,
) -> Result<Value, PatchError> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(PatchError::NotAnObject);
    };
    let work = Work::new();
    merge_map(object, patch, &Lookup::root(schema, kind, &work)).map(Value::Object)
}

/// Merges a map of the patch into a map of the object.
fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: &Lookup<'_>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some(REPLACE) => Ok(patch),
            Some(DELETE) => Ok(Map::new()),
            _ => {
                patch.insert(DIRECTIVE.to_owned(), directive.clone());
                Err(unknown_directive(&directive, patch))
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_element_orders(&mut original, &mut patch, schema)?;
    for (key, value) in patch {
        let deletion = key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST);
        let name = match deletion {
            Some(rest) => rest.strip_prefix('/').ok_or(PatchError::PrimitiveList)?,
            None => &key,
        };
        if value.is_null() {
            original.remove(name);
            continue;
        }
        let before = match original.remove(name) {
            Some(before) => Some(before),
            None => schema.zero(name),
        };
        let merged = match (before, deletion) {
            (Some(before), _) if same_type(&before, &value) => {
                merge_field(before, value, name, schema, deletion.is_some())?
            }
            (before, Some(_)) => before,
            (_, None) => added(value),
        };
        if let Some(merged) = merged {
            original.insert(name.to_owned(), merged);
        }
    }
    Ok(original)
}

/// Merges a value into one of its type.
fn merge_field(
    before: Value,
    value: Value,
    name: &str,
    schema: &Lookup<'_>,
    is_deletion: bool,
) -> Result<Option<Value>, PatchError> {
    Ok(match (before, value) {
        (Value::Object(before), Value::Object(patch)) => {
            let field = schema.map_field(name)?;
            Some(Value::Object(if field.replaces() {
                patch
            } else {
                merge_map(before, patch, &field)?
            }))
        }
        (Value::Array(before), Value::Array(patch)) => {
            let rules = ListRules::of(&schema.list_field(name)?);
            Some(Value::Array(if is_deletion {
                rules.delete(before, &patch)?
            } else {
                rules.merge(before, patch)?
            }))
        }
        (_, value) => without_directives(value),
    })
}

/// What the object did not have: taken as it is, without nulls and directives.
fn added(mut value: Value) -> Option<Value> {
    drop_nulls(&mut value);
    without_directives(value)
}

/// `$retainKeys`: drops what the list does not name.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(retained) = retained else {
        return Err(PatchError::RetainKeys);
    };
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_retained = |name: &str| retained.contains(name);
    let stray = patch.iter().any(|(name, value)| {
        !value.is_null()
            && !name.starts_with(DELETE_FROM_PRIMITIVE_LIST)
            && !name.starts_with(SET_ELEMENT_ORDER)
            && !is_retained(name)
    });
    if stray {
        return Err(PatchError::RetainKeys);
    }
    original.retain(|name, _| is_retained(name));
    Ok(())
}

/// `$setElementOrder`: merges the lists that it speaks of, and orders them.
fn set_element_orders(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: &Lookup<'_>,
) -> Result<(), PatchError> {
    let keys: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    for key in keys {
        let order = match patch.remove(&key) {
            Some(Value::Array(order)) => order,
            other => return Err(bad_argument("[]interface {}", &other.unwrap_or_default())),
        };
        let name = key
            .strip_prefix(SET_ELEMENT_ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or(PatchError::SetElementOrder)?;
        let before = list_or_nothing(original.get(name))?;
        let change = list_or_nothing(patch.get(name))?;
        let field = schema.list_field(name)?;
        let rules = ListRules::of(&field);
        rules.check_order(change.map(Vec::as_slice).unwrap_or_default(), &order)?;
        let server_order = before.cloned().unwrap_or_default();
        let types =
            lists::check_types(&server_order, change.map(Vec::as_slice).unwrap_or_default());
        let server_order =
            rules.order_after(server_order, change.map(Vec::as_slice).unwrap_or_default())?;
        let merged = match (before.cloned(), patch.remove(name)) {
            (None, None) => continue,
            (Some(before), Some(Value::Array(change))) => rules.merge(before, change)?,
            (Some(before), _) => before,
            (None, Some(change)) => match without_directives(change) {
                Some(Value::Array(added)) => added,
                _ => continue,
            },
        };
        types?;
        let ordered = rules.order(merged, &order, &server_order)?;
        original.insert(name.to_owned(), Value::Array(ordered));
    }
    Ok(())
}

fn list_or_nothing(value: Option<&Value>) -> Result<Option<&Vec<Value>>, PatchError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(bad_argument("[]interface {}", other)),
    }
}

/// Takes directives out of a value that is added; `None` if it is itself one.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(fields) => {
            if fields.contains_key(DIRECTIVE) {
                return None;
            }
            let kept = fields
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().filter_map(without_directives).collect())
        }
        scalar => scalar,
    })
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn same_type(left: &Value, right: &Value) -> bool {
    type_name(left) == type_name(right)
}

fn bad_argument(expected: &str, actual: &Value) -> PatchError {
    let actual = match actual {
        Value::Null => "%!s(<nil>)",
        other => type_name(other),
    };
    PatchError::Other(format!("expected a {expected}, but received a {actual}"))
}

fn no_merge_key(item: &Map<String, Value>, key: &str) -> PatchError {
    PatchError::Other(format!(
        "map: {} does not contain declared merge key: {key}",
        plain(&Value::Object(item.clone()))
    ))
}

fn unknown_directive(directive: &Value, item: Map<String, Value>) -> PatchError {
    let shown = match directive {
        Value::String(text) => text.clone(),
        other => format!("%!s({}={})", type_name(other), plain(other)),
    };
    PatchError::Other(format!(
        "unknown patch type: {shown} in map: {}",
        plain(&Value::Object(item))
    ))
}

impl From<PatchError> for Status {
    /// Exhaustive on purpose: a new error must choose its status here.
    fn from(error: PatchError) -> Self {
        let message = error.to_string();
        match error {
            PatchError::NotAnObject
            | PatchError::RetainKeys
            | PatchError::SetElementOrder
            | PatchError::PrimitiveList => Self::bad_request(message),
            PatchError::ListOfLists => Self::failure(
                422,
                StatusReason::Invalid,
                "the server rejected our request due to an error in our request",
            ),
            PatchError::TooManyItems => {
                Self::failure(413, StatusReason::RequestEntityTooLarge, message)
            }
            PatchError::Other(_) => Self::failure(500, StatusReason::Unknown, message),
        }
    }
}

#[cfg(test)]
mod tests;
