//! Spokes: connected from their Secrets, probed, described in their status.
//!
//! In reading order: [`reconcile`] (one Spoke), [`heartbeat`], [`identity`] (which cluster it is), [`census`] (its status).

mod census;
mod heartbeat;
mod identity;
mod namespaces;
mod reconcile;

use std::{collections::HashMap, sync::Arc};

use api::{LogicalCluster, selector::Selector};
use client::{
    reflector::{self, Event, RawObject},
    spoke::SECRET_LABEL,
};
use parking_lot::Mutex;
use tracing::debug;

pub(crate) use identity::{Identities, IdentityFault};
pub use reconcile::join_objects;
pub(crate) use reconcile::start as start_target;

use crate::{definitions::Served, engine::Engine, keys::InstanceKey, resources, target::Target};

/// Spokes as the hub's watch last delivered them.
#[derive(Debug, Default)]
struct Known {
    // Guards the map; never held across an await.
    spokes: Mutex<HashMap<LogicalCluster, Arc<RawObject>>>,
}

/// Starts the watches of Spokes and of their Secrets, and the worker that reconciles them.
pub(crate) fn start(engine: &Arc<Engine>) {
    let known = Arc::new(Known::default());
    follow(engine, &resources::spokes(), None, None, {
        let (engine, known) = (Arc::clone(engine), Arc::clone(&known));
        move |event| take_spoke(&engine, &known, event)
    });
    let set_apart = engine.dialer.policy().secrets_namespace.clone();
    let labelled: Selector = SECRET_LABEL
        .parse()
        .expect("the key of a label selects those that have it");
    for (namespace, labels) in [(None, Some(labelled)), (Some(set_apart), None)] {
        let secrets = resources::core("secrets");
        let (taker, known) = (Arc::clone(engine), Arc::clone(&known));
        follow(engine, &secrets, namespace, labels, move |event| {
            take_secret(&taker, &known, event);
        });
    }
    let worker = Arc::clone(engine);
    let token = engine.tasks.child_token();
    engine.tasks.spawn("spoke-worker", async move {
        while let Some(cluster) = worker.spoke_queue.next_until(&token).await {
            // Each spoke in a task of its own: one that hangs holds nobody else back.
            let (engine, known) = (Arc::clone(&worker), Arc::clone(&known));
            worker.tasks.spawn("spoke", async move {
                let spoke = known.spokes.lock().get(&cluster).cloned();
                reconcile::run(&engine, &cluster, spoke.as_deref()).await;
                engine.spoke_queue.done(&cluster);
            });
        }
    });
}

/// Starts the watch of a kind's mirrors in a spoke, unless it runs.
pub(crate) fn watch_mirrors(engine: &Arc<Engine>, target: &Arc<Target>, served: &Served) {
    let group_kind = served.graph.group_kind();
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
            }
            for key in target.mirrors.take(&group_kind, &end, event) {
                target.queue.add(key);
            }
        }
    });
}

/// Names all instances whose namespace is a given one.
pub(crate) fn in_namespace(
    engine: &Engine,
    cluster: &LogicalCluster,
    namespace: &str,
) -> Vec<InstanceKey> {
    let instances = engine.instances.of_cluster(cluster);
    let keys = instances.into_iter().map(|(key, _)| key);
    keys.filter(|key| key.namespace == namespace).collect()
}

fn follow(
    engine: &Arc<Engine>,
    gvr: &api::GroupVersionResource,
    namespace: Option<String>,
    labels: Option<Selector>,
    mut take: impl FnMut(Event) + Send + 'static,
) {
    let mut source = reflector::Config {
        label_selector: labels,
        ..engine.in_root(gvr)
    };
    source.endpoint.namespace = namespace;
    let mut events = reflector::start(source, &engine.tasks, engine.tasks.child_token());
    engine.tasks.spawn("spokes", async move {
        while let Some(event) = events.recv().await {
            take(event);
        }
    });
}

fn take_spoke(engine: &Engine, known: &Known, event: Event) {
    let mut spokes = known.spokes.lock();
    match event {
        Event::Restarted { objects, .. } => {
            let mut left = std::mem::take(&mut *spokes);
            for object in objects {
                if let Ok(cluster) = object.name.parse::<LogicalCluster>() {
                    left.remove(&cluster);
                    engine.identities.note(&cluster, &object);
                    engine.restored.note_spoke(engine, &cluster, &object);
                    spokes.insert(cluster, object);
                }
            }
            for cluster in left.into_keys() {
                engine.identities.forget(&cluster);
                engine.spoke_queue.add(cluster);
            }
            // Who holds which uid is known of all of them before one is connected.
            let mut clusters: Vec<LogicalCluster> = spokes.keys().cloned().collect();
            clusters.sort();
            for cluster in clusters {
                engine.spoke_queue.add(cluster);
            }
        }
        Event::Applied(object) => {
            let Ok(cluster) = object.name.parse::<LogicalCluster>() else {
                return;
            };
            engine.identities.note(&cluster, &object);
            engine.restored.note_spoke(engine, &cluster, &object);
            let before = spokes.insert(cluster.clone(), Arc::clone(&object));
            let concerns = before.is_none_or(|before| {
                before.generation != object.generation
                    || before.labels != object.labels
                    || before.deletion_timestamp != object.deletion_timestamp
                    || before.uid != object.uid
                    || before.annotations != object.annotations
            });
            if concerns {
                engine.spoke_queue.add(cluster);
            }
        }
        Event::Deleted(object) => {
            if let Ok(cluster) = object.name.parse::<LogicalCluster>() {
                spokes.remove(&cluster);
                engine.identities.forget(&cluster);
                engine.spoke_queue.add(cluster);
            }
        }
        Event::Interrupted(reason) => debug!(reason, "watch of spokes interrupted"),
        Event::Resumed => {}
    }
}

/// Reconciles the Spokes that name a Secret which changed.
fn take_secret(engine: &Engine, known: &Known, event: Event) {
    let secrets = match event {
        Event::Restarted { objects, .. } => objects,
        Event::Applied(object) | Event::Deleted(object) => vec![object],
        Event::Interrupted(_) | Event::Resumed => Vec::new(),
    };
    if secrets.is_empty() {
        return;
    }
    let names = |spoke: &RawObject| {
        let spoke = spoke.value().unwrap_or_default();
        let reference = &spoke["spec"]["connection"]["secretRef"];
        secrets.iter().any(|secret| {
            reference["name"] == secret.name
                && reference["namespace"].as_str() == secret.namespace.as_deref()
        })
    };
    let spokes = known.spokes.lock();
    for (cluster, _) in spokes.iter().filter(|(_, spoke)| names(spoke)) {
        engine.spoke_queue.add(cluster.clone());
    }
}
