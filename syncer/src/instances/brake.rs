//! The brake: most of an instance's children at once go only once somebody has said so.
//!
//! A mistake in a definition, or a list that comes out empty, would take them away. Nothing is lost by waiting: what is wanted is
//! applied meanwhile, and what is not wanted stays.
//!
//! # Invariants
//!
//! What was confirmed is one outcome: the children that stay. Where the plan comes to another one, it is asked for again. The
//! deletion of the instance itself is an intent, and is not held.
//!
//! Plans that follow each other before the ledger is exact again count together: what the first of them deleted is still named by
//! the ledger, so no series of small plans takes away what one plan may not.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use api::wheelhouse::keys::ANNOTATION_CONFIRM_DELETIONS;
use graph::{ObjectRef, Plan};
use serde_json::Value;

use super::work::{Pause, Work};

/// Lets a plan delete, or holds it until somebody confirms it.
///
/// # Errors
///
/// [`Pause::Unconfirmed`] while it waits.
pub(crate) fn require<'o>(
    work: &Work<'_>,
    plan: &Plan,
    going: impl Iterator<Item = &'o Value>,
) -> Result<(), Pause> {
    let going: Vec<_> = going
        .filter(|object| !api::meta::is_terminating(object))
        .map(ObjectRef::of)
        .collect();
    if going.is_empty() {
        return Ok(());
    }
    let going = unwanted_count(work, plan, going);
    let all = work
        .memory
        .settled_count
        .unwrap_or(going + plan.applies.len());
    if !work.engine.brake.holds(going, all) {
        return Ok(());
    }
    let outcome = outcome(work, plan);
    let said = api::meta::annotation(&work.instance, ANNOTATION_CONFIRM_DELETIONS);
    if said == Some(outcome.as_str()) {
        return Ok(());
    }
    Err(Pause::Unconfirmed(format!(
        "{going} of {all} children would be deleted: to confirm it, annotate the instance with \
         {ANNOTATION_CONFIRM_DELETIONS}={outcome}"
    )))
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
    let mut hasher = DefaultHasher::new();
    let generation = api::meta::generation(&work.instance);
    (&work.memory.uid, generation).hash(&mut hasher);
    let mut left: Vec<String> = plan
        .applies
        .iter()
        .map(|apply| format!("{:?}", apply.reference))
        .collect();
    left.sort();
    left.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
