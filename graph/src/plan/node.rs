//! The walk over the nodes.
//!
//! A node is ignored when one of its includeWhen is false or when something it depends on is ignored. It is resolved when
//! everything it depends on is ready; what is not there yet makes it wait, anything else is a failure of the plan.
//!
//! Source: kro `pkg/runtime/node.go`, `node_resolve.go`, `pkg/controller/instance/resources.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{kro::keys, meta};
use dialect::quote;
use serde_json::Value;

use super::decorate::Decorator;
use super::evaluate::{Failed, Values};
use super::names;
use super::outcome;
use super::run::{NAMELESS, Outcome, Run, Stop};
use super::wanted::Wanted;
use super::{
    Apply, Change, Claim, Expected, Managed, NodePlan, NodeReason, NodeState, ObjectRef, Plan,
    PlanInput, project,
};
use crate::drift;
use crate::graph::{CompiledGraph, Node, NodeKind, Reference};
use crate::inventory::{Inventory, split_api_version};

/// Makes a plan.
pub(super) struct Planner<'a> {
    pub(super) graph: &'a CompiledGraph,
    pub(super) input: &'a PlanInput<'a>,
    pub(super) values: Values<'a>,
    pub(super) runs: Vec<Run>,
    decorator: Decorator<'a>,
    applies: Vec<Apply>,
    pub(super) expected: Vec<Expected>,
    pub(super) wanted: Vec<Wanted>,
    unresolved: Option<String>,
    pub(super) incomplete: bool,
    /// How far the walk is with a node.
    stage: Stage,
}

/// How far the walk is with a node: it tells what the node waits for, or what failed.
#[derive(Clone, Copy)]
enum Stage {
    Include,
    Dependencies,
    Objects,
}

// === impl Planner ===

impl<'a> Planner<'a> {
    pub(super) fn new(graph: &'a CompiledGraph, input: &'a PlanInput<'a>, steps_max: u64) -> Self {
        Self {
            graph,
            input,
            values: Values::new(graph, input.instance, steps_max),
            runs: vec![Run::default(); graph.nodes.len()],
            decorator: Decorator::new(graph, input),
            applies: Vec::new(),
            expected: Vec::new(),
            wanted: Vec::new(),
            unresolved: None,
            incomplete: false,
            stage: Stage::Include,
        }
    }

    /// Makes the plan; says too whether its steps were used up on the way.
    pub(super) fn run(mut self) -> (Plan, bool) {
        let graph = self.graph;
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        let mut failure = None;
        let mut deleting = None;
        for (position, node) in graph.nodes.iter().enumerate() {
            let (state, reason, message) = match self.node(position, node) {
                Ok(outcome) => outcome,
                Err(Stop::Pending(why)) => {
                    let gvr = &node.gvr;
                    let gvr = format!("{}/{}, Resource={}", gvr.group, gvr.version, gvr.resource);
                    self.unresolved
                        .get_or_insert_with(|| format!("gvr {}: {why}", quote(&gvr)));
                    if self.stage.is_wanted() {
                        self.expect(node);
                    }
                    (NodeState::InProgress, self.stage.pending(), Some(why))
                }
                Err(Stop::Deleting(why)) => {
                    deleting = Some(why.clone());
                    (NodeState::Deleting, NodeReason::Deleting, Some(why))
                }
                Err(Stop::Failed(why)) => {
                    failure = Some(why.clone());
                    (NodeState::Error, self.stage.failed(), Some(why))
                }
            };
            let run = &self.runs[position];
            nodes.push(NodePlan {
                id: Arc::clone(&node.id),
                kind: node.kind,
                state,
                reason,
                message,
                desired_count: run.desired_count,
                observed_count: run.observed.as_ref().map_or(0, Vec::len),
            });
            if failure.is_some() || deleting.is_some() {
                break;
            }
        }
        self.finish(nodes, failure, deleting)
    }

    fn finish(
        mut self,
        nodes: Vec<NodePlan>,
        failure: Option<String>,
        deleting: Option<String>,
    ) -> (Plan, bool) {
        let failure = failure.or_else(|| duplicates(&self.applies));
        let stopped = failure.is_some() || deleting.is_some();
        let now = outcome::inventory_of(&self.applies, self.input.instance);
        let (before, failure) = match Inventory::read(self.input.instance) {
            Ok(past) if !stopped => (past.union(&now), failure),
            Ok(past) => (past, failure),
            Err(error) => (
                now.clone(),
                failure.or(Some(format!("project failed: {error}"))),
            ),
        };
        let managed = self.managed();
        let (status, status_error) = project::status(self.graph, &mut self.values, &self.runs);
        if failure.is_some() || deleting.is_some() {
            self.applies.clear();
            self.expected.clear();
        }
        // What failed to be applied is not asked for again within this round.
        let observed = self.input.observed;
        self.applies
            .retain(|apply| observed.get_failure(&apply.id).is_none());
        let exhausted = self.values.are_exhausted();
        let plan = Plan {
            is_hopeless: self.values.are_hopeless(),
            nodes,
            applies: self.applies,
            expected: self.expected,
            wanted: self.wanted,
            inventory_before: before,
            inventory_after: now,
            failure,
            deleting,
            unresolved: self.unresolved,
            incomplete: self.incomplete,
            status,
            status_error,
            managed,
            observations: self.runs.into_iter().map(|run| run.observed).collect(),
        };
        (plan, exhausted)
    }

    /// Finds what is there for the instance. What an object says of itself counts for nothing but the name of its node.
    fn managed(&self) -> Vec<Managed> {
        let observed = self.input.observed;
        let nodes = &self.graph.nodes;
        let mut managed: Vec<Managed> = observed
            .claimed_children()
            .map(|(reference, live)| {
                let id = meta::label(live, keys::LABEL_NODE_ID).unwrap_or_default();
                let (_, version) = split_api_version(meta::api_version(live));
                Managed {
                    node: nodes.iter().position(|node| &*node.id == id),
                    reference: reference.clone(),
                    version: version.to_owned(),
                    uid: meta::uid(live).to_owned(),
                }
            })
            .collect();
        managed.sort_by(|one, other| {
            let order = |it: &Managed| (it.node.is_none(), it.node);
            (order(one), &one.reference).cmp(&(order(other), &other.reference))
        });
        managed
    }

    fn node(&mut self, position: usize, node: &'a Node) -> Result<Outcome, Stop> {
        self.stage = Stage::Include;
        if self.is_ignored(position, node)? {
            let (reason, message) = self.why_ignored(node);
            return Ok((NodeState::Skipped, reason, Some(message)));
        }
        self.stage = Stage::Dependencies;
        self.check_dependencies(node)?;
        self.stage = Stage::Objects;
        match node.kind {
            NodeKind::Resource => self.resource(position, node),
            NodeKind::Collection => self.collection(position, node),
            NodeKind::External => self.external(position, node),
            NodeKind::ExternalCollection => self.external_collection(position, node),
        }
    }

    /// Returns whether a node is not wanted. The answer is kept: dependants ask again.
    fn is_ignored(&mut self, position: usize, node: &'a Node) -> Result<bool, Stop> {
        let answer = self.ask_ignored(node);
        self.runs[position].ignored = Some(answer.clone());
        answer
    }

    /// Words why a node is not wanted.
    fn why_ignored(&self, node: &Node) -> (NodeReason, String) {
        let is_ignored =
            |position: &&usize| matches!(self.runs[**position].ignored, Some(Ok(true)));
        if let Some(other) = node.dependencies.iter().find(is_ignored) {
            let other = quote(&self.graph.nodes[*other].id);
            let why = format!("it depends on node {other}, which is not wanted");
            return (NodeReason::DependencySkipped, why);
        }
        let texts: Vec<String> = node
            .include_when
            .iter()
            .map(|it| quote(&it.user_text))
            .collect();
        let why = format!("includeWhen is false: {}", texts.join(", "));
        (NodeReason::IncludeWhenFalse, why)
    }

    fn ask_ignored(&mut self, node: &'a Node) -> Result<bool, Stop> {
        for dependency in &node.dependencies {
            match &self.runs[*dependency].ignored {
                Some(Ok(false)) => {}
                Some(answer) => return answer.clone(),
                None => {
                    return Err(Stop::Failed(format!(
                        "node {}: out of order",
                        quote(&node.id)
                    )));
                }
            }
        }
        for expression in &node.include_when {
            for reference in expression.references.iter() {
                if let Reference::Node(dependency) = reference {
                    self.check_include_dependency(*dependency)?;
                }
            }
        }
        for expression in &node.include_when {
            let reads_node = expression
                .references
                .iter()
                .any(|reference| matches!(reference, Reference::Node(_)));
            match self.values.boolean(expression, &self.runs) {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                Err(failed) => {
                    let text = quote(&expression.user_text);
                    return Err(match failed {
                        Failed::Pending(why) if reads_node => {
                            Stop::Pending(format!("includeWhen {text}: {why} (data pending)"))
                        }
                        Failed::Pending(why) | Failed::Other(why) => {
                            Stop::Failed(format!("includeWhen {text}: {why}"))
                        }
                    });
                }
            }
        }
        Ok(false)
    }

    fn check_include_dependency(&self, dependency: usize) -> Result<(), Stop> {
        let id = quote(&self.graph.nodes[dependency].id);
        self.observed_readiness(dependency)
            .map_err(|failed| match failed {
                Failed::Pending(why) => Stop::Pending(format!(
                    "includeWhen dependency {id} not ready: {why} (data pending)"
                )),
                Failed::Other(why) => Stop::Failed(format!("includeWhen dependency {id}: {why}")),
            })
    }

    fn check_dependencies(&self, node: &Node) -> Result<(), Stop> {
        for dependency in &node.dependencies {
            let (id, other) = (quote(&node.id), quote(&self.graph.nodes[*dependency].id));
            self.readiness(*dependency).map_err(|failed| match failed {
                Failed::Pending(why) => Stop::Pending(format!(
                    "node {id}: dependent node {other} not ready: {why} (data pending)"
                )),
                Failed::Other(why) => Stop::Failed(format!(
                    "node {id}: failed to check readiness of dependent node {other}: {why}"
                )),
            })?;
        }
        Ok(())
    }

    /// Returns whether a node lets its dependants go on; what is not wanted does.
    pub(super) fn readiness(&self, position: usize) -> Result<(), Failed> {
        match &self.runs[position].ignored {
            Some(Ok(true)) => return Ok(()),
            Some(Err(Stop::Pending(why))) => {
                return Err(Failed::Pending(format!("is ignore check failed: {why}")));
            }
            Some(Err(Stop::Failed(why) | Stop::Deleting(why))) => {
                return Err(Failed::Other(format!("is ignore check failed: {why}")));
            }
            Some(Ok(false)) | None => {}
        }
        self.observed_readiness(position)
    }

    fn resource(&mut self, position: usize, node: &'a Node) -> Result<Outcome, Stop> {
        let mut object = self.resolve_template(node)?;
        self.set_namespace(node, &mut object)?;
        names::check(node, &object)?;
        names::check_policy(node, &object, self.input.settings)?;
        let reference = ObjectRef::of(&object);
        if reference.name.is_empty() {
            return Err(Stop::Failed(NAMELESS.to_owned()));
        }
        let live = self.input.observed.get_child(&reference).map(Arc::clone);
        Self::check_not_terminating(node, &reference, live.as_deref())?;
        self.decorator
            .decorate(node, &mut object, None, live.as_deref());
        self.runs[position].desired_count = Some(1);
        let id = node.id.to_string();
        let (pushed, own) = self.push_apply(node, id, reference, object, live);
        self.runs[position].observed = own.map(|own| vec![own]);
        Ok(self.state_after(position, node, pushed))
    }

    /// Adds an object to what is to be applied; gives the reason when that cannot be, and whether it would change; and the
    /// live object, if it is one that expressions may see.
    pub(super) fn push_apply(
        &mut self,
        node: &Node,
        id: String,
        reference: ObjectRef,
        object: Value,
        live: Option<Arc<Value>>,
    ) -> (Pushed, Option<Arc<Value>>) {
        let (claim, conflict) = self.claim(node, &reference, &object, live.as_deref());
        let digest = drift::digest(&object);
        let record = self.input.observed.get_applied(&reference);
        let change = match &live {
            None => Change::Create,
            Some(live) if drift::needs_apply(&object, digest, live, record) => Change::Update,
            Some(_) => Change::Unchanged,
        };
        let failed = self.input.observed.get_failure(&id);
        let failed = failed.map(|(reason, why)| (*reason, why.clone()));
        let nameless = reference.name.is_empty().then(|| NAMELESS.to_owned());
        let is_refused = conflict.is_some() || nameless.is_some();
        let conflict = conflict.map(|why| (NodeReason::Conflict, why));
        let nameless = nameless.map(|why| (NodeReason::ResolutionFailed, why));
        let pushed = match failed.or(conflict).or(nameless) {
            Some((reason, why)) => Pushed::Failed(reason, why),
            None if change == Change::Unchanged => Pushed::Settled,
            None => Pushed::Changes,
        };
        let shown = live.filter(|_| matches!(claim, Claim::Own(_)));
        self.applies.push(Apply {
            id,
            node: Arc::clone(&node.id),
            reference,
            gvk: node.gvk.clone(),
            gvr: node.gvr.clone(),
            namespaced: node.namespaced,
            apply_order: node.apply_order,
            object,
            digest,
            // An object of another set is not written, but counts for the inventory, as in kro.
            change: if is_refused {
                Change::Unchanged
            } else {
                change
            },
            claim,
        });
        (pushed, shown)
    }

    pub(super) fn state_after(&self, position: usize, node: &Node, pushed: Pushed) -> Outcome {
        match pushed {
            Pushed::Failed(reason, why) => return (NodeState::Error, reason, Some(why)),
            Pushed::Changes => return (NodeState::InProgress, NodeReason::Applying, None),
            Pushed::Settled => {}
        }
        match self.readiness(position) {
            Ok(()) => (NodeState::Synced, NodeReason::Ready, None),
            Err(Failed::Pending(why)) => {
                let why = format!("waiting for node {}: {why}", quote(&node.id));
                let run = &self.runs[position];
                let seen_count = run.observed.as_ref().map_or(0, Vec::len);
                let reason = if run.desired_count.is_some_and(|wanted| seen_count < wanted) {
                    NodeReason::NotObserved
                } else {
                    NodeReason::ReadyWhenNotTrue
                };
                (NodeState::WaitingForReadiness, reason, Some(why))
            }
            Err(Failed::Other(why)) => (NodeState::Error, NodeReason::ReadyWhenFailed, Some(why)),
        }
    }

    /// Fills in the template of a single object.
    pub(super) fn resolve_template(&mut self, node: &'a Node) -> Result<Value, Stop> {
        let stop = |failed: Failed| match failed {
            Failed::Pending(why) => Stop::Pending(format!(
                "node {}: failed to evaluate expression: {why} (data pending)",
                quote(&node.id)
            )),
            Failed::Other(why) => Stop::Failed(format!("node {}: {why}", quote(&node.id))),
        };
        let mut filled = self.values.fill(&node.template).map_err(stop)?;
        for field in &node.fields {
            let value = self.values.value(&field.expression, &self.runs);
            let value = value.map_err(stop)?;
            self.values.put(&mut filled, field, &value).map_err(stop)?;
        }
        Ok(filled.finish())
    }

    /// Puts an object that names no namespace into that of the instance.
    pub(super) fn set_namespace(&self, node: &Node, object: &mut Value) -> Result<(), Stop> {
        if !node.namespaced || !meta::namespace(object).is_empty() {
            return Ok(());
        }
        let namespace = meta::namespace(self.input.instance);
        if namespace.is_empty() {
            return Err(Stop::Failed(format!(
                "node {} is namespaced and must resolve metadata.namespace when the instance is cluster-scoped",
                quote(&node.id)
            )));
        }
        meta::set_namespace(object, namespace);
        Ok(())
    }

    pub(super) fn check_not_terminating(
        node: &Node,
        reference: &ObjectRef,
        live: Option<&Value>,
    ) -> Result<(), Stop> {
        match live {
            Some(live) if meta::is_terminating(live) => Err(Stop::Deleting(format!(
                "resource {} for node {} is currently being deleted; waiting for deletion to complete before continuing \
                 reconciliation",
                quote(&reference.short()),
                quote(&node.id)
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn decorate_item(
        &self,
        node: &Node,
        object: &mut Value,
        (index, count): (usize, usize),
        live: Option<&Value>,
    ) {
        self.decorator
            .decorate(node, object, Some((index, count)), live);
    }
}

/// What became of an object that is to be applied.
pub(super) enum Pushed {
    /// It is there as wanted.
    Settled,
    /// An apply would change it.
    Changes,
    /// It could not be applied.
    Failed(NodeReason, String),
}

// === impl Stage ===

impl Stage {
    /// Whether it is known that the node is wanted.
    const fn is_wanted(self) -> bool {
        matches!(self, Self::Dependencies | Self::Objects)
    }

    /// Why a node goes no further that waits.
    const fn pending(self) -> NodeReason {
        match self {
            Self::Include => NodeReason::IncludeWhenPending,
            Self::Dependencies => NodeReason::DependencyNotReady,
            Self::Objects => NodeReason::DataPending,
        }
    }

    /// Why one goes no further that failed.
    const fn failed(self) -> NodeReason {
        match self {
            Self::Include => NodeReason::IncludeWhenFailed,
            Self::Dependencies => NodeReason::DependencyFailed,
            Self::Objects => NodeReason::ResolutionFailed,
        }
    }
}

/// Finds objects that two nodes claim.
fn duplicates(applies: &[Apply]) -> Option<String> {
    let mut seen: BTreeMap<(&ObjectRef, &str), &str> = BTreeMap::new();
    let mut conflicts = Vec::new();
    for apply in applies {
        let key = (&apply.reference, apply.gvk.version.as_str());
        if let Some(other) = seen.insert(key, &apply.id) {
            conflicts.push(format!(
                "resourceID: {} conflicts with resourceID: {other}",
                apply.id
            ));
        }
    }
    if conflicts.is_empty() {
        return None;
    }
    Some(format!(
        "found resources with conflicts: {}",
        conflicts.join(", ")
    ))
}
