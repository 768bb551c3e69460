//! Taking fields out of a value, and taking a value down to its fields.
//!
//! Atomic lists and maps are taken as a whole or not at all.
//!
//! Source: `structured-merge-diff/typed/remove.go`.

use serde_json::{Map, Value};

use super::element::PathElement;
use super::model::{Atom, ListAtom, MapAtom, Place, Relation};
use super::set::FieldSet;

/// Removes the fields of the set, with all that is below them. A container of which only parts were in the set and
/// nothing is left becomes null.
pub(crate) fn remove_items(place: Place<'_>, value: &Value, fields: &FieldSet) -> Value {
    match (place.resolve(Some(value)), value) {
        (Atom::Scalar(_), value) => value.clone(),
        (Atom::Map(map), Value::Object(members)) if !map.atomic => {
            remove_fields(map, members, fields)
        }
        (Atom::List(list), Value::Array(items)) if list.relation != Relation::Atomic => {
            remove_list_items(list, items, fields)
        }
        _ => Value::Null,
    }
}

/// Keeps the fields of the set alone.
pub(crate) fn extract_items(place: Place<'_>, value: &Value, fields: &FieldSet) -> Value {
    match (place.resolve(Some(value)), value) {
        (Atom::Map(map), Value::Object(members)) if !map.atomic && !members.is_empty() => {
            extract_fields(map, members, fields)
        }
        (Atom::List(list), Value::Array(items))
            if list.relation != Relation::Atomic && !items.is_empty() =>
        {
            extract_list_items(list, items, fields)
        }
        (Atom::Map(_), Value::Object(_))
        | (Atom::List(_), Value::Array(_))
        | (Atom::Scalar(_), _) => value.clone(),
        _ => Value::Null,
    }
}

fn remove_fields(map: MapAtom<'_>, members: &Map<String, Value>, fields: &FieldSet) -> Value {
    let mut kept = Map::new();
    for (name, value) in members {
        let node = fields.get(&PathElement::field(name));
        if node.is_some_and(|node| node.member) {
            continue;
        }
        let value = match node {
            Some(node) => remove_items(map.field(name).place_or_opaque(), value, &node.children),
            None => value.clone(),
        };
        kept.insert(name.clone(), value);
    }
    object_or_null(kept)
}

fn remove_list_items(list: ListAtom<'_>, items: &[Value], fields: &FieldSet) -> Value {
    let mut kept = Vec::new();
    for item in items {
        let node = list
            .element(item)
            .ok()
            .and_then(|element| fields.get(&element));
        if node.is_some_and(|node| node.member) {
            continue;
        }
        kept.push(match node {
            Some(node) => remove_items(list.items, item, &node.children),
            None => item.clone(),
        });
    }
    array_or_null(kept)
}

fn extract_fields(map: MapAtom<'_>, members: &Map<String, Value>, fields: &FieldSet) -> Value {
    let mut kept = Map::new();
    for (name, value) in members {
        let Some(node) = fields.get(&PathElement::field(name)) else {
            continue;
        };
        // A member is extracted with the set of its parent, as structured-merge-diff does: callers pass leaves.
        let below = if node.member { fields } else { &node.children };
        let value = extract_items(map.field(name).place_or_opaque(), value, below);
        kept.insert(name.clone(), value);
    }
    object_or_null(kept)
}

fn extract_list_items(list: ListAtom<'_>, items: &[Value], fields: &FieldSet) -> Value {
    let mut kept = Vec::new();
    for item in items {
        let Ok(element) = list.element(item) else {
            continue;
        };
        let Some(node) = fields.get(&element) else {
            continue;
        };
        kept.push(if node.children.is_empty() {
            item.clone()
        } else {
            extract_items(list.items, item, &node.children)
        });
    }
    array_or_null(kept)
}

fn object_or_null(fields: Map<String, Value>) -> Value {
    if fields.is_empty() {
        Value::Null
    } else {
        Value::Object(fields)
    }
}

fn array_or_null(items: Vec<Value>) -> Value {
    if items.is_empty() {
        Value::Null
    } else {
        Value::Array(items)
    }
}
