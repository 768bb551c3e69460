//! What runs pods: deployments and their kin, jobs, autoscalers.
//!
//! Source: `kubernetes/pkg/apis/{apps,batch,autoscaling}/v*/defaults.go`, `kubernetes/pkg/registry/batch/job/strategy.go`.

use api::GroupVersionKind;
use serde_json::{Value, json};

use super::{Fields, child, child_if_any, list, pods, set, set_filled, text};

pub(super) fn complete_apps(fields: &mut Fields, kind: &str) {
    let spec = child(fields, "spec");
    match kind {
        "Deployment" => {
            set(spec, "replicas", json!(1));
            let strategy = child(spec, "strategy");
            set_filled(strategy, "type", json!("RollingUpdate"));
            if text(strategy, "type") == "RollingUpdate" {
                let rolling = child(strategy, "rollingUpdate");
                set(rolling, "maxUnavailable", json!("25%"));
                set(rolling, "maxSurge", json!("25%"));
            }
            set(spec, "revisionHistoryLimit", json!(10));
            set(spec, "progressDeadlineSeconds", json!(600));
        }
        "StatefulSet" => complete_stateful_set(spec),
        "DaemonSet" => {
            let strategy = child(spec, "updateStrategy");
            set_filled(strategy, "type", json!("RollingUpdate"));
            if text(strategy, "type") == "RollingUpdate" {
                let rolling = child(strategy, "rollingUpdate");
                set(rolling, "maxUnavailable", json!(1));
                set(rolling, "maxSurge", json!(0));
            }
            set(spec, "revisionHistoryLimit", json!(10));
        }
        "ReplicaSet" => set(spec, "replicas", json!(1)),
        _ => return,
    }
    pods::complete_template(child(spec, "template"));
}

fn complete_stateful_set(spec: &mut Fields) {
    set_filled(spec, "podManagementPolicy", json!("OrderedReady"));
    let strategy = child(spec, "updateStrategy");
    set_filled(strategy, "type", json!("RollingUpdate"));
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        set(rolling, "partition", json!(0));
    }
    let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
    set_filled(retention, "whenDeleted", json!("Retain"));
    set_filled(retention, "whenScaled", json!("Retain"));
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
    for claim in list(spec, "volumeClaimTemplates") {
        claim.insert("apiVersion".to_owned(), json!("v1"));
        claim.insert("kind".to_owned(), json!("PersistentVolumeClaim"));
        set(child(claim, "spec"), "volumeMode", json!("Filesystem"));
        set(child(claim, "status"), "phase", json!("Pending"));
    }
}

pub(super) fn complete_batch(fields: &mut Fields, kind: &str) {
    let spec = child(fields, "spec");
    match kind {
        "Job" => {
            complete_job(spec);
            labels_from_template(fields);
        }
        "CronJob" => {
            set_filled(spec, "concurrencyPolicy", json!("Allow"));
            set(spec, "suspend", json!(false));
            set(spec, "successfulJobsHistoryLimit", json!(3));
            set(spec, "failedJobsHistoryLimit", json!(1));
            let job = child(child(spec, "jobTemplate"), "spec");
            complete_failure_policy(job);
            pods::complete_template(child(job, "template"));
        }
        _ => {}
    }
}

fn complete_job(spec: &mut Fields) {
    let is_missing = |spec: &Fields, name: &str| spec.get(name).is_none_or(Value::is_null);
    if is_missing(spec, "completions") && is_missing(spec, "parallelism") {
        set(spec, "completions", json!(1));
    }
    set(spec, "parallelism", json!(1));
    let per_index = !is_missing(spec, "backoffLimitPerIndex");
    set(
        spec,
        "backoffLimit",
        if per_index { json!(i32::MAX) } else { json!(6) },
    );
    set(spec, "completionMode", json!("NonIndexed"));
    set(spec, "suspend", json!(false));
    let fails_by_policy = !is_missing(spec, "podFailurePolicy");
    let replaced = if fails_by_policy {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    set(spec, "podReplacementPolicy", json!(replaced));
    set(spec, "manualSelector", json!(false));
    complete_failure_policy(spec);
    pods::complete_template(child(spec, "template"));
}

fn complete_failure_policy(job: &mut Fields) {
    let Some(policy) = child_if_any(job, "podFailurePolicy") else {
        return;
    };
    for rule in list(policy, "rules") {
        list(rule, "onPodConditions").for_each(|it| set_filled(it, "status", json!("True")));
    }
}

/// A job selects its pods by its own identity, unless it says otherwise.
pub(super) fn generate_selector(fields: &mut Fields) {
    let metadata = child(fields, "metadata");
    let (name, uid) = (
        text(metadata, "name").to_owned(),
        text(metadata, "uid").to_owned(),
    );
    let spec = child(fields, "spec");
    if spec.get("manualSelector") == Some(&Value::Bool(true)) || uid.is_empty() {
        return;
    }
    let template = child(spec, "template");
    let labels = child(child(template, "metadata"), "labels");
    for (key, value) in [
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        set(labels, key, json!(value));
    }
    let selected = child(child(spec, "selector"), "matchLabels");
    set(selected, "batch.kubernetes.io/controller-uid", json!(uid));
    labels_from_template(fields);
}

/// An object without labels has those of its pods.
fn labels_from_template(fields: &mut Fields) {
    let template = child(fields, "spec").get("template");
    let labels = template
        .and_then(|it| it.get("metadata")?.get("labels"))
        .cloned();
    let Some(Value::Object(labels)) = labels.filter(|it| *it != json!({})) else {
        return;
    };
    let own = child(child(fields, "metadata"), "labels");
    if own.is_empty() {
        *own = labels;
    }
}

pub(super) fn complete_autoscaling(fields: &mut Fields, gvk: &GroupVersionKind) {
    if gvk.kind != "HorizontalPodAutoscaler" {
        return;
    }
    let spec = child(fields, "spec");
    set(spec, "minReplicas", json!(1));
    if gvk.version == "v1" {
        return;
    }
    let has_metrics = spec
        .get("metrics")
        .and_then(Value::as_array)
        .is_some_and(|it| !it.is_empty());
    if !has_metrics {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    let Some(behavior) = child_if_any(spec, "behavior") else {
        return;
    };
    complete_scaling(
        child(behavior, "scaleUp"),
        Some(0),
        &[("Pods", 4), ("Percent", 100)],
    );
    complete_scaling(child(behavior, "scaleDown"), None, &[("Percent", 100)]);
}

fn complete_scaling(rules: &mut Fields, window_seconds: Option<i64>, policies: &[(&str, i64)]) {
    set(rules, "selectPolicy", json!("Max"));
    if let Some(seconds) = window_seconds {
        set(rules, "stabilizationWindowSeconds", json!(seconds));
    }
    let policy =
        |(name, value): &(&str, i64)| json!({"type": name, "value": value, "periodSeconds": 15});
    set(rules, "policies", policies.iter().map(policy).collect());
}

pub(super) fn complete_replication_controller(fields: &mut Fields) {
    let labels = child(fields, "spec").get("template");
    let labels = labels
        .and_then(|it| it.get("metadata")?.get("labels"))
        .cloned();
    if let Some(labels @ Value::Object(_)) = labels {
        let selector = child(fields, "spec").get("selector");
        let is_empty = selector
            .and_then(Value::as_object)
            .is_none_or(serde_json::Map::is_empty);
        if is_empty {
            child(fields, "spec").insert("selector".to_owned(), labels);
        }
    }
    labels_from_template(fields);
    let spec = child(fields, "spec");
    set(spec, "replicas", json!(1));
    pods::complete_template(child(spec, "template"));
}
