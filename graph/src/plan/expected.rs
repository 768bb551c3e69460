//! Objects of nodes that wait, named before their turn: the names of most need nothing but the instance.
//!
//! A shell that has to note what it makes before it makes it can note all of them at once. What is expected may still come otherwise;
//! nothing is applied because of it.

use std::sync::Arc;

use api::meta;
use serde_json::{Value, json};

use super::evaluate::Evaluated;
use super::node::Planner;
use super::{Expected, ObjectRef, names};
use crate::graph::{Node, NodeKind, Reference};

/// The fields that an identity is made of.
const IDENTITY: [&str; 2] = ["name", "namespace"];

impl<'a> Planner<'a> {
    /// Notes the object of a node that waits, if it can be named.
    pub(super) fn expect(&mut self, node: &'a Node) {
        if node.kind != NodeKind::Resource {
            return;
        }
        let Some(mut object) = self.identity(node) else {
            return;
        };
        let is_named = self.set_namespace(node, &mut object).is_ok()
            && names::check(node, &object).is_ok()
            && !meta::name(&object).is_empty();
        if is_named {
            self.expected.push(Expected {
                node: Arc::clone(&node.id),
                reference: ObjectRef::of(&object),
                gvk: node.gvk.clone(),
                gvr: node.gvr.clone(),
                apply_order: node.apply_order,
            });
        }
    }

    /// Returns an object with the name and the namespace that a template gives; nothing where either depends on another node.
    fn identity(&mut self, node: &'a Node) -> Option<Value> {
        let mut object = json!({
            "apiVersion": node.gvk.api_version(), "kind": node.gvk.kind, "metadata": {},
        });
        for name in IDENTITY {
            let path = ["metadata.", name].concat();
            let mut fields = node.fields.iter();
            let field = fields.find(|it| it.path == path || it.path == "metadata");
            let value = match field {
                None => node.template["metadata"][name].clone(),
                Some(field) => {
                    let references = &field.expression.references;
                    let is_early =
                        field.path == path && references.iter().all(|it| *it == Reference::Schema);
                    if !is_early {
                        return None;
                    }
                    match self.values.early(&field.expression, &self.runs)? {
                        Evaluated::Value(value) => value,
                        Evaluated::Omit => Value::Null,
                    }
                }
            };
            match value {
                Value::Null => {}
                Value::String(_) => object["metadata"][name] = value,
                _ => return None,
            }
        }
        Some(object)
    }
}
