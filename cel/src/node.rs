//! A compiled expression: a tree that is ready to be evaluated.
//!
//! Names are resolved (variables by name, locals by position), macros are loops, functions are
//! pointers, and literal patterns are compiled. A node holds no lifetime but its own.

use std::sync::Arc;

use crate::library::Implementation;
use crate::price::{Price, Weight};
use crate::types::DeclType;
use crate::value::{Key, Kind, Map, Value};

/// One step of an evaluation.
#[derive(Debug)]
pub(crate) enum Node {
    Literal(Value<'static>),
    /// What has one value whatever is bound: a list or map of literals, or a conversion of one.
    Constant(Box<Constant>),
    /// A variable of the bindings.
    Variable(Box<str>),
    /// A variable of a macro, by its position on the stack.
    Local(usize),
    Select(Box<Select>),
    Has(Box<Select>),
    Index(Box<Index>),
    Not(Box<Self>),
    Negate(Box<Self>),
    And(Box<[Self; 2]>),
    Or(Box<[Self; 2]>),
    Conditional(Box<[Self; 3]>),
    Arithmetic(Arithmetic, Weight, Box<[Self; 2]>),
    Relation(Relation, Weight, Box<[Self; 2]>),
    List(Box<[Element]>),
    Map(Box<[Entry]>),
    /// `[]` or `{}`, of which only the type can tell what it holds.
    Empty(Box<DeclType>),
    /// `Name{field: value}`.
    Object(Box<Construct>),
    Call(Box<Call>),
    Loop(Box<Loop>),
    /// `cel.bind`: the value of the local, and the body.
    Bind(Box<[Self; 2]>),
    /// `a.or(b)` and `a.orValue(b)`.
    OrElse(OrElse, Box<[Self; 2]>),
    OptionalMap(Box<OptionalMap>),
}

// === impl Node ===

impl Node {
    /// Calls `see` with every type in it.
    pub(crate) fn for_each_type(&mut self, see: &mut dyn FnMut(&mut DeclType)) {
        match self {
            Self::Literal(_) | Self::Variable(_) | Self::Local(_) => {}
            Self::Constant(constant) => constant.written.for_each_type(see),
            Self::Empty(ty) => see(ty),
            Self::Select(select) | Self::Has(select) => select.operand.for_each_type(see),
            Self::Index(index) => {
                index.operand.for_each_type(see);
                index.key.for_each_type(see);
            }
            Self::Not(operand) | Self::Negate(operand) => operand.for_each_type(see),
            Self::And(operands)
            | Self::Or(operands)
            | Self::Arithmetic(_, _, operands)
            | Self::Relation(_, _, operands)
            | Self::Bind(operands)
            | Self::OrElse(_, operands) => each(&mut **operands, see),
            Self::Conditional(operands) => each(&mut **operands, see),
            Self::List(elements) => each(elements.iter_mut().map(|it| &mut it.value), see),
            Self::Map(entries) => {
                each(
                    entries
                        .iter_mut()
                        .flat_map(|it| [&mut it.key, &mut it.value]),
                    see,
                );
            }
            Self::Object(made) => each(made.fields.iter_mut().map(|it| &mut it.value), see),
            Self::Call(call) => {
                see(&mut call.yields);
                each(&mut *call.args, see);
            }
            Self::Loop(visit) => {
                visit.range.for_each_type(see);
                each(&mut visit.filter, see);
                visit.body.for_each_type(see);
            }
            Self::OptionalMap(map) => {
                map.operand.for_each_type(see);
                map.body.for_each_type(see);
            }
        }
    }

    /// The value, where it is known before any other.
    pub(crate) fn constant(&self) -> Option<Value<'static>> {
        match self {
            Self::Literal(value) => Some(value.clone()),
            Self::Constant(constant) => Some(constant.value.clone()),
            Self::Empty(ty) if matches!(**ty, DeclType::Map(_)) => {
                Some(Value(Kind::Map(Map::of_last(Vec::new()))))
            }
            Self::Empty(_) => Some(Value::list(Vec::new())),
            _ => None,
        }
    }

    /// Whether the value is known before any other.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self, Self::Literal(_) | Self::Constant(_) | Self::Empty(_))
    }

    /// The node, or what it has come to already: a list of constants, or a map of them.
    ///
    /// Source: `maybeBuildListLiteral`, `maybeBuildMapLiteral` in `cel-go/interpreter/decorators.go`.
    pub(crate) fn folded(self) -> Self {
        let value = match &self {
            Self::List(elements) => {
                let values = elements.iter().map(|it| {
                    let value = it.value.constant();
                    value.filter(|_| !it.optional)
                });
                values.collect::<Option<_>>().map(Value::list)
            }
            Self::Map(entries) => {
                let entries = entries.iter().map(|it| {
                    let key = it.key.constant()?;
                    let key = Key::of(&key).filter(|_| !matches!(key.0, Kind::Double(_)))?;
                    Some((key, it.value.constant()?)).filter(|_| !it.optional)
                });
                let entries = entries.collect::<Option<_>>();
                entries.map(|entries| Value(Kind::Map(Map::of_last(entries))))
            }
            _ => None,
        };
        match value {
            Some(value) => self.known_as(value),
            None => self,
        }
    }

    /// The node with the value that it has.
    pub(crate) fn known_as(self, value: Value<'static>) -> Self {
        let written = self;
        Self::Constant(Box::new(Constant { written, value }))
    }

    /// The node as it is written.
    pub(crate) fn written(&self) -> &Self {
        match self {
            Self::Constant(constant) => &constant.written,
            node => node,
        }
    }
}

fn each<'n>(nodes: impl IntoIterator<Item = &'n mut Node>, see: &mut dyn FnMut(&mut DeclType)) {
    for node in nodes {
        node.for_each_type(see);
    }
}

/// A node whose value is known.
#[derive(Debug)]
pub(crate) struct Constant {
    /// The node as it is written.
    pub(crate) written: Node,
    pub(crate) value: Value<'static>,
}

/// Whether a selection asks or demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// `a.b`, `a[b]`: absence is an error.
    Required,
    /// `a.?b`, `a[?b]`: absence is `optional.none()`.
    Optional,
}

#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) operand: Node,
    pub(crate) field: Box<str>,
    pub(crate) demand: Demand,
}

#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) operand: Node,
    pub(crate) key: Node,
    pub(crate) demand: Demand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

/// What an empty optional gives way to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrElse {
    /// Another optional.
    Optional,
    /// A plain value.
    Value,
}

/// An element of a list literal; `[?a]` is left out where `a` is empty.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// An entry of a map literal; `{?k: v}` is left out where `v` is empty.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Node,
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// The construction of an object of a named type; `{?field: value}` is left out where `value` is empty.
#[derive(Debug)]
pub(crate) struct Construct {
    pub(crate) name: Arc<str>,
    pub(crate) fields: Box<[Field]>,
}

/// A field that a construction sets.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// A call of a function; candidates are tried in order.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Box<str>,
    pub(crate) candidates: Box<[Implementation]>,
    pub(crate) args: Box<[Node]>,
    /// Whether the first argument is a receiver.
    pub(crate) is_member: bool,
    /// The type of the value, as far as it is known.
    pub(crate) yields: DeclType,
    /// What the only overload takes that can be meant, where other overloads take other values.
    pub(crate) takes: Option<Box<[DeclType]>>,
    /// What the call costs, where that is not one unit.
    pub(crate) price: Option<Price>,
}

/// A macro that visits a list or a map.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) range: Node,
    pub(crate) yields: Yields,
    /// Whether there are two variables: index or key, and value.
    pub(crate) two: bool,
    pub(crate) filter: Option<Node>,
    pub(crate) body: Node,
}

/// What a loop makes of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yields {
    /// Whether the body holds for every element.
    All,
    /// Whether the body holds for an element.
    Exists,
    /// Whether the body holds for exactly one element.
    ExistsOne,
    /// A list of the bodies.
    List,
    /// A map of the first variable to the body.
    Map,
    /// A map of the entries of the bodies, which are maps.
    MapEntry,
}

/// `a.optMap(x, body)` and `a.optFlatMap(x, body)`.
#[derive(Debug)]
pub(crate) struct OptionalMap {
    pub(crate) operand: Node,
    pub(crate) body: Node,
    pub(crate) flat: bool,
}
