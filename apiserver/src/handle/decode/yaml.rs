//! YAML bodies: strict about what makes YAML dangerous, lenient where kubectl users are used to it.
//!
//! Aliases are refused, so that a small body cannot grow. Duplicate keys are taken with the last value and told in
//! go-yaml's words, `line 11: key "foo" already set in map`; only the first one of a document is told.

use api::json;
use serde_json::Value;

use super::{Duplicates, Parsed};

/// Parses one YAML document. JSON is YAML, and is read by the faster parser as long as it has no duplicates.
pub(in crate::handle) fn parse_yaml(bytes: &[u8]) -> Result<Parsed, String> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'{')
        && let Ok((value, duplicates)) = json::parse_strict(bytes)
        && duplicates.is_empty()
    {
        return Ok(Parsed {
            value,
            duplicates: Duplicates::default(),
        });
    }
    match read(bytes, serde_saphyr::options::DuplicateKeyPolicy::Error) {
        Ok(value) => Ok(Parsed {
            value,
            duplicates: Duplicates::default(),
        }),
        Err(serde_saphyr::Error::DuplicateMappingKey { key, location }) => {
            let key = api::go_format::quote(&key.unwrap_or_default());
            let text = format!("line {}: key {key} already set in map", location.line());
            let value = read(bytes, serde_saphyr::options::DuplicateKeyPolicy::LastWins);
            let value = value.map_err(|error| error.to_string())?;
            Ok(Parsed {
                value,
                duplicates: Duplicates::yaml(vec![text]),
            })
        }
        Err(error) => Err(error.to_string()),
    }
}

fn read(
    bytes: &[u8],
    duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy,
) -> Result<Value, serde_saphyr::Error> {
    let mut options = serde_saphyr::Options::default();
    options.duplicate_keys = duplicate_keys;
    options.alias_limits.max_total_replayed_events = 0;
    options.with_snippet = false;
    let mut value: Value = serde_saphyr::from_slice_with_options(bytes, options)?;
    json::normalize_numbers(&mut value);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_become_values() {
        for (text, want) in [
            (
                "a: 1\nb: [x, 1.5, true, null]\n",
                json!({"a": 1, "b": ["x", 1.5, true, null]}),
            ),
            ("---\na: \"1\"\n", json!({"a": "1"})),
            ("{\"a\": {\"b\": 1}}", json!({"a": {"b": 1}})),
            ("a: |\n  x\n  y\n", json!({"a": "x\ny\n"})),
        ] {
            assert_eq!(
                parse_yaml(text.as_bytes()).expect(text).value,
                want,
                "{text}"
            );
        }
    }

    #[test]
    fn the_last_of_two_values_wins_and_the_second_line_is_told() {
        let parsed = parse_yaml(b"spec:\n  a: 1\n  b: 2\n  a: 3\n").expect("a document");
        assert_eq!(parsed.value, json!({"spec": {"a": 3, "b": 2}}));
        assert_eq!(
            parsed.duplicates.texts(),
            ["line 4: key \"a\" already set in map"]
        );
        let parsed = parse_yaml(b"{\"a\": 1, \"a\": 2}").expect("a document");
        assert_eq!(parsed.value, json!({"a": 2}));
        assert_eq!(
            parsed.duplicates.error_text().as_deref(),
            Some("yaml: unmarshal errors:\n  line 1: key \"a\" already set in map")
        );
    }

    #[test]
    fn aliases_and_broken_documents_are_refused() {
        for text in ["a: &x [1]\nb: *x\n", "a: [", "a: b: c"] {
            assert!(parse_yaml(text.as_bytes()).is_err(), "{text}");
        }
    }
}
