//! Points and spans of time as CEL has them.
//!
//! A timestamp keeps the offset that it was written with, because without a zone argument cel-go's
//! accessors answer in it; equality and order ignore it. A duration is a Go `time.Duration`.
//!
//! Invariants: a timestamp lies within years 1 to 9999 UTC; `nanos` is below 10^9.
//!
//! Source: `cel-go/common/types/{timestamp,duration,overflow}.go`, Go's `time` package.

use std::cmp::Ordering;
use std::fmt;

pub(crate) use dialect::Duration;

mod parse;
mod zone;

pub(crate) use zone::Zone;

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamp {
    /// Seconds since 1970 UTC.
    seconds: i64,
    nanos: u32,
    /// Seconds east of UTC, as written.
    offset: i32,
}

/// A point in time as a calendar and a clock show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    /// From 1.
    pub(crate) day: i64,
    /// From 0, which is 1 January.
    pub(crate) day_of_year: i64,
    /// From 0, which is Sunday.
    pub(crate) weekday: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// `0001-01-01T00:00:00Z`.
const SECONDS_MIN: i64 = -62_135_596_800;
/// `9999-12-31T23:59:59Z`.
const SECONDS_MAX: i64 = 253_402_300_799;

// === impl Timestamp ===

impl Timestamp {
    /// Makes the point so many seconds after 1970, within years 1 to 9999.
    pub(crate) fn from_unix(seconds: i64, nanos: u32) -> Option<Self> {
        Self::with_offset(seconds, nanos, 0)
    }

    fn with_offset(seconds: i64, nanos: u32, offset: i32) -> Option<Self> {
        let within = (SECONDS_MIN..=SECONDS_MAX).contains(&seconds);
        within.then_some(Self {
            seconds,
            nanos,
            offset,
        })
    }

    pub(crate) fn unix(self) -> i64 {
        self.seconds
    }

    /// The seconds since 1970 with nine digits of a fraction.
    #[cfg(test)]
    pub(crate) fn unix_text(self) -> String {
        format!("{}.{:09}", self.seconds, self.nanos)
    }

    /// Whether this is Go's zero time, the first second of year 1.
    pub(crate) fn is_zero(self) -> bool {
        self.seconds == SECONDS_MIN && self.nanos == 0
    }

    pub(crate) fn milliseconds(self) -> i64 {
        i64::from(self.nanos) / 1_000_000
    }

    pub(crate) fn civil(self, zone: Zone) -> Civil {
        let local = self.seconds + i64::from(zone.offset_at(self.seconds));
        let days = local.div_euclid(SECONDS_PER_DAY);
        let clock = local.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            day_of_year: days - days_from_civil(year, 1, 1),
            // 1970-01-01 was a Thursday.
            weekday: (days + 4).rem_euclid(7),
            hour: clock / 3600,
            minute: clock / 60 % 60,
            second: clock % 60,
        }
    }

    pub(crate) fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanos = i64::from(self.nanos) + duration.nanos().rem_euclid(NANOS_PER_SECOND);
        let carry = nanos / NANOS_PER_SECOND;
        let seconds = self
            .seconds
            .checked_add(duration.nanos().div_euclid(NANOS_PER_SECOND))?
            .checked_add(carry)?;
        let nanos = u32::try_from(nanos % NANOS_PER_SECOND).ok()?;
        Self::with_offset(seconds, nanos, self.offset)
    }

    pub(crate) fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.checked_add(duration.checked_neg()?)
    }

    /// The span from `earlier` to `self`, where it fits a duration.
    pub(crate) fn checked_since(self, earlier: Self) -> Option<Duration> {
        // The seconds alone must fit, as in Go (`subtractTimeChecked`).
        let seconds = (self.seconds - earlier.seconds).checked_mul(NANOS_PER_SECOND)?;
        let nanos = i64::from(self.nanos) - i64::from(earlier.nanos);
        seconds.checked_add(nanos).map(Duration::from_nanos)
    }

    /// Writes whole seconds in UTC, as `metav1.Time` does.
    pub(crate) fn to_seconds_text(self) -> String {
        let c = self.civil(Zone::Fixed(0));
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            c.year, c.month, c.day, c.hour, c.minute, c.second
        )
    }

    fn write(self, f: &mut fmt::Formatter<'_>, offset: i32) -> fmt::Result {
        let c = self.civil(Zone::Fixed(offset));
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            c.year, c.month, c.day, c.hour, c.minute, c.second
        )?;
        if self.nanos != 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        if offset == 0 {
            return f.write_str("Z");
        }
        let sign = if offset < 0 { '-' } else { '+' };
        let minutes = offset.abs() / 60;
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl fmt::Display for Timestamp {
    /// Writes RFC 3339 with the fraction that is needed, in the timestamp's own offset; in UTC
    /// with `{:#}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = if f.alternate() { 0 } else { self.offset };
        self.write(f, offset)
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

/// Days since 1970 of a proleptic Gregorian date (Howard Hinnant, "chrono-compatible low-level
/// date algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap_or_else(|| panic!("{text} is a timestamp"))
    }

    #[test]
    fn timestamps_round_trip_through_text() {
        for text in [
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59.999999999Z",
            "2000-02-29T12:30:00Z",
            "2024-03-10T01:02:03.5+05:30",
            "9999-12-31T23:59:59Z",
        ] {
            assert_eq!(at(text).to_string(), text);
        }
        assert_eq!(
            format!("{:#}", at("2024-03-10T01:02:03+01:00")),
            "2024-03-10T00:02:03Z"
        );
    }

    #[test]
    fn the_calendar_agrees_with_known_days() {
        for (text, day_of_year, weekday) in [
            ("1970-01-01T00:00:00Z", 0, 4),
            ("2024-12-31T23:59:59Z", 365, 2),
            ("2023-03-01T00:00:00Z", 59, 3),
            ("0001-01-01T00:00:00Z", 0, 1),
        ] {
            let civil = at(text).civil(Zone::Fixed(0));
            assert_eq!(
                (civil.day_of_year, civil.weekday),
                (day_of_year, weekday),
                "{text}"
            );
        }
    }

    #[test]
    fn arithmetic_stays_within_the_years_1_to_9999() {
        let second = Duration::from_nanos(NANOS_PER_SECOND);
        assert_eq!(at("9999-12-31T23:59:59Z").checked_add(second), None);
        assert_eq!(at("0001-01-01T00:00:00Z").checked_sub(second), None);
        let half = Duration::from_nanos(-500_000_000);
        assert_eq!(
            at("1970-01-01T00:00:00Z")
                .checked_add(half)
                .map(|t| t.to_string()),
            Some("1969-12-31T23:59:59.5Z".to_owned())
        );
        assert_eq!(
            at("9999-12-31T23:59:59Z").checked_since(at("0001-01-01T00:00:00Z")),
            None,
            "a span of more than 292 years is no duration"
        );
    }
}
