//! Lists: cel-go's extension, and Kubernetes' library.
//!
//! Source: `cel-go/ext/lists.go`, `k8s.io/apiserver/pkg/cel/library/lists.go`.

use std::cmp::Ordering;

use super::{Entry, Implementation, Returned, global, member};
use crate::budget::{Budget, Meter};
use crate::error::Failure;
use crate::time::Duration;
use crate::types::DeclType;
use crate::value::{Kind, List, Value};

const SELECT: &[&str] = &["(list({comparable})) -> {comparable}"];
const FIND: &[&str] = &["(list(A), A) -> int"];

/// cel-go's `ext.Lists`.
pub(super) const EXTENSION: &[Entry] = &[
    member("slice", &["(list(T), int, int) -> list(T)"], slice),
    member(
        "flatten",
        &[
            "(list(list(T))) -> list(T)",
            "(list(dyn), int) -> list(dyn)",
        ],
        flatten,
    ),
    member(
        "sort",
        &["(list({comparable})) -> list({comparable})"],
        sort,
    ),
    member(
        "@sortByAssociatedKeys",
        &["(list(T), list({comparable})) -> list(T)"],
        sort_by_keys,
    ),
    global("lists.range", &["(int) -> list(int)"], range),
    member("reverse", &["(list(T)) -> list(T)"], reverse),
    member("distinct", &["(list(T)) -> list(T)"], distinct),
];

/// Kubernetes' `lists` library.
pub(super) const KUBERNETES: &[Entry] = &[
    member("isSorted", &["(list({comparable})) -> bool"], is_sorted),
    member("sum", &["(list({summable})) -> {summable}"], sum),
    member("min", SELECT, min),
    member("max", SELECT, max),
    member("indexOf", FIND, index_of),
    member("lastIndexOf", FIND, last_index_of),
];

fn slice<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [
        Value(Kind::List(list)),
        Value(Kind::Int(start)),
        Value(Kind::Int(end)),
    ] = args
    else {
        return Err(Failure::NoOverload);
    };
    let refuse = |why: String| Failure::new(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(refuse("negative indexes not supported".to_owned()));
    };
    if from > to {
        return Err(refuse(
            "start index must be less than or equal to end index".to_owned(),
        ));
    }
    if list.len() < to {
        return Err(refuse(format!("list is length {}", list.len())));
    }
    meter.charge_items(to - from)?;
    let values: Result<Vec<_>, _> = list.iter().skip(from).take(to - from).collect();
    Ok(Value::list(values?))
}

fn flatten<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (list, depth) = match args {
        [Value(Kind::List(list))] => (list, 1),
        [Value(Kind::List(list)), Value(Kind::Int(depth))] => (list, *depth),
        _ => return Err(Failure::NoOverload),
    };
    if depth < 0 {
        return Err(Failure::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(&mut flat, list, depth, meter)?;
    Ok(Value::list(flat))
}

fn flatten_into<'v>(
    flat: &mut Vec<Value<'v>>,
    list: &List<'v>,
    depth: i64,
    meter: &mut Meter,
) -> Result<(), Failure> {
    for value in list.iter() {
        meter.charge_items(1)?;
        match value? {
            Value(Kind::List(nested)) if depth > 0 => {
                flatten_into(flat, &nested, depth - 1, meter)?;
            }
            value => flat.push(value),
        }
    }
    Ok(())
}

fn sort<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::List(list))] => sorted(list, list, meter),
        _ => Err(Failure::NoOverload),
    }
}

fn sort_by_keys<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::List(list)), Value(Kind::List(keys))] => sorted(list, keys, meter),
        _ => Err(Failure::NoOverload),
    }
}

/// Sorts a list by the keys at the same positions; equal keys keep their order.
fn sorted<'v>(list: &List<'v>, keys: &List<'v>, meter: &mut Meter) -> Returned<'v> {
    // The pairs, the room to sort them in, and the result.
    meter.charge_items(keys.len().saturating_mul(4))?;
    let mut pairs: Vec<(Value<'v>, Value<'v>)> =
        keys.values()?.into_iter().zip(list.values()?).collect();
    let Some((first, _)) = pairs.first() else {
        return Ok(Value::list(Vec::new()));
    };
    if first.order(first, meter).is_err() && !matches!(first.0, Kind::Double(_)) {
        return Err(Failure::new("list elements must be comparable"));
    }
    let ty = first.type_name();
    if pairs.iter().any(|(key, _)| key.type_name() != ty) {
        return Err(Failure::new("list elements must have the same type"));
    }
    meter.charge(sort_steps(&pairs))?;
    // The comparison must not fail half way: it was charged above.
    let mut free = Meter::new(Budget::steps(u64::MAX));
    pairs.sort_by(|(left, _), (right, _)| {
        left.order(right, &mut free)
            .unwrap_or_else(|_nan| nan_last(left, right))
    });
    Ok(Value::list(
        pairs.into_iter().map(|(_, value)| value).collect(),
    ))
}

/// The steps for about `n log n` comparisons of keys of that length.
fn sort_steps(pairs: &[(Value<'_>, Value<'_>)]) -> u64 {
    let text: usize = pairs
        .iter()
        .filter_map(|(key, _)| key.as_str())
        .map(|key| key.len() / 10)
        .sum();
    let rounds = u64::from(pairs.len().ilog2()) + 1;
    (pairs.len() as u64)
        .saturating_add(text as u64)
        .saturating_mul(rounds)
}

/// A total order for doubles of which at least one is no number.
fn nan_last(left: &Value<'_>, right: &Value<'_>) -> Ordering {
    match (&left.0, &right.0) {
        (Kind::Double(left), Kind::Double(right)) => left.is_nan().cmp(&right.is_nan()),
        _ => Ordering::Equal,
    }
}

fn range<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::Int(end))] = args else {
        return Err(Failure::NoOverload);
    };
    meter.charge_items(usize::try_from(*end).unwrap_or(0))?;
    Ok(Value::list((0..*end).map(Value::int).collect()))
}

fn reverse<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::List(list))] = args else {
        return Err(Failure::NoOverload);
    };
    meter.charge_items(list.len())?;
    let mut values = list.values()?;
    values.reverse();
    Ok(Value::list(values))
}

fn distinct<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::List(list))] = args else {
        return Err(Failure::NoOverload);
    };
    let mut unique: Vec<Value<'v>> = Vec::new();
    for value in list.iter() {
        let value = value?;
        let mut seen = false;
        for held in &unique {
            meter.charge(1)?;
            if value.equals(held, meter)? {
                seen = true;
                break;
            }
        }
        if !seen {
            meter.charge_items(1)?;
            unique.push(value);
        }
    }
    Ok(Value::list(unique))
}

fn is_sorted<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::List(list))] = args else {
        return Err(Failure::NoOverload);
    };
    meter.charge_items(list.len())?;
    let values = list.values()?;
    for (index, value) in values.iter().enumerate() {
        meter.charge(1)?;
        if !value.is_ordered() {
            return Err(Failure::NoOverload);
        }
        let before = index.checked_sub(1).and_then(|index| values.get(index));
        // Kubernetes does not look at the error of values of two types.
        match before.map(|before| before.order(value, meter)) {
            Some(Ok(Ordering::Greater)) => return Ok(Value::bool(false)),
            Some(Err(failure)) if failure.is_final() => return Err(failure),
            _ => {}
        }
    }
    Ok(Value::bool(true))
}

/// The sum where the type of the elements is known, which an empty list has a zero of.
///
/// Source: `summableTypes` in `k8s.io/apiserver/pkg/cel/library/lists.go`.
pub(crate) fn sum_of(ty: &DeclType) -> Option<Implementation> {
    Some(match ty {
        DeclType::Uint => |args, meter| sum_from(args, meter, Value(Kind::Uint(0))),
        DeclType::Double => |args, meter| sum_from(args, meter, Value(Kind::Double(0.0))),
        DeclType::Duration => {
            |args, meter| sum_from(args, meter, Value(Kind::Duration(Duration::from_nanos(0))))
        }
        _ => return None,
    })
}

fn sum<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    sum_from(args, meter, Value::int(0))
}

fn sum_from<'v>(args: &[Value<'v>], meter: &mut Meter, zero: Value<'v>) -> Returned<'v> {
    let [Value(Kind::List(list))] = args else {
        return Err(Failure::NoOverload);
    };
    let mut total: Option<Value<'v>> = None;
    for value in list.iter() {
        meter.charge(1)?;
        let value = value?;
        total = Some(match &total {
            None => add(&zero_like(&value)?, &value)?,
            Some(total) => add(total, &value)?,
        });
    }
    Ok(total.unwrap_or(zero))
}

fn zero_like<'v>(value: &Value<'v>) -> Returned<'v> {
    Ok(Value(match value.0 {
        Kind::Int(_) => Kind::Int(0),
        Kind::Uint(_) => Kind::Uint(0),
        Kind::Double(_) => Kind::Double(0.0),
        Kind::Duration(_) => Kind::Duration(Duration::from_nanos(0)),
        _ => return Err(Failure::NoOverload),
    }))
}

fn add<'v>(left: &Value<'v>, right: &Value<'v>) -> Returned<'v> {
    let sum = match (&left.0, &right.0) {
        (Kind::Int(left), Kind::Int(right)) => left
            .checked_add(*right)
            .map(Kind::Int)
            .ok_or("integer overflow"),
        (Kind::Uint(left), Kind::Uint(right)) => left
            .checked_add(*right)
            .map(Kind::Uint)
            .ok_or("unsigned integer overflow"),
        (Kind::Double(left), Kind::Double(right)) => Ok(Kind::Double(left + right)),
        (Kind::Duration(left), Kind::Duration(right)) => left
            .checked_add(*right)
            .map(Kind::Duration)
            .ok_or("duration overflow"),
        _ => return Err(Failure::NoOverload),
    };
    sum.map(Value).map_err(Failure::new)
}

fn min<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    select(args, meter, "min", Ordering::Greater)
}

fn max<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    select(args, meter, "max", Ordering::Less)
}

/// Picks an element, replacing the one in hand where it compares as `replaced` to the next.
fn select<'v>(
    args: &[Value<'v>],
    meter: &mut Meter,
    name: &str,
    replaced: Ordering,
) -> Returned<'v> {
    let [Value(Kind::List(list))] = args else {
        return Err(Failure::NoOverload);
    };
    let mut picked: Option<Value<'v>> = None;
    for value in list.iter() {
        meter.charge(1)?;
        let value = value?;
        if !value.is_ordered() {
            return Err(Failure::NoOverload);
        }
        // Nor does this one look at the error of values of two types.
        let replace = match picked.as_ref().map(|held| held.order(&value, meter)) {
            None => true,
            Some(Err(failure)) if failure.is_final() => return Err(failure),
            Some(order) => order.is_ok_and(|order| order == replaced),
        };
        if replace {
            picked = Some(value);
        }
    }
    picked.ok_or_else(|| Failure::new(format!("{name} called on empty list")))
}

fn index_of<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::List(list)), wanted] = args else {
        return Err(Failure::NoOverload);
    };
    for (index, value) in list.iter().enumerate() {
        meter.charge(1)?;
        if value?.equals(wanted, meter)? {
            return Ok(Value::count(index));
        }
    }
    Ok(Value::int(-1))
}

fn last_index_of<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::List(list)), wanted] = args else {
        return Err(Failure::NoOverload);
    };
    for index in (0..list.len()).rev() {
        meter.charge(1)?;
        if let Some(value) = list.get(index)
            && value?.equals(wanted, meter)?
        {
            return Ok(Value::count(index));
        }
    }
    Ok(Value::int(-1))
}
