//! The patches that put a finalizer on an object and take it off.

use serde_json::{Value, json};

/// Returns the JSON patch that puts one more finalizer on an object.
pub(crate) fn add(object: &Value, finalizer: &str) -> Value {
    let mut finalizers: Vec<&str> = api::meta::finalizers(object).into_iter().collect();
    finalizers.push(finalizer);
    json!([
        {"op": "test", "path": "/metadata/uid", "value": api::meta::uid(object)},
        {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
    ])
}

/// Returns the JSON patch that takes one finalizer off an object, if the object is still the one
/// that was read.
pub(crate) fn remove(object: &Value, finalizer: &str) -> Value {
    let left: Vec<&str> = api::meta::finalizers(object)
        .into_iter()
        .filter(|name| *name != finalizer)
        .collect();
    json!([
        {"op": "test", "path": "/metadata/uid", "value": api::meta::uid(object)},
        {"op": "replace", "path": "/metadata/finalizers", "value": left},
    ])
}
