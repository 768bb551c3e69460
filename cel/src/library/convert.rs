//! Conversions between the scalar types, `type` and `dyn`.
//!
//! Source: the `ConvertToType` of `cel-go/common/types`.

use super::opaque::Opaque;
use super::{Entry, Returned, global};
use crate::budget::Meter;
use crate::error::Failure;
use crate::time::{Duration, Timestamp};
use crate::value::{INT_END, Kind, UINT_END, Value};

pub(super) const FUNCTIONS: &[Entry] = &[
    global("type", &["(A) -> type(A)"], type_of),
    global("dyn", &["(A) -> dyn"], dynamic),
    global("bool", &["(bool) -> bool", "(string) -> bool"], to_bool),
    global(
        "bytes",
        &["(bytes) -> bytes", "(string) -> bytes"],
        to_bytes,
    ),
    global(
        "double",
        &[
            "(double) -> double",
            "(int) -> double",
            "(string) -> double",
            "(uint) -> double",
        ],
        to_double,
    ),
    global(
        "duration",
        &["(duration) -> duration", "(string) -> duration"],
        to_duration,
    ),
    global(
        "int",
        &[
            "(int) -> int",
            "(double) -> int",
            "(duration) -> int",
            "(string) -> int",
            "(timestamp) -> int",
            "(uint) -> int",
        ],
        to_int,
    ),
    global(
        "string",
        &[
            "(string) -> string",
            "(bool) -> string",
            "(bytes) -> string",
            "(double) -> string",
            "(duration) -> string",
            "(int) -> string",
            "(timestamp) -> string",
            "(uint) -> string",
            "(ip) -> string",
            "(cidr) -> string",
        ],
        to_string,
    ),
    global(
        "timestamp",
        &[
            "(timestamp) -> timestamp",
            "(int) -> timestamp",
            "(string) -> timestamp",
        ],
        to_timestamp,
    ),
    global(
        "uint",
        &[
            "(uint) -> uint",
            "(double) -> uint",
            "(int) -> uint",
            "(string) -> uint",
        ],
        to_uint,
    ),
];

/// An overload that only the checker of Kubernetes' cel-go has: no integer becomes a duration.
///
/// Source: `overloads.IntToDuration` in `cel-go/common/stdlib/standard.go`.
pub(super) const INT_TO_DURATION: &[Entry] = &[global(
    "duration",
    &["(int) -> duration"],
    |args, _| match args {
        [Value(Kind::Int(_))] => Err(conversion("int", "google.protobuf.Duration")),
        _ => Err(Failure::NoOverload),
    },
)];

fn type_of<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [value] => Ok(Value(Kind::Type(value.type_name()))),
        _ => Err(Failure::NoOverload),
    }
}

fn dynamic<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [value] => Ok(value.clone()),
        _ => Err(Failure::NoOverload),
    }
}

fn to_bool<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [value @ Value(Kind::Bool(_))] => Ok(value.clone()),
        [Value(Kind::String(text))] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::bool(false)),
            _ => Err(conversion("string", "bool")),
        },
        _ => Err(Failure::NoOverload),
    }
}

fn to_bytes<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [value @ Value(Kind::Bytes(_))] => Ok(value.clone()),
        [Value(Kind::String(text))] => Ok(Value::bytes(text.as_bytes())),
        _ => Err(Failure::NoOverload),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "CEL converts integers to the nearest double"
)]
fn to_double<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [value @ Value(Kind::Double(_))] => Ok(value.clone()),
        [Value(Kind::Int(value))] => Ok(Value::double(*value as f64)),
        [Value(Kind::Uint(value))] => Ok(Value::double(*value as f64)),
        [Value(Kind::String(text))] => text
            .parse()
            .ok()
            // Go refuses digits that are beyond a double, and takes the word `inf`.
            .filter(|value: &f64| value.is_finite() || !text.contains(|c: char| c.is_ascii_digit()))
            .map(Value::double)
            .ok_or_else(|| conversion("string", "double")),
        _ => Err(Failure::NoOverload),
    }
}

fn to_duration<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [value @ Value(Kind::Duration(_))] => Ok(value.clone()),
        [Value(Kind::String(text))] => Duration::parse(text)
            .map(|span| Value(Kind::Duration(span)))
            .ok_or_else(|| conversion("string", "google.protobuf.Duration")),
        _ => Err(Failure::NoOverload),
    }
}

fn to_int<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [value @ Value(Kind::Int(_))] => Ok(value.clone()),
        [Value(Kind::Uint(value))] => i64::try_from(*value)
            .map(Value::int)
            .map_err(|_beyond| Failure::new("integer overflow")),
        [Value(Kind::Double(value))] => truncate_to_int(*value).map(Value::int),
        [Value(Kind::String(text))] => text
            .parse()
            .map(Value::int)
            .map_err(|_not_a_number| conversion("string", "int")),
        [Value(Kind::Timestamp(at))] => Ok(Value::int(at.unix())),
        [Value(Kind::Duration(span))] => Ok(Value::int(span.nanos())),
        _ => Err(Failure::NoOverload),
    }
}

/// cel-go refuses both ends of the range, because the double next to them is not exact.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn truncate_to_int(value: f64) -> Result<i64, Failure> {
    if value > -INT_END && value < INT_END {
        Ok(value as i64)
    } else {
        Err(Failure::new("integer overflow"))
    }
}

pub(super) fn to_string<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let text = match args {
        [value @ Value(Kind::String(_))] => return Ok(value.clone()),
        [Value(Kind::Bool(value))] => value.to_string(),
        [Value(Kind::Int(value))] => value.to_string(),
        [Value(Kind::Uint(value))] => value.to_string(),
        [Value(Kind::Double(value))] => go_float(*value),
        [Value(Kind::Bytes(bytes))] => std::str::from_utf8(bytes)
            .map_err(|_not_text| {
                Failure::new("invalid UTF-8 in byte sequence, cannot convert to string")
            })?
            .to_owned(),
        [Value(Kind::Timestamp(at))] => at.to_string(),
        [Value(Kind::Duration(span))] => span.to_seconds_text(),
        [Value(Kind::Opaque(Opaque::Ip(ip)))] => ip.to_string(),
        [Value(Kind::Opaque(Opaque::Cidr(cidr)))] => cidr.to_string(),
        _ => return Err(Failure::NoOverload),
    };
    Ok(Value::string(text))
}

/// Writes a double as Go's `%g` does: the shortest digits, with an exponent below 10^-4 and from
/// 10^6 upwards.
pub(super) fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("{:e} always writes an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} writes a decimal exponent");
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn to_timestamp<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let timestamp = match args {
        [value @ Value(Kind::Timestamp(_))] => return Ok(value.clone()),
        [Value(Kind::Int(seconds))] => {
            Timestamp::from_unix(*seconds, 0).ok_or_else(|| Failure::new("timestamp overflow"))?
        }
        [Value(Kind::String(text))] => Timestamp::parse(text)
            .ok_or_else(|| conversion("string", "google.protobuf.Timestamp"))?,
        _ => return Err(Failure::NoOverload),
    };
    Ok(Value(Kind::Timestamp(timestamp)))
}

fn to_uint<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let overflow = || Failure::new("unsigned integer overflow");
    let value = match args {
        [value @ Value(Kind::Uint(_))] => return Ok(value.clone()),
        [Value(Kind::Int(value))] => u64::try_from(*value).map_err(|_negative| overflow())?,
        [Value(Kind::Double(value))] => truncate_to_uint(*value).ok_or_else(overflow)?,
        // Unlike Go's reader of signed integers, that of unsigned ones takes no sign.
        [Value(Kind::String(text))] if text.starts_with('+') => {
            return Err(conversion("string", "uint"));
        }
        [Value(Kind::String(text))] => text
            .parse()
            .map_err(|_not_a_number| conversion("string", "uint"))?,
        _ => return Err(Failure::NoOverload),
    };
    Ok(Value(Kind::Uint(value)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked"
)]
fn truncate_to_uint(value: f64) -> Option<u64> {
    (0.0..UINT_END).contains(&value).then_some(value as u64)
}

fn conversion(from: &str, to: &str) -> Failure {
    Failure::new(format!("type conversion error from '{from}' to '{to}'"))
}
