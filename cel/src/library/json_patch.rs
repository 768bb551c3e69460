//! Paths of JSON patches.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/jsonpatch.go`.

use super::{Entry, Returned, global};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

pub(super) const FUNCTIONS: &[Entry] = &[global(
    "jsonpatch.escapeKey",
    &["(string) -> string"],
    escape_key,
)];

fn escape_key<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(text))] = args else {
        return Err(Failure::NoOverload);
    };
    meter.charge_bytes(text.len() * 2)?;
    Ok(Value::string(text.replace('~', "~0").replace('/', "~1")))
}
