//! The parts of timestamps and durations.
//!
//! Without a zone argument kro reads a timestamp in the offset that it was written with, and
//! Kubernetes in UTC (`cel.DefaultUTCTimeZone`), so there are two tables.
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

/// The accessors that answer in a timestamp's own offset.
pub(super) const IN_OWN_ZONE: &[Entry] = &table::<false>();

/// The accessors that answer in UTC.
pub(super) const IN_UTC: &[Entry] = &table::<true>();

const fn table<const UTC: bool>() -> [Entry; 10] {
    [
        member("getFullYear", OF_TIMESTAMP, full_year::<UTC>),
        member("getMonth", OF_TIMESTAMP, month::<UTC>),
        member("getDayOfYear", OF_TIMESTAMP, day_of_year::<UTC>),
        member("getDayOfMonth", OF_TIMESTAMP, day_of_month::<UTC>),
        member("getDate", OF_TIMESTAMP, date::<UTC>),
        member("getDayOfWeek", OF_TIMESTAMP, day_of_week::<UTC>),
        member("getHours", OF_BOTH, hours::<UTC>),
        member("getMinutes", OF_BOTH, minutes::<UTC>),
        member("getSeconds", OF_BOTH, seconds::<UTC>),
        member("getMilliseconds", OF_BOTH, milliseconds::<UTC>),
    ]
}

fn full_year<'v, const UTC: bool>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp::<UTC>(args)?;
    Ok(Value::int(at.civil(zone).year))
}

fn month<'v, const UTC: bool>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp::<UTC>(args)?;
    Ok(Value::int(at.civil(zone).month - 1))
}

fn day_of_year<'v, const UTC: bool>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp::<UTC>(args)?;
    Ok(Value::int(at.civil(zone).day_of_year))
}

fn day_of_month<'v, const UTC: bool>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp::<UTC>(args)?;
    Ok(Value::int(at.civil(zone).day - 1))
}

fn date<'v, const UTC: bool>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp::<UTC>(args)?;
    Ok(Value::int(at.civil(zone).day))
}

fn day_of_week<'v, const UTC: bool>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (at, zone) = timestamp::<UTC>(args)?;
    Ok(Value::int(at.civil(zone).weekday))
}

fn hours<'v, const UTC: bool>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    if let Some(span) = duration(args) {
        return Ok(Value::int(span.nanos() / 3_600_000_000_000));
    }
    let (at, zone) = timestamp::<UTC>(args)?;
    Ok(Value::int(at.civil(zone).hour))
}

fn minutes<'v, const UTC: bool>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    if let Some(span) = duration(args) {
        return Ok(Value::int(span.nanos() / 60_000_000_000));
    }
    let (at, zone) = timestamp::<UTC>(args)?;
    Ok(Value::int(at.civil(zone).minute))
}

fn seconds<'v, const UTC: bool>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    if let Some(span) = duration(args) {
        return Ok(Value::int(span.nanos() / 1_000_000_000));
    }
    let (at, zone) = timestamp::<UTC>(args)?;
    Ok(Value::int(at.civil(zone).second))
}

fn milliseconds<'v, const UTC: bool>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    if let Some(span) = duration(args) {
        return Ok(Value::int(span.nanos() / 1_000_000));
    }
    let (at, _) = timestamp::<UTC>(args)?;
    Ok(Value::int(at.milliseconds()))
}

fn duration(args: &[Value<'_>]) -> Option<Duration> {
    match args {
        [Value(Kind::Duration(span))] => Some(*span),
        _ => None,
    }
}

fn timestamp<const UTC: bool>(args: &[Value<'_>]) -> Result<(Timestamp, Zone), Failure> {
    match args {
        [Value(Kind::Timestamp(at))] if UTC => Ok((*at, Zone::Fixed(0))),
        [Value(Kind::Timestamp(at))] => Ok((*at, at.zone())),
        [Value(Kind::Timestamp(at)), Value(Kind::String(zone))] => {
            Ok((*at, Zone::parse(zone).map_err(Failure::new)?))
        }
        _ => Err(Failure::NoOverload),
    }
}
