//! Webhooks: which of them a write is shown to, and what follows from their answers.
//!
//! Those that may change the object are called one after the other, before validation; the others all at once, behind it.
//!
//! Source: `apiserver/pkg/admission/plugin/webhook/{generic/webhook.go,mutating/dispatcher.go,validating/dispatcher.go}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::admission::{FailurePolicy, ReinvocationPolicy};
use api::query::FieldValidation;
use api::{LogicalCluster, Status};
use futures::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use super::changes::{Outcome, Round, keep, replace, shown};
use super::occasion::{Occasion, Write};
use super::questions::Questions;
use crate::call::{Call, Target};
use crate::guards::attributes::{Attributes, Operation};
use crate::guards::expressions::{Authorizer, Facts};
use crate::guards::matching::Face;
use crate::guards::webhook::{CompiledWebhook, Mutates, Verdict};
use crate::handle::convert;
use crate::handle::decode::{self, Nulls};
use crate::handle::patch::operations;
use crate::refusal::Refusal;

/// A webhook that a write is shown to.
struct Invocation<'a> {
    cluster: &'a LogicalCluster,
    webhook: &'a CompiledWebhook,
    face: Face,
}

/// Webhooks of the clusters that act on a write, root's first.
type Sets = Vec<(LogicalCluster, Arc<[Arc<Vec<CompiledWebhook>>]>)>;

/// The webhooks that may change an object, and which of them were called.
pub(super) struct MutatingWebhooks {
    sets: Sets,
    /// By their place among all, and whether the object was changed since.
    called: BTreeMap<usize, IsStale>,
}

/// Whether a webhook has not seen the object as it is now.
type IsStale = bool;

// === impl MutatingWebhooks ===

impl MutatingWebhooks {
    /// Those that act on a write.
    pub(super) fn of(call: &Call<'_>, target: &Target) -> Result<Self, Refusal> {
        let (sets, called) = (sets(call, target, Mutates::Yes)?, BTreeMap::new());
        Ok(Self { sets, called })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Takes note that something else changed the object.
    pub(super) fn see_change(&mut self) {
        for is_stale in self.called.values_mut() {
            *is_stale = true;
        }
    }

    /// Lets them change the object: in the second round those that want to be called again where it was changed after them.
    ///
    /// # Errors
    /// One of them refuses, fails with `failurePolicy: Fail`, or produces an invalid object.
    pub(super) async fn run(
        &mut self,
        call: &Call<'_>,
        target: &Target,
        (write, object): (Write<'_>, &mut Value),
        round: Round,
    ) -> Result<(), Refusal> {
        let sets = self.sets.clone();
        for (place, (cluster, webhook)) in each(&sets).enumerate() {
            let wants = webhook.spec.reinvocation_policy == ReinvocationPolicy::IfNeeded;
            let is_stale = self.called.get(&place).copied().unwrap_or_default();
            if round == Round::Again && !(wants && is_stale) {
                continue;
            }
            let occasion = Occasion::new(call, target, shown(write, object));
            let Some(invocation) = invocation(&occasion, cluster, webhook).await? else {
                continue;
            };
            let verdict = ask(&occasion, &invocation, Mutates::Yes).await?;
            let patch = verdict.map(|verdict| verdict.patch).unwrap_or_default();
            if apply(&occasion, &invocation, &patch, object).await? == Outcome::Changed {
                self.see_change();
            }
            self.called.insert(place, false);
        }
        Ok(())
    }
}

/// Lets a write pass that no webhook refuses.
///
/// # Errors
/// The refusal of one of them; one fails and must not.
pub(crate) async fn validate(
    call: &Call<'_>,
    target: &Target,
    write: Write<'_>,
) -> Result<(), Refusal> {
    let sets = sets(call, target, Mutates::No)?;
    if sets.is_empty() || Occasion::is_exempt(call, &write) {
        return Ok(());
    }
    let occasion = Occasion::new(call, target, write);
    let mut invocations = Vec::new();
    for (cluster, webhook) in each(&sets) {
        invocations.extend(invocation(&occasion, cluster, webhook).await?);
    }
    let asked = invocations
        .iter()
        .map(|invocation| ask(&occasion, invocation, Mutates::No));
    for verdict in join_all(asked).await {
        verdict?;
    }
    Ok(())
}

fn sets(call: &Call<'_>, target: &Target, mutates: Mutates) -> Result<Sets, Refusal> {
    let guards = &call.shared.guards;
    let configurations = match mutates {
        Mutates::Yes => &guards.mutating_webhooks,
        Mutates::No => &guards.validating_webhooks,
    };
    configurations.acting_on(call.shared.store.as_ref(), &target.cluster)
}

fn each(sets: &Sets) -> impl Iterator<Item = (&LogicalCluster, &CompiledWebhook)> {
    sets.iter().flat_map(|(cluster, set)| {
        let webhooks = set.iter().flat_map(|webhooks| webhooks.iter());
        webhooks.map(move |webhook| (cluster, webhook))
    })
}

/// As what a webhook is shown a write; `None` where it is not.
async fn invocation<'a>(
    occasion: &Occasion<'_>,
    cluster: &'a LogicalCluster,
    webhook: &'a CompiledWebhook,
) -> Result<Option<Invocation<'a>>, Refusal> {
    let constraints = webhook.constraints.as_ref();
    let constraints = constraints.map_err(|error| Status::internal(error.as_str()))?;
    let others = occasion.other_faces();
    let Some(face) = occasion.judge(constraints, &others).await? else {
        return Ok(None);
    };
    if !webhook.conditions.is_empty() && !conditions_hold(occasion, webhook, &face).await? {
        return Ok(None);
    }
    Ok(Some(Invocation {
        cluster,
        webhook,
        face,
    }))
}

/// Evaluates the conditions of a webhook. They are bounded to a quarter of what a policy's expressions may take.
async fn conditions_hold(
    occasion: &Occasion<'_>,
    webhook: &CompiledWebhook,
    face: &Face,
) -> Result<bool, Refusal> {
    let attributes = occasion.objects_as(face).await?;
    let questions = Questions::of(occasion.call, &occasion.attributes);
    let request = attributes.request(&face.resource, &face.kind);
    let (shown, conditions) = (Arc::clone(&attributes), Arc::clone(&webhook.conditions));
    let seat = occasion.seat().await?;
    // It ends within its budget, and the request waits for it.
    let evaluated = tokio::task::spawn_blocking(move || {
        let _seat = seat;
        let authorizer = Authorizer {
            asked: questions.asked(),
            subject: Questions::subject(&shown),
        };
        conditions.hold(Facts {
            object: &shown.object,
            old: &shown.old,
            request: &request,
            namespace: &Value::Null,
            params: &Value::Null,
            authorizer: Some(&authorizer),
        })
    });
    match evaluated.await.map_err(Refusal::internal)? {
        Ok(holds) => Ok(holds),
        Err(_) if webhook.spec.failure_policy == FailurePolicy::Ignore => Ok(false),
        Err(error) => {
            let resource = attributes.resource.group_resource();
            Err(Status::forbidden(&resource, attributes.shown_name(), &error).into())
        }
    }
}

/// Calls a webhook. `None` where it failed and may.
///
/// # Errors
/// It refuses, or failed and must not.
async fn ask(
    occasion: &Occasion<'_>,
    invocation: &Invocation<'_>,
    mutates: Mutates,
) -> Result<Option<Verdict>, Refusal> {
    let (webhook, context) = (invocation.webhook, occasion.call.context);
    let name = dialect::quote(&webhook.spec.name);
    if occasion.attributes.dry_run && !webhook.takes_dry_runs() {
        let text = format!("admission webhook {name} does not support dry run");
        return Err(Status::bad_request(text).into());
    }
    let attributes = occasion.objects_as(&invocation.face).await?;
    let verdict = match call(occasion, invocation, &attributes, mutates).await {
        Ok(verdict) => verdict,
        Err(error) => {
            let text = format!("failed calling webhook {name}: {error}");
            tracing::warn!(cluster = %invocation.cluster, name = webhook.spec.name, error, "webhook failed");
            if webhook.spec.failure_policy == FailurePolicy::Fail {
                return Err(Status::internal(text).into());
            }
            if Instant::now() >= context.deadline {
                let text = "request did not complete within requested timeout";
                return Err(Status::timeout(text).into());
            }
            return Ok(None);
        }
    };
    for warning in &verdict.warnings {
        context.warn(warning.as_str());
    }
    for (key, value) in &verdict.annotations {
        context.annotate(key.clone(), value.clone());
    }
    match verdict.denied {
        Some(status) => Err((*status).into()),
        None => Ok(Some(verdict)),
    }
}

async fn call(
    occasion: &Occasion<'_>,
    invocation: &Invocation<'_>,
    attributes: &Attributes,
    mutates: Mutates,
) -> Result<Verdict, String> {
    let (webhook, request) = (invocation.webhook, occasion.call.context);
    let uid = uuid::Uuid::new_v4().to_string();
    let review = webhook.review(attributes, &invocation.face, &uid)?;
    let deadline = request.deadline.min(Instant::now() + webhook.timeout());
    let webhooks = &occasion.call.shared.webhooks;
    let config = &webhook.spec.client_config;
    let answer = webhooks.call(invocation.cluster, config, &review, deadline);
    let answer = answer.await;
    let answer = answer.map_err(|error| format!("failed to call webhook: {error}"))?;
    let verdict = webhook.verdict(&answer, &uid, mutates);
    verdict.map_err(|error| format!("received invalid webhook response: {error}"))
}

/// Applies the patch of a webhook.
async fn apply(
    occasion: &Occasion<'_>,
    invocation: &Invocation<'_>,
    patch: &[Value],
    object: &mut Value,
) -> Result<Outcome, Refusal> {
    if patch.is_empty() {
        return Ok(Outcome::Unchanged);
    }
    let name = dialect::quote(&invocation.webhook.spec.name);
    if occasion.attributes.operation == Operation::Delete {
        let text = format!(
            "admission webhook {name} attempted to modify the object, which is not supported for this operation"
        );
        return Err(Status::internal(text).into());
    }
    let attributes = occasion.objects_as(&invocation.face).await?;
    let mut changed = attributes.object.clone();
    let applied = operations::check_count(patch);
    applied
        .and_then(|()| operations::apply(&mut changed, patch))
        .map_err(|refusal| {
            tracing::debug!(error = %refusal, "patch of a webhook refused");
            let text = format!("admission webhook {name} returned a patch that does not apply");
            Refusal::from(Status::internal(text))
        })?;
    let scope = occasion.call.scope;
    let version = &scope.gvk().version;
    if invocation.face.kind.version != *version {
        let cluster = &occasion.attributes.cluster;
        convert::into_version(occasion.call, cluster, &mut changed, version).await?;
    }
    // What comes of it is treated as if it had been sent.
    decode::normalize(scope, &mut changed, FieldValidation::Ignore, Nulls::Dropped).map_err(
        |abnormal| {
            abnormal.refused(|cause| {
                let text = format!("admission webhook {name} produced an invalid object: {cause}");
                Status::internal(text).into()
            })
        },
    )?;
    keep(object, &mut changed);
    Ok(replace(object, changed))
}
