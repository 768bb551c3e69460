//! What is known of one watched collection: from its watch, and ahead of it from the answers to our
//! own calls.
//!
//! ```text
//!   told by the watch: all there is     told by answers: some of it
//! ──────────────────────────────────┬────────────────────────────────▶ resource versions
//!                                horizon
//! ```
//!
//! # Invariants
//!
//! One rule: whatever is learnt holds as of a resource version, and gives way only to what is
//! learnt as of a later one.
//!
//! - The *horizon* is where the watch is: at its last list or event. An answer from before the
//!   horizon says nothing that the watch has not said better.
//! - A list decides about everything that was learnt up to its own version, and about nothing that
//!   was learnt later. One that is as fresh as can be decides besides about every answer that came before it was begun: a server
//!   that does not show in it what it had answered was set back, and may be at any version by now.
//! - An event decides about its object, up to its version.
//! - A deletion that was answered carries no version, so that its uid is kept (and nothing of that
//!   uid believed) until the watch is past it. There are as many such uids as deletions that the
//!   watch has not told of yet.
//! - Lists do not grow older while a server goes on ([`client::reflector`] asks for that). One that
//!   comes from before the horizon is of a server that was set back: all else is forgotten. A server
//!   that was set back may be past the horizon again, or have had its revision raised: its objects
//!   are then older than they were known, and the list decides about them all the same.
//!
//! Resource versions of one collection compare as integers, [`newer`].

use std::{collections::HashMap, hash::Hash, sync::Arc};

use api::meta::is_newer;
use client::reflector::RawObject;
use tokio::time::Instant;

/// What is known of one collection; `K` names an object in it.
#[derive(Debug)]
pub(crate) struct Collection<K> {
    synced: bool,
    horizon: String,
    entries: HashMap<K, Entry>,
}

/// A change of what is known: never from nothing to nothing.
#[derive(Debug, Clone)]
pub(crate) struct Change<K> {
    /// What it is about.
    pub(crate) key: K,
    /// What was known before.
    pub(crate) before: Option<Arc<RawObject>>,
    /// What is known now.
    pub(crate) after: Option<Arc<RawObject>>,
}

#[derive(Debug)]
enum Entry {
    /// As it was last seen.
    Present {
        object: Arc<RawObject>,
        /// When an answer said it; `None` where the watch did.
        answered_at: Option<Instant>,
    },
    /// An answer said that the object of this uid, last seen as of this version, is gone.
    Gone {
        uid: String,
        version: String,
        answered_at: Instant,
    },
}

// === impl Collection ===

impl<K> Default for Collection<K> {
    fn default() -> Self {
        Self {
            synced: false,
            horizon: String::new(),
            entries: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Collection<K> {
    /// Returns whether absence counts: the first list is there.
    pub(crate) const fn is_synced(&self) -> bool {
        self.synced
    }

    /// Returns an object as it was last seen.
    pub(crate) fn get(&self, key: &K) -> Option<&Arc<RawObject>> {
        self.entries.get(key)?.present()
    }

    /// Returns all objects as they were last seen.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &Arc<RawObject>)> {
        let entries = self.entries.iter();
        entries.filter_map(|(key, entry)| Some((key, entry.present()?)))
    }

    /// Takes up the answer to a write of ours.
    pub(crate) fn answered(&mut self, key: K, object: Arc<RawObject>) -> Option<Change<K>> {
        if is_newer(&object.resource_version, &self.horizon) {
            self.put(key, object, Some(Instant::now()))
        } else {
            None
        }
    }

    /// Takes up that an answer said an object of ours is gone.
    pub(crate) fn gone(&mut self, key: &K, uid: &str) -> Option<Change<K>> {
        let known = self.get(key).filter(|known| known.uid == uid)?;
        let (before, version) = (Arc::clone(known), known.resource_version.clone());
        let uid = uid.to_owned();
        let gone = Entry::Gone {
            uid,
            version,
            answered_at: Instant::now(),
        };
        self.entries.insert(key.clone(), gone);
        Some(Change {
            key: key.clone(),
            before: Some(before),
            after: None,
        })
    }

    /// Takes up a list as of a version: all that there was then. `latest_as_of` is that of [`client::reflector::Event::Restarted`].
    pub(crate) fn listed(
        &mut self,
        objects: Vec<(K, Arc<RawObject>)>,
        version: &str,
        latest_as_of: Option<Instant>,
    ) -> Vec<Change<K>> {
        let set_back = version.is_empty() || is_newer(&self.horizon, version);
        version.clone_into(&mut self.horizon);
        self.synced = true;
        let mut left: HashMap<K, Entry> = if set_back {
            std::mem::take(&mut self.entries)
        } else {
            let decided = |_: &K, entry: &mut Entry| {
                !is_newer(entry.version(), version) || entry.is_answered_before(latest_as_of)
            };
            self.entries.extract_if(decided).collect()
        };
        let mut changes = Vec::new();
        for (key, object) in objects {
            let known = match left.remove(&key) {
                Some(gone) if !set_back && gone.may_have_gone_since(&object, latest_as_of) => {
                    self.entries.insert(key.clone(), gone);
                    self.put(key, object, None);
                    continue;
                }
                None if !set_back => {
                    changes.extend(self.put(key, object, None));
                    continue;
                }
                known => known.and_then(Entry::into_present),
            };
            // Also where the object is older than the known one: then the server was set back and is past the horizon again.
            let after = Entry::told(Arc::clone(&object));
            self.entries.insert(key.clone(), after);
            if set_back || !known.as_ref().is_some_and(|it| is_same(it, &object)) {
                changes.push(Change {
                    key,
                    before: known,
                    after: Some(object),
                });
            }
        }
        let vanished = left.into_iter().filter_map(|(key, entry)| {
            Some(Change {
                key,
                before: Some(entry.into_present()?),
                after: None,
            })
        });
        changes.extend(vanished);
        changes
    }

    /// Takes up that the watch told of an object that is new or changed.
    pub(crate) fn applied(&mut self, key: K, object: Arc<RawObject>) -> Option<Change<K>> {
        self.move_horizon(&object.resource_version);
        self.put(key, object, None)
    }

    /// Takes up that the watch told of an object that is gone, or not selected any more.
    pub(crate) fn deleted(&mut self, key: K, object: &RawObject) -> Option<Change<K>> {
        self.move_horizon(&object.resource_version);
        let entry = self.entries.get(&key)?;
        if is_newer(entry.version(), &object.resource_version) {
            return None; // made or changed since: its own event is on the way
        }
        let before = self.entries.remove(&key)?.into_present()?;
        Some(Change {
            key,
            before: Some(before),
            after: None,
        })
    }

    fn move_horizon(&mut self, version: &str) {
        if is_newer(version, &self.horizon) {
            version.clone_into(&mut self.horizon);
        }
    }

    fn put(
        &mut self,
        key: K,
        object: Arc<RawObject>,
        answered_at: Option<Instant>,
    ) -> Option<Change<K>> {
        let before = match self.entries.get_mut(&key) {
            None => None,
            Some(Entry::Gone { uid, version, .. }) if *uid == object.uid => {
                if is_newer(&object.resource_version, version) {
                    object.resource_version.clone_into(version);
                }
                return None;
            }
            Some(known) if !is_newer(&object.resource_version, known.version()) => return None,
            Some(known) => known.present().cloned(),
        };
        let present = Entry::Present {
            object: Arc::clone(&object),
            answered_at,
        };
        self.entries.insert(key.clone(), present);
        Some(Change {
            key,
            before,
            after: Some(object),
        })
    }
}

/// Returns whether two states of an object are the same. Two histories may give one version to different states.
fn is_same(known: &RawObject, object: &RawObject) -> bool {
    known.resource_version == object.resource_version
        && known.uid == object.uid
        && (known.raw().get() == object.raw().get()
            || known
                .value()
                .ok()
                .is_some_and(|known| object.value().ok() == Some(known)))
}

// === impl Entry ===

impl Entry {
    const fn told(object: Arc<RawObject>) -> Self {
        Self::Present {
            object,
            answered_at: None,
        }
    }

    /// Returns whether an answer said this before a list was begun that is as fresh as can be.
    fn is_answered_before(&self, latest_as_of: Option<Instant>) -> bool {
        let answered_at = match self {
            Self::Present { answered_at, .. } => *answered_at,
            Self::Gone { answered_at, .. } => Some(*answered_at),
        };
        answered_at
            .zip(latest_as_of)
            .is_some_and(|(answered, begun)| answered < begun)
    }

    /// Returns whether an object that a list shows is gone all the same: the list may be from before the deletion.
    fn may_have_gone_since(&self, object: &RawObject, latest_as_of: Option<Instant>) -> bool {
        match self {
            Self::Gone { uid, version, .. } => {
                *uid == object.uid
                    && !is_newer(version, &object.resource_version)
                    && !self.is_answered_before(latest_as_of)
            }
            Self::Present { .. } => false,
        }
    }

    fn version(&self) -> &str {
        match self {
            Self::Present { object, .. } => &object.resource_version,
            Self::Gone { version, .. } => version,
        }
    }

    const fn present(&self) -> Option<&Arc<RawObject>> {
        match self {
            Self::Present { object, .. } => Some(object),
            Self::Gone { .. } => None,
        }
    }

    fn into_present(self) -> Option<Arc<RawObject>> {
        match self {
            Self::Present { object, .. } => Some(object),
            Self::Gone { .. } => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
