//! Fields of an object that the server keeps: copying them from the live object, and those that only it may set.
//!
//! Source: apiserver/pkg/registry/rest/{create,update,meta}.go.

use api::meta;
use serde_json::Value;

/// Fields that clients cannot set on a new object.
const SYSTEM_FIELDS: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// Removes the fields of a new object that only the server may set.
pub(crate) fn wipe_system_fields(object: &mut Value) {
    for name in SYSTEM_FIELDS {
        meta::remove_field(object, name);
    }
}

/// Sets the fields of a new object that only the server may set.
pub(crate) fn fill_system_fields(object: &mut Value, uid: &str, now: &str) {
    wipe_system_fields(object);
    meta::set_uid(object, uid);
    meta::set_creation_timestamp(object, now);
}

/// Restores metadata that an update cannot change.
pub(crate) fn restore_system_fields(object: &mut Value, live: &Value) {
    for name in ["generation", "creationTimestamp"] {
        copy_metadata(object, live, name);
    }
    meta::remove_field(object, "selfLink");
    if meta::uid(object).is_empty() {
        copy_metadata(object, live, "uid");
    }
    copy_metadata(object, live, "deletionTimestamp");
    let has = |object: &Value| {
        meta::metadata(object).is_some_and(|it| it.contains_key("deletionGracePeriodSeconds"))
    };
    if has(live) && !has(object) || !meta::is_terminating(live) {
        copy_metadata(object, live, "deletionGracePeriodSeconds");
    }
}

/// Copies a top-level field, absence included.
pub(crate) fn copy(object: &mut Value, from: &Value, name: &str) {
    put(object, name, from.get(name).cloned());
}

/// Sets a top-level field, or removes it.
pub(super) fn put(object: &mut Value, name: &str, value: Option<Value>) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
}

/// Copies a field of metadata, absence included.
pub(super) fn copy_metadata(object: &mut Value, from: &Value, name: &str) {
    match meta::metadata(from).and_then(|fields| fields.get(name)) {
        Some(value) => drop(meta::metadata_mut(object).insert(name.to_owned(), value.clone())),
        None => drop(meta::remove_field(object, name)),
    }
}
