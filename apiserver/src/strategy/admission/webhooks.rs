//! Webhook configurations of either kind.

use std::collections::HashSet;

use api::validation::{is_dns_subdomain, is_dns1035_label};
use api::{FieldError, FieldPath, meta};
use serde_json::Value;

use super::expressions::{of_webhooks, validate_conditions};
use super::{items, one_of, rules, text, validate_selector};

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
/// What an update may leave as it was.
const SIDE_EFFECTS_ONCE: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

/// Which rules an update need not keep, because the live object does not.
#[expect(
    clippy::struct_excessive_bools,
    reason = "five independent facts, each named at its use"
)]
struct Leniency {
    side_effects: bool,
    review_versions: bool,
    repeated_names: bool,
    selectors: bool,
    conditions: bool,
}

/// Judges a configuration.
pub(super) fn validate(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let leniency = Leniency::of(object, live);
    let is_mutating = meta::kind(object) == "MutatingWebhookConfiguration";
    let (mut errors, mut names) = (Vec::new(), HashSet::new());
    for (index, webhook) in items(&object["webhooks"]).iter().enumerate() {
        let path = FieldPath::new("webhooks").index(index);
        errors.extend(validate_webhook(webhook, &path, &leniency));
        if is_mutating && !webhook["reinvocationPolicy"].is_null() {
            let (policy, at) = (
                &webhook["reinvocationPolicy"],
                path.child("reinvocationPolicy"),
            );
            errors.extend(one_of(policy, &at, &["IfNeeded", "Never"]));
        }
        let at = path.child("admissionReviewVersions");
        let versions = &webhook["admissionReviewVersions"];
        errors.extend(validate_versions(versions, &at, leniency.review_versions));
        let name = text(&webhook["name"]);
        if !name.is_empty() && !names.insert(name) && !leniency.repeated_names {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
    }
    errors
}

fn validate_webhook(webhook: &Value, path: &FieldPath, leniency: &Leniency) -> Vec<FieldError> {
    let mut errors = validate_name(text(&webhook["name"]), &path.child("name"));
    for (index, rule) in items(&webhook["rules"]).iter().enumerate() {
        errors.extend(rules::validate_rule(
            rule,
            &path.child("rules").index(index),
        ));
    }
    for (field, known) in [
        ("failurePolicy", ["Fail", "Ignore"]),
        ("matchPolicy", ["Equivalent", "Exact"]),
    ] {
        if !webhook[field].is_null() {
            errors.extend(one_of(&webhook[field], &path.child(field), &known));
        }
    }
    let known: &[&str] = if leniency.side_effects {
        &SIDE_EFFECTS_ONCE
    } else {
        &SIDE_EFFECTS
    };
    let (effects, at) = (&webhook["sideEffects"], path.child("sideEffects"));
    if effects.is_null() {
        let detail = format!("must specify one of {}", known.join(", "));
        errors.push(FieldError::required(&at, detail));
    } else {
        errors.extend(one_of(effects, &at, known));
    }
    if let Some(seconds) = webhook["timeoutSeconds"].as_i64()
        && !(1..=30).contains(&seconds)
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        let at = path.child("timeoutSeconds");
        errors.push(FieldError::invalid(&at, seconds, detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if !webhook[field].is_null() && !leniency.selectors {
            errors.extend(validate_selector(&webhook[field], &path.child(field)));
        }
    }
    errors.extend(validate_client(
        &webhook["clientConfig"],
        &path.child("clientConfig"),
    ));
    if !leniency.conditions {
        let (conditions, at) = (&webhook["matchConditions"], path.child("matchConditions"));
        errors.extend(validate_conditions(conditions, &at, &of_webhooks()));
    }
    errors
}

/// Source: `IsFullyQualifiedName`.
fn validate_name(name: &str, path: &FieldPath) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let found = is_dns_subdomain(name).join(",");
    if !found.is_empty() {
        return vec![FieldError::invalid(path, name, found)];
    }
    if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        return vec![FieldError::invalid(path, name, detail)];
    }
    Vec::new()
}

fn validate_versions(versions: &Value, path: &FieldPath, is_lenient: bool) -> Vec<FieldError> {
    let known = REVIEW_VERSIONS.join(", ");
    let names: Vec<&str> = items(versions).iter().map(text).collect();
    if names.is_empty() {
        let detail = format!("must specify one of {known}");
        return vec![FieldError::required(path, detail)];
    }
    let (mut errors, mut seen) = (Vec::new(), HashSet::new());
    for (index, name) in names.iter().copied().enumerate() {
        let at = path.index(index);
        if !seen.insert(name) {
            errors.push(FieldError::invalid(&at, name, "duplicate version"));
            continue;
        }
        let found = is_dns1035_label(name).into_iter();
        errors.extend(found.map(|detail| FieldError::invalid(&at, name, detail)));
    }
    if !is_lenient && !names.iter().any(|name| REVIEW_VERSIONS.contains(name)) {
        let detail = format!("must include at least one of {known}");
        errors.push(FieldError::invalid(path, versions.clone(), detail));
    }
    errors
}

fn validate_client(client: &Value, path: &FieldPath) -> Vec<FieldError> {
    let (url, service) = (&client["url"], &client["service"]);
    if url.is_null() == service.is_null() {
        let detail = "exactly one of url or service is required";
        return vec![FieldError::required(path, detail)];
    }
    if url.is_null() {
        return validate_service(service, &path.child("service"));
    }
    validate_url(text(url), &path.child("url"))
}

fn validate_url(url: &str, path: &FieldPath) -> Vec<FieldError> {
    let form = "; desired format: https://host[/path]";
    let (before, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (before, query) = before.split_once('?').unwrap_or((before, ""));
    let (scheme, rest) = before.split_once("://").unwrap_or(("", before));
    let authority = rest.split('/').next().unwrap_or_default();
    let authority = if scheme.is_empty() { "" } else { authority };
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let mut errors = Vec::new();
    let mut refuse =
        |value: &str, detail: String| errors.push(FieldError::invalid(path, value, detail));
    if scheme != "https" {
        refuse(
            scheme,
            format!("'https' is the only allowed URL scheme{form}"),
        );
    }
    if host.is_empty() {
        refuse(host, format!("host must be specified{form}"));
    }
    if let Some(user) = user {
        refuse(
            user,
            "user information is not permitted in the URL".to_owned(),
        );
    }
    if !fragment.is_empty() {
        refuse(
            fragment,
            "fragments are not permitted in the URL".to_owned(),
        );
    }
    if !query.is_empty() {
        refuse(
            query,
            "query parameters are not permitted in the URL".to_owned(),
        );
    }
    errors
}

fn validate_service(service: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // Kubernetes swaps the two, and so both are said to be missing in its order.
    for field in ["name", "namespace"] {
        if text(&service[field]).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    let (route, at) = (text(&service["path"]), path.child("path"));
    if route.is_empty() || route == "/" {
        return errors;
    }
    if route == "//" {
        errors.push(FieldError::invalid(
            &at,
            route,
            "segment[0] may not be empty",
        ));
        return errors;
    }
    if !route.starts_with('/') {
        errors.push(FieldError::invalid(&at, route, "must start with a '/'"));
    }
    // The first character is taken for the slash, whatever it is.
    let mut steps = route.chars();
    steps.next();
    let steps = steps.as_str();
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (index, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            let detail = format!("segment[{index}] may not be empty");
            errors.push(FieldError::invalid(&at, route, detail));
            continue;
        }
        for problem in is_dns_subdomain(step) {
            let detail = format!("segment[{index}]: {problem}");
            errors.push(FieldError::invalid(&at, route, detail));
        }
    }
    errors
}

// === impl Leniency ===

impl Leniency {
    fn of(object: &Value, live: Option<&Value>) -> Self {
        let known = live.map_or(&[][..], |live| items(&live["webhooks"]));
        let fresh = items(&object["webhooks"]);
        let mut names = HashSet::new();
        let conditions = |webhooks: &[Value]| -> Vec<Value> {
            let conditions = webhooks.iter().map(|it| it["matchConditions"].clone());
            conditions.collect()
        };
        Self {
            side_effects: known
                .iter()
                .any(|it| !SIDE_EFFECTS.contains(&text(&it["sideEffects"]))),
            review_versions: known.iter().any(|it| {
                let versions = items(&it["admissionReviewVersions"]);
                !versions.is_empty()
                    && !versions
                        .iter()
                        .any(|it| REVIEW_VERSIONS.contains(&text(it)))
            }),
            repeated_names: known.iter().any(|it| !names.insert(text(&it["name"]))),
            selectors: known.iter().any(|it| {
                ["namespaceSelector", "objectSelector"].iter().any(|field| {
                    let selector = &it[*field];
                    !selector.is_null()
                        && !validate_selector(selector, &FieldPath::root()).is_empty()
                })
            }),
            conditions: live.is_some() && conditions(known) == conditions(fresh),
        }
    }
}
