//! External references: objects that are read and never written.
//!
//! A plan names what is to be read; the shell reads and watches it, and answers. Until there is an answer the plan is not
//! the last word.
//!
//! Source: kro `pkg/controller/instance/resources_external.go`.

use std::sync::Arc;

use api::meta;
use api::selector::{LabelSelector, LabelSelectorRequirement, Selector};
use dialect::quote;
use serde_json::Value;

use super::evaluate::Failed;
use super::node::Planner;
use super::run::{NAMELESS, Outcome, Stop};
use super::wanted::{Target, Wanted};
use super::{NodeReason, NodeState, names};
use crate::graph::Node;

// === impl Planner ===

impl<'a> Planner<'a> {
    pub(super) fn external(&mut self, position: usize, node: &'a Node) -> Result<Outcome, Stop> {
        let mut object = self.resolve_template(node)?;
        self.set_namespace(node, &mut object)?;
        names::check(node, &object)?;
        let name = meta::name(&object);
        if name.is_empty() {
            let (gvk, namespace) = (&node.gvk, meta::namespace(&object));
            return Err(Stop::Failed(format!(
                "external ref get {}/{}, Kind={} {namespace}/: {NAMELESS}",
                gvk.group, gvk.version, gvk.kind
            )));
        }
        let target = Target::Name(name.to_owned());
        let wanted = wanted(node, meta::namespace(&object), target);
        self.runs[position].desired_count = Some(1);
        if let Some(refused) = self.unreadable(node, &wanted) {
            return Ok(refused);
        }
        let found = self
            .input
            .observed
            .get_external(&wanted)
            .map(|found| found.first().map(Arc::clone));
        self.wanted.push(wanted);
        let id = quote(&node.id);
        match found {
            None => {
                self.incomplete = true;
                Ok((
                    NodeState::WaitingForReadiness,
                    NodeReason::NotReadYet,
                    Some(format!("waiting for external reference {id}: not read yet")),
                ))
            }
            Some(None) => Ok((
                NodeState::WaitingForReadiness,
                NodeReason::NotFound,
                Some(format!("waiting for external reference {id}: not found")),
            )),
            Some(Some(object)) => {
                self.runs[position].observed = Some(vec![object]);
                self.external_state(position, &format!("waiting for external reference {id}"))
            }
        }
    }

    pub(super) fn external_collection(
        &mut self,
        position: usize,
        node: &'a Node,
    ) -> Result<Outcome, Stop> {
        let object = self.resolve_template(node)?;
        names::check(node, &object)?;
        let selector = resolve_selector(&node.id, &object).map_err(Stop::Failed)?;
        let namespace = if node.namespaced {
            meta::namespace(&object)
        } else {
            ""
        };
        let wanted = wanted(node, namespace, Target::Selector(selector.to_string()));
        if let Some(refused) = self.unreadable(node, &wanted) {
            return Ok(refused);
        }
        let found = self.input.observed.get_external(&wanted).cloned();
        self.wanted.push(wanted);
        let what = format!("waiting for external collection {}", quote(&node.id));
        match found {
            None => {
                self.incomplete = true;
                Ok((
                    NodeState::WaitingForReadiness,
                    NodeReason::NotReadYet,
                    Some(format!("{what}: not read yet")),
                ))
            }
            Some(found) => {
                self.runs[position].desired_count = Some(found.len());
                self.runs[position].observed = Some(found);
                self.external_state(position, &what)
            }
        }
    }

    /// Reports that a reference cannot be read, if so; nothing is pruned meanwhile.
    fn unreadable(&mut self, node: &Node, wanted: &Wanted) -> Option<Outcome> {
        let reason = self.input.observed.get_external_failure(wanted)?;
        let gvk = &node.gvk;
        let place = match &wanted.target {
            Target::Name(name) => format!("{}/{name}", wanted.namespace),
            Target::Selector(selector) => format!("{}/{selector}", wanted.namespace),
        };
        let why = format!(
            "external ref get {}/{}, Kind={} {place}: {reason}",
            gvk.group, gvk.version, gvk.kind
        );
        self.incomplete = true;
        self.wanted.push(wanted.clone());
        Some((NodeState::Error, NodeReason::Unreadable, Some(why)))
    }

    fn external_state(&self, position: usize, what: &str) -> Result<Outcome, Stop> {
        match self.readiness(position) {
            Ok(()) => Ok((NodeState::Synced, NodeReason::Ready, None)),
            Err(Failed::Pending(why)) => Ok((
                NodeState::WaitingForReadiness,
                NodeReason::ReadyWhenNotTrue,
                Some(format!("{what}: {why}")),
            )),
            Err(Failed::Other(why)) => Err(Stop::Failed(why)),
        }
    }
}

fn wanted(node: &Node, namespace: &str, target: Target) -> Wanted {
    Wanted {
        node: Arc::clone(&node.id),
        gvk: node.gvk.clone(),
        gvr: node.gvr.clone(),
        namespace: namespace.to_owned(),
        target,
    }
}

/// Reads the selector of a resolved reference. What is no map selects everything; a map is read strictly, because a key
/// that is misspelt and dropped would select everything too. Keys match whatever their case, as Go reads JSON.
fn resolve_selector(id: &str, object: &Value) -> Result<Selector, String> {
    let Some(map @ Value::Object(_)) = object.pointer("/metadata/selector") else {
        return Ok(Selector::everything());
    };
    let selector = decode_selector(map)
        .map_err(|error| format!("failed to convert selector for {id}: {error}"))?;
    selector
        .to_selector()
        .map_err(|error| format!("invalid label selector for {id}: {error}"))
}

fn decode_selector(value: &Value) -> Result<LabelSelector, String> {
    let mut selector = LabelSelector::default();
    for (key, value) in value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
    {
        match key.to_ascii_lowercase().as_str() {
            "matchlabels" => {
                let labels = value.as_object().ok_or_else(|| {
                    wrong(value, "LabelSelector.matchLabels", "map[string]string")
                })?;
                for (key, value) in labels {
                    let text = match value {
                        Value::Null => "",
                        other => text(other, "LabelSelector.matchLabels")?,
                    };
                    selector.match_labels.insert(key.clone(), text.to_owned());
                }
            }
            "matchexpressions" => {
                let items = value.as_array().ok_or_else(|| {
                    wrong(
                        value,
                        "LabelSelector.matchExpressions",
                        "[]v1.LabelSelectorRequirement",
                    )
                })?;
                for item in items {
                    selector.match_expressions.push(decode_requirement(item)?);
                }
            }
            _ => return Err(format!("json: unknown field {}", quote(key))),
        }
    }
    Ok(selector)
}

fn decode_requirement(value: &Value) -> Result<LabelSelectorRequirement, String> {
    const PLACE: &str = "LabelSelector.matchExpressions";
    let map = value
        .as_object()
        .ok_or_else(|| wrong(value, PLACE, "v1.LabelSelectorRequirement"))?;
    let mut requirement = LabelSelectorRequirement::default();
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        match key.to_ascii_lowercase().as_str() {
            "key" => {
                text(value, "LabelSelector.matchExpressions.key")?.clone_into(&mut requirement.key);
            }
            "operator" => {
                text(value, "LabelSelector.matchExpressions.operator")?
                    .clone_into(&mut requirement.operator);
            }
            "values" => {
                let place = "LabelSelector.matchExpressions.values";
                let items = value
                    .as_array()
                    .ok_or_else(|| wrong(value, place, "[]string"))?;
                for item in items {
                    requirement.values.push(text(item, place)?.to_owned());
                }
            }
            _ => return Err(format!("json: unknown field {}", quote(key))),
        }
    }
    Ok(requirement)
}

fn text<'v>(value: &'v Value, place: &str) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| wrong(value, place, "string"))
}

fn wrong(value: &Value, place: &str, wanted: &str) -> String {
    let word = dialect::json::type_word(value);
    format!("json: cannot unmarshal {word} into Go struct field {place} of type {wanted}")
}
