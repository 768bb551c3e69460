//! From values back to JSON.
//!
//! What leaves an expression goes into an object, so it must be JSON: times become strings, an
//! absent optional `null`, `omit()` leaves its field or element out, and bytes are refused because
//! only the author knows how they should be encoded. A JSON object of a binding comes out as it
//! went in, whatever its declared type.
//!
//! Source: `GoNativeType` and `EnsureJSONSafe` in `kro/pkg/cel/conversion/conversions.go`.

use serde_json::{Map as JsonMap, Number, Value as Json};

use super::{Key, Kind, List, Map, Value, number};
use crate::budget::{Budget, Meter};
use crate::error::{EvaluateError, Failure};
use crate::library::opaque::Opaque;

/// Values share their parts and JSON does not: a list of a list of a list, each twice the same, is
/// small until it is written. The limit is ten times the text of the largest object that is stored.
const STEPS_MAX: u64 = 2_000_000;
/// Memory of the JSON. Its trees are larger than their texts, most of all where they have many small
/// maps.
const BYTES_MAX: u64 = 32 * 1024 * 1024;
/// One value.
const VALUE_BYTES: u64 = 32;
/// The first node of a map.
const MAP_BYTES: u64 = 656;
/// A further field of it.
const FIELD_BYTES: u64 = 96;

// === impl Value ===

impl Value<'_> {
    /// Converts to JSON by kro's rules.
    ///
    /// # Errors
    ///
    /// A value that JSON objects cannot hold: bytes, a `uint` beyond `int`, a map key that is no
    /// string, a type, a library's own value, `omit()` at the top (ask [`Value::is_omit`] first),
    /// or a double that is no number. A value that is larger than any object may be.
    pub fn to_json(&self) -> Result<Json, EvaluateError> {
        let mut meter = Meter::new(Budget::steps(STEPS_MAX).with_bytes(BYTES_MAX));
        self.convert(&mut meter).map_err(EvaluateError::from)
    }

    fn convert(&self, meter: &mut Meter) -> Result<Json, Failure> {
        meter.charge(1)?;
        meter.grow(VALUE_BYTES)?;
        Ok(match &self.0 {
            Kind::Null | Kind::Optional(None) => Json::Null,
            Kind::Bool(value) => Json::Bool(*value),
            Kind::Int(value) => Json::from(*value),
            Kind::Uint(value) => return uint(*value),
            Kind::Double(value) => return double(*value),
            Kind::String(text) => {
                meter.charge_bytes(text.len())?;
                Json::String(text.to_string())
            }
            Kind::Bytes(_) => {
                return Err(Failure::new(
                    "unsupported type: bytes value cannot be used directly in a resource \
                     template or status field; encode it explicitly, e.g. base64.encode(...)",
                ));
            }
            Kind::List(list) => return self::list(list, meter),
            Kind::Map(map) => return self::map(map, meter),
            Kind::Object(object) => return map(&object.fields, meter),
            Kind::Timestamp(at) if at.is_zero() => Json::Null,
            Kind::Timestamp(at) => Json::String(at.to_seconds_text()),
            Kind::Duration(span) => Json::String(span.to_string()),
            Kind::Optional(Some(value)) => return value.convert(meter),
            Kind::Opaque(Opaque::Condition(condition)) => condition.to_json(),
            Kind::Type(_) | Kind::Opaque(_) => {
                return Err(Failure::new(format!(
                    "unsupported type: {}",
                    self.type_name()
                )));
            }
        })
    }
}

fn uint(value: u64) -> Result<Json, Failure> {
    i64::try_from(value).map(Json::from).map_err(|_beyond| {
        Failure::new(format!(
            "unsupported type: uint value {value} overflows int64; convert it explicitly, e.g. \
             string(...)"
        ))
    })
}

/// Go writes a whole float without a fraction, and the next reader takes it for an integer.
fn double(value: f64) -> Result<Json, Failure> {
    if let Some(whole) = number::double_to_int(value) {
        return Ok(Json::from(whole));
    }
    Number::from_f64(value)
        .map(Json::Number)
        .ok_or_else(|| Failure::new(format!("unsupported value: {value}")))
}

fn list(list: &List<'_>, meter: &mut Meter) -> Result<Json, Failure> {
    let mut items = Vec::new();
    for value in list.iter() {
        let value = value?;
        if !value.is_omit() {
            items.push(value.convert(meter)?);
        }
    }
    Ok(Json::Array(items))
}

fn map(map: &Map<'_>, meter: &mut Meter) -> Result<Json, Failure> {
    let entries = match map {
        Map::Json(fields, _) => return copy_fields(fields, meter),
        Map::Entries(entries) => entries,
    };
    let mut fields = JsonMap::new();
    for (key, value) in entries.iter() {
        let Key::String(name) = key else {
            let got = key.value().type_name();
            return Err(Failure::new(format!("map key must be string, got {got}")));
        };
        if !value.is_omit() {
            charge_field(name, fields.len(), meter)?;
            fields.insert(name.to_string(), value.convert(meter)?);
        }
    }
    Ok(Json::Object(fields))
}

/// Charges one more field of a map of so many.
fn charge_field(name: &str, count: usize, meter: &mut Meter) -> Result<(), Failure> {
    meter.charge_bytes(name.len())?;
    meter.grow(if count == 0 { MAP_BYTES } else { FIELD_BYTES })
}

/// Copies JSON of a binding as it is.
fn copy(json: &Json, meter: &mut Meter) -> Result<Json, Failure> {
    meter.charge(1)?;
    meter.grow(VALUE_BYTES)?;
    Ok(match json {
        Json::String(text) => {
            meter.charge_bytes(text.len())?;
            Json::String(text.clone())
        }
        Json::Array(items) => {
            let items: Result<_, Failure> = items.iter().map(|item| copy(item, meter)).collect();
            Json::Array(items?)
        }
        Json::Object(fields) => return copy_fields(fields, meter),
        scalar => scalar.clone(),
    })
}

fn copy_fields(fields: &JsonMap<String, Json>, meter: &mut Meter) -> Result<Json, Failure> {
    let mut copied = JsonMap::new();
    for (name, value) in fields {
        charge_field(name, copied.len(), meter)?;
        copied.insert(name.clone(), copy(value, meter)?);
    }
    Ok(Json::Object(copied))
}
