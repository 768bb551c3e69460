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
use crate::price::UNIT;
use crate::value::{Kind, Value, double_to_int};

type Found<'v> = Result<Option<Value<'v>>, Failure>;

// === impl Evaluator ===

impl<'v> Evaluator<'_, 'v> {
    pub(super) fn select(&mut self, select: &Select, name_price: u64) -> Evaluated<'v> {
        self.selected(select, name_price).map(Operand::wrap)
    }

    pub(super) fn index(&mut self, index: &Index, name_price: u64) -> Evaluated<'v> {
        self.indexed(index, name_price).map(Operand::wrap)
    }

    /// A question costs what the selection would, without the name.
    pub(super) fn has(&mut self, select: &Select) -> Evaluated<'v> {
        let present = match self.operand(&select.operand, 0)? {
            Operand::Empty => false,
            Operand::Optional(value) => {
                let present = field(&value, &select.field)?.is_some();
                self.meter.pay(u64::from(present))?;
                present
            }
            Operand::Plain(value) => {
                self.meter.pay(UNIT)?;
                field(&value, &select.field)?.is_some()
            }
        };
        if is_from_choice(&select.operand) {
            // cel-go takes back a name that it did not count.
            self.meter.refund(UNIT)?;
        }
        Ok(Value::bool(present))
    }

    /// Evaluates what something is selected from. The whole selection costs what a name does, unless it is from a choice.
    fn operand(&mut self, node: &Node, name_price: u64) -> Result<Operand<'v>, Failure> {
        match node {
            Node::Select(select) => {
                self.meter.charge(1)?;
                self.selected(select, name_price)
            }
            Node::Index(index) => {
                self.meter.charge(1)?;
                self.indexed(index, name_price)
            }
            // What is selected from a choice is selected from the side that is chosen.
            Node::Conditional(sides) => {
                self.meter.charge(1)?;
                let side = self.side(sides)?;
                self.operand(side, 0)
            }
            Node::OptionalMap(_) => self.evaluate(node).map(unwrap),
            node => {
                self.meter.pay(name_price)?;
                self.unobserved(node).map(unwrap)
            }
        }
    }

    fn selected(&mut self, select: &Select, name_price: u64) -> Result<Operand<'v>, Failure> {
        let operand = self.operand(&select.operand, name_price)?;
        match operand.asked(select.demand) {
            Operand::Empty => Ok(Operand::Empty),
            Operand::Optional(value) => self.found(field(&value, &select.field)?),
            Operand::Plain(value) => {
                self.meter.pay(UNIT)?;
                match field(&value, &select.field)? {
                    Some(value) => Ok(Operand::Plain(value)),
                    None => Err(Failure::missing_key(&select.field)),
                }
            }
        }
    }

    /// An optional selection, which costs nothing where there is nothing.
    fn found(&mut self, value: Option<Value<'v>>) -> Result<Operand<'v>, Failure> {
        let Some(value) = value else {
            return Ok(Operand::Empty);
        };
        self.meter.pay(UNIT)?;
        Ok(Operand::Optional(value))
    }

    fn indexed(&mut self, index: &Index, name_price: u64) -> Result<Operand<'v>, Failure> {
        let operand = self.operand(&index.operand, name_price)?;
        let operand = operand.asked(index.demand);
        // Nothing has no elements, whatever the key would be.
        if matches!(operand, Operand::Empty) {
            return Ok(operand);
        }
        let key = self.unobserved(&index.key)?;
        if let Operand::Plain(_) = operand {
            self.meter.pay(UNIT)?;
        }
        match operand {
            Operand::Empty => Ok(Operand::Empty),
            Operand::Optional(value) => self.found(element(&value, &key)?),
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

/// Whether what the selections of a chain begin at is a choice.
fn is_from_choice(node: &Node) -> bool {
    match node {
        Node::Select(select) => is_from_choice(&select.operand),
        Node::Index(index) => is_from_choice(&index.operand),
        node => matches!(node, Node::Conditional(_) | Node::OptionalMap(_)),
    }
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
