//! What stored objects are found by: terms for their labels, and for the fields that their kind declares as selectable.
//!
//! The store knows which keys have a term, without knowing what it means ([`storage::TermsOf`]). A list with a selector
//! then looks at the objects that it means and at no other. kube-apiserver walks the whole collection, but for the pods
//! of a node (pkg/registry/core/pod/strategy.go, `NodeNameTriggerFunc`).
//!
//! # Invariants
//! - Terms only leave out what cannot match. Whatever is found is matched again: terms are hashes, and hashes collide.
//! - Nothing is looked up by a value that an object may have without saying so (`""`, `false`, `0`).
//! - The hash has a key of this process: nobody outside can make terms collide.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use api::LogicalCluster;
use api::selector::{FieldOperator, FieldSelector, Operator, Requirement, Selector};

use crate::objects::{fields, head, parse_key};
use crate::registry::ResourceScope;
use crate::strategy;

/// What a term is about.
#[derive(Hash)]
enum Said<'a> {
    Label(&'a [u8], &'a [u8]),
    Field(&'a str, &'a str),
}

/// The objects of a resource in a cluster, which no other collection shares a term with.
type Collection<'a> = (&'a str, &'a str, &'a str);

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Finds the terms of a stored object, for the store.
pub(crate) fn of_stored(key: &[u8], value: &[u8], terms: &mut Vec<u64>) {
    let (Some(key), Some(head)) = (parse_key(key), head(value)) else {
        return;
    };
    let collection = (key.group, key.resource, key.cluster);
    head.labels.each(|label, value| {
        terms.push(term(collection, &Said::Label(label, value)));
    });
    let declared = strategy::selectable(key.group, key.resource);
    fields(value, declared, &mut |place, text| {
        if let Some((_, path)) = declared.get(place)
            && is_told(text)
        {
            terms.push(term(collection, &Said::Field(path, text)));
        }
    });
}

/// Returns the sets of terms of which each object that is selected has one.
pub(crate) fn wanted(
    scope: &ResourceScope,
    cluster: &LogicalCluster,
    (labels, selector): (&Selector, &FieldSelector),
) -> Vec<Vec<u64>> {
    let stored = scope.rules.prefix.resource();
    let collection = (stored.0, stored.1, cluster.as_str());
    let by_label = labels.requirements().iter().filter(|it| is_one_of(it));
    let by_label = by_label.map(|requirement| {
        let key = requirement.key().as_bytes();
        let values = requirement.values().iter();
        let said = values.map(|value| Said::Label(key, value.as_bytes()));
        said.map(|said| term(collection, &said)).collect()
    });
    // Where objects are stored as another kind, their fields have other names there.
    let declared = match scope.strategy().stored_as {
        None => scope.strategy().selectable,
        Some(_) => &[],
    };
    let by_field = selector.requirements().iter().filter_map(|requirement| {
        let equals = requirement.operator == FieldOperator::Equals && is_told(&requirement.value);
        let (_, path) = declared
            .iter()
            .find(|(label, _)| equals && *label == requirement.path)?;
        Some(vec![term(
            collection,
            &Said::Field(path, &requirement.value),
        )])
    });
    by_label.chain(by_field).collect()
}

/// Whether an object that meets a requirement has the label with one of the values.
fn is_one_of(requirement: &Requirement) -> bool {
    matches!(
        requirement.operator(),
        Operator::In | Operator::Equals | Operator::DoubleEquals
    )
}

/// Whether a field has such a value only where it is written down.
fn is_told(text: &str) -> bool {
    !matches!(text, "" | "false" | "0")
}

fn term(collection: Collection<'_>, said: &Said<'_>) -> u64 {
    HASHER.hash_one((collection, said))
}

#[cfg(test)]
mod tests;
