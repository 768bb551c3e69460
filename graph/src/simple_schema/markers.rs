//! Markers: what stands after the `|` of a field.
//!
//! The parser is kro's, traps included: blanks outside a value are dropped (`foo bar=1` is the key `foobar`), a blank at
//! the very end starts a key that never comes, a second `|` becomes part of a key, and a single quote is a character
//! like any other.
//!
//! Source: kro `pkg/simpleschema/markers.go`.

use dialect::number::{parse_bool, parse_float, parse_int};
use dialect::{pattern, quote};
use serde_json::{Value, json};

/// Compiled size at which a pattern is refused, as for a pattern of a schema.
const COMPILED_BYTES_MAX: usize = 32 << 20;

/// One `key=value`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Marker {
    key: Kind,
    value: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Required,
    Default,
    Description,
    Minimum,
    Maximum,
    Validation,
    Enum,
    Immutable,
    Pattern,
    UniqueItems,
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    ListType,
    ListMapKey,
}

// === impl Kind ===

impl Kind {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "required" => Self::Required,
            "default" => Self::Default,
            "description" => Self::Description,
            "minimum" => Self::Minimum,
            "maximum" => Self::Maximum,
            "validation" => Self::Validation,
            "enum" => Self::Enum,
            "immutable" => Self::Immutable,
            "pattern" => Self::Pattern,
            "uniqueItems" => Self::UniqueItems,
            "minLength" => Self::MinLength,
            "maxLength" => Self::MaxLength,
            "minItems" => Self::MinItems,
            "maxItems" => Self::MaxItems,
            "listType" => Self::ListType,
            "listMapKey" => Self::ListMapKey,
            _ => return None,
        })
    }
}

// === impl Marker ===

impl Marker {
    /// Returns whether this marker makes its field required.
    pub(super) fn is_required(&self) -> bool {
        self.key == Kind::Required && parse_bool(&self.value) == Ok(true)
    }
}

/// Reads markers one character at a time.
#[derive(Default)]
struct Parser {
    markers: Vec<Marker>,
    /// The key whose value is being read.
    key: Option<Kind>,
    buffer: String,
    in_quotes: bool,
    escaped: bool,
    bracket_depth: usize,
}

/// Parses markers.
pub(super) fn parse(text: &str) -> Result<Vec<Marker>, String> {
    let mut parser = Parser::default();
    for character in text.chars() {
        parser.take(character)?;
    }
    parser.finish()
}

// === impl Parser ===

impl Parser {
    fn take(&mut self, character: char) -> Result<(), String> {
        let outside = !self.in_quotes && self.bracket_depth == 0;
        match character {
            '=' if self.key.is_none() && outside => return self.end_key(),
            '"' if !self.escaped => self.in_quotes = !self.in_quotes,
            '\\' if self.in_quotes && !self.escaped => self.escaped = true,
            '{' | '[' if !self.in_quotes => self.bracket_depth += 1,
            '}' | ']' if !self.in_quotes => {
                self.bracket_depth = self
                    .bracket_depth
                    .checked_sub(1)
                    .ok_or_else(|| "unmatched closing bracket/brace".to_owned())?;
            }
            blank if blank.is_whitespace() && outside => {
                self.end_value();
                return Ok(());
            }
            _ if self.in_quotes => self.escaped = false,
            _ => {}
        }
        self.buffer.push(character);
        Ok(())
    }

    fn end_key(&mut self) -> Result<(), String> {
        let text = self.buffer.trim();
        if text.is_empty() {
            return Err("empty marker key".to_owned());
        }
        let key = Kind::parse(text)
            .ok_or_else(|| format!("invalid marker key {}: unknown marker: {text}", quote(text)))?;
        self.key = Some(key);
        self.buffer.clear();
        Ok(())
    }

    fn end_value(&mut self) {
        if let Some(key) = self.key.take() {
            let value = unquote(&self.buffer);
            self.markers.push(Marker { key, value });
            self.buffer.clear();
        }
    }

    fn finish(mut self) -> Result<Vec<Marker>, String> {
        if self.key.is_none() {
            return Err(format!("marker key '{}' without a value", self.buffer));
        }
        if self.in_quotes {
            return Err("unclosed quote".to_owned());
        }
        if self.bracket_depth > 0 {
            return Err("unclosed bracket/brace".to_owned());
        }
        self.end_value();
        Ok(self.markers)
    }
}

/// Takes the quotes off a value that is wholly quoted, and undoes `\"` and `\\`; other escapes stay as they are.
fn unquote(text: &str) -> String {
    let Some(inner) = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
    else {
        return text.trim().to_owned();
    };
    let mut out = String::with_capacity(inner.len());
    let mut escaped = false;
    for character in inner.chars() {
        if escaped {
            if character != '"' && character != '\\' {
                out.push('\\');
            }
            out.push(character);
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else {
            out.push(character);
        }
    }
    out
}

/// Writes markers into the schema of their field. Tells whether any of them makes the field required.
pub(super) fn apply(schema: &mut Value, markers: &[Marker]) -> Result<bool, String> {
    let mut required = false;
    for marker in markers {
        if marker.key == Kind::Required {
            required |= parse_bool(&marker.value)
                .map_err(|error| format!("failed to parse required marker value: {error}"))?;
        } else {
            apply_one(schema, marker.key, &marker.value)?;
        }
    }
    if schema.get("x-kubernetes-list-map-keys").is_some() {
        match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            None => {
                return Err(
                    "listMapKey set while listType is unset, listType must be set to map"
                        .to_owned(),
                );
            }
            Some("map") => {}
            Some(other) => {
                return Err(format!(
                    "listMapKey set while listType is set to {other}, listType must be set to map"
                ));
            }
        }
    }
    Ok(required)
}

fn apply_one(schema: &mut Value, key: Kind, value: &str) -> Result<(), String> {
    match key {
        Kind::Required => {}
        Kind::Default => schema["default"] = default_value(type_of(schema), value)?,
        Kind::Description if value.is_empty() => {
            if let Some(map) = schema.as_object_mut() {
                map.remove("description");
            }
        }
        Kind::Description => schema["description"] = json!(value),
        Kind::Minimum => schema["minimum"] = bound("minimum", value)?,
        Kind::Maximum => schema["maximum"] = bound("maximum", value)?,
        Kind::Validation if value.trim().is_empty() => return Err("validation failed".to_owned()),
        Kind::Validation => add_rule(schema, value, "validation failed"),
        Kind::Immutable => {
            let immutable = parse_bool(value)
                .map_err(|error| format!("failed to parse immutable marker value: {error}"))?;
            if immutable {
                add_rule(schema, "self == oldSelf", "field is immutable");
            }
        }
        Kind::Enum => schema["enum"] = enum_values(type_of(schema), value)?,
        Kind::MinLength => count(schema, "minLength", "string", value)?,
        Kind::MaxLength => count(schema, "maxLength", "string", value)?,
        Kind::MinItems => count(schema, "minItems", "array", value)?,
        Kind::MaxItems => count(schema, "maxItems", "array", value)?,
        Kind::Pattern => set_pattern(schema, value)?,
        Kind::UniqueItems => unique_items(schema, value)?,
        Kind::ListType => list_type(schema, value)?,
        Kind::ListMapKey => list_map_key(schema, value)?,
    }
    Ok(())
}

fn type_of(schema: &Value) -> &str {
    schema
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn set_list_type(schema: &Value) -> Option<String> {
    Some(schema.get("x-kubernetes-list-type")?.as_str()?.to_owned())
}

/// Makes a default. kro writes the text as it stands into the definition (a string between quotes, unescaped, so that
/// `\n` in it is a line break); the API server then reads it as JSON, and so do we.
fn default_value(schema_type: &str, value: &str) -> Result<Value, String> {
    let raw = match schema_type {
        "string" => format!("\"{value}\""),
        "integer" if parse_int(value).is_err() => {
            return Err(format!(
                "default value must be a valid integer, got: {value}"
            ));
        }
        "number" if parse_float(value).is_err() => {
            return Err(format!(
                "default value must be a valid number, got: {value}"
            ));
        }
        "boolean" if parse_bool(value).is_err() => {
            return Err(format!(
                "default value must be a valid boolean, got: {value}"
            ));
        }
        _ => value.to_owned(),
    };
    serde_json::from_str(&raw).map_err(|error| format!("default value {raw} is not JSON: {error}"))
}

fn bound(name: &str, value: &str) -> Result<Value, String> {
    let value = parse_float(value)
        .map_err(|error| format!("failed to parse {name} enum value: {error}"))?;
    Ok(float_value(value))
}

fn add_rule(schema: &mut Value, rule: &str, message: &str) {
    let rule = json!({"rule": rule, "message": message});
    match schema
        .get_mut("x-kubernetes-validations")
        .and_then(Value::as_array_mut)
    {
        Some(rules) => rules.push(rule),
        None => schema["x-kubernetes-validations"] = json!([rule]),
    }
}

fn enum_values(schema_type: &str, value: &str) -> Result<Value, String> {
    let mut values = Vec::new();
    for word in value.split(',').map(str::trim) {
        if word.is_empty() {
            return Err("empty enum values are not allowed".to_owned());
        }
        values.push(match schema_type {
            "string" => json!(word),
            "integer" => {
                let number = parse_int(word)
                    .map_err(|error| format!("failed to parse integer enum value: {error}"))?;
                json!(number)
            }
            other => {
                return Err(format!(
                    "enum values only supported for string and integer types, got type: {other}"
                ));
            }
        });
    }
    Ok(Value::Array(values))
}

fn count(schema: &mut Value, name: &str, wanted: &str, value: &str) -> Result<(), String> {
    only_for(schema, name, wanted)?;
    let value =
        parse_int(value).map_err(|error| format!("failed to parse {name} value: {error}"))?;
    schema[name] = json!(value);
    Ok(())
}

fn only_for(schema: &Value, name: &str, wanted: &str) -> Result<(), String> {
    let found = type_of(schema);
    if found == wanted {
        return Ok(());
    }
    Err(format!(
        "{name} marker is only valid for {wanted} types, got type: {found}"
    ))
}

fn set_pattern(schema: &mut Value, value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("pattern marker value cannot be empty".to_owned());
    }
    only_for(schema, "pattern", "string")?;
    if let Err(error) = pattern::compile(value, COMPILED_BYTES_MAX) {
        return Err(format!("invalid pattern regex: {error}"));
    }
    schema["pattern"] = json!(value);
    Ok(())
}

fn unique_items(schema: &mut Value, value: &str) -> Result<(), String> {
    let unique = parse_bool(value)
        .map_err(|error| format!("failed to parse uniqueItems marker value: {error}"))?;
    only_for(schema, "uniqueItems", "array")?;
    if !unique {
        return Ok(());
    }
    match set_list_type(schema) {
        Some(other) if other != "set" => {
            Err(format!("cannot set unique when listType is set to {other}"))
        }
        _ => {
            schema["x-kubernetes-list-type"] = json!("set");
            Ok(())
        }
    }
}

fn list_type(schema: &mut Value, value: &str) -> Result<(), String> {
    if type_of(schema) != "array" {
        return Err("listType marker only applies to array types".to_owned());
    }
    if !["atomic", "set", "map"].contains(&value) {
        return Err(format!(
            "unsupported value for listType {value}, needs to be one of atomic, set, or map"
        ));
    }
    match set_list_type(schema) {
        Some(other) if other != value => Err(format!(
            "listType attempting to overwrite set type of {other}, this can happen if you set contradictory markers \
             like unique=true | listType=map"
        )),
        _ => {
            schema["x-kubernetes-list-type"] = json!(value);
            Ok(())
        }
    }
}

fn list_map_key(schema: &mut Value, value: &str) -> Result<(), String> {
    if type_of(schema) != "array" {
        return Err("listMapKey marker only applies to array types".to_owned());
    }
    let keys = schema
        .get_mut("x-kubernetes-list-map-keys")
        .and_then(Value::as_array_mut);
    match keys {
        Some(keys) if keys.iter().any(|key| key == value) => {
            return Err(format!("duplicate listMapKey marker, value {value}"));
        }
        Some(keys) => keys.push(json!(value)),
        None => schema["x-kubernetes-list-map-keys"] = json!([value]),
    }
    Ok(())
}

/// Makes a JSON number of a float as Go's encoder prints it: whole numbers have no fraction.
fn float_value(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        return Value::from(value as i64);
    }
    Value::from(value)
}
