//! Instances: what the hub holds of them, and the workers that reconcile them, a queue for each
//! target.
//!
//! In reading order: [`reconcile`] (one instance, from the hub's object to children and status),
//! [`claims`] (what is an instance's own), [`applying`], [`ledger`], [`mirror`], [`deletion`],
//! [`status`].
//!
//! # Invariants
//!
//! One watch for each endpoint, over all logical clusters. What it delivers of a cluster counts only if the definition
//! that serves the kind in that cluster has this endpoint: the version that one cluster's definition chooses moves no
//! other cluster's instances.

pub(crate) mod applying;
pub(crate) mod claims;
pub(crate) mod deletion;
pub(crate) mod ledger;
pub(crate) mod mirror;
pub(crate) mod reconcile;
pub(crate) mod status;

use std::{collections::HashMap, sync::Arc};

use api::{GroupKind, GroupResource, GroupVersionResource, LogicalCluster};
use client::reflector::{self, Event, RawObject};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    engine::Engine,
    keys::{InstanceKey, newer},
    target::Target,
};

/// Instances of one target that are worked on at the same time. Most of the time of a reconcile is
/// waiting for the target's answers; 16 keep two cores of a kube-apiserver busy.
const WORKER_COUNT: usize = 16;

/// All instances of the hub, over all logical clusters.
#[derive(Debug, Default)]
pub(crate) struct InstanceCache {
    // Guards the maps; never held across an await.
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    watches: HashMap<GroupVersionResource, Watch>,
    instances: HashMap<LogicalCluster, HashMap<InstanceKey, Held>>,
    /// What watches delivered of clusters where another definition rules, or none: it counts once that changes.
    aside: HashMap<GroupVersionResource, HashMap<(LogicalCluster, InstanceKey), Arc<RawObject>>>,
}

/// An instance, and the endpoint that it was read from.
#[derive(Debug)]
struct Held {
    gvr: Arc<GroupVersionResource>,
    object: Arc<RawObject>,
}

#[derive(Debug)]
struct Watch {
    token: CancellationToken,
    synced: bool,
}

// === impl InstanceCache ===

impl InstanceCache {
    /// Tells the instance of a key.
    pub(crate) fn get(
        &self,
        cluster: &LogicalCluster,
        key: &InstanceKey,
    ) -> Option<Arc<RawObject>> {
        let state = self.state.lock();
        let held = state.instances.get(cluster)?.get(key)?;
        Some(Arc::clone(&held.object))
    }

    /// Tells all instances of a logical cluster.
    pub(crate) fn of_cluster(
        &self,
        cluster: &LogicalCluster,
    ) -> Vec<(InstanceKey, Arc<RawObject>)> {
        let state = self.state.lock();
        let instances = state.instances.get(cluster).into_iter().flatten();
        instances
            .map(|(key, held)| (key.clone(), Arc::clone(&held.object)))
            .collect()
    }

    /// Tells all keys of a kind, with their clusters.
    pub(crate) fn of_kind(&self, group_kind: &GroupKind) -> Vec<(LogicalCluster, InstanceKey)> {
        let state = self.state.lock();
        let clusters = state.instances.iter();
        clusters
            .flat_map(|(cluster, instances)| {
                instances
                    .keys()
                    .map(move |key| (cluster.clone(), key.clone()))
            })
            .filter(|(_, key)| key.group_kind == *group_kind)
            .collect()
    }

    /// Takes up the answer to our own write, unless a newer one is there.
    pub(crate) fn answered(
        &self,
        cluster: &LogicalCluster,
        key: &InstanceKey,
        object: Arc<RawObject>,
    ) {
        let mut state = self.state.lock();
        if let Some(known) = state
            .instances
            .get_mut(cluster)
            .and_then(|instances| instances.get_mut(key))
            && newer(&object.resource_version, &known.object.resource_version)
        {
            known.object = object;
        }
    }

    /// Tells whether every watched endpoint has delivered its first list.
    pub(crate) fn synced(&self) -> bool {
        self.state.lock().watches.values().all(|watch| watch.synced)
    }

    /// Tells whether an endpoint is watched and has delivered its first list: who is not there then, is not.
    pub(crate) fn knows(&self, gvr: &GroupVersionResource) -> bool {
        let state = self.state.lock();
        state.watches.get(gvr).is_some_and(|watch| watch.synced)
    }

    fn put(
        &self,
        gvr: &Arc<GroupVersionResource>,
        cluster: &LogicalCluster,
        key: &InstanceKey,
        object: &Arc<RawObject>,
    ) -> bool {
        let mut state = self.state.lock();
        state.forget_aside(gvr, cluster, key);
        let instances = state.instances.entry(cluster.clone()).or_default();
        let known = instances.get(key).map(|held| &held.object);
        if known.is_some_and(|known| newer(&known.resource_version, &object.resource_version)) {
            return false;
        }
        let concerns = known.is_none_or(|known| concerns(known, object));
        let held = Held {
            gvr: Arc::clone(gvr),
            object: Arc::clone(object),
        };
        instances.insert(key.clone(), held);
        concerns
    }

    /// Keeps what a cluster's definition does not count.
    fn put_aside(
        &self,
        gvr: &GroupVersionResource,
        cluster: LogicalCluster,
        key: InstanceKey,
        object: Arc<RawObject>,
    ) {
        let mut state = self.state.lock();
        let aside = state.aside.entry(gvr.clone()).or_default();
        aside.insert((cluster, key), object);
    }

    /// Forgets an instance that an endpoint shows no longer. Returns whether it counted.
    fn remove(
        &self,
        gvr: &GroupVersionResource,
        cluster: &LogicalCluster,
        key: &InstanceKey,
        uid: &str,
    ) -> bool {
        let mut state = self.state.lock();
        state.forget_aside(gvr, cluster, key);
        if let Some(instances) = state.instances.get_mut(cluster)
            && let Some(held) = instances.get(key)
            && held.object.uid == uid
            && *held.gvr == *gvr
        {
            instances.remove(key);
            return true;
        }
        false
    }

    /// Tells all that was read from an endpoint.
    fn of_endpoint(
        &self,
        gvr: &GroupVersionResource,
    ) -> Vec<(LogicalCluster, InstanceKey, String)> {
        let state = self.state.lock();
        let counted = state.instances.iter().flat_map(|(cluster, instances)| {
            instances
                .iter()
                .filter(|(_, held)| *held.gvr == *gvr)
                .map(move |(key, held)| (cluster.clone(), key.clone(), held.object.uid.clone()))
        });
        let aside = state.aside.get(gvr).into_iter().flatten();
        let aside = aside
            .map(|((cluster, key), object)| (cluster.clone(), key.clone(), object.uid.clone()));
        counted.chain(aside).collect()
    }
}

// === impl CacheState ===

impl CacheState {
    fn forget_aside(
        &mut self,
        gvr: &GroupVersionResource,
        cluster: &LogicalCluster,
        key: &InstanceKey,
    ) {
        // Nearly always empty: nothing is made to be looked up then.
        if let Some(aside) = self.aside.get_mut(gvr) {
            aside.remove(&(cluster.clone(), key.clone()));
            if aside.is_empty() {
                self.aside.remove(gvr);
            }
        }
    }
}

/// Tells whether a change of an instance is work: its own status is not.
fn concerns(known: &RawObject, object: &RawObject) -> bool {
    known.uid != object.uid
        || known.generation != object.generation
        || known.deletion_timestamp != object.deletion_timestamp
        || known.labels != object.labels
        || known.annotations != object.annotations
        || known.finalizers != object.finalizers
        // The same version under another schema.
        || (known.resource_version == object.resource_version
            && known.raw().get() != object.raw().get())
}

/// Tells the logical cluster that the hub says an object is in.
pub(crate) fn cluster_of(object: &RawObject) -> Option<LogicalCluster> {
    object
        .annotations
        .get(api::cluster::ANNOTATION)?
        .parse()
        .ok()
}

/// Starts the watch of an endpoint of instances over all logical clusters, unless it runs.
pub(crate) fn watch(engine: &Arc<Engine>, gvr: &GroupVersionResource) {
    let token = {
        let mut state = engine.instances.state.lock();
        if state.watches.contains_key(gvr) {
            return;
        }
        let token = engine.tasks.child_token();
        let watch = Watch {
            token: token.clone(),
            synced: false,
        };
        state.watches.insert(gvr.clone(), watch);
        token
    };
    let source = engine.everywhere(gvr);
    let mut events = reflector::start(source, &engine.tasks, token.clone());
    let follower = Arc::clone(engine);
    let gvr = Arc::new(gvr.clone());
    engine.tasks.spawn("instances", async move {
        while let Some(event) = events.recv().await {
            if token.is_cancelled() {
                return; // another watch of the endpoint may run by now
            }
            take(&follower, &gvr, event);
        }
    });
}

/// Ends the watches of endpoints that no definition has any more and that have no instances.
pub(crate) fn end_unused_watches(engine: &Engine) {
    let watched: Vec<GroupVersionResource> = {
        let state = engine.instances.state.lock();
        state.watches.keys().cloned().collect()
    };
    for gvr in watched {
        if engine.definitions.has_endpoint(&gvr) {
            continue;
        }
        let mut state = engine.instances.state.lock();
        let mut held = state.instances.values().flat_map(HashMap::values);
        if held.any(|held| *held.gvr == gvr) {
            continue;
        }
        state.aside.remove(&gvr);
        if let Some(watch) = state.watches.remove(&gvr) {
            watch.token.cancel();
        }
    }
}

/// Counts what was put aside and is ruled by another definition by now.
pub(crate) fn count_anew(engine: &Engine, resource: &GroupResource) {
    let aside: Vec<_> = {
        let state = engine.instances.state.lock();
        let of_resource = state
            .aside
            .iter()
            .filter(|(gvr, _)| gvr.group_resource() == *resource);
        let objects = of_resource.flat_map(|(gvr, objects)| {
            let gvr = Arc::new(gvr.clone());
            objects.iter().map(move |((cluster, key), object)| {
                let place = (cluster.clone(), key.group_kind.clone());
                (Arc::clone(&gvr), place, Arc::clone(object))
            })
        });
        objects.collect()
    };
    for (gvr, (cluster, group_kind), object) in aside {
        let rules = engine.definitions.endpoint(&cluster, &group_kind);
        if rules.is_some_and(|rules| rules == *gvr) {
            changed(engine, &gvr, &object);
        }
    }
}

fn take(engine: &Engine, gvr: &Arc<GroupVersionResource>, event: Event) {
    match event {
        Event::Restarted { objects, .. } => {
            let mut left = engine.instances.of_endpoint(gvr);
            let mut listed = std::collections::HashSet::new();
            for object in &objects {
                if let Some(cluster) = cluster_of(object) {
                    listed.insert((cluster, key_of(gvr, object)));
                }
                changed(engine, gvr, object);
            }
            left.retain(|(cluster, key, _)| !listed.contains(&(cluster.clone(), key.clone())));
            for (cluster, key, uid) in left {
                gone(engine, gvr, &cluster, &key, &uid);
            }
            if let Some(watch) = engine.instances.state.lock().watches.get_mut(&**gvr) {
                watch.synced = true;
            }
            end_unused_watches(engine);
        }
        Event::Applied(object) => changed(engine, gvr, &object),
        Event::Deleted(object) => {
            if let Some(cluster) = cluster_of(&object) {
                gone(engine, gvr, &cluster, &key_of(gvr, &object), &object.uid);
            }
        }
        Event::Interrupted(reason) => debug!(%gvr, reason, "watch of instances interrupted"),
        Event::Resumed => {}
    }
}

/// Names an instance by its own kind: a cluster may have another kind at the same endpoint.
fn key_of(gvr: &GroupVersionResource, object: &RawObject) -> InstanceKey {
    let group_kind = GroupKind {
        group: gvr.group.clone(),
        kind: object.type_meta.kind.clone(),
    };
    InstanceKey::of_instance(&group_kind, object)
}

fn changed(engine: &Engine, gvr: &Arc<GroupVersionResource>, object: &Arc<RawObject>) {
    let Some(cluster) = cluster_of(object) else {
        warn!(%gvr, name = object.name, "an instance without its logical cluster");
        return;
    };
    let key = key_of(gvr, object);
    let rules = engine.definitions.endpoint(&cluster, &key.group_kind);
    if rules.is_none_or(|rules| rules != **gvr) {
        engine
            .instances
            .put_aside(gvr, cluster, key, Arc::clone(object));
        return;
    }
    if engine.instances.put(gvr, &cluster, &key, object)
        && let Some(target) = engine.fleet.get(&cluster)
    {
        target.queue.add(key);
    }
    engine.note_census(&cluster);
}

fn gone(
    engine: &Engine,
    gvr: &GroupVersionResource,
    cluster: &LogicalCluster,
    key: &InstanceKey,
    uid: &str,
) {
    if !engine.instances.remove(gvr, cluster, key, uid) {
        return;
    }
    if let Some(target) = engine.fleet.get(cluster) {
        // The reconcile of a key without an instance forgets it and looks after its mirror.
        target.queue.add(key.clone());
    }
    engine.note_census(cluster);
}

/// Starts the workers of a target. They end with its token.
pub(crate) fn start_workers(engine: &Arc<Engine>, target: &Arc<Target>) {
    for _ in 0..WORKER_COUNT {
        let (engine, target) = (Arc::clone(engine), Arc::clone(target));
        let tasks = engine.tasks.clone();
        tasks.spawn("instance-worker", async move {
            tokio::select! {
                biased;
                () = target.token.cancelled() => return,
                () = target.probed() => {}
            }
            while let Some(key) = target.queue.next_until(&target.token).await {
                reconcile::run(&engine, &target, &key).await;
                target.queue.done(&key);
            }
        });
    }
    if target.sort == crate::target::TargetSort::Mirrored {
        mirror::start_status_worker(engine, target);
    }
}
