//! Secrets, ConfigMaps and service accounts: the sizes and keys of data, and that it may be immutable.
//!
//! Source: kubernetes/pkg/registry/core/{secret,configmap,serviceaccount}/strategy.go, kubernetes/pkg/apis/core/validation.

use api::{FINDINGS_MAX, FieldError, FieldPath, meta};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::built_in::{BUILT_IN, RULED, immutable};
use super::{Deletion, Strategy};

pub(super) const SECRETS: Strategy = Strategy {
    selectable: &[("type", "type")],
    validate: validate_secret,
    ..BUILT_IN
};

pub(super) const CONFIG_MAPS: Strategy = Strategy {
    validate: validate_config_map,
    ..BUILT_IN
};

pub(super) const SERVICE_ACCOUNTS: Strategy = Strategy {
    deletion: Deletion::ANSWERED_WITH_OBJECT,
    ..RULED
};

/// The sum of all values. Source: kubernetes/pkg/apis/core/types.go MaxSecretSize.
const DATA_BYTES_MAX: usize = 1024 * 1024;
const KEY_BYTES_MAX: usize = 253;
const KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

fn validate_secret(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let path = FieldPath::new("data");
    let mut errors = validate_keys(&object["data"], &path);
    let mut size = 0_usize;
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        match STANDARD.decode(value.as_str().unwrap_or_default()) {
            Ok(bytes) => size = size.saturating_add(bytes.len()),
            Err(error) => errors.push(FieldError::invalid(
                &path.key(key),
                value.clone(),
                error.to_string(),
            )),
        }
    }
    if size > DATA_BYTES_MAX {
        errors.push(FieldError::too_long(&path, DATA_BYTES_MAX));
    }
    errors.extend(validate_typed_keys(object));
    if let Some(live) = live {
        if object["type"] != live["type"] {
            errors.push(immutable(&FieldPath::new("type"), &object["type"]));
        }
        errors.extend(validate_frozen(object, live, &["data"]));
    }
    errors
}

/// Secrets of some types must have the keys that their readers need.
fn validate_typed_keys(object: &Value) -> Vec<FieldError> {
    let required: &[&str] = match object["type"].as_str().unwrap_or_default() {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/service-account-token" => {
            let name = meta::annotation(object, "kubernetes.io/service-account.name");
            if name.is_some_and(|name| !name.is_empty()) {
                return Vec::new();
            }
            let path = FieldPath::new("metadata").child("annotations");
            return vec![FieldError::required(
                &path.key("kubernetes.io/service-account.name"),
                "",
            )];
        }
        _ => &[],
    };
    let path = FieldPath::new("data");
    let missing = required
        .iter()
        .filter(|key| object["data"].get(**key).is_none());
    missing
        .map(|key| FieldError::required(&path.key(key), ""))
        .collect()
}

pub(super) fn validate_config_map(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0_usize;
    for name in ["data", "binaryData"] {
        let path = FieldPath::new(name);
        errors.extend(validate_keys(&object[name], &path));
        for (key, value) in object[name].as_object().into_iter().flatten() {
            size = size.saturating_add(value.as_str().unwrap_or_default().len());
            if name == "data" && object["binaryData"].get(key).is_some() {
                let detail = "duplicate of key present in binaryData";
                errors.push(FieldError::invalid(&path.key(key), key.as_str(), detail));
            }
        }
    }
    if size > DATA_BYTES_MAX {
        errors.push(FieldError::too_long(&FieldPath::root(), DATA_BYTES_MAX));
    }
    if let Some(live) = live {
        errors.extend(validate_frozen(object, live, &["data", "binaryData"]));
    }
    errors
}

/// What is immutable stays so.
fn validate_frozen(object: &Value, live: &Value, fields: &[&str]) -> Vec<FieldError> {
    if live["immutable"] != Value::Bool(true) {
        return Vec::new();
    }
    let frozen = ["immutable"]
        .iter()
        .chain(fields)
        .filter(|name| object[**name] != live[**name]);
    frozen
        .map(|name| FieldError::forbidden(&FieldPath::new(*name), IMMUTABLE))
        .collect()
}

fn validate_keys(data: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in data.as_object().into_iter().flat_map(Map::keys) {
        if errors.len() >= FINDINGS_MAX {
            break;
        }
        let path = path.key(key);
        if key.len() > KEY_BYTES_MAX {
            let detail = format!("must be no more than {KEY_BYTES_MAX} characters");
            errors.push(FieldError::invalid(&path, key.as_str(), detail));
        }
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if key.is_empty() || !key.bytes().all(valid) {
            errors.push(FieldError::invalid(&path, key.as_str(), KEY_TEXT));
        }
        for (bad, detail) in [(".", "must not be '.'"), ("..", "must not be '..'")] {
            if key == bad {
                errors.push(FieldError::invalid(&path, key.as_str(), detail));
            }
        }
    }
    errors
}
