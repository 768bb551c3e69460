//! The first version of the formatter, which Kubernetes pins: what is inside lists and maps is written as literals, and
//! numbers with a point as English text has them.
//!
//! Source: `cel-go/ext/formatting.go`, `golang.org/x/text/message`, `strconv.Quote`.

use std::fmt::Write as _;

use super::{decimal, double, fixed, text as plain};
use crate::budget::Meter;
use crate::error::Failure;
use crate::library::convert::to_string;
use crate::value::{Key, Kind, Value};

/// Formats `%s`.
pub(super) fn text(value: &Value<'_>, meter: &mut Meter) -> Result<String, Failure> {
    match &value.0 {
        Kind::List(list) => {
            let mut parts = Vec::with_capacity(list.len());
            for value in list.iter() {
                parts.push(literal(&value?, meter)?);
            }
            Ok(format!("[{}]", parts.join(", ")))
        }
        Kind::Map(map) => {
            let mut parts = Vec::with_capacity(map.len());
            for (key, value) in map.entries()? {
                parts.push((of_key(&key, meter)?, literal(&value, meter)?));
            }
            parts.sort_by(|(left, _), (right, _)| left.cmp(right));
            let parts = parts
                .into_iter()
                .map(|(key, value)| format!("{key}:{value}"));
            Ok(format!("{{{}}}", parts.collect::<Vec<_>>().join(", ")))
        }
        Kind::Bytes(bytes) if std::str::from_utf8(bytes).is_err() => Err(Failure::new(
            "error during formatting: could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to \
             string",
        )),
        Kind::Double(_) => match to_string(std::slice::from_ref(value), meter)?.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(Failure::NoOverload),
        },
        _ => plain(value, meter),
    }
}

fn of_key(key: &Key<'_>, meter: &mut Meter) -> Result<String, Failure> {
    literal(&key.value(), meter)
}

fn literal(value: &Value<'_>, meter: &mut Meter) -> Result<String, Failure> {
    let written = text(value, meter)?;
    Ok(match &value.0 {
        Kind::Bytes(_) => format!("b{}", quoted(&written)),
        Kind::Duration(_) => format!("duration({})", quoted(&written)),
        Kind::Timestamp(_) => format!("timestamp({})", quoted(&written)),
        Kind::Double(value) if value.is_finite() => format!("{value:.6}"),
        Kind::String(_) | Kind::Double(_) => quoted(&written),
        _ => written,
    })
}

/// Writes a text as Go quotes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            c if c.is_ascii_control() => {
                write!(quoted, "\\x{:02x}", u32::from(c))
                    .expect("writing to a string does not fail");
            }
            c if c.is_control() || c == '\u{ad}' || (c != ' ' && c.is_whitespace()) => {
                write!(quoted, "\\u{:04x}", u32::from(c))
                    .expect("writing to a string does not fail");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Formats `%d`, `%f` and `%e`.
pub(super) fn number(verb: char, value: &Value<'_>, places: usize) -> Option<String> {
    let value = match &value.0 {
        Kind::Int(_) | Kind::Uint(_) if verb == 'd' => return decimal(value),
        // Zero has no sign.
        Kind::Double(value) if verb != 'd' => *value + 0.0,
        Kind::String(text) if verb != 'd' => match &**text {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => return None,
        },
        _ => return None,
    };
    Some(match verb {
        'e' => format!("{:>places$}", scientific(value)),
        _ if value.is_finite() => grouped(&fixed(&Value::double(value), places)?),
        _ => unlimited(value),
    })
}

/// A number that is no finite one.
fn unlimited(value: f64) -> String {
    double(value).replace("Infinity", "\u{221e}")
}

/// The formatter asks for a width where it means a precision, which is six.
fn scientific(value: f64) -> String {
    if !value.is_finite() {
        return unlimited(value);
    }
    let text = format!("{value:.6e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("\u{207b}", digits),
        None => ("", exponent),
    };
    let raised = format!("{digits:0>2}");
    let raised = raised.bytes().filter_map(|digit| {
        let digit = usize::from(digit.checked_sub(b'0')?);
        [
            "\u{2070}", "\u{b9}", "\u{b2}", "\u{b3}", "\u{2074}", "\u{2075}", "\u{2076}",
            "\u{2077}", "\u{2078}", "\u{2079}",
        ]
        .get(digit)
        .copied()
    });
    format!("{mantissa}\u{d7}10{sign}{}", raised.collect::<String>())
}

/// Puts a comma between each three digits before the point.
fn grouped(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut made = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            made.push(',');
        }
        made.push(digit);
    }
    made + rest
}
