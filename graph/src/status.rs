//! The status of instances: state, conditions, and the author's fields.
//!
//! Each function gives the whole new status; when nothing has changed it equals the old one, and need not be written.
//! Once a definition has conditions of its own, only those are on the wire; kro's are then computed for them to read.
//!
//! Where kro would write nothing (a status field that fails) or `ACTIVE` (an instance that could not be labelled), we say
//! that there is an error.
//!
//! Source: kro `pkg/controller/instance/status.go`.

use std::collections::BTreeSet;

use api::kro::keys;
use api::meta;
use serde_json::{Map, Value, json};

use crate::conditions::{
    Condition, ConditionSet, ConditionStatus, INSTANCE, Mark, read_conditions,
};
use crate::graph::CompiledGraph;
use crate::plan::{InstanceState, Plan};

impl CompiledGraph {
    /// The status after a plan. To be taken from a plan that was made after its applies were done.
    pub fn status(&self, instance: &Value, plan: &Plan, now: &str) -> Value {
        let mut set = ConditionSet::open(&INSTANCE, instance, now);
        set.mark(managed());
        set.mark(resolved());
        set.mark(plan.resources_ready());
        let state = if set.is_ready() {
            InstanceState::Active
        } else {
            plan.state()
        };
        self.assemble(instance, plan, &set, state, now)
    }

    /// The status of an instance that asks to be left alone: nothing is looked at, so only what the instance itself
    /// gives is there.
    pub fn suspended_status(&self, instance: &Value, now: &str) -> Value {
        let mut set = ConditionSet::open(&INSTANCE, instance, now);
        set.mark(managed());
        set.mark(resolved());
        let message = format!(
            "reconciliation suspended via {} annotation",
            keys::ANNOTATION_RECONCILE
        );
        set.mark(Mark::fails(
            keys::CONDITION_RESOURCES_READY,
            keys::REASON_SUSPENDED,
            message,
        ));
        self.assemble(
            instance,
            &self.blind_plan(instance),
            &set,
            InstanceState::Active,
            now,
        )
    }

    fn assemble(
        &self,
        instance: &Value,
        plan: &Plan,
        set: &ConditionSet,
        state: InstanceState,
        now: &str,
    ) -> Value {
        let mut status = author_fields(&plan.status);
        if !plan.nodes.is_empty() {
            self.tell_nodes(&mut status, instance, plan, now);
        }
        let mut state = state;
        let builtins: Vec<&Condition> = set.own_conditions().collect();
        let conditions = if self.has_author_conditions() {
            let authored = self.author_conditions(instance, plan, &builtins);
            if authored.degraded.is_some() {
                state = InstanceState::Error;
            }
            let previous = wire_conditions(instance);
            let mut stamped: Vec<Condition> = authored
                .conditions
                .into_iter()
                .filter_map(|made| {
                    let status = ConditionStatus::parse(&made.status)?;
                    let since = previous
                        .iter()
                        .find(|old| old.kind == made.kind && old.status == status)
                        .and_then(|old| old.last_transition_time.clone());
                    Some(Condition {
                        kind: made.kind,
                        status,
                        reason: (!made.reason.is_empty()).then_some(made.reason),
                        message: (!made.message.is_empty()).then_some(made.message),
                        last_transition_time: Some(since.unwrap_or_else(|| now.to_owned())),
                        observed_generation: meta::generation(instance),
                    })
                })
                .collect();
            if authored.incomplete {
                keep_previous(&mut stamped, previous);
            }
            to_values(&stamped)
        } else {
            builtins.into_iter().map(Condition::to_value).collect()
        };
        status.insert("conditions".to_owned(), Value::Array(conditions));
        status.insert("state".to_owned(), json!(state.as_str()));
        Value::Object(status)
    }
}

/// The status of an instance whose graph is not to be had. Everything but the state, and kro's conditions, stays.
pub fn unresolved(
    graph: Option<&CompiledGraph>,
    instance: &Value,
    error: &str,
    now: &str,
) -> Value {
    let mut status = wire_status(instance);
    if !has_author_conditions(graph, instance) {
        let mut set = ConditionSet::open(&INSTANCE, instance, now);
        set.mark(Mark::fails(
            keys::CONDITION_GRAPH_RESOLVED,
            keys::REASON_RESOLUTION_FAILED,
            error,
        ));
        status.insert("conditions".to_owned(), Value::Array(set.to_values()));
    }
    status.insert("state".to_owned(), json!(InstanceState::Error.as_str()));
    Value::Object(status)
}

/// The status of an instance that is being deleted; the message says what it waits for (`deleting resources`, or
/// `deletion blocked: …`). The author's fields stay, and over the author's conditions goes kro's `ResourcesReady`. `left` are the uids
/// of the children that are there still.
pub fn deleting(
    graph: Option<&CompiledGraph>,
    instance: &Value,
    message: &str,
    left: &BTreeSet<&str>,
    now: &str,
) -> Value {
    let mut set = ConditionSet::open(&INSTANCE, instance, now);
    set.mark(Mark::waits(
        keys::CONDITION_RESOURCES_READY,
        keys::REASON_UNDER_DELETION,
        message,
    ));
    let mut status = wire_status(instance);
    if let Some(graph) = graph {
        graph.tell_left(&mut status, left);
    }
    let conditions = if has_author_conditions(graph, instance) {
        let mut conditions: Vec<Condition> = set
            .get(keys::CONDITION_RESOURCES_READY)
            .cloned()
            .into_iter()
            .collect();
        keep_previous(&mut conditions, wire_conditions(instance));
        to_values(&conditions)
    } else {
        set.own_conditions().map(Condition::to_value).collect()
    };
    status.insert("conditions".to_owned(), Value::Array(conditions));
    status.insert("state".to_owned(), json!(InstanceState::Deleting.as_str()));
    Value::Object(status)
}

fn managed() -> Mark {
    Mark::holds(
        keys::CONDITION_INSTANCE_MANAGED,
        keys::REASON_MANAGED,
        keys::MESSAGE_MANAGED,
    )
}

fn resolved() -> Mark {
    Mark::holds(
        keys::CONDITION_GRAPH_RESOLVED,
        keys::REASON_RESOLVED,
        keys::MESSAGE_RESOLVED,
    )
}

/// The author's fields; `conditions` and `state` are ours.
fn author_fields(status: &Value) -> Map<String, Value> {
    let fields = status.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| !matches!(name.as_str(), "conditions" | "state"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn wire_status(instance: &Value) -> Map<String, Value> {
    instance
        .get("status")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

fn wire_conditions(instance: &Value) -> Vec<Condition> {
    read_conditions(instance.pointer("/status/conditions"))
}

/// Without a graph the conditions themselves tell: kro's always have `InstanceManaged` among them.
fn has_author_conditions(graph: Option<&CompiledGraph>, instance: &Value) -> bool {
    if let Some(graph) = graph {
        return graph.has_author_conditions();
    }
    let conditions = wire_conditions(instance);
    !conditions.is_empty()
        && !conditions
            .iter()
            .any(|condition| condition.kind == keys::CONDITION_INSTANCE_MANAGED)
}

/// Keeps earlier conditions of types that are not there now.
fn keep_previous(conditions: &mut Vec<Condition>, previous: Vec<Condition>) {
    for old in previous {
        if !conditions
            .iter()
            .any(|condition| condition.kind == old.kind)
        {
            conditions.push(old);
        }
    }
}

fn to_values(conditions: &[Condition]) -> Vec<Value> {
    conditions.iter().map(Condition::to_value).collect()
}

#[cfg(test)]
mod tests;
