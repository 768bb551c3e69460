//! What a definition of a kind must look like, and what the server adds to it.
//!
//! A definition is completed ([`complete`]), then judged ([`validate_definition`] or [`validate_definition_update`]);
//! only then may its schemas be served. Invariant: a schema of an accepted definition parses, is structural, and its
//! defaults satisfy it.
//!
//! Thinner than Kubernetes in one place: an update is not forgiven what an older server had accepted, except for what
//! single rules cost where the schema is unchanged.
//!
//! Source: `apiextensions-apiserver/pkg/apis/apiextensions/{validation/validation.go,v1/defaults.go}`,
//! `apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go`.

use std::collections::HashSet;

use api::crd::{
    ANNOTATION_API_APPROVED, CONDITION_ESTABLISHED, Conversion, CustomResourceDefinition,
    DefinitionSpec, Scope,
};
use api::validation::{self, NameRule, is_dns1035_label};
use api::{FieldError, FieldPath};
use serde_json::Value;

mod approval;
mod conversion;
mod defaults;
mod keywords;
mod names;
mod nodes;
mod structural;
mod versions;
mod warnings;

pub use approval::{Approval, approval};
pub use warnings::warnings;

/// Fills in what a definition leaves out: names, the conversion strategy, ports of webhooks.
pub fn complete(definition: &mut CustomResourceDefinition) {
    let names = &mut definition.spec.names;
    if names.singular.is_empty() {
        names.singular = names.kind.to_lowercase();
    }
    if names.list_kind.is_empty() && !names.kind.is_empty() {
        names.list_kind = format!("{}List", names.kind);
    }
    let conversion = definition
        .spec
        .conversion
        .get_or_insert_with(|| Conversion {
            strategy: "None".to_owned(),
            ..Conversion::default()
        });
    let service = conversion.webhook.as_mut().and_then(|webhook| {
        webhook
            .get_mut("clientConfig")?
            .get_mut("service")?
            .as_object_mut()
    });
    if let Some(service) = service {
        service.entry("port").or_insert_with(|| Value::from(443));
    }
}

/// Notes the storage version among those in which objects may be stored.
pub fn note_stored_version(definition: &mut CustomResourceDefinition) {
    let storage = definition
        .spec
        .versions
        .iter()
        .find(|version| version.storage);
    let Some(name) = storage.map(|version| version.name.clone()) else {
        return;
    };
    let status = definition.status.get_or_insert_default();
    if !status.stored_versions.contains(&name) {
        status.stored_versions.push(name);
    }
}

/// What is wrong with a new definition, which was [completed](complete) and whose stored versions were noted.
pub fn validate_definition(definition: &CustomResourceDefinition) -> Vec<FieldError> {
    let object = definition.to_value();
    let metadata = FieldPath::new("metadata");
    let mut errors = validation::validate_object_meta(
        &object,
        Scope::Cluster,
        NameRule::DnsSubdomain,
        &metadata,
    );
    let wanted = format!("{}.{}", definition.spec.names.plural, definition.spec.group);
    if definition.metadata.name != wanted {
        errors.push(FieldError::invalid(
            &metadata.child("name"),
            definition.metadata.name.as_str(),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    errors.extend(validate_parts(definition, None));
    errors.extend(approval::validate(definition, None));
    if definition.spec.preserve_unknown_fields {
        errors.push(preserves_unknown_fields());
    }
    errors
}

/// What is wrong with a definition that replaces `old`.
pub fn validate_definition_update(
    definition: &CustomResourceDefinition,
    old: &CustomResourceDefinition,
) -> Vec<FieldError> {
    let metadata = FieldPath::new("metadata");
    let (object, old_object) = (definition.to_value(), old.to_value());
    let mut errors = validation::validate_object_meta_update(&object, &old_object, &metadata);
    errors.extend(validate_parts(definition, Some(&old.spec)));
    errors.extend(validate_immutable(
        &definition.spec,
        &old.spec,
        is_established(old),
    ));
    errors.extend(approval::validate(definition, Some(old)));
    if definition.spec.preserve_unknown_fields && !old.spec.preserve_unknown_fields {
        errors.push(preserves_unknown_fields());
    }
    errors
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    definition.is_condition_true(CONDITION_ESTABLISHED)
}

fn preserves_unknown_fields() -> FieldError {
    FieldError::invalid(
        &FieldPath::new("spec.preserveUnknownFields"),
        true,
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
    )
}

/// Spec and status, as they stand.
fn validate_parts(
    definition: &CustomResourceDefinition,
    old: Option<&DefinitionSpec>,
) -> Vec<FieldError> {
    let mut errors = validate_spec(&definition.spec, old);
    errors.extend(validate_accepted_names(definition));
    errors.extend(validate_stored_versions(definition));
    errors
}

fn validate_spec(spec: &DefinitionSpec, old: Option<&DefinitionSpec>) -> Vec<FieldError> {
    let path = FieldPath::new("spec");
    let mut errors = Vec::new();
    let group_path = path.child("group");
    if spec.group.is_empty() {
        errors.push(FieldError::required(&group_path, ""));
    } else {
        let wrong = validation::is_dns_subdomain(&spec.group);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(
                &group_path,
                spec.group.as_str(),
                wrong.join(","),
            ));
        } else if !spec.group.contains('.') {
            let detail = "should be a domain with at least one dot";
            errors.push(FieldError::invalid(
                &group_path,
                spec.group.as_str(),
                detail,
            ));
        }
    }
    if spec.preserve_unknown_fields {
        errors.extend(preserved_unsafely(spec, &path));
    }
    errors.extend(versions::validate((spec, old), &path));
    errors.extend(names::validate_required(&spec.names, &path.child("names")));
    errors.extend(names::validate(&spec.names, &path.child("names")));
    errors.extend(conversion::validate(
        spec.conversion.as_ref(),
        &path.child("conversion"),
    ));
    errors
}

/// What asks for schemas by which unknown fields are removed.
fn preserved_unsafely(spec: &DefinitionSpec, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if versions::have_defaults(&spec.versions) {
        errors.push(FieldError::invalid(
            &path.child("preserveUnknownFields"),
            true,
            "must be false in order to use defaults in the schema",
        ));
    }
    let strategy = spec.conversion.as_ref().map(|it| it.strategy.as_str());
    if let Some(strategy) = strategy.filter(|it| *it != "None") {
        let detail = "must be None if spec.preserveUnknownFields is true";
        let place = path.child("conversion").child("strategy");
        errors.push(FieldError::invalid(&place, strategy, detail));
    }
    errors
}

fn validate_accepted_names(definition: &CustomResourceDefinition) -> Vec<FieldError> {
    let accepted = definition
        .status
        .as_ref()
        .map(|status| &status.accepted_names);
    let path = FieldPath::new("status.acceptedNames");
    accepted
        .map(|names| names::validate(names, &path))
        .unwrap_or_default()
}

fn validate_stored_versions(definition: &CustomResourceDefinition) -> Vec<FieldError> {
    let path = FieldPath::new("status.storedVersions");
    let stored = definition
        .status
        .as_ref()
        .map(|it| it.stored_versions.as_slice());
    let stored = stored.unwrap_or_default();
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        return vec![FieldError::invalid(&path, Value::Null, detail)];
    }
    let mut errors = Vec::new();
    let versions = &definition.spec.versions;
    // Each of them is found once, also where two versions have one name.
    let mut found = HashSet::new();
    for version in versions {
        let is_found = stored.contains(&version.name) && found.insert(version.name.as_str());
        if is_found || !version.storage {
            continue;
        }
        let detail = format!("must have the storage version {}", version.name);
        errors.push(FieldError::invalid(
            &path,
            Value::from(stored.to_vec()),
            detail,
        ));
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version.name == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(
                &path.index(index),
                name.as_str(),
                detail,
            ));
        }
    }
    errors
}

/// Names by which objects are stored never change; scope and kind do not once they are served.
fn validate_immutable(
    spec: &DefinitionSpec,
    old: &DefinitionSpec,
    established: bool,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut immutable = |path: &str, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid(
                &FieldPath::new(path),
                new,
                "field is immutable",
            ));
        }
    };
    if established {
        immutable("spec.scope", spec.scope.text(), old.scope.text());
        immutable("spec.names.kind", &spec.names.kind, &old.names.kind);
    }
    immutable("spec.group", &spec.group, &old.group);
    immutable("spec.names.plural", &spec.names.plural, &old.names.plural);
    errors
}

/// Judges a name by the rule of labels that begin with a letter.
fn label(text: &str, path: &FieldPath, prefix: &str) -> Option<FieldError> {
    let judged = if prefix.is_empty() {
        text.to_owned()
    } else {
        text.to_lowercase()
    };
    let wrong = is_dns1035_label(&judged);
    let detail = || format!("{prefix}{}", wrong.join(","));
    (!wrong.is_empty()).then(|| FieldError::invalid(path, text, detail()))
}

#[cfg(test)]
mod tests;
