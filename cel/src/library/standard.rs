//! `size` and the standard functions of text.

use super::{Entry, Returned, global, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

const SIZE: &[&str] = &[
    "(bytes) -> int",
    "(list(A)) -> int",
    "(map(A, B)) -> int",
    "(string) -> int",
];
const TEST: &[&str] = &["(string, string) -> bool"];

pub(super) const FUNCTIONS: &[Entry] = &[
    global("size", SIZE, size),
    member("size", SIZE, size),
    member("contains", TEST, contains),
    member("startsWith", TEST, starts_with),
    member("endsWith", TEST, ends_with),
];

fn size<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::String(text))] => Ok(Value::count(text.chars().count())),
        [Value(Kind::Bytes(bytes))] => Ok(Value::count(bytes.len())),
        [Value(Kind::List(list))] => Ok(Value::count(list.len())),
        [Value(Kind::Map(map))] => Ok(Value::count(map.len())),
        _ => Err(Failure::NoOverload),
    }
}

fn contains<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    test(args, |text, part| text.contains(part))
}

fn starts_with<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    test(args, |text, part| text.starts_with(part))
}

fn ends_with<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    test(args, |text, part| text.ends_with(part))
}

fn test<'v>(args: &[Value<'v>], test: impl Fn(&str, &str) -> bool) -> Returned<'v> {
    match args {
        [Value(Kind::String(text)), Value(Kind::String(part))] => Ok(Value::bool(test(text, part))),
        _ => Err(Failure::NoOverload),
    }
}
