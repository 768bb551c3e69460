//! Kubernetes' `quantity` library.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/quantity.go`.

use std::cmp::Ordering;
use std::sync::Arc;

pub(crate) use dialect::Quantity;

use super::opaque::Opaque;
use super::{Entry, Returned, global, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

const TEST: &[&str] = &["(quantity, quantity) -> bool"];
const COMBINE: &[&str] = &[
    "(quantity, quantity) -> quantity",
    "(quantity, int) -> quantity",
];

pub(super) const FUNCTIONS: &[Entry] = &[
    global("quantity", &["(string) -> quantity"], quantity),
    global("isQuantity", &["(string) -> bool"], is_quantity),
    // Kubernetes declares `sign` in the global style only.
    global("sign", &["(quantity) -> int"], sign),
    member("isGreaterThan", TEST, is_greater_than),
    member("isLessThan", TEST, is_less_than),
    member("compareTo", &["(quantity, quantity) -> int"], compare_to),
    member("asApproximateFloat", &["(quantity) -> double"], as_float),
    member("asInteger", &["(quantity) -> int"], as_integer),
    member("isInteger", &["(quantity) -> bool"], is_integer),
    member("add", COMBINE, add),
    member("sub", COMBINE, sub),
];

fn quantity<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(text))] = args else {
        return Err(Failure::NoOverload);
    };
    Quantity::parse(text)
        .map(value)
        .map_err(|error| Failure::new(error.to_string()))
}

fn is_quantity<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::String(text))] => Ok(Value::bool(Quantity::parse(text).is_ok())),
        _ => Err(Failure::NoOverload),
    }
}

fn sign<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let quantity = one(args)?;
    Ok(order_value(quantity.cmp(&Quantity::from(0))))
}

fn is_greater_than<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (left, right) = two(args)?;
    Ok(Value::bool(left.cmp(right).is_gt()))
}

fn is_less_than<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (left, right) = two(args)?;
    Ok(Value::bool(left.cmp(right).is_lt()))
}

fn compare_to<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (left, right) = two(args)?;
    Ok(order_value(left.cmp(right)))
}

fn as_float<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::double(one(args)?.to_float()))
}

fn as_integer<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    one(args)?
        .to_int()
        .map(Value::int)
        .ok_or_else(|| Failure::new("cannot convert value to integer"))
}

fn is_integer<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::bool(one(args)?.to_int().is_some()))
}

fn add<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    combine(args, meter, Quantity::plus)
}

fn sub<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    // Go negates what it subtracts, and of the smallest int that is itself.
    if let [_, Value(Kind::Int(i64::MIN))] = args {
        return combine(args, meter, Quantity::plus);
    }
    combine(args, meter, Quantity::minus)
}

fn combine<'v>(
    args: &[Value<'v>],
    meter: &mut Meter,
    combine: impl Fn(&Quantity, &Quantity) -> Quantity,
) -> Returned<'v> {
    let [Value(Kind::Opaque(Opaque::Quantity(left))), right] = args else {
        return Err(Failure::NoOverload);
    };
    let right = match &right.0 {
        Kind::Opaque(Opaque::Quantity(right)) => Arc::clone(right),
        Kind::Int(right) => Arc::new(Quantity::from(*right)),
        _ => return Err(Failure::NoOverload),
    };
    meter.charge_bytes(left.digit_count() + right.digit_count())?;
    Ok(value(combine(left, &right)))
}

fn value<'v>(quantity: Quantity) -> Value<'v> {
    Value::opaque(Opaque::Quantity(Arc::new(quantity)))
}

fn one<'a>(args: &'a [Value<'_>]) -> Result<&'a Quantity, Failure> {
    match args {
        [Value(Kind::Opaque(Opaque::Quantity(quantity)))] => Ok(quantity),
        _ => Err(Failure::NoOverload),
    }
}

fn two<'a>(args: &'a [Value<'_>]) -> Result<(&'a Quantity, &'a Quantity), Failure> {
    match args {
        [
            Value(Kind::Opaque(Opaque::Quantity(left))),
            Value(Kind::Opaque(Opaque::Quantity(right))),
        ] => Ok((left, right)),
        _ => Err(Failure::NoOverload),
    }
}

pub(super) fn order_value<'v>(order: Ordering) -> Value<'v> {
    Value::int(match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}
