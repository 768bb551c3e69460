//! One Spoke: its connection, and its end.
//!
//! # Invariants
//!
//! A Spoke is not let go while the hub holds instances for it: their children would be orphaned
//! without anybody having said so ([`super::parting`]). The hub itself is asked, because a cache may not have been filled yet.

use std::{sync::Arc, time::Duration};

use api::LogicalCluster;
use client::{DeleteRequest, ListRequest, Patch, reflector::RawObject};
use serde_json::Value;
use spokes::{Entry, Link, State};
use tracing::{debug, info, warn};

use super::{
    census,
    found::{self, Kept},
    heartbeat, left, migration, namespaces,
    parting::{self, Parting},
};
use crate::{
    accounts,
    definitions::distribution,
    engine::Engine,
    finalizers, instances, resources,
    state::target::{Reach, Target, TargetSort},
};

/// Holds a Spoke until its instances are gone.
const FINALIZER: &str = api::wheelhouse::keys::FINALIZER_SPOKE;

/// The wait after a failure that no watch will tell the end of.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Reconciles a Spoke; a failure is tried again.
pub(super) async fn run(engine: &Arc<Engine>, cluster: &LogicalCluster) {
    let entry = engine.spokes.get(cluster);
    let done = match &entry {
        Some(entry) => step(engine, cluster, entry).await,
        None if cluster.is_root() => Ok(()),
        None => {
            engine.fleet.disconnect(cluster);
            engine.switches.forget(cluster);
            engine.metrics.forget(cluster);
            if engine.shares.hold(&LogicalCluster::root()) {
                found::make(engine, cluster).await
            } else {
                Ok(())
            }
        }
    };
    if let Err(error) = done {
        if error.is_routine() {
            debug!(spoke = %cluster, error = %error, "cannot reconcile a spoke yet");
        } else {
            warn!(spoke = %cluster, error = %error, "cannot reconcile a spoke");
        }
        engine.spoke_queue.retry_after(cluster.clone(), RETRY_DELAY);
    }
}

async fn step(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    entry: &Entry,
) -> Result<(), client::Error> {
    let known = &entry.known.object;
    if !engine.shares.hold(cluster) {
        engine.fleet.disconnect(cluster);
        note_labels(engine, cluster, known);
        note_switches(engine, cluster, entry);
        return Ok(());
    }
    let endpoint = Engine::hub_endpoint(&LogicalCluster::root(), &resources::spokes(), "");
    let mut object = match engine.hub.get(&endpoint, &known.name).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    let is_ending = api::meta::deletion_timestamp(&object).is_some();
    if is_ending && end(engine, cluster, &object, &entry.state).await? == Ended::Yes {
        return Ok(());
    }
    // What is left of one that ends is deleted over its connection, which there is none of yet after a start.
    if !is_ending && found::keep(engine, cluster, &object).await? == Kept::No {
        return Ok(()); // its deletion is seen
    }
    if !is_ending && !api::meta::has_finalizer(&object, FINALIZER) {
        let patch = finalizers::add(&object, FINALIZER);
        object = engine
            .hub
            .patch(&endpoint, &known.name, None, Patch::Json(&patch))
            .await?;
    }
    note_labels(engine, cluster, known);
    note_switches(engine, cluster, entry);
    if !entry.is_current() {
        return Ok(()); // what comes of the Spoke as it is now names it again
    }
    match &entry.state {
        State::Pending => {}
        State::Embedded => connect_embedded(engine, cluster).await?,
        State::Connected(link) => {
            if !is_ending && migration::is_returning(&object) {
                object = migration::give_back(engine, cluster, link, object).await?;
                if migration::is_returning(&object) {
                    return Ok(()); // nothing runs there before all of it is given back
                }
            }
            connect(engine, cluster, link, &object).await?;
        }
        State::Refused(_) => engine.fleet.disconnect(cluster),
    }
    match &entry.state {
        _ if is_ending => Ok(()), // what is waited for was written
        State::Pending => Ok(()),
        State::Embedded => census::write(engine, cluster, &object).await,
        State::Connected(_) => {
            let migrated = migration::step(engine, cluster, object.clone()).await;
            let object = migrated.as_ref().unwrap_or(&object);
            census::write(engine, cluster, object).await?;
            migrated.map(drop)
        }
        State::Refused(fault) => census::refuse(engine, &object, &fault.to_string()).await,
    }
}

/// Notes the labels of a Spoke, by which definitions select it.
fn note_labels(engine: &Engine, cluster: &LogicalCluster, known: &RawObject) {
    if engine.definitions.note_spoke(cluster, &known.labels) {
        engine.distribution_queue.add(cluster.clone());
        // What root has for this cluster may be other kinds now.
        for key in engine.definitions.claims.concerned(cluster, None) {
            engine.definition_queue.add(key);
        }
    }
}

/// Notes kro's switches of a cluster. Where they change, all that they are for is looked at again.
fn note_switches(engine: &Engine, cluster: &LogicalCluster, entry: &Entry) {
    let Ok(spoke) = &entry.known.spoke else {
        return; // it cannot be read, and is not connected
    };
    if !engine.switches.note(cluster, &spoke.spec.kro) {
        return;
    }
    if let Some(target) = engine.fleet.get(cluster) {
        target.kinds.expire();
    }
    engine.distribution_queue.add(cluster.clone());
    for key in engine.definitions.keys() {
        if key.cluster == *cluster {
            engine.definition_queue.add(key);
        }
    }
    engine.requeue_cluster(cluster);
}

async fn connect_embedded(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
) -> Result<(), client::Error> {
    let term = engine.shares.term(cluster);
    if engine
        .fleet
        .get(cluster)
        .is_none_or(|target| target.sort != TargetSort::Embedded || target.term != term)
    {
        // This hub is its API server.
        let version = engine.hub.raw_get("/version").await?;
        let token = engine.tasks.child_token();
        let dynamic = engine.hub.clone();
        let mut target = Target::new(
            cluster.clone(),
            TargetSort::Embedded,
            dynamic,
            &engine.tasks,
            token,
        );
        target.term = term;
        target.note_version(&version);
        start(engine, &Arc::new(target));
    }
    Ok(())
}

/// Makes the target of a real spoke, unless there is one with this connection.
async fn connect(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    link: &Arc<Link>,
    object: &Value,
) -> Result<(), client::Error> {
    let term = engine.shares.term(cluster);
    let is_the_same = |target: &Target| {
        target.link().is_some_and(|it| Arc::ptr_eq(it, link)) && target.term == term
    };
    if engine.fleet.get(cluster).is_some_and(|it| is_the_same(&it)) {
        return Ok(());
    }
    let kept = distribution::kept(engine, cluster).await?;
    let created = object["metadata"]["creationTimestamp"].as_str();
    let token = engine.tasks.child_token();
    let link = Arc::clone(link);
    let (hub, created) = (engine.hub.clone(), created.unwrap_or_default());
    let (shares, tasks) = (&engine.shares, &engine.tasks);
    let target = Target::mirrored(link, (hub, shares), kept, created, tasks, token);
    target.recall_revision(&object["status"]);
    start(engine, &Arc::new(target));
    Ok(())
}

/// Starts everything that runs for a target.
pub(crate) fn start(engine: &Arc<Engine>, target: &Arc<Target>) {
    info!(cluster = %target.cluster, sort = ?target.sort, "connected to a cluster");
    engine.fleet.connect(Arc::clone(target));
    distribution::watch(engine, target);
    instances::start_workers(engine, target);
    if target.sort == TargetSort::Mirrored {
        distribution::watch_admission(engine, target);
        heartbeat::start(engine, target);
        namespaces::watch(engine, target);
        return; // the heartbeat adds what is to be done, once it is known which cluster this is
    }
    accounts::start(target);
    engine.distribution_queue.add(target.cluster.clone());
    engine.requeue_cluster(&target.cluster);
    for key in engine.definitions.keys() {
        engine.definition_queue.add(key);
    }
}

/// Whether a Spoke that is deleted has been let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Yes,
    /// The hub holds something for it.
    No,
}

/// Lets a Spoke go once the hub holds nothing for it.
async fn end(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    object: &Value,
    state: &State,
) -> Result<Ended, client::Error> {
    let is_embedded = parting::is_embedded(object);
    let parting = Parting::of(object);
    match parting {
        Parting::Drain if is_embedded => parting::drain_embedded(engine, cluster).await?,
        parting => parting.step(engine, cluster, object, state).await?,
    }
    let left = match parting {
        // What a cache still shows would have the cluster connected, and its instances imported, once more.
        Parting::Drain | Parting::Abandon if !is_embedded => {
            left::left_in_hub(engine, cluster).await?
        }
        _ => left::count(engine, cluster, is_embedded).await?,
    };
    if left > 0 {
        let target = engine.fleet.get(cluster);
        let trouble = target.and_then(|target| match target.reach() {
            Reach::Unreachable(trouble) => Some(trouble),
            Reach::Reachable => None,
        });
        let reason = parting.waits(left, object, trouble.as_ref());
        census::refuse(engine, object, &reason).await?;
        engine.spoke_queue.add_after(cluster.clone(), RETRY_DELAY);
        return Ok(Ended::No);
    }
    engine.fleet.disconnect(cluster);
    // Only a mirrored cluster has records of what its spoke serves; an embedded one does not even serve them.
    if !is_embedded {
        forget_records(engine, cluster).await?;
    }
    let endpoint = Engine::hub_endpoint(&LogicalCluster::root(), &resources::spokes(), "");
    finalizers::take_off(&engine.hub, &endpoint, object, FINALIZER).await?;
    Ok(Ended::Yes)
}

/// Deletes the records of what a spoke served.
async fn forget_records(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
) -> Result<(), client::Error> {
    let records = Engine::hub_endpoint(cluster, &resources::served_resources(), "");
    let listed = engine.hub.list(&records, &ListRequest::default()).await?;
    for record in &listed.items {
        let name = api::meta::name(record);
        engine
            .hub
            .delete(&records, name, &DeleteRequest::default())
            .await?;
    }
    Ok(())
}
