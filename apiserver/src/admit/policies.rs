//! ValidatingAdmissionPolicies: which of them judge a write, and what follows.
//!
//! Which policies and bindings mean a write is found out here; their expressions are evaluated on a thread that serves no
//! requests, a bounded number at a time for each logical cluster.
//!
//! # Invariants
//! - A write that its policies could not judge in time is not done.
//!
//! Source: `apiserver/pkg/admission/plugin/policy/validating/dispatcher.go`, `.../policy/generic/policy_dispatcher.go`.

use std::sync::Arc;

use api::admission::{FailurePolicy, ValidationAction};
use api::{Status, StatusCause, StatusReason};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::meant::{Setup, bindings_of, meant};
use super::occasion::{Occasion, Write, out_of_time};
use super::questions::Questions;
use crate::call::{Call, Target};
use crate::guards::attributes::Attributes;
use crate::guards::expressions::{Authorizer, Facts, visible_namespace};
use crate::guards::policy::Binding;
use crate::guards::validating_policy::{Decision, Judgement, ValidatingPolicy};
use crate::refusal::Refusal;

/// The longest annotation. Source: `maxAuditAnnotationValueLength`.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;

/// A policy that judges a write by a binding.
struct Case {
    policy: Arc<ValidatingPolicy>,
    binding: Option<Arc<Binding>>,
    outcome: Outcome,
}

enum Outcome {
    /// It cannot judge the write as it is set up.
    Misconfigured(String),
    /// It is yet to judge it, once for each parameter.
    Pending(Setup),
    /// It has judged it.
    Judged(Vec<Judgement>),
}

/// Lets a write pass that its policies do not refuse.
///
/// # Errors
/// The refusal of the first policy that does.
pub(crate) async fn admit(
    call: &Call<'_>,
    target: &Target,
    write: Write<'_>,
) -> Result<(), Refusal> {
    let (guards, store) = (&call.shared.guards, call.shared.store.as_ref());
    let mut sets = Vec::new();
    for (cluster, bindings) in guards
        .validating_bindings
        .acting_on(store, &target.cluster)?
    {
        let policies = guards.validating_policies.of(store, &cluster)?;
        sets.push((policies, bindings, cluster));
    }
    if sets.is_empty() || Occasion::is_exempt(call, &write) {
        return Ok(());
    }
    let occasion = Occasion::new(call, target, write);
    let mut cases = Vec::new();
    for (of_cluster, bindings, cluster) in sets {
        for policy in of_cluster.iter() {
            let bindings = bindings_of(&bindings, &policy.head);
            if bindings.is_empty() {
                continue;
            }
            for found in meant(&occasion, &cluster, &policy.head, bindings).await? {
                cases.push(Case {
                    policy: Arc::clone(policy),
                    binding: found.binding,
                    outcome: found
                        .setup
                        .map_or_else(Outcome::Misconfigured, Outcome::Pending),
                });
            }
        }
    }
    let cases = evaluate(&occasion, cases).await?;
    conclude(&occasion, &cases)
}

/// Evaluates the expressions of all cases.
async fn evaluate(occasion: &Occasion<'_>, cases: Vec<Case>) -> Result<Vec<Case>, Refusal> {
    let waits = |case: &Case| matches!(case.outcome, Outcome::Pending(_));
    if !cases.iter().any(waits) {
        return Ok(cases);
    }
    let call = occasion.call;
    let deadline = call.context.deadline;
    let namespace = visible_namespace(occasion.namespace().await?);
    let namespace = if occasion.attributes.is_cluster_scoped() {
        Value::Null
    } else {
        namespace
    };
    let questions = Questions::of(call, &occasion.attributes);
    let seat = occasion.seat().await?;
    let judge = move || {
        let _seat = seat;
        judge_all(cases, &namespace, &questions, deadline)
    };
    // It ends within its budget, and with its deadline; the request waits for it.
    let judged = tokio::task::spawn_blocking(judge).await;
    judged.map_err(Refusal::internal)?.ok_or_else(out_of_time)
}

/// `None` where time ran out.
fn judge_all(
    cases: Vec<Case>,
    namespace: &Value,
    questions: &Questions,
    deadline: Instant,
) -> Option<Vec<Case>> {
    let mut judged = Vec::with_capacity(cases.len());
    for case in cases {
        let outcome = match case.outcome {
            Outcome::Pending(pending) => {
                let Setup {
                    face,
                    attributes,
                    params,
                } = pending;
                let request = attributes.request(&face.resource, &face.kind);
                let authorizer = Authorizer {
                    asked: questions.asked(),
                    subject: Questions::subject(&attributes),
                };
                let mut judgements = Vec::with_capacity(params.len());
                for params in &params {
                    if Instant::now() >= deadline {
                        return None;
                    }
                    judgements.push(case.policy.judge(Facts {
                        object: &attributes.object,
                        old: &attributes.old,
                        request: &request,
                        namespace,
                        params,
                        authorizer: Some(&authorizer),
                    }));
                }
                Outcome::Judged(judgements)
            }
            known => known,
        };
        judged.push(Case { outcome, ..case });
    }
    Some(judged)
}

/// Warns, records, and refuses what is to be refused.
fn conclude(occasion: &Occasion<'_>, cases: &[Case]) -> Result<(), Refusal> {
    let mut denied = None;
    let mut deny = |case: &Case, message: &str, reason: &str| {
        denied.get_or_insert_with(|| refusal(&occasion.attributes, case, message, reason));
    };
    let context = occasion.call.context;
    for case in cases {
        match &case.outcome {
            Outcome::Misconfigured(_) if case.policy.head.failure == FailurePolicy::Ignore => {}
            Outcome::Misconfigured(error) => {
                let part = if case.binding.is_some() {
                    "binding"
                } else {
                    "policy"
                };
                deny(case, &format!("failed to configure {part}: {error}"), "");
            }
            Outcome::Pending(_) => {}
            Outcome::Judged(judgements) => {
                for judgement in judgements {
                    follow(occasion, case, judgement, &mut deny);
                    for (key, value) in &judgement.annotations {
                        let key = format!("{}/{key}", case.policy.head.name);
                        context.annotate(key, shortened(value));
                    }
                    for error in &judgement.failed_annotations {
                        deny(case, error, "");
                    }
                }
            }
        }
    }
    denied.map_or(Ok(()), Err)
}

/// Does what a binding says where validations do not hold.
fn follow(
    occasion: &Occasion<'_>,
    case: &Case,
    judgement: &Judgement,
    deny: &mut dyn FnMut(&Case, &str, &str),
) {
    let Some(binding) = &case.binding else {
        return;
    };
    let context = occasion.call.context;
    for (index, decision) in judgement.decisions.iter().enumerate() {
        let Decision::Deny { message, reason } = decision else {
            continue;
        };
        if binding.does(ValidationAction::Deny) {
            deny(case, message, reason);
        }
        let (policy, name) = (&case.policy.head.name, &binding.name);
        if binding.does(ValidationAction::Warn) {
            context.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{name}': {message}"
            ));
        }
        if binding.does(ValidationAction::Audit) {
            let actions = binding.spec.validation_actions.iter();
            let actions: Vec<_> = actions.map(|action| format!("{action:?}")).collect();
            let failure = json!([{
                "message": message, "policy": policy, "binding": name, "expressionIndex": index,
                "validationActions": actions,
            }]);
            let key = "validation.policy.admission.k8s.io/validation_failure";
            context.annotate(key.to_owned(), failure.to_string());
        }
    }
}

/// The refusal of a write by a policy.
fn refusal(attributes: &Attributes, case: &Case, message: &str, reason: &str) -> Refusal {
    let policy = &case.policy.head.name;
    let message = match &case.binding {
        Some(binding) => format!(
            "ValidatingAdmissionPolicy '{policy}' with binding '{}' denied request: {message}",
            binding.name
        ),
        None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
    };
    let resource = attributes.resource.group_resource();
    let mut status = Status::forbidden(&resource, attributes.shown_name(), &message);
    (status.code, status.reason) = match reason {
        "Forbidden" => (403, StatusReason::Forbidden),
        "Unauthorized" => (401, StatusReason::Unauthorized),
        "RequestEntityTooLarge" => (413, StatusReason::RequestEntityTooLarge),
        _ => (422, StatusReason::Invalid),
    };
    let cause = StatusCause {
        message,
        ..StatusCause::default()
    };
    status.with_cause(cause).into()
}

fn shortened(value: &str) -> String {
    let end = value.floor_char_boundary(ANNOTATION_BYTES_MAX);
    value.get(..end).unwrap_or_default().to_owned()
}
