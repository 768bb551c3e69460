//! What may change an object before it is validated: policies first, then webhooks, and those of them once more that want to see
//! what others changed after them.
//!
//! Source: `apiserver/pkg/admission/reinvocation.go`, `kubernetes/pkg/kubeapiserver/options/plugins.go` (the order).

use serde_json::Value;

use super::changes::{Outcome, Round, shown};
use super::mutations::Mutations;
use super::occasion::{Occasion, Write};
use super::webhooks::MutatingWebhooks;
use crate::call::{Call, Target};
use crate::refusal::Refusal;

/// Lets policies and webhooks change an object that is to be written.
///
/// # Errors
/// One of them refuses, fails with `failurePolicy: Fail`, or produces an invalid object.
pub(crate) async fn mutate(
    call: &Call<'_>,
    target: &Target,
    write: Write<'_>,
    object: &mut Value,
) -> Result<(), Refusal> {
    let mut policies = Mutations::of(call, target)?;
    let mut webhooks = MutatingWebhooks::of(call, target)?;
    if policies.is_empty() && webhooks.is_empty() {
        return Ok(());
    }
    if Occasion::is_exempt(call, &shown(write, object)) {
        return Ok(());
    }
    for round in [Round::First, Round::Again] {
        if policies
            .run(call, target, (write, &mut *object), round)
            .await?
            == Outcome::Changed
        {
            webhooks.see_change();
        }
        webhooks
            .run(call, target, (write, &mut *object), round)
            .await?;
    }
    Ok(())
}
