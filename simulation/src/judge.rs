//! Judges each write at the moment at which it happens, against the truth of the hub's store and of the spokes.
//!
//! Each rule is named after what it guarantees:
//!
//! - *ledger first*: what the hub applies for an instance, the ledger in the store names already.
//! - *ledger only*: what the hub deletes, the ledger names, and the hub has made.
//! - *kept stays*: what has a deletion policy other than Delete is not deleted.
//! - *foreign untouched*: what others have made is neither changed nor deleted.
//! - *imported untouched*: what others have made of an instance's kind goes only with its instance, and its spec is never set back.
//! - *brake*: without a confirmation, most of an instance's children never go at once.
//! - *own cluster*: what is made for an instance, and told of it, is in its own cluster.
//! - *events stay*: an event about an instance is the spoke's to let go.
//! - *not after the end*: nothing is written for an instance that is gone from the hub.
//! - *one owner*: what was made for one instance is never another's.
//! - *children first*: an instance goes from the hub only when nothing that was made for it is left.
//! - *status monotone*: a status shows no generation older than it has shown, nor an older state of a child.

mod memory;

use std::{fmt, sync::Arc};

use api::{
    kro,
    kro::keys,
    wheelhouse::{self, keys::ANNOTATION_DELETION_POLICY},
};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    spoke::{Key, Spoke, Writer},
    store::{Observed, SteadyStore},
};
pub use memory::Instance;
use memory::{Memory, Origin};

/// The field of a status that shows the state of a child; see [`crate::definition`].
const SHOWN: &str = "shown";

/// Violations that are kept: the first ones tell the story.
const VIOLATION_COUNT_MAX: usize = 20;

/// The judge of one run.
#[derive(Default)]
pub struct Judge {
    // Guards the whole memory; never held across an await.
    memory: Mutex<Memory>,
    violations: Mutex<Vec<String>>,
}

// === impl Judge ===

impl Judge {
    /// Watches every commit of the hub's store.
    pub(crate) fn observe(self: &Arc<Self>, store: &SteadyStore) {
        let judge = Arc::clone(self);
        store.observe(move |observed| judge.on_hub_write(observed));
    }

    /// Returns what was found wrong, the first of it first.
    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// Returns the instances that the hub has.
    pub fn instances(&self) -> Vec<Instance> {
        self.memory.lock().instances()
    }

    /// Returns who has made an object.
    pub fn is_made_by_hub(&self, uid: &str) -> bool {
        matches!(
            self.memory.lock().origin(uid),
            Some(Origin::Child { .. } | Origin::Mirror | Origin::Definition)
        )
    }

    /// Returns the instances whose ledgers are left though they are gone.
    pub fn ledgers_left(&self) -> Vec<String> {
        self.memory.lock().ledgers_left()
    }

    /// Returns whether a ledger has named an object by its uid.
    pub fn is_confirmed(&self, uid: &str) -> bool {
        self.memory.lock().is_confirmed(uid)
    }

    /// Lets states of children become older from now on: a spoke was set back.
    pub fn note_set_back(&self) {
        self.memory.lock().note_set_back();
    }

    fn report(&self, rule: &str, what: &str) {
        let mut violations = self.violations.lock();
        if violations.len() < VIOLATION_COUNT_MAX {
            tracing::error!(rule, reason = what, "violation");
            violations.push(format!("{rule}: {what}"));
        }
    }

    fn on_hub_write(&self, observed: &Observed<'_>) {
        let Some(parts) = apiserver::objects::parse_key(observed.key) else {
            return;
        };
        if parts.group == wheelhouse::INTERNAL_GROUP
            && parts.resource == wheelhouse::INVENTORY_RESOURCE
        {
            let after = observed.after();
            self.memory.lock().note_ledger(parts.name, after.as_ref());
        } else if parts.group == kro::GROUP && parts.resource != kro::RGD_RESOURCE {
            match (observed.before(), observed.after()) {
                (before, Some(after)) => {
                    let before =
                        before.filter(|before| api::meta::uid(before) == api::meta::uid(&after));
                    if let Some(before) = before {
                        self.judge_status(&before, &after);
                    }
                    self.memory.lock().note_instance(parts.cluster, after);
                }
                (Some(before), None) => {
                    let left = self.memory.lock().forget_instance(api::meta::uid(&before));
                    for place in left {
                        let what = format!("{} goes and leaves {place}", api::meta::name(&before));
                        self.report("children first", &what);
                    }
                }
                (None, None) => {}
            }
        }
    }

    fn judge_status(&self, before: &Value, after: &Value) {
        let name = api::meta::name(after);
        let conditions = |object: &Value| -> Vec<(String, i64)> {
            let conditions = object["status"]["conditions"].as_array();
            let conditions = conditions.into_iter().flatten();
            let pairs = conditions.filter_map(|it| {
                let observed = it["observedGeneration"].as_i64()?;
                Some((it["type"].as_str()?.to_owned(), observed))
            });
            pairs.collect()
        };
        let old = conditions(before);
        for (type_, observed) in conditions(after) {
            let shown = old.iter().find(|(known, _)| *known == type_);
            if let Some((_, shown)) = shown.filter(|(_, shown)| *shown > observed) {
                let what = format!("{name}: {type_} of generation {observed} after {shown}");
                self.report("status monotone", &what);
            }
        }
        let state = after["status"][SHOWN].as_str().map(str::parse::<u64>);
        if let Some(Ok(state)) = state {
            let uid = api::meta::uid(after);
            let shown = self.memory.lock().note_shown(uid, state);
            if shown > state {
                let what = format!("{name}: state {state} of a child is shown after {shown}");
                self.report("status monotone", &what);
            }
        }
    }

    /// Judges a write in a spoke. `after` is none for a removal.
    pub(crate) fn on_spoke_write(
        &self,
        spoke: &Spoke,
        key: &Key,
        writer: Writer,
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        let uid = api::meta::uid(before.or(after).unwrap_or(&Value::Null)).to_owned();
        let place = format!("{} in {}", key, spoke.name());
        if writer == Writer::Hub {
            self.judge_write(spoke, key, &place, before, after);
        } else if before.is_none() {
            let is_instance = key.group == kro::GROUP && key.resource != kro::RGD_RESOURCE;
            let origin = if is_instance {
                Origin::Imported
            } else {
                Origin::Foreign
            };
            self.memory.lock().note_origin(&uid, origin);
        }
        self.memory.lock().note_child(&uid, &place, after);
    }

    fn judge_write(
        &self,
        spoke: &Spoke,
        key: &Key,
        place: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        tracing::debug!(
            place,
            is_new = before.is_none(),
            is_removal = after.is_none(),
            "the hub writes"
        );
        match (before, after) {
            (None, Some(after)) => self.judge_creation(spoke, key, place, after),
            (Some(before), after) => {
                self.judge_change(spoke, place, before, after);
            }
            (None, None) => {}
        }
    }

    fn judge_creation(&self, spoke: &Spoke, key: &Key, place: &str, after: &Value) {
        let mut memory = self.memory.lock();
        let uid = api::meta::uid(after);
        if key.group == api::crd::GROUP {
            memory.note_origin(uid, Origin::Definition);
            return;
        }
        if is_event(key) {
            memory.note_origin(uid, Origin::Event);
            let is_of_seen = memory.is_of_seen(spoke.name(), after);
            drop(memory);
            if !is_of_seen {
                self.report(
                    "own cluster",
                    &format!("{place} is about no instance of its cluster"),
                );
            }
            return;
        }
        let owner = after["metadata"]["labels"][keys::LABEL_INSTANCE_ID].as_str();
        let Some(owner) = owner else {
            memory.note_origin(uid, Origin::Mirror);
            let known = memory.instance_named(spoke.name(), key, &after["kind"]);
            drop(memory);
            if !known {
                self.report(
                    "not after the end",
                    &format!("the mirror {place} is made for no instance"),
                );
            }
            return;
        };
        let owner = owner.to_owned();
        memory.note_made(&owner, place);
        memory.note_origin(
            uid,
            Origin::Child {
                owner: owner.clone(),
            },
        );
        let cluster = memory.cluster_of(&owner);
        let is_named = memory.ledger_names(&owner, key, after);
        drop(memory);
        match cluster {
            None => self.report(
                "not after the end",
                &format!("{place} is made for an instance that is gone"),
            ),
            Some(cluster) if cluster != spoke.name() => {
                self.report(
                    "own cluster",
                    &format!("{place} is made for an instance of {cluster}"),
                );
            }
            Some(_) if !is_named => {
                self.report(
                    "ledger first",
                    &format!("{place} is made and the ledger does not name it"),
                );
            }
            Some(_) => {}
        }
    }

    fn judge_change(&self, spoke: &Spoke, place: &str, before: &Value, after: Option<&Value>) {
        let uid = api::meta::uid(before);
        let is_deletion = after.is_none_or(api::meta::is_terminating);
        let mut memory = self.memory.lock();
        let origin = memory.origin_of(spoke.name(), before);
        if let Some(Origin::Child { owner }) = &origin
            && is_deletion
            && !api::meta::is_terminating(before)
            && let Some((going, all)) = memory.note_pruned(owner, place)
        {
            let (count, gone) = (going.len(), going.join(", "));
            let what = format!(
                "{place} goes as number {count} of {all} at once, and nobody has confirmed it: {gone}"
            );
            self.report("brake", &what);
        }
        if let (Some(Origin::Child { owner }), Some(after)) = (&origin, after) {
            if is_retained(before) {
                memory.inherit(uid, owner);
            }
            let is_of_hub = |it: &Value| api::meta::label(it, wheelhouse::keys::HUB).is_some();
            if is_of_hub(before) && !is_of_hub(after) {
                memory.note_origin(uid, Origin::Foreign); // from now on
            }
        }
        let verdict = match &origin {
            Some(Origin::Foreign) | None => {
                let verb = if is_deletion { "deleted" } else { "changed" };
                Some((
                    "foreign untouched",
                    format!("{place} is {verb}, and the hub has not made it"),
                ))
            }
            Some(Origin::Imported) => {
                let rev = |object: &Value| object["spec"]["rev"].as_i64();
                if is_deletion && !api::meta::is_terminating(before) && !memory.is_ending(uid) {
                    let what = format!("{place} is deleted, and its instance is not");
                    Some(("imported untouched", what))
                } else if after.is_some_and(|after| rev(after) < rev(before)) {
                    let what = format!("{place} is set back to an older spec");
                    Some(("imported untouched", what))
                } else {
                    None
                }
            }
            Some(Origin::Child { owner }) => judge_child(&memory, owner, place, (before, after)),
            Some(Origin::Event) if is_deletion => {
                Some(("events stay", format!("{place} is deleted")))
            }
            Some(Origin::Mirror | Origin::Definition | Origin::Event) => None,
        };
        drop(memory);
        if let Some((rule, what)) = verdict {
            self.report(rule, &what);
        }
    }
}

/// Judges the change of what was made for an instance. Returns the rule that it breaks, and how.
fn judge_child(
    memory: &Memory,
    owner: &str,
    place: &str,
    (before, after): (&Value, Option<&Value>),
) -> Option<(&'static str, String)> {
    let is_deletion = after.is_none_or(api::meta::is_terminating);
    let instance_of = |object: &Value| -> Option<String> {
        let label = object["metadata"]["labels"][keys::LABEL_INSTANCE_ID].as_str();
        label.map(str::to_owned)
    };
    // A deletion leaves a label that somebody else has altered as it is, as long as a finalizer holds the object.
    let given = after.and_then(instance_of);
    let given = given.filter(|given| Some(given) != instance_of(before).as_ref());
    if is_deletion && !api::meta::is_terminating(before) && is_kept(before) {
        let what = format!("{place} is deleted, and its policy says that it stays");
        Some(("kept stays", what))
    } else if !memory.ledger_names_object(owner, before) {
        let rule = if is_deletion {
            "ledger only"
        } else {
            "ledger first"
        };
        Some((
            rule,
            format!("{place} is written and the ledger does not name it"),
        ))
    } else if given.is_some_and(|given| given != *owner) {
        Some(("one owner", format!("{place} becomes another instance's")))
    } else {
        None
    }
}

/// Whether an object stays when nothing wants it any more.
pub(crate) fn is_kept(object: &Value) -> bool {
    let policy = api::meta::annotation(object, ANNOTATION_DELETION_POLICY);
    policy.is_some_and(|policy| policy != "Delete")
}

/// Whether an object then goes on saying whose it was.
pub(crate) fn is_retained(object: &Value) -> bool {
    api::meta::annotation(object, ANNOTATION_DELETION_POLICY) == Some("Retain")
}

fn is_event(key: &Key) -> bool {
    key.group.is_empty() && key.resource == "events"
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").finish_non_exhaustive()
    }
}
