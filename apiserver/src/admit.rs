//! Admission: what may change or refuse a write after it was decoded and before it is validated.
//!
//! There are five admissions, in this order: [`namespace`] (a namespace must be there, and not on its way out), [`Grant`]
//! (nobody gives away rights that they do not have), [`origin`] (where an instance was made), [`author`] (who wrote it,
//! where that matters later) and, in the kinds' own strategies ([`crate::strategy`]), what Kubernetes' default plug-ins do
//! for single kinds. Before rights are looked at, MutatingAdmissionPolicies and webhooks may change the object ([`mutate`]).
//! Behind validation stand ValidatingAdmissionPolicies ([`policies`]) and the other webhooks ([`webhooks`]), which change
//! nothing and see the object as it will be stored.
//!
//! Invariant: admission sees the object that is stored, its fields already attributed; what it changes belongs to no manager.

pub(crate) mod author;
mod changes;
mod meant;
mod mutate;
mod mutations;
pub(crate) mod namespace;
mod occasion;
pub(crate) mod origin;
mod parameters;
mod policies;
mod questions;
mod webhooks;

use api::Status;
use api::query::DeleteOptions;
use serde_json::Value;

use crate::authorize::Grant;
use crate::call::{Call, Target};
use crate::guards::attributes::Operation;
use crate::refusal::Refusal;
use crate::registry::scope::Phase;
use crate::strategy::endpoint::Endpoint;
use crate::strategy::rules::Grants;
use occasion::Write;

/// Admits a new object. For a generated name that is not made yet, `target.name` is empty.
pub(crate) async fn admit_create(
    call: &Call<'_>,
    target: &Target,
    object: &mut Value,
    dry_run: bool,
) -> Result<(), Refusal> {
    if call.scope.life.phase == Phase::Terminating {
        let detail = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(call.resource(), &target.name, detail).into());
    }
    namespace::admit_create(call, target).await?;
    let write = Write {
        operation: Operation::Create,
        object: None,
        old: None,
        dry_run,
        deletion: None,
    };
    mutate::mutate(call, target, write, object).await?;
    if target.name.is_empty() {
        call.check_namespace(object)?;
    } else {
        target.check(object)?;
    }
    admit_grant(call, object, None).await?;
    origin::stamp(call, object, None);
    author::stamp(call, object, None);
    Ok(())
}

/// Admits a changed object.
pub(crate) async fn admit_update(
    call: &Call<'_>,
    target: &Target,
    (object, live): (&mut Value, &Value),
    dry_run: bool,
) -> Result<(), Refusal> {
    // At `scale` and `binding` a webhook would see an object of another kind than the one that is changed.
    if !matches!(call.endpoint, Endpoint::Scale | Endpoint::Binding) {
        let write = Write {
            operation: Operation::Update,
            object: None,
            old: Some(live),
            dry_run,
            deletion: None,
        };
        mutate::mutate(call, target, write, object).await?;
        target.check(object)?;
    }
    admit_grant(call, object, Some(live)).await?;
    origin::stamp(call, object, Some(live));
    author::stamp(call, object, Some(live));
    Ok(())
}

/// Refuses roles and bindings by which someone would give away more than they have.
async fn admit_grant(call: &Call<'_>, object: &Value, live: Option<&Value>) -> Result<(), Refusal> {
    if call.scope.strategy().grants != Grants::Rights {
        return Ok(());
    }
    let resource = call.resource();
    let grant = Grant {
        user: &call.context.user,
        cluster: &call.info.cluster,
        resource: &resource.resource,
        namespace: call.namespace(),
        object,
        live,
    };
    call.shared.authorizer.admit_grant(&grant).await
}

/// Lets a new object pass that is complete and valid, and that no policy refuses.
pub(crate) async fn validate_create(
    call: &Call<'_>,
    target: &Target,
    object: &Value,
    dry_run: bool,
) -> Result<(), Refusal> {
    parameters::check(call, target, object, None).await?;
    let write = Write {
        operation: Operation::Create,
        object: Some(object),
        old: None,
        dry_run,
        deletion: None,
    };
    policies::admit(call, target, write).await?;
    webhooks::validate(call, target, write).await
}

/// Lets a changed object pass that is complete and valid, and that no policy refuses.
pub(crate) async fn validate_update(
    call: &Call<'_>,
    target: &Target,
    (object, live): (&Value, &Value),
    dry_run: bool,
) -> Result<(), Refusal> {
    parameters::check(call, target, object, Some(live)).await?;
    let write = Write {
        operation: Operation::Update,
        object: Some(object),
        old: Some(live),
        dry_run,
        deletion: None,
    };
    policies::admit(call, target, write).await?;
    webhooks::validate(call, target, write).await
}

/// Lets an object be deleted if no policy refuses.
pub(crate) async fn validate_delete(
    call: &Call<'_>,
    target: &Target,
    live: &Value,
    options: &DeleteOptions,
) -> Result<(), Refusal> {
    let write = Write {
        operation: Operation::Delete,
        object: None,
        old: Some(live),
        dry_run: options.dry_run,
        deletion: Some(options),
    };
    mutate::mutate(call, target, write, &mut Value::Null).await?;
    policies::admit(call, target, write).await?;
    webhooks::validate(call, target, write).await
}

/// Admits a deletion.
pub(crate) fn admit_delete(call: &Call<'_>, target: &Target) -> Result<(), Refusal> {
    match (call.scope.strategy().deletion.forbid)(&target.name) {
        Some(detail) => Err(Status::forbidden(call.resource(), &target.name, detail).into()),
        None => Ok(()),
    }
}
