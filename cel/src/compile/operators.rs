//! Operators: their nodes, checked by the signatures in `library::operators`.

use cel::common::ast::{Expr, IdedExpr, LiteralValue};

use super::lower::{Lowered, Lowering, placeholder};
use crate::evaluate::is_qualifier;
use crate::library::{Overload, Style};
use crate::node::{Arithmetic, Demand, Index, Node, Relation, Select};
use crate::price::Weight;
use crate::types::DeclType;
use crate::value::{Kind, Value};

// === impl Lowering ===

impl Lowering<'_> {
    /// Lowers the call that an operator parses to; nothing where the name is no operator.
    pub(super) fn operator(&mut self, id: u64, name: &str, args: &[IdedExpr]) -> Option<Lowered> {
        match (name, args) {
            ("_&&_" | "_||_", [left, right]) => Some(self.logic(name, left, right)),
            ("!_" | "-_", [operand]) => Some(self.unary(id, name, operand)),
            ("_?_:_", [condition, then, otherwise]) => {
                Some(self.conditional(id, condition, then, otherwise))
            }
            ("_[_]", [operand, key]) => Some(self.index(id, operand, key, Demand::Required)),
            ("_[?_]", [operand, key]) => Some(self.index(id, operand, key, Demand::Optional)),
            ("_?._", [operand, field]) => Some(self.optional_select(id, operand, field)),
            (_, [left, right]) => {
                if let Some(operator) = arithmetic(name) {
                    let (operands, weight, ty) = self.binary(id, name, left, right);
                    return Some((Node::Arithmetic(operator, weight, operands), ty));
                }
                let relation = relation(name)?;
                let (operands, weight, ty) = self.binary(id, name, left, right);
                Some((related(relation, weight, operands), ty))
            }
            _ => None,
        }
    }

    fn binary(
        &mut self,
        id: u64,
        name: &str,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> (Box<[Node; 2]>, Weight, DeclType) {
        let (left, left_ty) = self.lower(left);
        let (right, right_ty) = self.lower(right);
        let (ty, overload) = self.resolve(id, name, Style::Global, &[left_ty, right_ty]);
        let weight = self.weight(name, overload);
        (Box::new([left, right]), weight, ty)
    }

    /// What an operator costs: by length where it is known to be one of those of texts, bytes or lists.
    fn weight(&self, name: &str, overload: Option<&Overload>) -> Weight {
        let is_text = |ty: &DeclType| matches!(ty, DeclType::String | DeclType::Bytes);
        let by_length = match (name, overload.map(|it| &*it.params)) {
            ("_==_" | "_!=_", _) | ("@in", Some([_, DeclType::List(_)])) => true,
            ("_+_" | "_<_" | "_<=_" | "_>_" | "_>=_", Some([left, _])) => is_text(left),
            _ => false,
        };
        if by_length && !self.environment.rules().kro {
            Weight::Length
        } else {
            Weight::Unit
        }
    }

    fn logic(&mut self, name: &str, left: &IdedExpr, right: &IdedExpr) -> Lowered {
        let (left_node, left_ty) = self.lower(left);
        let (right_node, right_ty) = self.lower(right);
        self.expect_bool(left.id, &left_ty);
        self.expect_bool(right.id, &right_ty);
        let operands = Box::new([left_node, right_node]);
        let node = if name == "_&&_" {
            Node::And(operands)
        } else {
            Node::Or(operands)
        };
        (node, DeclType::Bool)
    }

    /// Reports an operand that cannot be a boolean.
    pub(super) fn expect_bool(&mut self, id: u64, ty: &DeclType) {
        if !self.mapping.assign(ty, &DeclType::Bool) {
            let found = self.mapping.resolve(ty);
            self.mistyped(id, format!("expected type 'bool' but found '{found}'"));
        }
    }

    fn unary(&mut self, id: u64, name: &str, operand: &IdedExpr) -> Lowered {
        let (operand, ty) = self.lower(operand);
        let ty = self.resolve_global(id, name, &[ty]);
        let node = if name == "!_" {
            Node::Not(Box::new(operand))
        } else {
            Node::Negate(Box::new(operand))
        };
        (node, ty)
    }

    fn conditional(
        &mut self,
        id: u64,
        condition: &IdedExpr,
        then: &IdedExpr,
        otherwise: &IdedExpr,
    ) -> Lowered {
        let (condition, condition_ty) = self.lower(condition);
        let (then, then_ty) = self.lower(then);
        let (otherwise, otherwise_ty) = self.lower(otherwise);
        let ty = self.resolve_global(id, "_?_:_", &[condition_ty, then_ty, otherwise_ty]);
        (
            Node::Conditional(Box::new([condition, then, otherwise])),
            ty,
        )
    }

    fn index(&mut self, id: u64, operand: &IdedExpr, key: &IdedExpr, demand: Demand) -> Lowered {
        let (operand, operand_ty) = self.lower(operand);
        let (key_id, (key, key_ty)) = (key.id, self.lower(key));
        let strict = self.environment.rules().strict_literals;
        if let Some(value) = key.constant()
            && !is_qualifier(&value)
            && (strict || matches!(key, Node::Literal(Value(Kind::Null | Kind::Bytes(_)))))
        {
            let text = format!("invalid qualifier type: {}", value.type_name());
            self.mistyped(key_id, text);
        }
        let name = match demand {
            Demand::Required => "_[_]",
            Demand::Optional => "_[?_]",
        };
        let ty = self.resolve_global(id, name, &[operand_ty, key_ty]);
        let node = Node::Index(Box::new(Index {
            operand,
            key,
            demand,
        }));
        (node, ty)
    }

    fn optional_select(&mut self, id: u64, operand: &IdedExpr, field: &IdedExpr) -> Lowered {
        let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
            self.misused(field.id, "unsupported optional field selection");
            return placeholder();
        };
        let field = field.inner();
        let (operand, ty) = self.lower(operand);
        let ty = self.field_type(id, &ty, field, Demand::Optional);
        let node = Node::Select(Box::new(Select {
            operand,
            field: field.into(),
            demand: Demand::Optional,
        }));
        (node, ty)
    }
}

/// A relation; Kubernetes makes a set of a list of constants, and nothing is in an empty one, whatever it would be.
///
/// Source: `maybeOptimizeSetMembership` in `cel-go/interpreter/decorators.go`.
fn related(relation: Relation, weight: Weight, operands: Box<[Node; 2]>) -> Node {
    let set = match &*operands {
        [_, list] if relation == Relation::In && weight == Weight::Length => list.constant(),
        _ => None,
    };
    match set {
        Some(Value(Kind::List(list))) if list.len() == 0 => {
            Node::Relation(relation, Weight::Free, operands).known_as(Value::bool(false))
        }
        Some(Value(Kind::List(list)))
            if list.iter().all(|it| it.is_ok_and(|it| is_primitive(&it))) =>
        {
            Node::Relation(relation, Weight::Free, operands)
        }
        _ => Node::Relation(relation, weight, operands),
    }
}

/// Whether Kubernetes can look for a value in a set.
fn is_primitive(value: &Value<'_>) -> bool {
    matches!(
        value.0,
        Kind::Bool(_) | Kind::Double(_) | Kind::Int(_) | Kind::String(_) | Kind::Uint(_)
    )
}

fn arithmetic(name: &str) -> Option<Arithmetic> {
    Some(match name {
        "_+_" => Arithmetic::Add,
        "_-_" => Arithmetic::Subtract,
        "_*_" => Arithmetic::Multiply,
        "_/_" => Arithmetic::Divide,
        "_%_" => Arithmetic::Remainder,
        _ => return None,
    })
}

fn relation(name: &str) -> Option<Relation> {
    Some(match name {
        "_==_" => Relation::Equal,
        "_!=_" => Relation::NotEqual,
        "_<_" => Relation::Less,
        "_<=_" => Relation::LessOrEqual,
        "_>_" => Relation::Greater,
        "_>=_" => Relation::GreaterOrEqual,
        "@in" => Relation::In,
        _ => return None,
    })
}
