//! The operations of a JSON patch, as the library that Kubernetes uses treats them.
//!
//! It differs from RFC 6902 in what it lets pass: `replace` of a member that is not there adds it, `copy` of one adds null, and a `test`
//! that one is null holds; an index may be counted from the end (`-1`); nothing is added at the root; `~2` stands for itself; what is before the first slash is not
//! looked at; a `value` that is missing is null.
//!
//! # Invariants
//! - What an operation makes is charged before it is made: the bytes that `copy` adds, the memory of the object, its depth,
//!   and the items of lists that have to move. A patch of 2 KB once took 23 GB with some 20 operations.
//!
//! Source: github.com/evanphx/json-patch v4 (`AccumulatedCopySizeLimit`), apiserver/pkg/server/config.go
//! (`JSONPatchMaxCopyBytes`).

use api::growth::{Growth, depth};
use api::status::StatusReason;
use api::{Status, StatusCause, StatusDetails};
use json_patch::PatchOperation;
use serde::Deserialize as _;
use serde_json::Value;

use crate::handle::limits::{BODY_BYTES_MAX, OBJECT_DEPTH_MAX};
use crate::refusal::Refusal;

/// The most operations of a JSON patch.
const OPERATIONS_MAX: usize = 10_000;

/// Bytes of JSON that all `copy` operations of a patch may add together: as many as a request has.
const COPY_BYTES_MAX: usize = BODY_BYTES_MAX;
/// Items of lists that all operations of a patch may move, and values that they may walk over. A moved item is 32 bytes:
/// this many are well below a second.
const STEPS_MAX: usize = 20_000_000;

const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// Refuses more operations than a patch may have.
pub(crate) fn check_count(operations: &[Value]) -> Result<(), Refusal> {
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

/// Whether all operations were applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tested {
    Applied,
    /// A `test` did not hold, and ended them.
    Failed,
}

/// Applies operations in their order; what was changed before one that fails is thrown away by the caller.
pub(crate) fn apply(object: &mut Value, operations: &[Value]) -> Result<(), Refusal> {
    match apply_tested(object, operations)? {
        Tested::Applied => Ok(()),
        Tested::Failed => Err(not_applicable()),
    }
}

/// Applies operations as [`apply`] does, but for a `test` that does not hold, which is no error.
pub(crate) fn apply_tested(object: &mut Value, operations: &[Value]) -> Result<Tested, Refusal> {
    let mut bounds = Bounds::new();
    for operation in operations {
        let parsed = read(object, operation).map_err(|error| not_applicable().because(error))?;
        bounds.charge(object, &parsed)?;
        let Some(parsed) = lenient(object, parsed) else {
            continue;
        };
        let tested = match &parsed {
            PatchOperation::Test(test) => has_parent(object, test.path.as_str()),
            _ => false,
        };
        match json_patch::patch(object, &[parsed]) {
            Ok(()) => {}
            Err(_) if tested => return Ok(Tested::Failed),
            Err(error) => return Err(not_applicable().because(error)),
        }
    }
    Ok(Tested::Applied)
}

/// Reads an operation, with its paths as RFC 6901 has them.
fn read(object: &Value, operation: &Value) -> Result<PatchOperation, serde_json::Error> {
    let mut operation = operation.clone();
    if let Some(members) = operation.as_object_mut() {
        let op = members.get("op").and_then(Value::as_str);
        let adds = matches!(op, Some("add" | "copy" | "move"));
        let may_be_whole = matches!(op, Some("replace" | "test"));
        for (name, adds) in [("path", adds), ("from", false)] {
            if let Some(Value::String(path)) = members.get_mut(name) {
                if path.is_empty() && !may_be_whole {
                    return Err(serde::de::Error::custom("doc is missing path"));
                }
                *path = regular(object, path, adds);
            }
        }
        members.entry("value").or_insert(Value::Null);
    }
    PatchOperation::deserialize(&operation)
}

/// Brings a path into the form of RFC 6901, as far as the object has what it names. Where something is to be added to a list, there is one
/// more place to count from the end.
fn regular(object: &Value, path: &str, adds: bool) -> String {
    let Some((_, tokens)) = path.split_once('/') else {
        return path.to_owned();
    };
    let (mut at, mut regular) = (Some(object), String::new());
    let mut tokens = tokens.split('/').peekable();
    while let Some(token) = tokens.next() {
        let mut name = token.replace("~1", "/").replace("~0", "~");
        if let Some(Value::Array(items)) = at {
            let places = items.len() + usize::from(adds && tokens.peek().is_none());
            let index = name.parse::<isize>().ok().and_then(|index| {
                if index < 0 {
                    places.checked_add_signed(index)
                } else {
                    usize::try_from(index).ok()
                }
            });
            if let Some(index) = index {
                name = index.to_string();
            }
        }
        at = at.and_then(|at| match at {
            Value::Array(items) => items.get(name.parse::<usize>().ok()?),
            Value::Object(fields) => fields.get(&name),
            _ => None,
        });
        regular.push('/');
        regular.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
    regular
}

/// Lets an operation on a member that is not there do what it does in Kubernetes; `None` where that is nothing.
fn lenient(object: &Value, operation: PatchOperation) -> Option<PatchOperation> {
    Some(match operation {
        PatchOperation::Replace(replace) if adds(object, replace.path.as_str()) => {
            let json_patch::ReplaceOperation { path, value } = replace;
            PatchOperation::Add(json_patch::AddOperation { path, value })
        }
        PatchOperation::Copy(copy) if adds(object, copy.from.as_str()) => {
            PatchOperation::Add(json_patch::AddOperation {
                path: copy.path,
                value: Value::Null,
            })
        }
        PatchOperation::Test(test) if test.value.is_null() && adds(object, test.path.as_str()) => {
            return None;
        }
        other => other,
    })
}

/// What the operations of one patch may still do.
struct Bounds {
    copied_bytes: usize,
    growth: Growth,
    steps_left: usize,
}

// === impl Bounds ===

impl Bounds {
    fn new() -> Self {
        Self {
            copied_bytes: 0,
            growth: Growth::of_object(),
            steps_left: STEPS_MAX,
        }
    }

    /// Charges an operation that has not been applied yet. One that will not apply anyway may be charged or not.
    fn charge(&mut self, object: &Value, operation: &PatchOperation) -> Result<(), Refusal> {
        match operation {
            PatchOperation::Add(add) => {
                self.charge_list(object, add.path.as_str())?;
                check_depth(add.path.as_str(), &add.value)
            }
            PatchOperation::Replace(replace) => check_depth(replace.path.as_str(), &replace.value),
            PatchOperation::Remove(remove) => self.charge_list(object, remove.path.as_str()),
            PatchOperation::Move(moved) => {
                let (from, path) = (moved.from.as_str(), moved.path.as_str());
                self.charge_list(object, from)?;
                self.charge_list(object, path)?;
                match object.pointer(from) {
                    // Elsewhere it is no deeper than it was.
                    Some(value) if levels(path) > levels(from) => {
                        self.charge_steps(value_count(value))?;
                        check_depth(path, value)
                    }
                    _ => Ok(()),
                }
            }
            PatchOperation::Copy(copy) => {
                self.charge_list(object, copy.path.as_str())?;
                let Some(value) = object.pointer(copy.from.as_str()) else {
                    return Ok(());
                };
                self.growth
                    .charge_value(value)
                    .map_err(|error| too_much(&error.to_string()))?;
                check_depth(copy.path.as_str(), value)?;
                self.charge_copy(value)
            }
            PatchOperation::Test(_) => Ok(()),
        }
    }

    /// Charges the bytes of a value that is to be copied.
    fn charge_copy(&mut self, value: &Value) -> Result<(), Refusal> {
        let mut counted = Counted {
            bytes: self.copied_bytes,
        };
        let written = serde_json::to_writer(&mut counted, value);
        self.copied_bytes = counted.bytes;
        if written.is_ok() {
            return Ok(());
        }
        Err(too_much(&format!(
            "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {COPY_BYTES_MAX}",
            counted.bytes
        )))
    }

    /// Charges the items behind the one that a path leads to, which have to move.
    fn charge_list(&mut self, object: &Value, path: &str) -> Result<(), Refusal> {
        let list = path
            .rsplit_once('/')
            .and_then(|(parent, _)| object.pointer(parent))
            .and_then(Value::as_array);
        self.charge_steps(list.map_or(0, Vec::len))
    }

    fn charge_steps(&mut self, steps: usize) -> Result<(), Refusal> {
        self.steps_left = self
            .steps_left
            .checked_sub(steps)
            .ok_or_else(|| too_much("the patch moves too many items of lists: replace the list"))?;
        Ok(())
    }
}

/// Refuses a value that would be too deep at the end of a path.
fn check_depth(path: &str, value: &Value) -> Result<(), Refusal> {
    let rest = OBJECT_DEPTH_MAX.saturating_sub(levels(path));
    if depth(value, rest) > rest {
        return Err(too_much(&format!(
            "the object would be more than {OBJECT_DEPTH_MAX} levels deep"
        )));
    }
    Ok(())
}

/// Counts bytes up to what copies may add.
struct Counted {
    bytes: usize,
}

// === impl Counted ===

impl std::io::Write for Counted {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.bytes = self.bytes.saturating_add(buf.len());
        if self.bytes > COPY_BYTES_MAX {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How many values a value holds, itself among them.
fn value_count(value: &Value) -> usize {
    let below: usize = match value {
        Value::Array(items) => items.iter().map(value_count).sum(),
        Value::Object(fields) => fields.values().map(value_count).sum(),
        _ => 0,
    };
    below.saturating_add(1)
}

/// How many levels below the root a path leads.
fn levels(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
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

/// Whether what holds the member at the end of a path is there.
fn has_parent(object: &Value, path: &str) -> bool {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    object.pointer(parent).is_some()
}

/// The refusal of a patch that would make too much out of too little: Kubernetes' own, which says no more than that the
/// patch does not apply, with the reason as its cause.
fn too_much(reason: &str) -> Refusal {
    let text = "the server rejected our request due to an error in our request";
    let cause = StatusCause {
        message: reason.to_owned(),
        ..StatusCause::default()
    };
    let status = Status::failure(422, StatusReason::Invalid, text);
    status
        .with_details(StatusDetails::default())
        .with_cause(cause)
        .into()
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
                Some(json!({"a": 2, "l": [1, 2]})),
            ),
            (
                "replace adds",
                json!([{"op": "replace", "path": "/b", "value": 2}]),
                Some(json!({"a": 1, "l": [1, 2], "b": 2})),
            ),
            (
                "no parent",
                json!([{"op": "replace", "path": "/b/c", "value": 2}]),
                None,
            ),
            (
                "remove",
                json!([{"op": "remove", "path": "/a"}]),
                Some(json!({"l": [1, 2]})),
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
            let mut object = json!({"a": 1, "l": [1, 2]});
            let applied = apply(&mut object, operations.as_array().expect("a list"));
            assert_eq!(applied.is_ok().then_some(object), want, "{name}");
        }
    }

    #[test]
    fn operations_pass_that_rfc_6902_does_not_know() {
        for (name, operations, want) in [
            (
                "an escape that is none",
                json!([{"op": "add", "path": "/~2~01", "value": 2}]),
                Some(json!({"a": 1, "l": [1, 2], "~2~1": 2})),
            ),
            (
                "no slash before",
                json!([{"op": "add", "path": "x/b", "value": 2}]),
                Some(json!({"a": 1, "l": [1, 2], "b": 2})),
            ),
            ("no slash", json!([{"op": "add", "path": "b"}]), None),
            (
                "all is added",
                json!([{"op": "add", "path": "", "value": {}}]),
                None,
            ),
            (
                "all is replaced",
                json!([{"op": "replace", "path": "", "value": {"b": 1}}]),
                Some(json!({"b": 1})),
            ),
            (
                "no value",
                json!([{"op": "add", "path": "/b"}]),
                Some(json!({"a": 1, "l": [1, 2], "b": null})),
            ),
            (
                "from the end",
                json!([{"op": "add", "path": "/l/-1", "value": 3}, {"op": "remove", "path": "/l/-2"}]),
                Some(json!({"a": 1, "l": [1, 3]})),
            ),
            (
                "before the start",
                json!([{"op": "remove", "path": "/l/-3"}]),
                None,
            ),
            (
                "copy of nothing",
                json!([{"op": "copy", "from": "/b", "path": "/c"}]),
                Some(json!({"a": 1, "l": [1, 2], "c": null})),
            ),
            (
                "test of nothing",
                json!([{"op": "test", "path": "/b", "value": null}]),
                Some(json!({"a": 1, "l": [1, 2]})),
            ),
            (
                "move of nothing",
                json!([{"op": "move", "from": "/b", "path": "/c"}]),
                None,
            ),
        ] {
            let mut object = json!({"a": 1, "l": [1, 2]});
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

    /// Applies operations and tells why they were refused, if they were.
    fn refused(object: &mut Value, operations: &Value) -> Option<String> {
        let refusal = apply(object, operations.as_array().expect("a list")).err()?;
        let status = refusal.status().expect("a status");
        assert_eq!(status.code, 422, "as Kubernetes");
        let causes = &status.details.as_ref().expect("details").causes;
        Some(causes.first().expect("a cause").message.clone())
    }

    #[test]
    fn a_copy_of_copies_ends_where_the_sum_of_their_bytes_is_too_large() {
        // 18 copies of a list into itself once made 1.5 GB out of 2 KB.
        let mut object = json!({"data": {"l": ["x".repeat(100)]}});
        let copy = json!({"op": "copy", "from": "/data/l", "path": "/data/l/-"});
        let operations: Vec<Value> = std::iter::repeat_n(copy, 60).collect();
        let why = refused(&mut object, &json!(operations)).expect("too much");
        assert!(
            why.starts_with("Unable to complete the copy, the accumulated size"),
            "{why}"
        );
        assert!(
            object.to_string().len() <= 2 * COPY_BYTES_MAX,
            "and it ended in time"
        );
    }

    #[test]
    fn a_copy_of_a_small_value_is_as_good_as_ever() {
        let mut object = json!({"a": {"b": 1}});
        let copies: Vec<Value> = (0..1_000)
            .map(|index| json!({"op": "copy", "from": "/a/b", "path": format!("/c{index}")}))
            .collect();
        assert_eq!(refused(&mut object, &json!(copies)), None);
        assert_eq!(object["c999"], json!(1));
    }

    #[test]
    fn copies_of_many_small_maps_are_bounded_by_the_memory_they_take() {
        let maps: Vec<Value> = (0..10_000).map(|_| json!({"a": 0})).collect();
        let mut object = json!({"l": maps});
        let copies: Vec<Value> = (0..30)
            .map(|index| json!({"op": "copy", "from": "/l", "path": format!("/c{index}")}))
            .collect();
        let why = refused(&mut object, &json!(copies)).expect("too much");
        assert!(why.contains("bytes of memory"), "{why}");
    }

    #[test]
    fn no_operation_makes_an_object_deeper_than_can_be_read_again() {
        let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
        let path = "/a".repeat(100);
        for (name, operation) in [
            (
                "add",
                json!({"op": "add", "path": format!("{path}/b"), "value": nested(100)}),
            ),
            (
                "replace",
                json!({"op": "replace", "path": path, "value": nested(100)}),
            ),
            (
                "copy",
                json!({"op": "copy", "from": "/a/a", "path": format!("{path}/b")}),
            ),
            (
                "move",
                json!({"op": "move", "from": "/m", "path": format!("{path}/b")}),
            ),
        ] {
            let mut object = nested(100);
            object["m"] = nested(100);
            let why = refused(&mut object, &json!([operation])).expect(name);
            assert!(why.contains("levels deep"), "{name}: {why}");
        }
    }

    #[test]
    fn operations_on_a_long_list_are_bounded_by_the_items_that_they_move() {
        let mut object = json!({"l": vec![0; 300_000]});
        let insert = json!({"op": "add", "path": "/l/0", "value": 1});
        let operations: Vec<Value> = std::iter::repeat_n(insert, 10_000).collect();
        let why = refused(&mut object, &json!(operations)).expect("too much");
        assert!(why.contains("items of lists"), "{why}");
    }
}
