//! The status: the author's fields and conditions, as far as what was seen gives them.
//!
//! A field whose expression wants for data vanishes; nothing old is kept. A field whose expression fails otherwise
//! vanishes too, and the plan says why (kro writes no status at all then, and the instance keeps an old one for good).
//!
//! Source: kro `pkg/runtime/node_resolve.go` softResolve, `pkg/runtime/conditions.go`.

use std::sync::Arc;

use dialect::{quote, words};
use expressions::{Bindings, Budget, ErrorClass};
use serde_json::{Map, Value, json};

use super::Plan;
use super::evaluate::{ASIDE_STEPS_MAX, Evaluated, Failed, Values, bind_objects, without_status};
use super::run::Run;
use crate::conditions::Condition;
use crate::field_path;
use crate::graph::{CompiledGraph, Expression, Reference};

/// Projects the author's fields; gives them with the first failure that is no want of data.
pub(super) fn status(
    graph: &CompiledGraph,
    values: &mut Values<'_>,
    runs: &[Run],
) -> (Value, Option<String>) {
    let mut status = Value::Object(Map::new());
    let mut error = None;
    for field in &graph.instance.fields {
        let written = match values.value(&field.expression, runs) {
            Ok(Evaluated::Value(value)) => field_path::upsert(&mut status, &field.segments, value)
                .map_err(|why| format!("failed to set status field {}: {why}", field.path)),
            Ok(Evaluated::Omit) | Err(Failed::Pending(_)) => Ok(()),
            Err(Failed::Other(why)) => Err(why),
        };
        if let Err(why) = written {
            error.get_or_insert(why);
        }
    }
    (status, error)
}

/// Projects the author's fields where nothing was looked at.
pub(super) fn blind_status(graph: &CompiledGraph, instance: &Value) -> Value {
    let runs = vec![Run::default(); graph.nodes.len()];
    status(
        graph,
        &mut Values::new(graph, instance, ASIDE_STEPS_MAX),
        &runs,
    )
    .0
}

/// What the author's conditions came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthorConditions {
    /// Type, status, reason and message of each, in order.
    pub(crate) conditions: Vec<Authored>,
    /// Some entry gave nothing, so that what was written before stays.
    pub(crate) incomplete: bool,
    /// Some entry failed, other than for want of data.
    pub(crate) degraded: Option<String>,
}

/// One condition that an expression made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Authored {
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Evaluates the author's conditions.
pub(super) fn author_conditions(
    graph: &CompiledGraph,
    instance: &Value,
    plan: &Plan,
    builtins: &[&Condition],
) -> AuthorConditions {
    let schema = schema_with(instance, builtins);
    let mut out = AuthorConditions::default();
    let mut failures = Vec::new();
    let mut budget = Budget::steps(ASIDE_STEPS_MAX);
    for expression in &graph.instance.conditions {
        match evaluate(
            (graph, &schema, &plan.observations),
            expression,
            &mut budget,
        ) {
            Ok(made) => out.conditions.extend(made),
            Err(Failed::Pending(_)) => out.incomplete = true,
            Err(Failed::Other(why)) => {
                failures.push(format!("{}: {why}", quote(&expression.user_text)));
            }
        }
    }
    let duplicates = drop_duplicates(&mut out.conditions);
    if !duplicates.is_empty() {
        failures.push(format!(
            "duplicate condition type(s) {} dropped",
            words(&duplicates)
        ));
    }
    if !failures.is_empty() {
        out.incomplete = true;
        out.degraded = Some(format!(
            "author condition evaluation degraded: {}",
            failures.join("; ")
        ));
    }
    out
}

/// The instance with kro's own conditions in place of its status.
fn schema_with(instance: &Value, builtins: &[&Condition]) -> Value {
    let conditions: Vec<Value> = builtins
        .iter()
        .map(|condition| {
            json!({
                "type": condition.kind,
                "status": condition.status.as_str(),
                "reason": condition.reason.as_deref().unwrap_or_default(),
                "message": condition.message.as_deref().unwrap_or_default(),
            })
        })
        .collect();
    let mut schema = without_status(instance).into_owned();
    schema["status"] = json!({"conditions": conditions});
    schema
}

fn evaluate(
    (graph, schema, observations): (&CompiledGraph, &Value, &[Option<Vec<Arc<Value>>>]),
    expression: &Expression,
    budget: &mut Budget,
) -> Result<Vec<Authored>, Failed> {
    let mut bindings = Bindings::new();
    for reference in expression.references.iter() {
        match reference {
            Reference::Schema => {
                bindings.typed("schema", schema, &graph.instance.declared);
            }
            Reference::Node(position) => {
                if let (Some(node), Some(Some(observed))) =
                    (graph.nodes.get(*position), observations.get(*position))
                {
                    bind_objects(&mut bindings, node, observed);
                }
            }
            Reference::Runtime | Reference::Each | Reference::Iterator(_) => {}
        }
    }
    let value = expression
        .program
        .evaluate_within(&bindings, budget)
        .map_err(|error| {
            let text = error.to_string();
            if error.class == ErrorClass::DataPending {
                Failed::Pending(text)
            } else {
                Failed::Other(text)
            }
        })?;
    let text = quote(&expression.user_text);
    let type_name = value.type_name();
    let json = value
        .to_json()
        .map_err(|error| Failed::Other(error.to_string()))?;
    match json {
        Value::Array(items) => items
            .iter()
            .map(|item| {
                Authored::read(item).ok_or_else(|| {
                    Failed::Other(format!("condition {text} list element is not a Condition"))
                })
            })
            .collect(),
        other => Authored::read(&other)
            .map(|made| vec![made])
            .ok_or_else(|| {
                Failed::Other(format!(
                    "condition {text} must return a Condition or list(Condition), got {type_name}"
                ))
            }),
    }
}

// === impl Authored ===

impl Authored {
    fn read(value: &Value) -> Option<Self> {
        let map = value.as_object()?;
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            kind: text("type")?,
            status: text("status")?,
            reason: text("reason")?,
            message: text("message")?,
        })
    }
}

/// Drops every condition whose type came up more than once; gives those types, sorted.
fn drop_duplicates(conditions: &mut Vec<Authored>) -> Vec<String> {
    let mut duplicates: Vec<String> = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let again = conditions
            .iter()
            .skip(index + 1)
            .any(|other| other.kind == condition.kind);
        if again && !duplicates.contains(&condition.kind) {
            duplicates.push(condition.kind.clone());
        }
    }
    conditions.retain(|condition| !duplicates.contains(&condition.kind));
    duplicates.sort();
    duplicates
}
