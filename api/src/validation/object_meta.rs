//! Metadata of an object at its creation and at an update.
//!
//! **Invariant:** values of the wrong type are not judged here; decoding has refused or dropped them before.
//!
//! Source: `apimachinery/pkg/api/validation/objectmeta.go`.

use std::collections::BTreeSet;

use dialect::names::{NameRule, is_label_value, is_qualified_name};
use dialect::{is_print, quote};
use serde_json::{Map, Value};

use crate::crd::Scope;
use crate::field::{FINDINGS_MAX, FieldError, FieldPath};
use crate::group::GroupVersion;
use crate::meta::{self, FINALIZER_FOREGROUND, FINALIZER_ORPHAN};

/// How large the keys and values of all annotations together may be.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// How long the name of a field manager may be.
pub const FIELD_MANAGER_BYTES_MAX: usize = 128;
/// How long the name of a subresource in managed fields may be.
const SUBRESOURCE_BYTES_MAX: usize = 256;

/// How many owners a finding shows that is about all of them.
const OWNERS_SHOWN_MAX: usize = 100;

const IMMUTABLE: &str = "field is immutable";

/// Checks a name by a rule.
fn validate_name(rule: NameRule, name: &str, path: &FieldPath) -> Vec<FieldError> {
    let wrong = rule.check(name).into_iter();
    wrong
        .map(|text| FieldError::invalid(path, name, text))
        .collect()
}

/// Judges the metadata of a new object, after its name was generated.
pub fn validate_object_meta(
    object: &Value,
    scope: Scope,
    rule: NameRule,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let stem = meta::generate_name(object);
    if !stem.is_empty() {
        let path = path.child("generateName");
        let wrong = rule.check_prefix(stem);
        errors.extend(
            wrong
                .into_iter()
                .map(|text| FieldError::invalid(&path, stem, text)),
        );
    }
    let name = meta::name(object);
    if name.is_empty() {
        errors.push(FieldError::required(
            &path.child("name"),
            "name or generateName is required",
        ));
    } else {
        errors.extend(validate_name(rule, name, &path.child("name")));
    }
    validate_namespace(object, scope, &path.child("namespace"), &mut errors);
    validate_generation(object, path, &mut errors);
    validate_common(object, path, &mut errors);
    errors.extend(validate_finalizers(
        &meta::finalizers(object),
        &path.child("finalizers"),
    ));
    errors
}

/// Judges what an update changes of the metadata.
pub fn validate_object_meta_update(new: &Value, old: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if meta::is_terminating(old) {
        validate_no_new_finalizers(new, old, &path.child("finalizers"), &mut errors);
    }
    if meta::resource_version(new).is_empty() {
        // A number, because Kubernetes judges the parsed version here.
        let path = path.child("resourceVersion");
        errors.push(FieldError::invalid(
            &path,
            0,
            "must be specified for an update",
        ));
    }
    validate_generation(new, path, &mut errors);
    if meta::generation(new) < meta::generation(old) {
        let path = path.child("generation");
        errors.push(FieldError::invalid(
            &path,
            meta::generation(new),
            "must not be decremented",
        ));
    }
    for field in ["name", "namespace", "uid"] {
        let of = |object| {
            metadata_field(object, field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        if of(new) != of(old) {
            errors.push(FieldError::invalid(&path.child(field), of(new), IMMUTABLE));
        }
    }
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let of = |object| metadata_field(object, field).unwrap_or(&Value::Null);
        if of(new) != of(old) {
            errors.push(FieldError::invalid(
                &path.child(field),
                of(new).clone(),
                IMMUTABLE,
            ));
        }
    }
    validate_common(new, path, &mut errors);
    errors
}

/// Judges keys and values of labels.
pub fn validate_labels(labels: &Map<String, Value>, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        if errors.len() >= FINDINGS_MAX {
            break;
        }
        let wrong = is_qualified_name(key);
        errors.extend(
            wrong
                .into_iter()
                .map(|text| FieldError::invalid(path, key.as_str(), text)),
        );
        if let Some(value) = value.as_str() {
            let wrong = is_label_value(value);
            errors.extend(
                wrong
                    .into_iter()
                    .map(|text| FieldError::invalid(path, value, text)),
            );
        }
    }
    errors
}

/// Judges the keys of annotations and the size of all of them.
pub fn validate_annotations(annotations: &Map<String, Value>, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut bytes = 0_usize;
    for (key, value) in annotations {
        if errors.len() < FINDINGS_MAX {
            let wrong = is_qualified_name(&key.to_lowercase());
            errors.extend(
                wrong
                    .into_iter()
                    .map(|text| FieldError::invalid(path, key.as_str(), text)),
            );
        }
        let value_bytes = value.as_str().map_or(0, str::len);
        bytes = bytes.saturating_add(key.len()).saturating_add(value_bytes);
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_BYTES_MAX));
    }
    errors
}

/// Judges owner references: complete, none an Event, at most one of them the controller.
pub fn validate_owner_references(references: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    let all = references.as_array().map_or(&[][..], Vec::as_slice);
    for (index, reference) in all.iter().enumerate() {
        if errors.len() >= FINDINGS_MAX {
            break;
        }
        validate_owner_reference(reference, &path.index(index), &mut errors);
        if reference.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let current = format!("{}/{}", text(reference, "kind"), text(reference, "name"));
        match &controller {
            None => controller = Some(current),
            Some(first) => errors.push(FieldError::invalid(
                path,
                // Each of these shows all references.
                if all.len() > OWNERS_SHOWN_MAX {
                    Value::Null
                } else {
                    references.clone()
                },
                format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {current}"
                ),
            )),
        }
    }
    errors
}

/// Judges the names of finalizers and whether they contradict each other.
pub fn validate_finalizers(finalizers: &[&str], path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for &finalizer in finalizers {
        if errors.len() >= FINDINGS_MAX {
            break;
        }
        let wrong = is_qualified_name(finalizer);
        errors.extend(
            wrong
                .into_iter()
                .map(|text| FieldError::invalid(path, finalizer, text)),
        );
    }
    if finalizers.contains(&FINALIZER_FOREGROUND) && finalizers.contains(&FINALIZER_ORPHAN) {
        errors.push(FieldError::invalid(
            path,
            finalizers,
            format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set"),
        ));
    }
    errors
}

/// Warns of finalizers of custom resources that have no domain in front, one text for each.
pub fn finalizer_warnings(finalizers: &[&str], path: &FieldPath) -> Vec<String> {
    let known = [FINALIZER_FOREGROUND, FINALIZER_ORPHAN, "kubernetes"];
    finalizers
        .iter()
        .filter(|finalizer| !finalizer.contains('/') && !known.contains(finalizer))
        .map(|finalizer| {
            format!(
                "{path}: {}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers",
                quote(finalizer)
            )
        })
        .collect()
}

/// Judges managed fields: known operation and format, a manager's name that can be printed.
pub fn validate_managed_fields(entries: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
        if errors.len() >= FINDINGS_MAX {
            break;
        }
        let path = |field: &str| path.index(index).child(field);
        match text(entry, "operation") {
            "Apply" | "Update" => {}
            "" => errors.push(FieldError::required(
                &path("operation"),
                "must not be empty",
            )),
            other => errors.push(FieldError::not_supported(
                &path("operation"),
                other,
                ["Apply", "Update"],
            )),
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(FieldError::invalid(
                &path("fieldsType"),
                fields_type,
                "must be `FieldsV1`",
            ));
        }
        let manager = text(entry, "manager");
        if !is_field_manager(manager) {
            errors.extend(validate_field_manager(manager, &path("manager")));
        }
        if text(entry, "subresource").len() > SUBRESOURCE_BYTES_MAX {
            let path = path("subresource");
            errors.push(FieldError::too_long(&path, SUBRESOURCE_BYTES_MAX));
        }
    }
    errors
}

/// Whether [`validate_field_manager`] finds nothing.
fn is_field_manager(manager: &str) -> bool {
    manager.len() <= FIELD_MANAGER_BYTES_MAX && manager.chars().all(is_print)
}

/// Judges the name of a field manager; empty stands for none.
pub fn validate_field_manager(manager: &str, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_BYTES_MAX));
    }
    for (position, character) in manager.char_indices().filter(|(_, it)| !is_print(*it)) {
        errors.push(FieldError::invalid(
            path,
            manager,
            format!(
                "invalid character U+{:04X} (at position {position})",
                u32::from(character)
            ),
        ));
    }
    errors
}

fn validate_namespace(
    object: &Value,
    scope: Scope,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let namespace = meta::namespace(object);
    match scope {
        Scope::Namespaced if namespace.is_empty() => errors.push(FieldError::required(path, "")),
        Scope::Namespaced => errors.extend(validate_name(NameRule::DnsLabel, namespace, path)),
        Scope::Cluster if namespace.is_empty() => {}
        Scope::Cluster => errors.push(FieldError::forbidden(path, "not allowed on this type")),
    }
}

fn validate_generation(object: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let generation = meta::generation(object);
    if generation < 0 {
        let path = path.child("generation");
        errors.push(FieldError::invalid(
            &path,
            generation,
            "must be greater than or equal to 0",
        ));
    }
}

/// Judges what is judged in the same way at a creation and at an update.
fn validate_common(object: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if let Some(labels) = meta::labels(object) {
        errors.extend(validate_labels(labels, &path.child("labels")));
    }
    if let Some(annotations) = meta::annotations(object) {
        errors.extend(validate_annotations(
            annotations,
            &path.child("annotations"),
        ));
    }
    if let Some(references) = metadata_field(object, "ownerReferences") {
        errors.extend(validate_owner_references(
            references,
            &path.child("ownerReferences"),
        ));
    }
    if let Some(entries) = metadata_field(object, "managedFields") {
        errors.extend(validate_managed_fields(
            entries,
            &path.child("managedFields"),
        ));
    }
}

fn validate_no_new_finalizers(
    new: &Value,
    old: &Value,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let old_names = meta::finalizers(old);
    let added: BTreeSet<&str> = meta::finalizers(new)
        .into_iter()
        .filter(|name| !old_names.contains(name))
        .collect();
    if !added.is_empty() {
        errors.push(FieldError::forbidden(
            path,
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {}",
                dialect::string_slice(added)
            ),
        ));
    }
}

fn validate_owner_reference(reference: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let api_version = text(reference, "apiVersion");
    let group_version = api_version.parse::<GroupVersion>().ok();
    if api_version.is_empty() {
        errors.push(FieldError::required(
            &path.child("apiVersion"),
            "must not be empty",
        ));
    } else if group_version
        .as_ref()
        .is_none_or(|it| it.version.is_empty())
    {
        errors.push(FieldError::invalid(
            &path.child("apiVersion"),
            api_version,
            "must be <group>/<version> or <version>",
        ));
    }
    for field in ["kind", "name", "uid"] {
        if text(reference, field).is_empty() {
            errors.push(FieldError::required(
                &path.child(field),
                "must not be empty",
            ));
        }
    }
    if api_version == "v1" && text(reference, "kind") == "Event" {
        errors.push(FieldError::invalid(
            path,
            reference.clone(),
            "/v1, Kind=Event is disallowed from being an owner",
        ));
    }
}

fn metadata_field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    meta::metadata(object)?.get(name)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
