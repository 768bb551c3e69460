//! `lists.setAtIndex`, `lists.insertAtIndex` and `lists.removeAtIndex`.
//!
//! Their range errors are no "index out of bounds": they do not mean that data are pending.
//!
//! Source: `kro/pkg/cel/library/lists.go`.

use super::super::{Entry, Returned, global};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, List, Value};

const WITH_VALUE: &[&str] = &["(list(T), int, T) -> list(T)"];

pub(in crate::library) const FUNCTIONS: &[Entry] = &[
    global("lists.setAtIndex", WITH_VALUE, set_at_index),
    global("lists.insertAtIndex", WITH_VALUE, insert_at_index),
    global(
        "lists.removeAtIndex",
        &["(list(T), int) -> list(T)"],
        remove_at_index,
    ),
];

fn set_at_index<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::List(list)), Value(Kind::Int(index)), value] = args else {
        return Err(Failure::NoOverload);
    };
    let mut values = copied(list, meter)?;
    let size = values.len();
    match position(*index).and_then(|at| values.get_mut(at)) {
        Some(held) => *held = value.clone(),
        None => return Err(range("lists.setAtIndex", *index, size, ')')),
    }
    Ok(Value::list(values))
}

fn insert_at_index<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::List(list)), Value(Kind::Int(index)), value] = args else {
        return Err(Failure::NoOverload);
    };
    let mut values = copied(list, meter)?;
    match position(*index).filter(|at| *at <= values.len()) {
        Some(at) => values.insert(at, value.clone()),
        None => return Err(range("lists.insertAtIndex", *index, values.len(), ']')),
    }
    Ok(Value::list(values))
}

fn remove_at_index<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::List(list)), Value(Kind::Int(index))] = args else {
        return Err(Failure::NoOverload);
    };
    let mut values = copied(list, meter)?;
    match position(*index).filter(|at| *at < values.len()) {
        Some(at) => drop(values.remove(at)),
        None => return Err(range("lists.removeAtIndex", *index, values.len(), ')')),
    }
    Ok(Value::list(values))
}

fn copied<'v>(list: &List<'v>, meter: &mut Meter) -> Result<Vec<Value<'v>>, Failure> {
    meter.charge_items(list.len())?;
    list.values()
}

fn position(index: i64) -> Option<usize> {
    usize::try_from(index).ok()
}

fn range(function: &str, index: i64, size: usize, end: char) -> Failure {
    Failure::new(format!(
        "{function}: index {index} out of bounds [0, {size}{end}"
    ))
}
