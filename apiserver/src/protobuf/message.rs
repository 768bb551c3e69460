//! From a message to the JSON object that the same client would have sent.

use std::cell::RefCell;

use api::growth::Growth;
use serde_json::{Map, Value};

use super::scalar;
use super::tables::{FieldKind, FieldRule, Message, Shape, Tables};
use super::wire::{Field, Reader};
use super::{DEPTH_MAX, Error};

pub(super) const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

/// The tables, and the memory that what is decoded may still take: an empty message is two bytes on the wire.
#[derive(Debug)]
pub(super) struct Decoding<'t> {
    tables: &'t Tables,
    growth: RefCell<Growth>,
}

/// Decodes a message by its table; fields that the table does not know are dropped.
pub(super) fn decode(
    tables: &Decoding<'_>,
    message: &Message,
    bytes: &[u8],
    depth: usize,
) -> Result<Map<String, Value>, Error> {
    if depth > DEPTH_MAX {
        return Err(Error::Depth);
    }
    let mut out = Map::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        tables.charge_field(out.len())?;
        if let Some(rule) = message.get(&number) {
            Decoder {
                tables,
                rule,
                depth,
            }
            .add(&mut out, field)?;
        }
    }
    Ok(out)
}

/// Decodes one field.
struct Decoder<'a> {
    tables: &'a Decoding<'a>,
    rule: &'a FieldRule,
    depth: usize,
}

// === impl Decoding ===

impl<'t> Decoding<'t> {
    pub(super) fn new(tables: &'t Tables) -> Self {
        Self {
            tables,
            growth: RefCell::new(Growth::of_object()),
        }
    }

    /// Charges a field, or an item, that is about to be decoded into a place of so many.
    fn charge_field(&self, count: usize) -> Result<(), Error> {
        let charged = self.growth.borrow_mut().charge_field("", count);
        charged.map_err(Error::TooLarge)
    }
}

// === impl Decoder ===

impl Decoder<'_> {
    fn add(&self, out: &mut Map<String, Value>, field: Field<'_>) -> Result<(), Error> {
        match self.rule.shape {
            Shape::Single => {
                let value = self.value(field)?;
                if !(is_zero(&value) && self.is_left_out(&value)) {
                    out.insert(self.rule.name.to_owned(), value);
                }
            }
            Shape::Inline => {
                if let Value::Object(fields) = self.value(field)? {
                    out.extend(fields);
                }
            }
            Shape::Repeated => {
                let list = out
                    .entry(self.rule.name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    self.items(list, field)?;
                }
            }
            Shape::Map => {
                let map = out
                    .entry(self.rule.name)
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    self.entry(map, field)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a zero value stays out: a null always does, since only an unset time is one.
    fn is_left_out(&self, value: &Value) -> bool {
        self.rule.omit_zero || value.is_null()
    }

    fn items(&self, list: &mut Vec<Value>, field: Field<'_>) -> Result<(), Error> {
        if let (FieldKind::Integer, Field::Bytes(packed)) = (self.rule.kind, field) {
            let mut reader = Reader::new(packed);
            while let Some(number) = reader.packed()? {
                self.tables.charge_field(list.len().saturating_add(1))?;
                list.push(self.value(Field::Varint(number))?);
            }
            return Ok(());
        }
        list.push(self.value(field)?);
        Ok(())
    }

    fn entry(&self, map: &mut Map<String, Value>, field: Field<'_>) -> Result<(), Error> {
        self.tables.charge_field(map.len())?;
        let mut key = String::new();
        let mut value = None;
        let mut reader = Reader::new(self.bytes(field)?);
        while let Some((number, field)) = reader.next()? {
            match (number, field) {
                (1, Field::Bytes(text)) => key = scalar::text(text, self.rule.name)?,
                (2, field) => value = Some(self.value(field)?),
                _ => {}
            }
        }
        // A zero value is not on the wire.
        let zero = || match self.rule.kind {
            FieldKind::Text | FieldKind::Bytes => Value::String(String::new()),
            FieldKind::Quantity => Value::String("0".into()),
            FieldKind::StringList => Value::Array(Vec::new()),
            FieldKind::Integer => Value::from(0),
            FieldKind::Boolean => Value::Bool(false),
            _ => Value::Object(Map::new()),
        };
        map.insert(key, value.unwrap_or_else(zero));
        Ok(())
    }

    fn value(&self, field: Field<'_>) -> Result<Value, Error> {
        let name = self.rule.name;
        let wrong = || Error::WireType {
            name: name.to_owned(),
        };
        match (self.rule.kind, field) {
            #[expect(
                clippy::cast_possible_wrap,
                reason = "negative numbers are sent as their two's complement"
            )]
            (FieldKind::Integer, Field::Varint(number)) => Ok(Value::from(number as i64)),
            (FieldKind::Boolean, Field::Varint(number)) => Ok(Value::Bool(number != 0)),
            (FieldKind::Double, Field::Fixed64(bits)) => scalar::number(f64::from_bits(bits), name),
            (FieldKind::Float, Field::Fixed32(bits)) => {
                scalar::number(f64::from(f32::from_bits(bits)), name)
            }
            (_, Field::Bytes(bytes)) => self.delimited(bytes),
            _ => Err(wrong()),
        }
    }

    fn delimited(&self, bytes: &[u8]) -> Result<Value, Error> {
        let name = self.rule.name;
        match self.rule.kind {
            FieldKind::Text => scalar::text(bytes, name).map(Value::String),
            FieldKind::Bytes => Ok(scalar::base64(bytes)),
            FieldKind::Time => scalar::time(bytes, name),
            FieldKind::MicroTime => scalar::micro_time(bytes, name),
            FieldKind::Duration => scalar::duration(bytes),
            FieldKind::Quantity => scalar::quantity(bytes, name),
            FieldKind::IntOrString => scalar::int_or_string(bytes, name),
            FieldKind::RawJson | FieldKind::FieldsV1 => scalar::raw_json(bytes, name),
            FieldKind::StringList => scalar::string_list(bytes, name),
            FieldKind::Message(message) => self.message(message, bytes),
            FieldKind::SchemaOrArray | FieldKind::SchemaOrBool | FieldKind::SchemaOrStrings => {
                self.schema_or(bytes)
            }
            FieldKind::Integer | FieldKind::Boolean | FieldKind::Double | FieldKind::Float => {
                Err(Error::WireType {
                    name: name.to_owned(),
                })
            }
        }
    }

    fn message(&self, name: &str, bytes: &[u8]) -> Result<Value, Error> {
        let message = self
            .tables
            .tables
            .message(name)
            .ok_or_else(|| Error::Kind {
                kind: name.to_owned(),
                api_version: String::new(),
            })?;
        decode(self.tables, message, bytes, self.depth.saturating_add(1)).map(Value::Object)
    }

    /// The unions of a JSON schema: field 1 is the schema (or, of a boolean, whether it is allowed), field 2 the rest.
    fn schema_or(&self, bytes: &[u8]) -> Result<Value, Error> {
        let mut schema = None;
        let mut list = Vec::new();
        let mut allowed = None;
        let mut reader = Reader::new(bytes);
        while let Some((number, field)) = reader.next()? {
            self.tables.charge_field(0)?;
            match (self.rule.kind, number, field) {
                (FieldKind::SchemaOrBool, 1, Field::Varint(flag)) => allowed = Some(flag != 0),
                (FieldKind::SchemaOrBool, 2, Field::Bytes(bytes))
                | (FieldKind::SchemaOrArray | FieldKind::SchemaOrStrings, 1, Field::Bytes(bytes)) =>
                {
                    schema = Some(self.message(SCHEMA, bytes)?);
                }
                (FieldKind::SchemaOrArray, 2, Field::Bytes(bytes)) => {
                    list.push(self.message(SCHEMA, bytes)?);
                }
                (FieldKind::SchemaOrStrings, 2, Field::Bytes(bytes)) => {
                    list.push(Value::String(scalar::text(bytes, self.rule.name)?));
                }
                _ => {}
            }
        }
        Ok(match (schema, allowed) {
            (Some(schema), _) => schema,
            (None, Some(allowed)) => Value::Bool(allowed),
            (None, None) if self.rule.kind == FieldKind::SchemaOrBool => Value::Bool(false),
            (None, None) => Value::Array(list),
        })
    }

    fn bytes<'b>(&self, field: Field<'b>) -> Result<&'b [u8], Error> {
        match field {
            Field::Bytes(bytes) => Ok(bytes),
            _ => Err(Error::WireType {
                name: self.rule.name.to_owned(),
            }),
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
