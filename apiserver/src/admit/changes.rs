//! What policies and webhooks that change an object have in common.

use api::meta;
use api::wheelhouse::keys::ANNOTATION_AUTHOR;
use serde_json::Value;

use super::occasion::Write;
use crate::guards::attributes::Operation;

/// The rounds of those that change objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    First,
    /// Those that want to see what others changed after them.
    Again,
}

/// Whether an object is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Unchanged,
    Changed,
}

/// A write with the object as it is now.
pub(super) fn shown<'a>(write: Write<'a>, object: &'a Value) -> Write<'a> {
    let object = match write.operation {
        Operation::Delete => None,
        Operation::Create | Operation::Update => Some(object),
    };
    Write { object, ..write }
}

/// Puts a changed object in the place of the one before.
pub(super) fn replace(object: &mut Value, changed: Value) -> Outcome {
    if changed == *object {
        return Outcome::Unchanged;
    }
    *object = changed;
    Outcome::Changed
}

/// Restores what is not for admission to say: who owns which field, and in whose name children are made.
pub(super) fn keep(before: &Value, changed: &mut Value) {
    let managed = meta::metadata(before).and_then(|metadata| metadata.get("managedFields"));
    match managed.cloned() {
        Some(managed) => {
            meta::metadata_mut(changed).insert("managedFields".to_owned(), managed);
        }
        None => {
            meta::remove_field(changed, "managedFields");
        }
    }
    match meta::annotation(before, ANNOTATION_AUTHOR) {
        Some(author) => meta::set_annotation(changed, ANNOTATION_AUTHOR, author),
        None => meta::remove_annotation(changed, ANNOTATION_AUTHOR),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn admission_names_neither_owners_of_fields_nor_authors() {
        let author = |name: &str| json!({"annotations": {ANNOTATION_AUTHOR: name, "a": "b"}, "managedFields": [name]});
        let plain = json!({"annotations": {"a": "b"}});
        for (before, changed) in [
            (author("alice"), author("admin")),
            (author("alice"), plain.clone()),
            (plain, author("admin")),
        ] {
            let (before, mut changed) = (json!({"metadata": before}), json!({"metadata": changed}));
            keep(&before, &mut changed);
            assert_eq!(changed, before);
        }
    }
}
