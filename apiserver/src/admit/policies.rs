//! ValidatingAdmissionPolicies: which of them judge a write, with which parameters, and what follows.
//!
//! Which policies and bindings mean a write is found out here; their expressions are evaluated on a thread that serves no
//! requests, a bounded number at a time for each logical cluster.
//!
//! # Invariants
//! - Parameters are read in the cluster that holds the policy, and nowhere else.
//! - A write that its policies could not judge in time is not done.
//!
//! Source: `apiserver/pkg/admission/plugin/policy/validating/dispatcher.go`, `.../policy/generic/policy_dispatcher.go`.

use std::sync::Arc;

use api::admission::{FailurePolicy, ParamKind, ParamRef, ParameterNotFound, ValidationAction};
use api::selector::LabelSelector;
use api::{ClusterScope, LogicalCluster, Status, StatusCause, StatusReason, meta};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::occasion::{Occasion, Write, out_of_time};
use super::questions::Questions;
use crate::call::{Call, Target};
use crate::guards::attributes::Attributes;
use crate::guards::configurations::acting;
use crate::guards::expressions::{Authorizer, Facts, visible_namespace};
use crate::guards::matching::Face;
use crate::guards::validating_policy::{Decision, Judgement, ValidatingBinding, ValidatingPolicy};
use crate::handle::convert;
use crate::refusal::Refusal;
use crate::registry::ResourceScope;

/// The longest annotation. Source: `maxAuditAnnotationValueLength`.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;

/// A policy that judges a write by a binding.
struct Case {
    policy: Arc<ValidatingPolicy>,
    binding: Option<Arc<ValidatingBinding>>,
    outcome: Outcome,
}

enum Outcome {
    /// It cannot judge the write as it is set up.
    Misconfigured(String),
    /// It is yet to judge it, once for each parameter.
    Pending(Pending),
    /// It has judged it.
    Judged(Vec<Judgement>),
}

struct Pending {
    face: Face,
    attributes: Arc<Attributes>,
    params: Vec<Value>,
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
    let guards = &call.shared.guards;
    let mut sets = Vec::new();
    for cluster in acting(&target.cluster) {
        let store = call.shared.store.as_ref();
        let bindings = guards.bindings.of(store, &cluster)?;
        if !bindings.is_empty() {
            sets.push((guards.policies.of(store, &cluster)?, bindings, cluster));
        }
    }
    if sets.is_empty() || Occasion::is_exempt(call, &write) {
        return Ok(());
    }
    let occasion = Occasion::new(call, target, write);
    let mut cases = Vec::new();
    for (of_cluster, bindings, cluster) in sets {
        for policy in of_cluster.iter() {
            let bindings = bindings
                .iter()
                .filter(|it| it.spec.policy_name == policy.name);
            let bindings: Vec<_> = bindings.map(Arc::clone).collect();
            if !bindings.is_empty() {
                cases.extend(cases_of(&occasion, &cluster, policy, bindings).await?);
            }
        }
    }
    let cases = evaluate(&occasion, cases).await?;
    conclude(&occasion, &cases)
}

/// Finds the bindings by which a policy judges a write.
async fn cases_of(
    occasion: &Occasion<'_>,
    cluster: &LogicalCluster,
    policy: &Arc<ValidatingPolicy>,
    bindings: Vec<Arc<ValidatingBinding>>,
) -> Result<Vec<Case>, Refusal> {
    let others = occasion.other_faces();
    let case = |binding: Option<&Arc<ValidatingBinding>>, outcome| Case {
        policy: Arc::clone(policy),
        binding: binding.map(Arc::clone),
        outcome,
    };
    let misconfigured = |error: String| vec![case(None, Outcome::Misconfigured(error))];
    let face = match &policy.constraints {
        Ok(constraints) => match told(occasion.judge(constraints, &others).await)? {
            Ok(Some(face)) => face,
            Ok(None) => return Ok(Vec::new()),
            Err(error) => return Ok(misconfigured(error)),
        },
        Err(error) => return Ok(misconfigured(error.clone())),
    };
    if let Some(kind) = &policy.param_kind
        && let Err(error) = param_scope(occasion, cluster, kind)
    {
        return Ok(misconfigured(error));
    }
    let mut cases = Vec::new();
    for binding in &bindings {
        let meant = match &binding.constraints {
            Ok(None) => Ok(true),
            Ok(Some(constraints)) => {
                told(occasion.judge(constraints, &others).await)?.map(|face| face.is_some())
            }
            Err(error) => Err(error.clone()),
        };
        let outcome = match meant {
            Ok(false) => continue,
            Ok(true) => pending(occasion, cluster, (policy, binding), &face).await,
            Err(error) => Err(error),
        };
        cases.push(case(
            Some(binding),
            outcome.map_or_else(Outcome::Misconfigured, Outcome::Pending),
        ));
    }
    Ok(cases)
}

/// What a policy says of a namespace that is not there is a fault of its configuration, as in Kubernetes; a namespace that
/// cannot be read now refuses the write.
fn told<T>(judged: Result<T, Refusal>) -> Result<Result<T, String>, Refusal> {
    match judged {
        Ok(judged) => Ok(Ok(judged)),
        Err(refusal) => match refusal.status() {
            Some(status) if status.is_not_found() => Ok(Err(status.message.clone())),
            _ => Err(refusal),
        },
    }
}

async fn pending(
    occasion: &Occasion<'_>,
    cluster: &LogicalCluster,
    (policy, binding): (&ValidatingPolicy, &ValidatingBinding),
    face: &Face,
) -> Result<Pending, String> {
    let kind = policy.param_kind.as_ref();
    let params = params(occasion, cluster, kind, binding.spec.param_ref.as_ref()).await?;
    let attributes = occasion
        .objects_as(face)
        .await
        .map_err(|refusal| format!("failed to convert object version: {refusal}"))?;
    Ok(Pending {
        face: face.clone(),
        attributes,
        params,
    })
}

/// How a cluster serves the kind of parameters.
fn param_scope(
    occasion: &Occasion<'_>,
    cluster: &LogicalCluster,
    kind: &ParamKind,
) -> Result<Arc<ResourceScope>, String> {
    let shared = occasion.call.shared;
    let (group, version) = kind
        .api_version
        .split_once('/')
        .unwrap_or(("", kind.api_version.as_str()));
    let unknown = || {
        let shown = format!("{group}/{version}, Kind={}", kind.kind);
        format!("failed to find resource referenced by paramKind: '{shown}'")
    };
    let served = shared.registry.served(&ClusterScope::One(cluster.clone()));
    let served = served.ok_or_else(unknown)?;
    let mut kinds = served.of_group_version(group, version);
    let resource = kinds
        .find(|it| it.gvk.kind == kind.kind)
        .ok_or_else(unknown)?;
    let resource = resource.gvr.resource.as_str();
    let scope = shared.registry.lookup(cluster, group, version, resource);
    scope.ok_or_else(unknown)
}

/// Reads the parameters of a binding; null is one that it does not have. Source: `CollectParams`.
async fn params(
    occasion: &Occasion<'_>,
    cluster: &LogicalCluster,
    kind: Option<&ParamKind>,
    reference: Option<&ParamRef>,
) -> Result<Vec<Value>, String> {
    let (Some(kind), Some(reference)) = (kind, reference) else {
        return Ok(vec![Value::Null]);
    };
    let shared = occasion.call.shared;
    let scope = param_scope(occasion, cluster, kind)?;
    let namespace = match (scope.kind.namespaced, reference.namespace.as_str()) {
        (true, "") if occasion.attributes.namespace.is_empty() => {
            let text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(text.to_owned());
        }
        (true, "") => occasion.attributes.namespace.as_str(),
        (true, namespace) => namespace,
        (false, "") => "",
        (false, _) => {
            let text = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Err(text.to_owned());
        }
    };
    let store = shared.store.as_ref();
    let prefix = &scope.rules.prefix;
    let entries = if reference.selector.is_none() {
        Vec::from_iter(store.get(&prefix.key(cluster, namespace, &reference.name)))
    } else {
        let range = prefix.range(&ClusterScope::One(cluster.clone()), Some(namespace));
        let found = store.range(storage::RangeQuery::of(range));
        found.map_err(|error| error.to_string())?.entries
    };
    let selector = reference.selector.as_ref();
    let selector = selector.map(LabelSelector::to_selector);
    let selector = selector.transpose().map_err(|error| error.to_string())?;
    let deadline = occasion.call.context.deadline;
    let entries = convert::ready(shared, &scope, entries, deadline).await;
    let entries = entries.map_err(|error| error.to_string())?;
    let mut params = Vec::new();
    for entry in entries {
        let object = convert::served_value(&scope, &entry).map_err(|error| error.to_string())?;
        let labels = meta::labels(&object).cloned().unwrap_or_default();
        if selector.as_ref().is_none_or(|it| it.matches(&labels)) {
            params.push(object);
        }
    }
    if params.is_empty() && reference.parameter_not_found_action == ParameterNotFound::Deny {
        let text = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(text.to_owned());
    }
    Ok(params)
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
                let Pending {
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
            Outcome::Misconfigured(_) if case.policy.failure == FailurePolicy::Ignore => {}
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
                        let key = format!("{}/{key}", case.policy.name);
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
        let (policy, name) = (&case.policy.name, &binding.name);
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
    let policy = &case.policy.name;
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
