//! `string.format`, whose result depends on no locale.
//!
//! kro has the second version of the formatter. Kubernetes has the first, which writes what is inside lists and maps as
//! literals ([`first`]).
//!
//! Source: `cel-go/ext/{formatting,formatting_v2}.go`.

use std::fmt::Write as _;

use super::{Entry, Returned, member};
use crate::budget::Meter;
use crate::error::{EvaluateError, Failure};
use crate::types::DeclType;
use crate::value::{Kind, List, Value};

mod first;

pub(super) const FUNCTIONS: &[Entry] =
    &[member("format", &["(string, list(dyn)) -> string"], format)];

/// The formatter that Kubernetes has.
pub(super) const FIRST: &[Entry] = &[member(
    "format",
    &["(string, list(dyn)) -> string"],
    |args, meter| written(args, meter, true),
)];

const PRECISION_DEFAULT: usize = 6;
const PRECISION_MAX: usize = 100;

fn format<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    written(args, meter, false)
}

fn written<'v>(args: &[Value<'v>], meter: &mut Meter, first: bool) -> Returned<'v> {
    let [Value(Kind::String(pattern)), Value(Kind::List(values))] = args else {
        return Err(Failure::NoOverload);
    };
    let mut formatter = Formatter {
        rest: pattern.chars(),
        values,
        used: 0,
        first,
    };
    let mut text = String::new();
    while let Some(c) = formatter.rest.next() {
        if c == '%' {
            let part = formatter.clause(meter)?;
            meter.charge_bytes(part.len())?;
            text.push_str(&part);
        } else {
            text.push(c);
        }
    }
    Ok(Value::string(text))
}

struct Formatter<'p, 'v> {
    rest: std::str::Chars<'p>,
    values: &'p List<'v>,
    used: usize,
    /// Whether it is the formatter that Kubernetes has.
    first: bool,
}

// === impl Formatter ===

impl Formatter<'_, '_> {
    /// Formats the clause after a `%`.
    fn clause(&mut self, meter: &mut Meter) -> Result<String, Failure> {
        if self.rest.as_str().starts_with('%') {
            self.rest.next();
            return Ok("%".to_owned());
        }
        let index = self.used;
        let value = self
            .values
            .get(index)
            .ok_or_else(|| Failure::new(format!("index {index} out of range")))??;
        self.used += 1;
        let precision = self.precision()?;
        let Some(verb) = self.rest.next() else {
            return Err(Failure::new("unexpected end of string"));
        };
        let places = precision.unwrap_or(PRECISION_DEFAULT);
        let formatted = match verb {
            's' if self.first => return first::text(&value, meter),
            'd' | 'f' | 'e' if self.first => first::number(verb, &value, places),
            's' => return text(&value, meter),
            'd' => decimal(&value),
            'f' => fixed(&value, places),
            'e' => scientific(&value, places),
            'b' => binary(&value),
            'x' => hex(&value, meter)?,
            'X' => hex(&value, meter)?.map(|text| text.to_uppercase()),
            'o' => octal(&value),
            other => {
                return Err(Failure::new(format!(
                    "could not parse formatting clause: unrecognized formatting clause \
                     \"{other}\""
                )));
            }
        };
        formatted.ok_or_else(|| Failure::new(refusal(verb, value.type_name())))
    }

    fn precision(&mut self) -> Result<Option<usize>, Failure> {
        let Some(rest) = self.rest.as_str().strip_prefix('.') else {
            return Ok(None);
        };
        let refuse = |what: &str| {
            Failure::new(format!(
                "could not parse formatting clause: error while parsing precision: {what}"
            ))
        };
        let Some(end) = rest.find(|c: char| !c.is_ascii_digit()) else {
            return Err(refuse("could not find end of precision specifier"));
        };
        let (digits, rest) = rest.split_at(end);
        self.rest = rest.chars();
        let precision = digits
            .parse()
            .map_err(|_not_a_number| refuse("error while converting precision to integer"))?;
        if precision > PRECISION_MAX {
            return Err(refuse(&format!(
                "precision {precision} exceeds maximum allowed precision {PRECISION_MAX}"
            )));
        }
        Ok(Some(precision))
    }
}

/// Judges a pattern by the types of its arguments, before there are values. `first` is the formatter that Kubernetes has,
/// whose clauses take other types. An error says which argument it is about, where it is about one.
///
/// Source: `stringFormatValidator` in `cel-go/ext/{formatting,formatting_v2}.go`.
pub(crate) fn judge(
    pattern: &str,
    types: &[DeclType],
    first: bool,
) -> Result<(), (Option<usize>, String)> {
    let plain = |message: String| (None, message);
    let mut formatter = Formatter {
        rest: pattern.chars(),
        values: &List::of(Vec::new()),
        used: 0,
        first,
    };
    while let Some(c) = formatter.rest.next() {
        if c != '%' {
            continue;
        }
        if formatter.rest.as_str().starts_with('%') {
            formatter.rest.next();
            continue;
        }
        if formatter.rest.as_str().is_empty() {
            return Err(plain("unexpected end of string".to_owned()));
        }
        let index = formatter.used;
        let Some(ty) = types.get(index) else {
            return Err(plain(format!("index {index} out of range")));
        };
        formatter.used += 1;
        let precision = formatter.precision();
        precision.map_err(|failure| plain(EvaluateError::from(failure).message))?;
        let verb = formatter.rest.next();
        let verb = verb.ok_or_else(|| plain("unexpected end of string".to_owned()))?;
        let Some(fits) = takes(verb, ty, first) else {
            return Err(plain(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            )));
        };
        if !fits {
            return Err((Some(index), refusal(verb, &ty.to_string())));
        }
    }
    if types.len() > formatter.used {
        return Err(plain(format!(
            "too many arguments supplied to string.format (expected {}, got {})",
            formatter.used,
            types.len()
        )));
    }
    Ok(())
}

/// Whether a clause takes values of a type; `None` for one that does not exist.
fn takes(verb: char, ty: &DeclType, first: bool) -> Option<bool> {
    if matches!(ty, DeclType::Dyn | DeclType::Param(_)) {
        return "sdfebxXo".contains(verb).then_some(true);
    }
    let whole = matches!(ty, DeclType::Int | DeclType::Uint);
    let double = *ty == DeclType::Double;
    let text = *ty == DeclType::String;
    Some(match verb {
        's' => !matches!(ty, DeclType::Optional(_) | DeclType::Opaque(_)),
        'd' => whole || (double && !first),
        'f' | 'e' if first => double || text,
        'f' | 'e' => whole || double,
        'b' => whole || *ty == DeclType::Bool,
        'x' | 'X' => whole || text || *ty == DeclType::Bytes,
        'o' => whole,
        _ => return None,
    })
}

/// Formats `%s`, of anything that has a text.
fn text(value: &Value<'_>, meter: &mut Meter) -> Result<String, Failure> {
    meter.charge(1)?;
    Ok(match &value.0 {
        Kind::String(text) => {
            meter.charge_bytes(text.len())?;
            text.to_string()
        }
        Kind::Bytes(bytes) => {
            meter.charge_bytes(bytes.len())?;
            String::from_utf8_lossy(bytes).into_owned()
        }
        Kind::Double(value) => double(*value),
        Kind::Duration(span) => span.to_seconds_text(),
        Kind::Null
        | Kind::Bool(_)
        | Kind::Int(_)
        | Kind::Uint(_)
        | Kind::Timestamp(_)
        | Kind::Type(_) => value.to_string(),
        Kind::List(list) => {
            let mut parts = Vec::with_capacity(list.len());
            for value in list.iter() {
                parts.push(text(&value?, meter)?);
            }
            format!("[{}]", parts.join(", "))
        }
        Kind::Map(map) => {
            let mut parts = Vec::with_capacity(map.len());
            for (key, value) in map.entries()? {
                let key = text(&key.value(), meter)?;
                parts.push((key, text(&value, meter)?));
            }
            parts.sort();
            let parts: Vec<String> = parts
                .into_iter()
                .map(|(key, value)| format!("{key}: {value}"))
                .collect();
            format!("{{{}}}", parts.join(", "))
        }
        Kind::Object(_) | Kind::Optional(_) | Kind::Opaque(_) => {
            return Err(Failure::new(refusal('s', value.type_name())));
        }
    })
}

fn double(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        value.to_string()
    }
}

fn decimal(value: &Value<'_>) -> Option<String> {
    match &value.0 {
        Kind::Int(value) => Some(value.to_string()),
        Kind::Uint(value) => Some(value.to_string()),
        Kind::Double(value) => Some(double(*value)),
        _ => None,
    }
}

fn fixed(value: &Value<'_>, places: usize) -> Option<String> {
    let value = number(value)?;
    Some(if value.is_finite() {
        format!("{value:.places$}")
    } else {
        double(value)
    })
}

fn scientific(value: &Value<'_>, places: usize) -> Option<String> {
    let value = number(value)?;
    if !value.is_finite() {
        return Some(double(value));
    }
    let text = format!("{value:.places$e}");
    let (mantissa, exponent) = text.split_once('e')?;
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    Some(format!("{mantissa}e{sign}{digits:0>2}"))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "integers are formatted as the nearest double"
)]
fn number(value: &Value<'_>) -> Option<f64> {
    match &value.0 {
        Kind::Int(value) => Some(*value as f64),
        Kind::Uint(value) => Some(*value as f64),
        Kind::Double(value) => Some(*value),
        _ => None,
    }
}

fn binary(value: &Value<'_>) -> Option<String> {
    match &value.0 {
        Kind::Bool(value) => Some(u8::from(*value).to_string()),
        Kind::Int(value) => Some(signed(*value, format!("{:b}", value.unsigned_abs()))),
        Kind::Uint(value) => Some(format!("{value:b}")),
        _ => None,
    }
}

fn octal(value: &Value<'_>) -> Option<String> {
    match &value.0 {
        Kind::Int(value) => Some(signed(*value, format!("{:o}", value.unsigned_abs()))),
        Kind::Uint(value) => Some(format!("{value:o}")),
        _ => None,
    }
}

fn hex(value: &Value<'_>, meter: &mut Meter) -> Result<Option<String>, Failure> {
    let bytes = match &value.0 {
        Kind::Int(value) => {
            let digits = format!("{:x}", value.unsigned_abs());
            return Ok(Some(signed(*value, digits)));
        }
        Kind::Uint(value) => return Ok(Some(format!("{value:x}"))),
        Kind::String(text) => text.as_bytes(),
        Kind::Bytes(bytes) => bytes,
        _ => return Ok(None),
    };
    meter.charge_bytes(bytes.len() * 2)?;
    Ok(Some(hex_text(bytes)))
}

fn hex_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
    }
    text
}

fn signed(value: i64, digits: String) -> String {
    if value < 0 {
        format!("-{digits}")
    } else {
        digits
    }
}

fn refusal(verb: char, given: &str) -> String {
    let rule = match verb {
        'd' => "decimal clause can only be used on ints, uints, and doubles",
        'f' => "fixed-point clause can only be used on ints, uints, and doubles",
        'e' => "scientific clause can only be used on ints, uints, and doubles",
        'b' => "only ints, uints, and bools can be formatted as binary",
        'x' | 'X' => "only ints, uints, bytes, and strings can be formatted as hex",
        'o' => "octal clause can only be used on ints and uints",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
             types, durations, and timestamps"
        }
    };
    format!("error during formatting: {rule}, was given {given}")
}
