//! How Go reads bytes and times of an object, which are texts in JSON and of types of their own in Go, and integers.
//!
//! Bytes come as base64, in which line ends mean nothing and the bits that are over neither, or as a list of numbers; null is no bytes.
//!
//! Source: `encoding/json` (`[]byte`), `encoding/base64` (`StdEncoding`), `metav1.Time`.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::message::SCHEMA;
use super::tables::{FieldKind, FieldRule, Shape, Tables};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// A value that Go cannot read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misread {
    /// Where it is, without indexes and keys.
    pub(crate) path: String,
    /// The words of Go's decoder.
    pub(crate) text: String,
    /// It is of a type that reads itself, which ends the reading of the object.
    pub(crate) is_own: bool,
}

/// What is wrong with a value, before it is known where it is.
struct Wrong {
    found: String,
    go_type: &'static str,
    is_own: bool,
}

/// Where a value is: the struct that has the field, and the path to it.
struct Place<'a> {
    tables: &'a Tables,
    message: &'a str,
    path: String,
}

/// Brings the bytes of an object of a built-in kind into the form in which Go writes them. A text that is no base64 stays, for validation.
///
/// # Errors
/// Something else is in the place of bytes, a list in that of a time, or a fraction in that of an integer.
pub(crate) fn read_texts(object: &mut Value, api_version: &str, kind: &str) -> Result<(), Misread> {
    let tables = Tables::get();
    let (Some(message), Value::Object(fields)) = (tables.root_name(api_version, kind), object)
    else {
        return Ok(());
    };
    read(tables, message, "", fields)
}

fn read(
    tables: &Tables,
    message: &str,
    path: &str,
    fields: &mut Map<String, Value>,
) -> Result<(), Misread> {
    for (name, value) in fields {
        if let Some(rule) = tables.field(message, name) {
            let place = Place {
                tables,
                message,
                path: format!("{path}.{name}"),
            };
            place.visit(rule, rule.shape, value)?;
        }
    }
    Ok(())
}

// === impl Place ===

impl Place<'_> {
    fn visit(&self, rule: &FieldRule, shape: Shape, value: &mut Value) -> Result<(), Misread> {
        match (shape, value) {
            (Shape::Map, Value::Object(entries)) => entries
                .values_mut()
                .try_for_each(|entry| self.visit(rule, Shape::Single, entry)),
            (Shape::Repeated, Value::Array(items)) => items
                .iter_mut()
                .try_for_each(|item| self.visit(rule, Shape::Single, item)),
            (Shape::Single | Shape::Inline, value) => match (rule.kind, value) {
                (FieldKind::Message(inner), Value::Object(fields)) => {
                    read(self.tables, inner, &self.path, fields)
                }
                (
                    FieldKind::SchemaOrArray | FieldKind::SchemaOrBool | FieldKind::SchemaOrStrings,
                    Value::Object(fields),
                ) => read(self.tables, SCHEMA, &self.path, fields),
                (kind, value) => scalar(kind, value).map_err(|wrong| self.misread(wrong)),
            },
            _ => Ok(()),
        }
    }

    fn misread(&self, wrong: Wrong) -> Misread {
        let Wrong {
            found,
            go_type,
            is_own,
        } = wrong;
        let owner = self.message.rsplit('.').next().unwrap_or(self.message);
        let path = &self.path;
        Misread {
            text: format!(
                "json: cannot unmarshal {found} into Go struct field {owner}{path} of type {go_type}"
            ),
            path: path.trim_start_matches('.').to_owned(),
            is_own,
        }
    }
}

fn scalar(kind: FieldKind, value: &mut Value) -> Result<(), Wrong> {
    match (kind, value) {
        (FieldKind::Bytes, value) => bytes(value),
        (FieldKind::Time | FieldKind::MicroTime, Value::Array(_)) => Err(Wrong {
            found: "array".to_owned(),
            go_type: "string",
            is_own: true,
        }),
        // A fraction is no integer, whatever it is.
        (FieldKind::Integer, Value::Number(number)) if number.is_f64() => Err(Wrong {
            found: format!("number {number}"),
            go_type: "int32",
            is_own: false,
        }),
        _ => Ok(()),
    }
}

fn bytes(value: &mut Value) -> Result<(), Wrong> {
    match value {
        Value::String(text) => {
            let plain: String = text
                .chars()
                .filter(|it| !matches!(it, '\r' | '\n'))
                .collect();
            if let Ok(bytes) = LENIENT.decode(plain) {
                *text = LENIENT.encode(bytes);
            }
            Ok(())
        }
        Value::Array(items) => {
            let bytes: Result<Vec<u8>, Wrong> = items.iter().map(byte).collect();
            *value = Value::String(LENIENT.encode(bytes?));
            Ok(())
        }
        Value::Null => Ok(()),
        other => Err(Wrong {
            found: json_type(other).to_owned(),
            go_type: "[]uint8",
            is_own: false,
        }),
    }
}

fn byte(item: &Value) -> Result<u8, Wrong> {
    let byte = match item {
        Value::Null => Some(0),
        Value::Number(number) => number.as_u64().and_then(|it| u8::try_from(it).ok()),
        _ => None,
    };
    byte.ok_or_else(|| Wrong {
        found: json_type(item).to_owned(),
        go_type: "uint8",
        is_own: false,
    })
}

/// A JSON type as Go's decoder names it.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_and_times_are_read_as_by_go() {
        for (name, data, want) in [
            ("none", json!(""), Ok(json!(""))),
            ("some", json!("dg=="), Ok(json!("dg=="))),
            ("bits that are over", json!("DG=="), Ok(json!("DA=="))),
            ("lines", json!("AAEC\r\nAAEC\n"), Ok(json!("AAECAAEC"))),
            ("no base64", json!("a b"), Ok(json!("a b"))),
            ("no padding", json!("dg"), Ok(json!("dg"))),
            ("numbers", json!([0, 1, 255]), Ok(json!("AAH/"))),
            (
                "too large",
                json!([256]),
                Err("number into Go struct field Secret.data of type uint8"),
            ),
            (
                "a flag",
                json!(true),
                Err("bool into Go struct field Secret.data of type []uint8"),
            ),
            (
                "no numbers",
                json!([{}]),
                Err("object into Go struct field Secret.data of type uint8"),
            ),
        ] {
            let mut secret = json!({"metadata": {"name": "s"}, "data": {"k": data}});
            let read = read_texts(&mut secret, "v1", "Secret");
            let read = read.map(|()| secret.pointer_mut("/data/k").map(Value::take));
            let want = want.map(Some);
            let want = want.map_err(|rest: &str| format!("json: cannot unmarshal {rest}"));
            let read = read.map_err(|misread| misread.text);
            assert_eq!(read, want, "{name}");
        }
        let mut lease = json!({"spec": {"renewTime": []}});
        let read = read_texts(&mut lease, "coordination.k8s.io/v1", "Lease");
        let want = "json: cannot unmarshal array into Go struct field LeaseSpec.spec.renewTime of type string";
        let misread = Misread {
            path: "spec.renewTime".to_owned(),
            text: want.to_owned(),
            is_own: true,
        };
        assert_eq!(read, Err(misread));
    }
}
