//! Regular expressions: `matches`, and Kubernetes' `find` and `findAll`.
//!
//! CEL's expressions are RE2. Rust's engine has the same guarantees and nearly the same syntax; a
//! pattern is translated before it is compiled: `\d`, `\w`, `\s` and `\b` mean ASCII, `\Q..\E`
//! quotes, and `[`, `&&`, `--` and `~~` inside a class are literal. A pattern that is a literal of
//! the expression is compiled once, with the program.
//!
//! Source: RE2's syntax page, `k8s.io/apiserver/pkg/cel/library/regex.go`.

use std::borrow::Cow;
use std::sync::Arc;

use ::regex::{Regex, RegexBuilder};

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
pub(crate) struct Pattern(Arc<Regex>);

// === impl Pattern ===

impl Pattern {
    /// Compiles RE2 syntax.
    pub(crate) fn compile(pattern: &str) -> Result<Self, String> {
        RegexBuilder::new(&translate(pattern))
            .size_limit(COMPILED_BYTES_MAX)
            .nest_limit(100)
            .build()
            .map(|regex| Self(Arc::new(regex)))
            .map_err(|error| error.to_string())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

fn matches<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (text, pattern, _) = arguments(args, meter)?;
    Ok(Value::bool(pattern.0.is_match(text)))
}

fn find<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (text, pattern, _) = arguments(args, meter)?;
    let found = pattern.0.find(text).map_or("", |found| found.as_str());
    Ok(Value::string(found))
}

fn find_all<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (text, pattern, limit) = arguments(args, meter)?;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let mut found = Vec::new();
    for part in pattern.0.find_iter(text).take(limit) {
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
    meter.charge_product(text.len() / 10 + 1, pattern.0.as_str().len() / 4 + 1)?;
    Ok((text, pattern, limit))
}

/// Rewrites RE2 syntax as Rust's.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars();
    let mut class = Class::Outside;
    while let Some(c) = rest.next() {
        match (c, class) {
            ('\\', _) => class = escape(&mut out, &mut rest, class),
            ('[', Class::Outside) => {
                out.push('[');
                class = Class::Start;
            }
            ('^', Class::Start) => out.push('^'),
            (']', Class::Start) => {
                out.push_str("\\]");
                class = Class::Inside;
            }
            (']', Class::Inside) => {
                out.push(']');
                class = Class::Outside;
            }
            ('[', Class::Start | Class::Inside) => {
                class = Class::Inside;
                match posix(rest.as_str()) {
                    Some(name) => {
                        out.push('[');
                        out.push_str(name);
                        for _ in name.chars() {
                            rest.next();
                        }
                    }
                    None => out.push_str("\\["),
                }
            }
            ('&' | '~', Class::Start | Class::Inside) => {
                class = Class::Inside;
                out.push('\\');
                out.push(c);
            }
            ('-', Class::Inside) if rest.as_str().starts_with('-') => out.push_str("\\-"),
            (c, Class::Start | Class::Inside) => {
                class = Class::Inside;
                out.push(c);
            }
            (c, Class::Outside) => out.push(c),
        }
    }
    out
}

/// Where the translation stands.
#[derive(Clone, Copy)]
enum Class {
    Outside,
    /// Just after `[` or `[^`, where `]` is literal.
    Start,
    Inside,
}

/// The rest of a POSIX class such as `:alpha:]`, if that is what follows a `[`.
fn posix(rest: &str) -> Option<&str> {
    let end = rest.strip_prefix(':')?.find(":]")?;
    let name = rest.get(..end + 3)?;
    let word = name.trim_matches([':', ']', '^']);
    word.chars().all(|c| c.is_ascii_lowercase()).then_some(name)
}

/// Translates what follows a backslash.
fn escape(out: &mut String, rest: &mut std::str::Chars<'_>, class: Class) -> Class {
    let inside = !matches!(class, Class::Outside);
    let Some(c) = rest.next() else {
        out.push('\\');
        return class;
    };
    match c {
        'd' => out.push_str(if inside { "0-9" } else { "[0-9]" }),
        'w' => out.push_str(if inside { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
        's' => out.push_str(if inside { r"\t\n\f\r " } else { r"[\t\n\f\r ]" }),
        'D' => out.push_str("[^0-9]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        'S' => out.push_str(r"[^\t\n\f\r ]"),
        'b' if !inside => out.push_str(r"(?-u:\b)"),
        'B' if !inside => out.push_str(r"(?-u:\B)"),
        'Q' if !inside => {
            let quoted = rest.as_str();
            let end = quoted.find("\\E");
            let literal = end.and_then(|end| quoted.get(..end)).unwrap_or(quoted);
            out.push_str(&::regex::escape(literal));
            let used = literal.chars().count() + end.map_or(0, |_| 2);
            for _ in 0..used {
                rest.next();
            }
        }
        c => {
            out.push('\\');
            out.push(c);
        }
    }
    if inside { Class::Inside } else { class }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_re2() {
        for (pattern, text, want) in [
            (r"^\d+$", "123", true),
            (r"^\d+$", "\u{661}", false),
            (r"^\w+$", "é", false),
            (r"^[\w-]+$", "a-b_c", true),
            (r"^[[]$", "[", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]]$", "]", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^\Qa.b\E.$", "a.bc", true),
            (r"^\Qa.b\E.$", "axbc", false),
            (r"(?i)^ABC$", "abc", true),
            (r"^.$", "é", true),
            (r"^[a-]$", "-", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^[\D]$", "a", true),
        ] {
            let compiled = Pattern::compile(pattern).expect(pattern);
            assert_eq!(compiled.0.is_match(text), want, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn patterns_that_are_too_large_or_no_patterns_are_refused() {
        for pattern in ["(", "a{100000}{100000}", "(?=a)", r"\", "[a", "*"] {
            assert!(Pattern::compile(pattern).is_err(), "{pattern}");
        }
    }
}
