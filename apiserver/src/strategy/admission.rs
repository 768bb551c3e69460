//! Policies, bindings and webhooks: what guards writes must itself be sound.
//!
//! Expressions are compiled, so what is stored can be evaluated. Of an update only what changed in them is judged anew.
//!
//! Source: kubernetes/pkg/apis/admissionregistration/validation/validation.go,
//! kubernetes/pkg/registry/admissionregistration/*/strategy.go.

mod expressions;
mod rules;
mod webhooks;

use api::selector::LabelSelector;
use api::validation::{is_dns_subdomain, is_dns1035_label, is_path_segment};
use api::{FieldError, FieldPath};
use serde::Deserialize as _;
use serde_json::Value;

use super::Strategy;
use super::built_in::BUILT_IN;
use super::rules::{Generation, Grants, PutWithoutVersion};
use super::status::StatusMetadata;

const OF_GROUP: Strategy = Strategy {
    generation: Generation::Counted,
    put_without_version: PutWithoutVersion::Refused,
    ..BUILT_IN
};

const VALIDATING_POLICIES: Strategy = Strategy {
    status_metadata: StatusMetadata::Kept,
    grants: Grants::ParamKind,
    validate: |object, live| expressions::validate_policy(object, live),
    ..OF_GROUP
};

const VALIDATING_BINDINGS: Strategy = Strategy {
    grants: Grants::ParamRef {
        policies: api::admission::VALIDATING_POLICIES,
    },
    validate: |object, _live| validate_binding(object, Actions::Demanded),
    ..OF_GROUP
};

const MUTATING_POLICIES: Strategy = Strategy {
    grants: Grants::ParamKind,
    validate: |object, live| expressions::validate_mutating_policy(object, live),
    ..OF_GROUP
};

const MUTATING_BINDINGS: Strategy = Strategy {
    grants: Grants::ParamRef {
        policies: api::admission::MUTATING_POLICIES,
    },
    validate: |object, _live| validate_mutating_binding(object),
    ..OF_GROUP
};

const WEBHOOKS: Strategy = Strategy {
    validate: webhooks::validate,
    ..OF_GROUP
};

/// Whether bindings have `validationActions`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Actions {
    Demanded,
    Absent,
}

/// The kinds of `admissionregistration.k8s.io`.
pub(super) fn of(resource: &str) -> &'static Strategy {
    match resource {
        api::admission::VALIDATING_POLICIES => &VALIDATING_POLICIES,
        api::admission::VALIDATING_BINDINGS => &VALIDATING_BINDINGS,
        api::admission::MUTATING_POLICIES => &MUTATING_POLICIES,
        api::admission::MUTATING_BINDINGS => &MUTATING_BINDINGS,
        api::admission::MUTATING_WEBHOOKS | api::admission::VALIDATING_WEBHOOKS => &WEBHOOKS,
        _ => &OF_GROUP,
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Judges a text that must be one of a few.
fn one_of(value: &Value, path: &FieldPath, known: &[&str]) -> Option<FieldError> {
    match value.as_str() {
        None | Some("") => Some(FieldError::required(path, "")),
        Some(text) if known.contains(&text) => None,
        Some(text) => Some(FieldError::not_supported(path, text, known.iter().copied())),
    }
}

fn validate_selector(value: &Value, path: &FieldPath) -> Vec<FieldError> {
    match LabelSelector::deserialize(value) {
        Ok(selector) => selector.validate(path),
        Err(error) => vec![FieldError::invalid(path, value.clone(), error.to_string())],
    }
}

fn validate_binding(object: &Value, actions: Actions) -> Vec<FieldError> {
    let (path, spec) = (FieldPath::new("spec"), &object["spec"]);
    let mut errors = Vec::new();
    let (name, at) = (text(&spec["policyName"]), path.child("policyName"));
    if name.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        let found = is_dns_subdomain(name).into_iter();
        errors.extend(found.map(|detail| FieldError::invalid(&at, name, detail)));
    }
    errors.extend(validate_param_ref(
        &spec["paramRef"],
        &path.child("paramRef"),
    ));
    let at = path.child("matchResources");
    errors.extend(rules::validate_match(&spec["matchResources"], &at));
    if actions == Actions::Demanded {
        let (found, at) = (&spec["validationActions"], path.child("validationActions"));
        errors.extend(validate_actions(found, &at));
    }
    errors
}

fn validate_mutating_binding(object: &Value) -> Vec<FieldError> {
    let mut errors = validate_binding(object, Actions::Absent);
    let at = FieldPath::new("spec").child("matchResources");
    errors.extend(rules::validate_mutating(
        &object["spec"]["matchResources"],
        &at,
    ));
    errors
}

fn validate_actions(actions: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let names: Vec<&str> = items(actions).iter().map(text).collect();
    for (index, name) in names.iter().copied().enumerate() {
        let known = ["Audit", "Deny", "Warn"];
        if !known.contains(&name) {
            errors.push(FieldError::not_supported(&path.index(index), name, known));
        }
        if names.iter().take(index).any(|earlier| *earlier == name) {
            errors.push(FieldError::duplicate(&path.index(index), name));
        }
    }
    if names.contains(&"Deny") && names.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, actions.clone(), detail));
    }
    if names.is_empty() {
        let detail = "at least one validation action is required";
        errors.push(FieldError::required(path, detail));
    }
    errors
}

fn validate_param_ref(reference: &Value, path: &FieldPath) -> Vec<FieldError> {
    if reference.is_null() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let (name, selector) = (text(&reference["name"]), &reference["selector"]);
    let both = "name and selector are mutually exclusive";
    if !name.is_empty() {
        let at = path.child("name");
        let found = is_path_segment(name).into_iter();
        errors.extend(found.map(|detail| FieldError::invalid(&at, name, detail)));
        if !selector.is_null() {
            errors.push(FieldError::forbidden(&at, both));
        }
    }
    if !selector.is_null() {
        let at = path.child("selector");
        errors.extend(validate_selector(selector, &at));
        if !name.is_empty() {
            errors.push(FieldError::forbidden(&at, both));
        }
    }
    if name.is_empty() && selector.is_null() {
        let detail = "one of name or selector must be specified";
        errors.push(FieldError::required(path, detail));
    }
    let at = path.child("parameterNotFoundAction");
    let action = &reference["parameterNotFoundAction"];
    errors.extend(one_of(action, &at, &["Deny", "Allow"]));
    errors
}

fn validate_param_kind(kind: &Value, path: &FieldPath) -> Vec<FieldError> {
    if kind.is_null() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let (version, at) = (text(&kind["apiVersion"]), path.child("apiVersion"));
    match version.split('/').collect::<Vec<_>>().as_slice() {
        [""] => errors.push(FieldError::required(&at, "")),
        [_, _, _, ..] => {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.push(FieldError::invalid(&at, version, detail));
        }
        parts => {
            let (group, own) = match parts {
                [group, own] => (*group, *own),
                _ => ("", version),
            };
            let found = is_dns_subdomain(group).join(",");
            if !group.is_empty() && !found.is_empty() {
                errors.push(FieldError::invalid(&at, group, found));
            }
            let found = is_dns1035_label(own).join(",");
            if own.is_empty() {
                errors.push(FieldError::invalid(
                    &at,
                    version,
                    "version must be specified",
                ));
            } else if !found.is_empty() {
                errors.push(FieldError::invalid(&at, own, found));
            }
        }
    }
    let (name, at) = (text(&kind["kind"]), path.child("kind"));
    let found = is_dns1035_label(&name.to_lowercase()).join(",");
    if name.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if !found.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {found}");
        errors.push(FieldError::invalid(&at, name, detail));
    }
    errors
}

#[cfg(test)]
mod tests;
