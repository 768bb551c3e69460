//! Controllers' kinds: selectors that must fit their templates, and fields that cannot change.
//!
//! Source: kubernetes/pkg/apis/{apps,batch,rbac,storage}/validation, kubernetes/pkg/registry/batch/job/strategy.go.

use api::selector::LabelSelector;
use api::{FieldError, FieldPath, meta};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::immutable;

pub(super) fn validate((group, resource): (&str, &str), object: &Value) -> Vec<FieldError> {
    match (group, resource) {
        ("apps", "deployments" | "daemonsets" | "replicasets" | "statefulsets") => {
            validate_selector(object)
        }
        _ => Vec::new(),
    }
}

/// The selector must select the pods of the template.
fn validate_selector(object: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let path = spec.child("selector");
    let selector = &object["spec"]["selector"];
    if selector.is_null() {
        // The schema says that it is required.
        return Vec::new();
    }
    if selector.as_object().is_some_and(serde_json::Map::is_empty) {
        let detail = "empty selector is invalid for deployment";
        return vec![FieldError::invalid(&path, selector.clone(), detail)];
    }
    let Ok(typed) = LabelSelector::deserialize(selector) else {
        return Vec::new();
    };
    let mut errors = typed.validate(&path);
    let template = &object["spec"]["template"];
    if let Ok(parsed) = typed.to_selector()
        && !parsed.matches(&meta::labels(template))
    {
        let labels = spec.child("template").child("metadata").child("labels");
        let value = template["metadata"]["labels"].clone();
        let value = if value.is_null() { json!({}) } else { value };
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(&labels, value, detail));
    }
    errors
}

pub(super) fn validate_update(
    (group, resource): (&str, &str),
    object: &Value,
    live: &Value,
) -> Vec<FieldError> {
    let fixed: &[&[&str]] = match (group, resource) {
        ("apps", "deployments" | "daemonsets" | "replicasets") => &[&["spec", "selector"]],
        ("batch", "jobs") => &[
            &["spec", "selector"],
            &["spec", "template"],
            &["spec", "completionMode"],
        ],
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => &[&["roleRef"]],
        ("storage.k8s.io", "storageclasses") => &[
            &["parameters"],
            &["provisioner"],
            &["reclaimPolicy"],
            &["volumeBindingMode"],
        ],
        ("scheduling.k8s.io", "priorityclasses") => &[&["value"], &["preemptionPolicy"]],
        _ => &[],
    };
    let changed = fixed.iter().filter_map(|path| {
        let at = |object: &Value| {
            path.iter()
                .fold(object.clone(), |value, name| value[*name].clone())
        };
        let (new, old) = (at(object), at(live));
        let whole = path
            .iter()
            .fold(FieldPath::root(), |whole, name| whole.child(name));
        if new == old {
            return None;
        }
        if *path == ["roleRef"] {
            return Some(FieldError::invalid(&whole, new, "cannot change roleRef"));
        }
        Some(immutable(&whole, &new))
    });
    changed.collect()
}
