//! The scale of an object, made of its counts.

use api::meta;
use api::selector::LabelSelector;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::call::Call;
use crate::refusal::Refusal;
use crate::strategy::paths::at;
use crate::strategy::version::ScalePaths;

pub(super) const API_VERSION: &str = "autoscaling/v1";
pub(super) const KIND: &str = "Scale";

pub(super) fn paths<'a>(call: &Call<'a>) -> Result<&'a ScalePaths, Refusal> {
    call.scope
        .version
        .scale
        .as_ref()
        .ok_or_else(|| call.not_found(&call.info.name))
}

/// Makes the scale of an object; without a count it is zero.
pub(super) fn counted(paths: &ScalePaths, object: &Value) -> Value {
    let replicas = at(object, &paths.spec_replicas).and_then(Value::as_i64);
    let replicas = replicas.unwrap_or(0);
    let observed = at(object, &paths.status_replicas)
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let mut status = json!({"replicas": observed});
    if let Some(selector) = paths
        .label_selector
        .as_deref()
        .and_then(|path| at(object, path))
    {
        let text = selector_text(selector);
        if !text.is_empty() {
            status["selector"] = json!(text);
        }
    }
    let mut metadata = serde_json::Map::new();
    for name in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = meta::metadata(object).and_then(|it| it.get(name)) {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    json!({
        "kind": KIND, "apiVersion": API_VERSION, "metadata": metadata,
        "spec": if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) }, "status": status,
    })
}

/// A selector as text: custom resources have it so, built-in ones as an object or as a map of labels.
fn selector_text(selector: &Value) -> String {
    match selector {
        Value::String(text) => text.clone(),
        Value::Object(fields)
            if fields.contains_key("matchLabels") || fields.contains_key("matchExpressions") =>
        {
            let parsed = LabelSelector::deserialize(selector).ok();
            let parsed = parsed.and_then(|selector| selector.to_selector().ok());
            parsed
                .map(|selector| selector.to_string())
                .unwrap_or_default()
        }
        Value::Object(labels) => {
            let pairs: Vec<_> = labels
                .iter()
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
                .collect();
            pairs.join(",")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_of_all_forms_become_text() {
        for (selector, want) in [
            (json!("a=b"), "a=b"),
            (json!({"matchLabels": {"a": "b"}}), "a=b"),
            (json!({"a": "b", "c": "d"}), "a=b,c=d"),
            (json!(7), ""),
        ] {
            assert_eq!(selector_text(&selector), want);
        }
    }
}
