//! YAML bodies: strict about what makes YAML dangerous, lenient where kubectl users are used to it.
//!
//! Aliases are refused, so that a small body cannot grow. Duplicate keys are taken with the last value, and all of them are told
//! ([`dialect::yaml::first_document`]).

use api::json;
use dialect::yaml;

use super::{Duplicates, Parsed};

/// Parses the first YAML document of a body; what follows it is not read, as in Kubernetes. JSON is YAML, and is read by the faster parser as long as it has no duplicates.
pub(in crate::handle) fn parse_yaml(bytes: &[u8]) -> Result<Parsed, String> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'{')
        && let Ok((mut value, duplicates)) = json::parse_strict(bytes)
        && duplicates.is_empty()
    {
        json::whole_numbers(&mut value);
        return Ok(Parsed {
            value,
            duplicates: Duplicates::default(),
        });
    }
    let document = yaml::first_document(bytes).map_err(|error| error.to_string())?;
    let mut value = document.value;
    json::normalize_numbers(&mut value);
    json::whole_numbers(&mut value);
    let duplicates = match document.duplicates {
        texts if texts.is_empty() => Duplicates::default(),
        texts => Duplicates::yaml(texts),
    };
    Ok(Parsed { value, duplicates })
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
            ("a: [1.0, -2.0, 1e3]", json!({"a": [1, -2, 1000]})),
            ("{\"a\": [-3.0, 2.5, 1e30]}", json!({"a": [-3, 2.5, 1e30]})),
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
