//! The operations of a JSON patch, as the library that Kubernetes uses treats them.
//!
//! It differs from RFC 6902 in one way that clients can see: `replace` of a member that is not there adds it.
//! Source: github.com/evanphx/json-patch v4.

use api::status::StatusReason;
use api::{Status, StatusDetails};
use json_patch::PatchOperation;
use serde::Deserialize as _;
use serde_json::Value;

use crate::respond::Refusal;

/// The most operations of a JSON patch.
const OPERATIONS_MAX: usize = 10_000;

const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// Refuses more operations than a patch may have.
pub(super) fn check_count(operations: &[Value]) -> Result<(), Refusal> {
    let count = operations.len();
    if count <= OPERATIONS_MAX {
        return Ok(());
    }
    let text =
        format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}");
    Err(Status::failure(413, StatusReason::RequestEntityTooLarge, text).into())
}

/// Members of operations that mean nothing, as texts for warnings.
pub(super) fn unknown_members(operations: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        for name in operation
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::keys)
        {
            if !MEMBERS.contains(&name.as_str()) {
                found.push(format!("unknown field \"[{index}].{name}\""));
            }
        }
    }
    found
}

/// Applies operations in their order; what was changed before one that fails is thrown away by the caller.
pub(in crate::handle) fn apply(object: &mut Value, operations: &[Value]) -> Result<(), Refusal> {
    for operation in operations {
        let parsed = PatchOperation::deserialize(operation)
            .map_err(|error| not_applicable().because(error))?;
        let parsed = match parsed {
            PatchOperation::Replace(replace) if adds(object, replace.path.as_str()) => {
                let json_patch::ReplaceOperation { path, value } = replace;
                PatchOperation::Add(json_patch::AddOperation { path, value })
            }
            other => other,
        };
        json_patch::patch(object, &[parsed]).map_err(|error| not_applicable().because(error))?;
    }
    Ok(())
}

/// Whether a path leads to a member that is missing in an object.
fn adds(object: &Value, path: &str) -> bool {
    if object.pointer(path).is_some() {
        return false;
    }
    let parent = path
        .rsplit_once('/')
        .and_then(|(parent, _)| object.pointer(parent));
    parent.is_some_and(Value::is_object)
}

/// The refusal of a patch that does not fit its object.
pub(super) fn not_applicable() -> Refusal {
    let text = "the server rejected our request due to an error in our request";
    let status = Status::failure(422, StatusReason::Invalid, text);
    status.with_details(StatusDetails::default()).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_do_what_the_library_of_kubernetes_does() {
        for (name, operations, want) in [
            (
                "replace",
                json!([{"op": "replace", "path": "/a", "value": 2}]),
                Some(json!({"a": 2})),
            ),
            (
                "replace adds",
                json!([{"op": "replace", "path": "/b", "value": 2}]),
                Some(json!({"a": 1, "b": 2})),
            ),
            (
                "no parent",
                json!([{"op": "replace", "path": "/b/c", "value": 2}]),
                None,
            ),
            (
                "remove",
                json!([{"op": "remove", "path": "/a"}]),
                Some(json!({})),
            ),
            (
                "remove nothing",
                json!([{"op": "remove", "path": "/b"}]),
                None,
            ),
            (
                "test",
                json!([{"op": "test", "path": "/a", "value": 9}]),
                None,
            ),
            ("unknown", json!([{"op": "foo", "path": "/a"}]), None),
        ] {
            let mut object = json!({"a": 1});
            let applied = apply(&mut object, operations.as_array().expect("a list"));
            assert_eq!(applied.is_ok().then_some(object), want, "{name}");
        }
    }

    #[test]
    fn members_without_meaning_are_told_by_their_place() {
        let operations = [
            json!({"op": "add", "path": "/a", "foo": 1}),
            json!({"op": "test"}),
        ];
        assert_eq!(unknown_members(&operations), ["unknown field \"[0].foo\""]);
    }
}
