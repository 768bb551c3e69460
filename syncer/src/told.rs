//! Events about Spokes and definitions: that one is not Ready, and that it is again.
//!
//! Its status is the truth; an event also says since when and how often, where `kubectl describe` and whoever collects events look.
//! They are written as those about instances are ([`crate::instances::events`]).

use api::GroupKind;
use serde_json::Value;

use crate::{
    engine::Engine,
    state::{
        events::{Said, Severity, Subject},
        keys::InstanceKey,
        target::{Target, TargetSort},
    },
};

/// The condition that sums the others up.
const READY: &str = "Ready";

/// Tells what the conditions say of an object that the hub keeps for a target. Nothing where the target's events are in a spoke, which
/// does not have the object.
pub(crate) fn tell(target: &Target, group_kind: GroupKind, object: &Value, conditions: &Value) {
    if target.sort == TargetSort::Mirrored {
        return;
    }
    let conditions: Vec<&Value> = conditions.as_array().into_iter().flatten().collect();
    let subject = Subject {
        key: InstanceKey {
            group_kind,
            namespace: String::new(),
            name: api::meta::name(object).to_owned(),
        },
        api_version: api::meta::api_version(object).to_owned(),
        uid: api::meta::uid(object).to_owned(),
    };
    if let Some(said) = trouble(&conditions) {
        target.events.note(&subject, said, &Engine::now());
    } else if is_ready(&conditions) && target.events.note_well(&subject.uid) {
        let said = Said {
            severity: Severity::Normal,
            reason: READY.to_owned(),
            message: "it is ready again".to_owned(),
        };
        target.events.note(&subject, said, &Engine::now());
    }
}

fn is_ready(conditions: &[&Value]) -> bool {
    conditions
        .iter()
        .any(|it| it["type"] == READY && it["status"] == api::meta::STATUS_TRUE)
}

/// Returns what is wrong: what the first condition says that is False, if the object is not Ready because of it.
fn trouble(conditions: &[&Value]) -> Option<Said> {
    let is_false = |it: &&&Value| it["status"] == api::meta::STATUS_FALSE;
    let mut fallen = conditions.iter().filter(is_false);
    let ready = fallen.clone().find(|it| it["type"] == READY)?;
    let first = fallen.find(|it| it["type"] != READY).unwrap_or(ready);
    let text = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
    let (reason, message) = (text("reason"), text("message"));
    (!reason.is_empty()).then_some(Said {
        severity: Severity::Warning,
        reason,
        message,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_condition_that_is_false_says_why_an_object_is_not_ready() {
        let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "m"});
        for (conditions, want) in [
            (json!([]), None),
            (
                json!([
                    condition("Ready", "True", "Ready"),
                    condition("Noted", "False", "Old")
                ]),
                None,
            ),
            (json!([condition("Ready", "Unknown", "Waits")]), None),
            (json!([condition("Ready", "False", "Gone")]), Some("Gone")),
            (
                json!([
                    condition("Ready", "False", "Sum"),
                    condition("A", "True", "Ok"),
                    condition("B", "False", "Cause")
                ]),
                Some("Cause"),
            ),
        ] {
            let list: Vec<&Value> = conditions.as_array().into_iter().flatten().collect();
            let found = trouble(&list).map(|said| said.reason);
            assert_eq!(found.as_deref(), want, "{conditions}");
        }
    }
}
