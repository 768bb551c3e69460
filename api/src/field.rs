//! Field paths and field errors: which part of an object is wrong, in Kubernetes' words.
//!
//! Source: `apimachinery/pkg/util/validation/field/{path,errors}.go`.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

/// The way from the root of an object to one of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(String);

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldErrorKind {
    /// A reference to something that does not exist.
    NotFound,
    /// A field that must be set is not.
    Required,
    /// A value that occurs more than once where it must be unique.
    Duplicate,
    /// A value that is malformed.
    Invalid,
    /// A value that is none of a list of known ones.
    NotSupported,
    /// A value that is well-formed but not permitted here.
    Forbidden,
    /// A text that is too long.
    TooLong,
    /// A list or map that has too many members.
    TooMany,
    /// The server failed to judge the field.
    Internal,
    /// A value of the wrong type.
    TypeInvalid,
}

/// How many findings of one object are told. Who judges the items of a list stops there: an object of the greatest size can break a rule a
/// million times.
pub const FINDINGS_MAX: usize = 1024;
/// How much text they have together, after which no further one is told.
pub const TOLD_BYTES_MAX: usize = 1 << 20;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// What is wrong.
    pub kind: FieldErrorKind,
    /// Where, as [`FieldPath`] prints it.
    pub path: String,
    /// The value that is wrong; `None` where the message does not show one.
    pub value: Option<Value>,
    /// More about it; may be empty.
    pub detail: String,
}

// === impl FieldPath ===

impl FieldPath {
    /// Starts at the object itself; prints as `<nil>`.
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// Starts at a top-level field. A dotted text is taken as it is.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Goes to a named field.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self(name.to_owned())
        } else {
            Self(format!("{}.{name}", self.0))
        }
    }

    /// Goes to an element of a list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// Goes to a member of a map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// Returns whether this is the object itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Borrows the text; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

impl From<&str> for FieldPath {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

// === impl FieldErrorKind ===

impl FieldErrorKind {
    /// Names the kind as `details.causes[].reason` does.
    pub const fn cause(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// Names the kind as messages do.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    /// Returns whether messages of this kind never show the value.
    const fn hides_value(self) -> bool {
        matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::Internal
        )
    }
}

// === impl FieldError ===

impl FieldError {
    /// Makes an error from its parts.
    pub fn new(
        kind: FieldErrorKind,
        path: &FieldPath,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            path: path.to_string(),
            value,
            detail: detail.into(),
        }
    }

    /// Returns about how long the error is as text, in bytes.
    pub fn size(&self) -> usize {
        let value = self.value.as_ref().map_or(0, size);
        let texts = self.path.len().saturating_add(self.detail.len());
        texts.saturating_add(value)
    }

    /// Reports that a field must be set.
    pub fn required(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, None, detail)
    }

    /// Reports that a value is malformed.
    pub fn invalid(path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, Some(value.into()), detail)
    }

    /// Reports that a value has the wrong type.
    pub fn type_invalid(
        path: &FieldPath,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(
            FieldErrorKind::TypeInvalid,
            path,
            Some(value.into()),
            detail,
        )
    }

    /// Reports that a value is none of the known ones, which are listed in the order given.
    pub fn not_supported<'a>(
        path: &FieldPath,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let quoted = dialect::quote_all(supported);
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {quoted}")
        };
        Self::new(
            FieldErrorKind::NotSupported,
            path,
            Some(value.into()),
            detail,
        )
    }

    /// Reports that a value occurs more than once.
    pub fn duplicate(path: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, Some(value.into()), "")
    }

    /// Reports that a field may not be set, or not to this.
    pub fn forbidden(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, None, detail)
    }

    /// Reports that a text has more than `bytes_max` bytes.
    pub fn too_long(path: &FieldPath, bytes_max: usize) -> Self {
        let noun = if bytes_max == 1 { "byte" } else { "bytes" };
        Self::new(
            FieldErrorKind::TooLong,
            path,
            None,
            format!("may not be more than {bytes_max} {noun}"),
        )
    }

    /// Reports that there are `count` members where `count_max` may be.
    pub fn too_many(path: &FieldPath, count: usize, count_max: usize) -> Self {
        let noun = if count_max == 1 { "item" } else { "items" };
        Self::new(
            FieldErrorKind::TooMany,
            path,
            Some(Value::from(count)),
            format!("must have at most {count_max} {noun}"),
        )
    }

    /// Reports that what a value refers to does not exist.
    pub fn not_found(path: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, path, Some(value.into()), "")
    }

    /// Reports that the server failed to judge the field.
    pub fn internal(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Internal, path, None, detail)
    }

    /// Renders the error without its path, as `details.causes[].message` shows it.
    pub fn body(&self) -> String {
        let mut body = self.kind.text().to_owned();
        if !self.kind.hides_value()
            && let Some(value) = &self.value
        {
            body.push_str(": ");
            body.push_str(&render_value(value));
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for FieldError {}

/// Joins errors as an aggregate prints them: one alone, several in brackets, each text once.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut seen = HashSet::with_capacity(errors.len());
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Leaves out what a refusal does not tell: more findings than anybody reads, and more text than a request has. The first stays.
/// Returns whether there were more.
pub(crate) fn shorten(errors: &mut Vec<FieldError>) -> bool {
    let mut bytes = 0_usize;
    let told = errors.iter().take(FINDINGS_MAX).take_while(|error| {
        let is_told = bytes <= TOLD_BYTES_MAX;
        bytes = bytes.saturating_add(error.size());
        is_told
    });
    let count = told.count();
    let has_more = errors.len() > count;
    errors.truncate(count);
    has_more
}

/// Returns about how long a value is as text.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).fold(0, usize::saturating_add),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len().saturating_add(size(value)))
            .fold(0, usize::saturating_add),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// Renders a value: texts quoted, numbers and booleans plain, the rest as compact JSON.
fn render_value(value: &Value) -> String {
    match value {
        Value::String(text) => dialect::quote(text),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => dialect::float(float),
            _ => number.to_string(),
        },
        other => dialect::json::to_string(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_print_as_in_apimachinery() {
        assert_eq!(FieldPath::root().to_string(), "<nil>");
        assert_eq!(FieldPath::root().child("spec").to_string(), "spec");
        assert_eq!(
            FieldPath::new("spec")
                .child("list")
                .index(2)
                .key("a.b/c")
                .child("x")
                .to_string(),
            "spec.list[2][a.b/c].x"
        );
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "it is a table")]
    fn errors_print_as_in_apimachinery() {
        let path = FieldPath::new("spec.x");
        for (error, cause, want) in [
            (
                FieldError::required(&path, ""),
                "FieldValueRequired",
                "Required value",
            ),
            (
                FieldError::required(&path, "why"),
                "FieldValueRequired",
                "Required value: why",
            ),
            (
                FieldError::invalid(&path, "a\"b", "bad"),
                "FieldValueInvalid",
                r#"Invalid value: "a\"b": bad"#,
            ),
            (
                FieldError::invalid(&path, 3, "bad"),
                "FieldValueInvalid",
                "Invalid value: 3: bad",
            ),
            (
                FieldError::invalid(&path, true, ""),
                "FieldValueInvalid",
                "Invalid value: true",
            ),
            (
                FieldError::invalid(&path, 1.5, ""),
                "FieldValueInvalid",
                "Invalid value: 1.5",
            ),
            (
                FieldError::invalid(&path, Value::Null, "bad"),
                "FieldValueInvalid",
                "Invalid value: null: bad",
            ),
            (
                FieldError::invalid(&path, json!({"b": [1, "x"], "a": null}), "bad"),
                "FieldValueInvalid",
                r#"Invalid value: {"a":null,"b":[1,"x"]}: bad"#,
            ),
            (
                FieldError::type_invalid(&path, "s", "t"),
                "FieldValueTypeInvalid",
                r#"Invalid value: "s": t"#,
            ),
            (
                FieldError::not_supported(&path, "x", ["a", "b"]),
                "FieldValueNotSupported",
                r#"Unsupported value: "x": supported values: "a", "b""#,
            ),
            (
                FieldError::not_supported(&path, "x", []),
                "FieldValueNotSupported",
                r#"Unsupported value: "x""#,
            ),
            (
                FieldError::duplicate(&path, "x"),
                "FieldValueDuplicate",
                r#"Duplicate value: "x""#,
            ),
            (
                FieldError::forbidden(&path, "no"),
                "FieldValueForbidden",
                "Forbidden: no",
            ),
            (
                FieldError::too_long(&path, 5),
                "FieldValueTooLong",
                "Too long: may not be more than 5 bytes",
            ),
            (
                FieldError::too_many(&path, 3, 2),
                "FieldValueTooMany",
                "Too many: 3: must have at most 2 items",
            ),
            (
                FieldError::too_many(&path, 3, 1),
                "FieldValueTooMany",
                "Too many: 3: must have at most 1 item",
            ),
            (
                FieldError::not_found(&path, "x"),
                "FieldValueNotFound",
                r#"Not found: "x""#,
            ),
            (
                FieldError::internal(&path, "boom"),
                "InternalError",
                "Internal error: boom",
            ),
        ] {
            assert_eq!(error.body(), want);
            assert_eq!(error.to_string(), format!("spec.x: {want}"));
            assert_eq!(error.kind.cause(), cause, "{want}");
        }
    }

    #[test]
    fn an_aggregate_says_each_thing_once() {
        let one = FieldError::required(&FieldPath::new("a"), "");
        let other = FieldError::required(&FieldPath::new("b"), "");
        assert_eq!(aggregate(std::slice::from_ref(&one)), "a: Required value");
        assert_eq!(aggregate(&[one.clone(), one.clone()]), "a: Required value");
        assert_eq!(
            aggregate(&[one.clone(), other, one]),
            "[a: Required value, b: Required value]"
        );
    }
}
