//! Admission: what may change or refuse a write after it was decoded and before it is validated.
//!
//! There are four admissions, in this order: [`namespace`] (a namespace must be there, and not on its way out), [`Grant`]
//! (nobody gives away rights that they do not have), [`author`] (who wrote it, where that matters later) and, in the
//! kinds' own strategies ([`crate::strategy`]), what Kubernetes' default plug-ins do for single kinds. Webhooks and
//! policies are not called for what the hub stores.
//!
//! Invariant: admission sees the object that is stored, its fields already attributed; what it changes belongs to no manager.

pub(crate) mod author;
pub(crate) mod namespace;

use api::Status;
use serde_json::Value;

use crate::authorize::Grant;
use crate::call::{Call, Target};
use crate::refusal::Refusal;
use crate::registry::scope::Phase;
use crate::strategy::rules::Grants;

/// Admits a new object. For a generated name that is not made yet, `target.name` is empty.
pub(crate) async fn admit_create(
    call: &Call<'_>,
    target: &Target,
    object: &mut Value,
) -> Result<(), Refusal> {
    if call.scope.life.phase == Phase::Terminating {
        let detail = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(call.resource(), &target.name, detail).into());
    }
    namespace::admit_create(call, target).await?;
    admit_grant(call, object, None).await?;
    author::stamp(call, object, None);
    Ok(())
}

/// Admits a changed object.
pub(crate) async fn admit_update(
    call: &Call<'_>,
    object: &mut Value,
    live: &Value,
) -> Result<(), Refusal> {
    admit_grant(call, object, Some(live)).await?;
    author::stamp(call, object, Some(live));
    Ok(())
}

/// Refuses roles and bindings by which someone would give away more than they have.
async fn admit_grant(call: &Call<'_>, object: &Value, live: Option<&Value>) -> Result<(), Refusal> {
    if call.scope.strategy().grants == Grants::Nothing {
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

/// Admits a deletion.
pub(crate) fn admit_delete(call: &Call<'_>, target: &Target) -> Result<(), Refusal> {
    match (call.scope.strategy().deletion.forbid)(&target.name) {
        Some(detail) => Err(Status::forbidden(call.resource(), &target.name, detail).into()),
        None => Ok(()),
    }
}
