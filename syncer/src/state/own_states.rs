//! States of objects, by which a reconcile knows its own writes when a watch tells of them.
//!
//! # Invariants
//!
//! A reconcile is not run again for a state only where its own write brought the state about, nothing that counts came between that
//! write and what it knew before, and it has planned with that state since. Whatever else it did, a deletion for example, has it run
//! again: what it wrote may speak of what was before.

use std::collections::HashSet;

use client::reflector::RawObject;
use serde_json::Value;

use super::actors::Place;

/// Whose state it is. A spoke chooses the uids and versions of its objects, which may be those of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Of {
    /// The instance on the hub.
    Instance,
    /// A child, where it is.
    Child(Place),
}

/// Names a state of an object: no other object of that place, and no other state of it, has the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ObjectState {
    of: Of,
    uid: String,
    resource_version: String,
}

/// What a reconcile brought about itself.
#[derive(Debug, Default)]
pub(crate) struct OwnStates {
    states: HashSet<ObjectState>,
    wrote_metadata: bool,
    is_void: bool,
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing is left to be done.
    Settled,
    /// It waits for something.
    Waiting,
    /// It is tried again later in any case.
    Failed,
}

/// What is to follow a reconcile because of its own writes.
#[derive(Debug)]
pub(crate) enum After {
    /// Whatever it is added for meanwhile.
    Nothing,
    /// The same, but for these states.
    NotFor(HashSet<ObjectState>),
    /// Another reconcile.
    Again,
}

// === impl ObjectState ===

impl ObjectState {
    pub(crate) fn new(of: Of, object: &RawObject) -> Self {
        Self {
            of,
            uid: object.uid.clone(),
            resource_version: object.resource_version.clone(),
        }
    }
}

// === impl OwnStates ===

impl OwnStates {
    /// Takes up the answer to an apply of a child, with which it is planned from now on.
    pub(crate) fn applied(&mut self, seen: ObjectState) {
        self.states.insert(seen);
    }

    /// Takes up the answer to a write of the instance, with what was known before it; nothing was `written` but a status. That is no
    /// reason to look again while something is waited for: a status may be written each time.
    pub(crate) fn answered(&mut self, known: &Value, answer: &Value, written: &Value) {
        let version = api::meta::resource_version(answer);
        if api::meta::resource_version(known) == version {
            return; // nothing was written, and no watch tells of it
        }
        self.wrote_metadata |= !written.is_null();
        if is_ours(known, answer, written) {
            self.states.insert(ObjectState {
                of: Of::Instance,
                uid: api::meta::uid(answer).to_owned(),
                resource_version: version.to_owned(),
            });
        } else {
            self.look_again();
        }
    }

    /// Has the instance looked at once more.
    pub(crate) const fn look_again(&mut self) {
        self.is_void = true;
    }

    /// Returns what is to follow a reconcile.
    pub(crate) fn after(&mut self, ended: Ended) -> After {
        let states = std::mem::take(&mut self.states);
        match ended {
            // Also after a failure: what somebody else has changed may be the end of it, and a watch may not tell of that any more.
            _ if self.is_void => After::Again,
            Ended::Settled => After::NotFor(states),
            Ended::Waiting if self.wrote_metadata => After::Again,
            Ended::Waiting | Ended::Failed => After::Nothing,
        }
    }
}

/// Returns whether the answer to a write of ours is what was known of an instance before and what `written` names, but for its status.
/// Where it is not, somebody else has changed the instance in between, or it is read by another schema now.
fn is_ours(known: &Value, answer: &Value, written: &Value) -> bool {
    let same = |pointer: &str| known.pointer(pointer) == answer.pointer(pointer);
    let parts = [
        "/apiVersion",
        "/spec",
        "/metadata/uid",
        "/metadata/generation",
    ];
    parts.into_iter().all(same)
        && same("/metadata/deletionTimestamp")
        && ["labels", "annotations"]
            .into_iter()
            .all(|part| others(known, part, written).eq(others(answer, part, written)))
        && finalizers(known, written).eq(finalizers(answer, written))
}

/// The labels or annotations that a write does not name.
fn others<'o>(
    object: &'o Value,
    part: &'static str,
    written: &'o Value,
) -> impl Iterator<Item = (&'o String, &'o Value)> {
    let entries = object["metadata"][part].as_object().into_iter().flatten();
    entries.filter(move |(key, _)| written["metadata"][part].get(key.as_str()).is_none())
}

/// The finalizers that a write does not name.
fn finalizers<'o>(object: &'o Value, written: &'o Value) -> impl Iterator<Item = &'o Value> {
    let named = written["metadata"]["finalizers"].as_array();
    let all = object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten();
    all.filter(move |name| !named.is_some_and(|named| named.contains(name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::raw;

    fn instance() -> Value {
        json!({
            "apiVersion": "kro.run/v1", "kind": "App",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "generation": 1,
                "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["x"]},
            "spec": {"size": 1},
        })
    }

    #[test]
    fn an_answer_is_ours_where_nothing_but_the_write_came_between() {
        let written = json!({"metadata": {"labels": {"ours": "1"}, "finalizers": ["ours"]}});
        let cases: [(&str, fn(&mut Value), bool); 11] = [
            (
                "a version",
                |it| it["metadata"]["resourceVersion"] = json!("9"),
                true,
            ),
            (
                "a status",
                |it| it["status"] = json!({"state": "ACTIVE"}),
                true,
            ),
            (
                "a label of ours",
                |it| it["metadata"]["labels"]["ours"] = json!("1"),
                true,
            ),
            (
                "a finalizer of ours",
                |it| it["metadata"]["finalizers"] = json!(["x", "ours"]),
                true,
            ),
            (
                "a label",
                |it| it["metadata"]["labels"]["a"] = json!("c"),
                false,
            ),
            (
                "an annotation less",
                |it| it["metadata"]["annotations"] = json!({}),
                false,
            ),
            (
                "a finalizer",
                |it| it["metadata"]["finalizers"] = json!([]),
                false,
            ),
            (
                "a deletion",
                |it| it["metadata"]["deletionTimestamp"] = json!("now"),
                false,
            ),
            (
                "a generation",
                |it| it["metadata"]["generation"] = json!(2),
                false,
            ),
            (
                "another schema's version",
                |it| it["apiVersion"] = json!("kro.run/v2"),
                false,
            ),
            (
                "another schema's default",
                |it| it["spec"]["color"] = json!("red"),
                false,
            ),
        ];
        for (name, change, want) in cases {
            let mut answer = instance();
            change(&mut answer);
            assert_eq!(is_ours(&instance(), &answer, &written), want, "{name}");
        }
        let mut again = instance();
        again["metadata"]["uid"] = json!("v");
        assert!(
            !is_ours(&instance(), &again, &written),
            "another of its name"
        );
    }

    #[test]
    fn a_spoke_cannot_name_a_state_of_an_instance() {
        let object = raw(&instance());
        let states = [
            Of::Instance,
            Of::Child(Place::Cluster),
            Of::Child(Place::Hub),
        ];
        let names: HashSet<ObjectState> = states
            .into_iter()
            .map(|of| ObjectState::new(of, &object))
            .collect();
        assert_eq!(names.len(), 3, "one uid and version in three places");
    }

    #[test]
    fn what_is_left_to_be_done_is_looked_at_again() {
        type Steps<'a> = &'a [&'a dyn Fn(&mut OwnStates)];
        let status = |own: &mut OwnStates| {
            let mut answer = instance();
            answer["metadata"]["resourceVersion"] = json!("6");
            own.answered(&instance(), &answer, &Value::Null);
        };
        let labels = |own: &mut OwnStates| {
            let mut answer = instance();
            answer["metadata"]["resourceVersion"] = json!("6");
            answer["metadata"]["labels"]["ours"] = json!("1");
            let written = json!({"metadata": {"labels": {"ours": "1"}}});
            own.answered(&instance(), &answer, &written);
        };
        let changed = |own: &mut OwnStates| {
            let mut answer = instance();
            answer["metadata"]["resourceVersion"] = json!("6");
            answer["spec"] = json!({});
            own.answered(&instance(), &answer, &Value::Null);
        };
        let nothing = |own: &mut OwnStates| own.answered(&instance(), &instance(), &Value::Null);
        let child = |own: &mut OwnStates| {
            let object = raw(&instance());
            own.applied(ObjectState::new(Of::Child(Place::Cluster), &object));
        };
        // (what was done, how many states are no reason where nothing is left, and whether it is looked at again where it waits)
        let cases: [(&str, Steps<'_>, Option<usize>, bool); 7] = [
            ("nothing", &[], Some(0), false),
            ("a write that changes nothing", &[&nothing], Some(0), false),
            ("a child", &[&child], Some(1), false),
            ("a status", &[&child, &status], Some(2), false),
            ("labels", &[&child, &labels], Some(2), true),
            (
                "a status after another's change",
                &[&child, &changed, &status],
                None,
                true,
            ),
            ("a deletion", &[&OwnStates::look_again, &child], None, true),
        ];
        for (name, steps, settled, waiting) in cases {
            let after = |ended| {
                let mut own = OwnStates::default();
                for step in steps {
                    step(&mut own);
                }
                own.after(ended)
            };
            let known = match after(Ended::Settled) {
                After::NotFor(states) => Some(states.len()),
                After::Nothing | After::Again => None,
            };
            assert_eq!(known, settled, "{name}, settled");
            let is_again = matches!(after(Ended::Waiting), After::Again);
            assert_eq!(is_again, waiting, "{name}, waiting");
            let is_again = matches!(after(Ended::Failed), After::Again);
            assert_eq!(is_again, settled.is_none(), "{name}, failed");
        }
    }
}
