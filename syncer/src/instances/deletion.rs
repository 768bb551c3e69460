//! Deletion of an instance: its children, the highest apply-order first, a wave at a time; then the
//! mirror; then the ledger; then the hub's finalizer.
//!
//! # Invariants
//!
//! Needs neither graph nor CEL: what to delete is what carries the instance's labels in the kinds
//! that the ledger names, and is named by it ([`crate::state::claims`]), and what it names and has
//! lost the labels. While one of these kinds cannot be read, deletion waits and says so: absence that
//! was not seen is not absence. It is done in the name in which the children were written.
//!
//! Source: kro `pkg/controller/instance/deletion.go`.

use std::collections::HashSet;

use super::{
    applying, events, kept, ledger,
    mirror::{self, Removal},
    owned, status,
    work::{Pause, Work},
};
use crate::{
    acting,
    engine::Engine,
    finalizers, restoring,
    state::{actors::Actor, children::Sync, target::Reach},
};

/// Goes as far with a deletion as it can go now.
pub(crate) async fn step(work: &mut Work<'_>) -> Result<(), Pause> {
    if !api::meta::has_finalizer(&work.instance, api::kro::keys::FINALIZER) {
        return Ok(()); // others hold it; ours is gone
    }
    let engine = work.engine;
    if let Reach::Unreachable(trouble) = work.target.reach() {
        let cluster = &work.target.cluster;
        let message = format!("waiting for spoke {cluster:?}, which is {trouble}");
        say(work, &message).await?;
        return Err(Pause::Watch);
    }
    if let Err(pause) = restoring::require(engine, work.target, work.key) {
        say(
            work,
            "waiting: the hub was restored, and its spoke is not confirmed",
        )
        .await?;
        return Err(pause);
    }
    ledger::recall_surely(work).await?;
    mirror::announce(work).await?;
    if work.memory.failure_count == 0 {
        say(work, events::ON_ITS_WAY).await?;
    }
    require_synced(work).await?;
    let actor = match actor(work).await {
        Ok(actor) => actor,
        Err(reason) => return fail(work, reason).await,
    };
    match children(work, &actor).await {
        Err(Pause::Failure(reason)) => return fail(work, reason).await,
        other => other?,
    }
    work.target.externals.forget(work.key);
    if mirror::remove(work).await? == Removal::Dependents {
        say(
            work,
            "waiting for the spoke to collect what its mirror owns",
        )
        .await?;
        return Err(Pause::Watch);
    }
    ledger::remove(work).await?;
    release(work).await
}

/// In whose name the children go: as the definition says, and where it is gone, as the ledger does.
async fn actor(work: &Work<'_>) -> Result<Actor, String> {
    let served = work
        .engine
        .definitions
        .lookup(&work.target.cluster, &work.key.group_kind);
    if let Some(served) = served {
        return acting::resolve(work.engine, work.target, &served.grant).await;
    }
    acting::of_ledger(work.target, work.memory.ledger.as_ref())
}

async fn fail(work: &mut Work<'_>, reason: String) -> Result<(), Pause> {
    say(work, &format!("cannot delete resources: {reason}")).await?;
    Err(Pause::Failure(reason))
}

/// Deletes everything that is the instance's, wave by wave, or lets it stay where its deletion policy says so.
pub(crate) async fn children(work: &mut Work<'_>, actor: &Actor) -> Result<(), Pause> {
    loop {
        let mut own = owned::own(work, actor, &HashSet::new()).await?;
        kept::retain(work, actor, &mut own).await?;
        let Some(wave) = graph::deletion::next_wave(&own.objects) else {
            return Ok(());
        };
        applying::delete_wave(work, actor, &own, &wave.objects).await?;
    }
}

async fn require_synced(work: &mut Work<'_>) -> Result<(), Pause> {
    let ledger = work.memory.ledger.as_ref();
    for kind in work.target.watched_of_ledger(ledger) {
        work.target.watch_children(&kind);
        match work.target.children.sync(&kind, work.key) {
            Sync::Synced => {}
            Sync::Waiting(None) => return Err(Pause::Watch),
            Sync::Waiting(Some(reason)) => {
                let message = format!(
                    "waiting to read {} in the spoke: {reason}",
                    kind.gvr.resource
                );
                say(work, &message).await?;
                return Err(Pause::Watch);
            }
        }
    }
    Ok(())
}

async fn say(work: &mut Work<'_>, message: &str) -> Result<(), Pause> {
    let served = work
        .engine
        .definitions
        .lookup(&work.target.cluster, &work.key.group_kind);
    let now = Engine::now();
    let graph = served.as_ref().map(|served| served.graph.as_ref());
    let left = work.memory.claims.values().map(String::as_str);
    let left = left.filter(|uid| !uid.is_empty()).collect();
    let wanted = graph::status::deleting(graph, &work.instance, message, &left, &now);
    status::write_over(work, wanted).await
}

/// Takes our finalizer off the hub's instance.
async fn release(work: &Work<'_>) -> Result<(), Pause> {
    let endpoint = work.hub_endpoint()?;
    let finalizer = api::kro::keys::FINALIZER;
    finalizers::take_off(&work.engine.hub, &endpoint, &work.instance, finalizer).await?;
    Ok(())
}
