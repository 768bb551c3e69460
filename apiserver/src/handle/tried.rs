//! Writes of instances that the hub stores, tried in the spoke first where its admission may have something against them.
//!
//! The syncer records with a served kind whether webhooks, policies or quotas of the spoke match it. Then the mirror is written there as a
//! dry run, as the user, and what the spoke refuses is not stored here either.
//!
//! # Invariants
//! - Nothing changes in the spoke.
//! - A spoke that cannot be asked about such a kind is 503: a write that it would refuse is not taken while it is away.
//! - The hub's own controllers are not judged: what they write is no user's wish.

use api::wheelhouse::origin::{difference, shared};
use api::{Status, meta};
use serde_json::{Value, json};

use crate::admit::author;
use crate::call::{Call, SpokeVerb, SpokeWrite, SpokeWrites, Target};
use crate::refusal::Refusal;
use crate::strategy::endpoint::Endpoint;

/// Tries a new instance.
///
/// # Errors
/// What the spoke says against it, and 503 while it is away.
pub(super) async fn create(
    call: &Call<'_>,
    target: &Target,
    object: &Value,
) -> Result<(), Refusal> {
    let Some(trial) = Trial::of(call, target)? else {
        return Ok(());
    };
    trial.create(object).await
}

/// Tries a change of an instance.
///
/// # Errors
/// What the spoke says against it, and 503 while it is away.
pub(super) async fn change(
    call: &Call<'_>,
    target: &Target,
    object: &Value,
    live: &Value,
) -> Result<(), Refusal> {
    if meta::is_terminating(live) {
        return Ok(());
    }
    let (Some(trial), Some(patch)) = (Trial::of(call, target)?, difference(live, object)) else {
        return Ok(());
    };
    match trial.send(SpokeVerb::Patch, patch).await {
        // Its mirror has not come there yet.
        Err(refusal) if is(&refusal, 404) => trial.create(object).await,
        answer => answer,
    }
}

/// Tries a deletion.
///
/// # Errors
/// What the spoke says against it, and 503 while it is away.
pub(super) async fn delete(call: &Call<'_>, target: &Target) -> Result<(), Refusal> {
    let Some(trial) = Trial::of(call, target)? else {
        return Ok(());
    };
    match trial.send(SpokeVerb::Delete, Value::Null).await {
        Err(refusal) if is(&refusal, 404) => Ok(()), // nothing is there that could be protected
        answer => answer,
    }
}

/// A write to be tried.
struct Trial<'c> {
    spoke: &'c dyn SpokeWrites,
    write: SpokeWrite,
}

// === impl Trial ===

impl<'c> Trial<'c> {
    /// Prepares one; `None` where nobody in a spoke judges the request.
    fn of(call: &'c Call<'_>, target: &Target) -> Result<Option<Self>, Refusal> {
        if !call.scope.is_judged() || call.endpoint != Endpoint::Main {
            return Ok(None);
        }
        let Some(user) = author::sender(call.context) else {
            return Ok(None);
        };
        let Some(spoke) = call.shared.spoke_writes.as_deref() else {
            return Err(unavailable(target));
        };
        let write = SpokeWrite::of(call, target, user, "");
        Ok(Some(Self { spoke, write }))
    }

    async fn create(&self, object: &Value) -> Result<(), Refusal> {
        match self.send(SpokeVerb::Create, mirror(object)).await {
            // One that goes, or somebody else's: the status of the instance says it.
            Err(refusal) if is(&refusal, 409) => Ok(()),
            Err(refusal) if is(&refusal, 404) => {
                let text = format!(
                    "spoke {:?} does not serve the kind, so that its admission cannot be asked",
                    self.write.cluster.as_str()
                );
                Err(Status::service_unavailable(text).into())
            }
            answer => answer,
        }
    }

    async fn send(&self, verb: SpokeVerb, body: Value) -> Result<(), Refusal> {
        let write = SpokeWrite {
            verb,
            body,
            ..self.write.clone()
        };
        self.spoke.write(&write).await.map(drop)
    }
}

fn is(refusal: &Refusal, code: u16) -> bool {
    refusal.status().is_some_and(|status| status.code == code)
}

/// Refuses what a spoke would have to be asked about, where it cannot be.
pub(super) fn unavailable(target: &Target) -> Refusal {
    let text = format!("spoke {:?} cannot be asked", target.cluster.as_str());
    Status::service_unavailable(text).into()
}

/// Returns what the spoke gets to see of an instance: what users wrote.
fn mirror(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut mirror = json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": {
            "name": metadata["name"],
            "labels": shared(object, "labels"),
            "annotations": shared(object, "annotations"),
        },
    });
    if !metadata["namespace"].is_null() {
        mirror["metadata"]["namespace"] = metadata["namespace"].clone();
    }
    if !object["spec"].is_null() {
        mirror["spec"] = object["spec"].clone();
    }
    mirror
}
