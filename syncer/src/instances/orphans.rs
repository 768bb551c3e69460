//! Objects of a spoke without an instance in the hub: mirrors that a crash between the two left, or that a restored hub does not
//! know, and what somebody made in the spoke, which is taken up.
//!
//! # Invariants
//!
//! Only a mirror of this hub is deleted, and only once every instance of the hub is known.

use std::{collections::HashSet, sync::Arc};

use client::reflector::RawObject;
use tracing::{debug, info, warn};

use super::{
    deletion, imported, mirror, owned,
    work::{Pause, Work},
};
use crate::{
    acting,
    engine::Engine,
    restoring,
    state::{
        keys::InstanceKey,
        mirrors::{self, Maker, Mirror},
        own_states::OwnStates,
        restored::{DeletionPolicy, UnknownInstances},
        served::Served,
        target::{Memory, Reach, Target, TargetSort},
    },
};

/// Takes away a mirror whose instance is gone from the hub, or takes up what is no mirror.
pub(crate) async fn remove(engine: &Arc<Engine>, target: &Arc<Target>, key: &InstanceKey) {
    // The heartbeat adds every mirror again once the spoke answers.
    if target.sort != TargetSort::Mirrored || target.reach() != Reach::Reachable {
        return;
    }
    let Some(served) = engine.definitions.lookup(&target.cluster, &key.group_kind) else {
        return;
    };
    let Mirror::Present(found) = target.mirrors.of(key) else {
        engine.note_census(&target.cluster); // one of those that a restore left to be settled, perhaps
        imported::moved(engine, target, &served);
        return;
    };
    let maker = mirrors::maker(&found, &engine.hub_id);
    if maker == Maker::AnotherHub || !target.kinds.are_ours(&served) {
        return; // distribution names it again
    }
    if !engine.instances.knows(served.graph.gvr()) || !engine.instances.synced() {
        target.retry(key, 1);
        return;
    }
    if maker == Maker::Spoke {
        import(engine, target, &served, key).await;
        return;
    }
    let settled = match engine.restored.deletion_policy(target) {
        DeletionPolicy::Held => restoring::require(engine, target, key),
        DeletionPolicy::Free => mirror::take_away(target, &served, key, &found).await,
        DeletionPolicy::Confirmed(UnknownInstances::Keep) => {
            take_up(engine, target, &served, key, &found).await
        }
        DeletionPolicy::Confirmed(UnknownInstances::Delete) => {
            take_away_with_children(engine, target, &served, key, &found).await
        }
    };
    if let Err(Pause::Failure(reason)) = settled {
        warn!(cluster = %target.cluster, key = %key, reason, "cannot clean up a mirror that has no instance");
        target.retry(key, 1);
    }
}

/// Takes up what somebody made in the spoke; while that fails, the kind's condition says why.
async fn import(engine: &Arc<Engine>, target: &Arc<Target>, served: &Served, key: &InstanceKey) {
    match imported::take_up(engine, target, served, key).await {
        Ok(()) | Err(Pause::Watch | Pause::Settled(_) | Pause::Unconfirmed(_)) => {
            imported::moved(engine, target, served);
        }
        Err(Pause::Failure(reason)) => {
            let attempt = target.count_failure(key);
            debug!(cluster = %target.cluster, key = %key, attempt, reason, "cannot take up an instance of a spoke yet");
            if target
                .kinds
                .note_import_trouble(served, format!("{key}: {reason}"))
            {
                engine.distribution_queue.add(target.cluster.clone());
            }
            target.probe.notify_one();
            target.retry(key, attempt);
        }
    }
}

/// Deletes what this hub applied for an instance that it does not know since it was restored, and then its mirror. There is no
/// ledger of it: somebody has said that it is to go.
async fn take_away_with_children(
    engine: &Arc<Engine>,
    target: &Arc<Target>,
    served: &Served,
    key: &InstanceKey,
    found: &RawObject,
) -> Result<(), Pause> {
    let instance = found
        .value()
        .map_err(|error| Pause::Failure(error.to_string()))?;
    let mut work = Work {
        engine,
        chosen: engine.switches.of(&target.cluster),
        target,
        key,
        instance,
        memory: Memory {
            mirror_uid: found.uid.clone(),
            ..Memory::default()
        },
        met_foreign: false,
        error: None,
        kept: HashSet::new(),
        own: OwnStates::default(),
    };
    work.require_synced(served)?;
    let actor = acting::resolve(engine, target, &served.grant).await;
    let actor = actor.map_err(Pause::Failure)?;
    work.memory.claims = owned::marked(&work);
    deletion::children(&mut work, &actor).await?;
    mirror::take_away(target, served, key, found).await
}

/// Makes an instance that a restored hub does not know out of its mirror: the children are taken over by name.
async fn take_up(
    engine: &Engine,
    target: &Target,
    served: &Served,
    key: &InstanceKey,
    found: &RawObject,
) -> Result<(), Pause> {
    if found.deletion_timestamp.is_some() {
        return Ok(()); // it goes in the spoke, and nobody puts it back
    }
    let live = found
        .value()
        .map_err(|error| Pause::Failure(error.to_string()))?;
    let gvr = served.graph.gvr();
    let hub_endpoint = Engine::hub_endpoint(&target.cluster, gvr, &key.namespace);
    match engine
        .hub
        .create(&hub_endpoint, &mirror::of_mirror(&live))
        .await
    {
        Ok(_) => {
            info!(cluster = %target.cluster, key = %key, "recreated an instance from its mirror after a restore");
            engine.note_census(&target.cluster);
            Ok(())
        }
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
