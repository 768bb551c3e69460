//! Drift: whether a live object still is what was applied, told without asking the server.
//!
//! An apply that changes nothing still costs the server as much as one that does, so plans leave out what need not be
//! applied. After an apply two hashes are remembered: of what was asked for, and of what the server made of just those
//! fields (a quantity `1000m` becomes `1`). As long as both are the same, nothing has drifted. Without such a record
//! (after a restart) the live object must hold everything that is asked for, and the server's record of what we own
//! must name nothing that is no longer asked for.
//!
//! Invariant: a false alarm costs one apply, after which there is a record; drift in a field that we set is never missed
//! while the live object is complete.

use api::kro::keys;
use serde_json::{Map, Value};

/// What is remembered of an apply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Applied {
    /// The hash of what was asked for.
    pub desired: u64,
    /// The hash of what the server made of it; unknown when only the former was kept.
    pub live: Option<u64>,
}

// === impl Applied ===

impl Applied {
    /// Records an apply: what was asked for, and what the server answered.
    pub fn of(desired: &Value, answer: &Value) -> Self {
        Self {
            desired: digest(desired),
            live: Some(projection(desired, answer)),
        }
    }
}

/// Returns whether `desired` has to be applied to `live`.
pub(crate) fn needs_apply(
    desired: &Value,
    desired_digest: u64,
    live: &Value,
    record: Option<&Applied>,
) -> bool {
    match record {
        Some(record) if record.desired != desired_digest => true,
        Some(Applied {
            live: Some(projected),
            ..
        }) => *projected != projection(desired, live),
        Some(Applied { live: None, .. }) => !covers(desired, live),
        None => !covers(desired, live) || owns_more(live, desired),
    }
}

/// Hashes a value.
pub(crate) fn digest(value: &Value) -> u64 {
    let mut hash = Digest::default();
    hash.feed(Some(value));
    hash.0
}

/// Hashes those parts of a live object that stand at the places that `desired` names.
fn projection(desired: &Value, live: &Value) -> u64 {
    let mut hash = Digest::default();
    hash.project(desired, Some(live));
    hash.0
}

/// A hash for telling whether something has changed, eight bytes at a step. It is kept for as long as the process runs,
/// or in the ledger; whoever makes two of his own objects collide loses an update of his own.
#[derive(Default)]
struct Digest(u64);

/// An odd constant without a pattern: the first digits of the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

// === impl Digest ===

impl Digest {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ MULTIPLIER) * u128::from(MULTIPLIER);
        let [low, high] = [product, product >> 64].map(|half| half & u128::from(u64::MAX));
        self.0 = u64::try_from(low ^ high).expect("both are halves");
    }

    fn tag(&mut self, kind: u8, length: usize) {
        self.mix(u64::from(kind) << 56 | length as u64);
    }

    fn text(&mut self, text: &str) {
        self.tag(b'"', text.len());
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word.iter_mut()
                .zip(chunk)
                .for_each(|(place, byte)| *place = *byte);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn feed(&mut self, value: Option<&Value>) {
        match value {
            None => self.tag(b'-', 0),
            Some(Value::Null) => self.tag(b'n', 0),
            Some(Value::Bool(value)) => self.tag(b'b', usize::from(*value)),
            Some(Value::Number(number)) => match number.as_i64() {
                Some(integer) => self.mix(u64::from_le_bytes(integer.to_le_bytes())),
                None => self.mix(number.as_f64().unwrap_or_default().to_bits()),
            },
            Some(Value::String(text)) => self.text(text),
            Some(Value::Array(items)) => {
                self.tag(b'[', items.len());
                for item in items {
                    self.feed(Some(item));
                }
            }
            Some(Value::Object(map)) => {
                self.tag(b'{', map.len());
                for (name, value) in map {
                    self.text(name);
                    self.feed(Some(value));
                }
            }
        }
    }

    fn project(&mut self, desired: &Value, live: Option<&Value>) {
        match (desired, live) {
            (Value::Object(desired), Some(Value::Object(live))) => {
                self.tag(b'{', desired.len());
                for (name, value) in desired {
                    self.text(name);
                    self.project(value, live.get(name));
                }
            }
            (Value::Array(desired), Some(Value::Array(live))) => {
                self.tag(b'[', desired.len());
                for (index, value) in desired.iter().enumerate() {
                    self.project(value, live.get(index));
                }
            }
            (_, live) => self.feed(live),
        }
    }
}

/// Returns whether `live` holds everything that `desired` says. A null asks for absence.
fn covers(desired: &Value, live: &Value) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => {
            desired.iter().all(|(name, value)| match live.get(name) {
                Some(live) => covers(value, live),
                None => is_nothing(value),
            })
        }
        (Value::Array(desired), Value::Array(live)) => {
            desired.len() == live.len()
                && desired
                    .iter()
                    .zip(live)
                    .all(|(desired, live)| covers(desired, live))
        }
        (Value::Number(desired), Value::Number(live)) => {
            desired == live || desired.as_f64() == live.as_f64()
        }
        (desired, live) => desired == live,
    }
}

/// What the server leaves out when it stores: null, and maps and lists of nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Returns whether the server's record of what we own names a field that is no longer asked for. Without a record of ours
/// nothing is known, and an apply will tell.
fn owns_more(live: &Value, desired: &Value) -> bool {
    let entries = live
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let ours = entries.into_iter().flatten().find(|entry| {
        entry.get("manager").and_then(Value::as_str) == Some(keys::MANAGER_APPLYSET)
            && entry.get("operation").and_then(Value::as_str) == Some("Apply")
            && entry
                .get("subresource")
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
    });
    match ours
        .and_then(|entry| entry.get("fieldsV1"))
        .and_then(Value::as_object)
    {
        Some(fields) => !names_only(fields, desired),
        None => true,
    }
}

/// Returns whether every field of a field set stands in the value.
fn names_only(fields: &Map<String, Value>, value: &Value) -> bool {
    fields.iter().all(|(element, below)| {
        if element == "." {
            return true;
        }
        let Some(child) = find(element, value) else {
            return false;
        };
        below
            .as_object()
            .is_none_or(|below| names_only(below, child))
    })
}

fn find<'v>(element: &str, value: &'v Value) -> Option<&'v Value> {
    let (kind, rest) = element.split_once(':')?;
    match kind {
        "f" => value.get(rest),
        "i" => value.get(rest.parse::<usize>().ok()?),
        "v" => {
            let wanted: Value = serde_json::from_str(rest).ok()?;
            value.as_array()?.iter().find(|item| **item == wanted)
        }
        "k" => {
            let wanted: Map<String, Value> = serde_json::from_str(rest).ok()?;
            // A key that we left to its default is not in our item.
            let fits = |item: &&Value| {
                wanted
                    .iter()
                    .all(|(name, key)| item.get(name).is_none_or(|found| found == key))
            };
            value.as_array()?.iter().find(fits)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn desired() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"x": "1"}},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "resources": {"cpu": "1000m"}}]}}},
        })
    }

    /// What the server makes of it: defaults, a status, and a quantity in its own words.
    fn answer() -> Value {
        let mut live = desired();
        live["metadata"]["uid"] = json!("u");
        live["status"] = json!({"readyReplicas": 0});
        live["spec"]["template"]["spec"]["containers"][0] =
            json!({"name": "c", "image": "default", "resources": {"cpu": "1"}});
        live
    }

    fn needed(desired: &Value, live: &Value, record: Option<&Applied>) -> bool {
        needs_apply(desired, digest(desired), live, record)
    }

    #[test]
    fn what_the_server_made_of_our_words_is_no_drift() {
        let record = Applied::of(&desired(), &answer());
        let mut later = answer();
        later["status"]["readyReplicas"] = json!(2);
        later["metadata"]["annotations"] = json!({"foreign": "x"});
        assert!(!needed(&desired(), &later, Some(&record)));
        assert!(
            needed(&desired(), &answer(), None),
            "without a record a quantity looks like drift"
        );
    }

    #[test]
    fn changed_and_removed_fields_of_ours_are_drift() {
        let record = Applied::of(&desired(), &answer());
        let mut edited = answer();
        edited["spec"]["replicas"] = json!(5);
        assert!(needed(&desired(), &edited, Some(&record)));
        let mut removed = answer();
        removed["metadata"]["labels"]
            .as_object_mut()
            .expect("a map")
            .remove("x");
        assert!(needed(&desired(), &removed, Some(&record)));
    }

    #[test]
    fn digests_tell_values_apart() {
        let values = [
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(1),
            json!(-1),
            json!(0.5),
            json!(""),
            json!("a"),
            json!("b"),
            json!("ab"),
            json!("abcdefgh"),
            json!("abcdefghi"),
            json!([]),
            json!([[]]),
            json!(["a"]),
            json!(["a", "b"]),
            json!([["a"], "b"]),
            json!({}),
            json!({"a": null}),
            json!({"a": "b"}),
            json!({"a": {"b": null}}),
            json!({"ab": ""}),
            json!({"a": "", "b": ""}),
        ];
        let digests: BTreeSet<u64> = values.iter().map(digest).collect();
        assert_eq!(digests.len(), values.len());
        assert_eq!(
            digest(&json!({"b": 1, "a": 2})),
            digest(&json!({"a": 2, "b": 1}))
        );
    }

    #[test]
    fn a_new_desire_is_applied_whatever_is_there() {
        let record = Applied::of(&desired(), &answer());
        let mut wanted = desired();
        wanted["spec"]
            .as_object_mut()
            .expect("a map")
            .remove("replicas");
        assert!(
            needed(&wanted, &answer(), Some(&record)),
            "a field is no longer wanted"
        );
        let only_desired = Applied {
            desired: digest(&desired()),
            live: None,
        };
        let mut plain = answer();
        plain["spec"]["template"]["spec"]["containers"][0]["resources"]["cpu"] = json!("1000m");
        assert!(!needed(&desired(), &plain, Some(&only_desired)));
        assert!(needed(&wanted, &plain, Some(&only_desired)));
    }

    #[test]
    fn without_a_record_the_servers_own_record_tells() {
        let desired = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"ports": [{"port": 80}], "set": ["x"]}});
        let live = |fields: Value| {
            let mut live = desired.clone();
            live["spec"]["ports"][0]["protocol"] = json!("TCP");
            live["metadata"]["managedFields"] = json!([
                {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {}}},
                {"manager": "kro.run/applyset", "operation": "Apply", "fieldsV1": fields},
            ]);
            live
        };
        let exact = json!({
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}, "f:set": {"v:\"x\"": {}}},
        });
        assert!(!needed(&desired, &live(exact), None));
        for stale in [
            json!({"f:metadata": {"f:labels": {"f:b": {}}}}),
            json!({"f:spec": {"f:ports": {"k:{\"port\":81}": {}}}}),
            json!({"f:spec": {"f:set": {"v:\"y\"": {}}}}),
        ] {
            assert!(needed(&desired, &live(stale.clone()), None), "{stale}");
        }
        assert!(
            needed(&desired, &desired, None),
            "nobody knows who owns what"
        );
    }

    #[test]
    fn what_the_server_leaves_out_is_not_missed() {
        let desired = json!({"spec": {"a": null, "b": {}, "c": [], "d": {"e": null}}});
        assert!(covers(&desired, &json!({"spec": {}})));
        assert!(!covers(&json!({"spec": {"a": 1}}), &json!({"spec": {}})));
        assert!(covers(&json!({"n": 1.0}), &json!({"n": 1})));
    }
}
