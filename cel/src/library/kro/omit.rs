//! `omit()`: the value that leaves its field or element out.
//!
//! Source: `kro/pkg/cel/library/omit.go`.

use super::super::opaque::Opaque;
use super::super::{Entry, global};
use crate::value::Value;

pub(in crate::library) const FUNCTIONS: &[Entry] = &[global("omit", &["() -> dyn"], |_, _| {
    Ok(Value::opaque(Opaque::Omit))
})];
