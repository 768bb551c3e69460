//! Children: written by server-side apply, all of a plan's round at once, and pruned in waves.
//!
//! # Invariants
//!
//! An object is written where it was made. A new one of a kind of which the hub has the instances is made at the hub's path,
//! like any instance of the hub, whatever was asked for or known before; only by an account that the spoke alone knows it is made
//! in the spoke, and imported from there.
//!
//! An apply changes only the object that the plan has seen and found to be the instance's, by its uid: if a create finds an existing object, it is read and the plan runs again. All calls, reads included, use the identity that the definition specifies. Only what the ledger names is deleted.
//!
//! Source: kro `pkg/applyset`; KEP-3659.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use api::{GroupKind, Status, wheelhouse::origin};
use client::{Answer, DeleteRequest, Deleted, Force, Patch, reflector::RawObject};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use graph::{
    Applied, Apply, Change, Claim, NodeReason, ObjectRef, Observed, Plan, deletion::ChildPolicy,
};
use serde_json::{Value, json};
use tracing::{Instrument as _, debug, debug_span, warn};

use super::{
    brake, kept,
    owned::{self, Own},
    work::{Pause, Work},
};
use crate::{
    restoring,
    state::{
        actors::{Actor, Place},
        children::WatchedKind,
        claims,
        kinds::Progress,
        mirrors::{self, Maker},
        own_states::{ObjectState, Of},
        served::Served,
    },
};

/// Writes of one instance that are under way at the same time.
const WRITE_COUNT: usize = 8;

/// What came of a write that did not fail.
#[derive(Debug)]
pub(crate) enum Written {
    /// It is done; where, and the object as it is now.
    Applied(Place, Value),
    /// There is an object of another writer where one was to be made; nothing was written.
    Found(Value),
}

/// A write, with what came of it.
pub(crate) type Answered<'p> = (&'p Apply, Result<Written, client::Error>);

/// Writes what a plan wants changed. The answers go to [`absorb`].
pub(crate) async fn write<'p>(work: &Work<'_>, actor: &Actor, plan: &'p Plan) -> Vec<Answered<'p>> {
    let writes: Vec<BoxFuture<'_, _>> = plan
        .changes()
        .map(|apply| {
            let span = debug_span!(
                "apply",
                spoke = %work.target.cluster,
                gvk = %apply.gvk,
                namespace = namespace(apply),
                name = apply.reference.name,
            );
            let write = async move { (apply, write_one(work, actor, apply).await) };
            write.instrument(span).boxed()
        })
        .collect();
    stream::iter(writes)
        .buffer_unordered(WRITE_COUNT)
        .collect()
        .await
}

async fn write_one(
    work: &Work<'_>,
    actor: &Actor,
    apply: &Apply,
) -> Result<Written, client::Error> {
    let target = work.target;
    let place = place_of(work, actor, apply).await?;
    let endpoint = target.endpoint_at(place, &apply.gvr, namespace(apply));
    let name = &apply.reference.name;
    let (mut object, is_new) = match &apply.claim {
        Claim::Own(uid) | Claim::Taken(uid) => (claims::update_only(&apply.object, uid), false),
        // A plan does not change what is foreign.
        Claim::Absent | Claim::Foreign => (claims::create_only(&apply.object), true),
    };
    if place == Place::Hub {
        name_owner_at_hub(work, &mut object);
    }
    let patch = Patch::Apply {
        manager: api::kro::keys::MANAGER_APPLYSET,
        force: if is_new { Force::No } else { Force::Yes },
        object: &object,
        answer: Answer::Object,
    };
    let dynamic = actor.dynamic(place)?;
    let patched = dynamic.patch(&endpoint, name, None, patch);
    match target.timely(patched).await {
        Err(error) if is_new && (error.is_conflict() || error.is_already_exists()) => {
            let found = dynamic.get(&endpoint, name).await?;
            let found = as_made(work, actor, apply, place, found).await?;
            found.map(Written::Found).ok_or(error)
        }
        answer => answer.map(|live| Written::Applied(place, live)),
    }
}

/// Returns where an object is written.
///
/// # Errors
/// While it is not known yet whether the hub will have the instances of its kind.
async fn place_of(work: &Work<'_>, actor: &Actor, apply: &Apply) -> Result<Place, client::Error> {
    let (target, gvr) = (work.target, &apply.gvr);
    match &apply.claim {
        Claim::Own(uid) | Claim::Taken(uid) if target.keeps(gvr) => {
            match target.children.place_of(&apply.reference, uid) {
                Some(place) => Ok(place),
                None => place_of_unseen(work, apply, uid).await,
            }
        }
        Claim::Own(_) | Claim::Taken(_) => Ok(target.place(gvr)),
        Claim::Absent | Claim::Foreign if target.keeps(gvr) => Ok(actor.home()),
        Claim::Absent | Claim::Foreign => place_of_new(work, apply),
    }
}

/// Returns where an object was made that has lost its labels. The hub has a copy of what was made in the spoke, under the same uid.
async fn place_of_unseen(
    work: &Work<'_>,
    apply: &Apply,
    uid: &str,
) -> Result<Place, client::Error> {
    let target = work.target;
    let endpoint = target.endpoint_at(Place::Hub, &apply.gvr, namespace(apply));
    let hub = target.dynamic_at(Place::Hub);
    match hub.get(&endpoint, &apply.reference.name).await {
        Ok(live) if api::meta::uid(&live) == uid && !origin::is_of_spoke(&live) => Ok(Place::Hub),
        Ok(_) => Ok(Place::Cluster),
        Err(error) if error.is_not_found() => Ok(Place::Cluster),
        Err(error) => Err(error),
    }
}

/// Returns where an object is made whose kind the hub does not have the instances of; not before it is known that it will not. A
/// definition that is not for this spoke says nothing of the kind here.
fn place_of_new(work: &Work<'_>, apply: &Apply) -> Result<Place, client::Error> {
    let (target, gvr) = (work.target, &apply.gvr);
    let kind = GroupKind {
        group: apply.gvk.group.clone(),
        kind: apply.gvk.kind.clone(),
    };
    let served = work.engine.definitions.serving(target, &kind);
    let is_awaited = served.is_some_and(|served| {
        let progress = target.kinds.of(&served);
        target.hub.is_some() && !matches!(progress, Some(Progress::Refused(_)))
    });
    if !is_awaited {
        return Ok(target.place(gvr));
    }
    // Who looks after the kinds of the target names its instances when it is.
    Err(refused(apply, "the hub does not serve its kind here yet"))
}

/// Returns an object that stands where another was to be made, as it is where it was made; nothing for the mirror of an instance that
/// goes.
async fn as_made(
    work: &Work<'_>,
    actor: &Actor,
    apply: &Apply,
    place: Place,
    found: Value,
) -> Result<Option<Value>, client::Error> {
    let target = work.target;
    if !target.keeps(&apply.gvr) {
        return Ok(Some(found));
    }
    if place == Place::Cluster {
        return match made_by(work, &found) {
            Maker::Spoke => Ok(Some(found)),
            Maker::ThisHub => mirrored(work, apply).await,
            Maker::AnotherHub => Err(refused(
                apply,
                "it is the mirror of an instance of another hub",
            )),
        };
    }
    if !origin::is_of_spoke(&found) {
        return Ok(Some(found));
    }
    let endpoint = target.endpoint_at(Place::Cluster, &apply.gvr, namespace(apply));
    let dynamic = actor.dynamic(Place::Cluster)?;
    match dynamic.get(&endpoint, &apply.reference.name).await {
        Ok(there) if api::meta::uid(&there) == api::meta::uid(&found) => Ok(Some(there)),
        Ok(_) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(Some(found)),
        Err(error) => Err(error),
    }
}

/// Returns who has made an object of the spoke.
fn made_by(work: &Work<'_>, found: &Value) -> Maker {
    RawObject::from_value(found).map_or(Maker::Spoke, |it| mirrors::maker(&it, &work.engine.hub_id))
}

/// Returns the instance at the hub's path that an object in the spoke mirrors; nothing where it goes. It is read as the hub: who has
/// read the mirror learns no more than that the instance stays.
async fn mirrored(work: &Work<'_>, apply: &Apply) -> Result<Option<Value>, client::Error> {
    let target = work.target;
    let endpoint = target.endpoint_at(Place::Hub, &apply.gvr, namespace(apply));
    let hub = target.dynamic_at(Place::Hub);
    match hub.get(&endpoint, &apply.reference.name).await {
        Ok(instance) => Ok(Some(instance).filter(|it| !api::meta::is_terminating(it))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Words why an object is not made.
fn refused(apply: &Apply, detail: &str) -> client::Error {
    let resource = apply.gvr.group_resource();
    let status = Status::conflict(&resource, &apply.reference.name, detail);
    client::Error::Status(Box::new(status))
}

/// Names the instance as the owner by the uid that the hub knows it by: in the spoke its mirror is the owner, and the hub's garbage
/// collector would take that for an owner that is gone.
fn name_owner_at_hub(work: &Work<'_>, object: &mut Value) {
    let owners = object["metadata"]["ownerReferences"].as_array_mut();
    for owner in owners.into_iter().flatten() {
        if !work.memory.mirror_uid.is_empty() && owner["uid"] == work.memory.mirror_uid.as_str() {
            owner["uid"] = json!(work.memory.uid);
        }
    }
}

/// Processes the responses to writes. Returns whether all succeeded; failures are in `observed`, for
/// the status.
pub(crate) fn absorb(
    work: &mut Work<'_>,
    answers: Vec<Answered<'_>>,
    observed: &mut Observed,
) -> bool {
    let target = work.target;
    let mut succeeded = true;
    for (apply, answer) in answers {
        match answer {
            Ok(Written::Found(live)) => {
                work.met_foreign = true;
                observed.child(Arc::new(live));
            }
            Ok(Written::Applied(place, live)) => {
                let applied = Applied::of(&apply.object, &live);
                work.memory.applied.insert(apply.reference.clone(), applied);
                observed.applied(&apply.reference, applied);
                let uid = api::meta::uid(&live).to_owned();
                observed.claimed(&apply.reference, &uid);
                work.memory.claims.insert(apply.reference.clone(), uid);
                if let Ok(object) = RawObject::from_value(&live) {
                    work.own
                        .applied(ObjectState::new(Of::Child(place), &object));
                    let kind = WatchedKind {
                        gvk: apply.gvk.clone(),
                        gvr: apply.gvr.clone(),
                        place,
                    };
                    let concerned = target.children.answered(&kind, Arc::new(object));
                    for instance in concerned.into_iter().filter(|it| it != work.key) {
                        target.queue.add(instance); // it has lost the child to this one
                    }
                }
                observed.child(Arc::new(live));
            }
            Err(error) => {
                succeeded = false;
                if error.unreachable() {
                    target.probe.notify_one();
                }
                let verb = if apply.change == Change::Create {
                    "create"
                } else {
                    "update"
                };
                let (cluster, key, child) = (&target.cluster, work.key, &apply.id);
                if error.is_routine() {
                    debug!(%cluster, %key, %child, verb, error = %error, "cannot apply a child yet");
                } else {
                    warn!(%cluster, %key, %child, verb, error = %error, "cannot apply a child");
                }
                observed.failed(&apply.id, reason_of(&error), error.to_string());
            }
        }
    }
    succeeded
}

/// Why a write failed, in a word.
fn reason_of(error: &client::Error) -> NodeReason {
    match error.status().map_or(0, |status| status.code) {
        403 => NodeReason::Denied,
        409 => NodeReason::Conflict,
        400 | 422 => NodeReason::Invalid,
        _ => NodeReason::ApplyFailed,
    }
}

/// Returns the nodes of what the instance has and a plan does not want.
pub(crate) fn unwanted_nodes(work: &Work<'_>, plan: &Plan) -> BTreeSet<String> {
    let wanted: HashSet<&ObjectRef> = plan.applies.iter().map(|apply| &apply.reference).collect();
    let children = work.target.children.of(work.key).into_iter();
    children
        .filter(|(reference, _)| !wanted.contains(reference))
        .filter_map(|(_, child)| {
            let node = child.object.labels.get(api::kro::keys::LABEL_NODE_ID);
            node.cloned()
        })
        .collect()
}

/// Deletes what the plan says is no longer wanted, wave by wave.
///
/// # Errors
///
/// [`Pause::Watch`] while a wave is going, [`Pause::Failure`] where a deletion was refused.
pub(crate) async fn prune(
    work: &mut Work<'_>,
    (served, actor): (&Served, &Actor),
    plan: &Plan,
) -> Result<(), Pause> {
    if !plan.prune_allowed() {
        return Ok(());
    }
    let wanted = plan.applies.iter().map(|apply| &apply.reference);
    let mut own = owned::own(work, actor, &wanted.collect()).await?;
    kept::retain(work, actor, &mut own).await?;
    let waves = plan.prune(&own.objects);
    let going = waves.iter().flat_map(|wave| &wave.objects);
    brake::require(work, served, plan, going.map(AsRef::as_ref))?;
    for wave in waves {
        delete_wave(work, actor, &own, &wave.objects).await?;
    }
    Ok(())
}

/// Deletes what may go at once.
///
/// # Errors
///
/// [`Pause::Watch`] while some of it is going, [`Pause::Failure`] where a deletion was refused, or no watch will tell that
/// it is gone.
pub(crate) async fn delete_wave(
    work: &mut Work<'_>,
    actor: &Actor,
    own: &Own,
    wave: &[Arc<Value>],
) -> Result<(), Pause> {
    let mut pause = None;
    for object in wave {
        if delete(work, actor, own, object).await? {
            continue;
        }
        let reference = ObjectRef::of(object);
        if own.unseen.contains(&reference) {
            let what = format!("{} {} is being deleted", reference.kind, reference.name);
            pause = Some(Pause::Failure(what));
        } else {
            pause = pause.or(Some(Pause::Watch));
        }
    }
    pause.map_or(Ok(()), Err)
}

/// Deletes one object with its uid as precondition, or makes it nobody's. Returns whether that is done already.
///
/// # Errors
///
/// [`Pause::Watch`] after a restore that is not confirmed.
async fn delete(
    work: &mut Work<'_>,
    actor: &Actor,
    own: &Own,
    object: &Value,
) -> Result<bool, Pause> {
    let engine = work.engine;
    restoring::require(engine, work.target, work.key)?;
    let reference = ObjectRef::of(object);
    let kind = own.kind(&reference)?;
    if api::meta::deletion_timestamp(object).is_some() {
        return Ok(false);
    }
    if kept::policy_of(work, object)? == ChildPolicy::Orphan {
        kept::orphan(work, actor, (kind, object)).await?;
        return Ok(true);
    }
    let uid = api::meta::uid(object).to_owned();
    let endpoint = work
        .target
        .endpoint_at(kind.place, &kind.gvr, &reference.namespace);
    let has_policies = work.chosen.settings.compile.deletion_policy;
    let request = DeleteRequest {
        // Where its policy counts, what was judged is what is deleted.
        resource_version: has_policies.then(|| api::meta::resource_version(object).to_owned()),
        ..DeleteRequest::of(&uid)
    };
    let dynamic = actor.dynamic(kind.place)?;
    let deleted = dynamic.delete(&endpoint, &reference.name, &request);
    match work.target.timely(deleted).await {
        Ok(Deleted::Gone) => {}
        Err(error) if error.is_not_found() => {}
        Ok(Deleted::Terminating(_)) => return Ok(false),
        // Another object of that name: not ours to delete, and the watch will tell of it.
        Err(error) if error.is_conflict() => return Err(Pause::Failure(error.to_string())),
        Err(error) => return Err(error.into()),
    }
    work.own.look_again(); // the plan was made with it, and so the status
    work.target.children.gone(&reference, &uid);
    work.memory.applied.remove(&reference);
    work.memory.claims.remove(&reference);
    work.memory.gone.insert(reference); // the ledger names it until it is exact again
    Ok(true)
}

fn namespace(apply: &Apply) -> &str {
    if apply.namespaced {
        &apply.reference.namespace
    } else {
        ""
    }
}

#[cfg(test)]
mod tests;
