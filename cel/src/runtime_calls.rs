//! What is literal in calls of kro's `runtime`, so that a builder can judge it before there is a value.
//!
//! Source: `kro/pkg/graph/conditions.go`, which walks the parsed expression for the same.

use crate::library::opaque::Opaque;
use crate::node::{Call, Element, Entry, Node};
use crate::program::Program;
use crate::value::{Kind, Value};

/// A call of `runtime`, with those of its arguments that are literal text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeCall {
    /// `runtime.newCondition({type: .., status: ..})`.
    NewCondition {
        /// The type.
        kind: Option<String>,
        /// The status.
        status: Option<String>,
    },
    /// `runtime.condition(object, 'Type')`.
    Condition {
        /// Whether the object is the variable `schema`.
        of_schema: bool,
        /// The type.
        kind: Option<String>,
    },
}

// === impl Program ===

impl Program {
    /// The calls of `runtime`, outermost first.
    pub fn runtime_calls(&self) -> Vec<RuntimeCall> {
        let mut calls = Vec::new();
        visit(self.node(), &mut |node| {
            if let Node::Call(call) = node {
                calls.extend(runtime_call(call));
            }
        });
        calls
    }
}

fn runtime_call(call: &Call) -> Option<RuntimeCall> {
    match (&*call.name, &*call.args) {
        ("newCondition", [receiver, argument]) if is_runtime(receiver) => {
            let entry = |name| match argument.written() {
                Node::Map(entries) => entries
                    .iter()
                    .find(|entry| text(&entry.key).as_deref() == Some(name))
                    .and_then(|entry| text(&entry.value)),
                _ => None,
            };
            Some(RuntimeCall::NewCondition {
                kind: entry("type"),
                status: entry("status"),
            })
        }
        ("condition", [receiver, object, kind]) if is_runtime(receiver) => {
            let of_schema = matches!(object, Node::Variable(name) if &**name == "schema");
            Some(RuntimeCall::Condition {
                of_schema,
                kind: text(kind),
            })
        }
        _ => None,
    }
}

fn is_runtime(node: &Node) -> bool {
    matches!(node, Node::Literal(Value(Kind::Opaque(Opaque::Runtime))))
}

fn text(node: &Node) -> Option<String> {
    match node {
        Node::Literal(value) => value.as_str().map(str::to_owned),
        _ => None,
    }
}

/// Calls `see` with a node and everything below it.
fn visit(node: &Node, see: &mut dyn FnMut(&Node)) {
    see(node);
    match node {
        Node::Constant(constant) => visit(&constant.written, see),
        Node::Literal(_) | Node::Variable(_) | Node::Local(_) | Node::Empty(_) => {}
        Node::Select(select) | Node::Has(select) => visit(&select.operand, see),
        Node::Index(index) => visit_all([&index.operand, &index.key], see),
        Node::Not(operand) | Node::Negate(operand) => visit(operand, see),
        Node::And(operands)
        | Node::Or(operands)
        | Node::Arithmetic(_, _, operands)
        | Node::Relation(_, _, operands)
        | Node::Bind(operands)
        | Node::OrElse(_, operands) => visit_all(&**operands, see),
        Node::Conditional(operands) => visit_all(&**operands, see),
        Node::List(elements) => {
            visit_all(elements.iter().map(|Element { value, .. }| value), see);
        }
        Node::Map(entries) => {
            for Entry { key, value, .. } in entries {
                visit_all([key, value], see);
            }
        }
        Node::Object(made) => visit_all(made.fields.iter().map(|field| &field.value), see),
        Node::Call(call) => visit_all(&*call.args, see),
        Node::Loop(each) => {
            visit(&each.range, see);
            visit_all(&each.filter, see);
            visit(&each.body, see);
        }
        Node::OptionalMap(map) => visit_all([&map.operand, &map.body], see),
    }
}

fn visit_all<'n>(nodes: impl IntoIterator<Item = &'n Node>, see: &mut dyn FnMut(&Node)) {
    for node in nodes {
        visit(node, see);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeclType, Declarations, Environment};

    #[test]
    fn literal_arguments_are_seen_wherever_the_call_is() {
        let declarations = Declarations::new()
            .with("schema", DeclType::Dyn)
            .with("web", DeclType::Dyn);
        let new = |kind: Option<&str>, status: Option<&str>| RuntimeCall::NewCondition {
            kind: kind.map(str::to_owned),
            status: status.map(str::to_owned),
        };
        let cases = [
            (
                "runtime.newCondition({type: 'A', status: 'True'})",
                vec![new(Some("A"), Some("True"))],
            ),
            (
                "runtime.newCondition({type: schema.a, status: web.b ? 'True' : 'False'})",
                vec![new(None, None)],
            ),
            (
                "[1].map(i, runtime.newCondition({type: 'A', status: runtime.condition(schema, 'Ready').status}))",
                vec![
                    new(Some("A"), None),
                    RuntimeCall::Condition {
                        of_schema: true,
                        kind: Some("Ready".to_owned()),
                    },
                ],
            ),
            (
                "runtime.condition(web, schema.x).status",
                vec![RuntimeCall::Condition {
                    of_schema: false,
                    kind: None,
                }],
            ),
        ];
        for (source, want) in cases {
            let program = Environment::kro()
                .compile(source, &declarations)
                .expect(source);
            assert_eq!(program.runtime_calls(), want, "{source}");
        }
    }
}
