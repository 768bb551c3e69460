//! What is an instance's own in its target, and not wanted any more.
//!
//! # Invariants
//!
//! Only what the ledger names is an instance's own, whatever labels say; nothing that is wanted is returned. All reads use the identity
//! that the definition specifies.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use api::wheelhouse::origin;
use client::reflector::RawObject;
use graph::ObjectRef;
use serde_json::Value;

use super::work::{Pause, Work};
use crate::state::{
    actors::{Actor, Place},
    children::WatchedKind,
    claims::{self, Claims, Mark},
    restored::DeletionPolicy,
};

/// What may be deleted for an instance.
#[derive(Debug)]
pub(crate) struct Own {
    /// The objects.
    pub(crate) objects: Vec<Arc<Value>>,
    /// Their kinds, and where they were made.
    pub(super) kinds: HashMap<ObjectRef, WatchedKind>,
    /// Those of them that have lost the labels by which watches see them.
    pub(super) unseen: HashSet<ObjectRef>,
}

// === impl Own ===

impl Own {
    /// Returns the endpoint of an object.
    pub(crate) fn kind(&self, reference: &ObjectRef) -> Result<&WatchedKind, Pause> {
        let kind = self.kinds.get(reference);
        kind.ok_or_else(|| Pause::Failure(format!("no endpoint is known for {reference:?}")))
    }
}

/// Finds what may be deleted for an instance and is not wanted: of what bears its labels, which alone are no proof, and of
/// what the ledger names whatever it bears, because somebody may have altered it.
///
/// A ledger that came out of a backup is older than the target. Until the restore is ended, and nothing is deleted before an
/// administrator has confirmed it, what this hub applied for the instance counts as named.
///
/// # Errors
///
/// [`Pause::Failure`] where something that the ledger names cannot be read.
pub(crate) async fn own(
    work: &mut Work<'_>,
    actor: &Actor,
    wanted: &HashSet<&ObjectRef>,
) -> Result<Own, Pause> {
    let mark = Mark::of(&work.instance, &work.engine.hub_id);
    let is_restored = work.engine.restored.deletion_policy(work.target) != DeletionPolicy::Free;
    let mut seen = HashSet::new();
    let mut own = Own {
        objects: Vec::new(),
        kinds: HashMap::new(),
        unseen: HashSet::new(),
    };
    let children = work.target.children.of(work.key).into_iter();
    for (reference, child) in children {
        if wanted.contains(&reference) || work.kept.contains(&reference) {
            continue;
        }
        if claims::may_delete(&work.memory.claims, &mark, &reference, &child.object)
            || is_restored && mark.is_on(&child.object)
        {
            own.objects.extend(child.object.value().ok().map(Arc::new));
            own.kinds
                .insert(reference.clone(), child.kind.as_ref().clone());
            seen.insert(reference);
        }
    }
    let named = work.memory.claims.keys();
    let unseen = named.filter(|it| !seen.contains(it) && !wanted.contains(it));
    for reference in unseen.cloned().collect::<Vec<_>>() {
        if let Some((kind, live)) = unseen_of(work, actor, &reference).await? {
            own.objects.extend(live.value().ok().map(Arc::new));
            own.kinds.insert(reference.clone(), kind);
            own.unseen.insert(reference);
        } else {
            // It is gone, or what has its name now is somebody else's.
            work.memory.applied.remove(&reference);
            let was_made = work.memory.claims.remove(&reference);
            if was_made.is_some_and(|uid| !uid.is_empty()) {
                work.memory.gone.insert(reference);
            }
        }
    }
    Ok(own)
}

/// Looks for what the ledger names and no watch shows, in all places where it may have been made.
pub(super) async fn unseen_of(
    work: &Work<'_>,
    actor: &Actor,
    reference: &ObjectRef,
) -> Result<Option<(WatchedKind, RawObject)>, Pause> {
    let kinds = work.target.watched_of_ledger(work.memory.ledger.as_ref());
    let mut same = kinds
        .into_iter()
        .filter(|kind| kind.gvk.group == reference.group && kind.gvk.kind == reference.kind);
    // Two versions of a kind are the same objects.
    let first = same.next();
    let other = same.find(|kind| first.as_ref().is_some_and(|it| it.place != kind.place));
    for kind in first.into_iter().chain(other) {
        if let Some(live) = read(work, actor, &kind, reference).await?
            && is_own_unseen(work, &kind, reference, &live)
        {
            return Ok(Some((kind, live)));
        }
    }
    Ok(None)
}

/// Returns whether an object that no watch shows is the instance's. The hub's copy of what was made in the spoke is none: it has the
/// same uid, and goes after what it is a copy of. Nor is what the hub has parted from the instance, though the ledger names it still
/// because an answer was lost or the hub was killed: whoever has seen it free may have taken its policy off.
fn is_own_unseen(
    work: &Work<'_>,
    kind: &WatchedKind,
    reference: &ObjectRef,
    live: &RawObject,
) -> bool {
    let is_copy = kind.place == Place::Hub && origin::is_marked_of_spoke(&live.annotations);
    let has_policies = work.chosen.settings.compile.deletion_policy;
    let is_marked = live.is_applied_by(api::kro::keys::MANAGER_APPLYSET)
        || live
            .annotations
            .contains_key(api::kro::keys::ANNOTATION_APPLY_ORDER);
    let is_parted = has_policies && !is_marked;
    let mark = Mark::of(&work.instance, &work.engine.hub_id);
    !is_copy && !is_parted && mark.may_delete_unseen(&work.memory.claims, reference, live)
}

/// Reads an object that the ledger names and no watch shows.
async fn read(
    work: &Work<'_>,
    actor: &Actor,
    kind: &WatchedKind,
    reference: &ObjectRef,
) -> Result<Option<RawObject>, Pause> {
    let endpoint = work
        .target
        .endpoint_at(kind.place, &kind.gvr, &reference.namespace);
    let dynamic = match actor.dynamic(kind.place) {
        Ok(dynamic) => dynamic,
        Err(unknown) => return is_absent(work, kind, reference, unknown).await,
    };
    match dynamic.get(&endpoint, &reference.name).await {
        Ok(live) => RawObject::from_value(&live)
            .map(Some)
            .map_err(|error| Pause::Failure(error.to_string())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) if error.status().is_some_and(|status| status.code == 403) => {
            is_absent(work, kind, reference, error).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Finds out whether an object is there that an author may not read, so that what was never made holds nothing up. It is asked for
/// as the hub, and nothing but an object of this hub makes a difference: a refusal is no absence.
async fn is_absent(
    work: &Work<'_>,
    kind: &WatchedKind,
    reference: &ObjectRef,
    refusal: client::Error,
) -> Result<Option<RawObject>, Pause> {
    let dynamic = work.target.dynamic_at(kind.place);
    let endpoint = work
        .target
        .endpoint_at(kind.place, &kind.gvr, &reference.namespace);
    match dynamic.get(&endpoint, &reference.name).await {
        Ok(live) => {
            let live = RawObject::from_value(&live);
            let live = live.map_err(|error| Pause::Failure(error.to_string()))?;
            if is_own_unseen(work, kind, reference, &live) {
                Err(refusal.into())
            } else {
                Ok(None)
            }
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Names what this hub applied for an instance, where there is no ledger to say so.
pub(crate) fn marked(work: &Work<'_>) -> Claims {
    let mark = Mark::of(&work.instance, &work.engine.hub_id);
    let children = work.target.children.of(work.key).into_iter();
    children
        .filter(|(_, child)| mark.is_on(&child.object))
        .map(|(reference, child)| (reference, child.object.uid.clone()))
        .collect()
}
