//! Readiness: whether what was seen of a node is enough for those that depend on it.
//!
//! A collection is ready when as many objects were seen as are wanted and each is ready; `each` is one of them. An external
//! collection sees itself under its own id, as a whole. (kro binds `each` there too, while its compiler permits the own
//! id only, so that such a readyWhen never comes true; here it works as the compiler says.)
//!
//! Source: kro `pkg/runtime/node_readiness.go`.

use std::sync::Arc;

use dialect::quote;
use serde_json::Value;

use super::evaluate::{Failed, Local};
use super::node::Planner;
use crate::graph::{Expression, Node, NodeKind};

const WAITING: &str = "waiting for readiness";

// === impl Planner ===

impl Planner<'_> {
    /// Returns whether what was seen of a node is ready.
    pub(super) fn observed_readiness(&self, position: usize) -> Result<(), Failed> {
        let node = &self.graph.nodes[position];
        match node.kind {
            NodeKind::Resource | NodeKind::External => self.single_readiness(position, node),
            NodeKind::Collection => self.collection_readiness(position, node),
            NodeKind::ExternalCollection => self.external_readiness(position, node),
        }
    }

    fn single_readiness(&self, position: usize, node: &Node) -> Result<(), Failed> {
        let observed = self.runs[position].observed.as_deref().unwrap_or_default();
        let Some(object) = observed.first() else {
            return Err(waiting(format!(
                "node {}: no observed state: {WAITING}",
                quote(&node.id)
            )));
        };
        for expression in &node.ready_when {
            let result = self.values.boolean_of(expression, &node.id, object);
            check(result, expression, |text| {
                format!(
                    "node {}: failed to evaluate readyWhen expression: {text}",
                    quote(&node.id)
                )
            })?;
        }
        Ok(())
    }

    fn collection_readiness(&self, position: usize, node: &Node) -> Result<(), Failed> {
        let (run, id) = (&self.runs[position], quote(&node.id));
        let Some(desired) = run.desired_count else {
            return Err(waiting(format!(
                "node {id}: collection not computed ({WAITING})"
            )));
        };
        if desired == 0 {
            return Ok(());
        }
        let observed = run.observed.as_deref().unwrap_or_default();
        if observed.len() < desired {
            let count = observed.len();
            return Err(waiting(format!(
                "node {id}: collection not ready: observed {count} but desired {desired} ({WAITING})"
            )));
        }
        for (index, object) in observed.iter().enumerate() {
            for expression in &node.ready_when {
                let result = self.values.boolean_of(expression, "each", object);
                check(result, expression, |text| {
                    format!("node {id}: failed to evaluate readyWhen {text} (item {index})")
                })?;
            }
        }
        Ok(())
    }

    fn external_readiness(&self, position: usize, node: &Node) -> Result<(), Failed> {
        let id = quote(&node.id);
        let Some(observed) = self.runs[position].observed.as_deref() else {
            return Err(waiting(format!("node {id}: no observed state: {WAITING}")));
        };
        if node.ready_when.is_empty() || observed.is_empty() {
            return Ok(());
        }
        let list: Value = observed.iter().map(Arc::as_ref).cloned().collect();
        for expression in &node.ready_when {
            let result = self
                .values
                .evaluate(expression, &[], Local::Object(&node.id, &list))
                .and_then(|value| super::evaluate::truth(&value, expression));
            check(result, expression, |text| {
                format!("node {id}: failed to evaluate readyWhen expression: {text}")
            })?;
        }
        Ok(())
    }
}

fn waiting(why: String) -> Failed {
    Failed::Pending(why)
}

/// Words the answer of one readyWhen; `context` takes the quoted expression.
fn check(
    result: Result<bool, Failed>,
    expression: &Expression,
    context: impl Fn(&str) -> String,
) -> Result<(), Failed> {
    let text = quote(&expression.user_text);
    match result {
        Ok(true) => Ok(()),
        Ok(false) => Err(waiting(format!(
            "readyWhen condition evaluated to false: {text} ({WAITING})"
        ))),
        Err(Failed::Pending(_)) => Err(waiting(format!("{} ({WAITING})", context(&text)))),
        Err(Failed::Other(why)) => Err(Failed::Other(format!("{} ({why})", context(&text)))),
    }
}
