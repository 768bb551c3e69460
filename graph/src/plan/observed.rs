//! What was seen in the cluster.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::meta;
use serde_json::Value;

use super::{NodeReason, Wanted};
use crate::drift::Applied;
use crate::inventory::split_api_version;

/// The identity of an object whatever its version.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectRef {
    /// The group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What was seen in the cluster, and what is remembered of what was done there.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    children: HashMap<ObjectRef, Arc<Value>>,
    externals: BTreeMap<Wanted, Vec<Arc<Value>>>,
    external_failures: BTreeMap<Wanted, String>,
    applied: HashMap<ObjectRef, Applied>,
    claims: HashMap<ObjectRef, String>,
    takes_over: bool,
    owner_uid: Option<String>,
    failures: BTreeMap<String, (NodeReason, String)>,
}

// === impl ObjectRef ===

impl ObjectRef {
    /// Names an object.
    pub fn of(object: &Value) -> Self {
        let (group, _) = split_api_version(meta::api_version(object));
        Self {
            group: group.to_owned(),
            kind: meta::kind(object).to_owned(),
            namespace: meta::namespace(object).to_owned(),
            name: meta::name(object).to_owned(),
        }
    }

    /// Names the object as kro does in messages: `namespace/name`, or the name alone.
    pub(crate) fn short(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

// === impl Observed ===

impl Observed {
    /// Nothing was seen.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a live object that may be one of the instance's children. It needs its metadata, what the graph
    /// [reads](crate::Node::reads), and what was applied to it.
    pub fn child(&mut self, live: Arc<Value>) {
        self.children.insert(ObjectRef::of(&live), live);
    }

    /// Forgets a live object that is gone.
    #[cfg(test)]
    pub(super) fn remove_child(&mut self, reference: &ObjectRef) {
        self.children.remove(reference);
    }

    /// Answers an entry of [`Plan::wanted`](super::Plan::wanted): what there is, and nothing when it was looked for and
    /// is not there.
    pub fn external(&mut self, wanted: &Wanted, found: Vec<Arc<Value>>) {
        self.externals.insert(wanted.clone(), found);
    }

    /// Answers an entry of [`Plan::wanted`](super::Plan::wanted): it could not be read, and why.
    pub fn external_failed(&mut self, wanted: &Wanted, reason: String) {
        self.external_failures.insert(wanted.clone(), reason);
    }

    /// Remembers that the object of this uid is the instance's: it was made for it, or taken over.
    pub fn claimed(&mut self, reference: &ObjectRef, uid: &str) {
        self.claims.insert(reference.clone(), uid.to_owned());
    }

    /// Lets objects that are nobody's be taken over, as kro does: the definition says so.
    pub fn take_over(&mut self) {
        self.takes_over = true;
    }

    /// Names the instance as the owner of its children, by the uid that their cluster knows it by: the definition asks for it.
    pub fn owned_by(&mut self, uid: &str) {
        self.owner_uid = Some(uid.to_owned());
    }

    /// Remembers an apply that succeeded, so that the next plan knows drift from what the server made of our words.
    pub fn applied(&mut self, reference: &ObjectRef, record: Applied) {
        self.applied.insert(reference.clone(), record);
    }

    /// Notes that an apply failed in this round; reason and text go into the status.
    pub fn failed(&mut self, apply_id: &str, reason: NodeReason, message: String) {
        self.failures.insert(apply_id.to_owned(), (reason, message));
    }

    pub(crate) fn get_child(&self, reference: &ObjectRef) -> Option<&Arc<Value>> {
        self.children.get(reference)
    }

    pub(super) fn get_external(&self, wanted: &Wanted) -> Option<&Vec<Arc<Value>>> {
        self.externals.get(wanted)
    }

    pub(super) fn get_external_failure(&self, wanted: &Wanted) -> Option<&str> {
        self.external_failures.get(wanted).map(String::as_str)
    }

    pub(super) fn is_claimed(&self, reference: &ObjectRef, uid: &str) -> bool {
        !uid.is_empty() && self.claims.get(reference).is_some_and(|known| known == uid)
    }

    /// The children that are known to be the instance's.
    pub(super) fn claimed_children(&self) -> impl Iterator<Item = (&ObjectRef, &Value)> {
        let children = self.children.iter();
        children
            .map(|(reference, live)| (reference, &**live))
            .filter(|(reference, live)| self.is_claimed(reference, meta::uid(live)))
    }

    pub(super) fn takes_over(&self) -> bool {
        self.takes_over
    }

    pub(super) fn owner_uid(&self) -> Option<&str> {
        self.owner_uid.as_deref()
    }

    pub(super) fn get_applied(&self, reference: &ObjectRef) -> Option<&Applied> {
        self.applied.get(reference)
    }

    pub(super) fn get_failure(&self, apply_id: &str) -> Option<&(NodeReason, String)> {
        self.failures.get(apply_id)
    }
}
