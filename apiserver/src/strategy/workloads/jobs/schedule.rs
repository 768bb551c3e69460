//! Schedules of CronJobs: five fields of numbers, or a word for the common ones.
//!
//! Whether a time zone exists is not asked: the hub carries no list of them, and a controller of a real cluster says so.
//!
//! Source: github.com/robfig/cron (parser.go), which is what Kubernetes reads schedules with.

use std::fmt;

use super::super::super::checks::{Findings, Place};

/// A field: its least and its greatest value, and the words that stand for numbers.
struct Field {
    min: u32,
    max: u32,
    words: &'static [&'static str],
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minutes, hours, days of the month, months and days of the week.
const FIELDS: [Field; 5] = [
    Field::numbers(0, 59),
    Field::numbers(0, 23),
    Field::numbers(1, 31),
    Field::words(1, 12, &MONTHS),
    Field::words(0, 6, &DAYS),
];

const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// What is wrong with a schedule, in the words of the library.
#[derive(Debug, PartialEq, Eq)]
struct Wrong(String);

/// A schedule.
pub(super) fn check(place: &Place<'_>, findings: &mut Findings) {
    let text = place.text();
    if text.is_empty() {
        return;
    }
    if let Err(wrong) = parse(text) {
        findings.invalid(place, wrong.to_string());
    }
    if text.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        findings.invalid(place, detail);
    }
}

/// The name of a time zone.
pub(super) fn check_zone(place: &Place<'_>, findings: &mut Findings) {
    let Some(name) = place.value.as_str() else {
        return;
    };
    if name.is_empty() {
        findings.invalid(place, "timeZone must be nil or non-empty string");
        return;
    }
    let known =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.starts_with('-') && part.bytes().all(known)
    };
    if !name.split('/').all(is_part) {
        findings.invalid(place, format!("unknown time zone {name}"));
    } else if name.eq_ignore_ascii_case("local") {
        let detail =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        findings.invalid(place, detail);
    }
}

fn parse(text: &str) -> Result<(), Wrong> {
    let spec = match text.strip_prefix("TZ=").or(text.strip_prefix("CRON_TZ=")) {
        Some(rest) => rest.split_once(' ').map_or("", |(_, spec)| spec.trim()),
        None => text,
    };
    if spec.starts_with('@') {
        return descriptor(spec);
    }
    let fields: Vec<&str> = spec.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let count = fields.len();
        let listed = fields.join(" ");
        return Err(Wrong(format!(
            "expected exactly 5 fields, found {count}: [{listed}]"
        )));
    }
    for (text, field) in fields.iter().zip(&FIELDS) {
        for part in text.split(',') {
            field.parse(part)?;
        }
    }
    Ok(())
}

fn descriptor(spec: &str) -> Result<(), Wrong> {
    if DESCRIPTORS.contains(&spec) {
        return Ok(());
    }
    match spec.strip_prefix("@every ") {
        Some(duration) if is_duration(duration) => Ok(()),
        Some(_) => Err(Wrong(format!("failed to parse duration {spec}"))),
        None => Err(Wrong(format!("unrecognized descriptor: {spec}"))),
    }
}

/// Whether a text is a duration of Go's, such as `1h30m`.
fn is_duration(text: &str) -> bool {
    dialect::Duration::parse(text).is_some()
}

// === impl Field ===

impl Field {
    const fn numbers(min: u32, max: u32) -> Self {
        Self::words(min, max, &[])
    }

    const fn words(min: u32, max: u32, words: &'static [&'static str]) -> Self {
        Self { min, max, words }
    }

    /// Reads `*`, `?`, `n`, `n-m` or any of them with `/step`.
    fn parse(&self, text: &str) -> Result<(), Wrong> {
        let mut steps = text.split('/');
        let range = steps.next().unwrap_or_default();
        let step = steps.next();
        if steps.next().is_some() {
            return Err(Wrong(format!("too many slashes: {text}")));
        }
        let mut bounds = range.split('-');
        let first = bounds.next().unwrap_or_default();
        let last = bounds.next();
        let (start, end) = if matches!(first, "*" | "?") {
            (self.min, self.max)
        } else {
            let start = self.number(first)?;
            let end = match last {
                Some(last) if bounds.next().is_none() => self.number(last)?,
                Some(_) => return Err(Wrong(format!("too many hyphens: {text}"))),
                None if step.is_some() => self.max,
                None => start,
            };
            (start, end)
        };
        let step = step.map_or(Ok(1), number)?;
        let (min, max) = (self.min, self.max);
        let wrong = if start < min {
            format!("beginning of range ({start}) below minimum ({min}): {text}")
        } else if end > max {
            format!("end of range ({end}) above maximum ({max}): {text}")
        } else if start > end {
            format!("beginning of range ({start}) beyond end of range ({end}): {text}")
        } else if step == 0 {
            format!("step of range should be a positive number: {text}")
        } else {
            return Ok(());
        };
        Err(Wrong(wrong))
    }

    fn number(&self, text: &str) -> Result<u32, Wrong> {
        let word = text.to_lowercase();
        let known = self.words.iter().zip(self.min..);
        match known.into_iter().find(|(it, _)| **it == word) {
            Some((_, number)) => Ok(number),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u32, Wrong> {
    let quoted = dialect::quote(text);
    let parsed: i64 = text.parse().map_err(|_error| {
        Wrong(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax"
        ))
    })?;
    u32::try_from(parsed)
        .map_err(|_error| Wrong(format!("negative number ({parsed}) not allowed: {text}")))
}

// === impl Wrong ===

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_by_kubernetes() {
        for good in [
            "* * * * *",
            "30 2 * * 1-5",
            "*/5 0-23/2 1,15 jan-mar sun",
            "@daily",
            "@every 1h30m",
            "0 0 ? * MON",
        ] {
            assert_eq!(parse(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                "5-3 * * * *",
                "beginning of range (5) beyond end of range (3): 5-3",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("@often", "unrecognized descriptor: @often"),
        ] {
            assert_eq!(parse(bad), Err(Wrong(why.to_owned())), "{bad}");
        }
    }
}
