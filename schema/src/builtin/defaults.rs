//! What the server adds to built-in objects: defaults that Kubernetes has in Go code and its documents do not tell.
//!
//! `kubectl get` shows them, and a second apply must not see them as changes. What needs the cluster is not here:
//! addresses, tolerations and volumes of admission, the work of controllers.
//!
//! Invariant: completing twice changes nothing.
//!
//! Source: `kubernetes/pkg/apis/*/v*/defaults.go`, `kubernetes/pkg/registry/*/*/strategy.go`; compared with a
//! kube-apiserver 1.36.3.

use api::GroupVersionKind;
use api::growth::TooLarge;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::canonical::canonicalize;
use crate::structural::{self, Schema};

mod admission;
mod network;
mod pods;
mod storage;
mod workloads;

type Fields = Map<String, Value>;

/// Fills in defaults and brings the object into the form in which it is kept.
///
/// # Errors
/// The defaults would take more memory than one object may.
pub fn complete(
    object: &mut Value,
    gvk: &GroupVersionKind,
    schema: &Schema,
) -> Result<(), TooLarge> {
    if let Some(fields) = object.as_object_mut() {
        complete_kind(fields, gvk);
    }
    canonicalize(object, schema);
    structural::default(object, schema)
}

/// Sets what a new object begins with and clients cannot choose: its first status, and the like.
///
/// # Errors
/// As [`complete`].
pub fn prepare_for_create(
    object: &mut Value,
    gvk: &GroupVersionKind,
    schema: &Schema,
) -> Result<(), TooLarge> {
    let Some(fields) = object.as_object_mut() else {
        return Ok(());
    };
    if schema.properties.contains_key("status") {
        fields.insert("status".to_owned(), json!({}));
    }
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Namespace") => {
            child(fields, "status").insert("phase".to_owned(), json!("Active"));
            let spec = child(fields, "spec");
            let finalizers = child_list(spec, "finalizers");
            if !finalizers.contains(&json!("kubernetes")) {
                finalizers.push(json!("kubernetes"));
            }
        }
        ("", "PersistentVolume" | "PersistentVolumeClaim") => {
            child(fields, "status").insert("phase".to_owned(), json!("Pending"));
        }
        ("", "Pod") => {
            pods::admit(child(fields, "spec"));
            let quality = pods::quality_of_service(fields.get("spec").unwrap_or(&Value::Null));
            let status = child(fields, "status");
            status.insert("phase".to_owned(), json!("Pending"));
            status.insert("qosClass".to_owned(), json!(quality));
        }
        ("batch", "Job") => workloads::generate_selector(fields),
        _ => {}
    }
    structural::default(object, schema)
}

fn complete_kind(fields: &mut Fields, gvk: &GroupVersionKind) {
    let kind = gvk.kind.as_str();
    match (gvk.group.as_str(), gvk.version.as_str()) {
        ("", "v1") => complete_core(fields, kind),
        ("apps", "v1") => workloads::complete_apps(fields, kind),
        ("batch", "v1") => workloads::complete_batch(fields, kind),
        ("autoscaling", _) => workloads::complete_autoscaling(fields, gvk),
        ("networking.k8s.io", _) => network::complete(fields, kind),
        ("discovery.k8s.io", _) => network::complete_slices(fields),
        ("storage.k8s.io", _) => storage::complete(fields, kind),
        ("rbac.authorization.k8s.io", _) => complete_rbac(fields, kind),
        ("admissionregistration.k8s.io", _) => admission::complete(fields, kind),
        ("apiregistration.k8s.io", _) => {
            let service = child_if_any(child(fields, "spec"), "service");
            if let Some(service) = service {
                set(service, "port", json!(443));
            }
        }
        ("scheduling.k8s.io", _) => set(fields, "preemptionPolicy", json!("PreemptLowerPriority")),
        ("apiextensions.k8s.io", _) => complete_definition(fields),
        ("flowcontrol.apiserver.k8s.io", _) => admission::complete_flow_control(fields, kind),
        _ => {}
    }
}

fn complete_core(fields: &mut Fields, kind: &str) {
    match kind {
        "Pod" => pods::complete_pod(fields),
        "PodTemplate" => pods::complete_template(child(fields, "template")),
        "ReplicationController" => workloads::complete_replication_controller(fields),
        "Service" => network::complete_service(fields),
        "Endpoints" => network::complete_endpoints(fields),
        "Secret" => complete_secret(fields),
        "Namespace" => {
            let metadata = child(fields, "metadata");
            if let Some(name) = metadata.get("name").cloned() {
                child(metadata, "labels").insert("kubernetes.io/metadata.name".to_owned(), name);
            }
        }
        "PersistentVolume" => {
            let spec = child(fields, "spec");
            set(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
            set(spec, "volumeMode", json!("Filesystem"));
            if let Some(path) = child_if_any(spec, "hostPath") {
                set(path, "type", json!(""));
            }
            set(child(fields, "status"), "phase", json!("Pending"));
        }
        "PersistentVolumeClaim" => {
            set(child(fields, "spec"), "volumeMode", json!("Filesystem"));
            set(child(fields, "status"), "phase", json!("Pending"));
        }
        "LimitRange" => complete_limit_range(fields),
        _ => {}
    }
}

/// `stringData` is written into `data`.
fn complete_secret(fields: &mut Fields) {
    set(fields, "type", json!("Opaque"));
    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return;
    };
    let data = child(fields, "data");
    for (key, text) in texts {
        let bytes = text.as_str().unwrap_or_default();
        data.insert(key, Value::String(STANDARD.encode(bytes)));
    }
}

fn complete_limit_range(fields: &mut Fields) {
    for limit in list(child(fields, "spec"), "limits") {
        if limit.get("type") != Some(&json!("Container")) {
            continue;
        }
        // A limit is the default of what is greater, a request that of what is smaller.
        for (source, target) in [
            ("max", "default"),
            ("default", "defaultRequest"),
            ("min", "defaultRequest"),
        ] {
            let Some(Value::Object(amounts)) = limit.get(source).cloned() else {
                continue;
            };
            let target = child(limit, target);
            amounts
                .into_iter()
                .for_each(|(name, amount)| set(target, &name, amount));
        }
    }
}

fn complete_rbac(fields: &mut Fields, kind: &str) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if !matches!(kind, "RoleBinding" | "ClusterRoleBinding") {
        return;
    }
    if let Some(role) = child_if_any(fields, "roleRef") {
        set_filled(role, "apiGroup", json!(GROUP));
    }
    for subject in list(fields, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            set_filled(subject, "apiGroup", json!(GROUP));
        }
    }
}

fn complete_definition(fields: &mut Fields) {
    let spec = child(fields, "spec");
    if let Some(names) = child_if_any(spec, "names") {
        let kind = text(names, "kind").to_owned();
        set_filled(names, "singular", json!(kind.to_lowercase()));
        if !kind.is_empty() {
            set_filled(names, "listKind", json!(format!("{kind}List")));
        }
    }
    let conversion = child(spec, "conversion");
    set(conversion, "strategy", json!("None"));
    let client =
        child_if_any(conversion, "webhook").and_then(|it| child_if_any(it, "clientConfig"));
    if let Some(service) = client.and_then(|it| child_if_any(it, "service")) {
        set(service, "port", json!(443));
    }
}

// --- editing ---

/// Sets a field that is missing or null.
fn set(fields: &mut Fields, name: &str, value: Value) {
    let field = fields.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = value;
    }
}

/// Sets a field that is missing, null or empty.
fn set_filled(fields: &mut Fields, name: &str, value: Value) {
    if text(fields, name).is_empty() {
        fields.insert(name.to_owned(), value);
    }
}

fn text<'v>(fields: &'v Fields, name: &str) -> &'v str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The struct of this name, made if it is missing. A value of another type is replaced: decoding has refused those.
fn child<'v>(fields: &'v mut Fields, name: &str) -> &'v mut Fields {
    let value = fields.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made an object above")
}

fn child_list<'v>(fields: &'v mut Fields, name: &str) -> &'v mut Vec<Value> {
    let value = fields.entry(name).or_insert(Value::Null);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("it was made a list above")
}

/// The struct of this name, if it is there.
fn child_if_any<'v>(fields: &'v mut Fields, name: &str) -> Option<&'v mut Fields> {
    fields.get_mut(name)?.as_object_mut()
}

/// The structs of a list, if it is there.
fn list<'v>(fields: &'v mut Fields, name: &str) -> impl Iterator<Item = &'v mut Fields> {
    let items = fields
        .get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    items.filter_map(Value::as_object_mut)
}
