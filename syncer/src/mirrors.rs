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
