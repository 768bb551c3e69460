//! Rules of policies, bindings and webhooks: operations on resources, and selectors.

use std::collections::HashSet;

use api::validation::is_path_segment;
use api::{FieldError, FieldPath};
use serde_json::Value;

use super::{items, one_of, text, validate_selector};

/// Judges `matchConstraints` and `matchResources`.
pub(super) fn validate_match(resources: &Value, path: &FieldPath) -> Vec<FieldError> {
    if resources.is_null() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let (policy, at) = (&resources["matchPolicy"], path.child("matchPolicy"));
    errors.extend(one_of(policy, &at, &["Equivalent", "Exact"]));
    for field in ["namespaceSelector", "objectSelector"] {
        let (selector, at) = (&resources[field], path.child(field));
        if selector.is_null() {
            errors.push(FieldError::required(&at, ""));
        } else {
            errors.extend(validate_selector(selector, &at));
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in items(&resources[field]).iter().enumerate() {
            let at = path.child(field).index(index);
            errors.extend(validate_names(
                &rule["resourceNames"],
                &at.child("resourceNames"),
            ));
            errors.extend(validate_rule(rule, &at));
        }
    }
    errors
}

/// Judges what only rules of mutating policies are bound to: a deletion has no object that could be changed.
pub(super) fn validate_mutating(resources: &Value, path: &FieldPath) -> Vec<FieldError> {
    let at = path.child("resourceRules").child("operations");
    let rules = items(&resources["resourceRules"]).iter();
    let operations = rules.flat_map(|rule| items(&rule["operations"])).map(text);
    let known = ["*", "CONNECT", "CREATE", "UPDATE"];
    operations
        .filter(|operation| !known.contains(operation))
        .map(|operation| FieldError::not_supported(&at, operation, known))
        .collect()
}

fn validate_names(names: &Value, path: &FieldPath) -> Vec<FieldError> {
    let (mut errors, mut seen) = (Vec::new(), HashSet::new());
    for (index, name) in items(names).iter().map(text).enumerate() {
        let at = path.index(index);
        let found = is_path_segment(name).into_iter();
        errors.extend(found.map(|detail| FieldError::invalid(&at, name, detail)));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
    }
    errors
}

/// Judges one rule.
pub(super) fn validate_rule(rule: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = path.child("operations");
    let operations = &rule["operations"];
    errors.extend(validate_wildcard(operations, &at, "operations"));
    for (index, operation) in items(operations).iter().map(text).enumerate() {
        let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        if !known.contains(&operation) {
            errors.push(FieldError::not_supported(
                &at.index(index),
                operation,
                known,
            ));
        }
    }
    let at = path.child("apiGroups");
    errors.extend(validate_wildcard(&rule["apiGroups"], &at, "API groups"));
    let at = path.child("apiVersions");
    errors.extend(validate_wildcard(&rule["apiVersions"], &at, "API versions"));
    for (index, version) in items(&rule["apiVersions"]).iter().map(text).enumerate() {
        if version.is_empty() {
            errors.push(FieldError::required(&at.index(index), ""));
        }
    }
    errors.extend(validate_resources(
        &rule["resources"],
        &path.child("resources"),
    ));
    let scope = &rule["scope"];
    if !scope.is_null() {
        let known = ["*", "Cluster", "Namespaced"];
        errors.extend(one_of(scope, &path.child("scope"), &known));
    }
    errors
}

fn validate_wildcard(list: &Value, path: &FieldPath, what: &str) -> Option<FieldError> {
    let names = items(list);
    if names.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    (names.len() > 1 && names.iter().any(|name| text(name) == "*")).then(|| {
        let detail = format!("if '*' is present, must not specify other {what}");
        FieldError::invalid(path, list.clone(), detail)
    })
}

fn validate_resources(list: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if items(list).is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut whole, mut anywhere) = (HashSet::new(), HashSet::new());
    let (mut is_double, mut is_single, mut is_main) = (false, false, false);
    for (index, name) in items(list).iter().map(text).enumerate() {
        let at = path.index(index);
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        is_double |= name == "*/*";
        is_single |= name == "*";
        let Some((resource, subresource)) = name.split_once('/') else {
            is_main = name != "*";
            continue;
        };
        if whole.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {name}");
            errors.push(FieldError::invalid(&at, name, detail));
        }
        if anywhere.contains(subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {name}");
            errors.push(FieldError::invalid(&at, name, detail));
        }
        if subresource == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            anywhere.insert(subresource);
        }
    }
    if items(list).len() > 1 && is_double {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, list.clone(), detail));
    }
    if is_single && is_main {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, list.clone(), detail));
    }
    errors
}
