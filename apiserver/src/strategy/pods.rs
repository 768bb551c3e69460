//! Pods and nodes: what may change of a pod, how it gets its node, and how long it takes to end.
//!
//! Source: kubernetes/pkg/registry/core/pod/{strategy,storage/storage}.go, kubernetes/pkg/apis/core/validation
//! (ValidatePodUpdate), kubernetes/pkg/registry/core/node/strategy.go.

use api::growth::TooLarge;
use api::{FieldError, FieldPath, GroupResource, Status, meta};
use serde_json::{Value, json};

use super::addresses::network;
use super::built_in::{self, RULED};
use super::checks::{Place, Rules, found, judge};
use super::endpoint::Endpoint;
use super::fields::{copy, put};
use super::rules::{DeletedAnswer, Generation};
use super::version::VersionRules;
use super::{Deletion, Strategy};

pub(super) mod containers;
pub(super) mod scheduling;
mod security;
mod shown;
pub(super) mod spec;
pub(super) mod volumes;

pub(super) const PODS: Strategy = Strategy {
    selectable: &[
        ("spec.nodeName", "spec.nodeName"),
        ("spec.restartPolicy", "spec.restartPolicy"),
        ("spec.schedulerName", "spec.schedulerName"),
        ("spec.serviceAccountName", "spec.serviceAccountName"),
        ("spec.hostNetwork", "spec.hostNetwork"),
        ("status.phase", "status.phase"),
        ("status.podIP", "status.podIP"),
        ("status.nominatedNodeName", "status.nominatedNodeName"),
    ],
    endpoints: &[
        ("binding", Endpoint::Binding),
        ("eviction", Endpoint::Eviction),
        ("ephemeralcontainers", Endpoint::PodPart),
        ("resize", Endpoint::PodPart),
        ("exec", Endpoint::Running),
        ("attach", Endpoint::Running),
        ("portforward", Endpoint::Running),
        ("log", Endpoint::Running),
        ("proxy", Endpoint::Running),
    ],
    generation: Generation::Counted,
    validate,
    deletion: Deletion {
        grace: Some(grace_seconds),
        answer: DeletedAnswer::Object,
        ..Deletion::PLAIN
    },
    ..RULED
};

pub(super) const NODES: Strategy = Strategy {
    selectable: &[("spec.unschedulable", "spec.unschedulable")],
    prepare_create: prepare_node,
    validate: |object, _live| judge(object, NODE),
    ..RULED
};

const NODE: &Rules = &[
    // Kubernetes says `metadata` of what is in `spec`.
    ("", |node, findings| {
        let told = Place {
            value: node.within(&["spec", "taints"]).value,
            path: FieldPath::new("metadata").child("taints"),
        };
        scheduling::taints(&told, findings);
    }),
    ("spec.podCIDRs[]", network),
];

/// Nodes describe themselves: the status of a new one is kept.
fn prepare_node(version: &VersionRules, object: &mut Value) -> Result<(), TooLarge> {
    let sent = object.get("status").cloned();
    built_in::prepare_create(version, object)?;
    if sent.is_some() {
        put(object, "status", sent);
    }
    Ok(())
}

fn validate(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let mut errors = found(object, |pod, findings| {
        spec::judge(&pod.at("spec"), spec::Of::Pod, findings);
    });
    errors.extend(live.and_then(|live| validate_update(object, live)));
    errors
}

const UPDATE_TEXT: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What may change of a running pod.
pub(super) fn validate_update(object: &Value, live: &Value) -> Option<FieldError> {
    let mut new = object["spec"].clone();
    let old = &live["spec"];
    for list in ["containers", "initContainers"] {
        let old_list = old[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let new_list = new.get_mut(list).and_then(Value::as_array_mut);
        for (container, old) in new_list.into_iter().flatten().zip(old_list) {
            for field in ["image", "resources"] {
                copy(container, old, field);
            }
        }
    }
    for field in [
        "activeDeadlineSeconds",
        "tolerations",
        "terminationGracePeriodSeconds",
        "ephemeralContainers",
    ] {
        copy(&mut new, old, field);
    }
    if old["nodeName"].as_str().unwrap_or_default().is_empty() {
        copy(&mut new, old, "nodeName");
    }
    (new != *old).then(|| FieldError::forbidden(&FieldPath::new("spec"), UPDATE_TEXT))
}

/// Gives a pod the node of a binding, and the binding's annotations.
///
/// # Errors
/// 400 where the binding names no node; 409 where the pod has one, or terminates.
pub(crate) fn bind(live: &Value, binding: &Value) -> Result<Value, Status> {
    let name = meta::name(live);
    let conflict = |detail: &str| Err(Status::conflict(&pods(), name, detail));
    let node = node_of(binding)?;
    let has = live["spec"]["nodeName"].as_str().unwrap_or_default();
    if !has.is_empty() {
        return conflict(&format!("pod {name} is already assigned to node {has:?}"));
    }
    if meta::is_terminating(live) {
        return conflict(&format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    let mut object = live.clone();
    object["spec"]["nodeName"] = json!(node);
    for (key, value) in meta::annotations(binding).into_iter().flatten() {
        meta::set_annotation(&mut object, key, value.as_str().unwrap_or_default());
    }
    Ok(object)
}

/// The node that a binding names.
///
/// # Errors
/// 400 where it names none.
pub(crate) fn node_of(binding: &Value) -> Result<&str, Status> {
    match binding["target"]["name"].as_str().unwrap_or_default() {
        "" => Err(Status::bad_request("target.name: Required value")),
        node => Ok(node),
    }
}

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

/// How long a pod has to end: nothing to wait for where no node runs it.
pub(super) fn grace_seconds(object: &Value, asked: Option<i64>) -> i64 {
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
