//! How objects change between versions.
//!
//! Source: `validateCustomResourceConversion` in the validation of Kubernetes; fields keep the names that it has
//! internally (`webhookClientConfig`), because its messages show those.

use api::crd::Conversion;
use api::{FieldError, FieldPath};
use serde_json::Value;

use super::label;

/// The reviews that this server can write.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn validate(conversion: Option<&Conversion>, path: &FieldPath) -> Vec<FieldError> {
    let Some(conversion) = conversion else { return Vec::new() };
    let strategy_path = path.child("strategy");
    let mut errors = Vec::new();
    let webhook = conversion.webhook.as_ref().filter(|it| !it.is_null());
    let client = webhook.and_then(|it| it.get("clientConfig")).filter(|it| !it.is_null());
    let client_path = path.child("webhookClientConfig");
    let reviews = webhook.and_then(|it| it.get("conversionReviewVersions"));
    let reviews = reviews.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let reviews_path = path.child("conversionReviewVersions");
    match conversion.strategy.as_str() {
        "" => errors.push(FieldError::required(&strategy_path, "")),
        "Webhook" => {
            match client {
                Some(client) => errors.extend(validate_client(client, &client_path)),
                None => {
                    let detail = "required when strategy is set to Webhook";
                    errors.push(FieldError::required(&client_path, detail));
                }
            }
            errors.extend(validate_reviews(reviews, &reviews_path));
            return errors;
        }
        "None" => {}
        other => {
            let supported = ["None", "Webhook"];
            errors.push(FieldError::not_supported(&strategy_path, other, supported));
        }
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        errors.push(FieldError::forbidden(&client_path, detail));
    }
    if !reviews.is_empty() {
        errors.push(FieldError::forbidden(&reviews_path, detail));
    }
    errors
}

fn validate_client(client: &Value, path: &FieldPath) -> Vec<FieldError> {
    let given = |name| client.get(name).filter(|it: &&Value| !it.is_null());
    match (given("url"), given("service")) {
        (Some(url), None) => validate_url(url.as_str().unwrap_or_default(), &path.child("url")),
        (None, Some(service)) => validate_service(service, &path.child("service")),
        _ => vec![FieldError::required(path, "exactly one of url or service is required")],
    }
}

/// Source: `apiserver/pkg/util/webhook/validation.go`.
fn validate_url(url: &str, path: &FieldPath) -> Vec<FieldError> {
    const FORM: &str = "; desired format: https://host[/path]";
    let invalid = |value: &str, detail: &str| {
        FieldError::invalid(path, value, format!("{detail}{FORM}"))
    };
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let mut errors = Vec::new();
    if scheme != "https" {
        errors.push(invalid(scheme, "'https' is the only allowed URL scheme"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let host = rest.split('/').next().unwrap_or_default();
    if scheme.is_empty() || host.is_empty() {
        errors.push(invalid(if scheme.is_empty() { "" } else { host }, "host must be specified"));
    }
    if host.contains('@') {
        errors.push(invalid(host, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        errors.push(invalid(fragment, "fragments are not permitted in the URL"));
    }
    if !query.is_empty() {
        errors.push(invalid(query, "query parameters are not permitted in the URL"));
    }
    errors
}

fn validate_service(service: &Value, path: &FieldPath) -> Vec<FieldError> {
    let text = |name| service.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut errors = Vec::new();
    for (name, detail) in
        [("name", "service name is required"), ("namespace", "service namespace is required")]
    {
        if text(name).is_empty() {
            errors.push(FieldError::required(&path.child(name), detail));
        }
    }
    let port = service.get("port").and_then(Value::as_i64);
    if let Some(port) = port.filter(|port| !(1..=65535).contains(port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    let url_path = text("path");
    if !url_path.is_empty() && url_path != "/" && !url_path.starts_with('/') {
        let detail = "must start with a '/'";
        errors.push(FieldError::invalid(&path.child("path"), url_path, detail));
    }
    errors
}

fn validate_reviews(reviews: &[Value], path: &FieldPath) -> Vec<FieldError> {
    if reviews.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut errors = Vec::new();
    let names: Vec<&str> = reviews.iter().map(|it| it.as_str().unwrap_or_default()).collect();
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|earlier| earlier == name) {
            errors.push(FieldError::invalid(&path.index(index), *name, "duplicate version"));
            continue;
        }
        errors.extend(label(name, &path.index(index), ""));
    }
    if !names.iter().any(|name| REVIEW_VERSIONS.contains(name)) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(FieldError::invalid(path, Value::from(names), detail));
    }
    errors
}
