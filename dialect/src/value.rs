//! Decoded JSON as Go's `fmt` prints it, where messages that clients match on were made by Go.
//!
//! Source: `fmt` with the verbs `%v`, `%#v` and `%T`.

use std::fmt::Write as _;

use serde_json::{Number, Value};

use crate::{float, quote};

/// Renders a value as `%v` does an `interface{}`.
pub fn plain(value: &Value) -> String {
    let mut out = String::new();
    push_plain(&mut out, value);
    out
}

/// Renders a value as `%#v` does an `interface{}`.
pub fn syntax(value: &Value) -> String {
    let mut out = String::new();
    push_syntax(&mut out, value);
    out
}

/// Returns the Go type of a value as `%T` prints it, `<nil>` for null.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
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
        Value::String(text) => out.push_str(&quote(text)),
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
                out.push_str(&quote(name));
                out.push(':');
                push_syntax(out, field);
            }
            out.push('}');
        }
    }
}

/// Prints a number as `%v` does an `int64` or a `float64`.
pub fn push_number(out: &mut String, number: &Number) {
    if let Some(integer) = number.as_i64() {
        push(out, format_args!("{integer}"));
    } else if let Some(value) = number.as_f64() {
        out.push_str(&float(value));
    } else {
        push(out, format_args!("{number}"));
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
    }

    #[test]
    fn types_have_their_go_names() {
        let cases = [
            (json!(null), "<nil>"),
            (json!(true), "bool"),
            (json!(3), "int64"),
            (json!(1.0), "float64"),
            (json!("x"), "string"),
            (json!([]), "[]interface {}"),
            (json!({}), "map[string]interface {}"),
        ];
        for (input, want) in cases {
            assert_eq!(type_name(&input), want);
        }
    }
}
