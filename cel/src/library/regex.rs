//! Regular expressions: `matches`, and Kubernetes' `find` and `findAll`.
//!
//! A pattern that is a literal of the expression is compiled once, with the program.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/regex.go`.

use std::borrow::Cow;
use std::sync::Arc;

use ::regex::Regex;
use dialect::pattern::{self, PatternError};

use super::opaque::Opaque;
use super::{Entry, Returned, global, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

const MATCHES: &[&str] = &["(string, string) -> bool"];

pub(super) const FUNCTIONS: &[Entry] = &[
    global("matches", MATCHES, matches),
    member("matches", MATCHES, matches),
    member("find", &["(string, string) -> string"], find),
    member(
        "findAll",
        &[
            "(string, string) -> list(string)",
            "(string, string, int) -> list(string)",
        ],
        find_all,
    ),
];

/// The memory that a compiled pattern may take; ten times what RE2's own limit allows is never
/// needed by a pattern of an API.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// The steps for compiling a pattern while evaluating, which may take milliseconds.
const COMPILE_STEPS: usize = 2_000;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    regex: Regex,
    /// The characters of the text that it was compiled from.
    source_length: usize,
}

// === impl Pattern ===

impl Pattern {
    /// Compiles RE2 syntax.
    pub(crate) fn compile(source: &str) -> Result<Self, PatternError> {
        let regex = pattern::compile(source, COMPILED_BYTES_MAX)?;
        Ok(Self(Arc::new(Compiled {
            regex,
            source_length: source.chars().count(),
        })))
    }

    /// The characters of the text that it was compiled from.
    pub(crate) fn source_length(&self) -> usize {
        self.0.source_length
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.regex.as_str() == other.0.regex.as_str()
    }
}

fn matches<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (text, pattern, _) = arguments(args, meter)?;
    Ok(Value::bool(pattern.0.regex.is_match(text)))
}

fn find<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (text, pattern, _) = arguments(args, meter)?;
    let found = pattern
        .0
        .regex
        .find(text)
        .map_or("", |found| found.as_str());
    Ok(Value::string(found))
}

fn find_all<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (text, pattern, limit) = arguments(args, meter)?;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let mut found = Vec::new();
    for part in pattern.0.regex.find_iter(text).take(limit) {
        meter.charge_bytes(part.len())?;
        found.push(Value::string(part.as_str()));
    }
    Ok(Value::list(found))
}

type Arguments<'a> = (&'a str, Cow<'a, Pattern>, Option<i64>);

fn arguments<'a>(args: &'a [Value<'_>], meter: &mut Meter) -> Result<Arguments<'a>, Failure> {
    let (text, pattern, limit) = match args {
        [Value(Kind::String(text)), pattern] => (text, pattern, None),
        [Value(Kind::String(text)), pattern, Value(Kind::Int(limit))] => {
            (text, pattern, Some(*limit))
        }
        _ => return Err(Failure::NoOverload),
    };
    let pattern = match &pattern.0 {
        Kind::Opaque(Opaque::Pattern(pattern)) => Cow::Borrowed(pattern),
        Kind::String(pattern) => {
            meter.charge_items(COMPILE_STEPS + pattern.len() * 10)?;
            let compiled = Pattern::compile(pattern)
                .map_err(|error| Failure::new(format!("Illegal regex: {error}")))?;
            Cow::Owned(compiled)
        }
        _ => return Err(Failure::NoOverload),
    };
    // cel-go: a tenth per byte of the text, times a quarter per byte of the pattern.
    meter.charge_product(text.len() / 10 + 1, pattern.0.regex.as_str().len() / 4 + 1)?;
    Ok((text, pattern, limit))
}
