//! The check that a value is what its schema says, as far as field ownership needs it.
//!
//! It is not validation: bounds and required fields are not looked at. It is what makes the other walks over a value
//! infallible: comparison, merge and collection take a value that passed.
//!
//! Source: `structured-merge-diff/typed/validate.go`, `helpers.go`; api-compat 3.2.

use std::fmt;

use dialect::value;
use serde_json::Value;

use super::element::{PathElement, path_text};
use super::model::{Atom, Field, ListAtom, MapAtom, Place, Relation, ScalarAtom};

/// All that is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedErrors(Vec<TypedError>);

/// One thing that is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedError {
    /// The path to it, `.spec.replicas`.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

/// Whether an associative list may hold two items of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// Checks an object.
pub(crate) fn check(
    place: Place<'_>,
    value: &Value,
    duplicates: Duplicates,
) -> Result<(), TypedErrors> {
    let mut walk = Walk {
        duplicates,
        path: Vec::new(),
        errors: Vec::new(),
    };
    walk.value(place, value);
    if walk.errors.is_empty() {
        Ok(())
    } else {
        Err(TypedErrors(walk.errors))
    }
}

struct Walk<'a, 'v> {
    duplicates: Duplicates,
    path: Vec<Step<'a, 'v>>,
    errors: Vec<TypedError>,
}

/// A path element that is made only where an error needs it.
enum Step<'a, 'v> {
    Field(&'v str),
    Index(usize),
    Item(ListAtom<'a>, &'v Value),
}

// === impl Walk ===

impl<'a, 'v> Walk<'a, 'v> {
    fn value(&mut self, place: Place<'a>, value: &'v Value) {
        if matches!(place, Place::Invisible) || value.is_null() {
            return;
        }
        match (place.resolve(Some(value)), value) {
            (Atom::Map(map), Value::Object(fields)) => self.map(map, fields),
            (Atom::Map(_), other) => self.error(format!("expected map, got {}", pointer(other))),
            (Atom::List(list), Value::Array(items)) => self.list(list, items),
            (Atom::List(_), other) => self.error(format!("expected list, got {}", pointer(other))),
            (Atom::Scalar(scalar), value) => {
                if let Some(message) = scalar_error(scalar, value) {
                    self.error(message);
                }
            }
        }
    }

    fn map(&mut self, map: MapAtom<'a>, fields: &'v serde_json::Map<String, Value>) {
        for (name, value) in fields {
            self.path.push(Step::Field(name));
            match map.field(name) {
                Field::Declared(place) | Field::Element(place) => self.value(place, value),
                Field::Undeclared => {
                    // One is told, as Kubernetes does.
                    self.error("field not declared in schema".to_owned());
                    self.path.pop();
                    return;
                }
            }
            self.path.pop();
        }
    }

    fn list(&mut self, list: ListAtom<'a>, items: &'v [Value]) {
        let watch = self.duplicates == Duplicates::Refused && items.len() > 1;
        let mut seen: Vec<PathElement> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let step = if list.relation == Relation::Atomic {
                Step::Index(index)
            } else {
                let found = if watch {
                    list.element(item)
                        .map(|element| self.note(&mut seen, element))
                } else {
                    list.check_item(item)
                };
                if let Err(message) = found {
                    self.error(format!("element {index}: {message}"));
                    return;
                }
                Step::Item(list, item)
            };
            self.path.push(step);
            self.value(list.items, item);
            self.path.pop();
        }
    }

    fn note(&mut self, seen: &mut Vec<PathElement>, element: PathElement) {
        match seen.binary_search(&element) {
            Ok(_) => self.error(format!("duplicate entries for key {element}")),
            Err(index) => seen.insert(index, element),
        }
    }

    fn error(&mut self, message: String) {
        let path: Vec<PathElement> = self
            .path
            .iter()
            .filter_map(|step| match step {
                Step::Field(name) => Some(PathElement::field(name)),
                Step::Index(index) => i64::try_from(*index).ok().map(PathElement::Index),
                Step::Item(list, item) => list.element(item).ok(),
            })
            .collect();
        self.errors.push(TypedError {
            path: path_text(&path),
            message,
        });
    }
}

fn scalar_error(scalar: ScalarAtom, value: &Value) -> Option<String> {
    match (scalar, value) {
        (ScalarAtom::Numeric, Value::Number(_))
        | (ScalarAtom::Text, Value::String(_))
        | (ScalarAtom::Boolean, Value::Bool(_))
        | (ScalarAtom::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (ScalarAtom::Numeric, other) => Some(format!(
            "expected numeric (int or float), got {}",
            value::type_name(other)
        )),
        (ScalarAtom::Text, other) => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            value::syntax(other)
        )),
        (ScalarAtom::Boolean, other) => Some(format!("expected boolean, got {}", pointer(other))),
        (ScalarAtom::Untyped, other) => {
            Some(format!("expected any scalar, got {}", pointer(other)))
        }
    }
}

/// A value as Go prints a pointer to its wrapper.
fn pointer(value: &Value) -> String {
    format!("&{{{}}}", value::plain(value))
}

// === impl TypedErrors ===

impl TypedErrors {
    /// The errors, at least one.
    pub fn errors(&self) -> &[TypedError] {
        &self.0
    }
}

impl fmt::Display for TypedErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => one.fmt(f),
            errors => {
                f.write_str("errors:")?;
                errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for TypedErrors {}

impl fmt::Display for TypedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}
