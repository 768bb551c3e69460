//! `+ - * / %` and negation: checked, and only between operands of one kind.
//!
//! Source: `cel-go/common/types/{int,uint,double,overflow}.go`.

use super::{Evaluated, Evaluator};
use crate::budget::Meter;
use crate::error::Failure;
use crate::node::{Arithmetic, Node};
use crate::price::{self, UNIT, Weight};
use crate::time::{Duration, Timestamp};
use crate::value::{Kind, Value};

// === impl Evaluator ===

impl<'v> Evaluator<'_, 'v> {
    pub(super) fn arithmetic(
        &mut self,
        operator: Arithmetic,
        weight: Weight,
        operands: &[Node; 2],
    ) -> Evaluated<'v> {
        let [left, right] = operands;
        let ([left, right], failure) = self.both(left, right)?;
        self.meter.pay(price::of_sum(weight, &left, &right))?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        apply(operator, &left, &right, &mut self.meter).map(Value)
    }

    pub(super) fn negate(&mut self, operand: &Node) -> Evaluated<'v> {
        self.meter.pay(UNIT)?;
        Ok(Value(match self.evaluate(operand)?.0 {
            Kind::Int(value) => Kind::Int(value.checked_neg().ok_or_else(int_overflow)?),
            Kind::Double(value) => Kind::Double(-value),
            Kind::Duration(span) => {
                Kind::Duration(span.checked_neg().ok_or_else(duration_overflow)?)
            }
            _ => return Err(Failure::NoOverload),
        }))
    }
}

fn apply<'v>(
    operator: Arithmetic,
    left: &Value<'v>,
    right: &Value<'v>,
    meter: &mut Meter,
) -> Result<Kind<'v>, Failure> {
    match (&left.0, &right.0) {
        (Kind::Int(left), Kind::Int(right)) => ints(operator, *left, *right).map(Kind::Int),
        (Kind::Uint(left), Kind::Uint(right)) => uints(operator, *left, *right).map(Kind::Uint),
        (Kind::Double(left), Kind::Double(right)) => {
            doubles(operator, *left, *right).map(Kind::Double)
        }
        _ => match operator {
            Arithmetic::Add => add(left, right, meter),
            Arithmetic::Subtract => subtract(left, right),
            Arithmetic::Multiply | Arithmetic::Divide | Arithmetic::Remainder => {
                Err(Failure::NoOverload)
            }
        },
    }
}

fn ints(operator: Arithmetic, left: i64, right: i64) -> Result<i64, Failure> {
    match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide if right == 0 => return Err(Failure::new("division by zero")),
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::Remainder if right == 0 => return Err(Failure::new("modulus by zero")),
        Arithmetic::Remainder => left.checked_rem(right),
    }
    .ok_or_else(int_overflow)
}

fn uints(operator: Arithmetic, left: u64, right: u64) -> Result<u64, Failure> {
    match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide if right == 0 => return Err(Failure::new("division by zero")),
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::Remainder if right == 0 => return Err(Failure::new("modulus by zero")),
        Arithmetic::Remainder => left.checked_rem(right),
    }
    .ok_or_else(|| Failure::new("unsigned integer overflow"))
}

fn doubles(operator: Arithmetic, left: f64, right: f64) -> Result<f64, Failure> {
    match operator {
        Arithmetic::Add => Ok(left + right),
        Arithmetic::Subtract => Ok(left - right),
        Arithmetic::Multiply => Ok(left * right),
        Arithmetic::Divide => Ok(left / right),
        Arithmetic::Remainder => Err(Failure::NoOverload),
    }
}

fn add<'v>(left: &Value<'v>, right: &Value<'v>, meter: &mut Meter) -> Result<Kind<'v>, Failure> {
    Ok(match (&left.0, &right.0) {
        (Kind::String(left), Kind::String(right)) => {
            meter.charge_bytes(left.len() + right.len())?;
            let mut text = String::with_capacity(left.len() + right.len());
            text.push_str(left);
            text.push_str(right);
            return Ok(Value::string(text).0);
        }
        (Kind::Bytes(left), Kind::Bytes(right)) => {
            meter.charge_bytes(left.len() + right.len())?;
            return Ok(Value::bytes([&**left, &**right].concat()).0);
        }
        (Kind::List(left), Kind::List(right)) => Kind::List(left.concat(right, meter)?),
        (Kind::Duration(left), Kind::Duration(right)) => {
            Kind::Duration(left.checked_add(*right).ok_or_else(duration_overflow)?)
        }
        (Kind::Timestamp(at), Kind::Duration(span))
        | (Kind::Duration(span), Kind::Timestamp(at)) => later(*at, *span)?,
        _ => return Err(Failure::NoOverload),
    })
}

fn later<'v>(at: Timestamp, span: Duration) -> Result<Kind<'v>, Failure> {
    at.checked_add(span)
        .map(Kind::Timestamp)
        .ok_or_else(timestamp_overflow)
}

fn subtract<'v>(left: &Value<'v>, right: &Value<'v>) -> Result<Kind<'v>, Failure> {
    Ok(match (&left.0, &right.0) {
        (Kind::Duration(left), Kind::Duration(right)) => {
            Kind::Duration(left.checked_sub(*right).ok_or_else(duration_overflow)?)
        }
        (Kind::Timestamp(at), Kind::Duration(span)) => {
            Kind::Timestamp(at.checked_sub(*span).ok_or_else(timestamp_overflow)?)
        }
        (Kind::Timestamp(left), Kind::Timestamp(right)) => {
            Kind::Duration(left.checked_since(*right).ok_or_else(duration_overflow)?)
        }
        _ => return Err(Failure::NoOverload),
    })
}

fn int_overflow() -> Failure {
    Failure::new("integer overflow")
}

fn duration_overflow() -> Failure {
    Failure::new("duration overflow")
}

fn timestamp_overflow() -> Failure {
    Failure::new("timestamp overflow")
}
