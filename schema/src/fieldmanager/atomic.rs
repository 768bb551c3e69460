//! Which parts of a configuration replace lists, maps or structs as a whole.
//!
//! Source: `findAtomics` in `apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go`.

use serde_json::Value;

use super::model::{Atom, Field, Place, Relation};

/// How many places are named.
const TOLD_COUNT_MAX: usize = 10;

/// The paths of lists, maps and structs in `value` that are owned as a whole: `.spec.selector`.
pub(super) fn places(place: Place<'_>, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find(place, value, &mut String::new(), &mut found);
    found
}

fn find(place: Place<'_>, value: &Value, path: &mut String, found: &mut Vec<String>) {
    if found.len() >= TOLD_COUNT_MAX {
        return;
    }
    match (place.resolve(Some(value)), value) {
        (Atom::Map(map), Value::Object(fields)) => {
            if map.atomic {
                found.push(path.clone());
            }
            for (name, value) in fields {
                if let Field::Declared(place) = map.field(name) {
                    within(path, &format!(".{name}"), |path| {
                        find(place, value, path, found);
                    });
                }
            }
        }
        (Atom::List(list), Value::Array(items)) => {
            if list.relation == Relation::Atomic {
                found.push(path.clone());
            }
            for (index, item) in items.iter().enumerate() {
                within(path, &format!("[{index}]"), |path| {
                    find(list.items, item, path, found);
                });
            }
        }
        _ => {}
    }
}

/// Does something one step further on a path.
fn within(path: &mut String, step: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(step);
    then(path);
    path.truncate(length);
}
