//! The brake: most children at once go only once somebody has said so, those of an instance and those of all instances of a kind.
//!
//! A mistake in a definition, or a list that comes out empty, would take them away. Nothing is lost by waiting: what is wanted is
//! applied meanwhile, and what is not wanted stays.
//!
//! # Invariants
//!
//! What was confirmed is one outcome: the children that stay, or a revision of the definition. Where the plan comes to another one,
//! it is asked for again. The deletion of the instance itself is an intent, and is not held.
//!
//! Plans that follow each other before the ledger is exact again count together: what the first of them deleted is still named by
//! the ledger, so no series of small plans takes away what one plan may not. Nor does a series of small instances:
//! [`crate::state::pruning`].

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher as _},
};

use api::wheelhouse::keys::ANNOTATION_CONFIRM_DELETIONS;
use graph::{ObjectRef, Plan};
use serde_json::Value;

use super::work::{Pause, Work};
use crate::state::{pruning::Planned, served::Served, target::Settled};

/// Lets a plan delete, or holds it until somebody confirms it.
///
/// # Errors
///
/// [`Pause::Unconfirmed`] while it waits.
pub(crate) fn require<'o>(
    work: &mut Work<'_>,
    served: &Served,
    plan: &Plan,
    going: impl Iterator<Item = &'o Value>,
) -> Result<(), Pause> {
    let going: Vec<_> = going
        .filter(|object| !api::meta::is_terminating(object))
        .map(ObjectRef::of)
        .collect();
    let goes_now = !going.is_empty();
    // A process that starts may find nothing left to go, and a ledger as the one before it left it.
    let is_exact = work.memory.ledger.as_ref().is_some_and(|known| known.exact);
    let going = if goes_now || !is_exact || !work.memory.gone.is_empty() {
        unwanted_count(work, plan, going)
    } else {
        0
    };
    let all = work
        .memory
        .settled_count
        .unwrap_or(going + plan.applies.len());
    let outcome = outcome(work, plan);
    let said = api::meta::annotation(&work.instance, ANNOTATION_CONFIRM_DELETIONS);
    let is_asked_for = said == Some(outcome.as_str()) || is_changed(work, served);
    let revision = digest(&revision_of(served));
    let is_confirmed = !is_asked_for && served.grant.confirms() == Some(revision.as_str());
    let planned = Planned {
        going: if is_asked_for { 0 } else { going },
        all,
        goes_now,
        was_held: work.memory.held_revision == Some(served.revision),
        is_confirmed,
    };
    let brake = work.engine.brake;
    let judged = work
        .target
        .pruning
        .judge(work.key, revision_of(served), planned, brake);
    work.memory.held_revision = judged.is_held.then_some(served.revision);
    for freed in judged.freed {
        work.target.queue.add(freed);
    }
    if !goes_now || is_confirmed || said == Some(outcome.as_str()) {
        return Ok(());
    }
    let what = format!("{going} of {all} children would be deleted");
    let confirm = format!("annotate the instance with {ANNOTATION_CONFIRM_DELETIONS}={outcome}");
    if brake.holds(going, all) {
        return Err(Pause::Unconfirmed(format!(
            "{what}: to confirm it, {confirm}"
        )));
    }
    if judged.is_held {
        let (percent, kind) = (brake.percent, &work.key.group_kind);
        let (name, cluster) = (&served.key.name, &served.key.cluster);
        return Err(Pause::Unconfirmed(format!(
            "{what}, and with those of other instances more than {percent} % of the children of {kind} in this cluster: to confirm \
             it, {confirm}; to confirm revision {} for all instances, annotate ResourceGraphDefinition {name:?} of logical \
             cluster {cluster:?} with {ANNOTATION_CONFIRM_DELETIONS}={revision}",
            served.revision
        )));
    }
    Ok(())
}

/// Notes that an instance has what its plan wants, and nothing else.
pub(crate) fn settled(work: &mut Work<'_>, served: &Served) {
    work.target.pruning.settled(work.key);
    work.memory.settled_at = Some(Settled {
        generation: api::meta::generation(&work.instance),
        definition: served.owner.uid.clone(),
        revision: served.revision,
    });
}

/// Whether what differs from the last plan is the instance itself, and nothing else that its user may not know of.
fn is_changed(work: &Work<'_>, served: &Served) -> bool {
    let generation = api::meta::generation(&work.instance);
    work.memory.settled_at.as_ref().is_some_and(|settled| {
        let was = (settled.definition.as_str(), settled.revision);
        was == revision_of(served) && settled.generation != generation
    })
}

const fn revision_of(served: &Served) -> (&str, i64) {
    (served.owner.uid.as_str(), served.revision)
}

/// Counts the children that are not wanted: those that are to go now, and those that earlier plans deleted since the ledger was
/// exact, whether they are gone or still going.
fn unwanted_count(work: &Work<'_>, plan: &Plan, going: Vec<ObjectRef>) -> usize {
    let wanted: HashSet<&ObjectRef> = plan.applies.iter().map(|apply| &apply.reference).collect();
    let known = work.memory.claims.iter();
    let known = known
        .filter(|(_, uid)| !uid.is_empty()) // an intent without one may never have been there
        .map(|(reference, _)| reference);
    let mut unwanted: HashSet<ObjectRef> = known
        .chain(&work.memory.gone)
        .filter(|reference| !wanted.contains(reference))
        .cloned()
        .collect();
    unwanted.extend(going);
    unwanted.len()
}

/// Names what is left of an instance once a plan is carried out.
fn outcome(work: &Work<'_>, plan: &Plan) -> String {
    let generation = api::meta::generation(&work.instance);
    let mut left: Vec<String> = plan
        .applies
        .iter()
        .map(|apply| format!("{:?}", apply.reference))
        .collect();
    left.sort();
    digest(&(&work.memory.uid, generation, left))
}

fn digest(what: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
