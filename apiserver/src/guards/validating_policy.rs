//! One ValidatingAdmissionPolicy: compiled once, then asked about writes.
//!
//! Source: `apiserver/pkg/admission/plugin/policy/validating/{plugin,validator}.go`.

use api::admission::{AuditAnnotation, FailurePolicy, ValidatingPolicySpec, Validation};
use expressions::{Allowance, Bindings, Declarations};

use super::expressions::{
    Compiled, Facts, Names, Problem, Returns, compile, declarations, evaluate,
};
use super::policy::{HeadSpec, PolicyHead};

/// The longest message that an expression may make. Source: `MaxEvaluatedMessageExpressionSizeBytes`.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// A policy.
#[derive(Debug)]
pub(crate) struct ValidatingPolicy {
    pub(crate) head: PolicyHead,
    validations: Vec<(Validation, Compiled, Option<Compiled>)>,
    annotations: Vec<(AuditAnnotation, Compiled)>,
}

/// What a policy says to a write, with one parameter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// One per validation.
    pub(crate) decisions: Vec<Decision>,
    /// What goes into the audit record.
    pub(crate) annotations: Vec<(String, String)>,
    /// Annotations that failed, and refuse the request whatever the binding's actions are.
    pub(crate) failed_annotations: Vec<String>,
}

/// What a validation says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It holds, or may fail.
    Admit,
    /// It does not hold.
    Deny {
        /// Why.
        message: String,
        /// The reason of a refusal; empty for the default.
        reason: String,
    },
}

// === impl ValidatingPolicy ===

impl ValidatingPolicy {
    pub(crate) fn compile(name: &str, spec: ValidatingPolicySpec) -> Self {
        let unauthorized = Names {
            params: spec.param_kind.is_some(),
            authorizer: false,
        };
        let head = HeadSpec {
            constraints: &spec.match_constraints,
            failure: spec.failure_policy,
            param_kind: spec.param_kind,
            conditions: &spec.match_conditions,
            variables: &spec.variables,
        };
        let (head, declared) = PolicyHead::compile(name, head);
        let mut for_messages = declarations(unauthorized);
        copy_variables(&declared, &mut for_messages);
        let validations = spec.validations.into_iter().map(|validation| {
            let program = compile(&validation.expression, &declared, Returns::Bool);
            let message = Some(&validation.message_expression)
                .filter(|source| !source.is_empty())
                .map(|source| compile(source, &for_messages, Returns::Text));
            (validation, program, message)
        });
        let annotations = spec.audit_annotations.into_iter().map(|annotation| {
            let source = annotation.value_expression.trim();
            let program = compile(source, &declared, Returns::TextOrNull);
            (annotation, program)
        });
        Self {
            head,
            validations: validations.collect(),
            annotations: annotations.collect(),
        }
    }

    /// Judges a write.
    pub(crate) fn judge(&self, facts: Facts<'_>) -> Judgement {
        match self.head.conditions.hold(facts) {
            Ok(true) => {}
            Ok(false) => return Judgement::default(),
            // Under `Ignore` a condition that fails is one that does not hold.
            Err(_) if self.head.failure == FailurePolicy::Ignore => return Judgement::default(),
            Err(error) => return self.failed(error),
        }
        let mut judgement = match self.decide(facts) {
            Ok(decisions) => Judgement {
                decisions,
                ..Judgement::default()
            },
            Err(error) => return self.failed(error.to_owned()),
        };
        match self.annotate(facts, &mut judgement) {
            Ok(()) => judgement,
            Err(error) => self.failed(error.to_owned()),
        }
    }

    fn failed(&self, message: String) -> Judgement {
        Judgement {
            decisions: vec![self.failure_decision(message)],
            ..Judgement::default()
        }
    }

    fn failure_decision(&self, message: String) -> Decision {
        match self.head.failure {
            FailurePolicy::Ignore => Decision::Admit,
            FailurePolicy::Fail => Decision::Deny {
                message,
                reason: String::new(),
            },
        }
    }

    fn decide(&self, facts: Facts<'_>) -> Result<Vec<Decision>, &'static str> {
        let mut allowance = Allowance::DEFAULT;
        let bindings = facts.bindings(&self.head.variables);
        let mut results = Vec::with_capacity(self.validations.len());
        for (validation, program, _) in &self.validations {
            match evaluate(&validation.expression, program, &bindings, &mut allowance) {
                Err(Problem::Budget(error)) => return Err(error),
                Err(Problem::Failed(error)) => results.push(Err(error)),
                Ok(value) => results.push(Ok(value.as_bool() == Some(true))),
            }
        }
        let messages = Facts {
            authorizer: None,
            ..facts
        };
        let bindings = messages.bindings(&self.head.variables);
        let decisions = self.validations.iter().zip(results).map(|(it, result)| {
            let (validation, _, message) = it;
            match result {
                Ok(true) => Decision::Admit,
                Err(error) => self.failure_decision(error),
                Ok(false) => {
                    let made = message
                        .as_ref()
                        .map(|program| make(validation, program, &bindings, &mut allowance));
                    match made {
                        Some(Err(error)) => {
                            self.failure_decision(format!("failed messageExpression: {error}"))
                        }
                        Some(Ok(made)) => denied(validation, made),
                        None => denied(validation, None),
                    }
                }
            }
        });
        Ok(decisions.collect())
    }

    fn annotate(&self, facts: Facts<'_>, judgement: &mut Judgement) -> Result<(), &'static str> {
        let mut allowance = Allowance::DEFAULT;
        let bindings = facts.bindings(&self.head.variables);
        for (annotation, program) in &self.annotations {
            let source = &annotation.value_expression;
            match evaluate(source, program, &bindings, &mut allowance) {
                Err(Problem::Budget(error)) => return Err(error),
                Err(Problem::Failed(error)) if self.head.failure == FailurePolicy::Fail => {
                    judgement.failed_annotations.push(error);
                }
                Err(Problem::Failed(_)) => {}
                Ok(value) => {
                    let text = value.as_str().map(str::trim).unwrap_or_default();
                    if !text.is_empty() {
                        let annotation = (annotation.key.clone(), text.to_owned());
                        judgement.annotations.push(annotation);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Declares in `to` the variables that `from` has.
fn copy_variables(from: &Declarations, to: &mut Declarations) {
    let prefix = super::expressions::VARIABLES;
    let names: Vec<_> = from
        .names()
        .filter(|name| name.starts_with(prefix))
        .collect();
    for name in names {
        if let Some(ty) = from.get(name) {
            to.declare(name, ty.clone());
        }
    }
}

/// Makes a message; nothing where what comes out is not usable.
fn make(
    validation: &Validation,
    program: &Compiled,
    bindings: &Bindings<'_>,
    allowance: &mut Allowance,
) -> Result<Option<String>, &'static str> {
    let source = &validation.message_expression;
    match evaluate(source, program, bindings, allowance) {
        Err(Problem::Budget(error)) => Err(error),
        Err(Problem::Failed(_)) => Ok(None),
        Ok(value) => {
            let text = value.as_str().map(str::trim).unwrap_or_default();
            let is_usable =
                !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
            Ok(is_usable.then(|| text.to_owned()))
        }
    }
}

fn denied(validation: &Validation, made: Option<String>) -> Decision {
    let said = validation.message.trim();
    let message = match made {
        Some(made) => made,
        None if said.is_empty() => {
            format!("failed expression: {}", validation.expression.trim())
        }
        None => said.to_owned(),
    };
    Decision::Deny {
        message,
        reason: validation.reason.clone(),
    }
}
