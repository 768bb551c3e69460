//! Conditions: what an object says about its own state.
//!
//! Source: `apimachinery/pkg/apis/meta/v1/types.go`, `apimachinery/pkg/api/meta/conditions.go`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::wire::or_default;

/// The condition holds.
pub const STATUS_TRUE: &str = "True";
/// The condition does not hold.
pub const STATUS_FALSE: &str = "False";
/// It is not known whether the condition holds.
pub const STATUS_UNKNOWN: &str = "Unknown";

/// The longest message of a condition in bytes, which Kubernetes allows in characters.
const MESSAGE_BYTES_MAX: usize = 32_768;

/// Returns a message that is no longer than that of a condition may be. What does not fit is cut off, because a status
/// that is too large would not be stored at all.
pub fn bounded_message(message: impl Into<String>) -> String {
    const CUT: &str = "...";
    let mut message = message.into();
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX - CUT.len()));
        message.push_str(CUT);
    }
    message
}

/// One thing that an object says about its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// Why, for programs.
    #[serde(deserialize_with = "or_default")]
    pub reason: String,
    /// Why, for people.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// When the status last changed.
    #[serde(deserialize_with = "or_default")]
    pub last_transition_time: String,
    /// The generation that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

// === impl Condition ===

impl Condition {
    /// Makes a condition; the time comes with [`set_condition`].
    pub fn new(type_: &str, status: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: bounded_message(message),
            last_transition_time: String::new(),
            observed_generation: None,
        }
    }

    /// Returns the generation that it is about.
    #[must_use]
    pub fn observed(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }

    /// Returns whether the condition holds.
    pub fn is_true(&self) -> bool {
        self.status == STATUS_TRUE
    }
}

/// Finds the condition of a type.
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Puts a condition in its place; tells whether anything changed. The time of the transition moves only with the
/// status: to the condition's own time, or to `now` where it has none.
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition, now: &str) -> bool {
    if condition.last_transition_time.is_empty() {
        now.clone_into(&mut condition.last_transition_time);
    }
    match conditions
        .iter_mut()
        .find(|existing| existing.type_ == condition.type_)
    {
        None => {
            conditions.push(condition);
            true
        }
        Some(existing) => {
            if existing.status == condition.status {
                existing
                    .last_transition_time
                    .clone_into(&mut condition.last_transition_time);
            }
            let changed = *existing != condition;
            *existing = condition;
            changed
        }
    }
}

/// Sets conditions in the status of an object; returns whether one changed.
pub fn set_conditions(
    object: &mut Value,
    conditions: impl IntoIterator<Item = Condition>,
    now: &str,
) -> bool {
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    let mut all =
        Vec::<Condition>::deserialize(&object["status"]["conditions"]).unwrap_or_default();
    let mut changed = false;
    for condition in conditions {
        changed |= set_condition(&mut all, condition, now);
    }
    if changed {
        object["status"]["conditions"] = serde_json::to_value(all).unwrap_or_default();
    }
    changed
}

/// Removes the condition of a type; tells whether it was there.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let count = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_between_characters_where_it_is_too_long() {
        let short = "ä".repeat(MESSAGE_BYTES_MAX / 2);
        assert_eq!(bounded_message(short.clone()), short);
        let cut = Condition::new("Ready", STATUS_FALSE, "A", "ä".repeat(MESSAGE_BYTES_MAX)).message;
        assert!(cut.len() <= MESSAGE_BYTES_MAX && cut.ends_with("ä..."));
    }

    #[test]
    fn the_time_of_a_transition_moves_with_the_status_alone() {
        let mut conditions = Vec::new();
        let ready = |status, reason| Condition::new("Ready", status, reason, "");
        assert!(set_condition(
            &mut conditions,
            ready(STATUS_FALSE, "A"),
            "t1"
        ));
        assert!(!set_condition(
            &mut conditions,
            ready(STATUS_FALSE, "A"),
            "t2"
        ));
        assert!(set_condition(
            &mut conditions,
            ready(STATUS_FALSE, "B"),
            "t3"
        ));
        assert_eq!(
            find_condition(&conditions, "Ready")
                .unwrap()
                .last_transition_time,
            "t1"
        );
        assert!(set_condition(
            &mut conditions,
            ready(STATUS_TRUE, "B"),
            "t4"
        ));
        assert_eq!(
            find_condition(&conditions, "Ready")
                .unwrap()
                .last_transition_time,
            "t4"
        );
        assert!(set_condition(
            &mut conditions,
            ready(STATUS_TRUE, "B").observed(2),
            "t5"
        ));
        assert_eq!(conditions.len(), 1);
        assert!(remove_condition(&mut conditions, "Ready"));
        assert!(!remove_condition(&mut conditions, "Ready"));
    }
}
