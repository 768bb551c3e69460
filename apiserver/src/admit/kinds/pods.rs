//! Pods: what may change of them, and how long they take to go.
//!
//! Source: kubernetes/pkg/registry/core/pod/strategy.go, kubernetes/pkg/apis/core/validation (ValidatePodUpdate).

use api::{FieldError, FieldPath};
use serde_json::Value;

const UPDATE_TEXT: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What may change of a running pod.
pub(super) fn validate_update(object: &Value, live: &Value) -> Vec<FieldError> {
    let mut new = object["spec"].clone();
    let old = &live["spec"];
    for list in ["containers", "initContainers"] {
        let old_list = old[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let new_list = new.get_mut(list).and_then(Value::as_array_mut);
        for (container, old) in new_list.into_iter().flatten().zip(old_list) {
            for field in ["image", "resources"] {
                restore(container, old, field);
            }
        }
    }
    for field in [
        "activeDeadlineSeconds",
        "tolerations",
        "terminationGracePeriodSeconds",
        "ephemeralContainers",
    ] {
        restore(&mut new, old, field);
    }
    if old["nodeName"].as_str().unwrap_or_default().is_empty() {
        restore(&mut new, old, "nodeName");
    }
    if new == *old {
        return Vec::new();
    }
    vec![FieldError::forbidden(&FieldPath::new("spec"), UPDATE_TEXT)]
}

fn restore(object: &mut Value, from: &Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        match from.get(field) {
            Some(value) => drop(fields.insert(field.to_owned(), value.clone())),
            None => drop(fields.remove(field)),
        }
    }
}

/// How long a pod has to go: nothing to wait for where no node runs it.
pub(crate) fn grace_seconds(object: &Value, asked: Option<i64>) -> i64 {
    let unscheduled = object["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty();
    let finished = matches!(
        object["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if unscheduled || finished {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_i64();
    let period = asked.or(own).unwrap_or(0);
    if period < 0 { 1 } else { period }
}
