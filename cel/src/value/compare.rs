//! Equality and order.
//!
//! Equality holds across the number types and is false, never an error, between other types; it is
//! the same in both directions, whichever side is JSON. Order is defined within a type and across
//! the number types.
//!
//! Source: `cel-go/common/types/compare.go` and the `Equal`/`Compare` of each type; list types of
//! Kubernetes as in `k8s.io/apiserver/pkg/cel/common/values.go`.

use std::cmp::Ordering;

use super::{Key, Kind, List, Map, Value, list};
use crate::budget::Meter;
use crate::error::Failure;
use crate::library::opaque::Opaque;
use crate::types::ListKind;

// === impl Value ===

impl Value<'_> {
    /// `self == other`.
    pub(crate) fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, Failure> {
        Ok(match (&self.0, &other.0) {
            (Kind::String(left), Kind::String(right)) => {
                meter.read_bytes(left.len().min(right.len()))?;
                **left == **right
            }
            (Kind::Bool(left), Kind::Bool(right)) => left == right,
            (Kind::Bytes(left), Kind::Bytes(right)) => {
                meter.read_bytes(left.len().min(right.len()))?;
                left == right
            }
            (Kind::List(left), Kind::List(right)) => lists_equal(left, right, meter)?,
            (Kind::Map(left), Kind::Map(right)) => maps_equal(left, right, meter)?,
            (Kind::Object(left), Kind::Object(right)) => {
                left.name == right.name && maps_equal(&left.fields, &right.fields, meter)?
            }
            (Kind::Timestamp(left), Kind::Timestamp(right)) => left == right,
            (Kind::Duration(left), Kind::Duration(right)) => left == right,
            (Kind::Type(left), Kind::Type(right)) => left == right,
            (Kind::Null, Kind::Null) | (Kind::Optional(None), Kind::Optional(None)) => true,
            (Kind::Optional(Some(left)), Kind::Optional(Some(right))) => {
                left.equals(right, meter)?
            }
            (Kind::Opaque(Opaque::Omit), _) | (_, Kind::Opaque(Opaque::Omit)) => {
                return Err(Failure::new(
                    "omit() is a field-removal sentinel and cannot be compared",
                ));
            }
            (Kind::Opaque(left), Kind::Opaque(right)) => left == right,
            (left, right) => number_order(left, right).is_some_and(Ordering::is_eq),
        })
    }

    /// Whether values of this type have an order.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(
            self.0,
            Kind::Bool(_)
                | Kind::String(_)
                | Kind::Bytes(_)
                | Kind::Timestamp(_)
                | Kind::Duration(_)
        ) || self.0.is_number()
    }

    /// Orders two values.
    ///
    /// # Errors
    ///
    /// No overload, where the types have no order; an error where one side is not a number.
    pub(crate) fn order(&self, other: &Value<'_>, meter: &mut Meter) -> Result<Ordering, Failure> {
        match (&self.0, &other.0) {
            (Kind::Bool(left), Kind::Bool(right)) => Ok(left.cmp(right)),
            (Kind::String(left), Kind::String(right)) => {
                meter.read_bytes(left.len().min(right.len()))?;
                Ok(str::cmp(left, right))
            }
            (Kind::Bytes(left), Kind::Bytes(right)) => {
                meter.read_bytes(left.len().min(right.len()))?;
                Ok(left.cmp(right))
            }
            (Kind::Timestamp(left), Kind::Timestamp(right)) => Ok(left.cmp(right)),
            (Kind::Duration(left), Kind::Duration(right)) => Ok(left.cmp(right)),
            (left, right) if left.is_number() && right.is_number() => number_order(left, right)
                .ok_or_else(|| Failure::new("NaN values cannot be ordered")),
            _ => Err(Failure::NoOverload),
        }
    }
}

// === impl Kind ===

impl Kind<'_> {
    fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Uint(_) | Self::Double(_))
    }
}

fn number_order(left: &Kind<'_>, right: &Kind<'_>) -> Option<Ordering> {
    match (left, right) {
        (Kind::Int(left), Kind::Int(right)) => Some(left.cmp(right)),
        (Kind::Uint(left), Kind::Uint(right)) => Some(left.cmp(right)),
        (Kind::Int(left), Kind::Uint(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Kind::Uint(left), Kind::Int(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Kind::Double(left), Kind::Double(right)) => left.partial_cmp(right),
        (Kind::Double(left), Kind::Int(right)) => double_order(*left, i128::from(*right)),
        (Kind::Double(left), Kind::Uint(right)) => double_order(*left, i128::from(*right)),
        (Kind::Int(left), Kind::Double(right)) => {
            double_order(*right, i128::from(*left)).map(Ordering::reverse)
        }
        (Kind::Uint(left), Kind::Double(right)) => {
            double_order(*right, i128::from(*left)).map(Ordering::reverse)
        }
        _ => None,
    }
}

/// Compares a double with a 64-bit integer: by range first, then as doubles, as cel-go does.
#[expect(
    clippy::cast_precision_loss,
    reason = "cel-go compares the integer as a double"
)]
fn double_order(left: f64, right: i128) -> Option<Ordering> {
    left.partial_cmp(&(right as f64))
}

fn lists_equal<'v>(left: &List<'v>, right: &List<'v>, meter: &mut Meter) -> Result<bool, Failure> {
    if left.len() != right.len() {
        return Ok(false);
    }
    let kind = match (left.kind(), right.kind()) {
        (ListKind::Atomic, kind) | (kind, _) => kind,
    };
    if *kind != ListKind::Atomic {
        return unordered_equal(left, right, kind, meter);
    }
    for (left, right) in left.iter().zip(right.iter()) {
        meter.charge(1)?;
        if !left?.equals(&right?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn unordered_equal<'v>(
    left: &List<'v>,
    right: &List<'v>,
    kind: &ListKind,
    meter: &mut Meter,
) -> Result<bool, Failure> {
    meter.charge_product(left.len(), right.len())?;
    let left = left.values()?;
    for right in right.iter() {
        let right = right?;
        let mut found = false;
        for left in &left {
            let candidate = match kind {
                ListKind::Map(keys) => list::same_keys(left, &right, keys, meter)?,
                ListKind::Set | ListKind::Atomic => true,
            };
            if candidate && left.equals(&right, meter)? {
                found = true;
                break;
            }
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps_equal<'v>(left: &Map<'v>, right: &Map<'v>, meter: &mut Meter) -> Result<bool, Failure> {
    meter.charge((left.len() + right.len()) as u64)?;
    let (left, right) = (left.entries()?, right.entries()?);
    if left.len() != right.len() {
        return Ok(false);
    }
    // Both are in the order of their keys; JSON objects are sorted maps.
    for ((left_key, left), (right_key, right)) in left.iter().zip(&right) {
        meter.charge(1)?;
        if !keys_equal(left_key, right_key) || !left.equals(right, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn keys_equal(left: &Key<'_>, right: &Key<'_>) -> bool {
    left.order(right).is_eq()
}
