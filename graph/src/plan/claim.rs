//! Whose an object is that stands where an instance wants one.
//!
//! kro takes over whatever carries no ApplySet's mark. Here only what was made for the instance is its own: what the ledger
//! names by its uid, and what carries the instance's own mark (a cluster that was kro's, and an apply whose answer was
//! lost). All else is left alone, unless the definition says that it may be taken over; a name that comes from
//! an instance would otherwise reach whatever the writer of children reaches.
//!
//! **Invariant:** a foreign object is neither written, nor deleted, nor shown to any expression.

use api::kro::keys;
use api::{meta, wheelhouse};
use dialect::quote;
use serde_json::Value;

use super::node::Planner;
use super::outcome::membership_conflict;
use super::{Claim, ObjectRef};
use crate::graph::Node;

impl Planner<'_> {
    /// Returns the owner of a live object; `desired` is what is wanted in its place, decorated.
    pub(super) fn claim(
        &self,
        node: &Node,
        reference: &ObjectRef,
        desired: &Value,
        live: Option<&Value>,
    ) -> (Claim, Option<String>) {
        let Some(live) = live else {
            return (Claim::Absent, None);
        };
        if let Some(conflict) = membership_conflict(desired, node, live) {
            return (Claim::Foreign, Some(conflict));
        }
        let observed = self.input.observed;
        let uid = meta::uid(live);
        let mark = |key| meta::label(live, key).filter(|mark| !mark.is_empty());
        let own_hub = meta::label(desired, wheelhouse::keys::HUB);
        let other_hub = mark(wheelhouse::keys::HUB).filter(|hub| Some(*hub) != own_hub);
        let is_marked = mark(keys::LABEL_APPLYSET_PART_OF).is_some() && other_hub.is_none();
        if is_marked || observed.is_claimed(reference, uid) {
            return (Claim::Own(uid.to_owned()), None);
        }
        if observed.takes_over() {
            return (Claim::Taken(uid.to_owned()), None);
        }
        (Claim::Foreign, Some(refusal(node, reference, other_hub)))
    }
}

fn refusal(node: &Node, reference: &ObjectRef, other_hub: Option<&str>) -> String {
    let (name, gvk) = (reference.short(), &node.gvk);
    let what = format!("{name} ({}/{}, Kind={})", gvk.group, gvk.version, gvk.kind);
    let whose = match other_hub {
        Some(hub) => format!("is written by another hub, {}", quote(hub)),
        None => "exists already and was not made for this instance".to_owned(),
    };
    format!(
        "resource {what} {whose}: it is left as it is; delete it, or choose another name, or let the \
         ResourceGraphDefinition take over such objects by its annotation {}: \"true\"",
        wheelhouse::keys::ANNOTATION_ADOPT
    )
}
