//! JSON as Go's encoders write it: compact, `<`, `>` and `&` escaped, floats without a needless fraction.
//!
//! There are two encoders. `encoding/json` has short escapes for backspace and form feed; `json-iterator/go`, which
//! writes the keys of FieldsV1, has none.
//!
//! Source: Go's `encoding/json/encode.go`; `json-iterator/go` in its standard-library mode.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Which of Go's encoders writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoder {
    Standard,
    Iterator,
}

/// Names the type of a value as the errors of `encoding/json` do.
pub fn type_word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Renders a value as `encoding/json` does.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    push_value(&mut out, value, Encoder::Standard);
    out
}

/// Renders a value as `json-iterator/go` does.
pub fn push(out: &mut String, value: &Value) {
    push_value(out, value, Encoder::Iterator);
}

/// Quotes a text as `json-iterator/go` does.
pub fn push_string(out: &mut String, text: &str) {
    push_text(out, text, Encoder::Iterator);
}

fn push_value(out: &mut String, value: &Value, encoder: Encoder) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => push_number(out, number),
        Value::String(text) => push_text(out, text, encoder),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_value(out, item, encoder);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_text(out, name, encoder);
                out.push(':');
                push_value(out, field, encoder);
            }
            out.push('}');
        }
    }
}

fn push_text(out: &mut String, text: &str, encoder: Encoder) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' if encoder == Encoder::Standard => out.push_str("\\b"),
            '\u{c}' if encoder == Encoder::Standard => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{0}'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                write(out, format_args!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Go's JSON encoder switches to the scientific form below 1e-6 and from 1e21 on, with a bare exponent.
/// Writes a number as both do.
pub fn push_number(out: &mut String, number: &Number) {
    if let Some(integer) = number.as_i64() {
        write(out, format_args!("{integer}"));
        return;
    }
    let Some(float) = number.as_f64() else {
        write(out, format_args!("{number}"));
        return;
    };
    let magnitude = float.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        write(out, format_args!("{float}"));
    } else {
        let scientific = format!("{float:e}");
        match scientific.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                write(out, format_args!("{digits}e+{exponent:0>2}"));
            }
            _ => out.push_str(&scientific),
        }
    }
}

fn write(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(arguments);
    debug_assert!(written.is_ok(), "writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_as_go_writes_them() {
        for (value, want) in [
            (
                json!({"k": "<a&b>\u{2028}", "n": [1e21, 1.0, 1e-7, -0.5]}),
                r#"{"k":"\u003ca\u0026b\u003e\u2028","n":[1e+21,1,1e-7,-0.5]}"#,
            ),
            (json!(["a", 1, true, null]), r#"["a",1,true,null]"#),
            (
                json!("\u{8}\u{c}\n\u{1}\u{7f}"),
                "\"\\b\\f\\n\\u0001\u{7f}\"",
            ),
        ] {
            assert_eq!(to_string(&value), want);
        }
    }

    #[test]
    fn the_keys_of_field_sets_have_no_short_escapes() {
        let mut out = String::new();
        push(&mut out, &json!({"\u{8}": "\u{c}\t"}));
        assert_eq!(out, r#"{"\u0008":"\u000c\t"}"#);
    }
}
