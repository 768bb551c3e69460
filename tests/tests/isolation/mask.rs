//! What two runs of the same requests may differ in: identities, numbers and times that a server draws for itself.

use std::sync::OnceLock;

use regex::Regex;
use serde_json::Value;

/// Fields that hold nothing else.
const DRAWN: [&str; 12] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastHeartbeatTime",
    "time",
    "token",
    "continue",
    "expirationTimestamp",
    "wheelhouse.dev/hub",
];

/// Lists whose order says nothing: two controllers write conditions, and kube-apiserver's rules come from a map.
const UNORDERED: [&str; 3] = ["conditions", "resourceRules", "nonResourceRules"];

/// Returns a value in which everything drawn is replaced by its sort.
pub(crate) fn mask(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            // The order of two controllers' writes is theirs, and what they own is in their order.
            .filter(|(key, _)| *key != "managedFields")
            .map(|(key, value)| (text(key), field(key, value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(mask).collect(),
        Value::String(string) => Value::String(text(string)),
        other => other.clone(),
    }
}

fn field(key: &str, value: &Value) -> Value {
    if DRAWN.contains(&key) && !value.is_object() && value != "" {
        return Value::String(format!("<{key}>"));
    }
    let mut masked = mask(value);
    if let (true, Some(items)) = (UNORDERED.contains(&key), masked.as_array_mut()) {
        items.sort_by_key(ToString::to_string);
    }
    masked
}

/// Masks what is drawn inside of a text, a message for example.
pub(crate) fn text(text: &str) -> String {
    static PATTERNS: OnceLock<Vec<(Regex, &str)>> = OnceLock::new();
    let patterns = PATTERNS.get_or_init(|| {
        [
            (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
            (
                r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                "<uid>",
            ),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
            (r"\b\d{16}\b", "<revision>"),
            (r"127\.0\.0\.1:\d+", "<address>"),
            (
                r"(?s)-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----",
                "<certificate>",
            ),
        ]
        .map(|(pattern, name)| (Regex::new(pattern).expect("a pattern"), name))
        .into()
    });
    let mut masked = text.to_owned();
    for (pattern, name) in patterns {
        if pattern.is_match(&masked) {
            masked = pattern.replace_all(&masked, *name).into_owned();
        }
    }
    masked
}

/// Names the places at which two masked values differ, at most a few, and whose each is.
pub(crate) fn difference(
    path: &str,
    (left, right): (&Value, &Value),
    names: (&str, &str),
    found: &mut Vec<String>,
) {
    if left == right || found.len() > 5 {
        return;
    }
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let absent = Value::Null;
                let (a, b) = (a.get(key).unwrap_or(&absent), b.get(key).unwrap_or(&absent));
                difference(&format!("{path}.{key}"), (a, b), names, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, values) in a.iter().zip(b).enumerate() {
                difference(&format!("{path}[{index}]"), values, names, found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let only = |these: &[Value], those: &[Value]| -> Vec<Value> {
                let missing = these.iter().filter(|it| !those.contains(it));
                missing.take(3).cloned().collect()
            };
            let cut = |value: Vec<Value>| text_of(&Value::Array(value));
            let lengths = (a.len(), b.len());
            let (a, b) = (cut(only(a, b)), cut(only(b, a)));
            found.push(format!(
                "{path}: only {}, of {}: {a}, only {}, of {}: {b}",
                names.0, lengths.0, names.1, lengths.1
            ));
        }
        _ => {
            let (a, b) = (text_of(left), text_of(right));
            found.push(format!("{path}: {}: {a}, {}: {b}", names.0, names.1));
        }
    }
}

fn text_of(value: &Value) -> String {
    value.to_string().chars().take(600).collect()
}
