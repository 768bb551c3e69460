//! The types that expressions are declared and checked with.
//!
//! A [`DeclType`] says what a binding is before there is a value: the checker infers with it, and
//! the evaluator reads JSON with it (a declared `timestamp` turns a date-time string into a
//! timestamp). Object types come from OpenAPI schemas; their fields carry the JSON property name,
//! and expressions may also write the escaped form of a name that is no CEL identifier.
//!
//! Invariants: cloning is cheap (`Arc` inside); two object types with one name are one type.
//!
//! Source: `k8s.io/apiserver/pkg/cel/types.go`, `cel-go/common/types/types.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The declared or inferred type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclType {
    /// Anything; checked when evaluated.
    Dyn,
    /// The type of `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A 64-bit signed integer.
    Int,
    /// A 64-bit unsigned integer.
    Uint,
    /// A 64-bit float.
    Double,
    /// Unicode text.
    String,
    /// Bytes; in JSON a base64 string.
    Bytes,
    /// A point in time; in JSON an RFC 3339 string (a date alone counts as midnight UTC).
    Timestamp,
    /// A span of time; in JSON a Go duration string.
    Duration,
    /// The type of a type, such as of `int` in `type(x) == int`.
    Type(Arc<Self>),
    /// A list.
    List(Arc<ListType>),
    /// A map.
    Map(Arc<MapType>),
    /// An object with known fields.
    Object(Arc<ObjectType>),
    /// A value that may be absent.
    Optional(Arc<Self>),
    /// A library's own type, such as `net.IP`.
    Opaque(&'static str),
    /// A type variable of one compilation, such as the element type of `[]`.
    Param(u32),
}

/// The type of a list and how two such lists compare and add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListType {
    /// The type of the elements.
    pub element: DeclType,
    /// `x-kubernetes-list-type`.
    pub kind: ListKind,
}

/// How lists of one schema compare and add (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// Element by element, in order; `+` appends.
    #[default]
    Atomic,
    /// As sets: order is ignored, `+` adds what is missing.
    Set,
    /// By these key properties: order is ignored, `+` replaces elements of the same key.
    Map(Vec<String>),
}

/// The type of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapType {
    /// The type of the keys.
    pub key: DeclType,
    /// The type of the values.
    pub value: DeclType,
}

/// The type of an object: its fields under their JSON names.
#[derive(Clone, Debug)]
pub struct ObjectType {
    /// The type's name in messages; identity.
    pub name: String,
    /// The fields by JSON property name.
    pub fields: BTreeMap<String, DeclType>,
    /// Whether fields that are not listed may be selected (`x-kubernetes-preserve-unknown-fields`).
    pub open: bool,
}

// === impl DeclType ===

impl DeclType {
    /// Makes the type of atomic lists of `element`.
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(ListType {
            element,
            kind: ListKind::Atomic,
        }))
    }

    /// Makes the type of maps from `key` to `value`.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(MapType { key, value }))
    }

    /// Makes the type of an optional `value`.
    pub fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// Makes the type of a closed object.
    pub fn object(
        name: impl Into<String>,
        fields: impl IntoIterator<Item = (String, Self)>,
    ) -> Self {
        Self::Object(Arc::new(ObjectType {
            name: name.into(),
            fields: fields.into_iter().collect(),
            open: false,
        }))
    }

    /// Makes the type of objects that a mutation makes: `Object`, `Object.spec` and so on, of which any field may be set, and
    /// `JSONPatch`. `None` for any other name.
    ///
    /// Source: `k8s.io/apiserver/pkg/cel/mutation/typeresolver.go`.
    pub fn of_patch(name: &str) -> Option<Self> {
        if name == JSON_PATCH {
            let texts = ["op", "path", "from"].map(|field| (field.to_owned(), Self::String));
            let fields = texts.into_iter().chain([("value".to_owned(), Self::Dyn)]);
            return Some(Self::object(JSON_PATCH, fields));
        }
        let below = name.strip_prefix(OBJECT)?;
        (below.is_empty() || below.starts_with('.')).then(|| {
            Self::Object(Arc::new(ObjectType {
                name: name.to_owned(),
                fields: BTreeMap::new(),
                open: true,
            }))
        })
    }

    /// Whether nothing is known of the value.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    /// The type inside an optional, or the type itself.
    #[must_use]
    pub fn unwrap_optional(&self) -> &Self {
        match self {
            Self::Optional(inner) => inner,
            other => other,
        }
    }
}

impl fmt::Display for DeclType {
    /// Writes the type as cel-go's checker does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Type(of) => write!(f, "type({of})"),
            Self::List(list) => write!(f, "list({})", list.element),
            Self::Map(map) => write!(f, "map({}, {})", map.key, map.value),
            Self::Object(object) => f.write_str(&object.name),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Param(index) => write!(f, "_var{index}"),
        }
    }
}

// === impl ObjectType ===

impl ObjectType {
    /// Finds the field that an expression calls `name`: the JSON name itself, or its escaped form.
    pub fn field(&self, name: &str) -> Option<(&str, &DeclType)> {
        let exact = self.fields.get_key_value(name);
        let (name, field) = exact.or_else(|| self.fields.get_key_value(&unescape(name)?))?;
        Some((name, field))
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ObjectType {}

/// The type of the object that a mutation makes, and the beginning of the names of the types of its fields.
pub(crate) const OBJECT: &str = "Object";
/// The type of an operation of a JSON patch.
pub(crate) const JSON_PATCH: &str = "JSONPatch";

/// The words that CEL keeps for itself; as property names they are escaped.
///
/// Source: `celReserved` of `k8s.io/apiserver/pkg/cel/escaping.go`.
pub const RESERVED_WORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Turns a JSON property name into the identifier that expressions use, where there is one.
///
/// `__` becomes `__underscores__`, `.` `__dot__`, `-` `__dash__`, `/` `__slash__`, and a reserved
/// word `w` becomes `__w__`. Names with other characters have no escaped form.
///
/// Source: `k8s.io/apiserver/pkg/cel/escaping.go`.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED_WORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '_' if rest.next_if_eq(&'_').is_some() => escaped.push_str("__underscores__"),
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
    }
    Some(escaped)
}

/// Turns an escaped identifier back into the JSON property name.
///
/// Returns nothing for a name without escapes, or with one that is not known.
pub fn unescape(identifier: &str) -> Option<String> {
    let mut name = String::with_capacity(identifier.len());
    let mut rest = identifier;
    let mut found = false;
    while let Some(start) = rest.find("__") {
        let (before, from) = rest.split_at_checked(start)?;
        let inner = from.strip_prefix("__")?;
        let end = inner.find("__")?;
        let (word, after) = inner.split_at_checked(end)?;
        name.push_str(before);
        match word {
            "underscores" => name.push_str("__"),
            "dot" => name.push('.'),
            "dash" => name.push('-'),
            "slash" => name.push('/'),
            word if RESERVED_WORDS.contains(&word) && word.len() + 4 == identifier.len() => {
                name.push_str(word);
            }
            _ => return None,
        }
        found = true;
        rest = after.strip_prefix("__")?;
    }
    name.push_str(rest);
    found.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_names_escape_to_identifiers_and_back() {
        for (name, want) in [
            ("plain", Some("plain")),
            ("a.b", Some("a__dot__b")),
            ("a-b/c", Some("a__dash__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("namespace", Some("__namespace__")),
            ("9lives", None),
            ("a b", None),
            ("", None),
        ] {
            let escaped = escape(name);
            assert_eq!(escaped.as_deref(), want, "escape {name:?}");
            if let Some(escaped) = escaped.filter(|e| e != name) {
                assert_eq!(
                    unescape(&escaped).as_deref(),
                    Some(name),
                    "unescape {escaped:?}"
                );
            }
        }
    }

    #[test]
    fn unknown_escapes_are_no_names() {
        for identifier in ["plain", "a__what__b", "__dot", "a____b", "x__if__"] {
            assert_eq!(unescape(identifier), None, "{identifier}");
        }
    }

    #[test]
    fn types_print_as_in_cel_go() {
        for (ty, want) in [
            (DeclType::list(DeclType::Int), "list(int)"),
            (
                DeclType::map(DeclType::String, DeclType::Dyn),
                "map(string, dyn)",
            ),
            (
                DeclType::optional(DeclType::Timestamp),
                "optional_type(timestamp)",
            ),
            (
                DeclType::Opaque("kubernetes.Quantity"),
                "kubernetes.Quantity",
            ),
        ] {
            assert_eq!(ty.to_string(), want);
        }
    }

    #[test]
    fn a_field_is_found_by_its_json_name_and_by_its_escaped_name() {
        let DeclType::Object(object) = DeclType::object("t", [("a-b".to_owned(), DeclType::Int)])
        else {
            panic!("object() makes an object");
        };
        assert_eq!(object.field("a-b"), Some(("a-b", &DeclType::Int)));
        assert_eq!(object.field("a__dash__b"), Some(("a-b", &DeclType::Int)));
        assert_eq!(object.field("c"), None);
    }
}
