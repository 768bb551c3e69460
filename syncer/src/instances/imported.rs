//! Instances that were made in a spoke: taken up into the hub, and kept there as the spoke has them.
//!
//! # Invariants
//!
//! The spoke has the truth of spec, labels and annotations, the hub that of the status. In the spoke the hub writes a finalizer
//! and the status, nothing else. It deletes such an object only because its instance was deleted at the hub's path.
//!
//! Their deletionTimestamp in the spoke is an intent. Their absence is none: an instance whose object is gone, or whose name another
//! object has, says so and stays as it is with all its children.

use std::sync::Arc;

use api::{
    meta::is_newer,
    wheelhouse::{
        keys::{ANNOTATION_ORIGIN, ANNOTATION_SPOKE_VERSION, FINALIZER_IMPORTED, ORIGIN_SPOKE},
        origin,
    },
};
use client::{DeleteRequest, Endpoint, Patch, reflector::RawObject};
use serde_json::{Map, Value, json};
use tracing::info;

use super::{
    mirror, status,
    work::{Pause, Work},
};
use crate::{
    engine::Engine,
    finalizers,
    state::{
        keys::InstanceKey,
        kinds::Progress,
        mirrors::{self, Maker, Mirror},
        served::Served,
        target::Target,
    },
};

/// Instances that may be missing in the spoke where they were made, before no others are taken up from there. A spoke that lets objects
/// vanish, instead of deleting them, would have the hub store without end what it shows for a moment.
const LOST_COUNT_MAX: usize = 100;

/// Names the objects of a kind that were made in a spoke and that the hub does not have yet.
pub(crate) fn left(engine: &Engine, target: &Target, served: &Served) -> Vec<InstanceKey> {
    let kind = served.graph.group_kind();
    let objects = target.mirrors.all().into_iter();
    let left = objects.filter(|(key, object)| {
        key.group_kind == *kind
            && object.deletion_timestamp.is_none()
            && mirrors::maker(object, &engine.hub_id) == Maker::Spoke
            && engine.instances.get(&target.cluster, key).is_none()
    });
    left.map(|(key, _)| key).collect()
}

/// Makes the hub's copy of an object that somebody made in the spoke, under the uid that it has there.
pub(crate) async fn take_up(
    engine: &Engine,
    target: &Target,
    served: &Served,
    key: &InstanceKey,
) -> Result<(), Pause> {
    let gvr = served.graph.gvr();
    let endpoint = target.endpoint(gvr, &key.namespace);
    // What the watch shows may be gone by now, and with it an instance that must not come back.
    let live = match target.dynamic.get(&endpoint, &key.name).await {
        Ok(live) => live,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let hub_endpoint = Engine::hub_endpoint(&target.cluster, gvr, &key.namespace);
    if api::meta::is_terminating(&live) {
        return match engine.hub.get(&hub_endpoint, &key.name).await {
            Ok(_) => Ok(()), // the watch of the hub names it
            Err(error) if error.is_not_found() => {
                mirror::release_finalizers(target, &endpoint, &live).await
            }
            Err(error) => Err(error.into()),
        };
    }
    let seen = RawObject::from_value(&live).map_err(|error| Pause::Failure(error.to_string()))?;
    if mirrors::maker(&seen, &engine.hub_id) != Maker::Spoke {
        return Ok(());
    }
    if target.lost_count() >= LOST_COUNT_MAX {
        let reason = format!(
            "{LOST_COUNT_MAX} instances that were made in the spoke are missing there: restore them there, or delete them at \
             the hub's path, before others are taken up"
        );
        return Err(Pause::Failure(reason));
    }
    // Held first: once the hub has the copy, the object does not vanish without being seen to go.
    let live = hold_at(target, &endpoint, live).await?;
    let object = copy_of(&live);
    match engine.hub.create(&hub_endpoint, &object).await {
        Ok(_) => {
            info!(cluster = %target.cluster, key = %key, "imported an instance from the spoke");
            engine.note_census(&target.cluster);
        }
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Notes that there may be nothing left to be taken up of a kind.
pub(crate) fn moved(engine: &Engine, target: &Target, served: &Served) {
    if matches!(target.kinds.of(served), Some(Progress::Importing(_))) {
        engine.distribution_queue.add(target.cluster.clone());
    }
}

/// Brings the hub's copy to what the spoke has, and holds the object there until its children are gone.
///
/// # Errors
///
/// [`Pause::Watch`] while there is nothing to follow, or it is being deleted.
pub(crate) async fn follow(work: &mut Work<'_>, served: &Served) -> Result<(), Pause> {
    moved(work.engine, work.target, served);
    let object = match work.target.mirrors.of(work.key) {
        Mirror::Unknown => return Err(Pause::Watch),
        Mirror::Absent => {
            let what = "was made in the spoke and is not there any more: make it there again, with its uid, by a restore, or \
                        delete this instance at the hub's path";
            return lost(work, what).await;
        }
        Mirror::Present(object) if object.uid != work.memory.uid => {
            let what = "was made in the spoke, and another object has its name there now: delete this instance at the hub's \
                        path, and the other one is taken up";
            return lost(work, what).await;
        }
        Mirror::Present(object) => object,
    };
    work.target.note_found(work.key);
    if object.deletion_timestamp.is_some() {
        return delete(work, &object).await;
    }
    hold(work, served, &object).await?;
    let live = object
        .value()
        .map_err(|error| Pause::Failure(error.to_string()))?;
    take(work, served, live).await
}

async fn lost(work: &mut Work<'_>, what: &str) -> Result<(), Pause> {
    work.target.note_lost(work.key);
    let reason = format!("{} {what}", work.key);
    status::failed(work, &reason).await?;
    Err(Pause::Watch)
}

/// Deletes the instance because somebody deletes its object in the spoke.
async fn delete(work: &Work<'_>, object: &RawObject) -> Result<(), Pause> {
    let request = DeleteRequest::of(&object.uid);
    let endpoint = work.hub_endpoint()?;
    match work
        .engine
        .hub
        .delete(&endpoint, &work.key.name, &request)
        .await
    {
        Ok(_) => {
            info!(cluster = %work.target.cluster, key = %work.key, "deleted an instance that is being deleted in its spoke");
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    Err(Pause::Watch)
}

async fn hold(work: &Work<'_>, served: &Served, object: &RawObject) -> Result<(), Pause> {
    let mut finalizers = object.finalizers.iter();
    if finalizers.any(|name| name == FINALIZER_IMPORTED) {
        return Ok(());
    }
    let live = object
        .value()
        .map_err(|error| Pause::Failure(error.to_string()))?;
    let endpoint = work
        .target
        .endpoint(served.graph.gvr(), &work.key.namespace);
    let held = hold_at(work.target, &endpoint, live).await?;
    if let Ok(held) = RawObject::from_value(&held) {
        work.target.mirrors.answered(work.key, Arc::new(held));
    }
    mirror::note_status(work.target, work.key);
    Ok(())
}

/// Puts the finalizer on an object, unless it has it. Returns it as it is then.
async fn hold_at(target: &Target, endpoint: &Endpoint, live: Value) -> Result<Value, Pause> {
    if api::meta::has_finalizer(&live, FINALIZER_IMPORTED) {
        return Ok(live);
    }
    let patch = finalizers::add(&live, FINALIZER_IMPORTED);
    let name = api::meta::name(&live);
    let held = target
        .dynamic
        .patch(endpoint, name, None, Patch::Json(&patch));
    Ok(target.timely(held).await?)
}

/// Takes over what differs in the spoke.
async fn take(work: &mut Work<'_>, served: &Served, mut live: Value) -> Result<(), Pause> {
    if difference(&work.instance, &live).is_none() {
        return Ok(());
    }
    let taken = api::meta::annotation(&work.instance, ANNOTATION_SPOKE_VERSION).unwrap_or_default();
    if is_newer(taken, api::meta::resource_version(&live)) {
        // A write at the hub's path was taken by the spoke, and the watch does not show it yet. The spoke may have been set back, too.
        let endpoint = work
            .target
            .endpoint(served.graph.gvr(), &work.key.namespace);
        live = work.target.dynamic.get(&endpoint, &work.key.name).await?;
        if api::meta::uid(&live) != work.memory.uid {
            return Err(Pause::Watch);
        }
    }
    let Some(patch) = difference(&work.instance, &live) else {
        return Ok(());
    };
    let endpoint = work.hub_endpoint()?;
    let patch = Patch::Json(&patch);
    let hub = &work.engine.hub;
    match hub.patch(&endpoint, &work.key.name, None, patch).await {
        Ok(instance) => work.take_answer(instance, &Value::Null),
        Err(error) if error.is_invalid() => {
            let reason = format!("the hub cannot take over what the spoke has: {error}");
            status::failed(work, &reason).await?;
            return Err(Pause::Failure(reason));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Returns the patch that makes the hub's copy what the spoke has; `None` if it is.
fn difference(instance: &Value, live: &Value) -> Option<Value> {
    // The instance as it is known: the spoke's state may be older than what a write at the hub's path has stored meanwhile.
    let version = api::meta::resource_version(instance);
    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": api::meta::uid(live)}),
        json!({"op": "add", "path": "/metadata/resourceVersion", "value": version}),
    ];
    let least = patch.len();
    if instance["spec"] != live["spec"] {
        patch.push(if live["spec"].is_null() {
            json!({"op": "remove", "path": "/spec"})
        } else {
            json!({"op": "add", "path": "/spec", "value": live["spec"]})
        });
    }
    let labels = keys_of(instance, live, "labels");
    if !is_same(&instance["metadata"]["labels"], &labels) {
        patch.push(json!({"op": "add", "path": "/metadata/labels", "value": labels}));
    }
    let mut annotations = keys_of(instance, live, "annotations");
    if patch.len() > least || !is_same(&instance["metadata"]["annotations"], &annotations) {
        let version = json!(api::meta::resource_version(live));
        annotations.insert(ANNOTATION_SPOKE_VERSION.to_owned(), version);
        patch.push(json!({"op": "add", "path": "/metadata/annotations", "value": annotations}));
    }
    (patch.len() > least).then_some(Value::Array(patch))
}

/// Returns the hub's own keys, and the user's as the spoke has them.
fn keys_of(instance: &Value, live: &Value, part: &str) -> Map<String, Value> {
    let entries = |object: &Value, of_user: bool| {
        let entries = object["metadata"][part].as_object().into_iter().flatten();
        let entries = entries.filter(|(key, _)| origin::is_shared(key) == of_user);
        let entries = entries.map(|(key, value)| (key.clone(), value.clone()));
        entries.collect::<Map<String, Value>>()
    };
    let mut keys = entries(instance, false);
    keys.extend(entries(live, true));
    keys
}

fn is_same(known: &Value, keys: &Map<String, Value>) -> bool {
    known
        .as_object()
        .map_or(keys.is_empty(), |known| known == keys)
}

/// Makes the hub's copy of an object: what users wrote, under its uid.
fn copy_of(live: &Value) -> Value {
    let none = json!({});
    let mut annotations = keys_of(&none, live, "annotations");
    annotations.insert(ANNOTATION_ORIGIN.to_owned(), json!(ORIGIN_SPOKE));
    let version = json!(api::meta::resource_version(live));
    annotations.insert(ANNOTATION_SPOKE_VERSION.to_owned(), version);
    let mut object = json!({
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {
            "name": live["metadata"]["name"],
            "uid": live["metadata"]["uid"],
            "labels": keys_of(&none, live, "labels"),
            "annotations": annotations,
            // From the first moment: a deletion of the copy is one of the object, which would be taken up again otherwise.
            "finalizers": [api::kro::keys::FINALIZER],
        },
    });
    if !live["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = live["metadata"]["namespace"].clone();
    }
    if !live["spec"].is_null() {
        object["spec"] = live["spec"].clone();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Value {
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": {
            "name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7", "generation": 2,
            "labels": {"team": "x", "app.kubernetes.io/instance": "theirs"},
            "annotations": {"note": "n", "argocd.argoproj.io/tracking-id": "theirs"},
            "finalizers": ["theirs"], "ownerReferences": [{"name": "theirs"}], "managedFields": [{}],
        }, "spec": {"size": 3}, "status": {"state": "ACTIVE"}})
    }

    #[test]
    fn a_copy_has_what_users_wrote_and_the_uid() {
        let want = json!({"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": {
            "name": "a", "namespace": "default", "uid": "u", "labels": {"team": "x"}, "finalizers": ["kro.run/finalizer"],
            "annotations": {"note": "n", ANNOTATION_ORIGIN: ORIGIN_SPOKE, ANNOTATION_SPOKE_VERSION: "7"},
        }, "spec": {"size": 3}});
        assert_eq!(copy_of(&live()), want);
    }

    #[test]
    fn the_hubs_copy_follows_what_users_change_in_the_spoke() {
        let mut instance = copy_of(&live());
        instance["metadata"]["labels"]["kro.run/owned"] = json!("true");
        instance["status"] = json!({"state": "IN_PROGRESS"});
        // (what, where the object in the spoke differs, what stands there, the fields that the patch writes)
        for (name, path, value, want) in [
            ("nothing", "/kind", json!("App"), vec![]),
            ("its status", "/status/state", json!("ERROR"), vec![]),
            ("its finalizers", "/metadata/finalizers", json!([]), vec![]),
            (
                "another tool's label",
                "/metadata/labels/app.kubernetes.io~1instance",
                json!("x"),
                vec![],
            ),
            (
                "a label",
                "/metadata/labels/team",
                json!("y"),
                vec!["/metadata/labels", "/metadata/annotations"],
            ),
            (
                "an annotation",
                "/metadata/annotations/note",
                json!("m"),
                vec!["/metadata/annotations"],
            ),
            (
                "the spec",
                "/spec/size",
                json!(4),
                vec!["/spec", "/metadata/annotations"],
            ),
        ] {
            let mut live = live();
            *live.pointer_mut(path).expect("it has it") = value;
            let patch = difference(&instance, &live).unwrap_or_default();
            let written = patch
                .as_array()
                .into_iter()
                .flatten()
                .filter(|it| it["op"] == "add" && it["path"] != "/metadata/resourceVersion");
            let paths: Vec<&str> = written.filter_map(|it| it["path"].as_str()).collect();
            assert_eq!(paths, want, "{name}");
            if let Some(labels) = patch
                .as_array()
                .into_iter()
                .flatten()
                .find(|it| it["path"] == "/metadata/labels")
            {
                assert_eq!(
                    labels["value"]["kro.run/owned"], "true",
                    "{name}: the hub's own stays"
                );
            }
        }
    }
}
