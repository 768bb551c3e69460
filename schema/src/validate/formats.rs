//! The formats that are checked. Which formats a schema may name depends on its type; a format that does not fit is
//! ignored.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/validation/formats.go`.

use dialect::formats::is_known_format;

use crate::structural::{Schema, ValueType};

/// Returns the format of a schema, if it is one that its type can have.
pub(super) fn effective(schema: &Schema) -> Option<&str> {
    schema
        .format
        .as_deref()
        .filter(|format| is_recognised(schema, format))
}

/// Whether `format` is checked for values of this schema. If not, a definition that names it gets a warning.
pub(crate) fn is_recognised(schema: &Schema, format: &str) -> bool {
    let value_type = if schema.int_or_string {
        None
    } else {
        schema.value_type
    };
    match value_type {
        None | Some(ValueType::String) => is_known_format(format),
        Some(ValueType::Integer) => matches!(format, "int32" | "int64"),
        Some(ValueType::Number) => matches!(format, "float" | "double"),
        Some(ValueType::Object | ValueType::Array | ValueType::Boolean) => false,
    }
}
