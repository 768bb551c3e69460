//! Go's words: how Go parses, quotes and names values where kro shows the result to a user.
//!
//! kro's messages and marker values are made by Go's `strconv` and `fmt`. To be read as kro's, ours have to come out
//! the same, so the few functions that matter are here, and nowhere else.
//!
//! Quoting is in [`api::go_format`].
//!
//! Source: Go `strconv/atob.go`, `strconv/atoi.go`, `fmt` verbs `%T` and `%v`.

use api::go_format::quote;
use serde_json::Value;

/// Parses a bool as `strconv.ParseBool` does, with its error text.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(syntax_error("ParseBool", text)),
    }
}

/// Parses a decimal integer as `strconv.ParseInt(text, 10, 64)` does, with its error text.
pub(crate) fn parse_int(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(syntax_error("ParseInt", text));
    }
    text.parse().map_err(|_error| range_error("ParseInt", text))
}

/// Parses a float as `strconv.ParseFloat(text, 64)` does, hexadecimal floats excepted, with its error text.
pub(crate) fn parse_float(text: &str) -> Result<f64, String> {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = body.to_ascii_lowercase();
    if !matches!(lower.as_str(), "inf" | "infinity" | "nan") {
        let plain = lower
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".e+-".contains(&byte));
        if !plain || body.is_empty() {
            return Err(syntax_error("ParseFloat", text));
        }
    }
    let value: f64 = text
        .parse()
        .map_err(|_error| syntax_error("ParseFloat", text))?;
    if value.is_infinite() && !lower.starts_with("inf") {
        return Err(range_error("ParseFloat", text));
    }
    Ok(value)
}

fn syntax_error(function: &str, text: &str) -> String {
    format!(
        "strconv.{function}: parsing {}: invalid syntax",
        quote(text)
    )
}

fn range_error(function: &str, text: &str) -> String {
    format!(
        "strconv.{function}: parsing {}: value out of range",
        quote(text)
    )
}

/// Names the Go type that a decoded JSON value has, as `%T` prints it.
pub(crate) fn type_name(value: &Value) -> &'static str {
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

/// Prints a list of words as `%v` prints a `[]string`.
pub(crate) fn words<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    format!("[{}]", words.join(" "))
}

/// Makes a JSON number of a float as Go's encoder would print it: whole numbers have no fraction.
pub(crate) fn float_value(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        return Value::from(value as i64);
    }
    Value::from(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn booleans_are_parsed_as_go_parses_them() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse_bool(text), Ok(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse_bool(text), Ok(false), "{text}");
        }
        let want = Err("strconv.ParseBool: parsing \"yes\": invalid syntax".to_owned());
        assert_eq!(parse_bool("yes"), want);
    }

    #[test]
    fn integers_and_floats_are_parsed_as_go_parses_them() {
        assert_eq!(parse_int("-7"), Ok(-7));
        assert_eq!(parse_int("+7"), Ok(7));
        assert_eq!(
            parse_int("1.5"),
            Err("strconv.ParseInt: parsing \"1.5\": invalid syntax".to_owned())
        );
        assert_eq!(
            parse_int("99999999999999999999"),
            Err(
                "strconv.ParseInt: parsing \"99999999999999999999\": value out of range".to_owned()
            )
        );
        assert_eq!(parse_float("1e3"), Ok(1000.0));
        assert_eq!(parse_float(".5"), Ok(0.5));
        assert!(parse_float("").is_err());
        assert!(parse_float("abc").is_err());
        assert!(parse_float("1e999").is_err());
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
        assert_eq!(words(&["a", "b"]), "[a b]");
        assert_eq!(float_value(3.0), json!(3));
        assert_eq!(float_value(0.5), json!(0.5));
    }
}
