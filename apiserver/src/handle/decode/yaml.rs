//! YAML bodies: strict about what makes YAML dangerous, lenient where kubectl users are used to it.
//!
//! Aliases are refused, so that a small body cannot grow. Duplicate keys are taken with the last value, and all of them
//! are told in go-yaml's words, `line 11: key "foo" already set in map`: the line of the later value, after what is
//! told of that value itself. Where keys are numbers, the parser keeps the last of equal ones to itself.
//!
//! Source: `sigs.k8s.io/yaml/goyaml.v2/decode.go` (setMapIndex).

use std::{collections::HashSet, fmt};

use api::json;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Spanned, options::DuplicateKeyPolicy};

use super::{Duplicates, Parsed};

/// Parses the first YAML document of a body; what follows it is not read, as in Kubernetes. JSON is YAML, and is read by the faster parser as long as it has no duplicates.
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
    let bytes = first_document(bytes);
    match read::<Value>(bytes, DuplicateKeyPolicy::Error) {
        Ok(value) => Ok(Parsed {
            value: normal(value),
            duplicates: Duplicates::default(),
        }),
        Err(serde_saphyr::Error::DuplicateMappingKey { .. }) => {
            let noted = read::<Noted>(bytes, DuplicateKeyPolicy::LastWins);
            let noted = noted.map_err(|error| error.to_string())?;
            Ok(Parsed {
                value: normal(noted.value),
                duplicates: Duplicates::yaml(noted.texts),
            })
        }
        Err(error) => Err(error.to_string()),
    }
}

/// A value, with what is to be told of duplicate keys in it.
#[derive(Debug)]
struct Noted {
    value: Value,
    texts: Vec<String>,
}

/// A key: what it is in JSON, and how Go prints it.
#[derive(Debug)]
struct Key {
    text: String,
    go_text: String,
}

/// The body up to the marker that ends its first document. A marker at the start of a line is one wherever it stands, in the middle of a
/// scalar too.
///
/// Source: YAML 1.2.2, sections 9.1.2 (document markers) and 9.2 (documents).
fn first_document(bytes: &[u8]) -> &[u8] {
    let is_marker = |line: &[u8], marker: &[u8]| {
        line.strip_prefix(marker)
            .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    };
    let (mut start, mut begun) = (0, false);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let ends = is_marker(line, b"---") || is_marker(line, b"...");
        if ends && begun {
            return bytes.get(..start).unwrap_or(bytes);
        }
        let text = line.trim_ascii();
        let says_nothing = text.is_empty() || matches!(line.first(), Some(b'#' | b'%'));
        begun |= is_marker(line, b"---") || (!ends && !says_nothing);
        start += line.len();
    }
    bytes
}

fn read<T: for<'de> Deserialize<'de>>(
    bytes: &[u8],
    duplicate_keys: DuplicateKeyPolicy,
) -> Result<T, serde_saphyr::Error> {
    let mut options = serde_saphyr::Options::default();
    options.duplicate_keys = duplicate_keys;
    options.alias_limits.max_total_replayed_events = 0;
    options.with_snippet = false;
    serde_saphyr::from_slice_with_options(bytes, options)
}

fn normal(mut value: Value) -> Value {
    json::normalize_numbers(&mut value);
    value
}

// === impl Noted ===

impl Noted {
    fn plain(value: impl Into<Value>) -> Self {
        Self {
            value: value.into(),
            texts: Vec::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Noted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NotedVisitor)
    }
}

struct NotedVisitor;

impl<'de> Visitor<'de> for NotedVisitor {
    type Value = Noted;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Noted, E> {
        Ok(Noted::plain(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Noted, E> {
        Ok(Noted::plain(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Noted, D::Error> {
        Noted::deserialize(deserializer)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Noted, E> {
        Ok(Noted::plain(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Noted, E> {
        Ok(Noted::plain(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Noted, E> {
        Ok(Noted::plain(v))
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Noted, E> {
        let number = Number::from_f64(v).ok_or_else(|| E::custom("number is not finite"))?;
        Ok(Noted::plain(number))
    }

    fn visit_str<E>(self, v: &str) -> Result<Noted, E> {
        Ok(Noted::plain(v))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Noted, A::Error> {
        let (mut items, mut texts) = (Vec::new(), Vec::new());
        while let Some(item) = seq.next_element::<Noted>()? {
            items.push(item.value);
            texts.extend(item.texts);
        }
        let value = Value::Array(items);
        Ok(Noted { value, texts })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Noted, A::Error> {
        let (mut fields, mut texts) = (Map::new(), Vec::new());
        let mut seen: HashSet<String> = HashSet::new();
        while let Some(key) = map.next_key::<Key>()? {
            let entry: Spanned<Noted> = map.next_value()?;
            texts.extend(entry.value.texts);
            if seen.contains(&key.go_text) {
                let line = entry.referenced.line();
                texts.push(format!(
                    "line {line}: key {} already set in map",
                    key.go_text
                ));
            }
            seen.insert(key.go_text);
            fields.insert(key.text, entry.value.value);
        }
        let value = Value::Object(fields);
        Ok(Noted { value, texts })
    }
}

// === impl Key ===

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = Value::deserialize(deserializer)?;
        match key {
            Value::String(text) => Ok(Self {
                go_text: dialect::quote(&text),
                text,
            }),
            Value::Bool(_) | Value::Number(_) => Ok(Self {
                go_text: key.to_string(),
                text: key.to_string(),
            }),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                Err(D::Error::custom("unsupported map key"))
            }
        }
    }
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
            ("a: 1\n---\nb: 2\n", json!({"a": 1})),
            ("# c\n---\na: 1\n---\n", json!({"a": 1})),
            ("%YAML 1.2\n--- \na: 1\n...\n[", json!({"a": 1})),
            ("--- {a: 1}\n--- {b: 2}", json!({"a": 1})),
            (
                "a: |\n  ---\n  x\nb: ---y\n",
                json!({"a": "---\nx\n", "b": "---y"}),
            ),
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
    fn all_duplicates_are_told_in_the_order_and_with_the_lines_of_a_kube_apiserver() {
        // The texts are what a kube-apiserver 1.36 says of the same documents.
        for (document, want) in [
            (
                "metadata:\n  name: a\n  name: b\ndata:\n  x: \"1\"\n  x: \"2\"\n  x: \"3\"\n",
                &["3 \"name\"", "6 \"x\"", "7 \"x\""][..],
            ),
            (
                "m:\n  a: 1\nm:\n  c: 1\n  c:\n    - 1\n  c: 3\n",
                &["6 \"c\"", "7 \"c\"", "4 \"m\""],
            ),
            ("l:\n- q: 1\n  q: 2\n", &["3 \"q\""]),
            ("true: a\ntrue: b\n\"true\": c\n", &["2 true"]),
            ("e:\ne:\n", &["2 \"e\""]),
        ] {
            let parsed = parse_yaml(document.as_bytes()).expect(document);
            let want: Vec<String> = want
                .iter()
                .filter_map(|text| text.split_once(' '))
                .map(|(line, key)| format!("line {line}: key {key} already set in map"))
                .collect();
            assert_eq!(parsed.duplicates.texts(), want, "{document}");
        }
        let parsed = parse_yaml(b"a: 1\na: {b: 2, c: [x, 1.5, ~, true]}\n").expect("a document");
        assert_eq!(
            parsed.value,
            json!({"a": {"b": 2, "c": ["x", 1.5, null, true]}}),
            "the last one is taken"
        );
    }

    #[test]
    fn aliases_and_broken_documents_are_refused() {
        for text in ["a: &x [1]\nb: *x\n", "a: [", "a: b: c"] {
            assert!(parse_yaml(text.as_bytes()).is_err(), "{text}");
        }
    }
}
