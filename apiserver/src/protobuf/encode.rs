//! From JSON to a message, byte for byte as Kubernetes' generated code writes it: fields in the order of their numbers, entries of maps in
//! the order of their keys, and zeros wherever Go has no pointer.
//!
//! Source: `k8s.io/api/core/v1/generated.pb.go` (`MarshalToSizedBuffer`), `apimachinery/pkg/runtime/types_proto.go`,
//! `apimachinery/pkg/runtime/serializer/streaming`.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::tables::{FieldKind, FieldRule, Message, Shape, Tables};
use super::{Error, PREFIX, scalar};

const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";
const LIST_META: &str = "meta.v1.ListMeta";

/// Wire types. Source: protobuf encoding, "Message Structure".
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const DELIMITED: u64 = 2;
const FIXED32: u64 = 5;

/// Encodes an object, or a list, with its envelope.
pub(super) fn object(tables: &Tables, object: &Value) -> Result<Vec<u8>, Error> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let encoder = Encoder { tables };
    // The versions of the core group say no version of their own.
    let versions = (api_version, kind) == ("", "APIVersions");
    let version = if versions { "v1" } else { api_version };
    let raw = match (tables.root(version, kind), kind.strip_suffix("List")) {
        (Some(message), _) => encoder.fields(message, object)?,
        (None, Some(item_kind)) => {
            let message = root(tables, api_version, item_kind)?;
            let mut raw = encoder.list_meta(&object["metadata"])?;
            for item in object["items"].as_array().into_iter().flatten() {
                delimited(&mut raw, 2, &encoder.fields(message, item)?);
            }
            raw
        }
        (None, None) => return Err(no_message(api_version, kind)),
    };
    let mut out = head((api_version, kind), raw.len());
    out.extend_from_slice(&raw);
    out.extend_from_slice(ENVELOPE_END);
    Ok(out)
}

/// Encodes an item of a list.
pub(super) fn item(
    tables: &Tables,
    (api_version, kind): (&str, &str),
    item: &Value,
) -> Result<Vec<u8>, Error> {
    let message = root(tables, api_version, kind)?;
    Encoder { tables }.fields(message, item)
}

/// Makes a list out of its items, which are not copied.
pub(super) fn list(
    tables: &Tables,
    (api_version, kind): (&str, &str),
    metadata: &Value,
    items: Vec<Bytes>,
) -> Result<Vec<Bytes>, Error> {
    let metadata = Encoder { tables }.list_meta(metadata)?;
    let mut length = metadata.len();
    let mut pieces = Vec::with_capacity(items.len().saturating_mul(2));
    for item in items {
        let mut before = Vec::new();
        key(&mut before, 2, DELIMITED);
        varint(&mut before, item.len() as u64);
        length = length
            .saturating_add(before.len())
            .saturating_add(item.len());
        pieces.push(Bytes::from(before));
        pieces.push(item);
    }
    let mut first = head((api_version, kind), length);
    first.extend_from_slice(&metadata);
    let mut all = vec![Bytes::from(first)];
    all.append(&mut pieces);
    all.push(Bytes::from_static(ENVELOPE_END));
    Ok(all)
}

/// `WatchEvent{type, object: RawExtension{raw}}` behind its length in four bytes.
pub(super) fn event(out: &mut Vec<u8>, event_type: &str, object: &[u8]) {
    let mut raw = Vec::with_capacity(object.len().saturating_add(8));
    delimited(&mut raw, 1, object);
    let mut event = Vec::with_capacity(raw.len().saturating_add(24));
    delimited(&mut event, 1, event_type.as_bytes());
    delimited(&mut event, 2, &raw);
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&event);
}

/// `contentEncoding` and `contentType` of the envelope, which are empty.
const ENVELOPE_END: &[u8] = &[0x1a, 0, 0x22, 0];

/// The envelope up to the message.
fn head((api_version, kind): (&str, &str), length: usize) -> Vec<u8> {
    let mut meta = Vec::new();
    delimited(&mut meta, 1, api_version.as_bytes());
    delimited(&mut meta, 2, kind.as_bytes());
    let mut out = PREFIX.to_vec();
    delimited(&mut out, 1, &meta);
    key(&mut out, 2, DELIMITED);
    varint(&mut out, length as u64);
    out
}

fn root<'t>(tables: &'t Tables, api_version: &str, kind: &str) -> Result<&'t Message, Error> {
    let message = tables.root(api_version, kind);
    message.ok_or_else(|| no_message(api_version, kind))
}

fn no_message(api_version: &str, kind: &str) -> Error {
    Error::Kind {
        kind: kind.to_owned(),
        api_version: api_version.to_owned(),
    }
}

/// Encodes messages.
struct Encoder<'t> {
    tables: &'t Tables,
}

// === impl Encoder ===

impl Encoder<'_> {
    fn list_meta(&self, metadata: &Value) -> Result<Vec<u8>, Error> {
        let mut raw = Vec::new();
        delimited(&mut raw, 1, &self.named(LIST_META, metadata)?);
        Ok(raw)
    }

    /// Encodes a message by its name.
    fn named(&self, name: &str, value: &Value) -> Result<Vec<u8>, Error> {
        let message = self.tables.message(name);
        self.fields(message.ok_or_else(|| no_message("", name))?, value)
    }

    /// Encodes the fields of a message; those that it does not know are left out.
    fn fields(&self, message: &Message, value: &Value) -> Result<Vec<u8>, Error> {
        let nothing = Map::new();
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Null => &nothing,
            _ => return Err(content("")),
        };
        let mut out = Vec::new();
        for (number, rule) in message {
            match rule.shape {
                Shape::Inline => self.single(&mut out, *number, rule, Some(value))?,
                Shape::Single => {
                    let value = fields.get(rule.name).filter(|value| !value.is_null());
                    self.single(&mut out, *number, rule, value)?;
                }
                Shape::Repeated => {
                    for item in array(fields.get(rule.name), rule)? {
                        self.single(&mut out, *number, rule, Some(item))?;
                    }
                }
                Shape::Map => self.entries(&mut out, (*number, rule), fields.get(rule.name))?,
            }
        }
        Ok(out)
    }

    fn entries(
        &self,
        out: &mut Vec<u8>,
        (number, rule): (u32, &FieldRule),
        map: Option<&Value>,
    ) -> Result<(), Error> {
        let map = match map {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Object(map)) => map,
            Some(_) => return Err(content(rule.name)),
        };
        let mut names: Vec<_> = map.iter().collect();
        names.sort_by_key(|(name, _)| *name);
        for (name, value) in names {
            let mut entry = Vec::new();
            delimited(&mut entry, 1, name.as_bytes());
            self.single(&mut entry, 2, rule, Some(value))?;
            delimited(out, number, &entry);
        }
        Ok(())
    }

    /// Encodes a field of one value; what is absent is a zero, or nothing where Go has a pointer or a slice.
    fn single(
        &self,
        out: &mut Vec<u8>,
        number: u32,
        rule: &FieldRule,
        value: Option<&Value>,
    ) -> Result<(), Error> {
        let is_slice = matches!(rule.kind, FieldKind::Bytes | FieldKind::StringList);
        if value.is_none() && (!rule.always || is_slice) {
            return Ok(());
        }
        let value = value.unwrap_or(&Value::Null);
        match rule.kind {
            FieldKind::Integer => {
                key(out, number, VARINT);
                varint(out, integer(value, rule)?.cast_unsigned());
            }
            FieldKind::Boolean => {
                key(out, number, VARINT);
                varint(out, u64::from(boolean(value, rule)?));
            }
            FieldKind::Double => {
                key(out, number, FIXED64);
                out.extend_from_slice(&double(value, rule)?.to_le_bytes());
            }
            FieldKind::Float => {
                #[expect(clippy::cast_possible_truncation, reason = "it is one of 32 bits")]
                let float = double(value, rule)? as f32;
                key(out, number, FIXED32);
                out.extend_from_slice(&float.to_le_bytes());
            }
            _ => delimited(out, number, &self.content(rule, value)?),
        }
        Ok(())
    }

    /// Encodes what has its length before it.
    fn content(&self, rule: &FieldRule, value: &Value) -> Result<Vec<u8>, Error> {
        let name = rule.name;
        match rule.kind {
            FieldKind::Text => Ok(text(value, name)?.as_bytes().to_vec()),
            FieldKind::Bytes => scalar::of_base64(text(value, name)?, name),
            FieldKind::Time | FieldKind::MicroTime => {
                let now = text(value, name)?;
                let Some((seconds, nanos)) = scalar::of_time(now, name)? else {
                    return Ok(Vec::new());
                };
                let mut out = Vec::new();
                key(&mut out, 1, VARINT);
                varint(&mut out, seconds.cast_unsigned());
                key(&mut out, 2, VARINT);
                let whole = rule.kind == FieldKind::Time;
                varint(&mut out, if whole { 0 } else { nanos });
                Ok(out)
            }
            FieldKind::Duration => {
                let mut out = Vec::new();
                key(&mut out, 1, VARINT);
                let nanos = scalar::of_duration(text(value, name)?, name)?;
                varint(&mut out, nanos.cast_unsigned());
                Ok(out)
            }
            FieldKind::Quantity => quantity(value, name),
            FieldKind::IntOrString => int_or_string(value, rule),
            FieldKind::RawJson | FieldKind::FieldsV1 => {
                let mut out = Vec::new();
                if !value.is_null() {
                    delimited(&mut out, 1, value.to_string().as_bytes());
                }
                Ok(out)
            }
            FieldKind::StringList => {
                let mut out = Vec::new();
                for item in array(Some(value), rule)? {
                    delimited(&mut out, 1, text(item, name)?.as_bytes());
                }
                Ok(out)
            }
            FieldKind::Message(message) => self.named(message, value),
            FieldKind::SchemaOrArray | FieldKind::SchemaOrBool | FieldKind::SchemaOrStrings => {
                self.schema_or(rule, value)
            }
            FieldKind::Integer | FieldKind::Boolean | FieldKind::Double | FieldKind::Float => {
                Err(content(name))
            }
        }
    }

    /// The unions of a JSON schema.
    fn schema_or(&self, rule: &FieldRule, value: &Value) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let schema = match value {
            Value::Object(_) => Some(self.named(SCHEMA, value)?),
            _ => None,
        };
        match (rule.kind, value) {
            (FieldKind::SchemaOrBool, value) => {
                key(&mut out, 1, VARINT);
                varint(
                    &mut out,
                    u64::from(schema.is_some() || boolean(value, rule)?),
                );
                if let Some(schema) = schema {
                    delimited(&mut out, 2, &schema);
                }
            }
            (_, Value::Object(_)) => delimited(&mut out, 1, &schema.unwrap_or_default()),
            (kind, Value::Array(items)) => {
                for item in items {
                    let item = match kind {
                        FieldKind::SchemaOrStrings => text(item, rule.name)?.as_bytes().to_vec(),
                        _ => self.named(SCHEMA, item)?,
                    };
                    delimited(&mut out, 2, &item);
                }
            }
            _ => return Err(content(rule.name)),
        }
        Ok(out)
    }
}

/// `Quantity{string}`.
fn quantity(value: &Value, name: &str) -> Result<Vec<u8>, Error> {
    let text = match value {
        Value::Null => "0".to_owned(),
        Value::Number(number) => number.to_string(),
        value => text(value, name)?.to_owned(),
    };
    let mut out = Vec::new();
    delimited(&mut out, 1, text.as_bytes());
    Ok(out)
}

/// `IntOrString{type, intVal, strVal}`.
fn int_or_string(value: &Value, rule: &FieldRule) -> Result<Vec<u8>, Error> {
    let (number, string) = match value {
        Value::String(string) => (0, Some(string.as_str())),
        value => (integer(value, rule)?, None),
    };
    let mut out = Vec::new();
    key(&mut out, 1, VARINT);
    varint(&mut out, u64::from(string.is_some()));
    key(&mut out, 2, VARINT);
    varint(&mut out, number.cast_unsigned());
    delimited(&mut out, 3, string.unwrap_or_default().as_bytes());
    Ok(out)
}

fn array<'v>(value: Option<&'v Value>, rule: &FieldRule) -> Result<&'v [Value], Error> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(content(rule.name)),
    }
}

fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, Error> {
    match value {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        _ => Err(content(name)),
    }
}

fn integer(value: &Value, rule: &FieldRule) -> Result<i64, Error> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number that is in range"
    )]
    let whole = |number: f64| {
        let is_whole = number.fract() == 0.0 && number.abs() < 9.2e18;
        is_whole.then_some(number as i64)
    };
    match value {
        Value::Null => Ok(0),
        Value::Number(number) => number
            .as_i64()
            .or_else(|| number.as_u64().map(u64::cast_signed))
            .or_else(|| number.as_f64().and_then(whole))
            .ok_or_else(|| content(rule.name)),
        _ => Err(content(rule.name)),
    }
}

fn boolean(value: &Value, rule: &FieldRule) -> Result<bool, Error> {
    match value {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        _ => Err(content(rule.name)),
    }
}

fn double(value: &Value, rule: &FieldRule) -> Result<f64, Error> {
    match value {
        Value::Null => Ok(0.0),
        value => value.as_f64().ok_or_else(|| content(rule.name)),
    }
}

fn key(out: &mut Vec<u8>, number: u32, wire_type: u64) {
    varint(out, u64::from(number) << 3 | wire_type);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn delimited(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    key(out, number, DELIMITED);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn content(name: &str) -> Error {
    Error::Content {
        name: name.to_owned(),
    }
}
