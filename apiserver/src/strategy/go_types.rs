//! The words with which Kubernetes refuses a value of a wrong type in a built-in object: those of Go's JSON decoder.
//!
//! Source: sigs.k8s.io/json (UnmarshalTypeError).

use api::{FieldError, FieldErrorKind};
use dialect::base64::{self, illegal_base64};
use dialect::json::type_word;
use serde_json::{Number, Value};

use super::version::VersionRules;
use crate::protobuf::{self, Misread};

/// Where a value is in an object.
struct Located<'a> {
    /// The fields and keys on the way.
    names: Vec<&'a str>,
    /// It is an item of a list.
    is_item: bool,
    value: &'a Value,
}

/// Returns what is wrong with an object of which some values are of a wrong type, if any are: `json: cannot unmarshal string into Go struct
/// field DeploymentSpec.spec.replicas of type int32`. `misread` is what its tables have found already, and `errors` what its schema has.
///
/// However many errors there are, two of them are looked at.
pub(super) fn go_type_error(
    version: &VersionRules,
    object: &Value,
    misread: Option<Misread>,
    errors: &[FieldError],
) -> Option<String> {
    if misread.as_ref().is_some_and(|misread| misread.is_own) {
        return misread.map(|misread| misread.text);
    }
    let mut mistyped = errors.iter().filter(|error| is_mistyped(error));
    let time = mistyped.clone().find(|error| is_about_time(error));
    // What reads itself ends the reading; other errors are told once all is read.
    if let Some(Mistype::Own(text)) = time.map(|error| mistype(version, object, error)) {
        return Some(text);
    }
    match (mistyped.next(), misread) {
        (Some(error), Some(misread)) if without_indexes(path_of(error)) > misread.path => {
            Some(misread.text)
        }
        (Some(error), _) => Some(mistype(version, object, error).into_text()),
        (None, misread) => misread.map(|misread| misread.text),
    }
}

/// What an error says of an integer that its format is too small for, before it names the place.
const OUT_OF_RANGE: &str = "Checked value must be of type integer with format ";

/// What an error says of a text in the place of bytes, and of one of a time.
const NO_BYTES: &str = "must be of type byte: \"\"";
const NO_TIME: &str = "must be of type date-time: ";

/// Whether an error is one of reading: a value is of a wrong type, or no integer of its size.
fn is_mistyped(error: &FieldError) -> bool {
    let is_type = error.kind == FieldErrorKind::TypeInvalid && !is_empty_bytes(error);
    is_type || error.detail.starts_with(OUT_OF_RANGE)
}

/// Whether an error is about no text in the place of bytes: an empty one, which the format of schemas does not have and Go reads, or a value
/// of another type, which has been found before ([`protobuf::read_go`]).
pub(super) fn is_empty_bytes(error: &FieldError) -> bool {
    error.detail.ends_with(NO_BYTES)
}

fn is_about_time(error: &FieldError) -> bool {
    error.detail.contains(NO_TIME)
}

fn without_indexes(path: &str) -> String {
    let parts = path
        .split('[')
        .map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
    parts.collect()
}

/// Where the value of an error is.
fn path_of(error: &FieldError) -> &str {
    match error.detail.strip_prefix(OUT_OF_RANGE) {
        Some(rest) => rest.split_once(" in ").map_or("", |(_, path)| path),
        None => &error.path,
    }
}

/// Who says what is wrong with a value.
enum Mistype {
    /// The JSON decoder.
    Json(String),
    /// The type, which reads itself from a text.
    Own(String),
}

// === impl Mistype ===

impl Mistype {
    fn into_text(self) -> String {
        match self {
            Self::Json(text) | Self::Own(text) => text,
        }
    }
}

fn mistype(version: &VersionRules, object: &Value, error: &FieldError) -> Mistype {
    let kind = &version.gvk.kind;
    let unknown = Located {
        names: Vec::new(),
        is_item: false,
        value: error.value.as_ref().unwrap_or(&Value::Null),
    };
    let Located {
        names,
        is_item,
        value,
    } = locate(object, path_of(error)).unwrap_or(unknown);
    let (field, go_type) =
        protobuf::go_names(&version.api_version, kind, &names).unwrap_or_else(|| {
            let field = format!("{kind}.{}", names.join("."));
            (field, "string".to_owned())
        });
    if let Value::String(text) = value {
        if go_type == "[]uint8" {
            let text = illegal_base64(text, base64::STANDARD);
            return Mistype::Json(text);
        }
        let layout = match go_type.as_str() {
            "v1.Time" => Some(dialect::RFC3339),
            "v1.MicroTime" => Some(dialect::RFC3339_MICRO),
            _ => None,
        };
        if let Some(error) = layout.and_then(|layout| dialect::check_time(layout, text).err()) {
            return Mistype::Own(error.to_string());
        }
    }
    // Which read themselves, from a text.
    let is_time = matches!(go_type.as_str(), "v1.Time" | "v1.MicroTime");
    let go_type = match go_type.as_str() {
        _ if is_time => "string",
        "int32" if error.detail.contains("int64") => "int64",
        list if is_item => list.trim_start_matches("[]"),
        other => other,
    };
    let found = match value {
        Value::Number(number) if matches!(go_type, "int32" | "int64") => {
            format!("number {}", literal(number))
        }
        other => type_word(other).to_owned(),
    };
    // The decoder names the struct and the path from the root.
    let text =
        format!("json: cannot unmarshal {found} into Go struct field {field} of type {go_type}");
    if is_time {
        Mistype::Own(text)
    } else {
        Mistype::Json(text)
    }
}

/// A number as it was most probably sent.
fn literal(number: &Number) -> String {
    const EXPONENT_FROM: f64 = 1e21;
    match number.as_f64() {
        Some(value) if value.fract() == 0.0 && value.abs() < EXPONENT_FROM => format!("{value:.0}"),
        _ => number.to_string(),
    }
}

/// Finds a value by a path as errors have it, in which the names of fields and keys may have dots.
fn locate<'a>(object: &'a Value, path: &str) -> Option<Located<'a>> {
    let path = path.strip_prefix('.').unwrap_or(path);
    match object {
        value if path.is_empty() => Some(Located {
            names: Vec::new(),
            is_item: false,
            value,
        }),
        Value::Object(fields) => fields.iter().find_map(|(name, inner)| {
            let rest = match path.strip_prefix('[') {
                Some(quoted) => quoted.strip_prefix(name.as_str())?.strip_prefix(']')?,
                None => path.strip_prefix(name.as_str())?,
            };
            if !rest.is_empty() && !rest.starts_with(['.', '[']) {
                return None;
            }
            let mut located = locate(inner, rest)?;
            located.names.insert(0, name);
            Some(located)
        }),
        Value::Array(items) => {
            let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
            let mut located = locate(items.get(index.parse::<usize>().ok()?)?, rest)?;
            located.is_item |= rest.is_empty();
            Some(located)
        }
        _ => None,
    }
}
