//! What is in a target cluster: one full watch per kind, selected by kro's labels.
//!
//! # Invariants
//!
//! Objects are kept as the bytes of the watch and parsed when a plan reads them. What the cache
//! says of a kind counts only once the kind is *synced*: absence before is not absence.
//!
//! An answer to our own write is taken up at once, so that a plan sees it without waiting for the
//! watch, unless the watch is past it already.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use api::{GroupVersionKind, GroupVersionResource};
use client::reflector::{self, RawObject};
use graph::ObjectRef;
use parking_lot::Mutex;
use tasks::Tasks;
use tokio::sync::mpsc;

use crate::keys::{InstanceKey, newer};

/// The label that selects everything that kro, and so the syncer, writes.
pub(crate) const OWNED_SELECTOR: &str = "kro.run/owned=true";

/// A kind that is watched, with the endpoint to watch it at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WatchedKind {
    /// The kind.
    pub(crate) gvk: GroupVersionKind,
    /// Its endpoint.
    pub(crate) gvr: GroupVersionResource,
}

/// The watched objects of one target cluster, by the instance that they belong to.
#[derive(Debug, Default)]
pub(crate) struct ChildCache {
    // Guards everything below; never held across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kinds: HashMap<GroupVersionResource, KindState>,
    by_parent: HashMap<InstanceKey, BTreeMap<ObjectRef, Child>>,
    parent_of: HashMap<ObjectRef, InstanceKey>,
}

#[derive(Debug, Default)]
struct KindState {
    synced: bool,
    /// The newest resource version that the watch delivered.
    seen: String,
    /// Why the watch does not run, if it does not.
    trouble: Option<String>,
    /// Instances that wait for the kind to be synced.
    waiting: HashSet<InstanceKey>,
}

/// One object of the target cluster.
#[derive(Debug, Clone)]
pub(crate) struct Child {
    /// Its endpoint.
    pub(crate) kind: WatchedKind,
    /// As it was last seen.
    pub(crate) object: Arc<RawObject>,
}

/// Whether the cache may be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sync {
    /// It holds all that there is of the kind.
    Synced,
    /// The watch has not delivered its first list yet; the reason, where one is known.
    Waiting(Option<String>),
}

// === impl ChildCache ===

impl ChildCache {
    /// Marks a kind as watched. Returns whether it was not before: then the caller starts a watch.
    pub(crate) fn register(&self, kind: &WatchedKind) -> bool {
        let mut state = self.state.lock();
        if state.kinds.contains_key(&kind.gvr) {
            return false;
        }
        state.kinds.insert(kind.gvr.clone(), KindState::default());
        true
    }

    /// Tells whether a kind is synced; if not, the instance is named by the next call of
    /// [`ChildCache::restarted`].
    pub(crate) fn sync(&self, gvr: &GroupVersionResource, waiting: &InstanceKey) -> Sync {
        let mut state = self.state.lock();
        match state.kinds.get_mut(gvr) {
            Some(kind) if kind.synced => Sync::Synced,
            Some(kind) => {
                kind.waiting.insert(waiting.clone());
                Sync::Waiting(kind.trouble.clone())
            }
            None => Sync::Waiting(None),
        }
    }

    /// Tells what belongs to an instance, in the order of [`ObjectRef`].
    pub(crate) fn of(&self, instance: &InstanceKey) -> Vec<(ObjectRef, Child)> {
        let state = self.state.lock();
        let children = state.by_parent.get(instance).into_iter().flatten();
        children
            .map(|(reference, child)| (reference.clone(), child.clone()))
            .collect()
    }

    /// Takes up the answer to our own write, unless the watch is past it.
    pub(crate) fn answered(&self, kind: &WatchedKind, object: Arc<RawObject>) {
        let mut state = self.state.lock();
        let seen = state
            .kinds
            .get(&kind.gvr)
            .map_or("", |kind| kind.seen.as_str());
        if newer(&object.resource_version, seen) {
            state.put(kind, object);
        }
    }

    /// Forgets an object that an answer to our own deletion says is gone.
    pub(crate) fn gone(&self, reference: &ObjectRef, uid: &str) {
        let mut state = self.state.lock();
        let known = state.parent_of.get(reference).cloned();
        let current = known
            .and_then(|parent| state.by_parent.get(&parent)?.get(reference).cloned())
            .is_some_and(|child| child.object.uid == uid);
        if current {
            state.remove(reference);
        }
    }

    /// Takes up an event of the watch and names the instances that it concerns.
    pub(crate) fn take(&self, kind: &WatchedKind, event: reflector::Event) -> Vec<InstanceKey> {
        match event {
            reflector::Event::Restarted(objects) => self.restarted(kind, objects),
            reflector::Event::Applied(object) => {
                let mut state = self.state.lock();
                state.saw(&kind.gvr, &object.resource_version);
                state.put(kind, object)
            }
            reflector::Event::Deleted(object) => {
                let mut state = self.state.lock();
                state.saw(&kind.gvr, &object.resource_version);
                let reference = reference(kind, &object);
                if state.has_successor(&reference, &object.uid) {
                    return Vec::new(); // ours, made since: its own event is on the way
                }
                state.remove(&reference).into_iter().collect()
            }
            reflector::Event::Interrupted(reason) => {
                if let Some(kind) = self.state.lock().kinds.get_mut(&kind.gvr) {
                    kind.trouble = Some(reason);
                }
                Vec::new()
            }
            reflector::Event::Resumed => {
                if let Some(kind) = self.state.lock().kinds.get_mut(&kind.gvr) {
                    kind.trouble = None;
                }
                Vec::new()
            }
        }
    }

    fn restarted(&self, kind: &WatchedKind, objects: Vec<Arc<RawObject>>) -> Vec<InstanceKey> {
        let mut state = self.state.lock();
        let mut concerned: HashSet<InstanceKey> = HashSet::new();
        let listed: HashSet<ObjectRef> = objects
            .iter()
            .map(|object| reference(kind, object))
            .collect();
        let left: Vec<ObjectRef> = state
            .parent_of
            .keys()
            .filter(|known| {
                known.group == kind.gvk.group
                    && known.kind == kind.gvk.kind
                    && !listed.contains(*known)
            })
            .cloned()
            .collect();
        for reference in left {
            concerned.extend(state.remove(&reference));
        }
        for object in objects {
            state.saw(&kind.gvr, &object.resource_version);
            concerned.extend(state.put(kind, object));
        }
        if let Some(kind) = state.kinds.get_mut(&kind.gvr) {
            kind.synced = true;
            kind.trouble = None;
            concerned.extend(kind.waiting.drain());
        }
        concerned.into_iter().collect()
    }
}

// === impl State ===

impl State {
    fn saw(&mut self, gvr: &GroupVersionResource, version: &str) {
        if let Some(kind) = self.kinds.get_mut(gvr)
            && newer(version, &kind.seen)
        {
            version.clone_into(&mut kind.seen);
        }
    }

    /// Keeps an object and names its instance, and the one that it belonged to before its labels
    /// were edited.
    fn put(&mut self, kind: &WatchedKind, object: Arc<RawObject>) -> Vec<InstanceKey> {
        let reference = reference(kind, &object);
        let parent = InstanceKey::of_parent(&object);
        let mut concerned = Vec::new();
        if self.parent_of.get(&reference) != parent.as_ref() {
            concerned.extend(self.remove(&reference));
        }
        if let Some(parent) = parent {
            let children = self.by_parent.entry(parent.clone()).or_default();
            let stale = children.get(&reference).is_some_and(|known| {
                newer(&known.object.resource_version, &object.resource_version)
            });
            if !stale {
                children.insert(
                    reference.clone(),
                    Child {
                        kind: kind.clone(),
                        object,
                    },
                );
                self.parent_of.insert(reference, parent.clone());
            }
            concerned.push(parent);
        }
        concerned
    }

    /// Tells whether another object of the same name is known already.
    fn has_successor(&self, reference: &ObjectRef, uid: &str) -> bool {
        let known = self
            .parent_of
            .get(reference)
            .and_then(|parent| self.by_parent.get(parent)?.get(reference));
        known.is_some_and(|child| child.object.uid != uid)
    }

    fn remove(&mut self, reference: &ObjectRef) -> Option<InstanceKey> {
        let parent = self.parent_of.remove(reference)?;
        if let Some(children) = self.by_parent.get_mut(&parent) {
            children.remove(reference);
            if children.is_empty() {
                self.by_parent.remove(&parent);
            }
        }
        Some(parent)
    }
}

/// Starts the watch of a kind; `concern` is called with each instance that an event concerns.
pub(crate) fn watch(
    cache: &Arc<ChildCache>,
    kind: WatchedKind,
    mut events: mpsc::Receiver<reflector::Event>,
    tasks: &Tasks,
    concern: impl Fn(InstanceKey) + Send + 'static,
) {
    let cache = Arc::clone(cache);
    tasks.spawn("children", async move {
        // Ends when the reflector does, which ends with its token.
        while let Some(event) = events.recv().await {
            for instance in cache.take(&kind, event) {
                concern(instance);
            }
        }
    });
}

pub(crate) fn reference(kind: &WatchedKind, object: &RawObject) -> ObjectRef {
    ObjectRef {
        group: kind.gvk.group.clone(),
        kind: kind.gvk.kind.clone(),
        namespace: object.namespace.clone().unwrap_or_default(),
        name: object.name.clone(),
    }
}

#[cfg(test)]
mod tests;
