//! Spans of time: Go's `time.Duration` with its two texts.
//!
//! Source: Go's `time.ParseDuration` and `Duration.String`;
//! `kube-openapi/pkg/validation/strfmt/duration.go`.

use std::fmt;

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Duration(i64);

// === impl Duration ===

impl Duration {
    pub(crate) const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    pub(crate) const fn nanos(self) -> i64 {
        self.0
    }

    pub(crate) fn checked_neg(self) -> Option<Self> {
        self.0.checked_neg().map(Self)
    }

    pub(crate) fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    pub(crate) fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Parses Go's form: `1h2m3.5s`, `-1.5h`, `0`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
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

    /// Parses what OpenAPI's `duration` format takes: Go's form, or `3 days 2 hours`.
    pub(crate) fn parse_openapi(text: &str) -> Option<Self> {
        if let Some(duration) = Self::parse(text) {
            return Some(duration);
        }
        let mut total: i128 = 0;
        let mut found = false;
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (count, after) = split_while(rest, |c| c.is_ascii_digit());
            let (unit, after) = split_while(after.trim_start(), |c| c.is_ascii_alphabetic());
            let nanos = count.parse::<i128>().ok()?.checked_mul(word_nanos(unit)?)?;
            total = total.checked_add(nanos)?;
            found = true;
            rest = after.trim_start();
        }
        let nanos = i64::try_from(total).ok()?;
        found.then_some(Self(nanos))
    }

    /// Writes seconds, as `string(duration)` does.
    pub(crate) fn to_seconds_text(self) -> String {
        format!("{}s", self.as_seconds())
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "Go's Duration.Seconds rounds in the same way"
    )]
    fn as_seconds(self) -> f64 {
        let seconds = self.0 / super::NANOS_PER_SECOND;
        let nanos = self.0 % super::NANOS_PER_SECOND;
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

fn word_nanos(unit: &str) -> Option<i128> {
    let nanos = match unit.to_ascii_lowercase().as_str() {
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        "us" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        "w" | "wk" | "week" | "weeks" => 604_800_000_000_000,
        _ => return None,
    };
    Some(nanos)
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
