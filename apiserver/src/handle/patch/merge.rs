//! JSON merge patches, as Kubernetes applies them.
//!
//! They follow RFC 7386, and in one thing they do not: a list that a patch brings loses the null fields of the objects in it.
//!
//! Source: `evanphx/json-patch` (mergeDocs, pruneNulls).

use serde_json::{Map, Value};

/// Merges a patch into an object.
pub(super) fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (object.get_mut(name), value) {
            (_, Value::Null) => {
                object.remove(name);
            }
            (Some(Value::Object(inner)), Value::Object(patch)) => merge(inner, patch),
            (Some(inner @ Value::Object(_)), value) => *inner = value.clone(),
            (_, value) => {
                let mut value = value.clone();
                prune(&mut value);
                object.insert(name.clone(), value);
            }
        }
    }
}

/// Takes null fields out of all objects of a value. An item of a list stays what it is.
fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|_, field| {
            prune(field);
            !field.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merges_are_those_of_kubernetes() {
        for (name, object, patch, want) in [
            ("nothing", json!({"a": 1}), json!({}), json!({"a": 1})),
            (
                "removed",
                json!({"a": 1}),
                json!({"a": null, "b": null}),
                json!({}),
            ),
            (
                "below",
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": null}}),
                json!({"a": {"c": 2}}),
            ),
            (
                "new",
                json!({}),
                json!({"a": {"b": null, "c": {"d": null}}}),
                json!({"a": {"c": {}}}),
            ),
            (
                "in the place of a text",
                json!({"a": ""}),
                json!({"a": {"b": null}}),
                json!({"a": {}}),
            ),
            (
                "a list",
                json!({"a": [1]}),
                json!({"a": [{"b": null}, null]}),
                json!({"a": [{}, null]}),
            ),
            (
                "a list in the place of an object",
                json!({"a": {}}),
                json!({"a": [{"b": null}]}),
                json!({"a": [{"b": null}]}),
            ),
        ] {
            let (mut object, patch) = (object, patch);
            let patch = patch.as_object().expect("a patch is an object");
            merge(object.as_object_mut().expect("it is one"), patch);
            assert_eq!(object, want, "{name}");
        }
    }
}
