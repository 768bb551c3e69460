//! Children that stay though nothing wants them any more, because their deletion policy says so.
//!
//! # Invariants
//!
//! Nothing is deleted whose policy is none of the three, and what is deleted has the version that was judged. What stays is read
//! anew first, and the ledger does not name it afterwards: no later process deletes it, whatever becomes of its annotation, but for a hub
//! that was restored from a backup, to which what bears its mark is its own.

use api::meta;
use client::{Patch, reflector::RawObject};
use graph::{ObjectRef, deletion::ChildPolicy};
use serde_json::Value;
use tracing::info;

use super::{
    events, ledger,
    owned::Own,
    work::{Pause, Work},
};
use crate::{
    restoring,
    state::{actors::Actor, children::WatchedKind, mirrors::Mirror},
};

/// Returns what becomes of a child that nothing wants any more. What is being deleted already is only waited for.
///
/// # Errors
///
/// [`Pause::Failure`] where the annotation has another value than one of the three.
pub(super) fn policy_of(work: &Work<'_>, object: &Value) -> Result<ChildPolicy, Pause> {
    if !work.chosen.settings.compile.deletion_policy || meta::is_terminating(object) {
        return Ok(ChildPolicy::Delete);
    }
    ChildPolicy::of(object).map_err(|why| Pause::Failure(format!("{}: {why}", named(object))))
}

/// Lets go what is to be retained, and returns the rest in `own`: what is to be deleted, or orphaned.
///
/// An orphan is none of them, because it is nobody's afterwards: the brake counts it with what is deleted.
pub(super) async fn retain(work: &mut Work<'_>, actor: &Actor, own: &mut Own) -> Result<(), Pause> {
    let (mut retained, mut left) = (Vec::new(), Vec::with_capacity(own.objects.len()));
    for object in own.objects.drain(..) {
        match policy_of(work, &object)? {
            ChildPolicy::Retain => retained.push(object),
            ChildPolicy::Delete | ChildPolicy::Orphan => left.push(object),
        }
    }
    own.objects = left;
    let mut released = Vec::with_capacity(retained.len());
    for object in &retained {
        let reference = ObjectRef::of(object);
        let kind = own.kind(&reference)?;
        part(work, actor, (kind, object), ChildPolicy::Retain).await?;
        released.push(reference);
    }
    forget(work, &released).await
}

/// Makes a child nobody's.
pub(super) async fn orphan(
    work: &mut Work<'_>,
    actor: &Actor,
    (kind, object): (&WatchedKind, &Value),
) -> Result<(), Pause> {
    part(work, actor, (kind, object), ChildPolicy::Orphan).await?;
    let reference = ObjectRef::of(object);
    forget(work, std::slice::from_ref(&reference)).await?;
    work.memory.gone.insert(reference); // it counts for the brake, like what is deleted, until the ledger is exact
    Ok(())
}

/// Parts a child from its instance in its cluster, as it is there now.
async fn part(
    work: &Work<'_>,
    actor: &Actor,
    (kind, object): (&WatchedKind, &Value),
    policy: ChildPolicy,
) -> Result<(), Pause> {
    let target = work.target;
    let endpoint = target.endpoint_at(kind.place, &kind.gvr, meta::namespace(object));
    let (dynamic, name) = (actor.dynamic(kind.place)?, meta::name(object));
    let live = match dynamic.get(&endpoint, name).await {
        Ok(live) => live,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if meta::uid(&live) != meta::uid(object) {
        return Ok(()); // another object has its name
    }
    if policy_of(work, &live)? != policy {
        let what = named(object);
        return Err(Pause::Failure(format!(
            "{what}: its deletion policy has changed"
        )));
    }
    let mirror = match target.mirrors.of(work.key) {
        Mirror::Present(mirror) => mirror.uid.clone(),
        _ => String::new(),
    };
    let owners = [&*work.memory.uid, &*work.memory.mirror_uid, &*mirror];
    if let Some(patch) = policy.parting_patch(&live, &owners) {
        restoring::require(work.engine, target, work.key)?;
        let patched = dynamic.patch(&endpoint, name, None, Patch::Merge(&patch));
        match target.timely(patched).await {
            Ok(live) => {
                if let Ok(object) = RawObject::from_value(&live) {
                    target.children.answered(kind, object.into());
                }
            }
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    if work.memory.claims.contains_key(&ObjectRef::of(object)) {
        let (cluster, key, child) = (&target.cluster, work.key, named(object));
        info!(%cluster, %key, child, policy = policy.as_str(), "a child stays in its cluster");
        events::tell_kept(work, &child, policy);
    }
    Ok(())
}

/// Forgets what stays: first in the ledger, so that what is remembered never names less.
async fn forget(work: &mut Work<'_>, kept: &[ObjectRef]) -> Result<(), Pause> {
    ledger::release(work, kept).await?;
    for reference in kept {
        work.memory.claims.remove(reference);
        work.memory.applied.remove(reference);
        work.kept.insert(reference.clone());
        work.own.look_again(); // the plan was made with it, and so the status
    }
    Ok(())
}

/// Names a child in a message.
fn named(object: &Value) -> String {
    let (kind, name) = (meta::kind(object), meta::name(object));
    match meta::namespace(object) {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}
