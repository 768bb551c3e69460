//! The parts of timestamps and durations.
//!
//! Without a zone argument they answer in UTC, whatever offset the timestamp was written with: Kubernetes says so
//! (`cel.DefaultUTCTimeZone`), and the newer cel-go of kro has it as its default.
//!
//! Source: `cel-go/common/types/{timestamp,duration}.go`.

use super::{Entry, Returned, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::time::{Duration, Timestamp, Zone};
use crate::value::{Kind, Value};

const OF_TIMESTAMP: &[&str] = &["(timestamp) -> int", "(timestamp, string) -> int"];
const OF_BOTH: &[&str] = &[
    "(timestamp) -> int",
    "(timestamp, string) -> int",
    "(duration) -> int",
];

pub(super) const FUNCTIONS: &[Entry] = &[
    member("getFullYear", OF_TIMESTAMP, full_year),
    member("getMonth", OF_TIMESTAMP, month),
    member("getDayOfYear", OF_TIMESTAMP, day_of_year),
    member("getDayOfMonth", OF_TIMESTAMP, day_of_month),
    member("getDate", OF_TIMESTAMP, date),
    member("getDayOfWeek", OF_TIMESTAMP, day_of_week),
    member("getHours", OF_BOTH, hours),
    member("getMinutes", OF_BOTH, minutes),
    member("getSeconds", OF_BOTH, seconds),
    member("getMilliseconds", OF_BOTH, milliseconds),
];

fn full_year<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp(args)?;
    Ok(Value::int(at.civil(zone).year))
}

fn month<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp(args)?;
    Ok(Value::int(at.civil(zone).month - 1))
}

fn day_of_year<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp(args)?;
    Ok(Value::int(at.civil(zone).day_of_year))
}

fn day_of_month<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp(args)?;
    Ok(Value::int(at.civil(zone).day - 1))
}

fn date<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp(args)?;
    Ok(Value::int(at.civil(zone).day))
}

fn day_of_week<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp(args)?;
    Ok(Value::int(at.civil(zone).weekday))
}

fn hours<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    if let Some(span) = duration(args) {
        return Ok(Value::int(span.nanos() / 3_600_000_000_000));
    }
    let (at, zone) = timestamp(args)?;
    Ok(Value::int(at.civil(zone).hour))
}

fn minutes<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    if let Some(span) = duration(args) {
        return Ok(Value::int(span.nanos() / 60_000_000_000));
    }
    let (at, zone) = timestamp(args)?;
    Ok(Value::int(at.civil(zone).minute))
}

fn seconds<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    if let Some(span) = duration(args) {
        return Ok(Value::int(span.nanos() / 1_000_000_000));
    }
    let (at, zone) = timestamp(args)?;
    Ok(Value::int(at.civil(zone).second))
}

fn milliseconds<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    if let Some(span) = duration(args) {
        return Ok(Value::int(span.nanos() / 1_000_000));
    }
    let (at, _) = timestamp(args)?;
    Ok(Value::int(at.milliseconds()))
}

fn duration(args: &[Value<'_>]) -> Option<Duration> {
    match args {
        [Value(Kind::Duration(span))] => Some(*span),
        _ => None,
    }
}

fn timestamp(args: &[Value<'_>]) -> Result<(Timestamp, Zone), Failure> {
    match args {
        [Value(Kind::Timestamp(at))] => Ok((*at, Zone::Fixed(0))),
        [Value(Kind::Timestamp(at)), Value(Kind::String(zone))] => {
            Ok((*at, Zone::parse(zone).map_err(Failure::new)?))
        }
        _ => Err(Failure::NoOverload),
    }
}
