//! A value of YAML whose repeated keys are noted.

use std::{collections::HashSet, fmt};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A value, with what is to be told of duplicate keys in it.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) value: Value,
    pub(super) texts: Vec<String>,
}

/// A key: what it is in JSON, and how Go prints it.
#[derive(Debug)]
struct Key {
    text: String,
    go_text: String,
}

// === impl Noted ===

impl Noted {
    fn plain(value: impl Into<Value>) -> Self {
        Self {
            value: value.into(),
            texts: Vec::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Noted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NotedVisitor)
    }
}

struct NotedVisitor;

impl<'de> Visitor<'de> for NotedVisitor {
    type Value = Noted;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Noted, E> {
        Ok(Noted::plain(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Noted, E> {
        Ok(Noted::plain(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Noted, D::Error> {
        Noted::deserialize(deserializer)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Noted, E> {
        Ok(Noted::plain(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Noted, E> {
        Ok(Noted::plain(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Noted, E> {
        Ok(Noted::plain(v))
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Noted, E> {
        let number = Number::from_f64(v).ok_or_else(|| E::custom("number is not finite"))?;
        Ok(Noted::plain(number))
    }

    fn visit_str<E>(self, v: &str) -> Result<Noted, E> {
        Ok(Noted::plain(v))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Noted, A::Error> {
        let (mut items, mut texts) = (Vec::new(), Vec::new());
        while let Some(item) = seq.next_element::<Noted>()? {
            items.push(item.value);
            texts.extend(item.texts);
        }
        let value = Value::Array(items);
        Ok(Noted { value, texts })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Noted, A::Error> {
        let (mut fields, mut texts) = (Map::new(), Vec::new());
        let mut seen: HashSet<String> = HashSet::new();
        while let Some(key) = map.next_key::<Key>()? {
            let entry: Spanned<Noted> = map.next_value()?;
            texts.extend(entry.value.texts);
            if seen.contains(&key.go_text) {
                let line = entry.referenced.line();
                texts.push(format!(
                    "line {line}: key {} already set in map",
                    key.go_text
                ));
            }
            seen.insert(key.go_text);
            fields.insert(key.text, entry.value.value);
        }
        let value = Value::Object(fields);
        Ok(Noted { value, texts })
    }
}

// === impl Key ===

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = Value::deserialize(deserializer)?;
        match key {
            Value::String(text) => Ok(Self {
                go_text: crate::quote(&text),
                text,
            }),
            Value::Bool(_) | Value::Number(_) => Ok(Self {
                go_text: key.to_string(),
                text: key.to_string(),
            }),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                Err(D::Error::custom("unsupported map key"))
            }
        }
    }
}
