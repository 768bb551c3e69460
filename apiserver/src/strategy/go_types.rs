//! The words with which Kubernetes refuses a value of a wrong type in a built-in object: those of Go's JSON decoder.
//!
//! Source: sigs.k8s.io/json (UnmarshalTypeError).

use api::FieldError;
use serde_json::Value;

use super::version::VersionRules;
use crate::protobuf;

/// Returns what is wrong: `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
pub(super) fn go_type_error(version: &VersionRules, error: &FieldError) -> String {
    let segments: Vec<&str> = error
        .path
        .split(['.', '['])
        .filter(|segment| !segment.is_empty() && !segment.ends_with(']'))
        .collect();
    let kind = &version.gvk.kind;
    let (field, go_type) = protobuf::go_names(&version.api_version, kind, &segments)
        .unwrap_or_else(|| {
            let field = format!("{kind}.{}", segments.join("."));
            (field, "string".to_owned())
        });
    if let (true, Some(text)) = (
        go_type == "[]uint8",
        error.value.as_ref().and_then(Value::as_str),
    ) {
        return format!(
            "illegal base64 data at input byte {}",
            first_not_base64(text)
        );
    }
    let found = error.value.as_ref().map_or("value", json_type);
    // The decoder names the struct and the path from the root.
    format!("json: cannot unmarshal {found} into Go struct field {field} of type {go_type}")
}

/// Where Go's decoder stops: at the first byte that is not of the alphabet, or where the padding is wrong.
fn first_not_base64(text: &str) -> usize {
    let of_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let stop = text
        .bytes()
        .position(|byte| !of_alphabet(byte))
        .unwrap_or(text.len());
    let is_end = stop == text.len();
    if is_end { stop - stop % 4 } else { stop }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        // Findings about types carry the name of the type that they found.
        Value::String(name) => match name.as_str() {
            "integer" | "number" => "number",
            "boolean" => "bool",
            "object" => "object",
            "array" => "array",
            _ => "string",
        },
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
