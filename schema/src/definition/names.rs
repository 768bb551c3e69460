//! The names of a kind.

use api::crd::Names;
use api::{FieldError, FieldPath};

use super::label;

/// What precedes the rule where capitals are allowed.
const MIXED_CASE: &str = "may have mixed case, but should otherwise match: ";

/// Names that a definition must have.
pub(super) fn validate_required(names: &Names, path: &FieldPath) -> Vec<FieldError> {
    let required = [
        ("plural", &names.plural),
        ("singular", &names.singular),
        ("kind", &names.kind),
        ("listKind", &names.list_kind),
    ];
    let missing = required.into_iter().filter(|(_, name)| name.is_empty());
    missing
        .map(|(field, _)| FieldError::required(&path.child(field), ""))
        .collect()
}

/// Names that are there, in the spec or among the accepted ones.
pub(super) fn validate(names: &Names, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let single = [
        ("plural", &names.plural, ""),
        ("singular", &names.singular, ""),
        ("kind", &names.kind, MIXED_CASE),
        ("listKind", &names.list_kind, MIXED_CASE),
    ];
    for (field, name, prefix) in single {
        if !name.is_empty() {
            errors.extend(label(name, &path.child(field), prefix));
        }
    }
    let list = |field: &str, names: &[String], errors: &mut Vec<FieldError>| {
        for (index, name) in names.iter().enumerate() {
            errors.extend(label(name, &path.child(field).index(index), ""));
        }
    };
    list("shortNames", &names.short_names, &mut errors);
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(
            &path.child("listKind"),
            names.list_kind.as_str(),
            detail,
        ));
    }
    list("categories", &names.categories, &mut errors);
    errors
}
