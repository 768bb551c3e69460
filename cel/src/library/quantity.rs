//! Kubernetes' quantities, exactly.
//!
//! A quantity is a decimal number of any size; `1.5Gi` and `1e-3` lose nothing. As in
//! `resource.ParseQuantity`, digits below a billionth are rounded away from zero and a binary
//! quantity is capped at 2^63 - 1.
//!
//! Source: `apimachinery/pkg/api/resource/{quantity,suffix}.go`,
//! `k8s.io/apiserver/pkg/cel/library/quantity.go`.

use std::cmp::Ordering;
use std::sync::Arc;

use super::opaque::Opaque;
use super::{Entry, Returned, global, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

mod decimal;

use decimal::Decimal;

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

/// A parsed quantity; equal when the numbers are.
#[derive(Clone, Debug)]
pub(crate) struct Quantity(Decimal);

/// Quantities resolve billionths.
const SCALE_MAX: i64 = 9;
/// Exponents beyond this name no quantity of anything, and their digits would fill memory.
const EXPONENT_MAX: i64 = 1000;
/// Kubernetes has no limit here; a megabyte of digits would.
const TEXT_BYTES_MAX: usize = 1024;

// === impl Quantity ===

impl Quantity {
    /// Parses `<sign><digits>.<digits><suffix>`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const MALFORMED: &str = "quantities must match the regular expression \
                                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return Err(MALFORMED);
        }
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(MALFORMED);
        }
        let factor = Factor::parse(suffix).ok_or("unable to parse quantity's suffix")?;
        let number = Decimal::parse(negative, whole, fraction);
        Ok(Self(match factor {
            Factor::Ten(exponent) => number.shifted(exponent).rounded_up(SCALE_MAX),
            Factor::Two(power) => number
                .times(1_u64 << power)
                .rounded_up(SCALE_MAX)
                .min(Decimal::from(i64::MAX)),
        }))
    }

    fn from_int(value: i64) -> Self {
        Self(Decimal::from(value))
    }

    fn order(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }

    fn to_int(&self) -> Option<i64> {
        self.0.to_int()
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}

/// What a suffix multiplies with.
enum Factor {
    /// A power of ten.
    Ten(i64),
    /// A power of two.
    Two(u32),
}

// === impl Factor ===

impl Factor {
    fn parse(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "" => Self::Ten(0),
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            other => {
                let exponent: i64 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
                (-EXPONENT_MAX..=EXPONENT_MAX)
                    .contains(&exponent)
                    .then_some(Self::Ten(exponent))?
            }
        })
    }
}

fn quantity<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(text))] = args else {
        return Err(Failure::NoOverload);
    };
    Quantity::parse(text).map(value).map_err(Failure::new)
}

fn is_quantity<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::String(text))] => Ok(Value::bool(Quantity::parse(text).is_ok())),
        _ => Err(Failure::NoOverload),
    }
}

fn sign<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let quantity = one(args)?;
    Ok(order_value(quantity.order(&Quantity::from_int(0))))
}

fn is_greater_than<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (left, right) = two(args)?;
    Ok(Value::bool(left.order(right).is_gt()))
}

fn is_less_than<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (left, right) = two(args)?;
    Ok(Value::bool(left.order(right).is_lt()))
}

fn compare_to<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (left, right) = two(args)?;
    Ok(order_value(left.order(right)))
}

fn as_float<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::double(one(args)?.0.to_float()))
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
    combine(args, meter, Decimal::plus)
}

fn sub<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    combine(args, meter, |left, right| left.plus(&right.negated()))
}

fn combine<'v>(
    args: &[Value<'v>],
    meter: &mut Meter,
    combine: impl Fn(&Decimal, &Decimal) -> Decimal,
) -> Returned<'v> {
    let [Value(Kind::Opaque(Opaque::Quantity(left))), right] = args else {
        return Err(Failure::NoOverload);
    };
    let right = match &right.0 {
        Kind::Opaque(Opaque::Quantity(right)) => Arc::clone(right),
        Kind::Int(right) => Arc::new(Quantity::from_int(*right)),
        _ => return Err(Failure::NoOverload),
    };
    meter.charge_bytes(left.0.digit_count() + right.0.digit_count())?;
    Ok(value(Quantity(combine(&left.0, &right.0))))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn equal_quantities_are_equal_however_they_are_written() {
        for (left, right) in [
            ("1", "1000m"),
            ("1.5Gi", "1610612736"),
            ("200M", "0.2G"),
            ("1e3", "1k"),
            ("1E3", "1k"),
            ("1E", "1000P"),
            (".5", "500m"),
            ("5.", "5"),
            ("-0", "0"),
            ("1e-3", "1m"),
            ("0.0000000001", "1n"),
            ("-0.0000000001", "-1n"),
            ("16Ei", "9223372036854775807"),
        ] {
            assert_eq!(parsed(left), parsed(right), "{left} and {right}");
        }
        assert_eq!(parsed("50M").order(&parsed("50Mi")), Ordering::Less);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "",
            "Three",
            "Mi",
            "200K",
            "1,3G",
            "1.2.3",
            "1 Gi",
            "++1",
            "1e",
            "1ee3",
            "1e9999999",
            ".",
            "-",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn integers_are_exact_or_refused() {
        for (text, want) in [
            ("50k", Some(50_000)),
            ("1.5", None),
            ("1500m", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("9999999999999999999999999999999999999G", None),
        ] {
            assert_eq!(parsed(text).to_int(), want, "{text}");
        }
    }
}
