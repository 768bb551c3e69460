//! After a restore: what the hub may delete in a spoke, and who has said so.
//!
//! A hub that was restored from a backup knows an older state than its spokes. It puts back what is missing
//! there, but what it does not know, or thinks is to go, may be younger than the backup. So while the
//! ConfigMap that a restore leaves is there, nothing is deleted in a spoke until an annotation on its Spoke names this
//! restore, and says what becomes of instances that only the spoke knows. A condition of the Spoke says what waits.
//!
//! Root and embedded clusters need none of this: their objects were restored together with what wants them.
//!
//! # Invariants
//!
//! While it is not known whether the hub was restored, it counts as restored.

use std::collections::{BTreeSet, HashMap};

use api::{LogicalCluster, wheelhouse::keys};
use client::reflector::{Event, RawObject};
use parking_lot::Mutex;
use tracing::{debug, warn};

use super::{
    keys::InstanceKey,
    target::{Target, TargetSort},
};

/// How many instances a Spoke's condition names; the rest is counted.
const NAMED_COUNT: usize = 3;

/// What is known of a restore, and what waits because of it.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    // Guards everything below; never held across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    origin: Origin,
    /// The annotation of each Spoke that has one.
    answers: HashMap<LogicalCluster, String>,
    /// Instances that have something to be deleted, by spoke.
    waiting: HashMap<LogicalCluster, BTreeSet<InstanceKey>>,
}

/// Where the hub's state comes from.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Origin {
    /// Not known yet.
    #[default]
    Unknown,
    /// From the hub itself.
    Own,
    /// From a backup, and nobody has said yet that this is over.
    Backup(Marker),
}

/// The ConfigMap that a restore leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marker {
    id: String,
    taken_at: String,
}

/// What may be deleted in a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionPolicy {
    /// Whatever the hub wants gone.
    Free,
    /// Nothing: the hub was restored, or it is not known whether it was.
    Held,
    /// Whatever the hub wants gone; and this becomes of instances that it does not know.
    Confirmed(UnknownInstances),
}

/// What becomes of an instance that has a mirror in the spoke, and that the restored hub does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownInstances {
    /// The hub takes it up.
    Keep,
    /// It goes, with its children.
    Delete,
}

/// What is seen of a spoke after a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Instances that only the spoke knows.
    pub(crate) unknown: Vec<InstanceKey>,
    /// Instances of the hub that have something to be deleted.
    pub(crate) waiting: Vec<InstanceKey>,
    /// Whether there may be others: the spoke does not answer, or not everything there is read yet.
    pub(crate) view: View,
}

/// Whether everything in a spoke was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    Partial,
}

/// What a Spoke says of the restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// Whether it is confirmed.
    pub(crate) confirmed: bool,
    /// One word for programs.
    pub(crate) reason: &'static str,
    /// A sentence for people.
    pub(crate) message: String,
}

// === impl Restored ===

impl Restored {
    /// Returns what may be deleted in a target.
    pub(crate) fn deletion_policy(&self, target: &Target) -> DeletionPolicy {
        if target.sort != TargetSort::Mirrored {
            return DeletionPolicy::Free;
        }
        let state = self.state.lock();
        deletion_policy(
            &state.origin,
            state.answers.get(&target.cluster).map(String::as_str),
        )
    }

    /// Whether the hub was not restored from a backup, as far as is known.
    pub(crate) fn is_original(&self) -> bool {
        self.state.lock().origin == Origin::Own
    }

    /// Notes that an instance waits to have something deleted. Returns whether that is new.
    pub(crate) fn note_waiting(&self, cluster: &LogicalCluster, key: &InstanceKey) -> bool {
        let mut state = self.state.lock();
        let waiting = state.waiting.entry(cluster.clone()).or_default();
        waiting.insert(key.clone())
    }

    /// Notes that an instance has come to its end without a deletion. Returns whether it waited.
    pub(crate) fn note_passed(&self, cluster: &LogicalCluster, key: &InstanceKey) -> bool {
        let mut state = self.state.lock();
        let waiting = state.waiting.get_mut(cluster);
        waiting.is_some_and(|waiting| waiting.remove(key))
    }

    /// Takes up a Spoke's annotation. Returns whether it is another answer than before.
    pub(crate) fn note_answer(&self, cluster: &LogicalCluster, answer: Option<&String>) -> bool {
        let mut state = self.state.lock();
        if state.answers.get(cluster) == answer {
            return false;
        }
        match answer {
            Some(answer) => state.answers.insert(cluster.clone(), answer.clone()),
            None => state.answers.remove(cluster),
        };
        state.waiting.remove(cluster);
        true
    }

    /// Returns the restore, and the instances that wait in a target because of it; `None` where the hub was not restored.
    pub(crate) fn waiting(
        &self,
        cluster: &LogicalCluster,
    ) -> Option<(Marker, BTreeSet<InstanceKey>)> {
        let state = self.state.lock();
        let Origin::Backup(marker) = &state.origin else {
            return None;
        };
        let waiting = state.waiting.get(cluster).cloned();
        Some((marker.clone(), waiting.unwrap_or_default()))
    }

    /// Takes up an event of the ConfigMap of a restore. Returns whether what may be deleted has changed.
    pub(crate) fn take(&self, event: Event) -> bool {
        let found = match event {
            Event::Restarted { objects, .. } => {
                objects.iter().find_map(|object| Marker::of(object))
            }
            Event::Applied(object) => match Marker::of(&object) {
                Some(marker) => Some(marker),
                None => return false,
            },
            Event::Deleted(object) if object.name == keys::RESTORE_CONFIG_MAP => None,
            Event::Deleted(_) | Event::Interrupted(_) | Event::Resumed => return false,
        };
        let origin = found.map_or(Origin::Own, Origin::Backup);
        let mut state = self.state.lock();
        if state.origin == origin {
            return false;
        }
        match &origin {
            Origin::Backup(marker) => warn!(
                taken_at = marker.taken_at,
                "hub was restored from a backup: nothing is deleted in a spoke until its restore is confirmed"
            ),
            Origin::Own | Origin::Unknown => {
                debug!("no restore is in progress");
            }
        }
        state.origin = origin;
        state.waiting.clear();
        true
    }
}

// === impl Marker ===

impl Marker {
    fn of(object: &RawObject) -> Option<Self> {
        if object.name != keys::RESTORE_CONFIG_MAP {
            return None;
        }
        // A marker that cannot be read holds everything back: no answer names it.
        let value = object.value().unwrap_or_default();
        let data = |key: &str| value["data"][key].as_str().unwrap_or_default().to_owned();
        Some(Self {
            id: data(keys::RESTORE_KEY_ID),
            taken_at: data(keys::RESTORE_KEY_TAKEN_AT),
        })
    }
}

fn deletion_policy(origin: &Origin, answer: Option<&str>) -> DeletionPolicy {
    let marker = match origin {
        Origin::Unknown => return DeletionPolicy::Held,
        Origin::Own => return DeletionPolicy::Free,
        Origin::Backup(marker) => marker,
    };
    let Some((id, word)) = answer.and_then(|answer| answer.split_once('/')) else {
        return DeletionPolicy::Held;
    };
    if id != marker.id || id.is_empty() {
        return DeletionPolicy::Held; // the answer to an earlier restore
    }
    match word {
        "keep" => DeletionPolicy::Confirmed(UnknownInstances::Keep),
        "delete" => DeletionPolicy::Confirmed(UnknownInstances::Delete),
        _ => DeletionPolicy::Held,
    }
}

/// Returns what a Spoke says of the restore.
pub(crate) fn report(
    marker: &Marker,
    cluster: &LogicalCluster,
    leave: DeletionPolicy,
    seen: &Seen,
) -> Report {
    let Marker { id, taken_at } = marker;
    let partial = match seen.view {
        View::Whole => "",
        View::Partial => "; not everything there is read yet, so there may be more",
    };
    let unknown = named(&seen.unknown);
    match leave {
        DeletionPolicy::Held => Report {
            confirmed: false,
            reason: "AwaitingConfirmation",
            message: format!(
                "restored from a backup of {taken_at}: nothing is deleted here until annotation {} says {id}/keep or \
                 {id}/delete (wheelhouse store confirm-restore {cluster} --unknown keep|delete); instances unknown to the \
                 hub: {unknown}; instances with deletions that wait: {}{partial}",
                keys::ANNOTATION_CONFIRM_RESTORE,
                named(&seen.waiting),
            ),
        },
        DeletionPolicy::Free | DeletionPolicy::Confirmed(_)
            if seen.unknown.is_empty() && seen.view == View::Whole =>
        {
            Report {
                confirmed: true,
                reason: "Settled",
                message: format!("confirmed after the restore from a backup of {taken_at}"),
            }
        }
        DeletionPolicy::Free | DeletionPolicy::Confirmed(_) => Report {
            confirmed: true,
            reason: "Settling",
            message: format!("confirmed; instances still unknown to the hub: {unknown}{partial}"),
        },
    }
}

/// Counts instances, and names the first ones.
fn named(instances: &[InstanceKey]) -> String {
    let mut names: Vec<String> = instances.iter().map(InstanceKey::to_string).collect();
    names.sort();
    let more = names.len().saturating_sub(NAMED_COUNT);
    names.truncate(NAMED_COUNT);
    match (names.is_empty(), more) {
        (true, _) => "0".to_owned(),
        (false, 0) => format!("{} ({})", names.len(), names.join(", ")),
        (false, more) => format!("{} ({} and {more} more)", instances.len(), names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker() -> Marker {
        Marker {
            id: "101".to_owned(),
            taken_at: "2026-01-02T03:04:05Z".to_owned(),
        }
    }

    #[test]
    fn only_the_answer_to_this_restore_confirms_it() {
        let restored = &Origin::Backup(marker());
        for (name, origin, answer, want) in [
            (
                "not known yet",
                &Origin::Unknown,
                None,
                DeletionPolicy::Held,
            ),
            (
                "not known yet, and answered",
                &Origin::Unknown,
                Some("101/keep"),
                DeletionPolicy::Held,
            ),
            ("never restored", &Origin::Own, None, DeletionPolicy::Free),
            (
                "an old answer, and no restore",
                &Origin::Own,
                Some("101/delete"),
                DeletionPolicy::Free,
            ),
            ("restored", restored, None, DeletionPolicy::Held),
            (
                "kept",
                restored,
                Some("101/keep"),
                DeletionPolicy::Confirmed(UnknownInstances::Keep),
            ),
            (
                "deleted",
                restored,
                Some("101/delete"),
                DeletionPolicy::Confirmed(UnknownInstances::Delete),
            ),
            (
                "an earlier restore's answer",
                restored,
                Some("100/delete"),
                DeletionPolicy::Held,
            ),
            (
                "a longer number",
                restored,
                Some("1011/delete"),
                DeletionPolicy::Held,
            ),
            ("no word", restored, Some("101"), DeletionPolicy::Held),
            (
                "another word",
                restored,
                Some("101/yes"),
                DeletionPolicy::Held,
            ),
            ("an empty answer", restored, Some(""), DeletionPolicy::Held),
        ] {
            assert_eq!(deletion_policy(origin, answer), want, "{name}");
        }
        let unreadable = Origin::Backup(Marker {
            id: String::new(),
            taken_at: String::new(),
        });
        assert_eq!(
            deletion_policy(&unreadable, Some("/delete")),
            DeletionPolicy::Held,
            "a marker that names no restore"
        );
    }

    fn instances(count: usize) -> Vec<InstanceKey> {
        let key = |index| InstanceKey {
            group_kind: api::GroupKind {
                group: "kro.run".to_owned(),
                kind: "App".to_owned(),
            },
            namespace: "default".to_owned(),
            name: format!("a{index}"),
        };
        (0..count).map(key).collect()
    }

    fn seen(unknown: usize, waiting: usize, view: View) -> Seen {
        Seen {
            unknown: instances(unknown),
            waiting: instances(waiting),
            view,
        }
    }

    #[test]
    fn a_spoke_says_what_waits_and_how_to_confirm() {
        let cluster: LogicalCluster = "east".parse().expect("a name");
        let held = |seen: &Seen| report(&marker(), &cluster, DeletionPolicy::Held, seen);
        let said = held(&seen(5, 1, View::Whole));
        assert!(!said.confirmed);
        for part in [
            "unknown to the hub: 5 (App.kro.run default/a0, App.kro.run default/a1, App.kro.run default/a2 and 2 more);",
            "that wait: 1 (App.kro.run default/a0)",
            "101/keep",
            "confirm-restore east",
        ] {
            assert!(said.message.contains(part), "{part}: {}", said.message);
        }
        assert!(!said.message.contains("may be more"), "{}", said.message);
        let said = held(&seen(0, 0, View::Partial));
        for part in ["the hub: 0;", "that wait: 0;", "may be more"] {
            assert!(said.message.contains(part), "{part}: {}", said.message);
        }
    }

    #[test]
    fn a_confirmed_spoke_is_settled_once_all_of_it_was_seen_and_nothing_is_unknown() {
        let cluster: LogicalCluster = "east".parse().expect("a name");
        let confirmed = DeletionPolicy::Confirmed(UnknownInstances::Keep);
        for (name, seen, want) in [
            ("one is unknown", seen(1, 0, View::Whole), "Settling"),
            ("it does not answer", seen(0, 0, View::Partial), "Settling"),
            ("all is known", seen(0, 0, View::Whole), "Settled"),
        ] {
            let said = report(&marker(), &cluster, confirmed, &seen);
            assert_eq!((said.confirmed, said.reason), (true, want), "{name}");
        }
    }
}
