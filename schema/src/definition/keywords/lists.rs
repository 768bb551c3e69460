//! `x-kubernetes-list-type`, `…-list-map-keys` and `…-map-type`.

use api::{FieldError, FieldPath};
use serde_json::Value;

use super::{Keywords, object, text};

const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const KEYS: &str = "x-kubernetes-list-map-keys";

pub(super) fn validate(keywords: &Keywords, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    map_type(keywords, path, &mut errors);
    let list_type = keywords.get(LIST_TYPE).and_then(Value::as_str);
    list_type_of(keywords, list_type, path, &mut errors);
    let keys = keys(keywords);
    if !keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let place = path.child(LIST_TYPE);
        errors.push(match list_type {
            None => FieldError::required(&place, detail),
            Some(other) => FieldError::invalid(&place, other, detail),
        });
    }
    if list_type == Some("map") {
        list_map(keywords, &keys, path, &mut errors);
    }
    if let (Some(list_type @ ("set" | "map")), Some(items)) = (list_type, object(keywords, "items"))
    {
        identity(items, list_type, &keys, &path.child("items"), &mut errors);
    }
    errors
}

fn keys(keywords: &Keywords) -> Vec<&str> {
    let keys = keywords
        .get(KEYS)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    keys.filter_map(Value::as_str).collect()
}

fn map_type(keywords: &Keywords, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(map_type) = keywords.get(MAP_TYPE).and_then(Value::as_str) else {
        return;
    };
    let value_type = text(keywords, "type");
    must_be("object", value_type, MAP_TYPE, path, errors);
    if !matches!(map_type, "atomic" | "granular") {
        let supported = ["atomic", "granular"];
        errors.push(FieldError::not_supported(
            &path.child(MAP_TYPE),
            map_type,
            supported,
        ));
    }
}

fn must_be(
    wanted: &str,
    found: &str,
    because: &str,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if found == wanted {
        return;
    }
    let detail = format!("must be {wanted} if {because} is specified");
    let place = path.child("type");
    errors.push(match found {
        "" => FieldError::required(&place, detail),
        other => FieldError::invalid(&place, other, detail),
    });
}

fn list_type_of(
    keywords: &Keywords,
    list_type: Option<&str>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let Some(list_type) = list_type else { return };
    let value_type = text(keywords, "type");
    if value_type != "array" {
        must_be("array", value_type, LIST_TYPE, path, errors);
    } else if let ("set", Some(items)) = (list_type, object(keywords, "items")) {
        let (keyword, may_be_unset) = match text(items, "type") {
            "array" => (LIST_TYPE, true),
            "object" => (MAP_TYPE, false),
            _ => ("", true),
        };
        let found = items.get(keyword).and_then(Value::as_str);
        let is_atomic = found.map_or(may_be_unset, |it| it == "atomic");
        if !is_atomic {
            // The value shown is that of the list type, also for maps.
            let shown = items.get(LIST_TYPE).cloned().unwrap_or_default();
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            errors.push(FieldError::invalid(
                &path.child("items").child(keyword),
                shown,
                detail,
            ));
        }
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        let supported = ["atomic", "set", "map"];
        errors.push(FieldError::not_supported(
            &path.child(LIST_TYPE),
            list_type,
            supported,
        ));
    }
}

fn list_map(keywords: &Keywords, keys: &[&str], path: &FieldPath, errors: &mut Vec<FieldError>) {
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&path.child(KEYS), detail));
    }
    let items_path = path.child("items");
    if let Some(several) = keywords.get("items").filter(|items| items.is_array()) {
        let detail = "must only have a single schema if x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(&items_path, several.clone(), detail));
        return;
    }
    let Some(items) = object(keywords, "items") else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&items_path, detail));
        return;
    };
    let item_type = text(items, "type");
    if item_type != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(
            &items_path.child("type"),
            item_type,
            detail,
        ));
        return;
    }
    let properties = object(items, "properties");
    let shown = || Value::from(keys.to_vec());
    for (index, key) in keys.iter().enumerate() {
        match properties.and_then(|it| it.get(*key)?.as_object()) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let place = items_path.child("properties").key(key).child("type");
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&place, item_type, detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&path.child(KEYS), shown(), detail));
            }
        }
        if keys.iter().take(index).any(|earlier| earlier == key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(&path.child(KEYS), shown(), detail));
        }
    }
}

/// Items of sets and maps, and keys of the latter, must always have a value.
fn identity(
    items: &Keywords,
    list_type: &str,
    keys: &[&str],
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let is_nullable = |schema: &Keywords| schema.get("nullable") == Some(&Value::Bool(true));
    if is_nullable(items) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&path.child("nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    let required = items.get("required").and_then(Value::as_array);
    for key in keys {
        let Some(property) = object(items, "properties").and_then(|it| it.get(*key)?.as_object())
        else {
            continue;
        };
        let place = path.child("properties").key(key);
        let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
        let has_default = property.get("default").is_some_and(|it| !it.is_null());
        if !is_required && !has_default {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            errors.push(FieldError::required(&place.child("default"), detail));
        }
        if is_nullable(property) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&place.child("nullable"), detail));
        }
    }
}
