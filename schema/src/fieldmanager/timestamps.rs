//! The rule that a write which changes nothing writes nothing: a time alone is no change.
//!
//! Source: `apiserver/pkg/endpoints/handlers/fieldmanager/equality.go`; api-compat 3.6.

use serde_json::{Map, Value};

use super::compare::same_object;
use super::managed_fields;
use super::model::MANAGED_FIELDS;

/// Gives the owners in the new object the times of the stored one, if the two differ in these times alone. Comes last:
/// after defaults and after the fields that the endpoint does not write were put back.
pub fn keep_times_if_unchanged(live: &Value, new: &mut Value) {
    let (Some(Value::Array(before)), Some(Value::Array(after))) =
        (managed_fields(live), managed_fields(new))
    else {
        return;
    };
    let same_owners = before.len() == after.len()
        && before
            .iter()
            .zip(after)
            .all(|(before, after)| match (before, after) {
                (Value::Object(before), Value::Object(after)) => same_but_for_time(before, after),
                _ => before == after,
            });
    if !same_owners || before == after || !same_object(live, new) {
        return;
    }
    let kept = Value::Array(before.clone());
    if let Some(Value::Object(metadata)) = new.get_mut("metadata") {
        metadata.insert(MANAGED_FIELDS.to_owned(), kept);
    }
}

fn same_but_for_time(before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
    let others =
        |entry: &Map<String, Value>| entry.iter().filter(|(name, _)| *name != "time").count();
    others(before) == others(after)
        && before
            .iter()
            .filter(|(name, _)| *name != "time")
            .all(|(name, value)| after.get(name) == Some(value))
}
