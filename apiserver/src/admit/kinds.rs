//! What single built-in kinds do with their own fields: the parts of Kubernetes' strategies, defaults and default
//! admission plug-ins that users meet.
//!
//! Each function is one stage of a write and looks at the kinds that have something to do there. Kinds that are not
//! named behave as their schema says.
//! Source: kubernetes/pkg/registry/core/*, kubernetes/pkg/apis/*/validation, kubernetes/plugin/pkg/admission.

mod events;
mod go_types;
mod namespaces;
mod pods;
mod rbac;
mod secrets;
mod services;
mod workloads;

use api::growth::TooLarge;
use api::{FieldError, FieldPath};
use serde_json::Value;
use storage::Write;

pub(crate) use events::convert_event;
pub(crate) use go_types::go_type_error;
pub(crate) use namespaces::CLUSTER_FINALIZER as NAMESPACE_FINALIZER;
pub(crate) use pods::grace_seconds;

use crate::call::{Access, Endpoint, Target};
use crate::definitions;
use crate::refusal::Refusal;
use crate::registry::ResourceScope;

/// Group and resource, for matching.
fn name(scope: &ResourceScope) -> (&str, &str) {
    (&scope.rules.resource.group, &scope.rules.resource.resource)
}

/// Fills in what Kubernetes' own defaulting functions do.
///
/// # Errors
/// As [`schema::builtin::complete`].
pub(crate) fn default(scope: &ResourceScope, object: &mut Value) -> Result<(), TooLarge> {
    schema::builtin::complete(object, scope.gvk(), &scope.version.schema)
}

/// Whether a client may say the status of a new object: nodes describe themselves.
pub(crate) fn keeps_status_on_create(scope: &ResourceScope) -> bool {
    matches!(name(scope), ("", "nodes"))
}

/// Sets what a new object of the kind begins with.
///
/// # Errors
/// As [`default`].
pub(crate) fn prepare_create(scope: &ResourceScope, object: &mut Value) -> Result<(), TooLarge> {
    if scope.is_custom() {
        return Ok(());
    }
    let sent = keeps_status_on_create(scope)
        .then(|| object.get("status").cloned())
        .flatten();
    schema::builtin::prepare_for_create(object, scope.gvk(), &scope.version.schema)?;
    if let Some(sent) = sent {
        object["status"] = sent;
    }
    if let (api::crd::GROUP, api::crd::RESOURCE) = name(scope) {
        definitions::strategy::prepare_create(object);
    }
    Ok(())
}

/// Restores what an update of the kind, at an endpoint, cannot change.
pub(crate) fn prepare_update(
    scope: &ResourceScope,
    endpoint: Endpoint,
    object: &mut Value,
    live: &Value,
) {
    match (name(scope), endpoint) {
        (("", "namespaces"), _) => namespaces::prepare_update(endpoint, object, live),
        (("", "services"), Endpoint::Main) => services::keep_addresses(object, live),
        ((api::crd::GROUP, api::crd::RESOURCE), Endpoint::Main) => {
            definitions::strategy::prepare_update(object);
        }
        (("certificates.k8s.io", "certificatesigningrequests"), Endpoint::Approval) => {
            let conditions = object["status"]["conditions"].clone();
            let metadata = object["metadata"].clone();
            object.clone_from(live);
            object["metadata"] = metadata;
            object["status"]["conditions"] = conditions;
        }
        _ => {}
    }
}

/// Judges a new object by rules that its schema does not hold.
pub(crate) fn validate_create(scope: &ResourceScope, object: &Value) -> Vec<FieldError> {
    match name(scope) {
        ("", "secrets") => secrets::validate(object),
        ("", "configmaps") => secrets::validate_config_map(object),
        ("", "services") => services::validate(object),
        (api::crd::GROUP, api::crd::RESOURCE) => definitions::strategy::validate_create(object),
        (crate::authorize::rbac::GROUP, resource) => rbac::validate(resource, object),
        name => workloads::validate(name, object),
    }
}

/// Judges a changed object by rules that its schema does not hold.
pub(crate) fn validate_update(
    scope: &ResourceScope,
    object: &Value,
    live: &Value,
) -> Vec<FieldError> {
    let (group, resource) = name(scope);
    if (group, resource) == (api::crd::GROUP, api::crd::RESOURCE) {
        return definitions::strategy::validate_update(object, live);
    }
    let mut errors = validate_create(scope, object);
    errors.extend(match (group, resource) {
        ("", "pods") => pods::validate_update(object, live),
        ("", "secrets") => secrets::validate_update(object, live),
        ("", "configmaps") => secrets::validate_config_map_update(object, live),
        name => workloads::validate_update(name, object, live),
    });
    errors
}

/// Brings a valid object into its final form.
pub(crate) fn canonicalize(scope: &ResourceScope, object: &mut Value) {
    if let ("", "namespaces") = name(scope) {
        namespaces::label(object);
    }
}

/// Allots what must be unique beside names; the writes belong into the commit of the object, which may collide.
pub(crate) fn allocate(
    access: &Access<'_>,
    target: &Target,
    object: &mut Value,
    live: Option<&Value>,
) -> Result<Vec<Write>, Refusal> {
    match name(access.scope) {
        ("", "services") => services::allocate(access, target, object, live),
        _ => Ok(Vec::new()),
    }
}

/// Whether [`allocate`] allots anything to objects of this kind, so that a create can collide with another.
pub(crate) fn allots(scope: &ResourceScope) -> bool {
    matches!(name(scope), ("", "services"))
}

/// Gives back what [`allocate`] allotted, as writes for the commit of the deletion.
pub(crate) fn release(access: &Access<'_>, target: &Target, object: &Value) -> Vec<Write> {
    match name(access.scope) {
        ("", "services") => services::release(access, target, object),
        _ => Vec::new(),
    }
}

/// Whether an object that has no finalizer left may go.
pub(crate) fn may_go(scope: &ResourceScope, object: &Value) -> bool {
    match name(scope) {
        ("", "namespaces") => namespaces::is_empty(object),
        _ => true,
    }
}

/// An error for a field that cannot be changed.
fn immutable(path: &FieldPath, value: &Value) -> FieldError {
    FieldError::invalid(path, value.clone(), "field is immutable")
}

#[cfg(test)]
mod tests;
