//! The types of SimpleSchema.
//!
//! Source: kro `pkg/simpleschema/parse.go`, `types/`.

use dialect::quote;

/// How deep lists and maps may be nested.
const NESTING_MAX: usize = 16;

/// A parsed type.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Type {
    /// A scalar, by its OpenAPI name.
    Atomic(&'static str),
    /// Any object.
    Object,
    List(Box<Self>),
    /// A map with string keys.
    Map(Box<Self>),
    /// A name that stands in `types`, or nowhere.
    Custom(String),
}

// === impl Type ===

impl Type {
    /// Gives the custom type that this type is or is made of.
    pub(super) fn custom_name(&self) -> Option<&str> {
        match self {
            Self::Custom(name) => Some(name),
            Self::List(element) | Self::Map(element) => element.custom_name(),
            Self::Atomic(_) | Self::Object => None,
        }
    }
}

/// Parses the part of a field before its markers.
pub(super) fn parse(text: &str) -> Result<Type, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("empty type".to_owned());
    }
    parse_nested(text, 0)
}

fn parse_nested(text: &str, depth: usize) -> Result<Type, String> {
    if depth > NESTING_MAX {
        return Err(format!(
            "type nesting too deep (max {NESTING_MAX}): {}",
            quote(text)
        ));
    }
    let text = text.trim();
    let atomic = match text {
        "string" => Some("string"),
        "integer" => Some("integer"),
        "boolean" => Some("boolean"),
        "float" => Some("number"),
        _ => None,
    };
    if let Some(openapi) = atomic {
        return Ok(Type::Atomic(openapi));
    }
    if text == "object" {
        return Ok(Type::Object);
    }
    if let Some(element) = text.strip_prefix("[]") {
        if element.is_empty() {
            return Err("empty slice element type".to_owned());
        }
        return Ok(Type::List(Box::new(parse_nested(element, depth + 1)?)));
    }
    if text.starts_with("map[") {
        let Some(element) = text.strip_prefix("map[string]") else {
            return Err("map key must be string".to_owned());
        };
        let element = element.trim();
        if element.is_empty() {
            return Err("map value type is required".to_owned());
        }
        return Ok(Type::Map(Box::new(parse_nested(element, depth + 1)?)));
    }
    Ok(Type::Custom(text.to_owned()))
}
