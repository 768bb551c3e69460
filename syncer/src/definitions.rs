//! ResourceGraphDefinitions: compiled, recorded as GraphRevisions, published as CRDs.
//!
//! In reading order: [`reconcile`] (one definition), [`claims`] (who holds a kind), [`resolving`] (the schemas that it is compiled
//! against), [`revisions`], [`following`] (a definition of root, where another process
//! reconciles it), [`held`] (revisions that kro holds), [`distribution`] (its CRD in every target), [`elsewhere`] (how
//! far it is in those of other processes), [`wanted`] (whether a CRD is as it is to be), [`leaving`] (its CRD
//! where it may go with it).
//!
//! A definition in root is for all spokes, or for those that its annotation selects; one authored
//! at a spoke's path is for that spoke alone.

pub(crate) mod claims;
pub(crate) mod distribution;
mod elsewhere;
mod following;
mod held;
mod leaving;
pub(crate) mod reconcile;
pub(crate) mod resolving;
pub(crate) mod revisions;
mod wanted;

use std::{collections::HashMap, sync::Arc};

use api::LogicalCluster;
use client::reflector::{self, Event, RawObject};
use tokio::sync::Mutex as AsyncMutex;
use tracing::{Instrument as _, Span, debug, debug_span};

use crate::{
    engine::Engine,
    resources,
    spans::{self, traced_span},
    state::{keys, served::DefinitionKey},
};

/// Starts the watch of definitions over all logical clusters, and the worker that reconciles them.
pub(crate) fn start(engine: &Arc<Engine>) {
    let gvr = resources::definitions();
    let source = engine.everywhere(&gvr);
    let mut events = reflector::start(source, &engine.tasks, engine.tasks.child_token());
    let follower = Arc::clone(engine);
    engine.tasks.spawn("definitions", async move {
        while let Some(event) = events.recv().await {
            take(&follower, event);
        }
    });
    let worker = Arc::clone(engine);
    let token = engine.tasks.child_token();
    engine.tasks.spawn("definition-worker", async move {
        // Whoever holds a kind must be known, and be there, before anybody else may have it.
        claims::load(&worker).await;
        worker.definitions.wait_until_listed().await;
        let mut lanes: HashMap<LogicalCluster, Arc<AsyncMutex<()>>> = HashMap::new();
        while let Some(key) = worker.definition_queue.next_until(&token).await {
            // Those of one cluster one after the other; a cluster that hangs holds up its own alone.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
            let lane = Arc::clone(lanes.entry(key.cluster.clone()).or_default());
            let engine = Arc::clone(&worker);
            worker.tasks.spawn("definition", async move {
                let _turn = lane.lock().await;
                let (cluster, name) = (&key.cluster, key.name.as_str());
                let span =
                    debug_span!("reconcile", controller = "definition", %cluster, key = name);
                let traced = traced(&engine, &key);
                let work = async {
                    if engine.shares.hold(&key.cluster) {
                        reconcile::run(&engine, &key).await;
                    } else {
                        following::run(&engine, &key).await;
                    }
                };
                work.instrument(traced).instrument(span).await;
                engine.definition_queue.done(&key);
            });
        }
    });
    if engine.shares.are_shared() {
        claims::follow(engine);
    }
    held::start(engine);
    distribution::start(engine);
}

/// Makes the span of a reconcile that is sampled.
fn traced(engine: &Engine, key: &DefinitionKey) -> Span {
    let definition = || engine.definitions.known(key);
    let uid = || definition().map(|it| it.uid.clone()).unwrap_or_default();
    spans::sampled(
        uid,
        || traced_span!(controller = "definition", cluster = %key.cluster, key = key.name),
    )
}

/// Has the definitions of a logical cluster looked at that is this process's from now on, or is no more.
pub(crate) fn changed_hands(engine: &Engine, cluster: &LogicalCluster) {
    for key in engine.definitions.keys() {
        if key.cluster == *cluster {
            engine.definition_queue.add(key);
        }
    }
}

fn take(engine: &Engine, event: Event) {
    let definitions = &engine.definitions;
    match event {
        Event::Restarted { mut objects, .. } => {
            objects.sort_by_cached_key(|object| precedence(object));
            let objects: Vec<(DefinitionKey, Arc<RawObject>)> = objects
                .into_iter()
                .filter_map(|object| Some((key_of(&object)?, object)))
                .collect();
            let keys: Vec<DefinitionKey> = objects.iter().map(|(key, _)| key.clone()).collect();
            let gone = definitions.note_all(objects);
            definitions.set_listed();
            for key in keys.into_iter().chain(gone) {
                engine.definition_queue.add(key);
            }
        }
        Event::Applied(object) => {
            let Some(key) = key_of(&object) else { return };
            let before = definitions.note(key.clone(), Arc::clone(&object));
            let concerns = before.is_none_or(|before| {
                before.generation != object.generation
                    || before.deletion_timestamp != object.deletion_timestamp
                    || before.annotations != object.annotations
                    || before.finalizers != object.finalizers
            });
            if concerns {
                engine.definition_queue.add(key);
            }
        }
        Event::Deleted(object) => {
            if let Some(key) = key_of(&object) {
                definitions.forget(&key);
                engine.definition_queue.add(key);
            }
        }
        Event::Interrupted(reason) => debug!(reason, "watch of definitions interrupted"),
        Event::Resumed => {}
    }
}

/// Sorts definitions that hold no kind yet: those of root first, then the oldest.
fn precedence(object: &RawObject) -> (bool, String, String) {
    let is_local = keys::cluster_of(object).is_none_or(|cluster| !cluster.is_root());
    let value = object.value().unwrap_or_default();
    let created = value["metadata"]["creationTimestamp"].as_str();
    (
        is_local,
        created.unwrap_or_default().to_owned(),
        object.name.clone(),
    )
}

fn key_of(object: &RawObject) -> Option<DefinitionKey> {
    let cluster = keys::cluster_of(object)?;
    Some(DefinitionKey {
        cluster,
        name: object.name.clone(),
    })
}
