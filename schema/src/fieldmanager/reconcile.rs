//! Sets of fields against a schema: what a change of the schema does to them, and the structs on the way to members.
//!
//! Source: `structured-merge-diff/typed/reconcile_schema.go`, `fieldpath/set.go`; api-compat 3.5.

use super::element::PathElement;
use super::model::{Atom, Field, MapAtom, Place, Relation};
use super::set::{FieldSet, Node};

/// Follows a schema in which a list or map became atomic: who owned something in it owns it whole. `None` if nothing
/// is to be changed.
pub(crate) fn reconcile(place: Place<'_>, fields: &FieldSet) -> Option<FieldSet> {
    let mut walk = Walk {
        path: Vec::new(),
        atomics: FieldSet::new(),
    };
    walk.place(place, fields, false);
    if walk.atomics.is_empty() {
        return None;
    }
    Some(
        fields
            .clone()
            .recursive_difference(&walk.atomics)
            .union(walk.atomics),
    )
}

/// Adds the declared fields that have members below them: without them a struct would be left behind empty where its
/// last field is removed.
pub(crate) fn with_named_fields(place: Option<Place<'_>>, mut fields: FieldSet) -> FieldSet {
    let map = place.and_then(Place::as_map);
    let list = place.and_then(Place::as_list);
    for node in fields
        .nodes_mut()
        .iter_mut()
        .filter(|node| !node.children.is_empty())
    {
        let below = match &node.element {
            PathElement::Field(name) => match map.map(|map| map.field(name)) {
                Some(Field::Declared(place)) => {
                    node.member = true;
                    Some(place)
                }
                Some(Field::Element(place)) => Some(place),
                Some(Field::Undeclared) | None => None,
            },
            PathElement::Key(_) => list.map(|list| list.items),
            PathElement::Value(_) | PathElement::Index(_) => None,
        };
        node.children = with_named_fields(below, std::mem::take(&mut node.children));
    }
    fields
}

/// Whether each step to a member is a declared field or a member itself, as in every set that was collected from a
/// configuration.
pub(crate) fn is_closed(place: Option<Place<'_>>, fields: &FieldSet) -> bool {
    let map = place.and_then(Place::as_map);
    let list = place.and_then(Place::as_list);
    fields
        .nodes()
        .iter()
        .filter(|node| !node.children.is_empty())
        .all(|node| {
            let (declared, below) = match &node.element {
                PathElement::Field(name) => match map.map(|map| map.field(name)) {
                    Some(Field::Declared(place)) => (true, Some(place)),
                    Some(Field::Element(place)) => (false, Some(place)),
                    Some(Field::Undeclared) | None => (false, None),
                },
                PathElement::Key(_) => (false, list.map(|list| list.items)),
                PathElement::Value(_) | PathElement::Index(_) => (false, None),
            };
            (declared || node.member) && is_closed(below, &node.children)
        })
}

struct Walk<'s> {
    path: Vec<&'s PathElement>,
    atomics: FieldSet,
}

// === impl Walk ===

impl<'s> Walk<'s> {
    fn place(&mut self, place: Place<'_>, fields: &'s FieldSet, is_leaf: bool) {
        if matches!(place, Place::Invisible) {
            return;
        }
        match place.resolve(None) {
            Atom::Scalar(_) => {}
            Atom::List(list) if list.relation == Relation::Atomic => {
                if !is_leaf {
                    self.note_atomic();
                }
            }
            Atom::List(list) => self.nodes(fields, |_element| Some(list.items)),
            Atom::Map(map) if map.is_untyped() => {}
            Atom::Map(map) if map.atomic => {
                if !is_leaf && !fields.is_empty() {
                    self.note_atomic();
                }
            }
            Atom::Map(map) => self.nodes(fields, |element| field_place(map, element)),
        }
    }

    fn nodes<'p>(
        &mut self,
        fields: &'s FieldSet,
        place_of: impl Fn(&PathElement) -> Option<Place<'p>>,
    ) {
        for Node {
            element,
            member,
            children,
        } in fields.nodes()
        {
            if let Some(place) = place_of(element) {
                self.path.push(element);
                self.place(place, children, *member && children.is_empty());
                self.path.pop();
            }
        }
    }

    fn note_atomic(&mut self) {
        let path: Vec<PathElement> = self.path.iter().map(|element| (*element).clone()).collect();
        self.atomics.insert(&path);
    }
}

fn field_place<'a>(map: MapAtom<'a>, element: &PathElement) -> Option<Place<'a>> {
    match element {
        PathElement::Field(name) => map.field(name).place(),
        // Not the element of a map: the type of fields that the schema does not name.
        _ => map.field("").place(),
    }
}
