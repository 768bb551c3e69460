//! The author's conditions: `status.conditions`, a list of expressions that make conditions.
//!
//! Source: kro `pkg/graph/builder.go` buildConditions, `pkg/graph/conditions.go`.

use std::collections::BTreeSet;

use dialect::{quote, value::type_name};
use expressions::{DeclType, RuntimeCall};
use serde_json::{Map, Value};

use super::expression::Compiler;
use crate::conditions::{ConditionStatus, INSTANCE};
use crate::declarations::runtime_name;
use crate::graph::Expression;
use crate::scalar::{self, Source};

/// The type of what `runtime.newCondition` makes.
const CONDITION_TYPE: &str = "kro.run.Condition";

/// Takes the list out of the status block.
pub(super) fn take(block: &mut Map<String, Value>) -> Result<Vec<String>, String> {
    let Some(raw) = block.remove("conditions") else {
        return Ok(Vec::new());
    };
    let Value::Array(items) = raw else {
        return Err(format!(
            "status.conditions must be a list, got {}",
            type_name(&raw)
        ));
    };
    items
        .iter()
        .enumerate()
        .map(|(index, item)| match item {
            Value::String(text) => Ok(text.clone()),
            other => Err(format!(
                "status.conditions[{index}] must be a CEL expression string, got {}",
                type_name(other)
            )),
        })
        .collect()
}

/// Compiles the list.
pub(super) fn compile(
    compiler: &mut Compiler<'_>,
    texts: &[String],
) -> Result<Vec<Expression>, String> {
    let sources = texts
        .iter()
        .map(|text| scalar::unwrap(text))
        .collect::<Result<Vec<Source>, String>>()
        .map_err(|error| format!("invalid conditions block: {error}"))?;
    for source in &sources {
        let allowed = |name: &str| matches!(name, "schema" | "runtime") || compiler.is_node(name);
        compiler
            .inspector
            .inspect_restricted(source, &allowed)
            .map_err(|error| format!("condition {}: {error}", quote(source.user_text())))?;
    }
    let mut conditions = Vec::with_capacity(sources.len());
    for source in &sources {
        let text = quote(source.user_text());
        let (expression, output) = compiler
            .compile(source, &[])
            .map_err(|error| format!("failed to type-check condition {text}: {error}"))?;
        check_output(&output).map_err(|error| format!("condition {text}: {error}"))?;
        conditions.push(expression);
    }
    check_literals(&conditions)?;
    Ok(conditions)
}

fn check_output(output: &DeclType) -> Result<(), String> {
    let element = match output {
        DeclType::List(list) => &list.element,
        other => other,
    };
    if matches!(element, DeclType::Dyn | DeclType::Param(_))
        || *element == DeclType::Opaque(CONDITION_TYPE)
    {
        return Ok(());
    }
    Err(format!(
        "condition expressions must return runtime.newCondition(...) or a list of them, got {}",
        quote(&runtime_name(output))
    ))
}

/// Checks what is literal in calls of `runtime`: no type in two entries, only kro's own types looked up in `schema`, a
/// status that is one, a type that is not empty.
fn check_literals(conditions: &[Expression]) -> Result<(), String> {
    let calls: Vec<Vec<RuntimeCall>> = conditions
        .iter()
        .map(|condition| condition.program.runtime_calls())
        .collect();
    let mut declared = BTreeSet::new();
    for calls in &calls {
        let types: BTreeSet<&str> = calls.iter().filter_map(new_type).collect();
        for kind in types {
            if !declared.insert(kind) {
                return Err(format!(
                    "condition type {} is declared by more than one conditions entry",
                    quote(kind)
                ));
            }
        }
    }
    for (condition, calls) in conditions.iter().zip(&calls) {
        for call in calls {
            check_call(call, &declared).map_err(|error| {
                format!(
                    "{error} in expression {}",
                    quote(condition.program.source())
                )
            })?;
        }
    }
    Ok(())
}

fn new_type(call: &RuntimeCall) -> Option<&str> {
    match call {
        RuntimeCall::NewCondition { kind, .. } => kind.as_deref(),
        RuntimeCall::Condition { .. } => None,
    }
}

fn check_call(call: &RuntimeCall, declared: &BTreeSet<&str>) -> Result<(), String> {
    match call {
        RuntimeCall::NewCondition { kind, status } => {
            if let Some(status) = status
                .as_deref()
                .filter(|status| ConditionStatus::parse(status).is_none())
            {
                return Err(format!(
                    "runtime.newCondition: status must be one of True, False, Unknown (got {})",
                    quote(status)
                ));
            }
            if kind.as_deref() == Some("") {
                return Err("runtime.newCondition: type must not be empty".to_owned());
            }
            Ok(())
        }
        RuntimeCall::Condition {
            of_schema: true,
            kind: Some(kind),
        } if !INSTANCE.has(kind) => {
            let kind_text = quote(kind);
            Err(if declared.contains(kind.as_str()) {
                format!(
                    "runtime.condition(schema, {kind_text}): custom conditions cannot reference each other"
                )
            } else {
                format!(
                    "runtime.condition(schema, {kind_text}): unknown condition type; only kro's built-in types \
                     (InstanceManaged, GraphResolved, ResourcesReady, Ready) can be read from schema"
                )
            })
        }
        RuntimeCall::Condition { .. } => Ok(()),
    }
}
