//! The values of expressions.
//!
//! JSON is never converted as a whole: an object or a list of a binding is held by reference, with
//! the type it was declared with, and an element becomes a value when it is touched. What an
//! expression makes itself is shared by `Arc`, so a clone never copies data.
//!
//! Invariants: the entries of a made map are sorted by key and unique, so that every walk over a
//! map has one order; the lifetime is that of the bindings, never that of the program.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::error::Failure;
use crate::library::opaque::Opaque;
use crate::time::{Duration, Timestamp};
use crate::types::DeclType;

mod compare;
mod json;
mod list;
mod map;
mod number;
mod object;
mod output;

pub(crate) use json::owned as owned_json;
pub(crate) use list::List;
pub(crate) use map::Map;
pub(crate) use number::{INT_END, UINT_END, double_to_int};
pub(crate) use object::Object;

/// What an expression evaluates to.
#[derive(Clone, Debug)]
pub struct Value<'v>(pub(crate) Kind<'v>);

/// The kinds of values.
#[derive(Clone, Debug)]
pub(crate) enum Kind<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'v>),
    Bytes(Arc<[u8]>),
    List(List<'v>),
    Map(Map<'v>),
    /// What `Name{…}` made.
    Object(Arc<Object<'v>>),
    Timestamp(Timestamp),
    Duration(Duration),
    /// A type, by its name at run time.
    Type(&'static str),
    Optional(Option<Arc<Value<'v>>>),
    Opaque(Opaque),
}

/// Text that is borrowed from a binding or was made by the expression.
#[derive(Clone, Debug)]
pub(crate) enum Text<'v> {
    Borrowed(&'v str),
    Shared(Arc<str>),
}

/// The key of a map.
#[derive(Clone, Debug)]
pub(crate) enum Key<'v> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Text<'v>),
}

// === impl Value ===

impl<'v> Value<'v> {
    /// `null`.
    pub const NULL: Self = Self(Kind::Null);

    /// An optional without a value.
    pub const NONE: Self = Self(Kind::Optional(None));

    /// Makes an optional with a value.
    #[must_use]
    pub fn some(value: Self) -> Self {
        Self(Kind::Optional(Some(Arc::new(value))))
    }

    /// Reads JSON without a declared type: integers become `int`, other numbers `double`.
    #[must_use]
    pub fn from_json(json: &'v serde_json::Value) -> Self {
        json::untyped(json)
    }

    /// Reads JSON as a value of a declared type.
    pub(crate) fn from_typed_json(
        json: &'v serde_json::Value,
        ty: &'v DeclType,
    ) -> Result<Self, Failure> {
        json::typed(json, ty)
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.0 {
            Kind::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self.0, Kind::Null)
    }

    /// Whether it is kro's `omit()`: the field or element that it stands for is to be left out.
    pub fn is_omit(&self) -> bool {
        matches!(self.0, Kind::Opaque(Opaque::Omit))
    }

    /// The name of its type at run time, as `type()` and "no such overload" tell it.
    pub fn type_name(&self) -> &'static str {
        match &self.0 {
            Kind::Null => "null_type",
            Kind::Bool(_) => "bool",
            Kind::Int(_) => "int",
            Kind::Uint(_) => "uint",
            Kind::Double(_) => "double",
            Kind::String(_) => "string",
            Kind::Bytes(_) => "bytes",
            Kind::List(_) => "list",
            Kind::Map(_) => "map",
            Kind::Object(object) => object.type_name(),
            Kind::Timestamp(_) => "google.protobuf.Timestamp",
            Kind::Duration(_) => "google.protobuf.Duration",
            Kind::Type(_) => "type",
            Kind::Optional(_) => "optional_type",
            Kind::Opaque(opaque) => opaque.type_name(),
        }
    }

    /// Whether it can be what an overload takes. Of a type with parameters that is not asked.
    pub(crate) fn is_of(&self, ty: &DeclType) -> bool {
        let kind = &self.0;
        match ty {
            DeclType::Bool => matches!(kind, Kind::Bool(_)),
            DeclType::Int => matches!(kind, Kind::Int(_)),
            DeclType::Uint => matches!(kind, Kind::Uint(_)),
            DeclType::Double => matches!(kind, Kind::Double(_)),
            DeclType::String => matches!(kind, Kind::String(_) | Kind::Opaque(Opaque::Pattern(_))),
            DeclType::Bytes => matches!(kind, Kind::Bytes(_)),
            DeclType::Timestamp => matches!(kind, Kind::Timestamp(_)),
            DeclType::Duration => matches!(kind, Kind::Duration(_)),
            DeclType::Opaque(name) => self.type_name() == *name,
            _ => true,
        }
    }

    pub(crate) fn bool(value: bool) -> Self {
        Self(Kind::Bool(value))
    }

    pub(crate) fn int(value: i64) -> Self {
        Self(Kind::Int(value))
    }

    /// A count as an `int`; no count in memory is near the limit.
    pub(crate) fn count(value: usize) -> Self {
        Self(Kind::Int(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    pub(crate) fn double(value: f64) -> Self {
        Self(Kind::Double(value))
    }

    pub(crate) fn string(text: impl Into<Arc<str>>) -> Self {
        Self(Kind::String(Text::Shared(text.into())))
    }

    pub(crate) fn bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(Kind::Bytes(bytes.into()))
    }

    pub(crate) fn list(values: Vec<Self>) -> Self {
        Self(Kind::List(List::of(values)))
    }

    pub(crate) fn opaque(opaque: Opaque) -> Self {
        Self(Kind::Opaque(opaque))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::int(value)
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(value: &'v str) -> Self {
        Self(Kind::String(Text::Borrowed(value)))
    }
}

impl fmt::Display for Value<'_> {
    /// Writes the value for messages, as Go's `%v` does for scalars.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Null => f.write_str("null"),
            Kind::Bool(value) => write!(f, "{value}"),
            Kind::Int(value) => write!(f, "{value}"),
            Kind::Uint(value) => write!(f, "{value}"),
            Kind::Double(value) => write!(f, "{value}"),
            Kind::String(text) => f.write_str(text),
            Kind::Timestamp(at) => write!(f, "{at:#}"),
            Kind::Duration(span) => write!(f, "{span}"),
            Kind::Type(name) => f.write_str(name),
            _ => f.write_str(self.type_name()),
        }
    }
}

// === impl Text ===

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

// === impl Key ===

impl<'v> Key<'v> {
    /// The key that a value stands for; a whole double stands for the integer.
    pub(crate) fn of(value: &Value<'v>) -> Option<Self> {
        match &value.0 {
            Kind::Bool(value) => Some(Self::Bool(*value)),
            Kind::Int(value) => Some(Self::Int(*value)),
            Kind::Uint(value) => Some(Self::Uint(*value)),
            Kind::Double(value) => double_to_int(*value)
                .map(Self::Int)
                .or_else(|| number::double_to_uint(*value).map(Self::Uint)),
            Kind::String(text) => Some(Self::String(text.clone())),
            _ => None,
        }
    }

    pub(crate) fn value(&self) -> Value<'v> {
        Value(match self {
            Self::Bool(value) => Kind::Bool(*value),
            Self::Int(value) => Kind::Int(*value),
            Self::Uint(value) => Kind::Uint(*value),
            Self::String(text) => Kind::String(text.clone()),
        })
    }

    /// Orders keys: booleans, numbers by value whatever their type, text.
    pub(crate) fn order(&self, other: &Key<'_>) -> Ordering {
        match (self, other) {
            (Self::Bool(left), Key::Bool(right)) => left.cmp(right),
            (Self::String(left), Key::String(right)) => str::cmp(left, right),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> (u8, i128) {
        match self {
            Self::Bool(_) => (0, 0),
            Self::Int(value) => (1, i128::from(*value)),
            Self::Uint(value) => (1, i128::from(*value)),
            Self::String(_) => (2, 0),
        }
    }
}

/// A declared type that lives as long as the bindings do.
pub(crate) type Declared<'v> = Option<&'v DeclType>;
