//! `merge` and `deepMerge`.
//!
//! Source: `kro/pkg/cel/library/maps.go`.

use super::super::{Entry, Returned, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Key, Kind, Map, Value};

pub(in crate::library) const FUNCTIONS: &[Entry] = &[
    member("merge", &["(map(K, V), map(K, V)) -> map(K, V)"], merge),
    member("deepMerge", &["(dyn, dyn) -> dyn"], deep_merge),
];

/// The entries of both; the argument wins.
fn merge<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (left, right) = maps(args)?;
    union(left, right, meter, |_, right, _| Ok(right))
}

/// The entries of both; where both have a map under a key these merge, else the argument wins.
fn deep_merge<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (left, right) = maps(args)?;
    merge_deeply(left, right, meter)
}

fn merge_deeply<'v>(left: &Map<'v>, right: &Map<'v>, meter: &mut Meter) -> Returned<'v> {
    union(left, right, meter, |left, right, meter| {
        match (&left.0, &right.0) {
            (Kind::Map(left), Kind::Map(right)) => merge_deeply(left, right, meter),
            _ => Ok(right),
        }
    })
}

type Entries<'v> = Vec<(Key<'v>, Value<'v>)>;

fn union<'v>(
    left: &Map<'v>,
    right: &Map<'v>,
    meter: &mut Meter,
    combine: impl Fn(Value<'v>, Value<'v>, &mut Meter) -> Returned<'v>,
) -> Returned<'v> {
    meter.charge_items(left.len() + right.len())?;
    let mut merged: Entries<'v> = Vec::with_capacity(left.len() + right.len());
    let mut right = right.entries()?.into_iter().peekable();
    // Both are in the order of their keys.
    for (key, value) in left.entries()? {
        while let Some(entry) = right.next_if(|(other, _)| other.order(&key).is_lt()) {
            merged.push(entry);
        }
        match right.next_if(|(other, _)| other.order(&key).is_eq()) {
            Some((_, other)) => {
                let value = combine(value, other, meter)?;
                merged.push((key, value));
            }
            None => merged.push((key, value)),
        }
    }
    merged.extend(right);
    Map::of(merged)
        .map(|map| Value(Kind::Map(map)))
        .map_err(|_key| Failure::new("merged maps have one key twice"))
}

fn maps<'a, 'v>(args: &'a [Value<'v>]) -> Result<(&'a Map<'v>, &'a Map<'v>), Failure> {
    match args {
        [Value(Kind::Map(left)), Value(Kind::Map(right))] => Ok((left, right)),
        _ => Err(Failure::NoOverload),
    }
}
