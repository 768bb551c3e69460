//! The mirrors of instances in a real spoke, as one watch per kind sees them.
//!
//! # Invariants
//!
//! As in [`crate::children`]: what the cache says of a kind counts only once it is synced.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use api::GroupKind;
use client::reflector::{Event, RawObject};
use parking_lot::Mutex;

use crate::keys::{InstanceKey, newer};

/// The mirrors of one spoke.
#[derive(Debug, Default)]
pub(crate) struct MirrorCache {
    // Guards everything below; never held across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kinds: HashMap<GroupKind, KindState>,
}

#[derive(Debug, Default)]
struct KindState {
    synced: bool,
    seen: String,
    mirrors: HashMap<InstanceKey, Arc<RawObject>>,
    waiting: HashSet<InstanceKey>,
}

/// What is known of one mirror.
#[derive(Debug, Clone)]
pub(crate) enum Mirror {
    /// The watch has not delivered its first list yet.
    Unknown,
    /// There is none.
    Absent,
    /// As it was last seen.
    Present(Arc<RawObject>),
}

// === impl MirrorCache ===

impl MirrorCache {
    /// Marks a kind as watched. Returns whether it was not before.
    pub(crate) fn register(&self, group_kind: &GroupKind) -> bool {
        let mut state = self.state.lock();
        if state.kinds.contains_key(group_kind) {
            return false;
        }
        state.kinds.insert(group_kind.clone(), KindState::default());
        true
    }

    /// Forgets a kind that is no longer distributed.
    pub(crate) fn deregister(&self, group_kind: &GroupKind) {
        self.state.lock().kinds.remove(group_kind);
    }

    /// Tells what is known of an instance's mirror; if nothing is, the instance is named once the
    /// first list is there.
    pub(crate) fn of(&self, key: &InstanceKey) -> Mirror {
        let mut state = self.state.lock();
        let Some(kind) = state.kinds.get_mut(&key.group_kind) else {
            return Mirror::Unknown;
        };
        if !kind.synced {
            kind.waiting.insert(key.clone());
            return Mirror::Unknown;
        }
        kind.mirrors
            .get(key)
            .map_or(Mirror::Absent, |mirror| Mirror::Present(Arc::clone(mirror)))
    }

    /// Takes up the answer to our own write, unless the watch is past it.
    pub(crate) fn answered(&self, key: &InstanceKey, mirror: Arc<RawObject>) {
        let mut state = self.state.lock();
        if let Some(kind) = state.kinds.get_mut(&key.group_kind)
            && newer(&mirror.resource_version, &kind.seen)
        {
            kind.mirrors.insert(key.clone(), mirror);
        }
    }

    /// Forgets a mirror that an answer to our own deletion says is gone.
    pub(crate) fn gone(&self, key: &InstanceKey, uid: &str) {
        let mut state = self.state.lock();
        if let Some(kind) = state.kinds.get_mut(&key.group_kind)
            && kind
                .mirrors
                .get(key)
                .is_some_and(|mirror| mirror.uid == uid)
        {
            kind.mirrors.remove(key);
        }
    }

    /// Takes up an event of the watch and names the instances that it concerns.
    pub(crate) fn take(&self, group_kind: &GroupKind, event: Event) -> Vec<InstanceKey> {
        let mut state = self.state.lock();
        let Some(kind) = state.kinds.get_mut(group_kind) else {
            return Vec::new();
        };
        match event {
            Event::Restarted(objects) => {
                let mut concerned: HashSet<InstanceKey> = kind.waiting.drain().collect();
                let mut left = std::mem::take(&mut kind.mirrors);
                for object in objects {
                    kind.saw(&object.resource_version);
                    let key = InstanceKey::of_instance(group_kind, &object);
                    let known = left.remove(&key);
                    if known.is_none_or(|known| known.resource_version != object.resource_version) {
                        concerned.insert(key.clone());
                    }
                    kind.mirrors.insert(key, object);
                }
                concerned.extend(left.into_keys());
                kind.synced = true;
                concerned.into_iter().collect()
            }
            Event::Applied(object) => {
                kind.saw(&object.resource_version);
                let key = InstanceKey::of_instance(group_kind, &object);
                let known = kind
                    .mirrors
                    .get(&key)
                    .map(|known| known.resource_version.clone());
                // Our own write, taken up from its answer: nothing new.
                if known.is_some_and(|known| !newer(&object.resource_version, &known)) {
                    return Vec::new();
                }
                kind.mirrors.insert(key.clone(), object);
                vec![key]
            }
            Event::Deleted(object) => {
                kind.saw(&object.resource_version);
                let key = InstanceKey::of_instance(group_kind, &object);
                if kind
                    .mirrors
                    .get(&key)
                    .is_some_and(|known| known.uid != object.uid)
                {
                    return Vec::new(); // ours, made since: its own event is on the way
                }
                kind.mirrors.remove(&key);
                vec![key]
            }
            Event::Interrupted(_) | Event::Resumed => Vec::new(),
        }
    }
}

// === impl KindState ===

impl KindState {
    fn saw(&mut self, version: &str) {
        if newer(version, &self.seen) {
            version.clone_into(&mut self.seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apps() -> GroupKind {
        GroupKind {
            group: "kro.run".to_owned(),
            kind: "App".to_owned(),
        }
    }

    fn key(name: &str) -> InstanceKey {
        InstanceKey {
            group_kind: apps(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        }
    }

    fn mirror(name: &str, version: &str) -> Arc<RawObject> {
        let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": {
            "name": name,
            "namespace": "default",
            "uid": format!("uid-{name}"),
            "resourceVersion": version,
        }});
        Arc::new(RawObject::from_value(&object).expect("an object"))
    }

    /// A cache that watches Apps, with these events taken up.
    fn cache(events: Vec<Event>) -> MirrorCache {
        let cache = MirrorCache::default();
        assert!(cache.register(&apps()), "nothing is watched before");
        for event in events {
            cache.take(&apps(), event);
        }
        cache
    }

    /// What is known of mirror `a`: its version, `absent` or `unknown`.
    fn known(cache: &MirrorCache) -> String {
        match cache.of(&key("a")) {
            Mirror::Unknown => "unknown".to_owned(),
            Mirror::Absent => "absent".to_owned(),
            Mirror::Present(mirror) => mirror.resource_version.clone(),
        }
    }

    fn sorted(mut keys: Vec<InstanceKey>) -> Vec<InstanceKey> {
        keys.sort();
        keys
    }

    #[test]
    fn absence_counts_from_the_first_list_on() {
        let list = |objects| Event::Restarted(objects);
        let cases = [
            ("nothing yet", vec![], "unknown"),
            (
                "one event",
                vec![Event::Applied(mirror("a", "1"))],
                "unknown",
            ),
            ("an empty list", vec![list(vec![])], "absent"),
            ("listed", vec![list(vec![mirror("a", "1")])], "1"),
            (
                "changed since",
                vec![
                    list(vec![mirror("a", "1")]),
                    Event::Applied(mirror("a", "2")),
                ],
                "2",
            ),
            (
                "deleted since",
                vec![
                    list(vec![mirror("a", "1")]),
                    Event::Deleted(mirror("a", "2")),
                ],
                "absent",
            ),
            (
                "gone from the next list",
                vec![list(vec![mirror("a", "1")]), list(vec![])],
                "absent",
            ),
        ];
        for (name, events, want) in cases {
            assert_eq!(known(&cache(events)), want, "{name}");
        }
    }

    #[test]
    fn a_kind_that_is_no_longer_distributed_is_unknown() {
        let cache = cache(vec![Event::Restarted(vec![mirror("a", "1")])]);
        cache.deregister(&apps());
        assert_eq!(known(&cache), "unknown", "nobody watches it");
        assert!(cache.register(&apps()), "it can be watched again");
    }

    #[test]
    fn an_instance_that_waits_is_named_by_the_first_list_and_not_again() {
        let cache = cache(vec![]);
        assert_eq!(known(&cache), "unknown", "so it waits");
        let named = cache.take(&apps(), Event::Restarted(vec![]));
        assert_eq!(named, [key("a")], "it waited");
        let named = cache.take(&apps(), Event::Restarted(vec![]));
        assert_eq!(named, [], "it waits no more");
    }

    #[test]
    fn an_answer_is_taken_up_unless_the_watch_is_past_it() {
        for (name, seen, answered, want) in [
            ("the watch is behind", "4", "5", "5"),
            ("the watch is behind, by number", "9", "10", "10"),
            ("the watch is past it", "6", "5", "absent"),
            ("the watch is past it, by number", "10", "9", "absent"),
        ] {
            let cache = cache(vec![Event::Restarted(vec![mirror("other", seen)])]);
            cache.answered(&key("a"), mirror("a", answered));
            assert_eq!(known(&cache), want, "{name}");
        }
    }

    #[test]
    fn an_event_concerns_its_instance_only_if_it_brings_something_new() {
        for (name, version, want) in [
            ("older than the answer", "4", vec![]),
            ("the answer again", "5", vec![]),
            ("newer than the answer", "6", vec![key("a")]),
        ] {
            let cache = cache(vec![Event::Restarted(vec![])]);
            cache.answered(&key("a"), mirror("a", "5"));
            let named = cache.take(&apps(), Event::Applied(mirror("a", version)));
            assert_eq!(named, want, "{name}");
        }
    }

    #[test]
    fn a_list_names_what_is_new_changed_or_missing() {
        let before = vec![
            mirror("same", "1"),
            mirror("changed", "1"),
            mirror("left", "1"),
        ];
        let cache = cache(vec![Event::Restarted(before)]);
        let list = vec![
            mirror("same", "1"),
            mirror("changed", "2"),
            mirror("new", "2"),
        ];
        let named = cache.take(&apps(), Event::Restarted(list));
        assert_eq!(
            sorted(named),
            ["changed", "left", "new"].map(key),
            "all but the one that is the same"
        );
    }

    #[test]
    fn our_deletion_forgets_the_mirror_that_it_deleted_and_no_successor() {
        for (name, uid, want) in [
            ("the same", "uid-a", "absent"),
            ("another one of the same name", "uid-before", "1"),
        ] {
            let cache = cache(vec![Event::Restarted(vec![mirror("a", "1")])]);
            cache.gone(&key("a"), uid);
            assert_eq!(known(&cache), want, "{name}");
        }
    }
}
