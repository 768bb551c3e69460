//! Go's spelling of JSON values, where keys and messages that clients match on were made by Go.
//!
//! Source: `fmt` with the verbs `%v`, `%#v` and `%T`; `json-iterator/go` in its standard-library mode, which writes
//! the keys of FieldsV1.

use std::fmt::Write as _;

use api::go_format;
use serde_json::{Number, Value};

/// Renders a scalar as it stands in the key of a path element: compact JSON, `<`, `>` and `&` escaped, and floats
/// without a needless fraction.
pub(crate) fn push_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => push_json_number(out, number),
        Value::String(text) => push_json_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_json(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_json_string(out, name);
                out.push(':');
                push_json(out, field);
            }
            out.push('}');
        }
    }
}

/// Quotes a text as Go's JSON encoder does with HTML escaping on.
pub(crate) fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{0}'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                push(out, format_args!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Renders a value as `value.ToString` of structured-merge-diff does, for the text of paths.
pub(crate) fn push_path_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => push(out, format_args!("{flag}")),
        Value::Number(number) => push_number(out, number),
        Value::String(text) => out.push_str(&go_format::quote(text)),
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

/// Renders a value as `%v` does an `interface{}`.
pub(crate) fn plain(value: &Value) -> String {
    let mut out = String::new();
    push_plain(&mut out, value);
    out
}

/// Renders a value as `%#v` does an `interface{}`.
pub(crate) fn syntax(value: &Value) -> String {
    let mut out = String::new();
    push_syntax(&mut out, value);
    out
}

/// The type of a value as `%T` tells it, `<nil>` for null.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn push_plain(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(flag) => push(out, format_args!("{flag}")),
        Value::Number(number) => push_number(out, number),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                push_plain(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push_str("map[");
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                push_plain(out, field);
            }
            out.push(']');
        }
    }
}

fn push_syntax(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::Bool(flag) => push(out, format_args!("{flag}")),
        Value::Number(number) => push_number(out, number),
        Value::String(text) => out.push_str(&go_format::quote(text)),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                push_syntax(out, item);
            }
            out.push('}');
        }
        Value::Object(fields) => {
            out.push_str("map[string]interface {}{");
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                out.push_str(&go_format::quote(name));
                out.push(':');
                push_syntax(out, field);
            }
            out.push('}');
        }
    }
}

fn push_number(out: &mut String, number: &Number) {
    if let Some(integer) = number.as_i64() {
        push(out, format_args!("{integer}"));
    } else if let Some(float) = number.as_f64() {
        out.push_str(&go_format::float(float));
    } else {
        push(out, format_args!("{number}"));
    }
}

/// Go's JSON encoder switches to the scientific form below 1e-6 and from 1e21 on, with a bare exponent.
fn push_json_number(out: &mut String, number: &Number) {
    if let Some(integer) = number.as_i64() {
        push(out, format_args!("{integer}"));
        return;
    }
    let Some(float) = number.as_f64() else {
        push(out, format_args!("{number}"));
        return;
    };
    let magnitude = float.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        push(out, format_args!("{float}"));
    } else {
        let scientific = format!("{float:e}");
        match scientific.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                push(out, format_args!("{digits}e+{exponent:0>2}"));
            }
            _ => out.push_str(&scientific),
        }
    }
}

fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(arguments);
    debug_assert!(written.is_ok(), "writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_spelled_as_go_spells_them() {
        let value = json!({"b": [1, 2.5, true, null], "a": "x\"y"});
        assert_eq!(plain(&value), r#"map[a:x"y b:[1 2.5 true <nil>]]"#);
        assert_eq!(
            syntax(&value),
            r#"map[string]interface {}{"a":"x\"y", "b":[]interface {}{1, 2.5, true, interface {}(nil)}}"#
        );
        let mut json_text = String::new();
        push_json(
            &mut json_text,
            &json!({"k": "<a&b>", "n": [1e21, 1.0, 1e-7, -0.5]}),
        );
        assert_eq!(
            json_text,
            r#"{"k":"\u003ca\u0026b\u003e","n":[1e+21,1,1e-7,-0.5]}"#
        );
    }
}
