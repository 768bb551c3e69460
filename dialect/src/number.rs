//! Booleans and numbers as Go's `strconv` parses them, with its error texts.
//!
//! Source: Go's `strconv/{atob,atoi,atof}.go`.

use std::num::{IntErrorKind, ParseIntError};

use crate::quote;

/// Parses a bool as `strconv.ParseBool` does.
pub fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(syntax_error("ParseBool", text)),
    }
}

/// Parses a decimal integer as `strconv.ParseInt(text, 10, 64)` does.
pub fn parse_int(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|error| integer_error("ParseInt", text, &error))
}

/// Parses a decimal integer as `strconv.ParseUint(text, 10, 64)` does, which takes no sign.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    if text.starts_with('+') {
        return Err(syntax_error("ParseUint", text));
    }
    text.parse()
        .map_err(|error| integer_error("ParseUint", text, &error))
}

/// Parses a decimal integer as `strconv.Atoi` does.
pub fn atoi(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|error| integer_error("Atoi", text, &error))
}

/// Parses a float as `strconv.ParseFloat(text, 64)` does, hexadecimal floats excepted.
pub fn parse_float(text: &str) -> Result<f64, String> {
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

fn integer_error(function: &str, text: &str, error: &ParseIntError) -> String {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => range_error(function, text),
        _ => syntax_error(function, text),
    }
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

#[cfg(test)]
mod tests {
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
        assert_eq!(parse_uint("7"), Ok(7));
        for text in ["", "-7", "+7", "x"] {
            let want = format!("strconv.ParseUint: parsing \"{text}\": invalid syntax");
            assert_eq!(parse_uint(text), Err(want));
        }
        assert_eq!(
            parse_uint("99999999999999999999"),
            Err(
                "strconv.ParseUint: parsing \"99999999999999999999\": value out of range"
                    .to_owned()
            )
        );
        assert_eq!(parse_float("1e3"), Ok(1000.0));
        assert_eq!(parse_float(".5"), Ok(0.5));
        assert!(parse_float("").is_err());
        assert!(parse_float("abc").is_err());
        assert!(parse_float("1e999").is_err());
    }
}
