//! The status of an instance on the hub: written only where it differs.

use api::{kro::keys, wheelhouse::keys::REASON_CONFIRMATION_REQUIRED};
use client::Patch;
use graph::conditions::{ConditionSet, INSTANCE, Mark};
use serde_json::{Value, json};
use spokes::Trouble;

use super::{
    events,
    work::{Pause, Work},
};
use crate::{engine::Engine, state::target::TargetSort};

/// Writes a status that was computed as a whole, unless it is the one that is there.
pub(crate) async fn write(work: &mut Work<'_>, wanted: Value) -> Result<(), Pause> {
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": api::meta::uid(&work.instance)},
        {"op": "add", "path": "/status", "value": wanted},
    ]);
    put(work, &wanted, &patch).await
}

/// Writes a status that keeps parts of the known one. It is refused with a conflict if the instance has changed: after a write that
/// was not answered, the known status is older than the stored one, and parts of it would come back.
pub(crate) async fn write_over(work: &mut Work<'_>, wanted: Value) -> Result<(), Pause> {
    let version = api::meta::resource_version(&work.instance);
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": api::meta::uid(&work.instance)},
        {"op": "add", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/status", "value": wanted},
    ]);
    put(work, &wanted, &patch).await
}

async fn put(work: &mut Work<'_>, wanted: &Value, patch: &Value) -> Result<(), Pause> {
    events::tell(work, wanted);
    if work.instance["status"] == *wanted {
        return Ok(());
    }
    let endpoint = work.hub_endpoint()?;
    let name = &work.key.name;
    let answer = work
        .engine
        .hub
        .patch(&endpoint, name, Some("status"), Patch::Json(patch))
        .await;
    match answer {
        Ok(instance) => {
            let (before, now) = (state(&work.instance["status"]), state(wanted));
            let counts = work.engine.metrics.of(&work.target.cluster);
            counts.instance_state(before, now);
            work.take_answer(instance, &Value::Null);
        }
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    work.engine.note_census(&work.target.cluster);
    if work.target.sort == TargetSort::Mirrored {
        super::mirror::note_status(work.target, work.key);
    }
    Ok(())
}

fn state(status: &Value) -> Option<&str> {
    status["state"].as_str()
}

/// Reports in the status that nothing can be done for the instance, and why.
pub(crate) async fn failed(work: &mut Work<'_>, reason: &str) -> Result<(), Pause> {
    let wanted = with_failure(&work.instance, work.instance["status"].clone(), reason);
    write_over(work, wanted).await
}

/// Returns a status that says, beside what it says, that something failed.
pub(crate) fn with_failure(instance: &Value, wanted: Value, reason: &str) -> Value {
    let message = format!("resource reconciliation failed: {reason}");
    let mark = Mark::fails(
        keys::CONDITION_RESOURCES_READY,
        keys::REASON_NOT_READY,
        message,
    );
    with_trouble(instance, wanted, mark)
}

/// Returns a status that asks, beside what it says, for a confirmation.
pub(crate) fn with_question(instance: &Value, wanted: Value, question: &str) -> Value {
    let (kind, reason) = (
        keys::CONDITION_RESOURCES_READY,
        REASON_CONFIRMATION_REQUIRED,
    );
    with_trouble(instance, wanted, Mark::fails(kind, reason, question))
}

fn with_trouble(instance: &Value, mut wanted: Value, mark: Mark) -> Value {
    let now = Engine::now();
    if !wanted.is_object() {
        wanted = json!({});
    }
    let mut shown = instance.clone();
    shown["status"] = wanted.clone();
    let mut set = ConditionSet::open(&INSTANCE, &shown, &now);
    set.mark(mark);
    let mut conditions = set.to_values();
    keep_times(&mut conditions, &instance["status"]["conditions"]);
    wanted["conditions"] = Value::Array(conditions);
    wanted["state"] = json!(keys::STATE_ERROR);
    wanted
}

/// Lets conditions that are as they were say since when.
fn keep_times(conditions: &mut [Value], known: &Value) {
    let known = known.as_array().into_iter().flatten();
    for before in known {
        let same = conditions
            .iter_mut()
            .find(|it| it["type"] == before["type"] && it["status"] == before["status"]);
        if let Some(condition) = same {
            condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
        }
    }
}

/// Reports in the status that there is work which waits for the spoke.
pub(crate) async fn waiting_for_spoke(work: &mut Work<'_>, trouble: &Trouble) -> Result<(), Pause> {
    let cluster = &work.target.cluster;
    let message = format!("waiting for spoke {cluster:?}, which is {trouble}");
    waiting(work, events::REASON_SPOKE_UNREACHABLE, message).await
}

/// Reports in the status that there is work which waits until the objects of some kind can be listed in the target.
pub(crate) async fn waiting_for_kind(work: &mut Work<'_>, trouble: &str) -> Result<(), Pause> {
    let hint = if work.target.sort == TargetSort::Root {
        "; root is the hub itself and serves no workloads: create the instance in a cluster, at /clusters/NAME"
    } else {
        ""
    };
    let message = format!("waiting for a kind that cannot be listed: {trouble}{hint}");
    waiting(work, events::REASON_KIND_NOT_LISTED, message).await
}

async fn waiting(work: &mut Work<'_>, reason: &'static str, message: String) -> Result<(), Pause> {
    let generation = api::meta::generation(&work.instance);
    let conditions = work.instance["status"]["conditions"].as_array();
    let settled = conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"].as_i64() == Some(generation)
    });
    if settled {
        return Ok(()); // nothing waits: what is known stays
    }
    let now = Engine::now();
    let mut wanted = work.instance["status"].clone();
    if !wanted.is_object() {
        wanted = json!({});
    }
    let mut set = ConditionSet::open(&INSTANCE, &work.instance, &now);
    set.mark(Mark::waits("ResourcesReady", reason, message));
    wanted["conditions"] = Value::Array(set.to_values());
    wanted["state"] = json!("IN_PROGRESS");
    write_over(work, wanted).await
}
