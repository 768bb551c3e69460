//! MutatingAdmissionPolicies: which of them change an object that is to be written, and how.
//!
//! Expressions are evaluated on a thread that serves no requests, a bounded number at a time for each logical cluster.
//!
//! # Invariants
//! - Which policies mean a write is decided by the object as it came to their round; each mutation sees what those before
//!   it made.
//! - What a mutation makes is treated as if it had been sent: pruned, defaulted and bounded. It owns no fields.
//!
//! Source: `apiserver/pkg/admission/plugin/policy/mutating/{dispatcher,reinvocationcontext}.go`.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::admission::{FailurePolicy, ReinvocationPolicy};
use api::query::FieldValidation;
use api::{LogicalCluster, Status, StatusCause, StatusReason, meta};
use schema::fieldmanager;
use serde_json::Value;
use tokio::time::Instant;

use super::changes::{Outcome, Round, keep, replace, shown};
use super::meant::{Setup, bindings_of, meant};
use super::occasion::{Occasion, Write, out_of_time};
use super::questions::Questions;
use crate::call::{Call, Target};
use crate::guards::attributes::{Attributes, Operation};
use crate::guards::expressions::{Authorizer, Facts, visible_namespace};
use crate::guards::matching::Face;
use crate::guards::mutating_policy::{MutatingPolicy, Patch};
use crate::guards::policy::Binding;
use crate::handle::convert;
use crate::handle::decode::{self, Abnormal, Nulls};
use crate::handle::patch::operations::{self, Tested};
use crate::refusal::Refusal;
use crate::strategy::rules::TypeCheck;

/// The policies that may change an object, and which of them did so far.
pub(super) struct Mutations {
    sets: Vec<Set>,
    /// Evaluated already, and to be evaluated again if the object is changed after them.
    earlier: BTreeSet<Key>,
    /// To be evaluated again.
    due: BTreeSet<Key>,
    /// The object as they left it.
    left: Option<Value>,
}

/// Those of one cluster.
struct Set {
    cluster: LogicalCluster,
    policies: Arc<[Arc<MutatingPolicy>]>,
    bindings: Arc<[Arc<Binding>]>,
}

/// One evaluation: the cluster, the policy, the binding, and the parameter's namespace and name.
type Key = [String; 5];

/// A policy that is evaluated by a binding with one parameter.
struct Invocation<'a> {
    policy: &'a Arc<MutatingPolicy>,
    binding: &'a Binding,
    face: &'a Face,
    params: Arc<Value>,
}

/// Why a policy does not let a write pass.
struct Failed {
    message: String,
    reason: StatusReason,
}

/// Why a mutation came to nothing.
enum Unmade {
    /// The policy's `failurePolicy` decides.
    Failed(String),
    /// The request ends.
    Refused(Refusal),
}

/// What an evaluation came to.
enum Evaluated {
    /// The conditions of the policy do not hold.
    NotMeant,
    Patch(Patch),
    Failed(String),
}

// === impl Mutations ===

impl Mutations {
    /// Those that act on a write.
    pub(super) fn of(call: &Call<'_>, target: &Target) -> Result<Self, Refusal> {
        let (guards, store) = (&call.shared.guards, call.shared.store.as_ref());
        let mut sets = Vec::new();
        for (cluster, bindings) in guards.mutating_bindings.acting_on(store, &target.cluster)? {
            sets.push(Set {
                policies: guards.mutating_policies.of(store, &cluster)?,
                bindings,
                cluster,
            });
        }
        Ok(Self {
            sets,
            earlier: BTreeSet::new(),
            due: BTreeSet::new(),
            left: None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Lets them change the object: in the second round those that want to be evaluated again where it was changed after
    /// them.
    ///
    /// # Errors
    /// One of them fails, and must not.
    pub(super) async fn run(
        &mut self,
        call: &Call<'_>,
        target: &Target,
        (write, object): (Write<'_>, &mut Value),
        round: Round,
    ) -> Result<Outcome, Refusal> {
        // A deletion has no object that could be changed.
        if self.sets.is_empty() || write.operation == Operation::Delete {
            return Ok(Outcome::Unchanged);
        }
        if self.left.as_ref().is_some_and(|left| left != object) {
            self.require_again();
        }
        if round == Round::Again && self.due.is_empty() {
            return Ok(Outcome::Unchanged);
        }
        let occasion = Occasion::new(call, target, shown(write, object));
        let sets = std::mem::take(&mut self.sets);
        let mut failures = Vec::new();
        let mut outcome = Outcome::Unchanged;
        for set in &sets {
            for policy in set.policies.iter() {
                let bindings = bindings_of(&set.bindings, &policy.head);
                if bindings.is_empty() {
                    continue;
                }
                for found in meant(&occasion, &set.cluster, &policy.head, bindings).await? {
                    let binding = found.binding.as_deref();
                    let (Ok(setup), Some(binding)) = (&found.setup, binding) else {
                        failures.extend(
                            found
                                .setup
                                .err()
                                .and_then(|error| Failed::of_setup(policy, binding, &error)),
                        );
                        continue;
                    };
                    let at = (policy, binding, &set.cluster);
                    let run = self.run_binding((call, target), at, setup, (write, &mut *object));
                    let (changed, failed) = run.await?;
                    failures.extend(failed);
                    if changed == Outcome::Changed {
                        outcome = changed;
                    }
                }
            }
        }
        self.sets = sets;
        if outcome == Outcome::Changed {
            self.require_again();
        }
        self.left = Some(object.clone());
        refuse(&occasion.attributes, failures)?;
        Ok(outcome)
    }

    /// Evaluates a policy by one binding, with each of its parameters.
    async fn run_binding(
        &mut self,
        (call, target): (&Call<'_>, &Target),
        (policy, binding, cluster): (&Arc<MutatingPolicy>, &Binding, &LogicalCluster),
        setup: &Setup,
        (write, object): (Write<'_>, &mut Value),
    ) -> Result<(Outcome, Vec<Failed>), Refusal> {
        let (mut outcome, mut failures) = (Outcome::Unchanged, Vec::new());
        for params in &setup.params {
            let key = [
                cluster.to_string(),
                policy.head.name.clone(),
                binding.name.clone(),
                meta::namespace(params).to_owned(),
                meta::name(params).to_owned(),
            ];
            // They have left the object once: this is the second round.
            if self.left.is_some() && !self.due.remove(&key) {
                continue;
            }
            let invocation = Invocation {
                policy,
                binding,
                face: &setup.face,
                params: Arc::new(params.clone()),
            };
            let before = object.clone();
            let failed = invocation.run(call, target, (write, &mut *object)).await?;
            failures.extend(failed);
            if before != *object {
                outcome = Outcome::Changed;
                self.require_again();
            }
            if policy.reinvocation == ReinvocationPolicy::IfNeeded {
                self.earlier.insert(key);
            }
        }
        Ok((outcome, failures))
    }

    /// Those that were evaluated and want to see later changes are due again.
    fn require_again(&mut self) {
        self.due.append(&mut self.earlier);
    }
}

// === impl Invocation ===

impl Invocation<'_> {
    /// Changes the object by one mutation after the other. Returns those that failed and must not.
    async fn run(
        &self,
        call: &Call<'_>,
        target: &Target,
        (write, object): (Write<'_>, &mut Value),
    ) -> Result<Vec<Failed>, Refusal> {
        let mut failures = Vec::new();
        for index in 0..self.policy.mutation_count() {
            let occasion = Occasion::new(call, target, shown(write, object));
            let attributes = occasion.objects_as(self.face).await?;
            let made = match self.evaluate(&occasion, &attributes, index).await? {
                Evaluated::NotMeant => break,
                Evaluated::Patch(patch) => self.apply(&occasion, &attributes, patch, object).await,
                Evaluated::Failed(error) => Err(Unmade::Failed(error)),
            };
            match made {
                Ok(changed) => {
                    replace(object, changed);
                }
                Err(Unmade::Refused(refusal)) => return Err(refusal),
                Err(Unmade::Failed(error)) => {
                    failures.extend(Failed::of_mutation(self.policy, self.binding, &error));
                }
            }
        }
        Ok(failures)
    }

    /// Evaluates the conditions, before the first mutation, and a mutation.
    async fn evaluate(
        &self,
        occasion: &Occasion<'_>,
        attributes: &Arc<Attributes>,
        index: usize,
    ) -> Result<Evaluated, Refusal> {
        if Instant::now() >= occasion.call.context.deadline {
            return Err(out_of_time());
        }
        let namespace = if attributes.is_cluster_scoped() {
            Value::Null
        } else {
            visible_namespace(occasion.namespace().await?)
        };
        let questions = Questions::of(occasion.call, &occasion.attributes);
        let request = attributes.request(&self.face.resource, &self.face.kind);
        let seat = occasion.seat().await?;
        let (policy, attributes) = (Arc::clone(self.policy), Arc::clone(attributes));
        let params = Arc::clone(&self.params);
        // It ends within its budget; the request waits for it.
        let evaluated = tokio::task::spawn_blocking(move || {
            let _seat = seat;
            let authorizer = Authorizer {
                asked: questions.asked(),
                subject: Questions::subject(&attributes),
            };
            let facts = Facts {
                object: &attributes.object,
                old: &attributes.old,
                request: &request,
                namespace: &namespace,
                params: &params,
                authorizer: Some(&authorizer),
            };
            evaluate(&policy, index, facts)
        });
        evaluated.await.map_err(Refusal::internal)
    }

    /// The object that a patch makes of the one that the policy saw.
    async fn apply(
        &self,
        occasion: &Occasion<'_>,
        attributes: &Attributes,
        patch: Patch,
        before: &Value,
    ) -> Result<Value, Unmade> {
        let scope = occasion.call.scope;
        let (mut changed, is_sent) = match patch {
            Patch::Configuration(fields) => {
                let changed = merged(occasion, self.face, &attributes.object, fields);
                (changed.map_err(Unmade::Failed)?, false)
            }
            Patch::Operations(operations) => {
                let changed = patched(&attributes.object, &operations).map_err(Unmade::Failed)?;
                let Some(changed) = changed else {
                    return Ok(before.clone());
                };
                (changed, true)
            }
        };
        let version = &scope.gvk().version;
        if self.face.kind.version != *version {
            let cluster = &occasion.attributes.cluster;
            let converted = convert::into_version(occasion.call, cluster, &mut changed, version);
            converted.await.map_err(Unmade::Refused)?;
        }
        // What comes of it is treated as if it had been sent. Only patched objects of built-in kinds are decoded strictly.
        let validation = match scope.typing().type_check() {
            TypeCheck::OnDecoding if is_sent => FieldValidation::Strict,
            _ => FieldValidation::Ignore,
        };
        let name = dialect::quote(&self.policy.head.name);
        let invalid = |cause: &str| -> Refusal {
            let text = format!("admission policy {name} produced an invalid object: {cause}");
            Status::internal(text).into()
        };
        let unknown = match decode::normalize(scope, &mut changed, validation, Nulls::Dropped) {
            Ok(unknown) => unknown,
            Err(Abnormal::Malformed(error)) if !is_sent => return Err(Unmade::Failed(error)),
            Err(abnormal) => return Err(Unmade::Refused(abnormal.refused(invalid))),
        };
        if !unknown.is_empty() {
            let text = format!("strict decoding error: {}", unknown.join(", "));
            return Err(Unmade::Refused(invalid(&text)));
        }
        keep(before, &mut changed);
        Ok(changed)
    }
}

// === impl Failed ===

impl Failed {
    /// That a policy cannot be evaluated as it is set up; `None` where it may fail.
    fn of_setup(policy: &MutatingPolicy, binding: Option<&Binding>, error: &str) -> Option<Self> {
        let part = if binding.is_some() {
            "binding"
        } else {
            "policy"
        };
        let error = format!("failed to configure {part}: {error}");
        Self::of(policy, binding, &error, StatusReason::Forbidden)
    }

    /// That a mutation failed; `None` where it may.
    fn of_mutation(policy: &MutatingPolicy, binding: &Binding, error: &str) -> Option<Self> {
        Self::of(policy, Some(binding), error, StatusReason::Invalid)
    }

    fn of(
        policy: &MutatingPolicy,
        binding: Option<&Binding>,
        error: &str,
        reason: StatusReason,
    ) -> Option<Self> {
        let name = &policy.head.name;
        let by = match binding {
            Some(binding) => format!("policy '{name}' with binding '{}'", binding.name),
            None => format!("policy {}", dialect::quote(name)),
        };
        (policy.head.failure == FailurePolicy::Fail).then(|| Self {
            message: format!("{by} denied request: {error}"),
            reason,
        })
    }
}

/// Refuses a write for which policies failed that must not.
fn refuse(attributes: &Attributes, failures: Vec<Failed>) -> Result<(), Refusal> {
    let Some(first) = failures.first() else {
        return Ok(());
    };
    let resource = attributes.resource.group_resource();
    let mut status = Status::forbidden(&resource, attributes.shown_name(), &first.message);
    (status.message, status.reason) = (first.message.clone(), first.reason);
    for failed in failures {
        status = status.with_cause(StatusCause {
            message: failed.message,
            ..StatusCause::default()
        });
    }
    Err(status.into())
}

fn evaluate(policy: &MutatingPolicy, index: usize, facts: Facts<'_>) -> Evaluated {
    if index == 0 {
        match policy.head.conditions.hold(facts) {
            Ok(true) => {}
            Ok(false) => return Evaluated::NotMeant,
            // Under `Ignore` a condition that fails is one that does not hold.
            Err(_) if policy.head.failure == FailurePolicy::Ignore => return Evaluated::NotMeant,
            Err(error) => return Evaluated::Failed(error),
        }
    }
    match policy.patch(index, facts) {
        None => Evaluated::NotMeant,
        Some(Ok(patch)) => Evaluated::Patch(patch),
        Some(Err(error)) => Evaluated::Failed(error),
    }
}

/// Merges fields into an object as server-side apply does, but for the owners.
fn merged(
    occasion: &Occasion<'_>,
    face: &Face,
    object: &Value,
    mut fields: Value,
) -> Result<Value, String> {
    let rules = &occasion.call.scope.rules;
    let version = rules
        .versions
        .iter()
        .find(|it| it.gvk.version == face.kind.version);
    let version = version.ok_or_else(|| format!("{} is not served", face.kind.version))?;
    if let Some(fields) = fields.as_object_mut() {
        for name in ["apiVersion", "kind"] {
            fields.insert(name.to_owned(), object[name].clone());
        }
    }
    fieldmanager::merge_unowned(&version.schema, object, fields)
        .map_err(|error| format!("error applying patch: {error}"))
}

/// Applies the operations of a JSON patch; `None` where one of them is a test that does not hold.
fn patched(object: &Value, list: &[Value]) -> Result<Option<Value>, String> {
    let mut changed = object.clone();
    let tested = operations::check_count(list)
        .and_then(|()| operations::apply_tested(&mut changed, list))
        .map_err(|refusal| format!("JSON Patch: {refusal}"))?;
    Ok((tested == Tested::Applied).then_some(changed))
}
