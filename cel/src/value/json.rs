//! From JSON to values, one level at a time.
//!
//! A declared type decides what a JSON value means: a date-time string is a timestamp, a whole
//! double in an integer field is an `int`. Without one, an integer that fits is an `int` and any
//! other number a `double`.
//!
//! Source: `UnstructuredToVal` in `kro/pkg/cel/unstructured/valunstructured.go`, which follows
//! `k8s.io/apiserver/pkg/cel/common/values.go`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::Value as Json;

use super::{Kind, List, Map, Text, Value, number};
use crate::error::Failure;
use crate::time::{Duration, Timestamp};
use crate::types::DeclType;

/// Reads JSON of which nothing is declared.
pub(super) fn untyped(json: &Json) -> Value<'_> {
    Value(match json {
        Json::Null => Kind::Null,
        Json::Bool(value) => Kind::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Kind::Int(value),
            None => Kind::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Kind::String(Text::Borrowed(text)),
        Json::Array(items) => Kind::List(List::json(items, None)),
        Json::Object(fields) => Kind::Map(Map::json(fields, None)),
    })
}

/// Reads JSON as its declared type.
pub(super) fn typed<'v>(json: &'v Json, ty: &'v DeclType) -> Result<Value<'v>, Failure> {
    let kind = match (ty, json) {
        (DeclType::Optional(inner), _) => {
            return match json {
                Json::Null => Ok(Value::NONE),
                json => typed(json, inner).map(Value::some),
            };
        }
        (_, Json::Null) => Kind::Null,
        (DeclType::List(list), Json::Array(items)) => Kind::List(List::json(items, Some(list))),
        (DeclType::List(_), _) => return Err(invalid("an array", json)),
        (DeclType::Map(_) | DeclType::Object(_), Json::Object(fields)) => {
            Kind::Map(Map::json(fields, Some(ty)))
        }
        (DeclType::Map(_) | DeclType::Object(_), _) => return Err(invalid("a map", json)),
        (DeclType::Bool, Json::Bool(value)) => Kind::Bool(*value),
        (DeclType::Bool, _) => return Err(invalid("bool", json)),
        (DeclType::Int | DeclType::Uint | DeclType::Double, Json::Number(number)) => {
            return self::number(number, ty);
        }
        (DeclType::Int | DeclType::Uint, _) => return Err(invalid("int", json)),
        (DeclType::Double, _) => return Err(invalid("float", json)),
        (_, Json::String(text)) => return self::text(text, ty),
        (
            DeclType::String | DeclType::Bytes | DeclType::Timestamp | DeclType::Duration,
            Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_),
        ) => return Err(invalid("string", json)),
        _ => return Ok(untyped(json)),
    };
    Ok(Value(kind))
}

fn number<'v>(number: &serde_json::Number, ty: &DeclType) -> Result<Value<'v>, Failure> {
    let float = number.as_f64().unwrap_or(f64::NAN);
    let kind = match ty {
        DeclType::Double => Some(Kind::Double(float)),
        DeclType::Uint => number
            .as_u64()
            .or_else(|| number::double_to_uint(float))
            .map(Kind::Uint),
        _ => number
            .as_i64()
            .or_else(|| number::double_to_int(float))
            .map(Kind::Int),
    };
    kind.map(Value).ok_or_else(|| {
        Failure::new(format!(
            "invalid data, expected int, got non-integer float {float}"
        ))
    })
}

fn text<'v>(text: &'v str, ty: &DeclType) -> Result<Value<'v>, Failure> {
    let kind = match ty {
        DeclType::Timestamp => Timestamp::parse_date_time(text)
            .or_else(|| Timestamp::parse_date(text))
            .map(Kind::Timestamp)
            .ok_or_else(|| Failure::new(format!("Invalid date-time formatted string {text}"))),
        DeclType::Duration => Duration::parse_openapi(text)
            .map(Kind::Duration)
            .ok_or_else(|| Failure::new(format!("Invalid duration {text}"))),
        DeclType::Bytes => STANDARD
            .decode(text)
            .or_else(|_not_standard| URL_SAFE.decode(text))
            .map(|bytes| Kind::Bytes(Arc::from(bytes)))
            .map_err(|error| {
                Failure::new(format!("Invalid byte formatted string {text}: {error}"))
            }),
        _ => Ok(Kind::String(Text::Borrowed(text))),
    };
    kind.map(Value)
}

fn invalid(expected: &str, json: &Json) -> Failure {
    let got = match json {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    Failure::new(format!("invalid data, expected {expected}, got {got}"))
}

/// Makes values of JSON that nobody keeps, such as the result of `json.unmarshal`, where every
/// number is a double because Go decodes it so.
pub(crate) fn owned<'v>(json: &Json) -> Value<'v> {
    Value(match json {
        Json::Null => Kind::Null,
        Json::Bool(value) => Kind::Bool(*value),
        Json::Number(number) => Kind::Double(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Kind::String(Text::Shared(Arc::from(text.as_str()))),
        Json::Array(items) => Kind::List(List::of(items.iter().map(owned).collect())),
        Json::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (Text::Shared(Arc::from(name.as_str())), owned(value)));
            Kind::Map(Map::of_text(fields.collect()))
        }
    })
}
