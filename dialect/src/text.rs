//! Go's spelling of texts and floats, where a message that clients match on was made by `fmt` or `strconv`.
//!
//! Source: Go's `strconv.Quote`, and `fmt` with the verbs `%q` and `%v`.

use std::fmt::Write as _;

/// Quotes a text as `strconv.Quote` does.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len().saturating_add(2));
    quoted.push('"');
    for character in text.chars() {
        push_escaped(&mut quoted, character);
    }
    quoted.push('"');
    quoted
}

/// Quotes each text and joins them with a comma and a blank.
pub fn quote_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(quote).collect();
    quoted.join(", ")
}

/// Renders a list of texts as `%#v` renders a `[]string`.
pub fn string_slice<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    format!("[]string{{{}}}", quote_all(texts))
}

/// Renders a float as `%v` does: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Renders a list of texts as `%v` renders a `[]string`.
pub fn words<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    format!("[{}]", words.join(" "))
}

/// Whether Go's `unicode.IsPrint` holds: letters, marks, numbers, punctuation, symbols and the ASCII blank.
pub fn is_print(character: char) -> bool {
    if character.is_ascii() {
        return character == ' ' || character.is_ascii_graphic();
    }
    // `escape_debug` escapes what is not printable; behind a letter it leaves combining marks alone, as Go does.
    let mut probe = String::from("a");
    probe.push(character);
    probe.escape_debug().nth(1) == Some(character)
}

fn push_escaped(quoted: &mut String, character: char) {
    match character {
        '"' => quoted.push_str("\\\""),
        '\\' => quoted.push_str("\\\\"),
        '\u{7}' => quoted.push_str("\\a"),
        '\u{8}' => quoted.push_str("\\b"),
        '\u{c}' => quoted.push_str("\\f"),
        '\n' => quoted.push_str("\\n"),
        '\r' => quoted.push_str("\\r"),
        '\t' => quoted.push_str("\\t"),
        '\u{b}' => quoted.push_str("\\v"),
        printable if is_print(printable) => quoted.push(printable),
        other => {
            let code = u32::from(other);
            let written = if code < 0x80 {
                write!(quoted, "\\x{code:02x}")
            } else if code < 0x1_0000 {
                write!(quoted, "\\u{code:04x}")
            } else {
                write!(quoted, "\\U{code:08x}")
            };
            debug_assert!(written.is_ok(), "writing to a String cannot fail");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_quoted_text_is_printable(text in "\\PC{0,16}|.{0,16}") {
            let quoted = quote(&text);
            prop_assert!(quoted.len() >= text.len() + 2);
            prop_assert!(quoted.chars().all(is_print), "{}", quoted);
        }

        #[test]
        fn a_float_reads_back_as_itself(value in proptest::num::f64::NORMAL) {
            prop_assert_eq!(float(value).parse::<f64>(), Ok(value));
        }
    }

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        for (text, want) in [
            ("", r#""""#),
            ("a", r#""a""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
            ("\u{0}\u{7f}", r#""\x00\x7f""#),
            ("é世", r#""é世""#),
            ("\u{a0}\u{200b}\u{feff}", r#""\u00a0\u200b\ufeff""#),
            ("\u{e0001}", r#""\U000e0001""#),
            ("e\u{301}", "\"e\u{301}\""),
        ] {
            assert_eq!(quote(text), want);
        }
        assert_eq!(string_slice(["a", "b"]), r#"[]string{"a", "b"}"#);
        assert_eq!(words(&["a", "b"]), "[a b]");
    }

    #[test]
    fn floats_are_printed_as_go_prints_them() {
        for (value, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (1_234_567.5, "1.2345675e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5e-10, "-2.5e-10"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(float(value), want);
        }
    }
}
