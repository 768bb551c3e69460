//! Collects objects whose owners are gone, and does what `foregroundDeletion` and `orphan` ask for.
//!
//! One task follows the whole store and keeps, for every owner that is named somewhere, the keys of its dependents.
//! The graph only says whom to look at: before anything is deleted, the owner is looked up where the reference says
//! that it is. A reference to a kind that is not served is left alone.
//!
//! It collects in every logical cluster. What the hub stores for a spoke has dependents in the hub, which are collected
//! here, and others in the spoke, which name the mirror: the syncer deletes the mirror as the instance was deleted, and
//! the spoke's own collector does the rest. Until the syncer has let go of the instance, its finalizer stays.
//!
//! # Invariants
//! - No work is dropped: what cannot be written is tried again, what is not served waits until it is.
//!
//! Source: kubernetes/pkg/controller/garbagecollector/garbagecollector.go (attemptToDeleteItem, attemptToOrphan).

mod graph;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::meta::{self, FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use api::query::{DeleteOptions, Preconditions, Propagation};
use api::{GroupVersion, LogicalCluster, OwnerReference};
use serde_json::Value;
use storage::{Event, EventKind, Key, KeyRange, RangeQuery, WatchEnd, WatchQuery};
use tasks::Tasks;

use super::WRITE_TIMEOUT;
use crate::call::{Shared, Target};
use crate::handle::controllers;
use crate::objects::{head, parse_key};
use crate::registry::{ClusterKind, ResourceScope};

use graph::Graph;

/// Between two attempts of a write that was refused: the store is full, or others write all the time.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn start(shared: &Arc<Shared>, tasks: &Tasks) {
    let (shared, token) = (Arc::clone(shared), tasks.child_token());
    // It ends at shutdown; without it, dependents stay, and foreground deletions do not end.
    tasks.spawn("garbage", async move {
        while !token.is_cancelled() {
            let mut collector = Collector::new(Arc::clone(&shared));
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                end = collector.run() => {
                    if end == WatchEnd::Closed {
                        token.cancelled().await;
                    }
                }
            }
        }
    });
}

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// An object that names owners: are they there?
    Owners(Key),
    /// An object that is being deleted: what about its dependents?
    Dependents(Key),
}

/// What came of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// There is nothing to do before something changes.
    Done,
    /// Its kind or its cluster is not served.
    Unserved,
    /// Something could not be written.
    Refused,
}

/// An object with what is needed to change it.
struct Found {
    scope: Arc<ResourceScope>,
    target: Target,
    object: Value,
}

/// What an owner reference leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// There, or not to be found out.
    Solid,
    /// Not there.
    Absent,
    /// There, and waits for its dependents to go.
    Waiting,
}

struct Collector {
    shared: Arc<Shared>,
    graph: Graph,
    queue: Queue,
    /// What waits for its kind or its cluster to be served.
    unserved: BTreeSet<Work>,
    /// What waits for the next attempt of a write.
    refused: BTreeSet<Work>,
}

/// What is to be looked at, each once, in the order in which it came.
#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<Work>,
    held: BTreeSet<Work>,
}

// === impl Queue ===

impl Queue {
    fn push(&mut self, work: Work) {
        if self.held.insert(work.clone()) {
            self.order.push_back(work);
        }
    }

    fn pop(&mut self) -> Option<Work> {
        let work = self.order.pop_front()?;
        self.held.remove(&work);
        Some(work)
    }
}

// === impl Collector ===

impl Collector {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            graph: Graph::default(),
            queue: Queue::default(),
            unserved: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }

    async fn run(&mut self) -> WatchEnd {
        let mut clusters = self.shared.registry.clusters();
        let mut definitions = self.shared.registry.definitions();
        let Ok(found) = self.shared.store.range(RangeQuery::of(KeyRange::all())) else {
            return WatchEnd::Closed;
        };
        for entry in &found.entries {
            self.observe_state(&entry.to_key(), entry.value());
        }
        let query = WatchQuery {
            range: KeyRange::all(),
            after: found.revision,
        };
        drop(found);
        let Ok(mut watcher) = self.shared.store.watch(query) else {
            return WatchEnd::Expired;
        };
        loop {
            self.work().await;
            tokio::select! {
                biased;
                events = watcher.next() => match events {
                    Ok(events) => events.iter().for_each(|event| self.observe(event)),
                    Err(end) => return end,
                },
                _changed = clusters.changed() => self.served_anew(),
                // Whoever lags looks at all of them.
                _changed = definitions.recv() => self.served_anew(),
                () = tokio::time::sleep(RETRY_PAUSE), if !self.refused.is_empty() => {
                    for work in std::mem::take(&mut self.refused) {
                        self.queue.push(work);
                    }
                }
            }
        }
    }

    fn served_anew(&mut self) {
        for work in std::mem::take(&mut self.unserved) {
            self.queue.push(work);
        }
    }

    /// Works until nothing is left that can be done now.
    async fn work(&mut self) {
        while let Some(work) = self.queue.pop() {
            let looked = match &work {
                Work::Owners(key) => self.look_at_owners(key).await,
                Work::Dependents(key) => self.look_at_dependents(key).await,
            };
            match looked {
                Looked::Done => {}
                Looked::Unserved => drop(self.unserved.insert(work)),
                Looked::Refused => drop(self.refused.insert(work)),
            }
        }
    }

    fn observe(&mut self, event: &Event) {
        let key = Key::copy_of(event.key());
        if event.kind() != EventKind::Deleted {
            self.observe_state(&key, event.entry().value());
            return;
        }
        for waiting in self.graph.forget(&key) {
            self.queue.push(Work::Dependents(waiting));
        }
        let Some(uid) = head(event.entry().value()).map(|head| head.uid.into_owned()) else {
            return;
        };
        for dependent in self.graph.dependents(&uid) {
            self.queue.push(Work::Owners(dependent));
        }
    }

    fn observe_state(&mut self, key: &Key, value: &[u8]) {
        let Some(head) = head(value) else { return };
        let concerns = head.owned || (head.deleting && head.finalized) || self.graph.knows(key);
        if !concerns {
            return;
        }
        let owners = if head.owned {
            let object = serde_json::from_slice::<Value>(value).unwrap_or_default();
            meta::owner_references(&object)
                .into_iter()
                .map(|owner| owner.uid)
                .collect()
        } else {
            Vec::new()
        };
        for waiting in self.graph.put(key, owners) {
            self.queue.push(Work::Dependents(waiting));
        }
        if head.owned {
            self.queue.push(Work::Owners(key.clone()));
        }
        if head.deleting && head.finalized {
            self.queue.push(Work::Dependents(key.clone()));
        }
    }

    /// Finds an object that is to be looked at.
    ///
    /// # Errors
    /// What comes of the look where there is nothing to look at.
    fn find(&self, key: &Key) -> Result<Found, Looked> {
        let entry = self.shared.store.get(key).ok_or(Looked::Done)?;
        let parts = parse_key(key).ok_or(Looked::Done)?;
        let cluster: LogicalCluster = parts.cluster.parse().map_err(|_name| Looked::Done)?;
        let registry = &self.shared.registry;
        let scope = registry.stored(&cluster, parts.group, parts.resource);
        let scope = scope.ok_or(Looked::Unserved)?;
        let target = Target {
            cluster,
            namespace: parts.namespace.to_owned(),
            name: parts.name.to_owned(),
            key: key.clone(),
        };
        let object = serde_json::from_slice(entry.value()).map_err(|_malformed| Looked::Done)?;
        Ok(Found {
            scope,
            target,
            object,
        })
    }

    /// The dependents of an object in its own cluster. A reference from another cluster names nobody there, even
    /// where it has the right uid.
    fn dependents(&self, key: &Key, uid: &str) -> Vec<Key> {
        let cluster = parse_key(key).map(|parts| parts.cluster);
        let mut dependents = self.graph.dependents(uid);
        dependents.retain(|dependent| parse_key(dependent).map(|parts| parts.cluster) == cluster);
        dependents
    }

    /// Deletes an object that has no owner left, and drops references to owners that are gone.
    async fn look_at_owners(&self, key: &Key) -> Looked {
        let found = match self.find(key) {
            Ok(found) => found,
            Err(looked) => return looked,
        };
        if meta::is_terminating(&found.object) {
            return Looked::Done;
        }
        let owners = meta::owner_references(&found.object);
        let states: Vec<(String, Owner)> = owners
            .into_iter()
            .map(|owner| (owner.uid.clone(), self.state_of(&found.target, &owner)))
            .collect();
        let any = |state| states.iter().any(|(_, its)| *its == state);
        if states.is_empty() || !(any(Owner::Absent) || any(Owner::Waiting)) {
            return Looked::Done;
        }
        if any(Owner::Solid) {
            let gone: Vec<&str> = states
                .iter()
                .filter(|(_, state)| *state != Owner::Solid)
                .map(|(uid, _)| uid.as_str())
                .collect();
            return self.drop_owners(&found, &gone).await;
        }
        let dependents = self.dependents(key, meta::uid(&found.object));
        let has = |finalizer| meta::has_finalizer(&found.object, finalizer);
        let propagation = if any(Owner::Waiting) {
            if dependents.iter().any(|it| self.waits_for_dependents(it)) {
                // Perhaps in a circle, in which each would wait for the next: this one blocks no owner any more.
                if self.unblock(&found).await == Looked::Refused {
                    return Looked::Refused;
                }
            }
            if dependents.is_empty() {
                Propagation::Background
            } else {
                Propagation::Foreground
            }
        } else if has(FINALIZER_ORPHAN) {
            Propagation::Orphan
        } else if has(FINALIZER_FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        self.delete(&found, propagation).await
    }

    async fn delete(&self, found: &Found, propagation: Propagation) -> Looked {
        let uid = Some(meta::uid(&found.object).to_owned());
        let preconditions = Preconditions {
            uid,
            ..Preconditions::default()
        };
        let options = DeleteOptions {
            propagation: Some(propagation),
            preconditions,
            ..DeleteOptions::default()
        };
        let access = controllers::access(&self.shared, &found.scope, WRITE_TIMEOUT);
        let _gone = controllers::delete(&access, &found.target, &options).await;
        self.holds(found, meta::is_terminating)
    }

    /// Does what the finalizers of garbage collection ask of an object that is being deleted.
    async fn look_at_dependents(&mut self, key: &Key) -> Looked {
        let found = match self.find(key) {
            Ok(found) => found,
            Err(looked) => return looked,
        };
        let asks = |finalizer| meta::has_finalizer(&found.object, finalizer);
        let concerns = asks(FINALIZER_ORPHAN) || asks(FINALIZER_FOREGROUND);
        if !meta::is_terminating(&found.object) || !concerns || self.is_mirrored(&found) {
            return Looked::Done;
        }
        let uid = meta::uid(&found.object).to_owned();
        let dependents = self.dependents(key, &uid);
        if asks(FINALIZER_ORPHAN) {
            for dependent in &dependents {
                let looked = match self.find(dependent) {
                    Ok(dependent) => self.drop_owners(&dependent, &[&uid]).await,
                    Err(looked) => looked,
                };
                if looked != Looked::Done {
                    return looked;
                }
            }
            return self.release(&found, FINALIZER_ORPHAN).await;
        }
        let blocking = dependents.iter().filter(|dependent| {
            self.find(dependent).is_ok_and(|dependent| {
                let owners = meta::owner_references(&dependent.object);
                owners
                    .iter()
                    .any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
            })
        });
        if blocking.count() == 0 {
            return self.release(&found, FINALIZER_FOREGROUND).await;
        }
        self.graph.wait(&uid, key);
        for dependent in dependents {
            self.queue.push(Work::Owners(dependent));
        }
        Looked::Done
    }

    /// Whether an object may have a mirror in a spoke, which the syncer deletes as this object was: what its finalizers
    /// of garbage collection ask for holds for the dependents of the mirror too.
    fn is_mirrored(&self, found: &Found) -> bool {
        let kind = self.shared.registry.cluster_kind(&found.target.cluster);
        kind == Some(ClusterKind::Composite)
            && meta::has_finalizer(&found.object, api::kro::keys::FINALIZER)
    }

    /// Whether an object is being deleted and waits for its own dependents.
    fn waits_for_dependents(&self, key: &Key) -> bool {
        self.find(key).is_ok_and(|found| {
            meta::is_terminating(&found.object)
                && meta::has_finalizer(&found.object, FINALIZER_FOREGROUND)
        })
    }

    async fn release(&self, found: &Found, finalizer: &str) -> Looked {
        let access = controllers::access(&self.shared, &found.scope, WRITE_TIMEOUT);
        let _written = controllers::change(&access, &found.target, |object| {
            meta::remove_finalizer(object, finalizer);
        })
        .await;
        self.holds(found, |object| !meta::has_finalizer(object, finalizer))
    }

    async fn drop_owners(&self, found: &Found, uids: &[&str]) -> Looked {
        let access = controllers::access(&self.shared, &found.scope, WRITE_TIMEOUT);
        let names = |owner: &Value| uids.iter().any(|uid| owner["uid"] == **uid);
        let _written = controllers::change(&access, &found.target, |object| {
            let metadata = meta::metadata_mut(object);
            let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else {
                return;
            };
            owners.retain(|owner| !names(owner));
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        })
        .await;
        self.holds(found, |object| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            !owners.into_iter().flatten().any(names)
        })
    }

    /// Lets an object block no owner.
    async fn unblock(&self, found: &Found) -> Looked {
        let access = controllers::access(&self.shared, &found.scope, WRITE_TIMEOUT);
        let blocks = |owner: &Value| owner["blockOwnerDeletion"] == true;
        let _written = controllers::change(&access, &found.target, |object| {
            let metadata = meta::metadata_mut(object);
            let owners = metadata.get_mut("ownerReferences");
            let owners = owners.and_then(Value::as_array_mut).into_iter().flatten();
            for owner in owners.filter(|owner| blocks(owner)) {
                owner["blockOwnerDeletion"] = Value::from(false);
            }
        })
        .await;
        self.holds(found, |object| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            !owners.into_iter().flatten().any(blocks)
        })
    }

    /// Whether a write came to what it was for: the object is gone, is another by now, or is as it should be.
    fn holds(&self, found: &Found, is_so: impl Fn(&Value) -> bool) -> Looked {
        let Some(entry) = self.shared.store.get(&found.target.key) else {
            return Looked::Done;
        };
        let object = serde_json::from_slice::<Value>(entry.value()).unwrap_or_default();
        if meta::uid(&object) != meta::uid(&found.object) || is_so(&object) {
            Looked::Done
        } else {
            Looked::Refused
        }
    }

    /// Looks an owner up where its reference says that it is.
    fn state_of(&self, dependent: &Target, owner: &OwnerReference) -> Owner {
        let Ok(version) = owner.api_version.parse::<GroupVersion>() else {
            return Owner::Solid;
        };
        // Any version of the kind will do: the object is the same.
        let registry = &self.shared.registry;
        let Some(scope) = registry.of_kind(&dependent.cluster, &version.group, &owner.kind) else {
            return Owner::Solid;
        };
        let namespace = if scope.kind.namespaced {
            dependent.namespace.as_str()
        } else {
            ""
        };
        if scope.kind.namespaced && namespace.is_empty() {
            // A cluster-scoped object cannot have such an owner; Kubernetes leaves it alone.
            return Owner::Solid;
        }
        let key = scope
            .rules
            .prefix
            .key(&dependent.cluster, namespace, &owner.name);
        let Some(entry) = self.shared.store.get(&key) else {
            return Owner::Absent;
        };
        match head(entry.value()) {
            Some(head) if head.uid != owner.uid => Owner::Absent,
            Some(head) if head.deleting && head.finalized => {
                let object = serde_json::from_slice::<Value>(entry.value()).unwrap_or_default();
                let waits = meta::has_finalizer(&object, FINALIZER_FOREGROUND);
                if waits { Owner::Waiting } else { Owner::Solid }
            }
            Some(_) | None => Owner::Solid,
        }
    }
}
