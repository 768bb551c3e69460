//! Holds deletions back after a restore, and says in each Spoke what waits ([`crate::state::restored`] has the rules).

use std::sync::Arc;

use api::{LogicalCluster, selector::FieldSelector, wheelhouse::keys};
use client::{
    Endpoint,
    reflector::{self, RawObject},
};
use tracing::{debug, info};

use crate::{
    engine::Engine,
    instances::work::Pause,
    resources,
    state::{
        keys::InstanceKey,
        mirrors,
        restored::{self, DeletionPolicy, Report, Seen, View},
        target::{Reach, Target, TargetSort},
    },
};

/// Starts to follow the ConfigMap of a restore.
pub(crate) fn start(engine: &Arc<Engine>) {
    let gvr = resources::core("configmaps");
    let source = reflector::Config {
        client: engine.hub.client().clone(),
        endpoint: Endpoint {
            scope: None,
            gvr,
            namespace: Some(keys::RESTORE_NAMESPACE.to_owned()),
        },
        label_selector: None,
        field_selector: Some(FieldSelector::name(keys::RESTORE_CONFIG_MAP)),
        name: "hub/restore".to_owned(),
    };
    let mut events = reflector::start(source, &engine.tasks, engine.tasks.child_token());
    let follower = Arc::clone(engine);
    engine.tasks.spawn("restored", async move {
        while let Some(event) = events.recv().await {
            if follower.restored.take(event) {
                for target in follower.fleet.all() {
                    follower.reconsider(&target.cluster);
                }
            }
        }
    });
}

/// Lets a deletion in a target pass, or notes that it waits.
///
/// # Errors
///
/// [`Pause::Watch`] while it waits: the instance is named again once the spoke is confirmed.
pub(crate) fn require(engine: &Engine, target: &Target, key: &InstanceKey) -> Result<(), Pause> {
    if engine.restored.deletion_policy(target) != DeletionPolicy::Held {
        return Ok(());
    }
    debug!(cluster = %target.cluster, key = %key, "deletion waits until the restore is confirmed");
    if engine.restored.note_waiting(&target.cluster, key) {
        engine.note_census(&target.cluster);
    }
    Err(Pause::Watch)
}

/// Notes that an instance has come to its end without a deletion: none of it waits any more.
pub(crate) fn passed(engine: &Engine, target: &Target, key: &InstanceKey) {
    if engine.restored.note_passed(&target.cluster, key) {
        engine.note_census(&target.cluster);
    }
}

/// Takes up a Spoke's annotation.
pub(crate) fn note_spoke(engine: &Engine, cluster: &LogicalCluster, object: &RawObject) {
    let answer = object.annotations.get(keys::ANNOTATION_CONFIRM_RESTORE);
    if engine.restored.note_answer(cluster, answer) {
        info!(spoke = %cluster, answer, "restore of a spoke was confirmed");
        engine.reconsider(cluster);
    }
}

/// Returns what a Spoke says of the restore; `None` where the hub was not restored.
pub(crate) fn report(engine: &Engine, target: &Target) -> Option<Report> {
    if target.sort != TargetSort::Mirrored {
        return None;
    }
    let leave = engine.restored.deletion_policy(target);
    let (marker, waiting) = engine.restored.waiting(&target.cluster)?;
    // An instance that the hub does not know is not counted twice, and one that is gone waits for nothing.
    let is_known = |key: &InstanceKey| engine.instances.get(&target.cluster, key).is_some();
    let whole =
        target.reach() == Reach::Reachable && engine.instances.synced() && target.mirrors.synced();
    let seen = Seen {
        unknown: unknown(engine, target),
        waiting: waiting.into_iter().filter(is_known).collect(),
        view: if whole { View::Whole } else { View::Partial },
    };
    Some(restored::report(&marker, &target.cluster, leave, &seen))
}

/// Names the mirrors of a spoke that are this hub's, and whose instance it does not know.
fn unknown(engine: &Engine, target: &Target) -> Vec<InstanceKey> {
    let mirrors = target.mirrors.all().into_iter();
    mirrors
        .filter(|(key, mirror)| {
            mirrors::is_of_hub(mirror, &engine.hub_id)
                && mirror.deletion_timestamp.is_none()
                && engine.instances.get(&target.cluster, key).is_none()
        })
        .map(|(key, _)| key)
        .collect()
}
