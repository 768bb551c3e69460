//! Literals: their values and types.

use cel::common::ast::LiteralValue;

use crate::node::Node;
use crate::types::DeclType;
use crate::value::{Kind, Value};

/// Returns the node of a literal with its type.
pub(super) fn lower(literal: &LiteralValue) -> (Node, DeclType) {
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
