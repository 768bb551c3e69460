//! JSON as requests carry it: last key wins, but every duplicate is noted; integers that fit are integers.
//!
//! A number that parses as `i64` is one, any other becomes an `f64`, as in `sigs.k8s.io/json`. Half a surrogate pair is
//! refused, where Go would put a replacement character. Nesting deeper than
//! serde_json's limit of 128 levels is refused, which keeps every later walk of the tree from running out of stack.
//!
//! Source: `sigs.k8s.io/json`, `apimachinery/pkg/runtime/serializer/json`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Bytes that are not one JSON document.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct ParseJsonError {
    #[from]
    source: serde_json::Error,
}

/// Parses one document; the paths of keys that occur more than once come with it, each once, in order of
/// appearance.
pub fn parse_strict(bytes: &[u8]) -> Result<(Value, Vec<String>), ParseJsonError> {
    let mut notes = Notes::default();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = ValueSeed { notes: &mut notes }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, notes.duplicates))
}

/// Parses one document and says nothing about duplicates.
pub fn parse(bytes: &[u8]) -> Result<Value, ParseJsonError> {
    parse_strict(bytes).map(|(value, _)| value)
}

/// Turns integers that do not fit `i64` into floats, as [`parse`] would have read them.
pub fn normalize_numbers(value: &mut Value) {
    replace_numbers(value, &normal_number);
}

/// Turns floats without a fraction into integers, as the way through YAML does: JSON writes 3.0 as 3.
pub fn whole_numbers(value: &mut Value) {
    replace_numbers(value, &whole_number);
}

fn replace_numbers(value: &mut Value, other: &impl Fn(&Number) -> Option<Number>) {
    match value {
        Value::Number(number) => {
            if let Some(other) = other(number) {
                *number = other;
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| replace_numbers(item, other)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace_numbers(field, other)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn normal_number(number: &Number) -> Option<Number> {
    if number.is_u64() && !number.is_i64() {
        number.as_f64().and_then(Number::from_f64)
    } else {
        None
    }
}

fn whole_number(number: &Number) -> Option<Number> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    // `Display` writes a float without an exponent, and one without a fraction without a point.
    let whole: i64 = float.to_string().parse().ok()?;
    Some(whole.into())
}

/// Where the parser is, and what it has seen twice.
#[derive(Default)]
struct Notes {
    path: String,
    duplicates: Vec<String>,
}

struct ValueSeed<'n> {
    notes: &'n mut Notes,
}

// === impl ValueSeed ===

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        let number = Number::from(v);
        Ok(Value::Number(normal_number(&number).unwrap_or(number)))
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        if v == 0.0 && v.is_sign_negative() {
            // `-0`, which is an integer in Go; only the rare `-0.0` is changed by it.
            return Ok(Value::from(0));
        }
        Number::from_f64(v)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number is not finite"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let notes = self.notes;
        let path_length = notes.path.len();
        let mut items = Vec::new();
        loop {
            let written = write!(notes.path, "[{}]", items.len());
            debug_assert!(written.is_ok(), "writing to a String cannot fail");
            let item = seq.next_element_seed(ValueSeed { notes })?;
            notes.path.truncate(path_length);
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let notes = self.notes;
        let path_length = notes.path.len();
        let mut fields = Map::new();
        let mut repeated: HashSet<String> = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if path_length > 0 {
                notes.path.push('.');
            }
            notes.path.push_str(&key);
            if fields.contains_key(&key) && repeated.insert(key.clone()) {
                notes.duplicates.push(notes.path.clone());
            }
            let value = map.next_value_seed(ValueSeed { notes })?;
            notes.path.truncate(path_length);
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bytes<E: serde::de::Error>(self, _v: &[u8]) -> Result<Value, E> {
        Err(E::custom("bytes are no JSON value"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let refused = serde_json::from_slice::<Value>(&bytes).is_err();
            prop_assert_eq!(parse(&bytes).is_err(), refused);
        }

        #[test]
        fn it_reads_what_serde_json_reads(
            text in "([\\[{]|\"[a-c]\":|[0-9]{1,20}|[-.e]|null|true|,|[\\]}]){0,24}"
        ) {
            match (serde_json::from_str::<Value>(&text), parse_strict(text.as_bytes())) {
                (Ok(mut want), Ok((got, _))) => {
                    normalize_numbers(&mut want);
                    prop_assert_eq!(got, want);
                }
                (want, got) => prop_assert_eq!(want.is_err(), got.is_err()),
            }
        }
    }

    #[test]
    fn the_last_of_equal_keys_wins_and_each_path_is_noted_once() {
        let text =
            br#"{"spec":{"a":1,"a":2,"list":[{"b":1},{"b":1,"b":{"x":1},"b":3}],"a":3},"z":null}"#;
        let (value, duplicates) = parse_strict(text).unwrap();
        assert_eq!(
            value,
            json!({"spec": {"a": 3, "list": [{"b": 1}, {"b": 3}]}, "z": null})
        );
        assert_eq!(duplicates, ["spec.a", "spec.list[1].b"]);
    }

    #[test]
    fn numbers_are_integers_where_they_fit() {
        for (text, want) in [
            ("1", json!(1)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("9223372036854775807", json!(i64::MAX)),
            ("9223372036854775808", json!(2_f64.powi(63))),
            ("-0", json!(0)),
            ("0.0", json!(0.0)),
            ("1.0", json!(1.0)),
            ("1e3", json!(1000.0)),
        ] {
            let value = parse(text.as_bytes()).unwrap();
            assert_eq!(value, want, "{text}");
            assert_eq!(value.is_f64(), want.is_f64(), "{text}");
        }
    }

    #[test]
    fn what_is_not_one_document_is_refused() {
        let deep = "[".repeat(200);
        for text in [
            "",
            "{",
            "{}{}",
            "{\"a\":1,}",
            "nul",
            "1e999",
            "\"\u{1}\"",
            deep.as_str(),
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse(b"\"\xff\"").is_err());
    }
}
