//! How Go reads bytes and times of an object, which are texts in JSON and of types of their own in Go, integers, and the schemas of
//! definitions ([`schemas`]).
//!
//! Bytes come as base64, in which line ends mean nothing and the bits that are over neither, or as a list of numbers; null is no bytes.
//!
//! Source: `encoding/json` (`[]byte`), `encoding/base64` (`StdEncoding`), `metav1.Time`.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use dialect::json::type_word;
use serde_json::{Map, Value};

use super::message::SCHEMA;
use super::tables::{FieldKind, FieldRule, Shape, Tables};

pub(super) mod schemas;

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
    go_type: Cow<'static, str>,
    is_own: bool,
}

/// Where a value is: a field of a message, below other ones.
struct Place<'a> {
    above: Option<&'a Self>,
    message: &'a str,
    name: &'a str,
    is_in_schema: bool,
}

/// A reading of an object.
struct Reading<'t> {
    tables: &'t Tables,
    /// What could not be read first. Go goes on after it.
    first: Option<Misread>,
}

/// Brings an object of a built-in kind into the form in which Go writes it: its bytes, and the schemas of a definition. A text that is no
/// base64 stays, for validation.
///
/// # Errors
/// Something else is in the place of bytes, a list in that of a time, a fraction in that of an integer, or anything of a wrong type in a
/// schema.
pub(crate) fn read_go(object: &mut Value, api_version: &str, kind: &str) -> Result<(), Misread> {
    let tables = Tables::get();
    let (Some(message), Value::Object(fields)) = (tables.root_name(api_version, kind), object)
    else {
        return Ok(());
    };
    let mut reading = Reading {
        tables,
        first: None,
    };
    reading.message(message, None, fields)?;
    reading.first.map_or(Ok(()), Err)
}

// === impl Reading ===

impl Reading<'_> {
    /// Fails where the reading ends.
    fn message(
        &mut self,
        message: &str,
        above: Option<&Place<'_>>,
        fields: &mut Map<String, Value>,
    ) -> Result<(), Misread> {
        let tables = self.tables;
        let is_in_schema = schemas::is_of(message);
        if is_in_schema {
            fields.retain(|name, value| !value.is_null() && tables.field(message, name).is_some());
        }
        for (name, value) in fields.iter_mut() {
            if let Some(rule) = tables.field(message, name) {
                let place = Place {
                    above,
                    message,
                    name,
                    is_in_schema,
                };
                self.value(&place, (rule, rule.shape), value)?;
            }
        }
        if is_in_schema {
            // Go writes no empty lists and maps.
            fields.retain(|name, value| {
                let is_empty = match value {
                    Value::Null => return false,
                    Value::Array(items) => items.is_empty(),
                    Value::Object(fields) => fields.is_empty(),
                    _ => false,
                };
                !(is_empty && schemas::is_container(tables, message, name))
            });
        }
        Ok(())
    }

    fn value(
        &mut self,
        place: &Place<'_>,
        (rule, shape): (&FieldRule, Shape),
        value: &mut Value,
    ) -> Result<(), Misread> {
        match (shape, value) {
            (Shape::Map, Value::Object(entries)) => entries
                .values_mut()
                .try_for_each(|entry| self.element(place, rule, entry)),
            (Shape::Repeated, Value::Array(items)) => items
                .iter_mut()
                .try_for_each(|item| self.element(place, rule, item)),
            (Shape::Single | Shape::Inline, value) => match (rule.kind, value) {
                (FieldKind::Message(inner), Value::Object(fields)) => {
                    self.message(inner, Some(place), fields)
                }
                (kind, value) if kind.is_union() => self.union(place, kind, value),
                (kind, value) => {
                    let read = if place.is_in_schema {
                        schemas::scalar(rule, value)
                    } else {
                        scalar(kind, value)
                    };
                    read.or_else(|wrong| self.note(place.misread(wrong)))
                }
            },
            (_, value) if place.is_in_schema && !value.is_null() => {
                self.note(place.misread(schemas::mistyped(value, rule.go_type())))
            }
            _ => Ok(()),
        }
    }

    fn element(
        &mut self,
        place: &Place<'_>,
        rule: &FieldRule,
        value: &mut Value,
    ) -> Result<(), Misread> {
        if value.is_null() && place.is_in_schema {
            *value = schemas::zero(rule.kind);
        }
        self.value(place, (rule, Shape::Single), value)
    }

    /// Reads a value of a type that reads itself, and fails where that does.
    fn union(&self, place: &Place<'_>, kind: FieldKind, value: &mut Value) -> Result<(), Misread> {
        let mut own = Reading {
            tables: self.tables,
            first: None,
        };
        let read = match (kind, &mut *value) {
            (_, Value::Object(fields)) => own.message(SCHEMA, Some(place), fields),
            (FieldKind::SchemaOrArray, Value::Array(schemas)) => {
                schemas.iter_mut().try_for_each(|schema| match schema {
                    Value::Object(fields) => own.message(SCHEMA, Some(place), fields),
                    Value::Null => {
                        *schema = Value::Object(Map::new());
                        Ok(())
                    }
                    other => Err(place.misread(schemas::mistyped(other, "v1.JSONSchemaProps"))),
                })
            }
            (FieldKind::SchemaOrStrings, Value::Array(_))
            | (FieldKind::SchemaOrBool, Value::Bool(_)) => Ok(()),
            (FieldKind::SchemaOrBool, _) => Err(Misread {
                path: place.path(),
                text: "boolean or JSON schema expected".to_owned(),
                is_own: true,
            }),
            // It reads nothing, and is there.
            (FieldKind::SchemaOrArray, other) => {
                *other = Value::Array(Vec::new());
                Ok(())
            }
            (_, other) => {
                *other = Value::Null;
                Ok(())
            }
        };
        let wrong = read.err().or(own.first);
        wrong.map_or(Ok(()), |misread| {
            Err(Misread {
                is_own: true,
                ..misread
            })
        })
    }

    /// Goes on, unless what is wrong ends the reading.
    fn note(&mut self, misread: Misread) -> Result<(), Misread> {
        if misread.is_own {
            return Err(misread);
        }
        self.first.get_or_insert(misread);
        Ok(())
    }
}

// === impl Place ===

impl Place<'_> {
    fn misread(&self, wrong: Wrong) -> Misread {
        let Wrong {
            found,
            go_type,
            is_own,
        } = wrong;
        let owner = self.message.rsplit('.').next().unwrap_or(self.message);
        let path = self.path();
        Misread {
            text: format!(
                "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go_type}"
            ),
            path,
            is_own,
        }
    }

    fn path(&self) -> String {
        match self.above {
            Some(above) => format!("{}.{}", above.path(), self.name),
            None => self.name.to_owned(),
        }
    }
}

fn scalar(kind: FieldKind, value: &mut Value) -> Result<(), Wrong> {
    match (kind, value) {
        (FieldKind::Bytes, value) => bytes(value),
        (FieldKind::Time | FieldKind::MicroTime, Value::Array(_)) => Err(Wrong {
            found: "array".to_owned(),
            go_type: "string".into(),
            is_own: true,
        }),
        // A fraction is no integer, whatever it is.
        (FieldKind::Integer, Value::Number(number)) if number.is_f64() => Err(Wrong {
            found: format!("number {number}"),
            go_type: "int32".into(),
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
            found: type_word(other).to_owned(),
            go_type: "[]uint8".into(),
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
        found: type_word(item).to_owned(),
        go_type: "uint8".into(),
        is_own: false,
    })
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
            let read = read_go(&mut secret, "v1", "Secret");
            let read = read.map(|()| secret.pointer_mut("/data/k").map(Value::take));
            let want = want.map(Some);
            let want = want.map_err(|rest: &str| format!("json: cannot unmarshal {rest}"));
            let read = read.map_err(|misread| misread.text);
            assert_eq!(read, want, "{name}");
        }
        let mut lease = json!({"spec": {"renewTime": []}});
        let read = read_go(&mut lease, "coordination.k8s.io/v1", "Lease");
        let want = "json: cannot unmarshal array into Go struct field LeaseSpec.spec.renewTime of type string";
        let misread = Misread {
            path: "spec.renewTime".to_owned(),
            text: want.to_owned(),
            is_own: true,
        };
        assert_eq!(read, Err(misread));
    }

    fn definition(schema: &Value) -> Value {
        json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
    }

    #[test]
    fn schemas_are_read_as_by_go() {
        let kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        for (name, schema, want) in [
            (
                "unknown",
                json!({"type": "object", "typo": 1}),
                json!({"type": "object"}),
            ),
            (
                "null",
                json!({"default": null, "maxLength": null, "enum": [null]}),
                json!({"enum": [null]}),
            ),
            (
                "null schemas",
                json!({"properties": {"a": null}, "allOf": [null]}),
                json!({"properties": {"a": {}}, "allOf": [{}]}),
            ),
            (
                "below",
                json!({"items": {"typo": 1, "default": {"typo": 1}}}),
                json!({"items": {"default": {"typo": 1}}}),
            ),
            (
                "no schema",
                json!({"items": 1, "additionalProperties": true}),
                json!({"additionalProperties": true, "items": []}),
            ),
            (
                "empty",
                json!({"not": {"required": [], "properties": {}}}),
                json!({"not": {}}),
            ),
        ] {
            let mut object = definition(&schema);
            let read = read_go(&mut object, kind.0, kind.1);
            assert_eq!(read, Ok(()), "{name}");
            assert_eq!(object, definition(&want), "{name}");
        }
    }

    #[test]
    fn what_go_cannot_read_in_a_schema_is_told_where_it_is() {
        let kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let at = "Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema";
        for (schema, want) in [
            (
                json!({"type": 1}),
                format!("json: cannot unmarshal number into {at}.type of type string"),
            ),
            (
                json!({"properties": {"a": []}}),
                format!(
                    "json: cannot unmarshal array into {at}.properties of type v1.JSONSchemaProps"
                ),
            ),
            (
                json!({"items": {"required": 1}}),
                format!("json: cannot unmarshal number into {at}.items.required of type []string"),
            ),
            (
                json!({"x-kubernetes-validations": {}}),
                format!(
                    "json: cannot unmarshal object into {at}.x-kubernetes-validations of type v1.ValidationRules"
                ),
            ),
            (
                json!({"additionalProperties": "yes", "description": 1}),
                "boolean or JSON schema expected".to_owned(),
            ),
            (
                json!({"description": 1, "items": {"type": 1}}),
                format!("json: cannot unmarshal number into {at}.items.type of type string"),
            ),
        ] {
            let mut object = definition(&schema);
            let read = read_go(&mut object, kind.0, kind.1);
            assert_eq!(read.map_err(|misread| misread.text), Err(want), "{schema}");
        }
    }

    #[test]
    fn what_is_unknown_in_a_schema_is_found() {
        let kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let schema = json!({"typo": 1, "items": {"typo": 1}, "properties": {"a": {"typo": 1}}, "allOf": [{"not": {"typo": 1}}]});
        let unknown = schemas::unknown_in_schemas(&definition(&schema), kind.0, kind.1);
        let at = "spec.versions[0].schema.openAPIV3Schema";
        let want = [".allOf[0].not.typo", ".properties.a.typo", ".typo"];
        assert_eq!(
            unknown,
            want.map(|it| format!("{at}{it}")),
            "what reads itself tells nothing"
        );
    }
}
