//! What a definition would do to the children of an instance, foretold.
//!
//! The planner itself is asked ([`CompiledGraph::plan`]), in rounds: what a round would apply counts as there in the next one, as it
//! would be right after the apply. What depends on more than that, on a status that somebody has yet to write for example, is not
//! foretold: its node is named as one that waits. A child changes where the definition asks for something else than the one before
//! did, so that what a cluster made of the same words is no change.
//!
//! Nothing is written anywhere, and the same input gives the same answer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::kro::keys;
use api::{GroupVersionKind, meta};
use serde_json::Value;

use crate::deletion::ChildPolicy;
use crate::drift::{Applied, digest};
use crate::graph::CompiledGraph;
use crate::inventory::applyset_id;
use crate::plan::{
    Apply, Claim, NodePlan, NodeState, ObjectRef, Observed, Plan, PlanInput, Wanted,
};
use crate::settings::Settings;

/// Rounds of one instance, as many as a graph has levels that people write.
const ROUND_COUNT_MAX: usize = 32;
/// Steps of expressions in one round: some 20 ms.
const ROUND_STEPS_MAX: u64 = 1_000_000;
/// Fields of one child that are compared one by one.
const FIELD_COUNT_MAX: usize = 1_000;

/// What is known of an instance.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The instance as it is.
    pub instance: &'a Value,
    /// The instance as the new schema leaves it.
    pub renewed: &'a Value,
    /// What was seen for it in its cluster.
    pub observed: &'a Observed,
    /// The uid by which the definition names the instance as the owner of its children, if it does.
    pub owner: Option<&'a str>,
    /// The same, for the definition before.
    pub owner_before: Option<&'a str>,
    /// The children that it has: those of `observed` that are its own.
    pub children: &'a [Arc<Value>],
    /// What holds in its cluster.
    pub settings: &'a Settings,
}

/// What would become of the children of an instance.
#[derive(Clone, Debug, Default)]
pub struct Foreseen {
    /// The children that would be made, changed, and let go: in the order of the nodes, what is let go last.
    pub children: Vec<ChildChange>,
    /// How many children there would be.
    pub wanted_count: usize,
    /// Nodes that cannot be foretold, or that fail.
    pub waiting: Vec<NodePlan>,
    /// Why nothing would be written.
    pub failure: Option<String>,
    /// Whether deletions wait until all nodes are there.
    pub prune_waits: bool,
    /// What is to be read to tell more: external references that `observed` does not answer.
    pub wanted: Vec<Wanted>,
}

/// What would become of a child.
#[derive(Clone, Debug)]
pub struct ChildChange {
    /// Its node, as the definition or its label names it.
    pub node: String,
    /// Which object.
    pub reference: ObjectRef,
    /// Its kind.
    pub gvk: GroupVersionKind,
    /// What.
    pub action: ChildAction,
    /// The fields that change.
    pub fields: Vec<FieldChange>,
}

/// What is done with a child.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ChildAction {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// It is no longer wanted, and stays: its deletion policy says so.
    Retain,
    /// It is no longer wanted, and stays as nobody's.
    Orphan,
}

/// A field that changes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldChange {
    /// Where, as `.spec.template.spec.containers[0].image`.
    pub path: String,
    /// What was asked for; `None` where nothing was.
    pub from: Option<Value>,
    /// What is asked for; `None` where nothing is.
    pub to: Option<Value>,
}

/// How far a walk came.
struct Walked {
    plan: Plan,
    /// All that is wanted, as it was first wanted, in the order of the nodes.
    wanted: Vec<Apply>,
}

impl CompiledGraph {
    /// Foretells what would become of an instance's children if this definition took the place of `before`, or, where there is none, of
    /// what is there.
    pub fn foresee(&self, before: Option<&Self>, subject: &Subject<'_>) -> Foreseen {
        let (renewed, instance) = (subject.renewed, subject.instance);
        let now = walk(self, (renewed, subject.owner), subject);
        let before = match before.map(|it| walk(it, (instance, subject.owner_before), subject)) {
            None => Ok(None),
            Some(walked) => walked.map(Some),
        };
        let (now, before) = match (now, before) {
            (Ok(now), Ok(before)) => (now, before),
            (Err(failure), _) | (_, Err(failure)) => {
                return Foreseen {
                    failure: Some(failure),
                    ..Foreseen::default()
                };
            }
        };
        let asked: HashMap<&ObjectRef, &Value> = before
            .iter()
            .flat_map(|before| &before.wanted)
            .map(|apply| (&apply.reference, &apply.object))
            .collect();
        let live: BTreeMap<ObjectRef, &Value> = subject
            .children
            .iter()
            .map(|child| (ObjectRef::of(child), &**child))
            .collect();
        let wanted: BTreeSet<&ObjectRef> = now.wanted.iter().map(|it| &it.reference).collect();
        let mut children: Vec<ChildChange> = now
            .wanted
            .iter()
            .filter_map(|apply| change_of(apply, live.get(&apply.reference), &asked))
            .collect();
        if now.plan.failure.is_none() {
            let unwanted = live.iter().filter(|(it, _)| !wanted.contains(it));
            let told = unwanted.filter(|(_, live)| is_told(&now.plan, live));
            let ends = told.map(|(reference, live)| end_of(reference, live, subject.settings));
            // What is retained bears the labels for ever: that is told once, when it is no longer asked for.
            children.extend(ends.filter(|it| {
                it.action != ChildAction::Retain || asked.contains_key(&it.reference)
            }));
        } else {
            children.clear();
        }
        Foreseen {
            children,
            wanted_count: now.wanted.len(),
            prune_waits: !now.plan.prune_allowed(),
            failure: now.plan.failure.clone().or(now.plan.deleting.clone()),
            waiting: now
                .plan
                .nodes
                .iter()
                .filter(|it| waits(it))
                .cloned()
                .collect(),
            wanted: now.plan.wanted,
        }
    }
}

/// Plans until a plan asks for nothing new.
///
/// # Errors
/// Where that takes too long.
fn walk(
    graph: &CompiledGraph,
    (instance, owner): (&Value, Option<&str>),
    subject: &Subject<'_>,
) -> Result<Walked, String> {
    let mut observed = subject.observed.clone();
    if let Some(uid) = owner {
        observed.owned_by(uid);
    }
    let mut done: HashMap<ObjectRef, u64> = HashMap::new();
    let mut rounds = 0;
    loop {
        rounds += 1;
        let input = PlanInput {
            instance,
            observed: &observed,
            settings: subject.settings,
        };
        let plan = graph.plan_within(&input, ROUND_STEPS_MAX);
        let plan = plan.ok_or("its expressions take too long to be foretold")?;
        let mut is_new = false;
        for apply in plan.changes().filter(|_| rounds < ROUND_COUNT_MAX) {
            if done.insert(apply.reference.clone(), apply.digest) == Some(apply.digest) {
                continue; // an apply does not make of it what is wanted; that is for the cluster to tell
            }
            is_new = true;
            let live = observed
                .get_child(&apply.reference)
                .map(|live| (**live).clone());
            let live = applied(live, &apply.object);
            observed.applied(&apply.reference, Applied::of(&apply.object, &live));
            observed.child(Arc::new(live));
        }
        if !is_new {
            let wanted = plan.applies.clone();
            return Ok(Walked { plan, wanted });
        }
    }
}

/// Returns what an apply makes of an object, as far as can be told here: maps are merged, everything else is replaced.
fn applied(live: Option<Value>, wanted: &Value) -> Value {
    let Some(mut live) = live else {
        let mut made = wanted.clone();
        if meta::uid(&made).is_empty() {
            made["metadata"]["uid"] = Value::from("foreseen");
        }
        return made;
    };
    merge(&mut live, wanted);
    live
}

fn merge(live: &mut Value, wanted: &Value) {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            for (key, value) in wanted {
                merge(live.entry(key).or_insert(Value::Null), value);
            }
        }
        (live, wanted) => *live = wanted.clone(),
    }
}

fn change_of(
    apply: &Apply,
    live: Option<&&Value>,
    asked: &HashMap<&ObjectRef, &Value>,
) -> Option<ChildChange> {
    let change = |action, fields| ChildChange {
        node: apply.node.to_string(),
        reference: apply.reference.clone(),
        gvk: apply.gvk.clone(),
        action,
        fields,
    };
    let Some(live) = live else {
        // What is there and not its own is left alone; its node says so.
        let is_new = matches!(apply.claim, Claim::Own(_) | Claim::Absent);
        return is_new.then(|| change(ChildAction::Create, Vec::new()));
    };
    let fields = match asked.get(&apply.reference) {
        Some(before) if digest(before) == digest(&apply.object) => return None,
        Some(before) => compare(before, &apply.object, Absent::IsChange),
        None => compare(live, &apply.object, Absent::IsNothing),
    };
    (!fields.is_empty()).then(|| change(ChildAction::Update, fields))
}

fn end_of(reference: &ObjectRef, live: &Value, settings: &Settings) -> ChildChange {
    let has_policy = settings.compile.deletion_policy;
    let policy = has_policy.then(|| ChildPolicy::of(live));
    let gvk = GroupVersionKind::from_object(live);
    let gvk = gvk.unwrap_or_else(|| GroupVersionKind::new(&reference.group, "", &reference.kind));
    ChildChange {
        node: meta::label(live, keys::LABEL_NODE_ID)
            .unwrap_or_default()
            .to_owned(),
        reference: reference.clone(),
        gvk,
        action: match policy {
            None | Some(Ok(ChildPolicy::Delete)) => ChildAction::Delete,
            Some(Ok(ChildPolicy::Orphan)) => ChildAction::Orphan,
            // The hub waits for a policy, and leaves the object where it is.
            Some(Ok(ChildPolicy::Retain) | Err(_)) => ChildAction::Retain,
        },
        fields: Vec::new(),
    }
}

/// Whether the plan says what its node wants, so that what it does not want goes.
fn is_told(plan: &Plan, live: &Value) -> bool {
    let id = meta::label(live, keys::LABEL_NODE_ID).unwrap_or_default();
    plan.node(id)
        .is_none_or(|node| node.state == NodeState::Skipped || node.desired_count.is_some())
}

/// Whether a node is not foretold: what is to be made for it depends on what is not there, or fails.
fn waits(node: &NodePlan) -> bool {
    match node.state {
        NodeState::Error | NodeState::Deleting => true,
        NodeState::InProgress => node.desired_count.is_none(),
        NodeState::WaitingForReadiness => node.kind.is_external(),
        NodeState::Skipped | NodeState::Synced => false,
    }
}

/// What it means that a field is in the first value only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// It goes.
    IsChange,
    /// Others have set it.
    IsNothing,
}

/// Compares two values field by field.
fn compare(from: &Value, to: &Value, absent: Absent) -> Vec<FieldChange> {
    let mut fields = Vec::new();
    compare_at(
        &mut String::new(),
        Some(from),
        Some(to),
        absent,
        &mut fields,
    );
    fields
}

fn compare_at(
    path: &mut String,
    from: Option<&Value>,
    to: Option<&Value>,
    absent: Absent,
    fields: &mut Vec<FieldChange>,
) {
    if from == to || fields.len() >= FIELD_COUNT_MAX {
        return;
    }
    let length = path.len();
    match (from, to) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                if absent == Absent::IsNothing && !other.contains_key(key) {
                    continue;
                }
                push_key(path, key);
                compare_at(path, one.get(key), other.get(key), absent, fields);
                path.truncate(length);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                path.extend(["[", &index.to_string(), "]"]);
                compare_at(path, one.get(index), other.get(index), absent, fields);
                path.truncate(length);
            }
        }
        // A null asks for absence.
        (None, Some(Value::Null)) => {}
        (from, to) => fields.push(FieldChange {
            path: path.clone(),
            from: from.cloned(),
            to: to.cloned(),
        }),
    }
}

fn push_key(path: &mut String, key: &str) {
    let is_plain = key
        .chars()
        .all(|it| it.is_ascii_alphanumeric() || it == '_' || it == '-');
    if is_plain && !key.is_empty() {
        path.push('.');
        path.push_str(key);
    } else {
        path.extend(["[", &dialect::quote(key), "]"]);
    }
}

/// Whether a child bears the mark of an instance.
pub fn is_child_of(child: &Value, instance: &Value) -> bool {
    meta::label(child, keys::LABEL_APPLYSET_PART_OF) == Some(applyset_id(instance).as_str())
}

// === impl ChildAction ===

impl ChildAction {
    /// Names the action as it stands in an answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
            Self::Retain => "Retain",
            Self::Orphan => "Orphan",
        }
    }
}

#[cfg(test)]
mod tests;
