//! The patches that put a finalizer on an object and take it off.
//!
//! # Invariants
//!
//! A patch replaces the whole list, so it holds only for the list that was read: a finalizer that another writer, or a
//! deletion with a propagation policy, has added meanwhile is never taken off.

use client::{Dynamic, Endpoint, Patch};
use serde_json::{Value, json};

/// Returns the JSON patch that puts one more finalizer on an object.
pub(crate) fn add(object: &Value, finalizer: &str) -> Value {
    let mut finalizers: Vec<&str> = api::meta::finalizers(object).into_iter().collect();
    finalizers.push(finalizer);
    json!([
        {"op": "test", "path": "/metadata/uid", "value": api::meta::uid(object)},
        unchanged(object),
        {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
    ])
}

/// Returns the JSON patch that takes one finalizer off an object, if the object is still the one
/// that was read.
fn remove(object: &Value, finalizer: &str) -> Value {
    remove_all(object, &[finalizer])
}

/// The same for several.
pub(crate) fn remove_all(object: &Value, finalizers: &[&str]) -> Value {
    let left: Vec<&str> = api::meta::finalizers(object)
        .into_iter()
        .filter(|name| !finalizers.contains(name))
        .collect();
    json!([
        {"op": "test", "path": "/metadata/uid", "value": api::meta::uid(object)},
        unchanged(object),
        {"op": "replace", "path": "/metadata/finalizers", "value": left},
    ])
}

/// Takes a finalizer off an object, where it has it. An object that is gone by now is done with.
///
/// # Errors
///
/// A conflict or a failed test where the list is another one by now.
pub(crate) async fn take_off(
    calls: &Dynamic,
    endpoint: &Endpoint,
    object: &Value,
    finalizer: &str,
) -> Result<(), client::Error> {
    if !api::meta::has_finalizer(object, finalizer) {
        return Ok(());
    }
    apply(calls, endpoint, object, &remove(object, finalizer)).await
}

/// Sends one of these patches for an object. One that is gone by now is done with.
pub(crate) async fn apply(
    calls: &Dynamic,
    endpoint: &Endpoint,
    object: &Value,
    patch: &Value,
) -> Result<(), client::Error> {
    let name = api::meta::name(object);
    match calls.patch(endpoint, name, None, Patch::Json(patch)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Tests that the list is as it was read. Servers differ in how they test for a field that is not there.
fn unchanged(object: &Value) -> Value {
    let finalizers = api::meta::finalizers(object);
    if finalizers.is_empty() {
        let version = api::meta::resource_version(object);
        return json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    }
    json!({"op": "test", "path": "/metadata/finalizers", "value": finalizers})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_holds_only_for_the_list_that_was_read() {
        let test = |patch: &Value| patch[1].clone();
        let some =
            json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["a", "b"]}});
        let want = json!({"op": "test", "path": "/metadata/finalizers", "value": ["a", "b"]});
        assert_eq!(test(&add(&some, "c")), want, "add");
        assert_eq!(test(&remove(&some, "a")), want, "remove");
        let none = json!({"metadata": {"uid": "u", "resourceVersion": "7"}});
        let want = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"});
        assert_eq!(test(&add(&none, "c")), want, "no list");
    }
}
