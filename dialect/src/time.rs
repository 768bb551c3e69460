//! How Go reads times, and what it says of a text that is none.
//!
//! Source: `time.Parse`, `time.ParseError` of Go 1.26; the layouts are those of `metav1.Time` and `metav1.MicroTime`.

use std::fmt::{self, Write as _};

/// Seconds, and fractions of any length where the text has them.
pub const RFC3339: &str = "2006-01-02T15:04:05Z07:00";
/// Seconds with six digits behind them.
pub const RFC3339_MICRO: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Why a text is no time, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeError {
    layout: &'static str,
    text: String,
    cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cause {
    /// What is left of the text is not what an element of the layout asks for.
    Element { rest: String, element: &'static str },
    /// A number is none of a calendar's.
    Range(&'static str),
    /// There is more than a time.
    Extra(String),
}

/// Reads a text from its start.
struct Parser<'a> {
    rest: &'a str,
}

/// Checks that Go reads a text as a time of a layout, [`RFC3339`] or [`RFC3339_MICRO`].
///
/// # Errors
/// It does not; what it says.
pub fn check_time(layout: &'static str, text: &str) -> Result<(), TimeError> {
    let mut parser = Parser { rest: text };
    parser.time(layout).map_err(|cause| TimeError {
        layout,
        text: text.to_owned(),
        cause,
    })
}

// === impl Parser ===

impl Parser<'_> {
    fn time(&mut self, layout: &str) -> Result<(), Cause> {
        let year = self.number("2006", 4)?;
        self.literal("-")?;
        let month = self.ranged("01", "month", 1..=12)?;
        self.literal("-")?;
        let day = self.number("02", 2)?;
        self.literal("T")?;
        // One digit is enough for an hour.
        let digits = self.rest.bytes().take(2).filter(u8::is_ascii_digit).count();
        let hour = self.number("15", digits.max(1))?;
        if hour > 23 {
            return Err(Cause::Range("hour"));
        }
        self.literal(":")?;
        self.ranged("04", "minute", 0..=59)?;
        self.literal(":")?;
        self.ranged("05", "second", 0..=59)?;
        if layout == RFC3339_MICRO {
            self.fraction()?;
        } else {
            self.skip_fraction();
        }
        self.zone()?;
        if !self.rest.is_empty() {
            return Err(Cause::Extra(self.rest.to_owned()));
        }
        if day < 1 || day > days_in(year, month) {
            return Err(Cause::Range("day"));
        }
        Ok(())
    }

    fn literal(&mut self, element: &'static str) -> Result<(), Cause> {
        match self.rest.strip_prefix(element) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.expected(element)),
        }
    }

    fn number(&mut self, element: &'static str, digits: usize) -> Result<u32, Cause> {
        let (number, rest) = self
            .rest
            .split_at_checked(digits)
            .ok_or_else(|| self.expected(element))?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        match number.parse().ok().filter(|_| is_number) {
            Some(number) => {
                self.rest = rest;
                Ok(number)
            }
            None => Err(self.expected(element)),
        }
    }

    fn ranged(
        &mut self,
        element: &'static str,
        name: &'static str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, Cause> {
        let number = self.number(element, 2)?;
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(Cause::Range(name))
        }
    }

    fn fraction(&mut self) -> Result<(), Cause> {
        const ELEMENT: &str = ".000000";
        let fraction = self.rest.get(..ELEMENT.len()).unwrap_or_default();
        let digits = fraction
            .strip_prefix(['.', ','])
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        if digits.is_none() {
            return Err(self.expected(ELEMENT));
        }
        self.rest = self.rest.get(ELEMENT.len()..).unwrap_or_default();
        Ok(())
    }

    /// A fraction is read where a layout has none, too.
    fn skip_fraction(&mut self) {
        let Some(behind) = self.rest.strip_prefix(['.', ',']) else {
            return;
        };
        let rest = behind.trim_start_matches(|digit: char| digit.is_ascii_digit());
        if rest.len() < behind.len() {
            self.rest = rest;
        }
    }

    fn zone(&mut self) -> Result<(), Cause> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(());
        }
        let whole = self.rest;
        let zone = whole.get(..ELEMENT.len()).map(str::as_bytes);
        let Some(&[b'+' | b'-', h1, h2, b':', m1, m2]) = zone else {
            return Err(self.expected(ELEMENT));
        };
        let digits = [h1, h2, m1, m2];
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(self.expected(ELEMENT));
        }
        let [hour, minute] =
            [(h1, h2), (m1, m2)].map(|(tens, ones)| (tens - b'0') * 10 + (ones - b'0'));
        if hour > 24 {
            return Err(Cause::Range("time zone offset hour"));
        }
        if minute > 60 {
            return Err(Cause::Range("time zone offset minute"));
        }
        self.rest = whole.get(ELEMENT.len()..).unwrap_or_default();
        Ok(())
    }

    fn expected(&self, element: &'static str) -> Cause {
        Cause::Element {
            rest: self.rest.to_owned(),
            element,
        }
    }
}

const fn days_in(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// === impl TimeError ===

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            layout,
            text,
            cause,
        } = self;
        write!(f, "parsing time {}", quoted(text))?;
        match cause {
            Cause::Element { rest, element } => {
                let rest = quoted(rest);
                write!(f, " as \"{layout}\": cannot parse {rest} as \"{element}\"")
            }
            Cause::Range(name) => write!(f, ": {name} out of range"),
            Cause::Extra(rest) => write!(f, ": extra text: {}", quoted(rest)),
        }
    }
}

impl std::error::Error for TimeError {}

/// Quotes as package `time` does: whatever is not ASCII, and controls, by their bytes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b' '..=b'~' => quoted.push(char::from(byte)),
            byte => write!(quoted, "\\x{byte:02x}").expect("a string takes it"),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go 1.26 prints.
    #[test]
    fn texts_are_read_and_refused_as_by_go() {
        const AS_RFC3339: &str = r#" as "2006-01-02T15:04:05Z07:00": cannot parse "#;
        for (text, want) in [
            ("2026-01-02T03:04:05Z", Ok(())),
            ("2026-01-02T3:04:05.5+24:60", Ok(())),
            ("2024-02-29T03:04:05-00:00", Ok(())),
            ("", Err(format!(r#"""{AS_RFC3339}"" as "2006""#))),
            ("a/b", Err(format!(r#""a/b"{AS_RFC3339}"a/b" as "2006""#))),
            ("2026-01", Err(format!(r#""2026-01"{AS_RFC3339}"" as "-""#))),
            (
                "2026-01-02 03:04:05Z",
                Err(format!(
                    r#""2026-01-02 03:04:05Z"{AS_RFC3339}" 03:04:05Z" as "T""#
                )),
            ),
            (
                "2026-01-02T03:04:05",
                Err(format!(
                    r#""2026-01-02T03:04:05"{AS_RFC3339}"" as "Z07:00""#
                )),
            ),
            (
                "2026-13-02T03:04:05Z",
                Err(r#""2026-13-02T03:04:05Z": month out of range"#.to_owned()),
            ),
            (
                "2026-02-29T03:04:05Z",
                Err(r#""2026-02-29T03:04:05Z": day out of range"#.to_owned()),
            ),
            (
                "2026-01-02T03:04:05Z\u{e9}",
                Err(r#""2026-01-02T03:04:05Z\xc3\xa9": extra text: "\xc3\xa9""#.to_owned()),
            ),
        ] {
            let read = check_time(RFC3339, text).map_err(|error| error.to_string());
            let want = want.map_err(|rest| format!("parsing time {rest}"));
            assert_eq!(read, want, "{text:?}");
        }
    }

    #[test]
    fn microseconds_are_asked_for_where_a_layout_has_them() {
        assert_eq!(
            check_time(RFC3339_MICRO, "2026-01-02T03:04:05.000006Z"),
            Ok(())
        );
        let error = check_time(RFC3339_MICRO, "2026-01-02T03:04:05Z").expect_err("none");
        let text = error.to_string();
        assert!(text.ends_with(r#"cannot parse "Z" as ".000000""#), "{text}");
    }
}
