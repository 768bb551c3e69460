//! Policies: their expressions must compile, with the variables before them.

use std::collections::HashSet;

use api::validation::is_qualified_name;
use api::{FieldError, FieldPath, meta};
use expressions::{DeclType, Declarations, RESERVED_WORDS};
use serde_json::Value;

use super::{items, one_of, rules, text, validate_param_kind};
use crate::guards::expressions::{Names, Returns, compile, declarations, declare_variable};

const CONDITION_COUNT_MAX: usize = 64;
const ANNOTATION_COUNT_MAX: usize = 20;
const ANNOTATION_BYTES_MAX: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// What expressions of a policy may name.
struct Declared {
    conditions: Declarations,
    authorized: Declarations,
    messages: Declarations,
}

/// Judges a ValidatingAdmissionPolicy.
pub(super) fn validate_policy(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let (path, spec) = (FieldPath::new("spec"), &object["spec"]);
    let mut declared = Declared::of(spec);
    let mut errors = validate_head(spec, live, &path, &mut declared);
    let (validations, annotations) = (&spec["validations"], &spec["auditAnnotations"]);
    if items(validations).is_empty() && items(annotations).is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        for field in ["validations", "auditAnnotations"] {
            errors.push(FieldError::required(&path.child(field), detail));
        }
        return errors;
    }
    for (index, validation) in items(validations).iter().enumerate() {
        let at = path.child("validations").index(index);
        errors.extend(declared.validation(validation, &at));
    }
    let at = path.child("auditAnnotations");
    errors.extend(declared.annotations(meta::name(object), annotations, &at));
    errors
}

/// Judges a MutatingAdmissionPolicy.
pub(super) fn validate_mutating_policy(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let (path, spec) = (FieldPath::new("spec"), &object["spec"]);
    let mut declared = Declared::of(spec);
    let mut errors = validate_head(spec, live, &path, &mut declared);
    let at = path.child("matchConstraints");
    errors.extend(rules::validate_mutating(&spec["matchConstraints"], &at));
    let (mutations, at) = (items(&spec["mutations"]), path.child("mutations"));
    if mutations.is_empty() {
        let detail = "mutations must contain at least one item";
        errors.push(FieldError::required(&at, detail));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        errors.extend(declared.mutation(mutation, &at.index(index)));
    }
    let (policy, at) = (
        &spec["reinvocationPolicy"],
        path.child("reinvocationPolicy"),
    );
    errors.extend(one_of(policy, &at, &["IfNeeded", "Never"]));
    errors
}

/// Judges what policies of both kinds have, and declares their variables.
fn validate_head(
    spec: &Value,
    live: Option<&Value>,
    path: &FieldPath,
    declared: &mut Declared,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = path.child("failurePolicy");
    errors.extend(one_of(&spec["failurePolicy"], &at, &["Fail", "Ignore"]));
    errors.extend(validate_param_kind(
        &spec["paramKind"],
        &path.child("paramKind"),
    ));
    errors.extend(validate_constraints(&spec["matchConstraints"], path));
    let same = |field: &str| live.is_some_and(|live| live["spec"][field] == spec[field]);
    if !(same("paramKind") && same("matchConditions")) {
        let at = path.child("matchConditions");
        let found = validate_conditions(&spec["matchConditions"], &at, &declared.conditions);
        errors.extend(found);
    }
    for (index, variable) in items(&spec["variables"]).iter().enumerate() {
        let at = path.child("variables").index(index);
        errors.extend(declared.variable(variable, &at));
    }
    errors
}

fn validate_constraints(constraints: &Value, path: &FieldPath) -> Vec<FieldError> {
    let at = path.child("matchConstraints");
    if constraints.is_null() {
        return vec![FieldError::required(&at, "")];
    }
    let mut errors = rules::validate_match(constraints, &at);
    if items(&constraints["resourceRules"]).is_empty() {
        errors.push(FieldError::required(&at.child("resourceRules"), ""));
    }
    errors
}

/// Judges the match conditions of a policy or a webhook.
pub(super) fn validate_conditions(
    conditions: &Value,
    path: &FieldPath,
    declared: &Declarations,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let count = items(conditions).len();
    if count > CONDITION_COUNT_MAX {
        errors.push(FieldError::too_many(path, count, CONDITION_COUNT_MAX));
    }
    let mut names = HashSet::new();
    for (index, condition) in items(conditions).iter().enumerate() {
        let at = path.index(index);
        let source = text(&condition["expression"]).trim();
        if source.is_empty() {
            errors.push(FieldError::required(&at.child("expression"), ""));
        } else {
            let at = at.child("expression");
            errors.extend(judge(source, declared, Returns::Bool, &at));
        }
        let (name, at) = (text(&condition["name"]), at.child("name"));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let found = is_qualified_name(name).into_iter();
        errors.extend(found.map(|detail| FieldError::invalid(&at, name, detail)));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
    }
    errors
}

/// What the conditions of webhooks may name.
pub(super) fn of_webhooks() -> Declarations {
    declarations(Names {
        params: false,
        authorizer: true,
    })
}

fn judge(
    source: &str,
    declared: &Declarations,
    returns: Returns,
    path: &FieldPath,
) -> Option<FieldError> {
    let error = compile(source, declared, returns).err()?;
    Some(FieldError::invalid(path, source, error))
}

// === impl Declared ===

impl Declared {
    fn of(spec: &Value) -> Self {
        let params = !spec["paramKind"].is_null();
        let of = |authorizer| declarations(Names { params, authorizer });
        Self {
            conditions: of(true),
            authorized: of(true),
            messages: of(false),
        }
    }

    /// Judges a variable, and declares it for those behind it.
    fn variable(&mut self, variable: &Value, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let (name, at) = (text(&variable["name"]), path.child("name"));
        if name.trim().is_empty() {
            errors.push(FieldError::required(&at, "name is not specified"));
        } else if !is_identifier(name) {
            errors.push(FieldError::invalid(
                &at,
                name,
                "must be a valid CEL identifier",
            ));
        }
        let (source, at) = (text(&variable["expression"]), path.child("expression"));
        if source.trim().is_empty() {
            errors.push(FieldError::required(&at, "expression is not specified"));
            return errors;
        }
        let compiled = compile(source, &self.authorized, Returns::Anything);
        let ty = match compiled {
            Ok(program) => program.result_type().clone(),
            Err(error) => {
                errors.push(FieldError::invalid(&at, source, error));
                DeclType::Dyn
            }
        };
        declare_variable(&mut self.authorized, name, ty.clone());
        declare_variable(&mut self.messages, name, ty);
        errors
    }

    fn validation(&self, validation: &Value, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let (source, at) = (text(&validation["expression"]), path.child("expression"));
        if source.trim().is_empty() {
            errors.push(FieldError::required(&at, "expression is not specified"));
        } else {
            errors.extend(judge(source, &self.authorized, Returns::Bool, &at));
        }
        let source = text(&validation["messageExpression"]);
        let at = path.child("messageExpression");
        if !source.is_empty() && source.trim().is_empty() {
            errors.push(FieldError::invalid(
                &at,
                source,
                "must be non-empty if specified",
            ));
        } else if !source.is_empty() {
            errors.extend(judge(source, &self.messages, Returns::Text, &at));
        }
        let (message, at) = (text(&validation["message"]), path.child("message"));
        if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(
                &at,
                message,
                "must be non-empty if specified",
            ));
        } else if message.trim().contains(['\n', '\r']) {
            errors.push(FieldError::invalid(
                &at,
                message,
                "must not contain line breaks",
            ));
        }
        let reason = &validation["reason"];
        if let Some(reason) = reason.as_str()
            && !REASONS.contains(&reason)
        {
            errors.push(FieldError::not_supported(
                &path.child("reason"),
                reason,
                REASONS,
            ));
        }
        errors
    }

    fn mutation(&self, mutation: &Value, path: &FieldPath) -> Vec<FieldError> {
        const KINDS: [(&str, &str, Returns); 2] = [
            ("ApplyConfiguration", "applyConfiguration", Returns::Object),
            ("JSONPatch", "jsonPatch", Returns::JsonPatch),
        ];
        let (kind, at) = (text(&mutation["patchType"]), path.child("patchType"));
        let names = KINDS.map(|(name, ..)| name);
        let mut errors = Vec::from_iter(one_of(&mutation["patchType"], &at, &names));
        if !errors.is_empty() {
            return errors;
        }
        // What the type demands is told before what it forbids.
        let (wanted, others): (Vec<_>, Vec<_>) = KINDS.into_iter().partition(|it| it.0 == kind);
        for (_, field, returns) in wanted {
            let (given, at) = (&mutation[field], path.child(field));
            let source = text(&given["expression"]).trim();
            if given.is_null() {
                let detail = format!("must be specified when patchType is {kind}");
                errors.push(FieldError::required(&at, detail));
            } else if source.is_empty() {
                errors.push(FieldError::required(&at.child("expression"), ""));
            } else {
                let at = at.child("expression");
                errors.extend(judge(source, &self.authorized, returns, &at));
            }
        }
        for (_, field, _) in others {
            if !mutation[field].is_null() {
                let detail = format!("must not be specified when patchType is {kind}");
                let at = path.child(field);
                errors.push(FieldError::invalid(&at, format!("{{{field}}}"), detail));
            }
        }
        errors
    }

    fn annotations(&self, policy: &str, list: &Value, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if items(list).len() > ANNOTATION_COUNT_MAX {
            let detail = format!("must not have more than {ANNOTATION_COUNT_MAX} auditAnnotations");
            errors.push(FieldError::invalid(path, list.clone(), detail));
        }
        let mut keys = HashSet::new();
        for (index, annotation) in items(list).iter().enumerate() {
            let at = path.index(index);
            let (key, at_key) = (text(&annotation["key"]), at.child("key"));
            let qualified = format!("{policy}/{key}");
            let found = is_qualified_name(&qualified).into_iter();
            errors.extend(
                found.map(|detail| FieldError::invalid(&at_key, qualified.as_str(), detail)),
            );
            let source = text(&annotation["valueExpression"]).trim();
            let at = at.child("valueExpression");
            if source.is_empty() {
                errors.push(FieldError::required(
                    &at,
                    "valueExpression is not specified",
                ));
            } else if source.len() > ANNOTATION_BYTES_MAX {
                let detail = format!("must not exceed {ANNOTATION_BYTES_MAX} bytes in length");
                errors.push(FieldError::required(&at, detail));
            } else {
                errors.extend(judge(source, &self.authorized, Returns::TextOrNull, &at));
            }
            if !keys.insert(key) {
                errors.push(FieldError::duplicate(&at_key, key));
            }
        }
        errors
    }
}

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    let begins = characters
        .next()
        .is_some_and(|first| first == '_' || first.is_ascii_alphabetic());
    begins
        && characters.all(|it| it == '_' || it.is_ascii_alphanumeric())
        && !RESERVED_WORDS.contains(&name)
}
