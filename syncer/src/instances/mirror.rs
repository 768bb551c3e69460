//! The mirror: the copy of a hub-born instance in its spoke, for tools that look there directly.
//!
//! # Invariants
//!
//! A mirror carries our finalizer, kro's labels and inventory, the user's own labels and
//! annotations, and nothing foreign: no other finalizers, no ownerReferences, no tracking keys.
//! Its deletion in the spoke is never an intent: the finalizer is released, it goes, it is put
//! back. Its status is the hub's, with the mirror's own generation, written coalesced.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use api::{
    kro::keys::FINALIZER as KRO,
    meta::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
    query::Propagation,
    wheelhouse::{
        keys::{FINALIZER_IMPORTED, FINALIZER_MIRROR as MIRROR},
        origin::{self, TRACKING_LABELS, TRACKING_PREFIXES},
    },
};
use client::{Answer, DeleteRequest, Deleted, Endpoint, Force, Patch, reflector::RawObject};
use serde_json::{Map, Value, json};
use tracing::{Instrument as _, debug, debug_span};

use super::{
    events,
    work::{Pause, Work},
};
use crate::{
    engine::Engine,
    finalizers, restoring,
    spans::{self, traced_span},
    state::{
        claims,
        instances::instance_of,
        keys::InstanceKey,
        mirrors::{self, Mirror},
        served::Served,
        target::{Reach, Target, TargetSort},
    },
};

/// How long a status may change before it is written to the mirror once: an instance that becomes
/// ready passes through several states within a second.
const STATUS_DELAY: Duration = Duration::from_millis(500);

/// How long a status of a mirror stays that is not the hub's.
const MENDED_DELAY: Duration = Duration::from_secs(10);

/// A mirror as it should be.
#[derive(Debug)]
pub(crate) struct Mirrored {
    /// The digest to be remembered of it.
    pub(crate) digest: u64,
    /// Its uid.
    pub(crate) uid: String,
}

/// Makes the mirror what it should be.
pub(crate) async fn apply(work: &Work<'_>, served: &Served) -> Result<Mirrored, Pause> {
    let present = match work.target.mirrors.of(work.key) {
        Mirror::Unknown => return Err(Pause::Watch),
        Mirror::Absent => None,
        Mirror::Present(mirror) => Some(mirror),
    };
    if let Some(mirror) = &present
        && !is_own(work, mirror)
    {
        return Err(Pause::Failure(in_the_way(work.key)));
    }
    if let Some(mirror) = &present
        && mirror.deletion_timestamp.is_some()
    {
        // Someone deletes it in the spoke: let it go, and put it back once the watch says gone.
        release(work, served, mirror).await?;
        return Err(Pause::Watch);
    }
    let desired = desired(&work.instance, &work.engine.hub_id);
    // The inventory follows with the status; alone it does not hurry.
    let hurried = without_inventory(&desired);
    let digest = digest(&hurried);
    // After a restart nothing is remembered, and what the mirror holds decides.
    let unchanged = work.memory.mirror.is_none_or(|known| known == digest);
    if unchanged
        && let Some(mirror) = &present
        && holds(&hurried, mirror)
    {
        let uid = mirror.uid.clone();
        return Ok(Mirrored { digest, uid });
    }
    if work.memory.mirror == Some(digest) && present.is_some() {
        events::tell_undone(work); // it was as it should be
    }
    // Nothing but what was looked at: an object that somebody made meanwhile is not taken over.
    let object = match &present {
        None => claims::create_only(&desired),
        Some(mirror) => claims::update_only(&desired, &mirror.uid),
    };
    let endpoint = endpoint(work.target, served, &work.key.namespace);
    let patch = Patch::Apply {
        manager: api::wheelhouse::keys::MANAGER_SYNCER,
        force: Force::Yes,
        object: &object,
        answer: Answer::Object,
    };
    let span = debug_span!(
        "apply",
        spoke = %work.target.cluster,
        gvk = %served.graph.gvk(),
        namespace = work.key.namespace,
        name = work.key.name,
    );
    let patched = work
        .target
        .dynamic
        .patch(&endpoint, &work.key.name, None, patch);
    let answer = work.target.timely(patched.instrument(span)).await?;
    if let Ok(object) = RawObject::from_value(&answer).map(Arc::new) {
        work.target.mirrors.answered(work.key, Arc::clone(&object));
        if object.deletion_timestamp.is_some() {
            release(work, served, &object).await?; // deleted meanwhile: as above
            return Err(Pause::Watch);
        }
    }
    note_status(work.target, work.key);
    let uid = api::meta::uid(&answer).to_owned();
    Ok(Mirrored { digest, uid })
}

/// Returns whether an object in the spoke is the instance's.
fn is_own(work: &Work<'_>, object: &RawObject) -> bool {
    if origin::is_of_spoke(&work.instance) {
        return object.uid == work.memory.uid;
    }
    mirrors::is_own(object, &work.memory.mirror_uid, &work.engine.hub_id)
}

/// The finalizer by which the hub holds an instance's object in the spoke.
fn finalizer_of(instance: &Value) -> &'static str {
    if origin::is_of_spoke(instance) {
        FINALIZER_IMPORTED
    } else {
        MIRROR
    }
}

/// Deletes the object of an instance that was made in the spoke and is deleted at the hub's path: the hub's finalizer holds it until its
/// children are gone, and whoever looks there sees that it goes.
pub(crate) async fn announce(work: &Work<'_>) -> Result<(), Pause> {
    if !origin::is_of_spoke(&work.instance) {
        return Ok(());
    }
    let definitions = &work.engine.definitions;
    let Some(served) = definitions.lookup(&work.target.cluster, &work.key.group_kind) else {
        return Ok(());
    };
    let Mirror::Present(object) = work.target.mirrors.of(work.key) else {
        return Ok(()); // the removal in the end waits until it is known
    };
    if object.deletion_timestamp.is_some() || !is_own(work, &object) {
        return Ok(());
    }
    let endpoint = endpoint(work.target, &served, &work.key.namespace);
    let propagation = propagation(&work.instance);
    let going = delete(work.target, &endpoint, work.key, &object.uid, propagation).await?;
    if let Some(Ok(going)) = going.as_ref().map(RawObject::from_value) {
        work.target.mirrors.answered(work.key, Arc::new(going));
    }
    Ok(())
}

/// Words that the name of a mirror is taken.
fn in_the_way(key: &InstanceKey) -> String {
    format!(
        "{key} was made in the spoke too, by somebody else: delete it there, or delete this instance at the hub's path"
    )
}

/// How far the removal of a mirror has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The mirror is gone, or goes without anything of the instance's.
    Done,
    /// The spoke's garbage collector still has to do with its dependents what the deletion of the instance asked for.
    Dependents,
}

/// Takes the mirror away, after everything else of the instance.
///
/// The mirror is deleted as the instance was: `foregroundDeletion` and `orphan` of the instance are for the objects in the
/// spoke that name the mirror as their owner too, and the spoke's garbage collector sees to them.
pub(crate) async fn remove(work: &Work<'_>) -> Result<Removal, Pause> {
    if work.target.sort != TargetSort::Mirrored {
        return Ok(Removal::Done);
    }
    let definitions = &work.engine.definitions;
    let gvr = definitions.endpoint(&work.target.cluster, &work.key.group_kind);
    // Also after its definition: nobody else would ever take the mirror away.
    let Some(gvr) = gvr else {
        return Ok(Removal::Done);
    };
    let is_served = definitions.has_endpoint(&gvr);
    let mirror = match work.target.mirrors.of(work.key) {
        Mirror::Unknown if is_served => return Err(Pause::Watch),
        // Without a definition no watch will ever tell.
        Mirror::Unknown | Mirror::Absent => return Ok(Removal::Done),
        Mirror::Present(mirror) => mirror,
    };
    if !is_own(work, &mirror) && mirror.deletion_timestamp.is_none() {
        return Ok(Removal::Done); // it only has the name
    }
    let engine = work.engine;
    restoring::require(engine, work.target, work.key)?;
    let finalizer = finalizer_of(&work.instance);
    let is_held = mirror.finalizers.iter().any(|name| name == finalizer);
    if mirror.deletion_timestamp.is_some() && !is_held {
        // Deleted and released before. Deleted once more it would wait for its dependents once more.
        return Ok(removal_of(mirror.finalizers.iter().map(String::as_str)));
    }
    if !is_own(work, &mirror) {
        return Ok(Removal::Done);
    }
    let endpoint = work.target.endpoint(&gvr, &work.key.namespace);
    let propagation = propagation(&work.instance);
    let going = delete(work.target, &endpoint, work.key, &mirror.uid, propagation).await?;
    let Some(going) = going else {
        return Ok(Removal::Done);
    };
    release_finalizers(work.target, &endpoint, &going).await?;
    Ok(removal_of(api::meta::finalizers(&going)))
}

/// What becomes of the dependents of a mirror, as the finalizers of its instance say.
fn propagation(instance: &Value) -> Option<Propagation> {
    let asks = |finalizer| api::meta::has_finalizer(instance, finalizer);
    if asks(FINALIZER_ORPHAN) {
        Some(Propagation::Orphan)
    } else if asks(FINALIZER_FOREGROUND) {
        Some(Propagation::Foreground)
    } else {
        None
    }
}

fn removal_of<'a>(finalizers: impl IntoIterator<Item = &'a str>) -> Removal {
    let mut finalizers = finalizers.into_iter();
    if finalizers.any(|name| matches!(name, FINALIZER_ORPHAN | FINALIZER_FOREGROUND)) {
        Removal::Dependents
    } else {
        Removal::Done
    }
}

/// Takes a mirror away whose instance is gone.
pub(crate) async fn take_away(
    target: &Target,
    served: &Served,
    key: &InstanceKey,
    mirror: &RawObject,
) -> Result<(), Pause> {
    let endpoint = endpoint(target, served, &key.namespace);
    match delete(target, &endpoint, key, &mirror.uid, None).await? {
        Some(going) => release_finalizers(target, &endpoint, &going).await,
        None => Ok(()),
    }
}

/// What a user had written, out of what a mirror carries.
pub(crate) fn of_mirror(live: &Value) -> Value {
    let metadata = &live["metadata"];
    let own = |key: &str| {
        let prefixes = [
            "kro.run/",
            "internal.kro.run/",
            "applyset.",
            "wheelhouse.dev/",
        ];
        prefixes.iter().any(|prefix| key.starts_with(prefix))
            || TRACKING_PREFIXES
                .iter()
                .any(|prefix| key.starts_with(prefix))
    };
    let kept = |part: &str| -> Map<String, Value> {
        let entries = metadata[part].as_object().into_iter().flatten();
        let entries = entries.filter(|(key, _)| !own(key));
        entries
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let mut object = json!({
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {
            "name": metadata["name"],
            "labels": kept("labels"),
            "annotations": kept("annotations"),
        },
        "spec": live["spec"],
    });
    if !metadata["namespace"].is_null() {
        object["metadata"]["namespace"] = metadata["namespace"].clone();
    }
    object
}

/// Asks for the status of a mirror to be looked at that somebody has written, the hub perhaps. It is not set back at once: who writes
/// another one each time costs little.
pub(crate) fn note_written_status(target: &Target, key: &InstanceKey) {
    target.mirror_queue.add_after(key.clone(), MENDED_DELAY);
}

/// Asks for the status to be written to the mirror soon.
pub(crate) fn note_status(target: &Target, key: &InstanceKey) {
    target.mirror_queue.add_after(key.clone(), STATUS_DELAY);
}

/// Starts the worker that writes statuses to mirrors. It ends with the target's token.
pub(crate) fn start_status_worker(engine: &Arc<Engine>, target: &Arc<Target>) {
    let (engine, target) = (Arc::clone(engine), Arc::clone(target));
    let tasks = engine.tasks.clone();
    tasks.spawn("mirror-status", async move {
        while let Some(key) = target.mirror_queue.next_until(&target.token).await {
            let place = (target.cluster.clone(), key.clone());
            let _turn = engine.mirror_turns.take(place).await;
            if target.token.is_cancelled() {
                return; // whoever ended the target may wait until nobody works for it
            }
            let cluster = &target.cluster;
            let span = debug_span!("reconcile", controller = "mirror-status", %cluster, %key);
            let traced = spans::sampled(
                || super::uid_of(&engine, cluster, &key),
                || traced_span!(controller = "mirror-status", %cluster, %key),
            );
            let written = write_status(&engine, &target, &key).instrument(traced);
            let written = written.instrument(span).await;
            if let Err(Pause::Failure(reason)) = written {
                debug!(cluster = %target.cluster, key = %key, reason, "cannot write a mirror's status");
                target.mirror_queue.retry_after(key.clone(), Duration::from_secs(5));
            }
            target.mirror_queue.done(&key);
        }
    });
}

async fn write_status(engine: &Engine, target: &Target, key: &InstanceKey) -> Result<(), Pause> {
    let Some(object) = engine.instances.get(&target.cluster, key) else {
        return Ok(());
    };
    let Mirror::Present(mirror) = target.mirrors.of(key) else {
        return Ok(());
    };
    let Some(served) = engine.definitions.lookup(&target.cluster, &key.group_kind) else {
        return Ok(());
    };
    if target.reach() != Reach::Reachable || object.deletion_timestamp.is_some() {
        return Ok(()); // on return the instance is reconciled, which comes back here
    }
    let (Ok(instance), Ok(live)) = (instance_of(&object), mirror.value()) else {
        return Ok(());
    };
    let endpoint = endpoint(target, &served, &key.namespace);
    let is_of_spoke = origin::is_of_spoke(&instance);
    let is_own = if is_of_spoke {
        mirror.uid == object.uid
    } else {
        let named = target.recall(key, &object.uid).mirror_uid;
        mirrors::is_own(&mirror, &named, &engine.hub_id)
    };
    if !is_own {
        return Ok(());
    }
    // The inventory may have grown since the mirror was written.
    let desired = desired(&instance, &engine.hub_id);
    if !is_of_spoke && !holds(&desired, &mirror) {
        let patch = Patch::Apply {
            manager: api::wheelhouse::keys::MANAGER_SYNCER,
            force: Force::Yes,
            // One that is gone by now is not made again: its instance may be gone too.
            object: &claims::update_only(&desired, &mirror.uid),
            answer: Answer::Metadata,
        };
        target
            .dynamic
            .patch(&endpoint, &key.name, None, patch)
            .await?;
    }
    let wanted = status(&instance, &live);
    if wanted.is_null() || live["status"] == wanted {
        return Ok(());
    }
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": mirror.uid},
        {"op": "add", "path": "/status", "value": wanted},
    ]);
    match target
        .dynamic
        .patch(&endpoint, &key.name, Some("status"), Patch::Json(&patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The hub's status, as it reads in the mirror: conditions speak of the mirror's own generation.
fn status(instance: &Value, mirror: &Value) -> Value {
    let mut status = instance["status"].clone();
    let current = api::meta::generation(instance);
    let own = api::meta::generation(mirror);
    if let Some(conditions) = status["conditions"].as_array_mut() {
        for condition in conditions {
            if condition["observedGeneration"].as_i64() == Some(current)
                && let Some(condition) = condition.as_object_mut()
            {
                condition.insert("observedGeneration".to_owned(), json!(own));
            }
        }
    }
    status
}

fn desired(instance: &Value, hub_id: &str) -> Value {
    let metadata = &instance["metadata"];
    let foreign = |key: &str| {
        TRACKING_PREFIXES
            .iter()
            .any(|prefix| key.starts_with(prefix))
    };
    let kept = |value: &Value, drop_labels: bool| -> Map<String, Value> {
        let entries = value.as_object().into_iter().flatten();
        entries
            .filter(|(key, _)| !foreign(key))
            .filter(|(key, _)| !(drop_labels && TRACKING_LABELS.contains(&key.as_str())))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let mut annotations = kept(&metadata["annotations"], false);
    annotations.insert(api::wheelhouse::keys::HUB.to_owned(), json!(hub_id));
    let mut desired = json!({
        "apiVersion": instance["apiVersion"],
        "kind": instance["kind"],
        "metadata": {
            "name": metadata["name"],
            "labels": kept(&metadata["labels"], true),
            "annotations": annotations,
            "finalizers": [api::wheelhouse::keys::FINALIZER_MIRROR],
        },
    });
    if !metadata["namespace"].is_null() {
        desired["metadata"]["namespace"] = metadata["namespace"].clone();
    }
    if !instance["spec"].is_null() {
        desired["spec"] = instance["spec"].clone();
    }
    desired
}

/// Returns whether a mirror is as it is desired: the same spec, all labels, annotations and the
/// finalizer that we write, and none that we wrote and no longer do.
fn holds(desired: &Value, mirror: &RawObject) -> bool {
    let within = |wanted: &Value, known: &BTreeMap<String, String>| {
        let mut entries = wanted.as_object().into_iter().flatten();
        entries.all(|(key, value)| known.get(key).map(String::as_str) == value.as_str())
    };
    let metadata = &desired["metadata"];
    within(&metadata["labels"], &mirror.labels)
        && within(&metadata["annotations"], &mirror.annotations)
        && mirror
            .finalizers
            .iter()
            .any(|name| name == api::wheelhouse::keys::FINALIZER_MIRROR)
        && mirror.value().is_ok_and(|live| {
            live["spec"] == desired["spec"]
                && ["labels", "annotations"]
                    .into_iter()
                    .all(|part| !owns_more(&live, part, &metadata[part]))
        })
}

/// Returns whether the server has us down as owner of a label or annotation that is not wanted: it
/// was removed on the hub before a restart.
fn owns_more(live: &Value, part: &str, wanted: &Value) -> bool {
    let managers = live["metadata"]["managedFields"].as_array();
    let ours = managers.into_iter().flatten().filter(|entry| {
        entry["manager"] == api::wheelhouse::keys::MANAGER_SYNCER
            && entry["operation"] == "Apply"
            && entry["subresource"].as_str().unwrap_or_default().is_empty()
    });
    let fields = ours.filter_map(|entry| {
        let fields = &entry["fieldsV1"]["f:metadata"][format!("f:{part}")];
        fields.as_object()
    });
    fields
        .flat_map(Map::keys)
        .filter_map(|field| field.strip_prefix("f:"))
        .any(|key| wanted.get(key).is_none() && !is_inventory(key))
}

/// Returns whether a key belongs to kro's inventory, which follows with the status.
fn is_inventory(key: &str) -> bool {
    key.starts_with("applyset.") || key.starts_with("internal.kro.run/")
}

fn without_inventory(desired: &Value) -> Value {
    let mut hurried = desired.clone();
    if let Some(annotations) = hurried["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|key, _| !is_inventory(key));
    }
    hurried
}

fn digest(desired: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    desired.to_string().hash(&mut hasher);
    hasher.finish()
}

fn endpoint(target: &Target, served: &Served, namespace: &str) -> Endpoint {
    target.endpoint(served.graph.gvr(), namespace)
}

async fn release(work: &Work<'_>, served: &Served, mirror: &RawObject) -> Result<(), Pause> {
    let endpoint = endpoint(work.target, served, &work.key.namespace);
    let object = mirror
        .value()
        .map_err(|error| Pause::Failure(error.to_string()))?;
    release_finalizers(work.target, &endpoint, &object).await
}

/// Returns the patch that takes the hub's finalizers off an object in the spoke; `None` where it has none.
pub(crate) fn releasing(mirror: &Value) -> Option<Value> {
    let ours = [MIRROR, FINALIZER_IMPORTED];
    let mut ours_there = ours.iter();
    let is_held = ours_there.any(|finalizer| api::meta::has_finalizer(mirror, finalizer));
    is_held.then(|| finalizers::remove_all(mirror, &ours))
}

/// Takes the hub's finalizers off an object in the spoke that goes: a copy that somebody made of a mirror has that of a mirror, too. What
/// a kro had before the hub has the finalizer of kro, which nobody else would take off.
pub(crate) async fn release_finalizers(
    target: &Target,
    endpoint: &Endpoint,
    mirror: &Value,
) -> Result<(), Pause> {
    if releasing(mirror).is_none() {
        return Ok(());
    }
    let patch = finalizers::remove_all(mirror, &[MIRROR, FINALIZER_IMPORTED, KRO]);
    finalizers::apply(&target.dynamic, endpoint, mirror, &patch).await?;
    Ok(())
}

/// Deletes a mirror, which our finalizer holds until it is released. Returns it as it waits for that; `None` if it is gone.
///
/// In this order: a mirror that has lost its finalizer, and is there because the hub was killed before it was deleted, looks
/// as if it had been made in the spoke, and would keep its kind from being served there.
async fn delete(
    target: &Target,
    endpoint: &Endpoint,
    key: &InstanceKey,
    uid: &str,
    propagation: Option<Propagation>,
) -> Result<Option<Value>, Pause> {
    let request = DeleteRequest {
        propagation,
        ..DeleteRequest::of(uid)
    };
    let deleted = target.dynamic.delete(endpoint, &key.name, &request);
    match target.timely(deleted).await {
        Ok(Deleted::Terminating(mirror)) => return Ok(Some(mirror)),
        Ok(Deleted::Gone) => target.mirrors.gone(key, uid),
        Err(error) if error.is_not_found() => target.mirrors.gone(key, uid),
        // Another one of that name, of which the watch will tell, or a server that asks to try again. A mirror that is there
        // and is not being deleted must keep its finalizer.
        Err(error) => return Err(error.into()),
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(metadata: &Value) -> Value {
        json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "App",
            "metadata": metadata, "spec": {"size": 3}, "status": {"state": "ACTIVE"},
        })
    }

    #[test]
    fn a_mirror_carries_the_users_keys_and_drops_those_of_other_tools() {
        // (what stands in the hub, whether as a label it is mirrored, whether as an annotation)
        let cases = [
            ("team", true, true),
            ("example.com/owner", true, true),
            ("kro.run/owned", true, true),
            ("app.kubernetes.io/name", true, true),
            ("applyset.kubernetes.io/id", true, true),
            ("argocd.argoproj.io/tracking-id", false, false),
            ("kustomize.toolkit.fluxcd.io/name", false, false),
            ("helm.toolkit.fluxcd.io/name", false, false),
            ("meta.helm.sh/release-name", false, false),
            (
                "kubectl.kubernetes.io/last-applied-configuration",
                false,
                false,
            ),
            ("internal.wheelhouse.dev/author", false, false),
            ("kcp.io/cluster", false, false),
            ("app.kubernetes.io/managed-by", false, true),
            ("app.kubernetes.io/instance", false, true),
            ("helm.sh/chart", false, true),
        ];
        for (key, as_label, as_annotation) in cases {
            let hub_object = instance(&json!({
                "name": "a", "labels": {key: "x"}, "annotations": {key: "x"},
            }));
            let metadata = desired(&hub_object, "hub-1")["metadata"].clone();
            assert_eq!(metadata["labels"][key] == "x", as_label, "label {key}");
            let mirrored = metadata["annotations"][key] == "x";
            assert_eq!(mirrored, as_annotation, "annotation {key}");
        }
    }

    #[test]
    fn a_mirror_has_our_finalizer_our_mark_the_spec_and_nothing_else_of_the_instance() {
        let hub_object = instance(&json!({
            "name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7",
            "generation": 4, "finalizers": ["kro.run/finalizer", "example.com/hold"],
            "ownerReferences": [{"name": "owner"}], "managedFields": [{}],
        }));
        let want = json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "App",
            "metadata": {
                "name": "a", "namespace": "default", "labels": {},
                "annotations": {api::wheelhouse::keys::HUB: "hub-1"},
                "finalizers": [api::wheelhouse::keys::FINALIZER_MIRROR],
            },
            "spec": {"size": 3},
        });
        assert_eq!(desired(&hub_object, "hub-1"), want, "what is written");
    }

    #[test]
    fn a_mirror_holds_what_is_desired_if_all_that_we_write_is_there() {
        let hub_object = instance(&json!({"name": "a", "labels": {"team": "x"}}));
        let desired = desired(&hub_object, "hub-1");
        let hub = format!(
            "/metadata/annotations/{}",
            api::wheelhouse::keys::HUB.replace('/', "~1")
        );
        // (what, where the live mirror differs, what stands there)
        let cases = [
            ("nothing differs", "/kind", json!("App"), true),
            ("a status beside it", "/metadata/generation", json!(4), true),
            (
                "a foreign label beside ours",
                "/metadata/labels",
                json!({"team": "x", "b": "y"}),
                true,
            ),
            (
                "our label changed",
                "/metadata/labels",
                json!({"team": "y"}),
                false,
            ),
            ("our label gone", "/metadata/labels", json!({}), false),
            ("another hub's mark", hub.as_str(), json!("hub-2"), false),
            (
                "our finalizer gone",
                "/metadata/finalizers",
                json!(["other"]),
                false,
            ),
            ("the spec changed", "/spec/size", json!(4), false),
            (
                "more in the spec",
                "/spec",
                json!({"size": 3, "more": 1}),
                false,
            ),
        ];
        for (name, path, value, want) in cases {
            let mut live = desired.clone();
            live["metadata"]["generation"] = json!(1);
            *live.pointer_mut(path).expect("the mirror has it") = value;
            let mirror = RawObject::from_value(&live).expect("an object");
            assert_eq!(holds(&desired, &mirror), want, "{name}");
        }
    }

    #[test]
    fn a_mirror_keeps_no_key_that_we_wrote_and_no_longer_want() {
        // A label was removed on the hub, and the hub killed before the mirror had it.
        let hub_object = instance(&json!({"name": "a", "labels": {"team": "x"}}));
        let desired = desired(&hub_object, "hub-1");
        let syncer = api::wheelhouse::keys::MANAGER_SYNCER;
        let entry = |manager: &str, operation: &str, part: &str, key: &str| {
            json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {part: {key: {}}}}})
        };
        // (what, who owns which key of the mirror, whether the mirror holds)
        let cases = [
            (
                "a wanted label",
                entry(syncer, "Apply", "f:labels", "f:team"),
                true,
            ),
            (
                "a label of old",
                entry(syncer, "Apply", "f:labels", "f:old"),
                false,
            ),
            (
                "an annotation of old",
                entry(syncer, "Apply", "f:annotations", "f:old"),
                false,
            ),
            (
                "another's label",
                entry("kubectl", "Apply", "f:labels", "f:old"),
                true,
            ),
            (
                "the inventory, which follows later",
                entry(
                    syncer,
                    "Apply",
                    "f:annotations",
                    "f:applyset.kubernetes.io/x",
                ),
                true,
            ),
        ];
        for (name, owner, want) in cases {
            let mut live = desired.clone();
            for part in ["labels", "annotations"] {
                live["metadata"][part]["old"] = json!("x");
            }
            live["metadata"]["managedFields"] = json!([owner]);
            let mirror = RawObject::from_value(&live).expect("an object");
            assert_eq!(holds(&desired, &mirror), want, "{name}");
        }
    }

    #[test]
    fn conditions_of_the_current_generation_speak_of_the_mirrors_own() {
        // (observed in the hub at generation 4, what the mirror at generation 9 says)
        for (name, observed, want) in [
            ("current", json!(4), json!(9)),
            ("behind", json!(3), json!(3)),
            ("none", json!(null), json!(null)),
        ] {
            let mut hub_object = instance(&json!({"name": "a", "generation": 4}));
            hub_object["status"]["conditions"] =
                json!([{"type": "Ready", "observedGeneration": observed}]);
            let written = status(&hub_object, &json!({"metadata": {"generation": 9}}));
            let condition = &written["conditions"][0];
            assert_eq!(condition["observedGeneration"], want, "{name}");
            assert_eq!(condition["type"], "Ready", "{name}: the rest stays");
            assert_eq!(written["state"], "ACTIVE", "{name}: the rest stays");
        }
    }
}
