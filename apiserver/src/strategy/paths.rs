//! Simple JSON paths, as definitions name them for the scale subresource: `.spec.replicas`.

use serde_json::{Value, json};

/// Returns the names on a path.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.trim_start_matches('.').split('.')
}

/// Returns the value at a path.
pub(crate) fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    segments(path).try_fold(object, |value, name| value.get(name))
}

/// Sets the value at a path, and creates the objects on the way that are missing.
pub(crate) fn set_at(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for name in segments(path) {
        if !place.is_object() {
            *place = json!({});
        }
        let Some(fields) = place.as_object_mut() else {
            return;
        };
        place = fields.entry(name.to_owned()).or_insert(Value::Null);
    }
    *place = value;
}
