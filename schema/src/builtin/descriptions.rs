//! What the definitions and their fields mean, for people.
//!
//! `data/descriptions.txt` is written by hand. A definition is a line `NAME: TEXT`, and each of its fields a line below
//! it, `  NAME: TEXT`. The definition `*` has the fields that mean the same in every kind.
//!
//! Invariant: every definition and every field of the catalogue is described, and nothing else is; a test says so.

use std::collections::HashMap;
use std::sync::LazyLock;

static TEXT: &str = include_str!("../../data/descriptions.txt");

/// The definition of what every kind has.
const COMMON: &str = "*";

/// The descriptions of a definition and of its fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptions {
    /// What the definition stands for.
    pub(crate) text: &'static str,
    fields: &'static str,
}

static BY_DEFINITION: LazyLock<HashMap<&str, Descriptions>> =
    LazyLock::new(|| blocks(TEXT).collect());

/// The descriptions of a definition, such as `io.k8s.api.core.v1.PodSpec`.
pub(crate) fn of_definition(name: &str) -> Option<Descriptions> {
    BY_DEFINITION.get(name).copied()
}

/// The description of a field that means the same in every kind: `apiVersion`, `items`, `kind` or `metadata`.
pub(crate) fn of_common_field(name: &str) -> Option<&'static str> {
    of_definition(COMMON)?.own_field(name)
}

fn blocks(text: &'static str) -> impl Iterator<Item = (&'static str, Descriptions)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (head, below) = rest.split_once('\n')?;
        let line_starts = below.match_indices('\n').map(|(index, _)| index + 1);
        let end = std::iter::once(0)
            .chain(line_starts)
            .find(|index| !below.get(*index..).unwrap_or_default().starts_with("  "));
        let (fields, after) = below.split_at_checked(end.unwrap_or(below.len()))?;
        rest = after;
        let (name, text) = head.split_once(": ")?;
        Some((name, Descriptions { text, fields }))
    })
}

// === impl Descriptions ===

impl Descriptions {
    /// The description of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&'static str> {
        self.own_field(name).or_else(|| of_common_field(name))
    }

    fn own_field(&self, name: &str) -> Option<&'static str> {
        self.fields()
            .find(|(field, _)| *field == name)
            .map(|(_, text)| text)
    }

    fn fields(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        self.fields
            .lines()
            .filter_map(|line| line.trim_start().split_once(": "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;

    #[test]
    fn every_definition_and_every_field_is_described_and_nothing_else() {
        assert!(TEXT.is_ascii(), "terminals of any kind show it");
        let whole: Value = serde_json::from_str(super::super::DATA).unwrap();
        let definitions = whole["definitions"].as_object().unwrap();
        let described: BTreeMap<&str, Descriptions> = blocks(TEXT).collect();
        let lines = TEXT.lines().filter(|line| !line.starts_with(' ')).count();
        assert_eq!(lines, described.len(), "no definition stands there twice");
        let mut faults = Vec::new();
        for (name, definition) in definitions {
            let Some(found) = described.get(name.as_str()) else {
                faults.push(name.clone());
                continue;
            };
            let properties = definition["properties"].as_object();
            let fields: BTreeSet<&str> = properties
                .into_iter()
                .flat_map(|it| it.keys())
                .map(String::as_str)
                .collect();
            let missing = fields.iter().filter(|field| found.field(field).is_none());
            faults.extend(missing.map(|field| format!("{name}.{field}")));
            let unknown = found.fields().filter(|(field, _)| !fields.contains(field));
            faults.extend(unknown.map(|(field, _)| format!("{name}.{field} is not there")));
        }
        let unknown = described
            .keys()
            .filter(|name| **name != COMMON && !definitions.contains_key(**name));
        faults.extend(unknown.map(|name| format!("{name} is not there")));
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn descriptions_are_sentences() {
        for line in TEXT.lines() {
            let (name, text) = line.trim_start().split_once(": ").unwrap_or_default();
            assert!(!name.contains(' '), "{line}");
            assert!(text.ends_with('.') && text.len() <= 320, "{line}");
        }
    }
}
