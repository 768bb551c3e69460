//! Paths to fields that a schema declares, as rules and selectable fields name them: `.spec.color`, `.map['key']`.
//!
//! Source: `ValidFieldPath` in `apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go`.

use api::FieldPath;

use crate::structural::Schema;

/// Whether `['name']` may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brackets {
    /// In rules.
    Allowed,
    /// In selectable fields.
    Refused,
}

/// Finds the schema that `text` leads to from `schema`, and the path as errors print it.
///
/// # Errors
/// The text is malformed or leads to nothing, in Kubernetes' words.
pub(crate) fn resolve<'s>(
    text: &str,
    schema: &'s Schema,
    brackets: Brackets,
) -> Result<(FieldPath, &'s Schema), String> {
    let mut path = FieldPath::root();
    let mut schema = schema;
    let mut tokens = tokens(text).into_iter();
    while let Some(token) = tokens.next() {
        let mut next = || {
            tokens
                .next()
                .ok_or_else(|| "unexpected end of JSON path".to_owned())
        };
        let name = match token {
            "[" if brackets == Brackets::Refused => {
                return Err("array notation is not allowed".to_owned());
            }
            "[" => {
                let quoted = next()?;
                let inner = quoted
                    .strip_prefix('\'')
                    .and_then(|it| it.strip_suffix('\''));
                let inner = inner
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                let name = unescape(inner)?;
                match next()? {
                    "]" => name,
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => next()?.to_owned(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        (path, schema) = step(&path, schema, &name)?;
    }
    Ok((path, schema))
}

fn step<'s>(
    path: &FieldPath,
    schema: &'s Schema,
    name: &str,
) -> Result<(FieldPath, &'s Schema), String> {
    let nowhere = || "does not refer to a valid field".to_owned();
    if !schema.properties.is_empty() {
        let property = schema.properties.get(name).ok_or_else(nowhere)?;
        return Ok((path.child(name), property));
    }
    let element = schema.additional.schema().ok_or_else(nowhere)?;
    Ok((path.key(name), element))
}

/// Delimiters one by one, and what is between them; a quoted text hides delimiters.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' => quoted_length(rest),
            '.' | '[' | ']' => 1,
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        tokens.push(token);
        rest = after;
    }
    tokens
}

fn quoted_length(text: &str) -> usize {
    let mut previous = '\'';
    for (index, next) in text.char_indices().skip(1) {
        if next == '\'' && previous != '\\' {
            return index + 1;
        }
        previous = next;
    }
    text.len()
}

fn unescape(text: &str) -> Result<String, String> {
    let mut unescaped = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(next) = characters.next() {
        if next != '\\' {
            unescaped.push(next);
            continue;
        }
        unescaped.push(match characters.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('\'') => '\'',
            Some('\\') | None => '\\',
            Some(other) => {
                return Err(format!(
                    "invalid string literal: invalid escape char \\{other}"
                ));
            }
        });
    }
    Ok(unescaped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_declared_fields() {
        let schema = Schema::from_openapi(&json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b.c": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "l": {"type": "array", "items": {"type": "string"}},
        }}))
        .unwrap();
        let cases = [
            (".a", Ok("a")),
            (".a['b.c']", Ok("a.b.c")),
            (".m['it\\'s']", Ok("m[it's]")),
            (".m.k", Ok("m[k]")),
            (".x", Err("does not refer to a valid field")),
            (".l.x", Err("does not refer to a valid field")),
            ("a", Err("expected [ or . but got: a")),
            (".a[", Err("unexpected end of JSON path")),
            (".a[0]", Err("expected single quoted string but got 0")),
            (".m['k'", Err("unexpected end of JSON path")),
            (
                ".m['\\q']",
                Err("invalid string literal: invalid escape char \\q"),
            ),
        ];
        for (text, want) in cases {
            let found = resolve(text, &schema, Brackets::Allowed);
            let found = found.map(|(path, _)| path.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), want, "{text}");
        }
        let refused = resolve(".m['k']", &schema, Brackets::Refused);
        assert_eq!(refused.unwrap_err(), "array notation is not allowed");
    }

    proptest::proptest! {
        #[test]
        fn no_path_panics(text in "[.\\[\\]'\\\\amé]{0,16}") {
            let schema = Schema::from_openapi(&json!({"type": "object",
                "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}})).unwrap();
            drop(resolve(&text, &schema, Brackets::Allowed));
        }
    }
}
