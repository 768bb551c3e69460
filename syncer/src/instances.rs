//! Instances: what the hub holds of them, and the workers that reconcile them, a queue for each
//! target.
//!
//! In reading order: [`reconcile`] (one instance, from the hub's object to children and status),
//! [`work`] (an instance in the hands of a worker), [`applying`], [`brake`] (of deletions), [`ledger`], [`mirror`], [`deletion`],
//! [`imported`] (instances that were made in their spoke), [`orphans`] (mirrors without an instance), [`externals`], [`status`], [`events`].
//!
//! # Invariants
//!
//! One watch for each endpoint, over all logical clusters. What it delivers of a cluster counts only if the definition
//! that serves the kind in that cluster has this endpoint: the version that one cluster's definition chooses moves no
//! other cluster's instances.

pub(crate) mod applying;
pub(crate) mod brake;
pub(crate) mod deletion;
pub(crate) mod events;
pub(crate) mod externals;
pub(crate) mod imported;
pub(crate) mod kept;
pub(crate) mod ledger;
pub(crate) mod mirror;
pub(crate) mod orphans;
pub(crate) mod owned;
pub(crate) mod reconcile;
pub(crate) mod status;
pub(crate) mod work;

use std::sync::Arc;

use api::{GroupKind, GroupResource, GroupVersionResource, LogicalCluster};
use client::reflector::{self, Event, RawObject};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, debug, debug_span, warn};

use crate::{
    engine::Engine,
    spans::{self, traced_span},
    state::{
        keys::{InstanceKey, cluster_of},
        own_states::{ObjectState, Of},
        served::Served,
        target::{Target, TargetSort},
    },
};

/// Instances of one target that are worked on at the same time. Most of the time of a reconcile is
/// waiting for the target's answers; 16 keep two cores of a kube-apiserver busy.
const WORKER_COUNT: usize = 16;

/// Starts the watch of an endpoint of instances over all logical clusters, unless it runs.
pub(crate) fn watch(engine: &Arc<Engine>, gvr: &GroupVersionResource) {
    let Some(token) = engine.instances.begin_watch(gvr, &engine.tasks) else {
        return;
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
    for gvr in engine.instances.watched() {
        if !engine.definitions.has_endpoint(&gvr) {
            engine.instances.end_watch_if_unused(&gvr);
        }
    }
}

/// Counts what was put aside and is ruled by another definition by now.
pub(crate) fn count_anew(engine: &Engine, resource: &GroupResource) {
    for aside in engine.instances.aside(resource) {
        let rules = engine
            .definitions
            .endpoint(&aside.cluster, &aside.group_kind);
        if rules.is_some_and(|rules| rules == *aside.gvr) {
            changed(engine, &aside.gvr, &aside.object);
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
            engine.instances.set_synced(gvr);
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
        warn!(%gvr, name = object.name, "instance does not name its logical cluster");
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
        target
            .queue
            .add_for(key, ObjectState::new(Of::Instance, object));
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
                let turn = engine.turns.take((target.cluster.clone(), key.clone()));
                let _turn = turn.await;
                if target.token.is_cancelled() {
                    return; // whoever ended the target may wait until nobody works for it
                }
                let cluster = &target.cluster;
                let span = debug_span!("reconcile", controller = "instance", %cluster, %key);
                let traced = traced(&engine, cluster, &key);
                // Boxed: what waits for work takes no room for it, and there are many workers.
                let reconcile = Box::pin(reconcile::run(&engine, &target, &key));
                let begun = Instant::now();
                let end = reconcile.instrument(traced).instrument(span).await;
                let failed = end == reconcile::End::Failed;
                engine.metrics.reconciled(cluster, begun.elapsed(), failed);
                target.queue.done(&key);
            }
        });
    }
    events::start_writer(engine, target);
    if target.sort == TargetSort::Mirrored {
        mirror::start_status_worker(engine, target);
    }
}

/// Makes the span of a reconcile that is sampled.
fn traced(engine: &Engine, cluster: &LogicalCluster, key: &InstanceKey) -> Span {
    spans::sampled(
        || uid_of(engine, cluster, key),
        || traced_span!(controller = "instance", %cluster, %key),
    )
}

/// The uid of an instance, empty where there is none.
fn uid_of(engine: &Engine, cluster: &LogicalCluster, key: &InstanceKey) -> String {
    let instance = engine.instances.get(cluster, key);
    instance.map(|it| it.uid.clone()).unwrap_or_default()
}

/// Starts the watch of a kind's mirrors in a spoke, unless it runs.
pub(crate) fn watch_mirrors(engine: &Arc<Engine>, target: &Arc<Target>, served: &Served) {
    let group_kind = served.graph.group_kind().clone();
    let Some(end) = target.mirrors.register(&group_kind, &target.token) else {
        return;
    };
    let source = target.source(served.graph.gvr(), None);
    let mut events = target.follow(source, end.clone());
    let (follower, target) = (Arc::clone(engine), Arc::clone(target));
    engine.tasks.spawn("mirrors", async move {
        while let Some(event) = events.recv().await {
            if matches!(event, Event::Restarted { .. }) {
                follower.note_census(&target.cluster); // after a restore it says whether all was seen
                follower.distribution_queue.add(target.cluster.clone()); // it may wait for what is there
            }
            let concerned = target.mirrors.take(&group_kind, &end, event);
            for key in concerned.instances {
                target.queue.add(key);
            }
            if let Some(key) = concerned.status {
                mirror::note_written_status(&target, &key);
            }
        }
    });
}
