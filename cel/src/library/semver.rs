//! Semantic versions.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/semverlib.go`, `blang/semver/v4`.

use std::cmp::Ordering;
use std::sync::Arc;

use super::opaque::Opaque;
use super::quantity::order_value;
use super::{Entry, Returned, global, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

const TEST: &[&str] = &["(semver, semver) -> bool"];
const PART: &[&str] = &["(semver) -> int"];

pub(super) const FUNCTIONS: &[Entry] = &[
    global("semver", &["(string) -> semver"], semver),
    global("isSemver", &["(string) -> bool"], is_semver),
    member("isGreaterThan", TEST, is_greater_than),
    member("isLessThan", TEST, is_less_than),
    member("compareTo", &["(semver, semver) -> int"], compare_to),
    member("major", PART, major),
    member("minor", PART, minor),
    member("patch", PART, patch),
];

/// What version 1 of the library adds: versions that are tidied before they are read.
pub(super) const NORMALIZE: &[Entry] = &[
    global("semver", &["(string, bool) -> semver"], semver),
    global("isSemver", &["(string, bool) -> bool"], is_semver),
];

/// A semantic version. The build part is kept for equality only where the version is printed, which
/// no function does, so it is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    major: u64,
    minor: u64,
    patch: u64,
    prerelease: Vec<Part>,
}

/// One dot-separated part of a pre-release; numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

// === impl Semver ===

impl Semver {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            identifier(part, "build meta data")?;
        }
        let prerelease = prerelease
            .into_iter()
            .flat_map(|prerelease| prerelease.split('.'))
            .map(Part::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            major: number(major, "major")?,
            minor: number(minor, "minor")?,
            patch: number(patch, "patch")?,
            prerelease,
        })
    }

    /// Drops a leading `v` and leading zeros and adds missing parts, then parses.
    fn parse_normalized(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text
            .splitn(3, '.')
            .map(|part| {
                let trimmed = part.trim_start_matches('0');
                if part.len() > 1 && !trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                    format!("0{trimmed}")
                } else if part.len() > 1 {
                    trimmed.to_owned()
                } else {
                    part.to_owned()
                }
            })
            .collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }

    fn order(&self, other: &Self) -> Ordering {
        let release = (self.major, self.minor, self.patch);
        release
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| {
                // A pre-release comes before the release.
                match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                    (true, false) => Ordering::Greater,
                    (false, true) => Ordering::Less,
                    _ => self.prerelease.cmp(&other.prerelease),
                }
            })
    }
}

// === impl Part ===

impl Part {
    fn parse(text: &str) -> Result<Self, String> {
        identifier(text, "Prerelease")?;
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            number(text, "Prerelease").map(Self::Number)
        } else {
            Ok(Self::Word(text.to_owned()))
        }
    }
}

fn identifier(text: &str, what: &str) -> Result<(), String> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if text.is_empty() {
        Err(format!("{what} is empty"))
    } else if text.chars().all(valid) {
        Ok(())
    } else {
        Err(format!("Invalid character(s) found in {what} {text:?}"))
    }
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "Invalid character(s) found in {what} number {text:?}"
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!(
            "{what} number must not contain leading zeroes {text:?}"
        ));
    }
    text.parse()
        .map_err(|_beyond| format!("{what} number {text:?} is out of range"))
}

fn parsed(args: &[Value<'_>]) -> Result<Result<Semver, String>, Failure> {
    match args {
        [Value(Kind::String(text))] | [Value(Kind::String(text)), Value(Kind::Bool(false))] => {
            Ok(Semver::parse(text))
        }
        [Value(Kind::String(text)), Value(Kind::Bool(true))] => Ok(Semver::parse_normalized(text)),
        _ => Err(Failure::NoOverload),
    }
}

fn semver<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let version = parsed(args)?.map_err(Failure::new)?;
    Ok(Value::opaque(Opaque::Semver(Arc::new(version))))
}

fn is_semver<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::bool(parsed(args)?.is_ok()))
}

fn is_greater_than<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (left, right) = two(args)?;
    Ok(Value::bool(left.order(right).is_gt()))
}

fn is_less_than<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (left, right) = two(args)?;
    Ok(Value::bool(left.order(right).is_lt()))
}

fn compare_to<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (left, right) = two(args)?;
    Ok(order_value(left.order(right)))
}

fn two<'a>(args: &'a [Value<'_>]) -> Result<(&'a Semver, &'a Semver), Failure> {
    match args {
        [
            Value(Kind::Opaque(Opaque::Semver(left))),
            Value(Kind::Opaque(Opaque::Semver(right))),
        ] => Ok((left, right)),
        _ => Err(Failure::NoOverload),
    }
}

fn major<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    part(args, |version| version.major)
}

fn minor<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    part(args, |version| version.minor)
}

fn patch<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    part(args, |version| version.patch)
}

fn part<'v>(args: &[Value<'v>], part: impl Fn(&Semver) -> u64) -> Returned<'v> {
    match args {
        [Value(Kind::Opaque(Opaque::Semver(version)))] => i64::try_from(part(version))
            .map(Value::int)
            .map_err(|_beyond| Failure::new("integer overflow")),
        _ => Err(Failure::NoOverload),
    }
}
