//! How objects change between versions.
//!
//! Source: `validateCustomResourceConversion` in the validation of Kubernetes; fields keep the names that it has
//! internally (`webhookClientConfig`), because its messages show those.

use api::crd::Conversion;
use api::validation::is_dns_subdomain;
use api::{FieldError, FieldPath};
use serde_json::Value;

use super::label;

/// The reviews that this server can write.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn validate(conversion: Option<&Conversion>, path: &FieldPath) -> Vec<FieldError> {
    let Some(conversion) = conversion else {
        return Vec::new();
    };
    let strategy_path = path.child("strategy");
    let mut errors = Vec::new();
    let webhook = conversion.webhook.as_ref().filter(|it| !it.is_null());
    let client = webhook
        .and_then(|it| it.get("clientConfig"))
        .filter(|it| !it.is_null());
    let client_path = path.child("webhookClientConfig");
    let reviews = webhook.and_then(|it| it.get("conversionReviewVersions"));
    let reviews = reviews
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let reviews_path = path.child("conversionReviewVersions");
    match conversion.strategy.as_str() {
        "" => errors.push(FieldError::required(&strategy_path, "")),
        "Webhook" => {
            if let Some(client) = client {
                errors.extend(validate_client(client, &client_path));
            } else {
                let detail = "required when strategy is set to Webhook";
                errors.push(FieldError::required(&client_path, detail));
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
        _ => vec![FieldError::required(
            path,
            "exactly one of url or service is required",
        )],
    }
}

/// Source: `apiserver/pkg/util/webhook/validation.go`.
fn validate_url(url: &str, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |value: &str, detail: &str| {
        errors.push(FieldError::invalid(path, value, detail));
    };
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        let form = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
        refuse(scheme, form);
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() {
        ""
    } else {
        rest.split('/').next().unwrap_or_default()
    };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        refuse(
            host,
            "host must be specified; desired format: https://host[/path]",
        );
    }
    for (value, detail) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !value.is_empty() {
            refuse(value, detail);
        }
    }
    errors
}

fn validate_service(service: &Value, path: &FieldPath) -> Vec<FieldError> {
    let text = |name| {
        service
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let mut errors = Vec::new();
    for name in ["name", "namespace"] {
        if text(name).is_empty() {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64);
    if let Some(port) = port.filter(|port| !(1..=65535).contains(port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    errors.extend(validate_url_path(text("path"), &path.child("path")));
    errors
}

fn validate_url_path(url_path: &str, path: &FieldPath) -> Vec<FieldError> {
    if url_path.is_empty() || url_path == "/" {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, url_path, detail));
    if !url_path.starts_with('/') {
        refuse("must start with a '/'".to_owned());
    }
    let mut characters = url_path.chars();
    characters.next();
    let below = characters.as_str();
    let below = below.strip_suffix('/').unwrap_or(below);
    for (index, segment) in below.split('/').enumerate() {
        if segment.is_empty() {
            refuse(format!("segment[{index}] may not be empty"));
        } else {
            for wrong in is_dns_subdomain(segment) {
                refuse(format!("segment[{index}]: {wrong}"));
            }
        }
    }
    errors
}

fn validate_reviews(reviews: &[Value], path: &FieldPath) -> Vec<FieldError> {
    if reviews.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut errors = Vec::new();
    let names: Vec<&str> = reviews
        .iter()
        .map(|it| it.as_str().unwrap_or_default())
        .collect();
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|earlier| earlier == name) {
            errors.push(FieldError::invalid(
                &path.index(index),
                *name,
                "duplicate version",
            ));
            continue;
        }
        errors.extend(label(name, &path.index(index), ""));
    }
    if !names.iter().any(|name| REVIEW_VERSIONS.contains(name)) {
        let detail = format!(
            "must include at least one of {}",
            REVIEW_VERSIONS.join(", ")
        );
        errors.push(FieldError::invalid(path, Value::from(names), detail));
    }
    errors
}
