//! Naming rules: which ids, iterators and kinds a definition may use.
//!
//! Ids become CEL identifiers, so they may neither be words of CEL nor words that kro keeps for itself.
//!
//! Source: kro `pkg/graph/validation.go`.

use std::collections::BTreeSet;

use dialect::quote;
use expressions::RESERVED_WORDS;

/// Words that cannot be ids, besides those of CEL: kro's own.
const RESERVED: [&str; 33] = [
    "apiVersion",
    "context",
    "dependency",
    "dependencies",
    "each",
    "externalRef",
    "externalReference",
    "externalRefs",
    "externalReferences",
    "graph",
    "instance",
    "item",
    "items",
    "kind",
    "kro",
    "metadata",
    "namespace",
    "object",
    "resource",
    "resourcegraphdefinition",
    "resourceGraphDefinition",
    "resources",
    "root",
    "runtime",
    "schema",
    "self",
    "serviceAccountName",
    "spec",
    "status",
    "this",
    "variables",
    "vars",
    "version",
];

/// Returns whether `word` is lower camel case: an id, an iterator.
pub(crate) fn is_id(word: &str) -> bool {
    is_camel(word, |first| first.is_ascii_lowercase())
}

/// Returns whether `word` is upper camel case: a kind.
pub(crate) fn is_kind(word: &str) -> bool {
    is_camel(word, |first| first.is_ascii_uppercase())
}

fn is_camel(word: &str, first: impl Fn(u8) -> bool) -> bool {
    let mut bytes = word.bytes();
    bytes.next().is_some_and(first) && bytes.all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns whether `word` is kept for kro or CEL.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || RESERVED_WORDS.contains(&word)
}

/// Checks the names of a definition; `dimensions` are the iterator names of each resource's forEach, in order.
pub(crate) fn check_names(
    kind: &str,
    ids: &[&str],
    iterators: &[(&str, Vec<&str>)],
    dimensions_max: usize,
) -> Result<(), String> {
    if !is_kind(kind) {
        return Err(format!(
            "naming convention violation: kind '{kind}' is not a valid KRO kind name: must be UpperCamelCase"
        ));
    }
    check_ids(ids).map_err(|error| format!("naming convention violation: {error}"))?;
    for (resource, names) in iterators {
        check_iterators(resource, names, ids, dimensions_max)?;
    }
    Ok(())
}

fn check_ids(ids: &[&str]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if is_reserved(id) {
            return Err(format!("id {id} is a reserved keyword in KRO"));
        }
        if !is_id(id) {
            return Err(format!(
                "id {id} is not a valid KRO resource id: must be lower camelCase"
            ));
        }
        if !seen.insert(*id) {
            return Err(format!("found duplicate resource IDs {id}"));
        }
    }
    Ok(())
}

fn check_iterators(
    resource: &str,
    names: &[&str],
    ids: &[&str],
    dimensions_max: usize,
) -> Result<(), String> {
    let count = names.len();
    let resource = quote(resource);
    if count > dimensions_max {
        return Err(format!(
            "resource {resource}: forEach cannot have more than {dimensions_max} dimensions, got {count}"
        ));
    }
    let mut seen = BTreeSet::new();
    for name in names {
        let quoted = quote(name);
        let complaint = if !is_id(name) {
            format!("forEach iterator name {quoted} is not valid: must be lowerCamelCase")
        } else if is_reserved(name) {
            format!("forEach iterator name {quoted} is a reserved keyword")
        } else if ids.contains(name) {
            format!("forEach iterator name {quoted} conflicts with resource ID")
        } else if !seen.insert(*name) {
            format!("duplicate forEach iterator name {quoted}")
        } else {
            continue;
        };
        return Err(format!("resource {resource}: {complaint}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn names_are_refused_in_kros_words() {
        let naming = |text: &str| format!("naming convention violation: {text}");
        let cases: [(&str, &[&str], &[&str], String); 11] = [
            (
                "web",
                &[],
                &[],
                naming("kind 'web' is not a valid KRO kind name: must be UpperCamelCase"),
            ),
            (
                "Web-App",
                &[],
                &[],
                naming("kind 'Web-App' is not a valid KRO kind name: must be UpperCamelCase"),
            ),
            (
                "Web",
                &["my-id"],
                &[],
                naming("id my-id is not a valid KRO resource id: must be lower camelCase"),
            ),
            (
                "Web",
                &["Id"],
                &[],
                naming("id Id is not a valid KRO resource id: must be lower camelCase"),
            ),
            (
                "Web",
                &["spec"],
                &[],
                naming("id spec is a reserved keyword in KRO"),
            ),
            (
                "Web",
                &["namespace"],
                &[],
                naming("id namespace is a reserved keyword in KRO"),
            ),
            (
                "Web",
                &["a", "a"],
                &[],
                naming("found duplicate resource IDs a"),
            ),
            (
                "Web",
                &["a"],
                &["A"],
                "resource \"a\": forEach iterator name \"A\" is not valid: must be lowerCamelCase"
                    .into(),
            ),
            (
                "Web",
                &["a"],
                &["each"],
                "resource \"a\": forEach iterator name \"each\" is a reserved keyword".into(),
            ),
            (
                "Web",
                &["a", "b"],
                &["b"],
                "resource \"a\": forEach iterator name \"b\" conflicts with resource ID".into(),
            ),
            (
                "Web",
                &["a"],
                &["x", "x"],
                "resource \"a\": duplicate forEach iterator name \"x\"".into(),
            ),
        ];
        for (kind, ids, iterators, want) in cases {
            let got = check_names(kind, ids, &[("a", iterators.to_vec())], 10);
            assert_eq!(got, Err(want));
        }
        assert_eq!(
            check_names("Web", &["a", "schemas"], &[("a", vec!["x", "y"])], 2),
            Ok(())
        );
        assert_eq!(
            check_names("Web", &["a"], &[("a", vec!["x", "y", "z"])], 2),
            Err("resource \"a\": forEach cannot have more than 2 dimensions, got 3".to_owned())
        );
    }

    #[test]
    fn reserved_words_are_told_apart_by_case() {
        assert!(is_reserved("externalRef"));
        assert!(!is_reserved("externalref"));
        assert!(!is_reserved("Spec"));
    }
}
