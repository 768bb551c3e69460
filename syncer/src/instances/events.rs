//! Events about instances, where `kubectl describe` looks for them: in the spoke, or in the hub's store for root and embedded
//! clusters.
//!
//! What is told is what the status says and somebody has to know: an error, a spoke that is away, a deletion that cannot go on, a
//! mirror whose edit was undone, and that trouble has ended. The status is the truth and is written without them.
//!
//! # Invariants
//!
//! Best effort: no reconcile waits for an event or fails with one. A target has one writer, which writes at most
//! 1 / [`PACE`] of them a second, as the hub and in the term of the target.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use api::{
    kro::keys,
    wheelhouse::keys::{MANAGER_SYNCER, REASON_CONFIRMATION_REQUIRED},
};
use client::{Answer, Force, Patch};
use graph::deletion::ChildPolicy;
use serde_json::{Value, json};
use tracing::debug;

use super::work::Work;
use crate::{
    engine::Engine,
    resources,
    state::{
        events::{Event, Next, Said, Severity, Subject},
        target::{Target, TargetSort},
    },
};

/// What the status says while nothing holds a deletion up.
pub(crate) const ON_ITS_WAY: &str = "deleting resources";
/// The reason of the condition `ResourcesReady` of what waits for a spoke.
pub(crate) const REASON_SPOKE_UNREACHABLE: &str = "SpokeUnreachable";
/// The same of what waits for a kind whose objects cannot be listed in its target.
pub(crate) const REASON_KIND_NOT_LISTED: &str = "KindNotListed";

/// Between two writes.
const PACE: Duration = Duration::from_millis(100);
/// After an answer that others of the target would get too.
const PAUSE: Duration = Duration::from_secs(5);
/// After a refusal: the credential may have no right to write events.
const REFUSED_PAUSE: Duration = Duration::from_mins(1);
/// Where events about objects without a namespace are.
const NAMESPACE_OF_CLUSTER: &str = "default";
/// Bytes of an object's name.
const NAME_BYTES_MAX: usize = 253;
/// Bytes of a reason; more is refused by `events.k8s.io`.
const REASON_BYTES_MAX: usize = 128;
/// Who tells.
const COMPONENT: &str = "wheelhouse";

/// Tells what a status says that is about to be written, or would be if it were not there already.
pub(crate) fn tell(work: &Work<'_>, wanted: &Value) {
    let events = &work.target.events;
    if let Some(said) = trouble(work, wanted) {
        events.note(&subject(work), said, &Engine::now());
    } else if is_well(wanted) && events.note_well(&work.memory.uid) {
        let said = Said {
            severity: Severity::Normal,
            reason: "Ready".to_owned(),
            message: "it is ready again".to_owned(),
        };
        events.note(&subject(work), said, &Engine::now());
    }
}

/// Tells that somebody has edited the mirror in the spoke, and that the hub has undone it.
pub(crate) fn tell_undone(work: &Work<'_>) {
    let said = Said {
        severity: Severity::Normal,
        reason: "EditUndone".to_owned(),
        message: "the copy in the spoke was edited, and is set back to what the hub stores: edit the instance at the \
                  hub's path"
            .to_owned(),
    };
    work.target
        .events
        .note(&subject(work), said, &Engine::now());
}

/// Tells that a child stays in the cluster that is not wanted any more.
pub(super) fn tell_kept(work: &Work<'_>, child: &str, policy: ChildPolicy) {
    let reason = match policy {
        ChildPolicy::Orphan => "Orphaned",
        ChildPolicy::Retain | ChildPolicy::Delete => "Retained",
    };
    let said = Said {
        severity: Severity::Normal,
        reason: reason.to_owned(),
        message: format!(
            "{child} is not wanted any more, and stays: its deletion policy is {}",
            policy.as_str()
        ),
    };
    work.target
        .events
        .note(&subject(work), said, &Engine::now());
}

fn subject(work: &Work<'_>) -> Subject {
    Subject {
        key: work.key.clone(),
        api_version: api::meta::api_version(&work.instance).to_owned(),
        uid: work.memory.uid.clone(),
    }
}

/// Returns what a status says that somebody has to know.
fn trouble(work: &Work<'_>, wanted: &Value) -> Option<Said> {
    let conditions = wanted["conditions"].as_array()?;
    let of_resources = |it: &&Value| it["type"] == keys::CONDITION_RESOURCES_READY;
    let is_failed = |it: &&Value| it["status"] == api::meta::STATUS_FALSE;
    let condition = conditions.iter().find(of_resources);
    let condition = condition.or_else(|| conditions.iter().find(is_failed))?;
    let text = |name: &str| condition[name].as_str().unwrap_or_default();
    let (said, message) = (text("reason"), text("message"));
    let reason = match wanted["state"].as_str()? {
        "ERROR" if said == REASON_CONFIRMATION_REQUIRED => said,
        "ERROR" => work.error.map_or(said, |error| error.as_str()),
        "DELETING" if message != ON_ITS_WAY => "DeletionBlocked",
        _ if said == REASON_SPOKE_UNREACHABLE || said == REASON_KIND_NOT_LISTED => said,
        _ => return None,
    };
    // Reasons of an author's conditions are the author's words.
    let is_word = !reason.is_empty()
        && reason.len() <= REASON_BYTES_MAX
        && reason.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let reason = if is_word { reason } else { "Error" };
    Some(Said {
        severity: Severity::Warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    })
}

fn is_well(wanted: &Value) -> bool {
    let conditions = wanted["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    wanted["state"] == "ACTIVE" && conditions.all(|it| it["status"] == api::meta::STATUS_TRUE)
}

/// Starts the writer of a target's events. It ends with the target's token.
pub(crate) fn start_writer(engine: &Arc<Engine>, target: &Arc<Target>) {
    let (engine, target) = (Arc::clone(engine), Arc::clone(target));
    let tasks = engine.tasks.clone();
    tasks.spawn("instance-events", async move {
        tokio::select! {
            biased;
            () = target.token.cancelled() => {}
            () = write_all(&engine, &target) => {}
        }
    });
}

async fn write_all(engine: &Engine, target: &Target) {
    loop {
        target.reachable().await;
        match target.events.next() {
            Next::Wait(None) => target.events.noted().await,
            Next::Wait(Some(until)) => {
                tokio::select! {
                    () = target.events.noted() => {}
                    () = tokio::time::sleep_until(until) => {}
                }
            }
            Next::Write(event) => {
                let pause = write(engine, target, &event).await;
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Writes an event. Returns how long to wait before the next.
async fn write(engine: &Engine, target: &Target, event: &Event) -> Duration {
    let object = object(engine, target, event);
    let endpoint = target.endpoint(&resources::core("events"), namespace(event));
    let patch = Patch::Apply {
        manager: MANAGER_SYNCER,
        force: Force::Yes,
        object: &object,
        answer: Answer::Metadata,
    };
    let name = api::meta::name(&object);
    let Err(error) = target.dynamic.patch(&endpoint, name, None, patch).await else {
        return PACE;
    };
    let (cluster, key) = (&target.cluster, &event.subject.key);
    debug!(%cluster, %key, error = error.chain(), "cannot write an event");
    match error.status().map(|status| status.code) {
        Some(403) => REFUSED_PAUSE,
        // Its namespace is gone, or the cluster takes it for wrong: the next one may be taken.
        Some(400..=428) => PACE,
        _ => {
            target.events.put_back(event, PAUSE);
            error.retry_after().unwrap_or(PAUSE).max(PAUSE)
        }
    }
}

fn namespace(event: &Event) -> &str {
    match event.subject.key.namespace.as_str() {
        "" => NAMESPACE_OF_CLUSTER,
        namespace => namespace,
    }
}

fn object(engine: &Engine, target: &Target, event: &Event) -> Value {
    let Event { subject, said, .. } = event;
    let key = &subject.key;
    let mut involved = json!({
        "apiVersion": subject.api_version,
        "kind": key.group_kind.kind,
        "name": key.name,
        "uid": uid_there(target, subject),
    });
    if !key.namespace.is_empty() {
        involved["namespace"] = json!(key.namespace);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name(&engine.hub_id, event), "namespace": namespace(event)},
        "involvedObject": involved,
        "type": match said.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        },
        "reason": said.reason,
        "message": said.message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": engine.hub_id,
        "firstTimestamp": event.first,
        "lastTimestamp": event.last,
        "count": event.count,
    })
}

/// The uid that the target knows the instance by: that of its mirror, which the hub's path shows as the instance's.
fn uid_there(target: &Target, subject: &Subject) -> String {
    let mirror = match target.sort {
        TargetSort::Mirrored => target.mirror_uid(&subject.key, &subject.uid),
        TargetSort::Embedded | TargetSort::Root => None,
    };
    mirror.unwrap_or_else(|| subject.uid.clone())
}

/// Names an event: the same for the same hub, instance and reason, so that a cluster has few of them whatever happens.
fn name(hub_id: &str, event: &Event) -> String {
    let mut hasher = DefaultHasher::new();
    let Subject { key, uid, .. } = &event.subject;
    (hub_id, &key.group_kind, uid, &event.said.reason).hash(&mut hasher);
    let suffix = format!(".{:016x}", hasher.finish());
    let cut = key.name.floor_char_boundary(NAME_BYTES_MAX - suffix.len());
    let begin = key.name.get(..cut).unwrap_or_default();
    format!("{}{suffix}", begin.trim_end_matches(['.', '-']))
}
