//! Reading timestamps: strict RFC 3339, and the looser forms of OpenAPI's `date-time` and `date`.
//!
//! Source: Go's `time.Parse(time.RFC3339, ..)`, `kube-openapi/pkg/validation/strfmt/time.go`.

use super::{Timestamp, days_from_civil};

/// A reader of ASCII digits and marks.
struct Scanner<'t> {
    rest: &'t [u8],
}

// === impl Timestamp ===

impl Timestamp {
    /// Parses RFC 3339, with any fraction of a second, as Go does.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut scanner = Scanner {
            rest: text.as_bytes(),
        };
        let timestamp = scanner.date_time(false)?;
        scanner.rest.is_empty().then_some(timestamp)
    }

    /// Parses OpenAPI's `date-time`: also `t`, `z`, an offset without a colon, and nothing at all,
    /// which is 1970.
    pub(crate) fn parse_date_time(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Self::from_unix(0, 0);
        }
        let mut scanner = Scanner {
            rest: text.as_bytes(),
        };
        let timestamp = scanner.date_time(true)?;
        scanner.rest.is_empty().then_some(timestamp)
    }

    /// Parses OpenAPI's `date`, which is midnight UTC.
    pub(crate) fn parse_date(text: &str) -> Option<Self> {
        let mut scanner = Scanner {
            rest: text.as_bytes(),
        };
        let days = scanner.date()?;
        let timestamp = Self::from_unix(days * 86_400, 0)?;
        scanner.rest.is_empty().then_some(timestamp)
    }
}

// === impl Scanner ===

impl Scanner<'_> {
    fn date_time(&mut self, lenient: bool) -> Option<Timestamp> {
        let days = self.date()?;
        self.mark(if lenient { b"Tt" } else { b"T" })?;
        let hour = self.number(2, 23)?;
        self.mark(b":")?;
        let minute = self.number(2, 59)?;
        self.mark(b":")?;
        let second = self.number(2, 59)?;
        let nanos = self.fraction()?;
        let offset = self.offset(lenient)?;
        let clock = hour * 3600 + minute * 60 + second;
        let seconds = days * 86_400 + clock - i64::from(offset);
        Timestamp::with_offset(seconds, nanos, offset)
    }

    fn date(&mut self) -> Option<i64> {
        let year = self.number(4, 9999)?;
        self.mark(b"-")?;
        let month = self.number(2, 12).filter(|m| *m > 0)?;
        self.mark(b"-")?;
        let day = self.number(2, 31).filter(|d| *d > 0)?;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        (day <= length).then(|| days_from_civil(year, month, day))
    }

    /// Reads `.123`; digits beyond nanoseconds are dropped.
    fn fraction(&mut self) -> Option<u32> {
        if self.mark(b".,").is_none() {
            return Some(0);
        }
        let mut nanos = 0;
        let mut unit = 100_000_000;
        let mut count = 0;
        while let Some(digit) = self.digit() {
            nanos += digit * unit;
            unit /= 10;
            count += 1;
        }
        (count > 0).then_some(nanos)
    }

    fn offset(&mut self, lenient: bool) -> Option<i32> {
        if self.mark(if lenient { b"Zz" } else { b"Z" }).is_some() {
            return Some(0);
        }
        let sign = if self.mark(b"-").is_some() {
            -1
        } else {
            self.mark(b"+")?;
            1
        };
        let hours = self.number(2, 23)?;
        if self.mark(b":").is_none() && !lenient {
            return None;
        }
        let minutes = self.number(2, 59)?;
        i32::try_from(sign * (hours * 3600 + minutes * 60)).ok()
    }

    fn number(&mut self, width: usize, max: i64) -> Option<i64> {
        let mut value = 0;
        for _ in 0..width {
            value = value * 10 + i64::from(self.digit()?);
        }
        (value <= max).then_some(value)
    }

    fn digit(&mut self) -> Option<u32> {
        let (first, rest) = self.rest.split_first()?;
        let digit = char::from(*first).to_digit(10)?;
        self.rest = rest;
        Some(digit)
    }

    fn mark(&mut self, any_of: &[u8]) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        if !any_of.contains(first) {
            return None;
        }
        self.rest = rest;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rfc_3339_is_a_timestamp() {
        for text in [
            "2024-02-30T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-1-01T00:00:00Z",
            "2024-01-01t00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:60Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+0100",
            "2024-01-01T00:00:00Z ",
            "0000-12-31T00:00:00Z",
            "9999-12-31T23:59:59-01:00",
            "",
        ] {
            assert!(Timestamp::parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn openapi_reads_dates_and_looser_times() {
        for (text, want) in [
            ("", "1970-01-01T00:00:00Z"),
            ("2024-01-02t03:04:05z", "2024-01-02T03:04:05Z"),
            (
                "2024-01-02T03:04:05.250+0130",
                "2024-01-02T03:04:05.25+01:30",
            ),
        ] {
            let read = Timestamp::parse_date_time(text).map(|t| t.to_string());
            assert_eq!(read.as_deref(), Some(want), "{text:?}");
        }
        let date = Timestamp::parse_date("2024-02-29").map(|t| t.to_string());
        assert_eq!(date.as_deref(), Some("2024-02-29T00:00:00Z"));
        assert!(Timestamp::parse_date("2024-02-29T00:00:00Z").is_none());
    }
}
