//! What every write does around the kind's strategy: system fields, separation of status, generation, validation.
//!
//! Source: apiserver/pkg/registry/rest/{create,update}.go (`BeforeCreate`, `BeforeUpdate`).

use api::crd::Scope;
use api::growth::TooLarge;
use api::{FieldError, FieldErrorKind, FieldPath, Status, meta, validation};
use schema::validate::Findings;
use serde_json::Value;

use super::convert::desired_differs;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::strategy::endpoint::Endpoint;
use crate::strategy::fields::{copy, restore_system_fields};
use crate::strategy::rules::{Generation, Judged};
use crate::strategy::version::StatusMode;

/// Prepares a new object for validation.
///
/// # Errors
/// What it begins with would take more memory than one object may.
pub(super) fn prepare_create(call: &Call<'_>, object: &mut Value) -> Result<(), TooLarge> {
    let strategy = call.scope.strategy();
    meta::remove_field(object, "generation");
    if strategy.generation == Generation::Counted {
        meta::set_generation(object, 1);
    }
    (strategy.prepare_create)(&call.scope.version, object)
}

/// Prepares a changed object for validation: what the endpoint may not change is what it was.
pub(super) fn prepare_update(call: &Call<'_>, object: &mut Value, live: &Value) {
    let scope = call.scope;
    match call.endpoint {
        Endpoint::Status => scope.strategy().status_metadata.prepare(object, live),
        Endpoint::Main | Endpoint::Scale | Endpoint::PodPart | Endpoint::Binding
            if scope.version.status == StatusMode::Subresource =>
        {
            copy(object, live, "status");
        }
        _ => {}
    }
    restore_system_fields(object, live);
    (scope.strategy().prepare_update)(call.endpoint, object, live);
    count_generation(scope, object, live);
}

/// Raises the generation where anything outside of metadata changed, and outside of status where that is separate.
fn count_generation(scope: &ResourceScope, object: &mut Value, live: &Value) {
    if scope.strategy().generation == Generation::Absent {
        return;
    }
    let separate = scope.version.status == StatusMode::Subresource;
    if desired_differs(object, live, separate) {
        meta::set_generation(object, meta::generation(live).saturating_add(1));
    }
}

/// Validates a new object.
pub(super) fn validate_create(call: &Call<'_>, object: &Value) -> Result<(), Refusal> {
    validate(call, object, None)
}

/// Validates a changed object.
pub(super) fn validate_update(
    call: &Call<'_>,
    object: &Value,
    live: &Value,
) -> Result<(), Refusal> {
    validate(call, object, Some(live))
}

fn validate(call: &Call<'_>, object: &Value, live: Option<&Value>) -> Result<(), Refusal> {
    let (scope, version) = (call.scope, &call.scope.version);
    let (strategy, typing) = (scope.strategy(), scope.typing());
    refuse(scope, object, typing.validate_type(version, object))?;
    let path = FieldPath::new("metadata");
    let mut errors =
        validation::validate_object_meta(object, meta_scope(scope), strategy.name, &path);
    if let Some(live) = live {
        errors.extend(validation::validate_object_meta_update(object, live, &path));
    }
    let found = match strategy.judged {
        Judged::Schema => typing.validate_schema(version, call.endpoint, object, live, &errors),
        Judged::RulesAndEnums => {
            let mut found = typing.validate_schema(version, call.endpoint, object, live, &errors);
            found.errors.retain(|it| {
                !matches!(
                    it.kind,
                    FieldErrorKind::Required | FieldErrorKind::Duplicate
                )
            });
            found
        }
        Judged::Rules => Findings::default(),
    };
    let mut own = (strategy.validate)(object, live);
    if let (false, Some(live)) = (own.is_empty(), live) {
        // What an older version took stays possible to change, and to delete.
        let before = (strategy.validate)(live, None);
        own.retain(|it| !before.contains(it));
    }
    errors.extend(found.errors.into_iter().filter(|it| !is_told(it, &own)));
    errors.extend(own);
    refuse(scope, object, errors)?;
    for warning in found
        .warnings
        .into_iter()
        .chain((strategy.doubts)(object, live))
        .chain(finalizer_warnings(object, live))
    {
        call.context.warn(warning);
    }
    Ok(())
}

/// Whether a strategy says what the schema has found: of the same field, of an object around it, or of the same text elsewhere.
fn is_told(error: &FieldError, own: &[FieldError]) -> bool {
    own.iter().any(|it| {
        let rest = error.path.strip_prefix(it.path.as_str());
        let is_around = rest.is_some_and(|rest| rest.starts_with(['.', '[']))
            && it.value.as_ref().is_some_and(Value::is_object);
        let is_same_text =
            it.value == error.value && error.value.as_ref().is_some_and(Value::is_string);
        let last = |path: &str| path.rsplit_once('.').map(|(_, last)| last.to_owned());
        let is_missing = it.kind == FieldErrorKind::Required
            && error.value.as_ref().is_some_and(|it| it == "")
            && last(&it.path) == last(&error.path);
        it.path == error.path || is_around || is_same_text || is_missing
    })
}

fn meta_scope(scope: &ResourceScope) -> Scope {
    if scope.kind.namespaced {
        Scope::Namespaced
    } else {
        Scope::Cluster
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
    let kind = scope.typing().kind_in_errors(&scope.version, object);
    Err(Status::invalid(&kind, meta::name(object), errors).into())
}
