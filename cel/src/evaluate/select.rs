//! Fields and indexes: `a.b`, `a[b]`, their optional forms, and `has(a.b)`.
//!
//! What is absent from a map, an object or a list is an error that means pending data. So is a
//! field of something that has no fields, as in cel-go. An optional operand makes everything that
//! is selected from it optional.
//!
//! Source: `refQualify` and `applyQualifiers` in `cel-go/interpreter/attributes.go`.

use super::{Evaluated, Evaluator};
use crate::error::Failure;
use crate::library::opaque::Opaque;
use crate::node::{Demand, Index, Select};
use crate::value::{Kind, Value, double_to_int};

type Found<'v> = Result<Option<Value<'v>>, Failure>;

// === impl Evaluator ===

impl<'v> Evaluator<'_, 'v> {
    pub(super) fn select(&mut self, select: &Select) -> Evaluated<'v> {
        let operand = self.evaluate(&select.operand)?;
        if let (Kind::Map(map), Demand::Required) = (&operand.0, select.demand) {
            return match map.field(&select.field)? {
                Some(value) => Ok(value),
                None => Err(Failure::missing_key(&select.field)),
            };
        }
        match unwrap(operand, select.demand) {
            Operand::Empty => Ok(Value::NONE),
            Operand::Optional(value) => wrap(field(&value, &select.field)),
            Operand::Plain(value) => {
                field(&value, &select.field)?.ok_or_else(|| Failure::missing_key(&select.field))
            }
        }
    }

    pub(super) fn has(&mut self, select: &Select) -> Evaluated<'v> {
        let operand = self.evaluate(&select.operand)?;
        let present = match unwrap(operand, Demand::Optional) {
            Operand::Empty => false,
            Operand::Optional(value) | Operand::Plain(value) => {
                field(&value, &select.field)?.is_some()
            }
        };
        Ok(Value::bool(present))
    }

    pub(super) fn index(&mut self, index: &Index) -> Evaluated<'v> {
        let operand = self.evaluate(&index.operand)?;
        let operand = unwrap(operand, index.demand);
        // Nothing has no elements, whatever the key would be.
        if matches!(operand, Operand::Empty) {
            return Ok(Value::NONE);
        }
        let key = self.evaluate(&index.key)?;
        match operand {
            Operand::Empty => Ok(Value::NONE),
            Operand::Optional(value) => wrap(element(&value, &key)),
            Operand::Plain(value) => match element(&value, &key)? {
                Some(value) => Ok(value),
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

fn unwrap(operand: Value<'_>, demand: Demand) -> Operand<'_> {
    match (operand.0, demand) {
        (Kind::Optional(None), _) => Operand::Empty,
        (Kind::Optional(Some(value)), _) => Operand::Optional((*value).clone()),
        (kind, Demand::Optional) => Operand::Optional(Value(kind)),
        (kind, Demand::Required) => Operand::Plain(Value(kind)),
    }
}

fn wrap(found: Found<'_>) -> Evaluated<'_> {
    Ok(match found? {
        Some(value) => Value::some(value),
        None => Value::NONE,
    })
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
