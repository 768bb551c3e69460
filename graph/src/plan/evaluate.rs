//! The values of expressions within one plan.
//!
//! An expression that several places share is evaluated once; only what succeeded is kept, because a node that was not
//! there may be there later in the same walk. The instance is seen without its status. Objects are bound with their
//! declared types, so that dates are timestamps and the data of secrets bytes; readiness sees the plain object, as in kro.
//!
//! Source: kro `pkg/runtime/eval.go`, `state.go`, `node_context.go`, `pkg/runtime/resolver/resolver.go`.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use api::growth::Growth;
use dialect::quote;
use expressions::{Bindings, Budget, ErrorClass, EvaluateError};
use serde_json::Value;

use super::run::Run;
use crate::field_path;
use crate::graph::{CompiledGraph, Expression, Field, Reference};

/// The steps of one evaluation. kro has no limit; here a thousand objects, the most a collection may have, can still be
/// held against each other at ten steps a pair.
pub(super) const EVALUATION_STEPS_MAX: u64 = 10_000_000;
/// The steps of all evaluations of one plan: two of the dearest, about a second.
pub(crate) const PLAN_STEPS_MAX: u64 = 20_000_000;
/// The steps of what is evaluated beside a plan, on the thread that asks: conditions, and a status where nothing was seen.
pub(super) const ASIDE_STEPS_MAX: u64 = 1_000_000;
/// The memory of all objects of one plan: a thousand, the most a collection may have, of 100 KB each as a tree, which is
/// about 10 KB as text.
const OBJECTS_BYTES_MAX: u64 = 96 * 1024 * 1024;

/// Why an expression has no value.
#[derive(Clone, Debug)]
pub(super) enum Failed {
    /// Something that it reads is not there yet.
    Pending(String),
    /// It does not fit the data.
    Other(String),
}

/// The value of an expression in a template.
#[derive(Clone, Debug)]
pub(super) enum Evaluated {
    Value(Value),
    /// The field, or the element, is to be left out.
    Omit,
}

/// The values of one plan.
pub(super) struct Values<'a> {
    graph: &'a CompiledGraph,
    instance: Cow<'a, Value>,
    slots: Vec<Option<Evaluated>>,
    steps_left: Cell<u64>,
    is_hopeless: Cell<bool>,
    growth: RefCell<Growth>,
}

/// Names that one evaluation sees beside the nodes.
#[derive(Clone, Copy)]
pub(super) enum Local<'v> {
    None,
    /// One object, under `each` or the id of its node.
    Object(&'v str, &'v Value),
    /// The values of the iterators, in order, with their names.
    Iterators(&'v [(&'v str, &'v Value)]),
}

// === impl Values ===

impl<'a> Values<'a> {
    pub(super) fn new(graph: &'a CompiledGraph, instance: &'a Value, steps_max: u64) -> Self {
        let instance = if graph.instance.read_whole {
            without_status(instance)
        } else {
            Cow::Borrowed(instance)
        };
        Self {
            graph,
            instance,
            slots: vec![None; graph.expression_count],
            steps_left: Cell::new(steps_max),
            is_hopeless: Cell::new(false),
            growth: RefCell::new(Growth::new(OBJECTS_BYTES_MAX)),
        }
    }

    /// Whether the steps of the plan are used up.
    pub(super) fn are_exhausted(&self) -> bool {
        self.steps_left.get() == 0
    }

    /// Whether an expression failed in a way that the same data bring about again.
    pub(super) fn are_hopeless(&self) -> bool {
        self.is_hopeless.get()
    }

    /// Begins an object from its template.
    pub(super) fn fill(&self, template: &Value) -> Result<Filled<'a>, Failed> {
        self.charge(template)?;
        Ok(Filled::new(template))
    }

    /// Puts a value into the place of its expression in an object.
    pub(super) fn put(
        &self,
        filled: &mut Filled<'a>,
        field: &'a Field,
        value: &Evaluated,
    ) -> Result<(), Failed> {
        if let Evaluated::Value(value) = value {
            self.charge(value)?;
        }
        filled.put(field, value.clone());
        Ok(())
    }

    fn charge(&self, value: &Value) -> Result<(), Failed> {
        let charged = self.growth.borrow_mut().charge_value(value);
        charged.map_err(|error| {
            self.is_hopeless.set(true);
            let bytes_max = error.bytes_max;
            Failed::Other(format!(
                "the objects of the instance would take more than {bytes_max} bytes of memory together"
            ))
        })
    }

    /// Evaluates an expression that every place sees alike.
    pub(super) fn value(
        &mut self,
        expression: &Expression,
        runs: &[Run],
    ) -> Result<Evaluated, Failed> {
        if let Some(Some(value)) = self.slots.get(expression.slot) {
            return Ok(value.clone());
        }
        let value = self.evaluate(expression, runs, Local::None)?;
        if let Some(slot) = self.slots.get_mut(expression.slot) {
            *slot = Some(value.clone());
        }
        Ok(value)
    }

    /// Evaluates an expression before its turn: where that fails, it is as if it had not been asked.
    pub(super) fn early(&mut self, expression: &Expression, runs: &[Run]) -> Option<Evaluated> {
        let was_hopeless = self.is_hopeless.get();
        let value = self.value(expression, runs).ok();
        self.is_hopeless.set(was_hopeless);
        value
    }

    /// Evaluates an expression to true or false; null is false.
    pub(super) fn boolean(
        &mut self,
        expression: &Expression,
        runs: &[Run],
    ) -> Result<bool, Failed> {
        let value = self.value(expression, runs)?;
        truth(&value, expression)
    }

    /// Evaluates an expression to true or false for one object, which it sees without types.
    pub(super) fn boolean_of(
        &self,
        expression: &Expression,
        name: &str,
        object: &Value,
    ) -> Result<bool, Failed> {
        let value = self.evaluate(expression, &[], Local::Object(name, object))?;
        truth(&value, expression)
    }

    /// Evaluates an expression with local names; the value is not kept.
    pub(super) fn evaluate(
        &self,
        expression: &Expression,
        runs: &[Run],
        local: Local<'_>,
    ) -> Result<Evaluated, Failed> {
        let result = self.bind_and_run(expression, runs, local);
        result.map_err(|(verb, error)| {
            let text = format!("{verb} {}: {error}", quote(&expression.user_text));
            match error.class {
                ErrorClass::DataPending => Failed::Pending(text),
                ErrorClass::Cost | ErrorClass::Other => {
                    self.is_hopeless.set(true);
                    Failed::Other(text)
                }
            }
        })
    }

    fn bind_and_run(
        &self,
        expression: &Expression,
        runs: &[Run],
        local: Local<'_>,
    ) -> Result<Evaluated, (&'static str, EvaluateError)> {
        let mut bindings = Bindings::new();
        match local {
            Local::None => {}
            Local::Object(name, object) => {
                bindings.json(name, object);
            }
            Local::Iterators(iterators) => {
                for (name, value) in iterators {
                    bindings.json(name, value);
                }
            }
        }
        for reference in expression.references.iter() {
            match reference {
                Reference::Schema => {
                    bindings.typed("schema", &self.instance, &self.graph.instance.declared);
                }
                Reference::Node(position) => bind_node(&mut bindings, self.graph, runs, *position),
                Reference::Each | Reference::Iterator(_) | Reference::Runtime => {}
            }
        }
        let granted = self.steps_left.get().min(EVALUATION_STEPS_MAX);
        let mut budget = Budget::steps(granted);
        let value = expression.program.evaluate_within(&bindings, &mut budget);
        let used = granted.saturating_sub(budget.left());
        self.steps_left
            .set(self.steps_left.get().saturating_sub(used));
        let value = value.map_err(|error| ("eval", error))?;
        if value.is_omit() {
            return Ok(Evaluated::Omit);
        }
        value
            .to_json()
            .map(Evaluated::Value)
            .map_err(|error| ("convert", error))
    }
}

/// Binds what was seen of a node: its object, or for a list all of them. What was not seen is not bound.
pub(super) fn bind_node<'v>(
    bindings: &mut Bindings<'v>,
    graph: &'v CompiledGraph,
    runs: &'v [Run],
    position: usize,
) {
    let (Some(node), Some(observed)) = (
        graph.nodes.get(position),
        runs.get(position).and_then(|run| run.observed.as_deref()),
    ) else {
        return;
    };
    bind_objects(bindings, node, observed);
}

/// Binds the objects of a node under its id.
pub(super) fn bind_objects<'v>(
    bindings: &mut Bindings<'v>,
    node: &'v crate::graph::Node,
    observed: &'v [Arc<Value>],
) {
    if node.kind.is_list() {
        bindings.objects(&node.id, observed.iter().map(Arc::as_ref), &node.declared);
    } else if let Some(object) = observed.first() {
        bindings.typed(&node.id, object, &node.declared);
    }
}

/// The instance as expressions see it.
pub(super) fn without_status(instance: &Value) -> Cow<'_, Value> {
    let Some(map) = instance
        .as_object()
        .filter(|map| map.contains_key("status"))
    else {
        return Cow::Borrowed(instance);
    };
    let without = map.iter().filter(|(name, _)| *name != "status");
    Cow::Owned(Value::Object(
        without
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    ))
}

pub(super) fn truth(value: &Evaluated, expression: &Expression) -> Result<bool, Failed> {
    match value {
        Evaluated::Value(Value::Bool(value)) => Ok(*value),
        Evaluated::Value(Value::Null) => Ok(false),
        _ => Err(Failed::Other(format!(
            "expression {} did not return bool",
            quote(&expression.user_text)
        ))),
    }
}

/// A template that is being filled in.
pub(super) struct Filled<'a> {
    object: Value,
    omitted: Vec<&'a Field>,
}

// === impl Filled ===

impl<'a> Filled<'a> {
    fn new(template: &Value) -> Self {
        Self {
            object: template.clone(),
            omitted: Vec::new(),
        }
    }

    /// Puts a value in the place of its expression.
    fn put(&mut self, field: &'a Field, value: Evaluated) {
        match value {
            Evaluated::Value(value) => {
                field_path::replace(&mut self.object, &field.segments, value);
            }
            Evaluated::Omit => self.omitted.push(field),
        }
    }

    /// Takes out what is to be left out; from the last place on, so that the positions in lists stay true.
    pub(super) fn finish(mut self) -> Value {
        for field in self.omitted.iter().rev() {
            field_path::remove(&mut self.object, &field.segments);
        }
        self.object
    }
}
