//! Fields and indexes: `a.b`, `a[b]`, their optional forms, and `has(a.b)`.
//!
//! What is absent from a map, an object or a list is an error that means pending data. So is a
//! field of something that has no fields, as in cel-go. An optional operand makes everything that
//! is selected from it optional.
//!
//! Selections from one another are one chain: only what stands at its begin is unwrapped where it is optional. An optional
//! within the chain, such as an element of a list of optionals, has neither fields nor elements.
//!
//! Source: `refQualify` and `applyQualifiers` in `cel-go/interpreter/attributes.go`.

use super::{Evaluated, Evaluator};
use crate::error::Failure;
use crate::library::opaque::Opaque;
use crate::node::{Demand, Index, Node, Select};
use crate::value::{Kind, Value, double_to_int};

type Found<'v> = Result<Option<Value<'v>>, Failure>;

// === impl Evaluator ===

impl<'v> Evaluator<'_, 'v> {
    pub(super) fn select(&mut self, select: &Select) -> Evaluated<'v> {
        self.selected(select).map(Operand::wrap)
    }

    pub(super) fn index(&mut self, index: &Index) -> Evaluated<'v> {
        self.indexed(index).map(Operand::wrap)
    }

    pub(super) fn has(&mut self, select: &Select) -> Evaluated<'v> {
        let present = match self.operand(&select.operand)? {
            Operand::Empty => false,
            Operand::Optional(value) | Operand::Plain(value) => {
                field(&value, &select.field)?.is_some()
            }
        };
        Ok(Value::bool(present))
    }

    /// Evaluates what something is selected from.
    fn operand(&mut self, node: &Node) -> Result<Operand<'v>, Failure> {
        match node {
            Node::Select(select) => {
                self.meter.charge(1)?;
                self.selected(select)
            }
            Node::Index(index) => {
                self.meter.charge(1)?;
                self.indexed(index)
            }
            // What is selected from a choice is selected from the side that is chosen.
            Node::Conditional(sides) => {
                self.meter.charge(1)?;
                let side = self.side(sides)?;
                self.operand(side)
            }
            node => self.evaluate(node).map(unwrap),
        }
    }

    fn selected(&mut self, select: &Select) -> Result<Operand<'v>, Failure> {
        match self.operand(&select.operand)?.asked(select.demand) {
            Operand::Empty => Ok(Operand::Empty),
            Operand::Optional(value) => Ok(found(field(&value, &select.field)?)),
            Operand::Plain(value) => match field(&value, &select.field)? {
                Some(value) => Ok(Operand::Plain(value)),
                None => Err(Failure::missing_key(&select.field)),
            },
        }
    }

    fn indexed(&mut self, index: &Index) -> Result<Operand<'v>, Failure> {
        let operand = self.operand(&index.operand)?.asked(index.demand);
        // Nothing has no elements, whatever the key would be.
        if matches!(operand, Operand::Empty) {
            return Ok(operand);
        }
        let key = self.evaluate(&index.key)?;
        match operand {
            Operand::Empty => Ok(Operand::Empty),
            Operand::Optional(value) => Ok(found(element(&value, &key)?)),
            Operand::Plain(value) => match element(&value, &key)? {
                Some(value) => Ok(Operand::Plain(value)),
                None if matches!(value.0, Kind::List(_)) => {
                    Err(Failure::new(format!("index out of bounds: {key}")))
                }
                None => Err(Failure::missing_key(key)),
            },
        }
    }
}

/// What a selection is made from.
enum Operand<'v> {
    /// An empty optional.
    Empty,
    /// A value from which the selection is optional.
    Optional(Value<'v>),
    Plain(Value<'v>),
}

fn unwrap(operand: Value<'_>) -> Operand<'_> {
    match operand.0 {
        Kind::Optional(None) => Operand::Empty,
        Kind::Optional(Some(value)) => Operand::Optional((*value).clone()),
        kind => Operand::Plain(Value(kind)),
    }
}

fn found(value: Option<Value<'_>>) -> Operand<'_> {
    value.map_or(Operand::Empty, Operand::Optional)
}

// === impl Operand ===

impl<'v> Operand<'v> {
    /// The operand of a selection that asks or demands.
    fn asked(self, demand: Demand) -> Self {
        match (self, demand) {
            (Self::Plain(value), Demand::Optional) => Self::Optional(value),
            (operand, _) => operand,
        }
    }

    fn wrap(self) -> Value<'v> {
        match self {
            Self::Empty => Value::NONE,
            Self::Optional(value) => Value::some(value),
            Self::Plain(value) => value,
        }
    }
}

fn field<'v>(operand: &Value<'v>, name: &str) -> Found<'v> {
    match &operand.0 {
        Kind::Map(map) => map.field(name),
        Kind::Object(object) => object.fields.field(name),
        Kind::Opaque(Opaque::Condition(condition)) => match condition.field(name) {
            Some(text) => Ok(Some(Value::string(text))),
            None => Err(Failure::new(format!("Condition: no such field {name:?}"))),
        },
        Kind::List(_) => Err(Failure::new("unsupported index type 'string' in list")),
        _ => Ok(None),
    }
}

fn element<'v>(operand: &Value<'v>, key: &Value<'v>) -> Found<'v> {
    if !is_qualifier(key) {
        let text = format!("invalid qualifier type: {}", key.type_name());
        return Err(Failure::new(text));
    }
    match &operand.0 {
        Kind::Map(map) => map.get(key),
        Kind::List(list) => {
            let position = match key.0 {
                Kind::Int(index) => usize::try_from(index).ok(),
                Kind::Uint(index) => usize::try_from(index).ok(),
                Kind::Double(index) => match double_to_int(index) {
                    Some(index) => usize::try_from(index).ok(),
                    None => return Err(unsupported_index(key)),
                },
                _ => return Err(unsupported_index(key)),
            };
            position.and_then(|position| list.get(position)).transpose()
        }
        _ => match key.as_str() {
            Some(name) => field(operand, name),
            None => Ok(None),
        },
    }
}

/// Whether a value can stand between the brackets of an index, whatever is indexed.
///
/// Source: `newQualifier` in `cel-go/interpreter/attributes.go`.
pub(crate) fn is_qualifier(key: &Value<'_>) -> bool {
    matches!(
        key.0,
        Kind::Bool(_) | Kind::Int(_) | Kind::Uint(_) | Kind::Double(_) | Kind::String(_)
    )
}

fn unsupported_index(key: &Value<'_>) -> Failure {
    Failure::new(format!(
        "unsupported index type '{}' in list",
        key.type_name()
    ))
}
