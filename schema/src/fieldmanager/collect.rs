//! The fields that a configuration sets: what an applier comes to own.
//!
//! Leaves are members, items of associative lists are, and so are keys that the schema does not name. Declared structs
//! and lists that hold something are not: their leaves are.
//!
//! Source: `structured-merge-diff/typed/tofieldset.go`; api-compat 3.3.

use serde_json::Value;

use super::element::PathElement;
use super::model::{Atom, Field, ListAtom, MapAtom, Place, Relation};
use super::set::{FieldSet, Node};

/// Collects the fields of a value that was checked.
pub(crate) fn field_set(place: Place<'_>, value: &Value) -> FieldSet {
    visit(place, value).children
}

/// What a value contributes: whether its own path is a member, and what lies below.
struct Contribution {
    member: bool,
    children: FieldSet,
}

const LEAF: Contribution = Contribution {
    member: true,
    children: FieldSet::new(),
};
const NOTHING: Contribution = Contribution {
    member: false,
    children: FieldSet::new(),
};

fn visit(place: Place<'_>, value: &Value) -> Contribution {
    if matches!(place, Place::Invisible) {
        return NOTHING;
    }
    match place.resolve(Some(value)) {
        Atom::Scalar(_) => LEAF,
        Atom::Map(map) if map.atomic => LEAF,
        Atom::Map(map) => match value {
            Value::Object(fields) => Contribution {
                member: false,
                children: visit_map(map, fields),
            },
            _ => NOTHING,
        },
        Atom::List(list) if list.relation == Relation::Atomic => LEAF,
        Atom::List(list) => match value {
            Value::Array(items) => Contribution {
                member: false,
                children: visit_list(list, items),
            },
            _ => NOTHING,
        },
    }
}

fn visit_map(map: MapAtom<'_>, fields: &serde_json::Map<String, Value>) -> FieldSet {
    let mut nodes = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        let field = map.field(name);
        let place = field.place_or_opaque();
        if matches!(place, Place::Invisible) {
            continue;
        }
        let Contribution { member, children } = visit(place, value);
        let empty = match value {
            Value::Null => true,
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        let member = member || empty || !matches!(field, Field::Declared(_));
        if member || !children.is_empty() {
            nodes.push(Node {
                element: PathElement::field(name),
                member,
                children,
            });
        }
    }
    FieldSet::from_nodes(nodes)
}

fn visit_list(list: ListAtom<'_>, items: &[Value]) -> FieldSet {
    let mut elements: Vec<(PathElement, &Value)> = items
        .iter()
        .filter_map(|item| list.element(item).ok().map(|element| (element, item)))
        .collect();
    elements.sort_by(|left, right| left.0.cmp(&right.0));
    let mut nodes = Vec::with_capacity(elements.len());
    let mut rest = elements.into_iter().peekable();
    while let Some((element, item)) = rest.next() {
        let mut duplicated = false;
        while rest.next_if(|(next, _)| *next == element).is_some() {
            duplicated = true;
        }
        let children = if duplicated {
            FieldSet::new()
        } else {
            visit(list.items, item).children
        };
        nodes.push(Node {
            element,
            member: true,
            children,
        });
    }
    FieldSet::from_nodes(nodes)
}
