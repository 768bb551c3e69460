//! Values in the text of paths, as structured-merge-diff writes them.
//!
//! Source: `ToString` in `structured-merge-diff/value/value.go`.

use dialect::{quote, value::push_number};
use serde_json::Value;

/// Renders a value as `value.ToString` of structured-merge-diff does, for the text of paths.
pub(crate) fn push_path_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => push_number(out, number),
        Value::String(text) => out.push_str(&quote(text)),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_path_value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                out.push_str(name);
                out.push('=');
                push_path_value(out, field);
            }
        }
    }
}
