//! GraphRevisions that are being deleted and carry kro's finalizer: those that were taken over from kro.
//!
//! kro holds each revision by `kro.run/finalizer` until its registry in memory has forgotten it. The hub has no such registry, so it
//! lets a revision go as soon as somebody deletes it: a user, the garbage collector, or [`super::revisions::collect`].
//!
//! Source: kro v0.9.4 `pkg/controller/graphrevision`.

use std::{sync::Arc, time::Duration};

use api::kro::keys::FINALIZER;
use client::reflector::{self, Event, RawObject};
use tasks::WorkQueue;
use tracing::{debug, warn};

use crate::{
    engine::Engine,
    finalizers, resources,
    state::{keys::cluster_of, served::DefinitionKey},
};

/// On a revision: the definition that it is of.
const LABEL_DEFINITION: &str = "kro.run/resource-graph-definition-name";

/// The wait after a failure of the hub itself, which is rare and passes.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The wait before a revision is looked at again that another process is to let go: that may be gone by then.
const OTHERS_DELAY: Duration = Duration::from_secs(10);

/// Starts the watch of revisions over all logical clusters, and the worker that lets them go.
pub(super) fn start(engine: &Arc<Engine>) {
    let source = engine.everywhere(&resources::revisions());
    let mut events = reflector::start(source, &engine.tasks, engine.tasks.child_token());
    let queue: Arc<WorkQueue<DefinitionKey>> = Arc::new(engine.tasks.queue("revision"));
    let going = Arc::clone(&queue);
    let follower = Arc::clone(engine);
    engine.tasks.spawn("revisions", async move {
        let engine = follower;
        while let Some(event) = events.recv().await {
            let seen = match event {
                Event::Restarted { objects, .. } => objects,
                Event::Applied(object) => vec![object],
                Event::Interrupted(reason) => {
                    debug!(reason, "watch of revisions interrupted");
                    continue;
                }
                Event::Deleted(_) | Event::Resumed => continue,
            };
            for key in seen.iter().filter_map(|object| recorded(object)) {
                // Who follows a definition serves what was recorded of it last.
                if !engine.shares.hold(&key.cluster) {
                    engine.definition_queue.add(key);
                }
            }
            for key in seen.iter().filter_map(|object| held(object)) {
                going.add(key);
            }
        }
    });
    let engine = Arc::clone(engine);
    let token = engine.tasks.child_token();
    let tasks = engine.tasks.clone();
    tasks.spawn("revision-worker", async move {
        while let Some(key) = queue.next_until(&token).await {
            let released = release(&engine, &key).await;
            if let Ok(Released::Others) = released {
                queue.add_after(key.clone(), OTHERS_DELAY);
            }
            if let Err(error) = released {
                let (cluster, name) = (&key.cluster, key.name.as_str());
                if error.is_routine() {
                    debug!(%cluster, name, error = %error, "cannot release a revision yet");
                } else {
                    warn!(%cluster, name, error = %error, "cannot release a revision");
                }
                queue.retry_after(key.clone(), RETRY_DELAY);
            }
            queue.done(&key);
        }
    });
}

/// Names a revision that is being deleted and held.
fn held(revision: &RawObject) -> Option<DefinitionKey> {
    let is_held = revision.finalizers.iter().any(|name| name == FINALIZER);
    if revision.deletion_timestamp.is_none() || !is_held {
        return None;
    }
    Some(DefinitionKey {
        cluster: cluster_of(revision)?,
        name: revision.name.clone(),
    })
}

/// Names the definition that a revision is of.
fn recorded(revision: &RawObject) -> Option<DefinitionKey> {
    Some(DefinitionKey {
        cluster: cluster_of(revision)?,
        name: revision.labels.get(LABEL_DEFINITION)?.clone(),
    })
}

/// Whose it is to let a revision go.
enum Released {
    /// This process's, which has.
    Done,
    /// Another one's.
    Others,
}

/// Takes kro's finalizer off a revision that is being deleted.
async fn release(engine: &Engine, key: &DefinitionKey) -> Result<Released, client::Error> {
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::revisions(), "");
    let live = match engine.hub.get(&endpoint, &key.name).await {
        Ok(live) => live,
        Err(error) if error.is_not_found() => return Ok(Released::Done),
        Err(error) => return Err(error),
    };
    if !api::meta::is_terminating(&live) {
        return Ok(Released::Done); // another one has its name by now
    }
    if !engine.shares.hold(&key.cluster) {
        return Ok(Released::Others);
    }
    finalizers::take_off(&engine.hub, &endpoint, &live, FINALIZER).await?;
    Ok(Released::Done)
}
