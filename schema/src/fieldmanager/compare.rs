//! What differs between two states of an object, as sets of fields.
//!
//! Both states must have passed the check of [`super::typed`].
//!
//! Source: `structured-merge-diff/typed/compare.go`; api-compat 3.4.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::element::{PathElement, values_equal};
use super::model::{Atom, ListAtom, MANAGED_FIELDS, MapAtom, Model, Place, Relation};
use super::set::{FieldSet, Node};

/// What differs. No field is in two of the sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

/// Compares two states of an object.
pub(crate) fn compare(place: Place<'_>, old: &Value, new: &Value, model: Model) -> Comparison {
    let walk = Walk { model };
    let Sides {
        removed,
        modified,
        added,
    } = walk.both(place, old, new);
    Comparison {
        removed: removed.children,
        modified: modified.children,
        added: added.children,
    }
}

/// Whether two states of an object are the same, whoever owns their fields.
pub(crate) fn same_object(old: &Value, new: &Value) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return false;
    };
    let mut same = true;
    zip(Some(old), Some(new), |name, old, new| {
        same = same
            && match (old, new) {
                (Some(Value::Object(old)), Some(Value::Object(new))) if name == "metadata" => {
                    same_metadata(old, new)
                }
                (Some(old), Some(new)) => values_equal(old, new),
                _ => false,
            };
    });
    same
}

fn same_metadata(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let mut same = true;
    zip(Some(old), Some(new), |name, old, new| {
        same = same
            && (name == MANAGED_FIELDS
                || old
                    .zip(new)
                    .is_some_and(|(old, new)| values_equal(old, new)));
    });
    same
}

#[derive(Debug, Clone, Copy)]
struct Walk {
    model: Model,
}

/// One of the three sets, at a node: whether the path to the node is in it, and what is below.
#[derive(Debug, Default)]
struct Part {
    member: bool,
    children: FieldSet,
}

#[derive(Debug, Default)]
struct Sides {
    removed: Part,
    modified: Part,
    added: Part,
}

#[derive(Debug, Default)]
struct Nodes {
    removed: Vec<Node>,
    modified: Vec<Node>,
    added: Vec<Node>,
}

// === impl Comparison ===

impl Comparison {
    /// Leaves out what is in the set, and what lies below it.
    #[must_use]
    pub(crate) fn without(self, fields: &FieldSet) -> Self {
        Self {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }
}

// === impl Walk ===

impl Walk {
    fn both(self, place: Place<'_>, old: &Value, new: &Value) -> Sides {
        if matches!(place, Place::Invisible) {
            return Sides::default();
        }
        match (place.resolve(Some(old)), place.resolve(Some(new))) {
            (Atom::Map(_), Atom::Map(map)) => self.maps(map, old, new),
            (Atom::List(_), Atom::List(list)) => self.lists(list, old, new),
            (Atom::Scalar(_), Atom::Scalar(_)) => leaf(old, new),
            // Of two kinds: each kind is walked, and a side that is not of the kind counts as absent.
            (left, right) => self
                .as_atom(left, old, new)
                .union(self.as_atom(right, old, new)),
        }
    }

    fn as_atom(self, atom: Atom<'_>, old: &Value, new: &Value) -> Sides {
        match atom {
            Atom::Map(map) => self.maps(map, old, new),
            Atom::List(list) => self.lists(list, old, new),
            Atom::Scalar(_) => leaf(old, new),
        }
    }

    fn maps(self, map: MapAtom<'_>, old: &Value, new: &Value) -> Sides {
        let (old_fields, new_fields) = (fields(old), fields(new));
        let both_empty =
            old_fields.is_none_or(Map::is_empty) && new_fields.is_none_or(Map::is_empty);
        if map.atomic || both_empty {
            return leaf(old, new);
        }
        let mut nodes = Nodes::default();
        zip(old_fields, new_fields, |name, old, new| {
            let place = map.field(name).place_or_opaque();
            let sides = match (self.or_zero(map, name, old), self.or_zero(map, name, new)) {
                (Some(old), Some(new)) => self.both(place, old, new),
                (Some(old), None) => Sides::removed(one_sided(place, old)),
                (None, Some(new)) => Sides::added(one_sided(place, new)),
                (None, None) => return,
            };
            nodes.push(|| PathElement::field(name), sides);
        });
        nodes.into_sides()
    }

    fn lists(self, list: ListAtom<'_>, old: &Value, new: &Value) -> Sides {
        let (old_items, new_items) = (items(old), items(new));
        if list.relation == Relation::Atomic || old_items.is_empty() && new_items.is_empty() {
            return leaf(old, new);
        }
        if old_items == new_items {
            return Sides::default();
        }
        let (old_items, new_items) = (grouped(list, old_items), grouped(list, new_items));
        let mut nodes = Nodes::default();
        let mut old_groups = old_items.chunk_by(|l, r| l.0 == r.0).peekable();
        let mut new_groups = new_items.chunk_by(|l, r| l.0 == r.0).peekable();
        loop {
            let order = match (old_groups.peek(), new_groups.peek()) {
                (Some([(old, _), ..]), Some([(new, _), ..])) => old.cmp(new),
                (Some(_), _) => Ordering::Less,
                (_, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let old_group = if order.is_le() {
                old_groups.next()
            } else {
                None
            }
            .unwrap_or_default();
            let new_group = if order.is_ge() {
                new_groups.next()
            } else {
                None
            }
            .unwrap_or_default();
            if let Some((element, _)) = old_group.first().or(new_group.first()) {
                let sides = self.items(list.items, old_group, new_group);
                nodes.push(|| element.clone(), sides);
            }
        }
        nodes.into_sides()
    }

    /// Compares the items of one element. Several on a side are one opaque value.
    fn items(
        self,
        place: Place<'_>,
        old: &[(PathElement, &Value)],
        new: &[(PathElement, &Value)],
    ) -> Sides {
        match (old, new) {
            ([], []) => Sides::default(),
            ([(_, old)], [(_, new)]) => self.both(place, old, new),
            ([(_, old)], []) => Sides::removed(one_sided(place, old)),
            ([], [(_, new)]) => Sides::added(one_sided(place, new)),
            ([_, _, ..], [_, _, ..]) => {
                let equal = old.len() == new.len()
                    && old
                        .iter()
                        .zip(new)
                        .all(|((_, l), (_, r))| values_equal(l, r));
                Sides {
                    modified: Part::leaf_if(!equal),
                    ..Sides::default()
                }
            }
            ([_, _, ..], _) => Sides {
                removed: Part::leaf_if(true),
                added: new
                    .first()
                    .map(|(_, new)| one_sided(place, new))
                    .unwrap_or_default(),
                modified: Part::default(),
            },
            (_, [_, _, ..]) => Sides {
                added: Part::leaf_if(true),
                removed: old
                    .first()
                    .map(|(_, old)| one_sided(place, old))
                    .unwrap_or_default(),
                modified: Part::default(),
            },
        }
    }

    fn or_zero<'v>(
        self,
        map: MapAtom<'_>,
        name: &str,
        value: Option<&'v Value>,
    ) -> Option<&'v Value> {
        match (value, self.model) {
            (None, Model::Native) => map.zero(name),
            _ => value,
        }
    }
}

/// All that a value holds where the other side has nothing: leaves, and every path to them.
fn one_sided(place: Place<'_>, value: &Value) -> Part {
    if matches!(place, Place::Invisible) {
        return Part::default();
    }
    let children = match (place.resolve(Some(value)), value) {
        (Atom::Map(map), Value::Object(fields)) if !map.atomic => {
            let nodes = fields.iter().filter_map(|(name, value)| {
                let part = one_sided(map.field(name).place_or_opaque(), value);
                part.into_node(|| PathElement::field(name))
            });
            FieldSet::from_nodes(nodes.collect())
        }
        (Atom::List(list), Value::Array(items)) if list.relation != Relation::Atomic => {
            let items = grouped(list, items);
            let nodes = items
                .chunk_by(|l, r| l.0 == r.0)
                .filter_map(|group| match group {
                    [(element, item)] => one_sided(list.items, item).into_node(|| element.clone()),
                    [(element, _), ..] => Part::leaf_if(true).into_node(|| element.clone()),
                    [] => None,
                });
            FieldSet::from_nodes(nodes.collect())
        }
        _ => FieldSet::new(),
    };
    Part {
        member: true,
        children,
    }
}

fn leaf(old: &Value, new: &Value) -> Sides {
    Sides {
        modified: Part::leaf_if(!values_equal(old, new)),
        ..Sides::default()
    }
}

fn fields(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The items with their elements, sorted by them, those of one element in their order.
fn grouped<'v>(list: ListAtom<'_>, items: &'v [Value]) -> Vec<(PathElement, &'v Value)> {
    let mut elements: Vec<(PathElement, &Value)> = items
        .iter()
        .filter_map(|item| list.element(item).ok().map(|element| (element, item)))
        .collect();
    elements.sort_by(|left, right| left.0.cmp(&right.0));
    elements
}

/// Visits the fields of two maps in order.
pub(crate) fn zip<'v>(
    old: Option<&'v Map<String, Value>>,
    new: Option<&'v Map<String, Value>>,
    mut visit: impl FnMut(&'v String, Option<&'v Value>, Option<&'v Value>),
) {
    let mut old = old.into_iter().flatten().peekable();
    let mut new = new.into_iter().flatten().peekable();
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        let old_field = if order.is_le() { old.next() } else { None };
        let new_field = if order.is_ge() { new.next() } else { None };
        if let Some((name, _)) = old_field.or(new_field) {
            visit(
                name,
                old_field.map(|field| field.1),
                new_field.map(|field| field.1),
            );
        }
    }
}

// === impl Part ===

impl Part {
    fn leaf_if(member: bool) -> Self {
        Self {
            member,
            children: FieldSet::new(),
        }
    }

    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    fn into_node(self, element: impl FnOnce() -> PathElement) -> Option<Node> {
        if self.is_empty() {
            return None;
        }
        Some(Node {
            element: element(),
            member: self.member,
            children: self.children,
        })
    }

    fn union(self, other: Self) -> Self {
        Self {
            member: self.member || other.member,
            children: self.children.union(other.children),
        }
    }
}

// === impl Sides ===

impl Sides {
    fn removed(removed: Part) -> Self {
        Self {
            removed,
            ..Self::default()
        }
    }

    fn added(added: Part) -> Self {
        Self {
            added,
            ..Self::default()
        }
    }

    fn union(self, other: Self) -> Self {
        Self {
            removed: self.removed.union(other.removed),
            modified: self.modified.union(other.modified),
            added: self.added.union(other.added),
        }
    }
}

// === impl Nodes ===

impl Nodes {
    fn push(&mut self, element: impl Fn() -> PathElement, sides: Sides) {
        self.removed.extend(sides.removed.into_node(&element));
        self.modified.extend(sides.modified.into_node(&element));
        self.added.extend(sides.added.into_node(&element));
    }

    fn into_sides(self) -> Sides {
        let below = |nodes| Part {
            member: false,
            children: FieldSet::from_nodes(nodes),
        };
        Sides {
            removed: below(self.removed),
            modified: below(self.modified),
            added: below(self.added),
        }
    }
}
