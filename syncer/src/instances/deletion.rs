//! Deletion of an instance: its children, the highest apply-order first, a wave at a time; then the
//! mirror; then the ledger; then the hub's finalizer.
//!
//! # Invariants
//!
//! Needs neither graph nor CEL: what to delete is what carries the instance's labels in the kinds
//! that the ledger and the inventory name. While one of these kinds cannot be read, deletion waits
//! and says so: absence that was not seen is not absence.
//!
//! Source: kro `pkg/controller/instance/deletion.go`.

use std::sync::Arc;

use serde_json::Value;

use super::{
    applying, ledger, mirror,
    reconcile::{Pause, Work},
    status,
};
use crate::{children::Sync, engine::Engine, target::Reach};

/// Goes as far with a deletion as it can go now.
pub(crate) async fn step(work: &mut Work<'_>) -> Result<(), Pause> {
    if !api::meta::has_finalizer(&work.instance, api::kro::keys::FINALIZER) {
        return Ok(()); // others hold it; ours is gone
    }
    let engine = work.engine;
    if let Reach::Unreachable { since, reason } = work.target.reach() {
        let cluster = &work.target.cluster;
        let message =
            format!("waiting for spoke {cluster:?}, which is unreachable since {since}: {reason}");
        say(work, &message).await?;
        return Err(Pause::Watch);
    }
    if let Err(pause) = engine.restored.require(engine, work.target, work.key) {
        say(
            work,
            "waiting: the hub was restored, and its spoke is not confirmed",
        )
        .await?;
        return Err(pause);
    }
    ledger::recall(work).await?;
    say(work, "deleting resources").await?;
    require_synced(work).await?;
    children(work).await?;
    mirror::remove(work).await?;
    ledger::remove(work).await?;
    release(work).await
}

/// Deletes everything that carries the instance's labels, wave by wave.
pub(crate) async fn children(work: &mut Work<'_>) -> Result<(), Pause> {
    loop {
        let children = work.target.children.of(work.key);
        let members: Vec<Arc<Value>> = children
            .iter()
            .filter_map(|(_, child)| child.object.value().ok().map(Arc::new))
            .collect();
        let Some(wave) = graph::deletion::next_wave(&members) else {
            return Ok(());
        };
        let mut gone = true;
        for object in &wave.objects {
            gone &= applying::delete(work, object).await?;
        }
        if !gone {
            return Err(Pause::Watch);
        }
    }
}

async fn require_synced(work: &mut Work<'_>) -> Result<(), Pause> {
    for kind in ledger::kinds(work.memory.ledger.as_ref()) {
        work.target.watch_children(&kind);
        match work.target.children.sync(&kind.gvr, work.key) {
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
    let wanted = graph::status::deleting(graph, &work.instance, message, &now);
    status::write(work, wanted).await
}

/// Takes our finalizer off the hub's instance.
async fn release(work: &Work<'_>) -> Result<(), Pause> {
    let endpoint = work.hub_endpoint()?;
    let patch = remove_finalizer(&work.instance, api::kro::keys::FINALIZER);
    let patch = client::Patch::Json(&patch);
    match work
        .engine
        .hub
        .patch(&endpoint, &work.key.name, None, patch)
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the JSON patch that takes one finalizer off an object, if the object is still the one
/// that was read.
pub(crate) fn remove_finalizer(object: &Value, finalizer: &str) -> Value {
    let left: Vec<&str> = api::meta::finalizers(object)
        .into_iter()
        .filter(|name| *name != finalizer)
        .collect();
    serde_json::json!([
        {"op": "test", "path": "/metadata/uid", "value": api::meta::uid(object)},
        {"op": "replace", "path": "/metadata/finalizers", "value": left},
    ])
}
