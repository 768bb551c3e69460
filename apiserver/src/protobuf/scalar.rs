//! Values that are messages on the wire and scalars in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{Timestamp, civil::DateTime};
use serde_json::Value;

use super::Error;
use super::wire::{Field, Reader};

/// Decodes text.
pub(super) fn text(bytes: &[u8], name: &str) -> Result<String, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_bad| content(name))?;
    Ok(text.to_owned())
}

/// Shows bytes as JSON does.
pub(super) fn base64(bytes: &[u8]) -> Value {
    Value::String(STANDARD.encode(bytes))
}

/// Shows a floating point number; whole ones as JSON writes them in Go, without fraction.
pub(super) fn number(number: f64, name: &str) -> Result<Value, Error> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0; // 2^53
    if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        return Ok(Value::from(number as i64));
    }
    serde_json::Number::from_f64(number)
        .map(Value::Number)
        .ok_or_else(|| content(name))
}

/// `Timestamp{seconds, nanos}` with seconds shown; the zero time is an empty message and null in JSON.
pub(super) fn time(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let Some((seconds, _nanos)) = seconds_and_nanos(bytes)? else {
        return Ok(Value::Null);
    };
    let time = Timestamp::from_second(seconds).map_err(|_range| content(name))?;
    Ok(Value::String(time.to_string()))
}

/// `Timestamp{seconds, nanos}` with microseconds shown.
pub(super) fn micro_time(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let Some((seconds, nanos)) = seconds_and_nanos(bytes)? else {
        return Ok(Value::Null);
    };
    let time = Timestamp::from_second(seconds).map_err(|_range| content(name))?;
    let whole = time.to_string();
    let micros = nanos
        .checked_div(1000)
        .filter(|micros| (0..1_000_000).contains(micros));
    let micros = micros.ok_or_else(|| content(name))?;
    Ok(Value::String(format!(
        "{}.{micros:06}Z",
        whole.trim_end_matches('Z')
    )))
}

fn seconds_and_nanos(bytes: &[u8]) -> Result<Option<(i64, i64)>, Error> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        match (number, field) {
            (1, Field::Varint(value)) => seconds = value.cast_signed(),
            (2, Field::Varint(value)) => nanos = value.cast_signed(),
            _ => {}
        }
    }
    Ok(Some((seconds, nanos)))
}

/// `Duration{nanoseconds}` as Go prints it.
pub(super) fn duration(bytes: &[u8]) -> Result<Value, Error> {
    let mut nanos = 0_i64;
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        if let (1, Field::Varint(value)) = (number, field) {
            nanos = value.cast_signed();
        }
    }
    Ok(Value::String(go_duration(nanos)))
}

/// Prints nanoseconds as Go's `time.Duration` does: `1h0m0s`, `1.5s`, `250ms`.
fn go_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let part = |unit: u64, name: &str| {
        let whole = nanos.checked_div(unit).unwrap_or(0);
        let rest = nanos.checked_rem(unit).unwrap_or(0);
        let width = unit.checked_ilog10().unwrap_or(0) as usize;
        let digits = format!("{rest:0width$}");
        let digits = if rest == 0 {
            ""
        } else {
            digits.trim_end_matches('0')
        };
        let dot = if digits.is_empty() { "" } else { "." };
        format!("{sign}{whole}{dot}{digits}{name}")
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => part(1_000, "µs"),
        1_000_000..1_000_000_000 => part(1_000_000, "ms"),
        _ => long_duration(sign, nanos),
    }
}

fn long_duration(sign: &str, nanos: u64) -> String {
    let seconds = nanos.checked_div(1_000_000_000).unwrap_or(0);
    let rest = nanos.checked_rem(1_000_000_000).unwrap_or(0);
    let digits = format!("{rest:09}");
    let digits = if rest == 0 {
        ""
    } else {
        digits.trim_end_matches('0')
    };
    let dot = if digits.is_empty() { "" } else { "." };
    let (minutes, second) = (seconds / 60, seconds % 60);
    let (hours, minute) = (minutes / 60, minutes % 60);
    let second = format!("{second}{dot}{digits}s");
    match (hours, minutes) {
        (0, 0) => format!("{sign}{second}"),
        (0, _) => format!("{sign}{minute}m{second}"),
        _ => format!("{sign}{hours}h{minute}m{second}"),
    }
}

/// `Quantity{string}`.
pub(super) fn quantity(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let mut found = String::from("0");
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        if let (1, Field::Bytes(value)) = (number, field) {
            found = text(value, name)?;
        }
    }
    Ok(Value::String(found))
}

/// `IntOrString{type, intVal, strVal}`.
pub(super) fn int_or_string(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let (mut is_text, mut integer, mut string) = (false, 0_i64, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        match (number, field) {
            (1, Field::Varint(value)) => is_text = value == 1,
            (2, Field::Varint(value)) => integer = value.cast_signed(),
            (3, Field::Bytes(value)) => string = text(value, name)?,
            _ => {}
        }
    }
    Ok(if is_text {
        Value::String(string)
    } else {
        Value::from(integer)
    })
}

/// A message whose field 1 is JSON text; null if it is empty.
pub(super) fn raw_json(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        if let (1, Field::Bytes(json)) = (number, field) {
            return serde_json::from_slice(json).map_err(|_syntax| content(name));
        }
    }
    Ok(Value::Null)
}

/// A message whose field 1 is a list of strings.
pub(super) fn string_list(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let mut list = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        if let (1, Field::Bytes(item)) = (number, field) {
            list.push(Value::String(text(item, name)?));
        }
    }
    Ok(Value::Array(list))
}

/// Reads bytes as JSON shows them.
pub(super) fn of_base64(text: &str, name: &str) -> Result<Vec<u8>, Error> {
    STANDARD.decode(text).map_err(|_other| content(name))
}

/// Reads a time as seconds and nanoseconds; none of an empty text, which is Go's zero time.
pub(super) fn of_time(text: &str, name: &str) -> Result<Option<(i64, u64)>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let Ok(time) = text.parse::<Timestamp>() else {
        return far_time(text).map(Some).ok_or_else(|| content(name));
    };
    let nanos = i64::from(time.subsec_nanosecond());
    // Before 1970 the fraction counts backwards in one, and forwards in the other.
    let seconds = time.as_second().saturating_sub(i64::from(nanos < 0));
    let nanos = nanos.rem_euclid(1_000_000_000);
    Ok(Some((seconds, nanos.unsigned_abs())))
}

/// [`of_time`] of a time that is beyond the years of a [`Timestamp`] in UTC, as `9999-12-31T23:59:59-01:00` is.
fn far_time(text: &str) -> Option<(i64, u64)> {
    let (local, offset) = match text.strip_suffix(['Z', 'z']) {
        Some(local) => (local, "+00:00"),
        None => text.split_at_checked(text.len().checked_sub("+00:00".len())?)?,
    };
    let offset = offset_seconds(offset)?;
    let local: DateTime = local.parse().ok()?;
    let since = local.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    let nanos = since.subsec_nanos();
    let seconds = since.as_secs().checked_sub(i64::from(nanos < 0))?;
    let nanos = i64::from(nanos).rem_euclid(1_000_000_000).unsigned_abs();
    Some((seconds.checked_sub(offset)?, nanos))
}

/// Reads `+01:00` as seconds.
fn offset_seconds(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    let minutes = i64::from(hours)
        .checked_mul(60)?
        .checked_add(minutes.into())?;
    minutes.checked_mul(60)?.checked_mul(sign)
}

/// Reads a duration in Go's form as nanoseconds.
pub(super) fn of_duration(text: &str, name: &str) -> Result<i64, Error> {
    if text.is_empty() {
        return Ok(0);
    }
    let duration = dialect::Duration::parse(text);
    duration
        .map(dialect::Duration::nanos)
        .ok_or_else(|| content(name))
}

fn content(name: &str) -> Error {
    Error::Content {
        name: name.to_owned(),
    }
}
