//! The merge of a configuration into a live object: the configuration's leaves win, and nothing is removed.
//!
//! The order of an associative list is that of the configuration for the items that it names; other items keep their
//! place behind the items that they followed.
//!
//! Both values must have passed the check of [`super::typed`], the configuration without duplicates.
//!
//! Source: `structured-merge-diff/typed/merge.go`; api-compat 3.5.1.

use serde_json::{Map, Value};

use super::element::PathElement;
use super::model::{Atom, ListAtom, MapAtom, Place, Relation};

/// Merges a configuration into an object.
pub(crate) fn merge(place: Place<'_>, live: &Value, config: Value) -> Value {
    match (place.resolve(Some(&config)), config) {
        (Atom::Map(map), Value::Object(fields)) => merge_maps(map, live, fields),
        (Atom::Map(map), config) => match live {
            // Null says nothing about a map that holds something.
            Value::Object(fields) if !map.atomic && !fields.is_empty() => live.clone(),
            _ => config,
        },
        (Atom::List(list), Value::Array(items)) => merge_lists(list, live, items),
        (Atom::List(list), config) => match live {
            Value::Array(items) if list.relation != Relation::Atomic && !items.is_empty() => {
                live.clone()
            }
            _ => config,
        },
        (Atom::Scalar(_), config) => config,
    }
}

fn merge_maps(map: MapAtom<'_>, live: &Value, config: Map<String, Value>) -> Value {
    let Value::Object(live) = live else {
        return Value::Object(config);
    };
    if map.atomic {
        return Value::Object(config);
    }
    let mut merged = Map::new();
    for (name, value) in live {
        if !config.contains_key(name) {
            let kept = keep(map.field(name).place_or_opaque(), value);
            merged.extend(kept.map(|value| (name.clone(), value)));
        }
    }
    for (name, value) in config {
        let place = map.field(&name).place_or_opaque();
        if matches!(place, Place::Invisible) {
            continue;
        }
        let value = match live.get(&name) {
            Some(live) => merge(place, live, value),
            None => value,
        };
        merged.insert(name, value);
    }
    Value::Object(merged)
}

/// What stays of a value of which the configuration says nothing.
fn keep(place: Place<'_>, live: &Value) -> Option<Value> {
    match (place, live) {
        (Place::Invisible, _) => None,
        (Place::RootMetadata, Value::Object(_)) => {
            Some(merge(place, live, Value::Object(Map::new())))
        }
        (_, live) => Some(live.clone()),
    }
}

/// Where an item of the configuration stands in the live list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Live {
    Absent,
    Once(usize),
    /// More than once: the item of the configuration replaces them unmerged.
    Repeated,
}

fn merge_lists(list: ListAtom<'_>, live: &Value, config: Vec<Value>) -> Value {
    let Value::Array(live) = live else {
        return Value::Array(config);
    };
    if list.relation == Relation::Atomic || live.is_empty() {
        return Value::Array(config);
    }
    let index = Index::new(list, live, &config);
    let mut config: Vec<Option<Value>> = config.into_iter().map(Some).collect();
    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    index.order(|step| match step {
        Step::Live(position) => merged.extend(live.get(position).cloned()),
        Step::Config(position) => {
            let item = config.get_mut(position).and_then(Option::take);
            let live = match index.in_live.get(position) {
                Some(Live::Once(position)) => live.get(*position),
                _ => None,
            };
            merged.extend(item.map(|item| match live {
                Some(live) => merge(list.items, live, item),
                None => item,
            }));
        }
    });
    Value::Array(merged)
}

enum Step {
    Live(usize),
    Config(usize),
}

/// Which items of the two lists are the same.
struct Index {
    in_live: Vec<Live>,
    in_config: Vec<Option<usize>>,
}

// === impl Index ===

impl Index {
    fn new(list: ListAtom<'_>, live: &[Value], config: &[Value]) -> Self {
        let mut by_element: Vec<(PathElement, usize)> = config
            .iter()
            .enumerate()
            .filter_map(|(position, item)| list.element(item).ok().map(|e| (e, position)))
            .collect();
        by_element.sort();
        let mut in_live = vec![Live::Absent; config.len()];
        let mut in_config = Vec::with_capacity(live.len());
        for (position, item) in live.iter().enumerate() {
            let found = list.element(item).ok().and_then(|element| {
                let at = by_element
                    .binary_search_by(|(other, _)| other.cmp(&element))
                    .ok()?;
                by_element.get(at).map(|(_, position)| *position)
            });
            if let Some(seen) = found.and_then(|found| in_live.get_mut(found)) {
                *seen = match seen {
                    Live::Absent => Live::Once(position),
                    Live::Once(_) | Live::Repeated => Live::Repeated,
                };
            }
            in_config.push(found);
        }
        Self { in_live, in_config }
    }

    /// Walks both lists with two pointers, and says which item comes next.
    fn order(&self, mut emit: impl FnMut(Step)) {
        let mut emitted = vec![false; self.in_live.len()];
        let mut shared = (0..self.in_live.len())
            .filter(|position| self.in_live.get(*position) != Some(&Live::Absent));
        let mut next_shared = shared.next();
        let (mut left, mut right) = (0, 0);
        while left < self.in_config.len() || right < self.in_live.len() {
            let both = left < self.in_config.len() && right < self.in_live.len();
            if let Some(found) = self.in_config.get(left).copied() {
                match found {
                    Some(found) if both && found == right => {
                        emit(Step::Config(right));
                        mark(&mut emitted, right);
                        left = left.saturating_add(1);
                        right = right.saturating_add(1);
                        next_shared = shared.next();
                        continue;
                    }
                    // Shared, but not the one that is next in the configuration: it comes at its place there.
                    Some(found) if both && next_shared.is_some_and(|next| next != found) => {
                        left = left.saturating_add(1);
                        continue;
                    }
                    None => {
                        emit(Step::Live(left));
                        left = left.saturating_add(1);
                        continue;
                    }
                    Some(found) if emitted.get(found) == Some(&true) => {
                        left = left.saturating_add(1);
                    }
                    Some(_) => {}
                }
            }
            if right < self.in_live.len() {
                emit(Step::Config(right));
                mark(&mut emitted, right);
                if next_shared == Some(right) {
                    next_shared = shared.next();
                }
                right = right.saturating_add(1);
            }
        }
    }
}

fn mark(emitted: &mut [bool], position: usize) {
    if let Some(slot) = emitted.get_mut(position) {
        *slot = true;
    }
}
