//! The text of a value, as `cel/peer/render.go` writes it.

use std::fmt::Write as _;

use crate::error::Failure;
use crate::library::opaque::{Opaque, Quantity};
use crate::types::DeclType;
use crate::value::{Kind, Value};

/// Writes a value so that two values have one text only if they are the same.
pub(super) fn render(value: &Value<'_>) -> Result<String, Failure> {
    Ok(match &value.0 {
        Kind::Null => "null".to_owned(),
        Kind::Bool(value) => value.to_string(),
        Kind::Int(value) => value.to_string(),
        Kind::Uint(value) => format!("{value}u"),
        Kind::Double(value) if value.is_nan() => "double:nan".to_owned(),
        Kind::Double(value) => format!("double:{:016x}", value.to_bits()),
        Kind::String(text) => quote(text),
        Kind::Bytes(bytes) => bytes.iter().fold("bytes:".to_owned(), |text, byte| {
            format!("{text}{byte:02x}")
        }),
        Kind::Timestamp(at) => format!("timestamp:{}", at.unix_text()),
        Kind::Duration(span) => format!("duration:{}", span.nanos()),
        Kind::Optional(None) => "none".to_owned(),
        Kind::Optional(Some(value)) => format!("some({})", render(value)?),
        Kind::Type(name) => format!("type:{name}"),
        Kind::List(list) => {
            let items: Result<Vec<_>, Failure> = list.iter().map(|item| render(&item?)).collect();
            format!("[{}]", items?.join(", "))
        }
        Kind::Map(map) => {
            let entries = map.entries()?.into_iter();
            let texts = entries
                .map(|(key, value)| Ok(format!("{}: {}", render(&key.value())?, render(&value)?)));
            let mut texts = texts.collect::<Result<Vec<_>, Failure>>()?;
            texts.sort();
            format!("{{{}}}", texts.join(", "))
        }
        Kind::Opaque(opaque) => {
            let text = match opaque {
                Opaque::Ip(ip) => ip.to_string(),
                Opaque::Cidr(cidr) => cidr.to_string(),
                // How it was written does not count.
                Opaque::Quantity(quantity) => Quantity::from(0).plus(quantity).to_string(),
                _ => String::new(),
            };
            format!("{}({text})", opaque.type_name())
        }
        Kind::Object(object) => format!("{}()", object.type_name()),
    })
}

/// The name of a type, as cel-go prints it.
pub(super) fn type_text(ty: &DeclType) -> String {
    match ty {
        DeclType::Null => "null_type".to_owned(),
        DeclType::Timestamp => "google.protobuf.Timestamp".to_owned(),
        DeclType::Duration => "google.protobuf.Duration".to_owned(),
        DeclType::Type(inner) => format!("type({})", type_text(inner)),
        DeclType::List(list) => format!("list({})", type_text(&list.element)),
        DeclType::Map(map) => format!("map({}, {})", type_text(&map.key), type_text(&map.value)),
        DeclType::Optional(inner) => format!("optional_type({})", type_text(inner)),
        other => other.to_string(),
    }
}

fn quote(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for char in text.chars() {
        match char {
            ' '..='~' if char != '"' && char != '\\' => quoted.push(char),
            _ => drop(write!(quoted, "\\u{{{:x}}}", u32::from(char))),
        }
    }
    quoted.push('"');
    quoted
}
