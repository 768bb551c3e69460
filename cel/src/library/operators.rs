//! The signatures of the operators.
//!
//! Operators have their own nodes in a program and are evaluated there; this table is for the
//! checker alone. The checker of kro knows the comparisons of mixed number types only after a macro
//! with a variable; at run time they always work.

use super::{Entry, Returned, global};
use crate::budget::Meter;
use crate::error::Failure;
use crate::types::DeclType;
use crate::value::Value;

/// In the order of cel-go: the first that fits is what an element of `[]` is taken for.
const ORDER: &[&str] = &[
    "(bool, bool) -> bool",
    "(int, int) -> bool",
    "(int, double) -> bool",
    "(int, uint) -> bool",
    "(uint, uint) -> bool",
    "(uint, double) -> bool",
    "(uint, int) -> bool",
    "(double, double) -> bool",
    "(double, int) -> bool",
    "(double, uint) -> bool",
    "(string, string) -> bool",
    "(bytes, bytes) -> bool",
    "(timestamp, timestamp) -> bool",
    "(duration, duration) -> bool",
];
const EQUAL: &[&str] = &["(A, A) -> bool"];

pub(super) const FUNCTIONS: &[Entry] = &[
    global("_?_:_", &["(bool, A, A) -> A"], evaluated_as_node),
    global("!_", &["(bool) -> bool"], evaluated_as_node),
    global("_==_", EQUAL, evaluated_as_node),
    global("_!=_", EQUAL, evaluated_as_node),
    global("_<_", ORDER, evaluated_as_node),
    global("_<=_", ORDER, evaluated_as_node),
    global("_>_", ORDER, evaluated_as_node),
    global("_>=_", ORDER, evaluated_as_node),
    global(
        "@in",
        &["(A, list(A)) -> bool", "(A, map(A, B)) -> bool"],
        evaluated_as_node,
    ),
    global(
        "_+_",
        &[
            "(bytes, bytes) -> bytes",
            "(double, double) -> double",
            "(duration, duration) -> duration",
            "(duration, timestamp) -> timestamp",
            "(timestamp, duration) -> timestamp",
            "(int, int) -> int",
            "(list(A), list(A)) -> list(A)",
            "(string, string) -> string",
            "(uint, uint) -> uint",
        ],
        evaluated_as_node,
    ),
    global(
        "_-_",
        &[
            "(double, double) -> double",
            "(duration, duration) -> duration",
            "(int, int) -> int",
            "(timestamp, duration) -> timestamp",
            "(timestamp, timestamp) -> duration",
            "(uint, uint) -> uint",
        ],
        evaluated_as_node,
    ),
    global("_*_", NUMBERS, evaluated_as_node),
    global("_/_", NUMBERS, evaluated_as_node),
    global(
        "_%_",
        &["(int, int) -> int", "(uint, uint) -> uint"],
        evaluated_as_node,
    ),
    global(
        "-_",
        &["(double) -> double", "(int) -> int"],
        evaluated_as_node,
    ),
    global(
        "_[_]",
        &[
            "(list(A), int) -> A",
            "(map(A, B), A) -> B",
            "(optional(list(V)), int) -> optional(V)",
            "(optional(map(K, V)), K) -> optional(V)",
        ],
        evaluated_as_node,
    ),
    global(
        "_[?_]",
        &[
            "(list(V), int) -> optional(V)",
            "(optional(list(V)), int) -> optional(V)",
            "(map(K, V), K) -> optional(V)",
            "(optional(map(K, V)), K) -> optional(V)",
        ],
        evaluated_as_node,
    ),
];

const NUMBERS: &[&str] = &[
    "(double, double) -> double",
    "(int, int) -> int",
    "(uint, uint) -> uint",
];

/// Whether an overload compares numbers of two types.
///
/// cel-go takes them out of the environment where `CrossTypeNumericComparisons` is off, but the environment of a nested scope
/// is made without that, and so is the one after it.
///
/// Source: `enterScope`, `exitScope` in `cel-go/checker/env.go`.
pub(crate) fn is_mixed_order(name: &str, params: &[DeclType]) -> bool {
    matches!(name, "_<_" | "_<=_" | "_>_" | "_>=_")
        && matches!(params, [left, right] if left != right)
}

fn evaluated_as_node<'v>(_: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Err(Failure::NoOverload)
}
