//! Collections: the objects of a forEach, one for each combination of its dimensions.
//!
//! The first dimension is the outermost; equal identities are refused; an empty list wants nothing, and is ready.
//!
//! Source: kro `pkg/runtime/collection.go`, `node_resolve.go`, `pkg/controller/instance/resources_collection.go`.

use std::collections::HashSet;
use std::sync::Arc;

use api::kro::keys;
use api::meta;
use dialect::quote;
use serde_json::Value;

use super::evaluate::{Evaluated, Failed, Local};
use super::node::{Planner, Pushed};
use super::run::{Outcome, Stop};
use super::{NodeReason, NodeState, ObjectRef, names};
use crate::graph::{Expression, Node};

// === impl Planner ===

impl<'a> Planner<'a> {
    pub(super) fn collection(&mut self, position: usize, node: &'a Node) -> Result<Outcome, Stop> {
        let mut objects = self.expand(node)?;
        let count = objects.len();
        self.runs[position].desired_count = Some(count);
        check_unique(node, &objects)?;
        for object in &mut objects {
            self.set_namespace(node, object)?;
            names::check(node, object)?;
            names::check_policy(node, object, self.input.settings)?;
        }
        let references: Vec<ObjectRef> = objects.iter().map(ObjectRef::of).collect();
        let observed = self.input.observed;
        let lives: Vec<Option<Arc<Value>>> = references
            .iter()
            .map(|reference| observed.get_child(reference).map(Arc::clone))
            .collect();
        for (reference, live) in references.iter().zip(&lives) {
            Self::check_not_terminating(node, reference, live.as_deref())?;
        }
        let mut own = Vec::with_capacity(count);
        let mut worst = Pushed::Settled;
        for (index, ((mut object, reference), live)) in
            objects.into_iter().zip(references).zip(lives).enumerate()
        {
            self.decorate_item(node, &mut object, (index, count), live.as_deref());
            let id = format!("{}-{index}", node.id);
            let (pushed, shown) = self.push_apply(node, id, reference, object, live);
            own.extend(shown);
            worst = match (worst, pushed) {
                (failed @ Pushed::Failed(..), _) => failed,
                (_, Pushed::Failed(reason, why)) => {
                    Pushed::Failed(reason, format!("collection item {index}: {why}"))
                }
                (Pushed::Changes, _) | (_, Pushed::Changes) => Pushed::Changes,
                (Pushed::Settled, Pushed::Settled) => Pushed::Settled,
            };
        }
        self.runs[position].observed = Some(own);
        if count == 0 {
            return Ok((NodeState::Synced, NodeReason::Ready, None));
        }
        Ok(self.state_after(position, node, worst))
    }

    /// Makes the objects of a collection.
    fn expand(&mut self, node: &'a Node) -> Result<Vec<Value>, Stop> {
        let mut shared = Vec::new();
        for field in node.fields.iter().filter(|field| !field.iterates) {
            let value = self
                .values
                .value(&field.expression, &self.runs)
                .map_err(|failed| match failed {
                    Failed::Pending(why) => Stop::Pending(format!(
                        "failed to evaluate expression: {why} (data pending)"
                    )),
                    Failed::Other(why) => {
                        Stop::Failed(format!("node {} base eval: {why}", quote(&node.id)))
                    }
                })?;
            shared.push((field, value));
        }
        let lists = self.dimensions(node)?;
        let combinations = self.combinations(node, &lists)?;
        let mut objects = Vec::with_capacity(combinations.len());
        for (index, iterators) in combinations.iter().enumerate() {
            let stop = |failed: Failed| match failed {
                Failed::Pending(why) => Stop::Pending(why),
                Failed::Other(why) => Stop::Failed(format!("node {}: {why}", quote(&node.id))),
            };
            let mut filled = self.values.fill(&node.template).map_err(stop)?;
            for (field, value) in &shared {
                self.values.put(&mut filled, field, value).map_err(stop)?;
            }
            for field in node.fields.iter().filter(|field| field.iterates) {
                let value = self.iteration_value(&field.expression, iterators)?;
                self.values.put(&mut filled, field, &value).map_err(stop)?;
            }
            let mut object = filled.finish();
            meta::set_label(
                &mut object,
                keys::LABEL_COLLECTION_INDEX,
                &index.to_string(),
            );
            objects.push(object);
        }
        Ok(objects)
    }

    fn iteration_value(
        &self,
        expression: &Expression,
        iterators: &[(&str, &Value)],
    ) -> Result<Evaluated, Stop> {
        self.values
            .evaluate(expression, &self.runs, Local::Iterators(iterators))
            .map_err(|failed| match failed {
                Failed::Pending(_) => Stop::Pending("data pending".to_owned()),
                Failed::Other(why) => {
                    let text = quote(expression.program.source());
                    Stop::Failed(format!("collection iteration eval {text}: {why}"))
                }
            })
    }

    /// Evaluates the lists of a forEach. After an empty one the rest does not matter.
    fn dimensions(&mut self, node: &'a Node) -> Result<Vec<Vec<Value>>, Stop> {
        let mut lists = Vec::with_capacity(node.for_each.len());
        for dimension in &node.for_each {
            let text = quote(&dimension.expression.user_text);
            let list = match self.values.value(&dimension.expression, &self.runs) {
                Ok(Evaluated::Value(Value::Array(items))) => Ok(items),
                Ok(Evaluated::Value(Value::Null)) => {
                    Err(format!("expression {text} returned null, expected list"))
                }
                Ok(_) => Err(format!("expression {text} did not return a list")),
                Err(Failed::Pending(_)) => return Err(Stop::Pending("data pending".to_owned())),
                Err(Failed::Other(why)) => Err(why),
            };
            let list = list.map_err(|why| {
                Stop::Failed(format!("forEach {}: {why}", quote(&dimension.name)))
            })?;
            let is_empty = list.is_empty();
            lists.push(list);
            if is_empty {
                break;
            }
        }
        Ok(lists)
    }

    fn combinations<'l>(
        &self,
        node: &'l Node,
        lists: &'l [Vec<Value>],
    ) -> Result<Vec<Vec<(&'l str, &'l Value)>>, Stop> {
        if lists.iter().any(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let size_max = self.input.settings.collection_size_max;
        let mut total: usize = 1;
        for list in lists {
            total = total.saturating_mul(list.len());
            if total > size_max {
                return Err(Stop::Failed(format!(
                    "collection size of {total} is over the maximum collection size of {size_max}"
                )));
            }
        }
        let mut combinations: Vec<Vec<(&str, &Value)>> = vec![Vec::new()];
        for (dimension, list) in node.for_each.iter().zip(lists) {
            let mut longer = Vec::with_capacity(combinations.len() * list.len());
            for combination in &combinations {
                for value in list {
                    let mut combination = combination.clone();
                    combination.push((dimension.name.as_str(), value));
                    longer.push(combination);
                }
            }
            combinations = longer;
        }
        Ok(combinations)
    }
}

/// Refuses two objects of one name and namespace, as the template gives them.
fn check_unique(node: &Node, objects: &[Value]) -> Result<(), Stop> {
    let mut seen = HashSet::with_capacity(objects.len());
    for reference in objects.iter().map(ObjectRef::of) {
        if let Some(ObjectRef {
            group,
            kind,
            namespace,
            name,
        }) = seen.replace(reference)
        {
            let version = &node.gvk.version;
            return Err(Stop::Failed(format!(
                "node {} identity collision: duplicate identity: {group}/{version}/{kind}/{namespace}/{name}",
                quote(&node.id)
            )));
        }
    }
    Ok(())
}
