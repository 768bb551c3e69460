//! Optional values, except `or` and `orValue`, which have their own nodes because their second
//! operand is evaluated only when it is needed; their signatures are here.
//!
//! Source: `cel-go/cel/library.go` (`optionalLib`).

use super::{Entry, Returned, global, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

const UNWRAP: &[&str] = &["(list(optional(V))) -> list(V)"];
const ELEMENT: &[&str] = &["(list(V)) -> optional(V)"];

pub(super) const FUNCTIONS: &[Entry] = &[
    global("optional.of", &["(V) -> optional(V)"], of),
    global(
        "optional.ofNonZeroValue",
        &["(V) -> optional(V)"],
        of_non_zero,
    ),
    global("optional.none", &["() -> optional(V)"], |_, _| {
        Ok(Value::NONE)
    }),
    global("optional.unwrap", UNWRAP, unwrap),
    member("unwrapOpt", UNWRAP, unwrap),
    member("value", &["(optional(V)) -> V"], value),
    member("hasValue", &["(optional(V)) -> bool"], has_value),
    member(
        "or",
        &["(optional(V), optional(V)) -> optional(V)"],
        evaluated_as_node,
    ),
    member("orValue", &["(optional(V), V) -> V"], evaluated_as_node),
    member("first", ELEMENT, first),
    member("last", ELEMENT, last),
];

fn of<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [value] => Ok(Value::some(value.clone())),
        _ => Err(Failure::NoOverload),
    }
}

fn of_non_zero<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [value] if is_zero(value) => Ok(Value::NONE),
        [value] => Ok(Value::some(value.clone())),
        _ => Err(Failure::NoOverload),
    }
}

fn is_zero(value: &Value<'_>) -> bool {
    match &value.0 {
        Kind::Null => true,
        Kind::Bool(value) => !value,
        Kind::Int(value) => *value == 0,
        Kind::Uint(value) => *value == 0,
        Kind::Double(value) => *value == 0.0,
        Kind::String(text) => text.is_empty(),
        Kind::Bytes(bytes) => bytes.is_empty(),
        Kind::List(list) => list.len() == 0,
        Kind::Map(map) => map.len() == 0,
        Kind::Object(object) => object.fields.len() == 0,
        Kind::Timestamp(at) => at.is_zero(),
        Kind::Duration(span) => span.nanos() == 0,
        Kind::Type(_) | Kind::Optional(_) | Kind::Opaque(_) => false,
    }
}

fn value<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::Optional(Some(value)))] => Ok((**value).clone()),
        [Value(Kind::Optional(None))] => Err(Failure::new("optional.none() dereference")),
        _ => Err(Failure::NoOverload),
    }
}

fn has_value<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::Optional(value))] => Ok(Value::bool(value.is_some())),
        _ => Err(Failure::NoOverload),
    }
}

fn unwrap<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::List(list))] = args else {
        return Err(Failure::NoOverload);
    };
    meter.charge_items(list.len())?;
    let mut values = Vec::new();
    for value in list.iter() {
        match value?.0 {
            Kind::Optional(Some(value)) => values.push((*value).clone()),
            Kind::Optional(None) => {}
            other => {
                let other = Value(other);
                return Err(Failure::new(format!("value {other} is not optional")));
            }
        }
    }
    Ok(Value::list(values))
}

fn first<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::List(list))] => element(list.get(0)),
        _ => Err(Failure::NoOverload),
    }
}

fn last<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::List(list))] => element(list.get(list.len().wrapping_sub(1))),
        _ => Err(Failure::NoOverload),
    }
}

fn element(value: Option<Returned<'_>>) -> Returned<'_> {
    match value {
        Some(value) => value.map(Value::some),
        None => Ok(Value::NONE),
    }
}

fn evaluated_as_node<'v>(_: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Err(Failure::NoOverload)
}
