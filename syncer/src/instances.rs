//! Instances: what the hub holds of them, and the workers that reconcile them, a queue for each
//! target.
//!
//! In reading order: [`reconcile`] (one instance, from the hub's object to children and status),
//! [`applying`], [`ledger`], [`mirror`], [`deletion`], [`status`].

pub(crate) mod applying;
pub(crate) mod deletion;
pub(crate) mod ledger;
pub(crate) mod mirror;
pub(crate) mod reconcile;
pub(crate) mod status;

use std::{collections::HashMap, sync::Arc};

use api::{GroupKind, GroupVersionResource, LogicalCluster};
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
    kinds: HashMap<GroupKind, KindState>,
    instances: HashMap<LogicalCluster, HashMap<InstanceKey, Arc<RawObject>>>,
}

#[derive(Debug)]
struct KindState {
    gvr: GroupVersionResource,
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
        self.state.lock().instances.get(cluster)?.get(key).cloned()
    }

    /// Tells all instances of a logical cluster.
    pub(crate) fn of_cluster(
        &self,
        cluster: &LogicalCluster,
    ) -> Vec<(InstanceKey, Arc<RawObject>)> {
        let state = self.state.lock();
        let instances = state.instances.get(cluster).into_iter().flatten();
        instances
            .map(|(key, instance)| (key.clone(), Arc::clone(instance)))
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
            && newer(&object.resource_version, &known.resource_version)
        {
            *known = object;
        }
    }

    /// Tells whether every watched kind has delivered its first list.
    pub(crate) fn synced(&self) -> bool {
        self.state.lock().kinds.values().all(|kind| kind.synced)
    }

    /// Tells whether a kind is watched and has delivered its first list: who is not there then, is not.
    pub(crate) fn knows(&self, group_kind: &GroupKind) -> bool {
        let state = self.state.lock();
        state.kinds.get(group_kind).is_some_and(|kind| kind.synced)
    }

    fn put(&self, cluster: LogicalCluster, key: &InstanceKey, object: &Arc<RawObject>) -> bool {
        let mut state = self.state.lock();
        let instances = state.instances.entry(cluster).or_default();
        let known = instances.get(key);
        if known.is_some_and(|known| newer(&known.resource_version, &object.resource_version)) {
            return false;
        }
        let concerns = known.is_none_or(|known| concerns(known, object));
        instances.insert(key.clone(), Arc::clone(object));
        concerns
    }

    fn remove(&self, cluster: &LogicalCluster, key: &InstanceKey, uid: &str) {
        let mut state = self.state.lock();
        if let Some(instances) = state.instances.get_mut(cluster)
            && instances.get(key).is_some_and(|known| known.uid == uid)
        {
            instances.remove(key);
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
}

/// Tells the logical cluster that the hub says an object is in.
pub(crate) fn cluster_of(object: &RawObject) -> Option<LogicalCluster> {
    object
        .annotations
        .get(api::cluster::ANNOTATION)?
        .parse()
        .ok()
}

/// Starts the watch of a kind of instances over all logical clusters, unless it runs.
pub(crate) fn watch(engine: &Arc<Engine>, group_kind: &GroupKind, gvr: &GroupVersionResource) {
    let token = {
        let mut state = engine.instances.state.lock();
        if let Some(known) = state.kinds.get(group_kind) {
            if known.gvr == *gvr {
                return;
            }
            known.token.cancel();
        }
        let token = engine.tasks.child_token();
        let kind = KindState {
            gvr: gvr.clone(),
            token: token.clone(),
            synced: false,
        };
        state.kinds.insert(group_kind.clone(), kind);
        token
    };
    let source = reflector::Config {
        client: engine.hub.client().clone(),
        path: format!("/clusters/*{}/{}", gvr.group_version().path(), gvr.resource),
        label_selector: None,
        field_selector: None,
        name: format!("hub/{}", gvr.resource),
    };
    let mut events = reflector::start(source, &engine.tasks, token);
    let follower = Arc::clone(engine);
    let group_kind = group_kind.clone();
    engine.tasks.spawn("instances", async move {
        while let Some(event) = events.recv().await {
            take(&follower, &group_kind, event);
        }
    });
}

/// Ends the watch of a kind whose definition is gone.
pub(crate) fn unwatch(engine: &Engine, group_kind: &GroupKind) {
    if let Some(kind) = engine.instances.state.lock().kinds.remove(group_kind) {
        kind.token.cancel();
    }
}

fn take(engine: &Engine, group_kind: &GroupKind, event: Event) {
    match event {
        Event::Restarted { objects, .. } => {
            let mut left: Vec<(LogicalCluster, InstanceKey)> = engine.instances.of_kind(group_kind);
            let mut listed = std::collections::HashSet::new();
            for object in &objects {
                if let Some(cluster) = cluster_of(object) {
                    listed.insert((cluster, InstanceKey::of_instance(group_kind, object)));
                }
                changed(engine, group_kind, object);
            }
            left.retain(|place| !listed.contains(place));
            for (cluster, key) in left {
                if let Some(instance) = engine.instances.get(&cluster, &key) {
                    gone(engine, &cluster, &key, &instance.uid);
                }
            }
            if let Some(kind) = engine.instances.state.lock().kinds.get_mut(group_kind) {
                kind.synced = true;
            }
        }
        Event::Applied(object) => changed(engine, group_kind, &object),
        Event::Deleted(object) => {
            if let Some(cluster) = cluster_of(&object) {
                let key = InstanceKey::of_instance(group_kind, &object);
                gone(engine, &cluster, &key, &object.uid);
            }
        }
        Event::Interrupted(reason) => debug!(%group_kind, reason, "watch of instances interrupted"),
        Event::Resumed => {}
    }
}

fn changed(engine: &Engine, group_kind: &GroupKind, object: &Arc<RawObject>) {
    let Some(cluster) = cluster_of(object) else {
        warn!(%group_kind, name = object.name, "an instance without its logical cluster");
        return;
    };
    let key = InstanceKey::of_instance(group_kind, object);
    if engine.instances.put(cluster.clone(), &key, object)
        && let Some(target) = engine.fleet.get(&cluster)
    {
        target.queue.add(key);
    }
    engine.note_census(&cluster);
}

fn gone(engine: &Engine, cluster: &LogicalCluster, key: &InstanceKey, uid: &str) {
    engine.instances.remove(cluster, key, uid);
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
