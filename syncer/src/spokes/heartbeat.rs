//! The heartbeat of a real spoke: a cheap read every few seconds, and at once when a call failed.

use std::{sync::Arc, time::Duration};

use tracing::{info, warn};

use crate::{
    engine::Engine,
    resources,
    target::{Reach, Target},
};

/// Between two probes: an outage is noticed by a failing call or a lost watch long before, and
/// 1,000 spokes cost 200 cheap reads a second.
const INTERVAL: Duration = Duration::from_secs(5);

/// While a spoke is away it is asked more often, so that its return is noticed within a second.
const INTERVAL_AWAY: Duration = Duration::from_secs(1);

/// How long a probe may take. A spoke that answers later than this is of no use to a user.
const PATIENCE: Duration = Duration::from_secs(3);

/// Not more often than this, whatever fails: each failing reconcile asks for a probe.
const PAUSE: Duration = Duration::from_millis(250);

/// Starts the heartbeat of a target. It ends with the target's token.
pub(super) fn start(engine: &Arc<Engine>, target: &Arc<Target>) {
    let (engine, target) = (Arc::clone(engine), Arc::clone(target));
    let tasks = engine.tasks.clone();
    tasks.spawn("heartbeat", async move {
        let mut first = true;
        loop {
            let failure = probe(&target).await;
            note(&engine, &target, failure, first);
            first = false;
            let interval = match target.reach() {
                Reach::Reachable => INTERVAL,
                Reach::Unreachable { .. } => INTERVAL_AWAY,
            };
            tokio::select! {
                biased;
                () = target.token.cancelled() => return,
                () = target.probe.notified() => tokio::time::sleep(PAUSE).await,
                () = tokio::time::sleep(interval) => {}
            }
        }
    });
}

/// Asks the spoke for its version. `None` means that it answered.
async fn probe(target: &Target) -> Option<String> {
    match tokio::time::timeout(PATIENCE, target.dynamic.raw_get("/version")).await {
        Ok(Ok(version)) => {
            target.note_version(&version);
            if target.cluster_uid().is_none() {
                let namespaces = resources::core("namespaces");
                let endpoint = target.endpoint(&namespaces, "");
                if let Ok(namespace) = target.dynamic.get(&endpoint, "kube-system").await {
                    target.note_cluster_uid(api::meta::uid(&namespace));
                }
            }
            None
        }
        Ok(Err(error)) if error.unreachable() => Some(error.to_string()),
        // It answers, if only to refuse: the credential is wrong, the network is not.
        Ok(Err(error)) => Some(format!("refused: {error}")),
        Err(_) => Some(format!("no answer within {PATIENCE:?}")),
    }
}

fn note(engine: &Arc<Engine>, target: &Arc<Target>, failure: Option<String>, first: bool) {
    let before = target.reach();
    let back = target.note_reach(failure, &Engine::now());
    let after = target.reach();
    let same = std::mem::discriminant(&before) == std::mem::discriminant(&after);
    match &after {
        Reach::Unreachable { reason, .. } if !same => {
            warn!(spoke = %target.cluster, reason, "spoke unreachable");
            // Whatever waits for the spoke says so in its status.
            engine.requeue_cluster(&target.cluster);
        }
        _ => {}
    }
    if back {
        info!(spoke = %target.cluster, "spoke reachable again");
    }
    if after == Reach::Reachable {
        // What waits for another reason asks once more, which is cheap.
        target.wake.notify_waiters();
    }
    if back || (first && after == Reach::Reachable) {
        engine.distribution_queue.add(target.cluster.clone());
        engine.requeue_cluster(&target.cluster);
        for key in engine.definitions.keys() {
            engine.definition_queue.add(key);
        }
    }
    if !same || first {
        engine.spoke_queue.add(target.cluster.clone());
    }
}
