//! Plans: what an instance wants of its cluster, as far as it can be told from what was seen there.
//!
//! A plan is a function of the instance and of what was observed: the same input gives the same plan, and once
//! everything that it asks for is there, the next plan asks for nothing. Nodes are walked in topological order; each is
//! skipped, waits for data, fails, or gives its objects. One failure, and nothing is written at all, as in kro.
//!
//! Source: kro `pkg/controller/instance/resources.go`, `pkg/runtime/node.go`.

mod claim;
mod collection;
mod decorate;
mod evaluate;
mod expected;
mod external;
mod names;
mod node;
mod observed;
mod outcome;
mod project;
mod prune;
mod readiness;
mod reason;
mod run;
mod wanted;

use std::sync::Arc;

use api::{GroupVersionKind, GroupVersionResource};
use serde_json::Value;

pub use observed::{ObjectRef, Observed};
pub use prune::PruneWave;
pub use reason::NodeReason;
pub use wanted::{Target, Wanted};

use crate::conditions::Condition;
use crate::graph::{CompiledGraph, NodeKind};
use crate::inventory::Inventory;
use crate::settings::Settings;
use evaluate::PLAN_STEPS_MAX;
use node::Planner;

/// The steps of a plan that is made in passing.
const QUICK_STEPS_MAX: u64 = 50_000;

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// The instance, with its status.
    pub instance: &'a Value,
    /// What was seen in the cluster.
    pub observed: &'a Observed,
    /// What the shell decides.
    pub settings: &'a Settings,
}

/// What an instance wants.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How each node is, in topological order. After a failure the nodes behind it are missing.
    pub nodes: Vec<NodePlan>,
    /// Every object that could be resolved, decorated, in topological order. Those with a change are to be applied, in any
    /// order and at once: what must wait is not among them. Empty after a failure.
    pub applies: Vec<Apply>,
    /// What nodes that wait are going to make, where their names need nothing but the instance. Empty after a failure.
    pub expected: Vec<Expected>,
    /// The external references that are to be read, and watched.
    pub wanted: Vec<Wanted>,
    /// What the instance must carry before anything is applied: what was and what will be.
    pub inventory_before: Inventory,
    /// What it may carry after a prune without conflicts.
    pub inventory_after: Inventory,
    /// Why nothing may be written; the text is that of the condition.
    pub failure: Option<String>,
    /// Whether an expression failed, other than for want of data: the same input fails again.
    pub is_hopeless: bool,
    /// A child that is being deleted and must be gone first; nothing may be written.
    pub deleting: Option<String>,
    /// The first node that waits for data, with the reason.
    pub unresolved: Option<String>,
    /// Whether an external reference has not been looked for yet, so that the plan is not the last word.
    pub incomplete: bool,
    /// The author's status fields that could be resolved.
    pub status: Value,
    /// Why some status field could not be evaluated, other than for want of data.
    pub status_error: Option<String>,
    /// What is there for the instance, wanted or not: in the order of the nodes, what is of none of them last.
    pub(crate) managed: Vec<Managed>,
    /// What an evaluation of the author's conditions needs.
    pub(crate) observations: Vec<Option<Vec<Arc<Value>>>>,
}

/// How a node is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodePlan {
    /// Its id.
    pub id: Arc<str>,
    /// What it is.
    pub kind: NodeKind,
    /// How it is.
    pub state: NodeState,
    /// Why, in a word.
    pub reason: NodeReason,
    /// Why, where there is something to say.
    pub message: Option<String>,
    /// How many objects it wants; unknown while it is not resolved.
    pub desired_count: Option<usize>,
    /// How many of them were seen.
    pub observed_count: usize,
}

/// An object that is there for an instance.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Managed {
    /// Its node, if that is one of the definition still.
    pub(crate) node: Option<usize>,
    pub(crate) reference: ObjectRef,
    /// The version that it was read in.
    pub(crate) version: String,
    pub(crate) uid: String,
}

/// How a node is, in kro's words.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum NodeState {
    /// It waits for data, or its objects are about to change.
    InProgress,
    /// One of its objects is being deleted.
    Deleting,
    /// It is not wanted.
    Skipped,
    /// It failed.
    Error,
    /// It is as wanted, and ready.
    Synced,
    /// It is as wanted, but not ready yet.
    WaitingForReadiness,
}

/// How an instance is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum InstanceState {
    /// Everything is as wanted, and ready.
    Active,
    /// Something is on its way.
    InProgress,
    /// Something failed.
    Error,
    /// It is being deleted.
    Deleting,
}

/// An object to be applied.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_field_names,
    reason = "the annotation is called apply-order"
)]
pub struct Apply {
    /// The node's id, for collections with the index behind it: `workers-3`.
    pub id: String,
    /// The node.
    pub node: Arc<str>,
    /// Which object.
    pub reference: ObjectRef,
    /// Its kind.
    pub gvk: GroupVersionKind,
    /// Its endpoint.
    pub gvr: GroupVersionResource,
    /// Whether it lives in a namespace.
    pub namespaced: bool,
    /// The number of its deletion wave.
    pub apply_order: i64,
    /// The object.
    pub object: Value,
    /// A hash of the object.
    pub digest: u64,
    /// What an apply would do.
    pub change: Change,
    /// Whose the object is that is there.
    pub claim: Claim,
}

/// An object that is going to be wanted, as far as it is known before its node is resolved.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Expected {
    /// The node.
    pub node: Arc<str>,
    /// Which object.
    pub reference: ObjectRef,
    /// Its kind.
    pub gvk: GroupVersionKind,
    /// Its endpoint.
    pub gvr: GroupVersionResource,
    /// The number of its deletion wave.
    pub apply_order: i64,
}

/// Whose an object is that stands where one is wanted.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Claim {
    /// There is none: it is to be made, and not to be found.
    Absent,
    /// The instance's; its uid.
    Own(String),
    /// Nobody's, and the definition says that it may be taken over; its uid.
    Taken(String),
    /// Somebody else's: it is not to be touched.
    Foreign,
}

/// What an apply would do.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Change {
    /// Make the object.
    Create,
    /// Change it.
    Update,
    /// Nothing.
    Unchanged,
}

impl CompiledGraph {
    /// Plans for an instance. An expression that takes more than its steps, or the last of many that together take more
    /// than those of a plan, fails the plan.
    pub fn plan(&self, input: &PlanInput<'_>) -> Plan {
        let (plan, _) = Planner::new(self, input, PLAN_STEPS_MAX).run();
        plan
    }

    /// [`CompiledGraph::plan`], if that takes no more steps than a thread that has other work should spend on it: about a
    /// millisecond.
    pub fn plan_quickly(&self, input: &PlanInput<'_>) -> Option<Plan> {
        self.plan_within(input, QUICK_STEPS_MAX)
    }

    /// [`CompiledGraph::plan`], if that takes no more than so many steps.
    pub(crate) fn plan_within(&self, input: &PlanInput<'_>, steps_max: u64) -> Option<Plan> {
        let (plan, exhausted) = Planner::new(self, input, steps_max).run();
        (!exhausted).then_some(plan)
    }

    /// A plan of an instance of which nothing was looked at.
    pub(crate) fn blind_plan(&self, instance: &Value) -> Plan {
        Plan {
            nodes: Vec::new(),
            applies: Vec::new(),
            expected: Vec::new(),
            wanted: Vec::new(),
            inventory_before: Inventory::empty(instance),
            inventory_after: Inventory::empty(instance),
            failure: None,
            is_hopeless: false,
            deleting: None,
            unresolved: None,
            incomplete: true,
            status: project::blind_status(self, instance),
            status_error: None,
            managed: Vec::new(),
            observations: vec![None; self.nodes.len()],
        }
    }

    /// Evaluates the author's conditions against what a plan saw; `builtins` are kro's own, which they may read.
    pub(crate) fn author_conditions(
        &self,
        instance: &Value,
        plan: &Plan,
        builtins: &[&Condition],
    ) -> project::AuthorConditions {
        project::author_conditions(self, instance, plan, builtins)
    }
}

// === impl Plan ===

impl Plan {
    /// The objects that an apply would change.
    pub fn changes(&self) -> impl Iterator<Item = &Apply> {
        self.applies
            .iter()
            .filter(|apply| apply.change != Change::Unchanged)
    }

    /// Whether there is nothing to do and nothing to wait for but readiness.
    pub fn settled(&self) -> bool {
        self.failure.is_none()
            && self.deleting.is_none()
            && self.unresolved.is_none()
            && !self.incomplete
            && self.changes().next().is_none()
    }

    /// The node of an id.
    pub fn node(&self, id: &str) -> Option<&NodePlan> {
        self.nodes.iter().find(|node| &*node.id == id)
    }
}

// === impl NodeState ===

impl NodeState {
    /// Names the state as kro does.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::Deleting => "DELETING",
            Self::Skipped => "SKIPPED",
            Self::Error => "ERROR",
            Self::Synced => "SYNCED",
            Self::WaitingForReadiness => "WAITING_FOR_READINESS",
        }
    }
}

// === impl InstanceState ===

impl InstanceState {
    /// Names the state as it stands in `status.state`.
    pub fn as_str(self) -> &'static str {
        use api::kro::keys;
        match self {
            Self::Active => keys::STATE_ACTIVE,
            Self::InProgress => keys::STATE_IN_PROGRESS,
            Self::Error => keys::STATE_ERROR,
            Self::Deleting => keys::STATE_DELETING,
        }
    }
}

#[cfg(test)]
mod tests;
