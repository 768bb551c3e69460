//! Pods and templates of pods.
//!
//! Source: `kubernetes/pkg/apis/core/v1/defaults.go`, `kubernetes/pkg/apis/core/v1/helper/qos/qos.go`.

use dialect::Quantity;
use serde_json::{Value, json};

use super::{Fields, child, child_if_any, child_list, list, set, set_filled, text};

/// The mode of files in volumes: `0644`.
const FILE_MODE: i64 = 0o644;

const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

pub(super) fn complete_pod(fields: &mut Fields) {
    let spec = child(fields, "spec");
    for name in ["containers", "initContainers"] {
        list(spec, name).for_each(requests_from_limits);
    }
    if let Some(resources) = child_if_any(spec, "resources") {
        requests_from(resources);
    }
    set(spec, "enableServiceLinks", json!(true));
    host_ports(spec);
    complete_spec(spec);
}

/// Ports of pods in the network of their node are ports of the node.
fn host_ports(spec: &mut Fields) {
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for name in ["containers", "initContainers"] {
        for port in list(spec, name).flat_map(|container| list(container, "ports")) {
            let number = port.get("containerPort").cloned().unwrap_or_default();
            if port.get("hostPort").is_none_or(|it| it == 0) && !number.is_null() {
                port.insert("hostPort".to_owned(), number);
            }
        }
    }
}

/// What admission adds to a new pod wherever it is to run.
pub(super) fn admit(spec: &mut Fields) {
    /// How long a pod stays on a node that does not answer. Source: the admission plugin `DefaultTolerationSeconds`.
    const STAY_SECONDS: i64 = 300;
    if text(spec, "serviceAccountName").is_empty() {
        spec.insert("serviceAccountName".to_owned(), json!("default"));
    }
    same_account(spec);
    set(spec, "priority", json!(0));
    set_filled(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
    let tolerations = child_list(spec, "tolerations");
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerates = |toleration: &Value| {
            let is = |name: &str, wanted: &str| {
                toleration
                    .get(name)
                    .and_then(Value::as_str)
                    .is_none_or(|it| it.is_empty() || it == wanted)
            };
            is("key", key) && is("effect", "NoExecute")
        };
        if !tolerations.iter().any(tolerates) {
            tolerations.push(
                json!({"effect": "NoExecute", "key": key, "operator": "Exists",
                "tolerationSeconds": STAY_SECONDS}),
            );
        }
    }
}

pub(super) fn complete_template(template: &mut Fields) {
    complete_spec(child(template, "spec"));
}

fn complete_spec(spec: &mut Fields) {
    set_filled(spec, "dnsPolicy", json!("ClusterFirst"));
    set_filled(spec, "restartPolicy", json!("Always"));
    set_filled(spec, "schedulerName", json!("default-scheduler"));
    set(spec, "terminationGracePeriodSeconds", json!(30));
    child(spec, "securityContext");
    same_account(spec);
    for name in CONTAINER_LISTS {
        list(spec, name).for_each(complete_container);
    }
    list(spec, "volumes").for_each(complete_volume);
}

/// The old and the new name of the service account.
fn same_account(spec: &mut Fields) {
    let new = text(spec, "serviceAccountName").to_owned();
    let old = text(spec, "serviceAccount").to_owned();
    if !new.is_empty() {
        spec.insert("serviceAccount".to_owned(), json!(new));
    } else if !old.is_empty() {
        spec.insert("serviceAccountName".to_owned(), json!(old));
    }
}

fn complete_container(container: &mut Fields) {
    let policy = if has_latest_tag(text(container, "image")) {
        "Always"
    } else {
        "IfNotPresent"
    };
    set_filled(container, "imagePullPolicy", json!(policy));
    set_filled(
        container,
        "terminationMessagePath",
        json!("/dev/termination-log"),
    );
    set_filled(container, "terminationMessagePolicy", json!("File"));
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        child_if_any(container, name)
            .into_iter()
            .for_each(complete_probe);
    }
    if let Some(lifecycle) = child_if_any(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            let action = child_if_any(lifecycle, name);
            action
                .and_then(|it| child_if_any(it, "httpGet"))
                .into_iter()
                .for_each(complete_http);
        }
    }
    for port in list(container, "ports") {
        set_filled(port, "protocol", json!("TCP"));
    }
    for variable in list(container, "env") {
        let source = child_if_any(variable, "valueFrom");
        let field = source.and_then(|it| child_if_any(it, "fieldRef"));
        if let Some(field) = field {
            set_filled(field, "apiVersion", json!("v1"));
        }
    }
}

/// An image without a tag or a digest is the latest.
fn has_latest_tag(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn complete_probe(probe: &mut Fields) {
    for (name, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        // Zero is the same as nothing for these.
        if probe.get(name).is_none_or(|it| it.is_null() || it == 0) {
            probe.insert(name.to_owned(), json!(value));
        }
    }
    child_if_any(probe, "httpGet")
        .into_iter()
        .for_each(complete_http);
    if let Some(call) = child_if_any(probe, "grpc") {
        set(call, "service", json!(""));
    }
}

fn complete_http(action: &mut Fields) {
    set_filled(action, "path", json!("/"));
    set_filled(action, "scheme", json!("HTTP"));
}

fn complete_volume(volume: &mut Fields) {
    let has_source = volume
        .iter()
        .any(|(name, source)| name != "name" && !source.is_null());
    if !has_source {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = child_if_any(volume, name) {
            set(source, "defaultMode", json!(FILE_MODE));
            downward_items(source);
            for inner in list(source, "sources") {
                if let Some(token) = child_if_any(inner, "serviceAccountToken") {
                    set(token, "expirationSeconds", json!(3600));
                }
                child_if_any(inner, "downwardAPI")
                    .into_iter()
                    .for_each(downward_items);
            }
        }
    }
    if let Some(path) = child_if_any(volume, "hostPath") {
        set(path, "type", json!(""));
    }
    if let Some(image) = child_if_any(volume, "image") {
        let reference = text(image, "reference");
        let policy = if has_latest_tag(reference) {
            "Always"
        } else {
            "IfNotPresent"
        };
        set_filled(image, "pullPolicy", json!(policy));
    }
    let template =
        child_if_any(volume, "ephemeral").and_then(|it| child_if_any(it, "volumeClaimTemplate"));
    if let Some(template) = template {
        set(child(template, "spec"), "volumeMode", json!("Filesystem"));
    }
}

fn downward_items(source: &mut Fields) {
    for item in list(source, "items") {
        if let Some(field) = child_if_any(item, "fieldRef") {
            set_filled(field, "apiVersion", json!("v1"));
        }
    }
}

fn requests_from_limits(container: &mut Fields) {
    if let Some(resources) = child_if_any(container, "resources") {
        requests_from(resources);
    }
}

/// What is limited and not requested is requested as much as it is limited.
fn requests_from(resources: &mut Fields) {
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
        return;
    };
    let requests = child(resources, "requests");
    for (name, amount) in limits {
        set(requests, &name, amount);
    }
}

/// The quality of service that a pod gets.
pub(super) fn quality_of_service(spec: &Value) -> &'static str {
    let lists = ["containers", "initContainers"].iter();
    let containers = lists
        .filter_map(|name| spec.get(*name)?.as_array())
        .flatten();
    let (mut is_guaranteed, mut is_best_effort) = (true, true);
    for container in containers {
        let amount = |group: &str, name: &str| {
            let amount = container.get("resources")?.get(group)?.get(name)?;
            let text = amount
                .as_str()
                .map_or_else(|| amount.to_string(), str::to_owned);
            Quantity::parse(text.trim())
                .ok()
                .filter(|amount| *amount > Quantity::from(0))
        };
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount("requests", name), amount("limits", name));
            is_best_effort &= request.is_none() && limit.is_none();
            is_guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (is_best_effort, is_guaranteed) {
        (true, _) => "BestEffort",
        (false, true) => "Guaranteed",
        (false, false) => "Burstable",
    }
}
