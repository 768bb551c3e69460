//! `json.marshal` and `json.unmarshal`, as Go's `encoding/json` writes and reads.
//!
//! Go escapes `<`, `>` and `&`, sorts keys, writes bytes as base64, and decodes every number as a
//! float: `json.unmarshal("1")` is `1.0`.
//!
//! Source: `kro/pkg/cel/library/json.go`, Go's `encoding/json`.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::super::{Entry, Returned, global};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Key, Kind, Map, Value, owned_json};

pub(in crate::library) const FUNCTIONS: &[Entry] = &[
    global("json.marshal", &["(dyn) -> string"], marshal),
    global("json.unmarshal", &["(string) -> dyn"], unmarshal),
];

fn unmarshal<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(text))] = args else {
        return Err(Failure::NoOverload);
    };
    meter.charge_items(text.len() / 2)?;
    let json: Json = serde_json::from_str(text)
        .map_err(|error| Failure::new(format!("json.unmarshal failed to parse JSON: {error}")))?;
    Ok(owned_json(&json))
}

fn marshal<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [value] = args else {
        return Err(Failure::NoOverload);
    };
    let mut out = String::new();
    write_value(&mut out, value, meter)?;
    Ok(Value::string(out))
}

fn write_value(out: &mut String, value: &Value<'_>, meter: &mut Meter) -> Result<(), Failure> {
    meter.charge(1)?;
    match &value.0 {
        Kind::Null | Kind::Optional(None) => out.push_str("null"),
        Kind::Optional(Some(value)) => write_value(out, value, meter)?,
        Kind::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Kind::Int(value) => out.push_str(&value.to_string()),
        Kind::Uint(value) => out.push_str(&value.to_string()),
        Kind::Double(value) => write_double(out, *value)?,
        Kind::String(text) => write_text(out, text, meter)?,
        Kind::Bytes(bytes) => {
            meter.charge_bytes(bytes.len() * 2)?;
            out.push('"');
            out.push_str(&STANDARD.encode(bytes));
            out.push('"');
        }
        Kind::Timestamp(at) if at.is_zero() => out.push_str("null"),
        Kind::Timestamp(at) => write_text(out, &at.to_seconds_text(), meter)?,
        Kind::Duration(span) => write_text(out, &span.to_string(), meter)?,
        Kind::List(list) => {
            out.push('[');
            for (index, value) in list.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, &value?, meter)?;
            }
            out.push(']');
        }
        Kind::Map(map) => write_map(out, map, meter)?,
        Kind::Object(_) | Kind::Type(_) | Kind::Opaque(_) => {
            return Err(Failure::new(format!(
                "json.marshal failed to convert value: unsupported type: {}",
                value.type_name()
            )));
        }
    }
    Ok(())
}

fn write_map(out: &mut String, map: &Map<'_>, meter: &mut Meter) -> Result<(), Failure> {
    // A JSON object of a binding goes out as it is, whatever type it was declared with.
    let entries = match map {
        Map::Json(fields, Some(_)) => Map::Json(fields, None).entries()?,
        map => map.entries()?,
    };
    out.push('{');
    for (index, (key, value)) in entries.iter().enumerate() {
        let Key::String(name) = key else {
            let got = key.value().type_name();
            return Err(Failure::new(format!(
                "json.marshal failed to convert value: map key must be string, got {got}"
            )));
        };
        if index > 0 {
            out.push(',');
        }
        write_text(out, name, meter)?;
        out.push(':');
        write_value(out, value, meter)?;
    }
    out.push('}');
    Ok(())
}

fn write_double(out: &mut String, value: f64) -> Result<(), Failure> {
    if !value.is_finite() {
        return Err(Failure::new(format!(
            "json.marshal failed to encode value: json: unsupported value: {value}"
        )));
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        // Go writes a plus sign, and one digit of a negative exponent without a zero.
        match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => {
                out.extend([mantissa, "e+", exponent]);
            }
            _ => out.push_str(&text),
        }
    } else {
        out.push_str(&value.to_string());
    }
    Ok(())
}

fn write_text(out: &mut String, text: &str, meter: &mut Meter) -> Result<(), Failure> {
    meter.charge_bytes(text.len() * 2)?;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a string does not fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(())
}
