//! The strings extension: positions count characters, not bytes.
//!
//! Source: `cel-go/ext/strings.go`.

use super::{Entry, Returned, global, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

const TO_STRING: &[&str] = &["(string) -> string"];
const FIND: &[&str] = &["(string, string) -> int", "(string, string, int) -> int"];

pub(super) const FUNCTIONS: &[Entry] = &[
    member("charAt", &["(string, int) -> string"], char_at),
    member("indexOf", FIND, index_of),
    member("lastIndexOf", FIND, last_index_of),
    member("lowerAscii", TO_STRING, lower_ascii),
    member("upperAscii", TO_STRING, upper_ascii),
    member(
        "replace",
        &[
            "(string, string, string) -> string",
            "(string, string, string, int) -> string",
        ],
        replace,
    ),
    member(
        "split",
        &[
            "(string, string) -> list(string)",
            "(string, string, int) -> list(string)",
        ],
        split,
    ),
    member(
        "substring",
        &["(string, int) -> string", "(string, int, int) -> string"],
        substring,
    ),
    member("trim", TO_STRING, trim),
    member(
        "join",
        &[
            "(list(string)) -> string",
            "(list(string), string) -> string",
        ],
        join,
    ),
    global("strings.quote", TO_STRING, quote),
];

/// `reverse` came with version 3 of the extension, which Kubernetes does not use yet.
/// The position of nothing in a text is the one that is asked for, whatever it is, in Kubernetes' cel-go (0.26). These come
/// before the others.
///
/// Source: `indexOfOffset`, `lastIndexOfOffset` in `cel-go/ext/strings.go`.
pub(super) const INDEX_OF_NOTHING: &[Entry] = &[
    member("indexOf", FIND, index_of_nothing),
    member("lastIndexOf", FIND, index_of_nothing),
];

fn index_of_nothing<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match find_arguments(args)? {
        (_, "", Some(offset)) => Ok(Value::int(offset)),
        _ => Err(Failure::NoOverload),
    }
}

pub(super) const REVERSE: &[Entry] = &[member("reverse", TO_STRING, reverse)];

fn char_at<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(text)), Value(Kind::Int(index))] = args else {
        return Err(Failure::NoOverload);
    };
    let position = usize::try_from(*index).map_err(|_negative| out_of_range(*index))?;
    match text.chars().nth(position) {
        Some(c) => Ok(Value::string(c.to_string())),
        None if text.chars().count() == position => Ok(Value::string("")),
        None => Err(out_of_range(*index)),
    }
}

fn index_of<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (text, part, offset) = find_arguments(args)?;
    meter.charge_product(text.len() / 10, part.len() / 10)?;
    let offset = match offset {
        None => 0,
        Some(offset) => usize::try_from(offset).map_err(|_negative| out_of_range(offset))?,
    };
    let length = text.chars().count();
    if part.is_empty() {
        return Ok(Value::count(offset.min(length)));
    }
    let Some(rest) = skip_chars(text, offset) else {
        return Ok(Value::int(-1));
    };
    Ok(match rest.find(part) {
        Some(at) => Value::count(offset + char_count_before(rest, at)),
        None => Value::int(-1),
    })
}

fn last_index_of<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (text, part, offset) = find_arguments(args)?;
    meter.charge_product(text.len() / 10, part.len() / 10)?;
    let length = text.chars().count();
    let offset = match offset {
        None => length,
        Some(offset) => usize::try_from(offset).map_err(|_negative| out_of_range(offset))?,
    };
    if part.is_empty() {
        return Ok(Value::count(offset.min(length)));
    }
    let found = match find_arguments(args)?.2 {
        None => text.rfind(part),
        Some(_) if offset >= length => None,
        // The last match that starts at or before the offset ends within this prefix.
        Some(_) => skip_chars(text, offset)
            .and_then(|rest| skip_chars(rest, part.chars().count()))
            .map_or(text.rfind(part), |after| {
                text.get(..text.len() - after.len())
                    .and_then(|prefix| prefix.rfind(part))
            }),
    };
    Ok(match found {
        Some(at) => Value::count(char_count_before(text, at)),
        None => Value::int(-1),
    })
}

fn find_arguments<'a>(args: &'a [Value<'_>]) -> Result<(&'a str, &'a str, Option<i64>), Failure> {
    match args {
        [Value(Kind::String(text)), Value(Kind::String(part))] => Ok((text, part, None)),
        [
            Value(Kind::String(text)),
            Value(Kind::String(part)),
            Value(Kind::Int(offset)),
        ] => Ok((text, part, Some(*offset))),
        _ => Err(Failure::NoOverload),
    }
}

fn lower_ascii<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    map_text(args, str::to_ascii_lowercase)
}

fn upper_ascii<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    map_text(args, str::to_ascii_uppercase)
}

fn trim<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    map_text(args, |text| text.trim().to_owned())
}

fn reverse<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    map_text(args, |text| text.chars().rev().collect())
}

fn quote<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    if let [Value(Kind::String(text))] = args {
        meter.charge_bytes(text.len() * 2)?;
    }
    map_text(args, |text| {
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        for c in text.chars() {
            match c {
                '\u{7}' => quoted.push_str("\\a"),
                '\u{8}' => quoted.push_str("\\b"),
                '\u{c}' => quoted.push_str("\\f"),
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '\u{b}' => quoted.push_str("\\v"),
                '\\' => quoted.push_str("\\\\"),
                '"' => quoted.push_str("\\\""),
                c => quoted.push(c),
            }
        }
        quoted.push('"');
        quoted
    })
}

fn map_text<'v>(args: &[Value<'v>], map: impl Fn(&str) -> String) -> Returned<'v> {
    match args {
        [Value(Kind::String(text))] => Ok(Value::string(map(text))),
        _ => Err(Failure::NoOverload),
    }
}

fn replace<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (text, old, new, limit) = match args {
        [
            Value(Kind::String(text)),
            Value(Kind::String(old)),
            Value(Kind::String(new)),
        ] => (text, old, new, usize::MAX),
        [
            Value(Kind::String(text)),
            Value(Kind::String(old)),
            Value(Kind::String(new)),
            Value(Kind::Int(limit)),
        ] => (
            text,
            old,
            new,
            usize::try_from(*limit).unwrap_or(usize::MAX),
        ),
        _ => return Err(Failure::NoOverload),
    };
    let matches = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.len() / old.len()
    };
    let grown = matches.min(limit).saturating_mul(new.len());
    meter.charge_bytes(grown.saturating_add(text.len()))?;
    Ok(Value::string(text.replacen(&**old, new, limit)))
}

fn split<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (text, separator, limit) = match args {
        [Value(Kind::String(text)), Value(Kind::String(separator))] => {
            (text, separator, usize::MAX)
        }
        [
            Value(Kind::String(text)),
            Value(Kind::String(separator)),
            Value(Kind::Int(limit)),
        ] => (
            text,
            separator,
            usize::try_from(*limit).unwrap_or(usize::MAX),
        ),
        _ => return Err(Failure::NoOverload),
    };
    meter.charge_items(text.len())?;
    let parts: Vec<Value<'v>> = if limit == 0 {
        Vec::new()
    } else if separator.is_empty() {
        split_chars(text, limit)
    } else {
        text.splitn(limit, &**separator)
            .map(Value::string)
            .collect()
    };
    Ok(Value::list(parts))
}

/// Splits into characters; the last of `limit` parts keeps the rest.
fn split_chars<'v>(text: &str, limit: usize) -> Vec<Value<'v>> {
    let mut parts = Vec::new();
    let mut rest = text.chars();
    while !rest.as_str().is_empty() {
        if parts.len() + 1 == limit {
            parts.push(Value::string(rest.as_str()));
            break;
        }
        parts.extend(rest.next().map(|c| Value::string(c.to_string())));
    }
    parts
}

fn substring<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (text, start, end) = match args {
        [Value(Kind::String(text)), Value(Kind::Int(start))] => (text, *start, None),
        [
            Value(Kind::String(text)),
            Value(Kind::Int(start)),
            Value(Kind::Int(end)),
        ] => (text, *start, Some(*end)),
        _ => return Err(Failure::NoOverload),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Failure::new(format!(
            "invalid substring range. start: {start}, end: {end}"
        )));
    }
    let from = usize::try_from(start)
        .ok()
        .and_then(|start| skip_chars(text, start))
        .ok_or_else(|| out_of_range(start))?;
    let Some(end) = end else {
        return Ok(Value::string(from));
    };
    let after = usize::try_from(end - start)
        .ok()
        .and_then(|length| skip_chars(from, length))
        .ok_or_else(|| out_of_range(end))?;
    let part = from.get(..from.len() - after.len()).unwrap_or_default();
    Ok(Value::string(part))
}

fn join<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let (list, separator) = match args {
        [Value(Kind::List(list))] => (list, ""),
        [Value(Kind::List(list)), Value(Kind::String(separator))] => (list, &**separator),
        _ => return Err(Failure::NoOverload),
    };
    let mut joined = String::new();
    for (index, value) in list.iter().enumerate() {
        let value = value?;
        let Some(text) = value.as_str() else {
            return Err(Failure::new(format!("join: invalid input: {value}")));
        };
        meter.charge_bytes(separator.len() + text.len())?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Value::string(joined))
}

/// What follows the first `count` characters; nothing where there are fewer.
fn skip_chars(text: &str, count: usize) -> Option<&str> {
    let mut chars = text.chars();
    for _ in 0..count {
        chars.next()?;
    }
    Some(chars.as_str())
}

fn char_count_before(text: &str, byte: usize) -> usize {
    text.get(..byte).map_or(0, |before| before.chars().count())
}

fn out_of_range(index: i64) -> Failure {
    Failure::new(format!("index out of range: {index}"))
}
