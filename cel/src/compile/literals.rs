//! Literals, and calls that are decided by a literal argument.

use cel::common::ast::LiteralValue;

use super::lower::{Lowered, Lowering};
use crate::budget::{Budget, Meter};
use crate::library::{Pattern, opaque::Opaque};
use crate::node::{Call, Node};
use crate::types::DeclType;
use crate::value::{Kind, Value};

pub(super) fn lower(literal: &LiteralValue) -> Lowered {
    let (value, ty) = match literal {
        LiteralValue::Boolean(value) => (Kind::Bool(*value.inner()), DeclType::Bool),
        LiteralValue::Bytes(value) => (Value::bytes(value.inner()).0, DeclType::Bytes),
        LiteralValue::Double(value) => (Kind::Double(*value.inner()), DeclType::Double),
        LiteralValue::Int(value) => (Kind::Int(*value.inner()), DeclType::Int),
        LiteralValue::Null => (Kind::Null, DeclType::Null),
        LiteralValue::String(value) => (Value::string(value.inner()).0, DeclType::String),
        LiteralValue::UInt(value) => (Kind::Uint(*value.inner()), DeclType::Uint),
    };
    (Node::Literal(Value(value)), ty)
}

// === impl Lowering ===

impl Lowering<'_> {
    /// Compiles a literal pattern and converts a literal duration or timestamp, once for all
    /// evaluations. What fails here fails again when evaluated, unless the environment is strict.
    pub(super) fn fold_literal(&mut self, ids: &[u64], mut call: Call) -> Node {
        match &*call.name {
            "matches" | "find" | "findAll" => {
                if let Some(Node::Literal(value)) = call.args.get_mut(1)
                    && let Some(text) = value.as_str()
                {
                    match Pattern::compile(text) {
                        Ok(pattern) => *value = Value::opaque(Opaque::Pattern(pattern)),
                        Err(_) => self.bad_literal(ids, 1, &call.name),
                    }
                }
            }
            "duration" | "timestamp" => {
                if let ([Node::Literal(value)], [convert, ..]) = (&*call.args, &*call.candidates) {
                    let mut meter = Meter::new(Budget::default());
                    match convert(std::slice::from_ref(value), &mut meter) {
                        Ok(converted) => return Node::Literal(converted),
                        Err(_) => self.bad_literal(ids, 0, &call.name),
                    }
                }
            }
            _ => {}
        }
        Node::Call(Box::new(call))
    }

    fn bad_literal(&mut self, ids: &[u64], argument: usize, function: &str) {
        if self.environment.rules().strict_literals
            && let Some(id) = ids.get(argument)
        {
            self.mistyped(*id, format!("invalid {function} argument"));
        }
    }
}
