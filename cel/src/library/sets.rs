//! Lists as sets.
//!
//! Source: `cel-go/ext/sets.go`.

use super::{Entry, Returned, global};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, List, Value};

const TEST: &[&str] = &["(list(T), list(T)) -> bool"];

pub(super) const FUNCTIONS: &[Entry] = &[
    global("sets.contains", TEST, contains),
    global("sets.equivalent", TEST, equivalent),
    global("sets.intersects", TEST, intersects),
];

fn contains<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (set, part) = lists(args)?;
    Ok(Value::bool(has_all(set, part, meter)?))
}

fn equivalent<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (left, right) = lists(args)?;
    let same = has_all(left, right, meter)? && has_all(right, left, meter)?;
    Ok(Value::bool(same))
}

fn intersects<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (left, right) = lists(args)?;
    for value in left.iter() {
        if right.contains(&value?, meter)? {
            return Ok(Value::bool(true));
        }
    }
    Ok(Value::bool(false))
}

fn has_all<'v>(set: &List<'v>, part: &List<'v>, meter: &mut Meter) -> Result<bool, Failure> {
    for value in part.iter() {
        if !set.contains(&value?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn lists<'a, 'v>(args: &'a [Value<'v>]) -> Result<(&'a List<'v>, &'a List<'v>), Failure> {
    match args {
        [Value(Kind::List(left)), Value(Kind::List(right))] => Ok((left, right)),
        _ => Err(Failure::NoOverload),
    }
}
