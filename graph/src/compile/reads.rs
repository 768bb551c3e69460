//! What the expressions of a graph read: of each node's live objects, and of the instance.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::graph::{Expression, InstanceNode, Node};

/// Notes with each node which parts of its live objects anything reads, and with the instance whether anything could see
/// its status through `schema`. (The author's conditions see an instance of their own.)
pub(super) fn note(nodes: &mut [Node], instance: &mut InstanceNode) {
    let mut reads = Reads {
        ids: nodes.iter().map(|node| Arc::clone(&node.id)).collect(),
        paths: vec![BTreeSet::new(); nodes.len()],
    };
    for (position, node) in nodes.iter().enumerate() {
        let fields = node.fields.iter().map(|field| &field.expression);
        let dimensions = node.for_each.iter().map(|dimension| &dimension.expression);
        for expression in fields.chain(dimensions).chain(&node.include_when) {
            instance.read_whole |= sees_status(expression);
            reads.note(expression, None);
        }
        for expression in &node.ready_when {
            reads.note(expression, Some(position));
        }
    }
    for field in &instance.fields {
        instance.read_whole |= sees_status(&field.expression);
        reads.note(&field.expression, None);
    }
    for expression in &instance.conditions {
        reads.note(expression, None);
    }
    for (node, paths) in nodes.iter_mut().zip(reads.paths) {
        node.reads = paths;
    }
}

fn sees_status(expression: &Expression) -> bool {
    expression.program.paths().iter().any(|path| {
        path.root == "schema" && path.fields.first().is_none_or(|first| first == "status")
    })
}

struct Reads {
    ids: Vec<Arc<str>>,
    paths: Vec<BTreeSet<String>>,
}

// === impl Reads ===

impl Reads {
    /// Notes the paths of an expression; `own` is the node that is meant by `each`.
    fn note(&mut self, expression: &Expression, own: Option<usize>) {
        for path in expression.program.paths() {
            let position = match (path.root.as_str(), own) {
                ("each", Some(own)) => Some(own),
                (root, _) => self.ids.iter().position(|id| &**id == root),
            };
            if let Some(paths) = position.and_then(|position| self.paths.get_mut(position)) {
                paths.insert(path.fields.join("."));
            }
        }
    }
}
