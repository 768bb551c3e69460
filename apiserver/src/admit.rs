//! Admission: what may change or refuse a write after it was decoded and before it is validated.
//!
//! There are three admissions, in this order: [`namespace`] (a namespace must be there, and not on its way out),
//! [`author`] (who wrote it, where that matters later) and what Kubernetes' default plug-ins do for single kinds
//! ([`kinds`]). Webhooks and policies are not called for what the hub stores.
//!
//! Invariant: admission sees the object that is stored, its fields already attributed; what it changes belongs to no manager.

pub(crate) mod author;
pub(crate) mod kinds;
pub(crate) mod namespace;

use api::Status;
use serde_json::Value;

use crate::handle::call::{Call, Target};
use crate::registry::scope::Phase;
use crate::respond::Refusal;

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
    author::stamp(call, object, None);
    Ok(())
}

/// Admits a changed object.
pub(crate) fn admit_update(call: &Call<'_>, object: &mut Value, live: &Value) {
    author::stamp(call, object, Some(live));
}

/// Admits a deletion.
pub(crate) fn admit_delete(call: &Call<'_>, target: &Target) -> Result<(), Refusal> {
    namespace::admit_delete(call, target)
}
