//! One step of a path into an object, its order, its text in messages and its text in FieldsV1.
//!
//! Invariant: the order is total and equality is that of the order, so 1 and 1.0 are one list item.
//!
//! Source: `structured-merge-diff/fieldpath/element.go`, `serialize-pe.go`, `value/value.go`.

use std::cmp::Ordering;
use std::fmt;

use dialect::json;
use serde_json::Value;

use super::text;

/// Selects a child of a map or of a list.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of a map or struct.
    Field(Box<str>),
    /// The item of a list of maps whose key fields have these values, sorted by name.
    Key(Box<[KeyField]>),
    /// The item of a set of scalars.
    Value(Value),
    /// The item at a position.
    Index(i64),
}

/// A key field of a list item.
#[derive(Debug, Clone)]
pub struct KeyField {
    /// The name of the field.
    pub name: Box<str>,
    /// Its value in the item, or the default of the schema.
    pub value: Value,
}

/// Why the key of a FieldsV1 object is not a path element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    /// Neither prefix nor separator.
    #[error("key must be 2 characters long:")]
    Short,
    /// No colon behind the prefix.
    #[error("missing colon: {0}")]
    NoColon(String),
    /// The text behind the prefix is not what the prefix announces.
    #[error("malformed path element: {0}")]
    Malformed(String),
}

// === impl PathElement ===

impl PathElement {
    /// The element of a field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The element of a list item by its key fields, which it sorts.
    pub fn key(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut fields: Vec<KeyField> = fields
            .into_iter()
            .map(|(name, value)| KeyField {
                name: name.into(),
                value,
            })
            .collect();
        fields.sort_by(|left, right| left.name.cmp(&right.name));
        Self::Key(fields.into())
    }

    /// Parses a key of a FieldsV1 object; `None` for a prefix that this version does not know.
    pub fn parse(encoded: &str) -> Result<Option<Self>, ElementError> {
        if encoded.len() < 2 {
            return Err(ElementError::Short);
        }
        let Some((prefix, content)) = encoded.split_at_checked(2) else {
            return Err(ElementError::NoColon(encoded.to_owned()));
        };
        if !prefix.ends_with(':') {
            return Err(ElementError::NoColon(encoded.to_owned()));
        }
        let malformed = || ElementError::Malformed(encoded.to_owned());
        Ok(Some(match prefix {
            "f:" => Self::field(content),
            "v:" => Self::Value(serde_json::from_str(content).map_err(|_ignored| malformed())?),
            "k:" => match serde_json::from_str(content) {
                Ok(Value::Object(fields)) => Self::key(fields),
                Ok(_) | Err(_) => return Err(malformed()),
            },
            "i:" => Self::Index(content.parse().map_err(|_ignored| malformed())?),
            _ => return Ok(None),
        }))
    }

    /// Encodes it as a key of a FieldsV1 object.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        match self {
            Self::Field(name) => {
                out.reserve_exact(name.len().saturating_add(2));
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push_str("k:{");
                for (index, field) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    json::push_string(&mut out, &field.name);
                    out.push(':');
                    json::push(&mut out, &field.value);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                json::push(&mut out, value);
            }
            Self::Index(index) => {
                out.push_str("i:");
                out.push_str(&index.to_string());
            }
        }
        out
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let mut out = String::from("[");
                for (index, field) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&field.name);
                    out.push('=');
                    text::push_path_value(&mut out, &field.value);
                }
                out.push(']');
                f.write_str(&out)
            }
            Self::Value(value) => {
                let mut out = String::from("[=");
                text::push_path_value(&mut out, value);
                out.push(']');
                f.write_str(&out)
            }
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_keys(left, right),
            (Self::Value(left), Self::Value(right)) => compare_values(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// The text of a path in messages, `.spec.ports[port=80].name`.
pub fn path_text(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// Whether two values are one to field ownership: numbers by their value, lists in order, maps by their fields.
pub(crate) fn values_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => compare_values(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| values_equal(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|((left_name, l), (right_name, r))| {
                        left_name == right_name && values_equal(l, r)
                    })
        }
        _ => left == right,
    }
}

/// Numbers before texts before booleans before lists before maps before null.
pub(crate) fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(l), Value::Number(r)) => {
            if let (Some(l), Some(r)) = (l.as_i64(), r.as_i64()) {
                return l.cmp(&r);
            }
            let (l, r) = (l.as_f64().unwrap_or(0.0), r.as_f64().unwrap_or(0.0));
            l.partial_cmp(&r).unwrap_or(Ordering::Equal)
        }
        (Value::String(l), Value::String(r)) => l.cmp(r),
        (Value::Bool(l), Value::Bool(r)) => l.cmp(r),
        (Value::Array(l), Value::Array(r)) => {
            let first = l.iter().zip(r).map(|(l, r)| compare_values(l, r));
            first
                .into_iter()
                .find(|order| order.is_ne())
                .unwrap_or_else(|| l.len().cmp(&r.len()))
        }
        (Value::Object(l), Value::Object(r)) => {
            let first = l.iter().zip(r).map(|((l_name, l), (r_name, r))| {
                l_name.cmp(r_name).then_with(|| compare_values(l, r))
            });
            first
                .into_iter()
                .find(|order| order.is_ne())
                .unwrap_or_else(|| l.len().cmp(&r.len()))
        }
        _ => value_rank(left).cmp(&value_rank(right)),
    }
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_keys(left: &[KeyField], right: &[KeyField]) -> Ordering {
    left.iter()
        .zip(right)
        .map(|(l, r)| {
            l.name
                .cmp(&r.name)
                .then_with(|| compare_values(&l.value, &r.value))
        })
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

#[cfg(test)]
mod tests;
