//! Spans of time: Go's `time.Duration`, its text, and the looser text of OpenAPI.
//!
//! Source: Go's `time.ParseDuration` and `Duration.String`;
//! `kube-openapi/pkg/validation/strfmt/duration.go`.

use std::fmt;

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(i64);

const NANOS_PER_SECOND: i64 = 1_000_000_000;

// === impl Duration ===

impl Duration {
    /// Returns a span of that many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the span in nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Returns the opposite, where it fits.
    pub fn checked_neg(self) -> Option<Self> {
        self.0.checked_neg().map(Self)
    }

    /// Adds a span, where the sum fits.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Subtracts a span, where the difference fits.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Parses Go's form: `1h2m3.5s`, `-1.5h`, `0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Some(Self(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: i128 = 0;
        let mut rest = rest;
        while !rest.is_empty() {
            let (nanos, after) = parse_part(rest)?;
            total = total.checked_add(nanos)?;
            rest = after;
        }
        let total = if negative { -total } else { total };
        i64::try_from(total).ok().map(Self)
    }

    /// Parses what OpenAPI's `duration` format takes: Go's form, or counts and words anywhere in the text, such as
    /// `3 days 2 hours`. Words that are no unit count nothing; a sum that does not fit wraps, both as in Kubernetes.
    pub fn parse_openapi(text: &str) -> Option<Self> {
        if let Some(duration) = Self::parse(text) {
            return Some(duration);
        }
        let mut total: i64 = 0;
        let mut found = false;
        let mut rest = text;
        loop {
            let (_, counted) = split_while(rest, |c| !c.is_ascii_digit());
            if counted.is_empty() {
                return found.then_some(Self(total));
            }
            let (count, after) = split_while(counted, |c| c.is_ascii_digit());
            let blank = |c| matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ');
            let (unit, after) = split_while(after.trim_start_matches(blank), |c| {
                c.is_ascii_alphabetic() || c == 'µ'
            });
            rest = after;
            if unit.is_empty() {
                continue;
            }
            let count: i64 = count.parse().ok()?;
            if let Some(nanos) = word_nanos(unit) {
                total = total.wrapping_add(count.wrapping_mul(nanos));
                found = true;
            }
        }
    }

    /// Writes seconds, as `string(duration)` does.
    pub fn to_seconds_text(self) -> String {
        format!("{}s", self.as_seconds())
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "Go's Duration.Seconds rounds in the same way"
    )]
    fn as_seconds(self) -> f64 {
        let seconds = self.0 / NANOS_PER_SECOND;
        let nanos = self.0 % NANOS_PER_SECOND;
        seconds as f64 + nanos as f64 / 1e9
    }
}

impl fmt::Display for Duration {
    /// Writes Go's form, such as `1h0m0.5s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(nanos, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(nanos, 1_000_000)),
            _ => {
                let minutes = nanos / 60_000_000_000;
                let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(f, "{seconds}s"),
                    (0, minutes) => write!(f, "{minutes}m{seconds}s"),
                    (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }
}

/// Writes `value / unit` without trailing zeros; `unit` is a power of ten.
fn decimal(value: u64, unit: u64) -> String {
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    // The digits of `unit + fraction` after its leading one are the padded fraction.
    let padded = (unit + fraction).to_string();
    let digits = padded.strip_prefix('1').unwrap_or_default();
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// Reads one number with its unit, in nanoseconds.
fn parse_part(text: &str) -> Option<(i128, &str)> {
    let (whole, after) = split_while(text, |c| c.is_ascii_digit());
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => split_while(after, |c| c.is_ascii_digit()),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (unit, after) = split_while(after, |c| c != '.' && !c.is_ascii_digit());
    let unit = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse::<i64>().ok()?.into()
    };
    let mut nanos = whole * unit;
    let mut scale = unit;
    for digit in fraction.chars().filter_map(|c| c.to_digit(10)) {
        scale /= 10;
        nanos += i128::from(digit) * scale;
    }
    Some((nanos, after))
}

/// The nanoseconds of a unit in words; the long form of each is a prefix (`seconds`).
fn word_nanos(unit: &str) -> Option<i64> {
    const UNITS: [(&[&str], &str, i64); 8] = [
        (&["ns"], "nano", 1),
        (&["us", "µs"], "micro", 1_000),
        (&["ms"], "milli", 1_000_000),
        (&["s"], "sec", NANOS_PER_SECOND),
        (&["m"], "min", 60 * NANOS_PER_SECOND),
        (&["h", "hr"], "hour", 3_600 * NANOS_PER_SECOND),
        (&["d"], "day", 86_400 * NANOS_PER_SECOND),
        (&["w", "wk"], "week", 604_800 * NANOS_PER_SECOND),
    ];
    let unit = unit.to_lowercase();
    let named = |(short, long, _): &&(&[&str], &str, i64)| {
        short.contains(&unit.as_str()) || unit.starts_with(long)
    };
    UNITS.iter().find(named).map(|(_, _, nanos)| *nanos)
}

fn split_while(text: &str, mut wanted: impl FnMut(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !wanted(c)).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_write_as_in_go() {
        for (text, nanos, go, seconds) in [
            ("0", 0, "0s", "0s"),
            ("1h", 3_600_000_000_000, "1h0m0s", "3600s"),
            ("-1.5h", -5_400_000_000_000, "-1h30m0s", "-5400s"),
            ("1h2m3.5s", 3_723_500_000_000, "1h2m3.5s", "3723.5s"),
            ("100ms", 100_000_000, "100ms", "0.1s"),
            ("1500us", 1_500_000, "1.5ms", "0.0015s"),
            (".5ns1ns", 1, "1ns", "0.000000001s"),
        ] {
            let read = Duration::parse(text).unwrap_or_else(|| panic!("{text} is a duration"));
            assert_eq!(read.nanos(), nanos, "{text}");
            assert_eq!(read.to_string(), go, "{text}");
            assert_eq!(read.to_seconds_text(), seconds, "{text}");
        }
        for text in ["", "1", "h", "1d", "-", "1h ", "9223372036854775808ns", "."] {
            assert_eq!(Duration::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn openapi_durations_may_be_words() {
        for (text, nanos) in [
            ("2 days", Some(172_800_000_000_000)),
            ("1w 1h", Some(608_400_000_000_000)),
            ("90s", Some(90_000_000_000)),
            ("1 day 2 hours", Some(93_600_000_000_000)),
            ("5 1h", Some(3_600_000_000_000)),
            ("2 dayss", Some(172_800_000_000_000)),
            ("x 3 secondsfoo", Some(3_000_000_000)),
            ("1d 5", Some(86_400_000_000_000)),
            ("-1d", Some(86_400_000_000_000)),
            ("10 µs", Some(10_000)),
            ("1.5 days", Some(432_000_000_000_000)),
            ("1000000 weeks", Some(-3_942_554_432_415_203_328)),
            ("9999999999999999999 s", None),
            ("1 fortnight", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(
                Duration::parse_openapi(text).map(Duration::nanos),
                nanos,
                "{text:?}"
            );
        }
    }
}
