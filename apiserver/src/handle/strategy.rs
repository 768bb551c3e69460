//! What the server does to an object beyond what the client asked: system fields, separation of status, generation,
//! validation.
//! Source: apiserver/pkg/registry/rest/{create,update,meta}.go, apiextensions-apiserver/pkg/registry/customresource.

use api::crd::Scope;
use api::growth::TooLarge;
use api::{FieldError, FieldPath, GroupKind, Status, meta, validation};
use schema::validate::{Findings, Part, inspect};
use serde_json::Value;

use super::paths::at;
use crate::admit::kinds;
use crate::call::{Call, Endpoint};
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::registry::scope::StatusMode;
use crate::registry::strategy::Generation;

/// Fills in the defaults of an object: those of the schema, and those that Kubernetes writes in Go.
///
/// # Errors
/// They would take more memory than one object may.
pub(super) fn default_object(scope: &ResourceScope, object: &mut Value) -> Result<(), TooLarge> {
    if scope.is_custom() {
        schema::structural::default(object, &scope.version.schema)
    } else {
        kinds::default(scope, object)
    }
}

/// Fields that clients cannot set on a new object.
const SYSTEM_FIELDS: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// Removes what only the server may say.
pub(super) fn wipe_system_fields(object: &mut Value) {
    for name in SYSTEM_FIELDS {
        meta::remove_field(object, name);
    }
}

/// Gives a new object what the server says of it.
pub(super) fn fill_system_fields(call: &Call<'_>, object: &mut Value, uid: &str) {
    wipe_system_fields(object);
    meta::set_uid(object, uid);
    meta::set_creation_timestamp(object, &meta::time_now_text(call.context.now));
}

/// Prepares a new object for validation.
///
/// # Errors
/// As [`default_object`].
pub(super) fn prepare_create(call: &Call<'_>, object: &mut Value) -> Result<(), TooLarge> {
    let scope = call.scope;
    if scope.is_custom() && scope.version.status == StatusMode::Subresource {
        remove(object, "status");
    }
    meta::remove_field(object, "generation");
    if scope.rules.strategy.generation == Generation::Counted {
        meta::set_generation(object, 1);
    }
    kinds::prepare_create(scope, object)
}

/// Prepares a changed object for validation: what the endpoint may not change is what it was.
pub(super) fn prepare_update(call: &Call<'_>, object: &mut Value, live: &Value) {
    let scope = call.scope;
    match call.endpoint {
        Endpoint::Status => keep_all_but_status(scope, object, live),
        Endpoint::Main | Endpoint::Scale | Endpoint::PodPart | Endpoint::Binding
            if scope.version.status == StatusMode::Subresource =>
        {
            copy(object, live, "status");
        }
        _ => {}
    }
    restore_system_fields(object, live);
    kinds::prepare_update(scope, call.endpoint, object, live);
    count_generation(scope, object, live);
}

/// The status endpoint changes status and nothing else; of built-in objects, metadata too.
fn keep_all_but_status(scope: &ResourceScope, object: &mut Value, live: &Value) {
    let status = object.get("status").cloned();
    let managed_fields = meta::metadata(object)
        .and_then(|it| it.get("managedFields"))
        .cloned();
    let metadata = object.get("metadata").cloned();
    object.clone_from(live);
    if scope.is_custom() {
        let fields = meta::metadata_mut(object);
        match managed_fields {
            Some(managed_fields) => drop(fields.insert("managedFields".into(), managed_fields)),
            None => drop(fields.remove("managedFields")),
        }
    } else {
        if let (Some(fields), Some(metadata)) = (object.as_object_mut(), metadata) {
            fields.insert("metadata".into(), metadata);
        }
        copy_field(object, live, "ownerReferences");
        copy_field(object, live, "finalizers");
    }
    match status {
        Some(status) => set(object, "status", status),
        None => remove(object, "status"),
    }
}

/// Metadata that an update cannot change.
fn restore_system_fields(object: &mut Value, live: &Value) {
    for name in ["generation", "creationTimestamp"] {
        copy_field(object, live, name);
    }
    meta::remove_field(object, "selfLink");
    if meta::uid(object).is_empty() {
        copy_field(object, live, "uid");
    }
    copy_field(object, live, "deletionTimestamp");
    let has = |object: &Value| {
        meta::metadata(object).is_some_and(|it| it.contains_key("deletionGracePeriodSeconds"))
    };
    if has(live) && !has(object) || !meta::is_terminating(live) {
        copy_field(object, live, "deletionGracePeriodSeconds");
    }
}

/// Raises the generation where anything outside of metadata changed, and outside of status where that is separate.
fn count_generation(scope: &ResourceScope, object: &mut Value, live: &Value) {
    if scope.rules.strategy.generation == Generation::Absent {
        return;
    }
    let separate = scope.version.status == StatusMode::Subresource;
    if desired_differs(object, live, separate) {
        meta::set_generation(object, meta::generation(live).saturating_add(1));
    }
}

/// Whether two objects differ outside of metadata (and status, where that is separate).
pub(super) fn desired_differs(object: &Value, live: &Value, status_is_separate: bool) -> bool {
    let (Some(new), Some(old)) = (object.as_object(), live.as_object()) else {
        return true;
    };
    let counts = |name: &str| {
        !(matches!(name, "metadata" | "apiVersion" | "kind")
            || (status_is_separate && name == "status"))
    };
    let count = |fields: &serde_json::Map<String, Value>| {
        fields.iter().filter(|(name, _)| counts(name)).count()
    };
    count(new) != count(old)
        || new
            .iter()
            .filter(|(name, _)| counts(name))
            .any(|(name, value)| old.get(name) != Some(value))
}

/// Judges a new object.
pub(super) fn validate_create(call: &Call<'_>, object: &Value) -> Result<(), Refusal> {
    let scope = call.scope;
    if scope.is_custom() {
        refuse(scope, object, type_errors(scope, object))?;
    }
    let mut errors = validation::validate_object_meta(
        object,
        meta_scope(scope),
        scope.rules.strategy.name,
        &FieldPath::new("metadata"),
    );
    let Findings {
        errors: schema_errors,
        warnings,
    } = inspect_object(call, object, None);
    errors.extend(schema_errors);
    errors.extend(kinds::validate_create(scope, object));
    errors.extend(scale_errors(scope, object));
    refuse(scope, object, errors)?;
    for warning in warnings.into_iter().chain(finalizer_warnings(object, None)) {
        call.context.warn(warning);
    }
    Ok(())
}

/// Judges a changed object.
pub(super) fn validate_update(
    call: &Call<'_>,
    object: &Value,
    live: &Value,
) -> Result<(), Refusal> {
    let scope = call.scope;
    if scope.is_custom() {
        refuse(scope, object, type_errors(scope, object))?;
    }
    let path = FieldPath::new("metadata");
    let mut errors = Vec::new();
    let rule = scope.rules.strategy.name;
    errors.extend(validation::validate_object_meta(
        object,
        meta_scope(scope),
        rule,
        &path,
    ));
    errors.extend(validation::validate_object_meta_update(object, live, &path));
    let Findings {
        errors: schema_errors,
        warnings,
    } = inspect_object(call, object, Some(live));
    errors.extend(schema_errors);
    errors.extend(kinds::validate_update(scope, object, live));
    errors.extend(scale_errors(scope, object));
    refuse(scope, object, errors)?;
    for warning in warnings
        .into_iter()
        .chain(finalizer_warnings(object, Some(live)))
    {
        call.context.warn(warning);
    }
    Ok(())
}

fn meta_scope(scope: &ResourceScope) -> Scope {
    if scope.kind.namespaced {
        Scope::Namespaced
    } else {
        Scope::Cluster
    }
}

/// A custom resource says its type, and it must be the endpoint's.
fn type_errors(scope: &ResourceScope, object: &Value) -> Vec<FieldError> {
    let api_version = scope.version.api_version.as_str();
    [
        ("kind", meta::kind(object), scope.gvk().kind.as_str()),
        ("apiVersion", meta::api_version(object), api_version),
    ]
    .into_iter()
    .filter(|(_, said, want)| said != want)
    .map(|(name, said, want)| {
        FieldError::invalid(&FieldPath::new(name), said, format!("must be {want}"))
    })
    .collect()
}

/// The counts of replicas of a custom resource are counts.
fn scale_errors(scope: &ResourceScope, object: &Value) -> Vec<FieldError> {
    let (true, Some(paths)) = (scope.is_custom(), &scope.version.scale) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    for path in [&paths.spec_replicas, &paths.status_replicas] {
        let Some(count) = at(object, path).and_then(Value::as_i64) else {
            continue;
        };
        let field = FieldPath::new(path.as_str());
        if count < 0 {
            errors.push(FieldError::invalid(
                &field,
                count,
                "should be a non-negative integer",
            ));
        } else if count > i64::from(i32::MAX) {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            errors.push(FieldError::invalid(&field, count, detail));
        }
    }
    errors
}

/// Judges an object by its schema. Built-in kinds know no ratcheting.
fn inspect_object(call: &Call<'_>, object: &Value, live: Option<&Value>) -> Findings {
    let schema = &call.scope.version.schema;
    if call.scope.is_custom() {
        let part = if call.endpoint == Endpoint::Status {
            Part::Status
        } else {
            Part::Object
        };
        return inspect(object, schema, live, part);
    }
    Findings {
        errors: schema::builtin::validate(object, schema),
        warnings: Vec::new(),
    }
}

fn finalizer_warnings(object: &Value, live: Option<&Value>) -> Vec<String> {
    let known = live.map(meta::finalizers).unwrap_or_default();
    let mut added = meta::finalizers(object);
    added.retain(|finalizer| !known.contains(finalizer));
    validation::finalizer_warnings(&added, &FieldPath::new("metadata").child("finalizers"))
}

fn refuse(scope: &ResourceScope, object: &Value, errors: Vec<FieldError>) -> Result<(), Refusal> {
    if errors.is_empty() {
        return Ok(());
    }
    // As in Kubernetes, a custom resource is called what it calls itself.
    let kind = if scope.is_custom() {
        let group = match meta::api_version(object).split_once('/') {
            Some((group, _)) => group,
            None => "",
        };
        GroupKind::new(group, meta::kind(object))
    } else {
        scope.gvk().group_kind()
    };
    Err(Status::invalid(&kind, meta::name(object), errors).into())
}

/// Copies a top-level field, absence included.
pub(crate) fn copy(object: &mut Value, from: &Value, name: &str) {
    match from.get(name) {
        Some(value) => set(object, name, value.clone()),
        None => remove(object, name),
    }
}

/// Sets a top-level field.
pub(crate) fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// Removes a top-level field.
pub(crate) fn remove(object: &mut Value, name: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(name);
    }
}

/// Copies a field of metadata, absence included.
pub(crate) fn copy_field(object: &mut Value, from: &Value, name: &str) {
    match meta::metadata(from).and_then(|fields| fields.get(name)) {
        Some(value) => drop(meta::metadata_mut(object).insert(name.to_owned(), value.clone())),
        None => drop(meta::remove_field(object, name)),
    }
}
