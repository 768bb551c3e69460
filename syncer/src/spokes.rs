//! Spokes: targets made of their connections, probed, described in their status.
//!
//! In reading order: [`reconcile`] (one Spoke), [`found`] (those that a source has found), [`left`] (what the hub has for one), [`parting`] (its
//! end while there is something), [`migration`] (from a kro that ran there, and back), [`heartbeat`], [`namespaces`], [`census`] (its status), [`published`] and [`profile`] (ClusterProfiles
//! of them). The connections are those of the crate [`spokes`], which the path of a spoke has too.

mod census;
mod found;
mod heartbeat;
mod left;
mod migration;
mod namespaces;
mod parting;
mod profile;
mod published;
mod reconcile;
mod row;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use api::{GroupKind, LogicalCluster};
use spokes::Entry;
use tracing::{Instrument as _, debug_span};

pub use profile::Publication;
pub(crate) use reconcile::start as start_target;

use crate::{
    engine::Engine,
    restoring,
    spans::{self, traced_span},
    told,
};

/// Starts what one process does for the whole fleet.
pub(crate) fn start_for_fleet(engine: &Arc<Engine>, publication: Option<Publication>) {
    if publication.is_some() || engine.spokes.reads_cluster_profiles() {
        published::start_definition(engine);
    }
    if let Some(publication) = publication {
        published::start(engine, publication);
    }
}

/// Has a logical cluster looked at that is this process's from now on. With root come the clusters that were found, and that
/// have no Spoke yet.
pub(crate) fn taken(engine: &Engine, cluster: &LogicalCluster) {
    if !cluster.is_root() {
        return engine.spoke_queue.add(cluster.clone());
    }
    for found in engine.spokes.sightings().names() {
        engine.spoke_queue.add(found);
    }
}

/// Follows the spokes that are known, and starts the worker that reconciles them.
pub(crate) fn start(engine: &Arc<Engine>) {
    let follower = Arc::clone(engine);
    let end = engine.tasks.child_token();
    engine.tasks.spawn("spokes", async move {
        let changes = follower.spokes.subscribe();
        let mut seen = HashMap::new();
        loop {
            let changed = tokio::select! {
                biased;
                () = end.cancelled() => return,
                changed = changes.next() => changed,
            };
            for cluster in &changed {
                tell(&follower, cluster);
            }
            take(&follower, &mut seen, changed);
        }
    });
    found::start(engine);
    let worker = Arc::clone(engine);
    let token = engine.tasks.child_token();
    engine.tasks.spawn("spoke-worker", async move {
        while let Some(cluster) = worker.spoke_queue.next_until(&token).await {
            // Each spoke in a task of its own: one that hangs holds nobody else back.
            let engine = Arc::clone(&worker);
            worker.tasks.spawn("spoke", async move {
                let span = debug_span!("reconcile", controller = "spoke", key = %cluster);
                let traced = spans::sampled(
                    String::new,
                    || traced_span!(controller = "spoke", key = %cluster),
                );
                let work = reconcile::run(&engine, &cluster).instrument(traced);
                work.instrument(span).await;
                engine.spoke_queue.done(&cluster);
            });
        }
    });
}

/// Tells what a Spoke's status says, where root is looked after: its events are there.
fn tell(engine: &Engine, cluster: &LogicalCluster) {
    let root = engine.fleet.get(&LogicalCluster::root());
    let known = engine.spokes.get(cluster);
    let spoke = known.and_then(|it| it.known.object.value().ok());
    if let (Some(root), Some(spoke)) = (root, spoke) {
        let kind = GroupKind::new(api::wheelhouse::GROUP, api::wheelhouse::SPOKE_KIND);
        told::tell(&root, kind, &spoke, &spoke["status"]["conditions"]);
    }
}

/// Takes up that spokes have changed. Who holds which uid is known of all of them before one is reconciled.
fn take(
    engine: &Engine,
    seen: &mut HashMap<LogicalCluster, Entry>,
    changed: BTreeSet<LogicalCluster>,
) {
    let mut concerned = Vec::new();
    for cluster in changed {
        let Some(entry) = engine.spokes.get(&cluster) else {
            engine.identities.forget(&cluster);
            seen.remove(&cluster);
            concerned.push(cluster);
            continue;
        };
        let object = &entry.known.object;
        engine.identities.note(&cluster, object);
        restoring::note_spoke(engine, &cluster, object);
        let before = seen.insert(cluster.clone(), entry.clone());
        if before.is_none_or(|before| concerns(&before, &entry)) {
            concerned.push(cluster);
        }
    }
    for cluster in concerned {
        engine.spoke_queue.add(cluster);
    }
}

/// Whether a change of a Spoke is work: its own status is not.
fn concerns(before: &Entry, now: &Entry) -> bool {
    let (known, object) = (&before.known.object, &now.known.object);
    before.state != now.state
        || before.is_current() != now.is_current()
        || known.generation != object.generation
        || known.labels != object.labels
        || known.deletion_timestamp != object.deletion_timestamp
        || known.uid != object.uid
        || known.annotations != object.annotations
}
