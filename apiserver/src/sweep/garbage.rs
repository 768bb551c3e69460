//! Collects objects whose owners are gone, and does what `foregroundDeletion` and `orphan` ask for.
//!
//! One task follows the whole store and keeps, for every owner that is named somewhere, the keys of its dependents.
//! The graph only says whom to look at: before anything is deleted, the owner is looked up where the reference says
//! that it is. A reference to a kind that is not served is left alone.
//! Source: kubernetes/pkg/controller/garbagecollector/garbagecollector.go (attemptToDeleteItem, attemptToOrphan).

mod graph;

use std::collections::VecDeque;
use std::sync::Arc;

use api::meta::{self, FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use api::query::{DeleteOptions, Preconditions, Propagation};
use api::{ClusterScope, GroupVersion, LogicalCluster, OwnerReference};
use serde_json::Value;
use storage::{Event, EventKind, Key, KeyRange, RangeQuery, WatchEnd, WatchQuery};
use tasks::Tasks;

use super::{WRITE_TIMEOUT, is_ours};
use crate::call::{Shared, Target};
use crate::handle::controllers;
use crate::objects::{head, parse_key};
use crate::registry::ResourceScope;

use graph::Graph;

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
#[derive(Debug, Clone, PartialEq, Eq)]
enum Work {
    /// An object that names owners: are they there?
    Owners(Key),
    /// An object that is being deleted: what about its dependents?
    Dependents(Key),
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
    queue: VecDeque<Work>,
}

// === impl Collector ===

impl Collector {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            graph: Graph::default(),
            queue: VecDeque::new(),
        }
    }

    async fn run(&mut self) -> WatchEnd {
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
            while let Some(work) = self.queue.pop_front() {
                match work {
                    Work::Owners(key) => self.look_at_owners(&key).await,
                    Work::Dependents(key) => self.look_at_dependents(&key).await,
                }
            }
            match watcher.next().await {
                Ok(events) => events.iter().for_each(|event| self.observe(event)),
                Err(end) => return end,
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
            self.push(Work::Dependents(waiting));
        }
        let Some(uid) = head(event.entry().value()).map(|head| head.uid.into_owned()) else {
            return;
        };
        for dependent in self.graph.dependents(&uid) {
            self.push(Work::Owners(dependent));
        }
    }

    fn observe_state(&mut self, key: &Key, value: &[u8]) {
        let Some(head) = head(value) else { return };
        let concerns = head.owned || (head.deleting && head.finalized) || self.graph.knows(key);
        if !concerns {
            return;
        }
        let cluster = parse_key(key).and_then(|parts| parts.cluster.parse().ok());
        if !cluster.is_some_and(|cluster| is_ours(&self.shared, &cluster)) {
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
            self.push(Work::Dependents(waiting));
        }
        if head.owned {
            self.push(Work::Owners(key.clone()));
        }
        if head.deleting && head.finalized {
            self.push(Work::Dependents(key.clone()));
        }
    }

    fn push(&mut self, work: Work) {
        if !self.queue.contains(&work) {
            self.queue.push_back(work);
        }
    }

    fn find(&self, key: &Key) -> Option<Found> {
        let entry = self.shared.store.get(key)?;
        let parts = parse_key(key)?;
        let cluster: LogicalCluster = parts.cluster.parse().ok()?;
        let of_cluster = self.shared.registry.resources(&cluster);
        let scope = of_cluster.into_iter().find(|scope| {
            scope.rules.resource.group == parts.group
                && scope.rules.resource.resource == parts.resource
        })?;
        let target = Target {
            cluster,
            namespace: parts.namespace.to_owned(),
            name: parts.name.to_owned(),
            key: key.clone(),
        };
        let object = serde_json::from_slice(entry.value()).ok()?;
        Some(Found {
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
    async fn look_at_owners(&self, key: &Key) {
        let Some(found) = self.find(key) else { return };
        if meta::is_terminating(&found.object) {
            return;
        }
        let owners = meta::owner_references(&found.object);
        let states: Vec<(String, Owner)> = owners
            .into_iter()
            .map(|owner| (owner.uid.clone(), self.state_of(&found.target, &owner)))
            .collect();
        let any = |state| states.iter().any(|(_, its)| *its == state);
        if states.is_empty() || !(any(Owner::Absent) || any(Owner::Waiting)) {
            return;
        }
        if any(Owner::Solid) {
            let gone: Vec<&str> = states
                .iter()
                .filter(|(_, state)| *state != Owner::Solid)
                .map(|(uid, _)| uid.as_str())
                .collect();
            self.drop_owners(&found, &gone).await;
            return;
        }
        let has_dependents = !self.dependents(key, meta::uid(&found.object)).is_empty();
        let has = |finalizer| meta::has_finalizer(&found.object, finalizer);
        let propagation = if any(Owner::Waiting) {
            if has_dependents {
                Propagation::Foreground
            } else {
                Propagation::Background
            }
        } else if has(FINALIZER_ORPHAN) {
            Propagation::Orphan
        } else if has(FINALIZER_FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
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
    }

    /// Does what the finalizers of garbage collection ask of an object that is being deleted.
    async fn look_at_dependents(&mut self, key: &Key) {
        let Some(found) = self.find(key) else { return };
        if !meta::is_terminating(&found.object) {
            return;
        }
        let uid = meta::uid(&found.object).to_owned();
        let dependents = self.dependents(key, &uid);
        if meta::has_finalizer(&found.object, FINALIZER_ORPHAN) {
            for dependent in &dependents {
                if let Some(dependent) = self.find(dependent) {
                    self.drop_owners(&dependent, &[&uid]).await;
                }
            }
            self.release(&found, FINALIZER_ORPHAN).await;
        }
        if !meta::has_finalizer(&found.object, FINALIZER_FOREGROUND) {
            return;
        }
        let blocking = dependents.iter().filter(|dependent| {
            self.find(dependent).is_some_and(|dependent| {
                let owners = meta::owner_references(&dependent.object);
                owners
                    .iter()
                    .any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
            })
        });
        if blocking.count() == 0 {
            self.release(&found, FINALIZER_FOREGROUND).await;
            return;
        }
        self.graph.wait(&uid, key);
        for dependent in dependents {
            self.push(Work::Owners(dependent));
        }
    }

    async fn release(&self, found: &Found, finalizer: &str) {
        let access = controllers::access(&self.shared, &found.scope, WRITE_TIMEOUT);
        let _written = controllers::change(&access, &found.target, |object| {
            meta::remove_finalizer(object, finalizer);
        })
        .await;
    }

    async fn drop_owners(&self, found: &Found, uids: &[&str]) {
        let access = controllers::access(&self.shared, &found.scope, WRITE_TIMEOUT);
        let _written = controllers::change(&access, &found.target, |object| {
            let metadata = meta::metadata_mut(object);
            let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else {
                return;
            };
            owners.retain(|owner| !uids.iter().any(|uid| owner["uid"] == **uid));
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        })
        .await;
    }

    /// Looks an owner up where its reference says that it is.
    fn state_of(&self, dependent: &Target, owner: &OwnerReference) -> Owner {
        let cluster = ClusterScope::One(dependent.cluster.clone());
        let Ok(version) = owner.api_version.parse::<GroupVersion>() else {
            return Owner::Solid;
        };
        let Some(served) = self.shared.registry.served(&cluster) else {
            return Owner::Solid;
        };
        let kinds = served.kinds();
        // Any version of the kind will do: the object is the same.
        let kind = kinds
            .iter()
            .find(|kind| kind.gvk.group == version.group && kind.gvk.kind == owner.kind);
        let Some(gvr) = kind.map(|kind| &kind.gvr) else {
            return Owner::Solid;
        };
        let registry = &self.shared.registry;
        let scope = registry.lookup(&dependent.cluster, &gvr.group, &gvr.version, &gvr.resource);
        let Some(scope) = scope else {
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
