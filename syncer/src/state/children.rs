//! What is in a target cluster: one full watch per kind, selected by kro's labels.
//!
//! # Invariants
//!
//! Objects are kept as the bytes of the watch and parsed when a plan reads them. What the cache
//! says of a kind counts only once the kind is *synced*: absence before is not absence.
//!
//! An answer to our own write is taken up at once, so that a plan sees it without waiting for the
//! watch; [`super::collection`] has the rule of what to believe.
//!
//! A kind of which the hub has the instances is watched in two places, the hub's path and the spoke. Each child counts where it
//! was made: a mirror in the spoke and the hub's copy of what was made in the spoke are no children.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use api::{
    GroupResource, GroupVersionKind, GroupVersionResource,
    kro::keys::LABEL_APPLYSET_PART_OF,
    meta::is_newer,
    selector::Selector,
    wheelhouse::{InventorySpec, origin},
};
use client::reflector::{self, RawObject};
use graph::ObjectRef;
use parking_lot::Mutex;
use tasks::Tasks;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    actors::Place,
    collection::{Change, Collection},
    keys::InstanceKey,
    mirrors,
    own_states::{ObjectState, Of},
};

/// Selects everything that kro, and so the syncer, writes.
pub(crate) fn owned() -> Selector {
    let selector = "kro.run/owned=true".parse();
    selector.expect("one label with its value is a selector")
}

/// Selects what belongs to one set.
pub(crate) fn owned_by(applyset_id: &str) -> Selector {
    let selector = format!("{LABEL_APPLYSET_PART_OF}={applyset_id}").parse();
    selector.expect("an id is a label's value")
}

/// A kind that is watched, with the endpoint to watch it at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WatchedKind {
    /// The kind.
    pub(crate) gvk: GroupVersionKind,
    /// Its endpoint.
    pub(crate) gvr: GroupVersionResource,
    /// Where it is watched.
    pub(crate) place: Place,
}

/// The watched objects of one target cluster, by the instance that they belong to.
#[derive(Debug, Default)]
pub(crate) struct ChildCache {
    // Guards everything below; never held across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By a number of their own, which no other watch gets later.
    kinds: BTreeMap<usize, KindState>,
    /// How many kinds have had a number.
    registered_count: usize,
    /// Where in `kinds` an endpoint is.
    index_of: HashMap<(GroupVersionResource, Place), usize>,
    /// What belongs to an instance, and where in `kinds` it is. A kind that is watched in two
    /// versions is there twice.
    by_parent: HashMap<InstanceKey, BTreeSet<(ObjectRef, usize)>>,
}

#[derive(Debug)]
struct KindState {
    kind: Arc<WatchedKind>,
    objects: Collection<ObjectRef>,
    /// Why the watch does not run, if it does not.
    trouble: Option<String>,
    /// Instances that wait for the kind to be synced.
    waiting: HashSet<InstanceKey>,
    /// Ends the watch.
    end: CancellationToken,
}

/// One object of the target cluster.
#[derive(Debug, Clone)]
pub(crate) struct Child {
    /// Its endpoint.
    pub(crate) kind: Arc<WatchedKind>,
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

// === impl WatchedKind ===

impl WatchedKind {
    /// Returns whether an object is a child here, and not the copy of one that was made elsewhere.
    fn counts(&self, object: &RawObject) -> bool {
        match self.place {
            Place::Cluster => !mirrors::is_mirror(object),
            Place::Hub => !origin::is_marked_of_spoke(&object.annotations),
        }
    }
}

/// Returns the kinds that a ledger names, with their endpoints.
pub(crate) fn kinds_of_ledger(
    ledger: Option<&InventorySpec>,
) -> BTreeSet<(GroupVersionKind, GroupVersionResource)> {
    let members = ledger.into_iter().flat_map(|spec| &spec.members);
    let kinds = members.map(|member| {
        (
            GroupVersionKind::new(&member.group, &member.version, &member.kind),
            GroupVersionResource::new(&member.group, &member.version, &member.resource),
        )
    });
    kinds.collect()
}

// === impl ChildCache ===

impl ChildCache {
    /// Marks a kind as watched. If it was not before, the caller starts a watch that ends with the token returned, a child of
    /// the one given.
    pub(crate) fn register(
        &self,
        kind: &WatchedKind,
        parent: &CancellationToken,
    ) -> Option<CancellationToken> {
        let mut state = self.state.lock();
        let key = (kind.gvr.clone(), kind.place);
        if state.index_of.contains_key(&key) {
            return None;
        }
        let index = state.registered_count;
        state.registered_count += 1;
        state.index_of.insert(key, index);
        let end = parent.child_token();
        let known = KindState {
            kind: Arc::new(kind.clone()),
            objects: Collection::default(),
            trouble: None,
            waiting: HashSet::new(),
            end: end.clone(),
        };
        state.kinds.insert(index, known);
        Some(end)
    }

    /// Ends the watches of a resource in a place, and forgets what they have shown. Names the instances that they would have named: who
    /// waits for a first list, and who had an object there.
    pub(crate) fn deregister(&self, resource: &GroupResource, place: Place) -> Vec<InstanceKey> {
        let mut state = self.state.lock();
        let is_of = |(gvr, at): &(GroupVersionResource, Place)| {
            *at == place && gvr.group_resource() == *resource
        };
        let indices: Vec<usize> = state
            .index_of
            .extract_if(|key, _| is_of(key))
            .map(|(_, index)| index)
            .collect();
        let mut concerned = HashSet::new();
        for index in indices {
            if let Some(kind) = state.kinds.remove(&index) {
                kind.end.cancel();
                concerned.extend(kind.waiting);
            }
            state.by_parent.retain(|parent, members| {
                let count = members.len();
                members.retain(|(_, at)| *at != index);
                if members.len() < count {
                    concerned.insert(parent.clone());
                }
                !members.is_empty()
            });
        }
        concerned.into_iter().collect()
    }

    /// Returns whether a kind is synced; if not, the instance is named once it is.
    pub(crate) fn sync(&self, kind: &WatchedKind, waiting: &InstanceKey) -> Sync {
        let mut state = self.state.lock();
        match state.kind_mut(kind) {
            Some((_, kind)) if kind.objects.is_synced() => Sync::Synced,
            Some((_, kind)) => {
                kind.waiting.insert(waiting.clone());
                Sync::Waiting(kind.trouble.clone())
            }
            None => Sync::Waiting(None),
        }
    }

    /// Returns what belongs to an instance, in the order of [`ObjectRef`].
    pub(crate) fn of(&self, instance: &InstanceKey) -> Vec<(ObjectRef, Child)> {
        let state = self.state.lock();
        let members = state.by_parent.get(instance).into_iter().flatten();
        let mut children: Vec<(ObjectRef, Child)> = Vec::new();
        for (reference, index) in members {
            let Some(child) = state.child(reference, *index) else {
                continue;
            };
            match children.last_mut() {
                Some((known, twin)) if known == reference => {
                    let version = &child.object.resource_version;
                    let is_better = if child.kind.place == twin.kind.place {
                        is_newer(version, &twin.object.resource_version)
                    } else {
                        child.kind.place == Place::Hub
                    };
                    if is_better {
                        *twin = child;
                    }
                }
                _ => children.push((reference.clone(), child)),
            }
        }
        children
    }

    /// Finds an object by name, whatever instance it belongs to.
    pub(crate) fn find(&self, reference: &ObjectRef) -> Option<Arc<RawObject>> {
        let state = self.state.lock();
        let mut known = state.with_name(reference);
        known.next().map(|(_, object)| Arc::clone(object))
    }

    /// Returns where the object of a name has this uid.
    pub(crate) fn place_of(&self, reference: &ObjectRef, uid: &str) -> Option<Place> {
        let state = self.state.lock();
        let mut known = state.with_name(reference);
        known
            .find(|(_, object)| object.uid == uid)
            .map(|(place, _)| place)
    }

    /// Takes up the answer to our own write and names the instances that it concerns.
    pub(crate) fn answered(&self, kind: &WatchedKind, object: Arc<RawObject>) -> Vec<InstanceKey> {
        let mut state = self.state.lock();
        let Some((index, known)) = state.kind_mut(kind) else {
            return Vec::new(); // whatever looks here registers the kind first, and reads it all
        };
        let change = known.objects.answered(reference(kind, &object), object);
        state.note(index, change)
    }

    /// Forgets an object that an answer to our own deletion says is gone.
    pub(crate) fn gone(&self, reference: &ObjectRef, uid: &str) {
        let mut state = self.state.lock();
        let kinds = state.kinds.iter_mut();
        let changes: Vec<_> = kinds
            .map(|(index, kind)| (*index, kind.objects.gone(reference, uid)))
            .collect();
        for (index, change) in changes {
            state.note(index, change);
        }
    }

    /// Takes up an event of the watch that ends with `end`, and names the instances that it concerns.
    pub(crate) fn take(
        &self,
        kind: &WatchedKind,
        end: &CancellationToken,
        event: reflector::Event,
    ) -> Vec<InstanceKey> {
        let mut state = self.state.lock();
        if end.is_cancelled() {
            return Vec::new(); // the kind is another watch's by now
        }
        let Some((index, known)) = state.kind_mut(kind) else {
            return Vec::new();
        };
        match event {
            reflector::Event::Restarted {
                objects,
                resource_version,
                latest_as_of,
            } => {
                known.trouble = None;
                let waiting: Vec<InstanceKey> = known.waiting.drain().collect();
                let objects = objects
                    .into_iter()
                    .map(|object| (reference(kind, &object), object))
                    .collect();
                let changes = known
                    .objects
                    .listed(objects, &resource_version, latest_as_of);
                let mut concerned: HashSet<InstanceKey> =
                    HashSet::from_iter(state.note(index, changes));
                concerned.extend(waiting);
                concerned.into_iter().collect()
            }
            reflector::Event::Applied(object) => {
                let change = known.objects.applied(reference(kind, &object), object);
                state.note(index, change)
            }
            reflector::Event::Deleted(object) => {
                let change = known.objects.deleted(reference(kind, &object), &object);
                state.note(index, change)
            }
            reflector::Event::Interrupted(reason) => {
                // Who waits without knowing why is told; they go on waiting.
                let is_news = known.trouble.replace(reason).is_none();
                let waiting = known.waiting.iter().filter(|_| is_news);
                waiting.cloned().collect()
            }
            reflector::Event::Resumed => {
                known.trouble = None;
                Vec::new()
            }
        }
    }
}

// === impl State ===

impl State {
    fn kind_mut(&mut self, kind: &WatchedKind) -> Option<(usize, &mut KindState)> {
        let index = *self.index_of.get(&(kind.gvr.clone(), kind.place))?;
        Some((index, self.kinds.get_mut(&index)?))
    }

    /// Returns the objects of a name that count where they are.
    fn with_name<'s>(
        &'s self,
        reference: &'s ObjectRef,
    ) -> impl Iterator<Item = (Place, &'s Arc<RawObject>)> {
        self.kinds.values().filter_map(move |kind| {
            let object = kind.objects.get(reference)?;
            let counts = kind.kind.counts(object);
            counts.then_some((kind.kind.place, object))
        })
    }

    fn child(&self, reference: &ObjectRef, index: usize) -> Option<Child> {
        let kind = self.kinds.get(&index)?;
        Some(Child {
            kind: Arc::clone(&kind.kind),
            object: Arc::clone(kind.objects.get(reference)?),
        })
    }

    /// Keeps the index by instance right, and names the instances that have or had what changed.
    fn note(
        &mut self,
        index: usize,
        changes: impl IntoIterator<Item = Change<ObjectRef>>,
    ) -> Vec<InstanceKey> {
        let mut concerned = Vec::new();
        let Some(kind) = self.kinds.get(&index).map(|known| Arc::clone(&known.kind)) else {
            return concerned;
        };
        for change in changes {
            let parent_of = |object: &Arc<RawObject>| {
                InstanceKey::of_parent(object).filter(|_| kind.counts(object))
            };
            let before = change.before.as_ref().and_then(parent_of);
            let after = change.after.as_ref().and_then(parent_of);
            let member = (change.key, index);
            if let Some(before) = before.filter(|before| Some(before) != after.as_ref()) {
                if let Some(members) = self.by_parent.get_mut(&before) {
                    members.remove(&member);
                    if members.is_empty() {
                        self.by_parent.remove(&before);
                    }
                }
                concerned.push(before);
            }
            if let Some(after) = after {
                let members = self.by_parent.entry(after.clone()).or_default();
                members.insert(member);
                concerned.push(after);
            }
        }
        concerned
    }
}

/// Starts the watch of a kind, which ends with `end`; `concern` is called with each instance that an event concerns, and the state
/// that it tells of, if it tells of one.
pub(crate) fn watch(
    cache: &Arc<ChildCache>,
    (kind, end): (WatchedKind, CancellationToken),
    mut events: mpsc::Receiver<reflector::Event>,
    tasks: &Tasks,
    concern: impl Fn(InstanceKey, Option<ObjectState>) + Send + 'static,
) {
    let cache = Arc::clone(cache);
    tasks.spawn("children", async move {
        // Ends when the reflector does, which ends with its token.
        while let Some(event) = events.recv().await {
            let seen = match &event {
                reflector::Event::Applied(object) => {
                    Some(ObjectState::new(Of::Child(kind.place), object))
                }
                _ => None,
            };
            for instance in cache.take(&kind, &end, event) {
                concern(instance, seen.clone());
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
