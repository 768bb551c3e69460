//! Time zones: fixed offsets and the IANA data base that is compiled in.

use std::str::FromStr;

use chrono::{DateTime, Offset as _, TimeZone as _};
use chrono_tz::Tz;
use dialect::number::atoi;

/// Where a clock stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Zone {
    /// Seconds east of UTC.
    Fixed(i32),
    /// A place of the IANA data base.
    Place(Tz),
}

// === impl Zone ===

impl Zone {
    /// Parses what CEL's accessors take: an IANA name, or `[+-]hh:mm`.
    ///
    /// Source: `timeZone` in `cel-go/common/types/timestamp.go`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((hours, minutes)) = text.split_once(':') else {
            if text.is_empty() {
                return Ok(Self::Fixed(0));
            }
            return Tz::from_str(text)
                .map(Self::Place)
                .map_err(|_unnamed| format!("unknown time zone {text}"));
        };
        let (hour, minute) = (atoi(hours)?, atoi(minutes)?);
        if !(0..=59).contains(&minute) {
            return Err(format!(
                "timezone offset minutes out of range [0, 59]: {text}"
            ));
        }
        let minute = if text.starts_with('-') {
            -minute
        } else {
            minute
        };
        hour.checked_mul(60)
            .and_then(|total| total.checked_add(minute))
            .and_then(|total| i32::try_from(total.checked_mul(60)?).ok())
            .map(Self::Fixed)
            .ok_or_else(|| format!("timezone offset out of range: {text}"))
    }

    /// The offset from UTC, in seconds east, at that second.
    pub(crate) fn offset_at(self, unix: i64) -> i32 {
        match self {
            Self::Fixed(offset) => offset,
            Self::Place(place) => DateTime::from_timestamp(unix, 0).map_or(0, |utc| {
                let offset = place.offset_from_utc_datetime(&utc.naive_utc());
                offset.fix().local_minus_utc()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_names_or_offsets() {
        // 2024-07-01T00:00:00Z and 2024-01-01T00:00:00Z.
        let (summer, winter) = (1_719_792_000, 1_704_067_200);
        for (text, at_summer, at_winter) in [
            ("UTC", 0, 0),
            ("", 0, 0),
            ("Europe/Berlin", 7200, 3600),
            ("+05:30", 19_800, 19_800),
            ("-00:30", -1800, -1800),
            ("02:00", 7200, 7200),
        ] {
            let zone = Zone::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let offsets = (zone.offset_at(summer), zone.offset_at(winter));
            assert_eq!(offsets, (at_summer, at_winter), "{text}");
        }
        for text in [
            "Nowhere/Land",
            "+1:2:3",
            "+aa:00",
            "+01:60",
            "99999999999:00",
        ] {
            assert!(Zone::parse(text).is_err(), "{text}");
        }
    }
}
