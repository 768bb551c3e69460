//! Controllers' kinds: selectors that must fit their templates, and fields that cannot change.
//!
//! Source: kubernetes/pkg/apis/{apps,batch,rbac,storage}/validation, kubernetes/pkg/registry/batch/job/strategy.go.

use api::selector::LabelSelector;
use api::{FieldError, FieldPath, meta};
use serde::Deserialize as _;
use serde_json::Value;

use super::immutable;

pub(super) fn validate((group, resource): (&str, &str), object: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let template = spec.child("template");
    match (group, resource) {
        ("apps", "deployments" | "daemonsets" | "replicasets" | "statefulsets") => {
            let mut errors = validate_selector(object);
            errors.extend(validate_pod(
                &object["spec"]["template"]["spec"],
                &template.child("spec"),
            ));
            errors
        }
        ("batch", "jobs") => {
            validate_pod(&object["spec"]["template"]["spec"], &template.child("spec"))
        }
        ("batch", "cronjobs") => {
            let path = spec
                .child("jobTemplate")
                .child("spec")
                .child("template")
                .child("spec");
            validate_pod(
                &object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
                &path,
            )
        }
        ("", "pods") => validate_pod(&object["spec"], &spec),
        _ => Vec::new(),
    }
}

/// A pod has a container, and each has an image.
fn validate_pod(spec: &Value, path: &FieldPath) -> Vec<FieldError> {
    let path = path.child("containers");
    let Some(containers) = spec["containers"]
        .as_array()
        .filter(|list| !list.is_empty())
    else {
        // Where the field is missing altogether, the schema has said so.
        let said = spec.get("containers").is_none();
        return if said {
            Vec::new()
        } else {
            vec![FieldError::required(&path, "")]
        };
    };
    let blank = |container: &Value| container["image"].as_str().unwrap_or_default().is_empty();
    let without = containers
        .iter()
        .enumerate()
        .filter(|(_, container)| blank(container));
    without
        .map(|(index, _)| FieldError::required(&path.index(index).child("image"), ""))
        .collect()
}

/// The selector must select the pods of the template.
fn validate_selector(object: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let path = spec.child("selector");
    let selector = &object["spec"]["selector"];
    if selector.is_null() {
        // That it is required, the schema has said.
        return vec![unmatched(object)];
    }
    if selector.as_object().is_some_and(serde_json::Map::is_empty) {
        let detail = "empty selector is invalid for deployment";
        return vec![FieldError::invalid(&path, selector.clone(), detail)];
    }
    let Ok(typed) = LabelSelector::deserialize(selector) else {
        return Vec::new();
    };
    let mut errors = typed.validate(&path);
    if let Ok(parsed) = typed.to_selector()
        && !parsed.matches(&meta::labels(&object["spec"]["template"]))
    {
        errors.push(unmatched(object));
    }
    errors
}

fn unmatched(object: &Value) -> FieldError {
    let path = FieldPath::new("spec")
        .child("template")
        .child("metadata")
        .child("labels");
    let value = object["spec"]["template"]["metadata"]["labels"].clone();
    FieldError::invalid(&path, value, "`selector` does not match template `labels`")
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
