//! Workloads, the kinds of `apps` and `batch`: selectors that must fit their templates, and fields that cannot change.
//!
//! Source: kubernetes/pkg/apis/{apps,batch}/validation, kubernetes/pkg/registry/{apps,batch}/*/strategy.go.

use std::collections::BTreeSet;

use api::selector::LabelSelector;
use api::{FieldError, FieldPath, meta};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::built_in::{BUILT_IN, RULED, validate_fixed};
use super::checks::{
    Findings, Place, Rules, at_most_all, count_of, count_or_percent, dns_label, found, judge,
    not_negative, one_of_if_any, required,
};
use super::pods::spec;
use super::rules::{Generation, Propagation};
use super::status::StatusMetadata;
use super::{Deletion, Strategy};

mod jobs;

pub(super) const POD_TEMPLATES: Strategy = Strategy {
    validate: |object, _live| {
        judge(
            object,
            &[("template", |template, findings| {
                spec::judge_template(template, findings);
            })],
        )
    },
    deletion: Deletion::ANSWERED_WITH_OBJECT,
    ..COUNTED
};

pub(super) const REPLICATION_CONTROLLERS: Strategy = Strategy {
    validate: |object, _live| judge(object, REPLICATION_CONTROLLER),
    selectable: &[("status.replicas", "status.replicas")],
    scale_selector: SCALE_SELECTOR,
    deletion: Deletion {
        propagation: Propagation::Orphan,
        ..Deletion::PLAIN
    },
    ..COUNTED
};

const DAEMON_SETS: Strategy = Strategy {
    validate: |object, live| {
        let mut errors = validate_selector(object, "daemonset");
        errors.extend(judge(object, DAEMON_SET));
        errors.extend(validate_fixed(object, live, &[&["spec", "selector"]]));
        errors
    },
    ..COUNTED
};

const DEPLOYMENTS: Strategy = Strategy {
    scale_selector: SCALE_SELECTOR,
    status_metadata: StatusMetadata::LabelsKept,
    validate: |object, live| {
        let mut errors = validate_selector(object, "deployment");
        errors.extend(judge(object, DEPLOYMENT));
        errors.extend(validate_fixed(object, live, &[&["spec", "selector"]]));
        errors
    },
    ..COUNTED
};

const REPLICA_SETS: Strategy = Strategy {
    validate: |object, live| {
        let mut errors = validate_selector(object, "deployment");
        errors.extend(judge(object, REPLICA_SET));
        errors.extend(validate_fixed(object, live, &[&["spec", "selector"]]));
        errors
    },
    status_metadata: StatusMetadata::Written,
    ..DEPLOYMENTS
};

const STATEFUL_SETS: Strategy = Strategy {
    scale_selector: SCALE_SELECTOR,
    validate: |object, _live| {
        let mut errors = validate_selector(object, "statefulset");
        errors.extend(judge(object, STATEFUL_SET));
        errors
    },
    ..COUNTED
};

const JOBS: Strategy = Strategy {
    selectable: &[("status.successful", "status.succeeded")],
    validate: validate_job,
    deletion: Deletion {
        propagation: Propagation::Orphan,
        warning: Some(ORPHANED_PODS),
        ..Deletion::PLAIN
    },
    ..COUNTED
};

const CRON_JOBS: Strategy = Strategy {
    validate: |object, _live| judge(object, jobs::CRON_JOB),
    ..BATCH
};

/// What else there may be in `batch`.
const BATCH: Strategy = Strategy {
    deletion: Deletion {
        propagation: Propagation::Orphan,
        ..Deletion::PLAIN
    },
    ..COUNTED
};

const COUNTED: Strategy = Strategy {
    generation: Generation::Counted,
    ..RULED
};

/// Built-in selectors are objects, which `scale` renders as text.
const SCALE_SELECTOR: Option<&str> = Some(".spec.selector");

/// Jobs leave their pods behind, for reasons of history, which few expect.
const ORPHANED_PODS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background \
     to remove them or set propagationPolicy=Orphan to suppress this warning";

/// The kinds of `apps`.
pub(super) fn apps(resource: &str) -> &'static Strategy {
    match resource {
        "daemonsets" => &DAEMON_SETS,
        "deployments" => &DEPLOYMENTS,
        "replicasets" => &REPLICA_SETS,
        "statefulsets" => &STATEFUL_SETS,
        _ => &BUILT_IN,
    }
}

/// The kinds of `batch`.
pub(super) fn batch(resource: &str) -> &'static Strategy {
    match resource {
        "jobs" => &JOBS,
        "cronjobs" => &CRON_JOBS,
        _ => &BATCH,
    }
}

const DEPLOYMENT: &Rules = &[
    ("spec.replicas", not_negative),
    ("spec.minReadySeconds", not_negative),
    ("spec.revisionHistoryLimit", not_negative),
    ("spec.progressDeadlineSeconds", not_negative),
    ("spec", progress),
    ("spec.strategy", deployment_strategy),
    ("spec.template", |template, findings| {
        spec::judge_lasting(template, "ReplicaSet", findings);
    }),
];

const REPLICA_SET: &Rules = &[
    ("spec.replicas", not_negative),
    ("spec.minReadySeconds", not_negative),
    ("spec.template", |template, findings| {
        spec::judge_lasting(template, "ReplicaSet", findings);
    }),
];

const STATEFUL_SET: &Rules = &[
    ("spec.replicas", not_negative),
    ("spec.minReadySeconds", not_negative),
    (
        "spec.persistentVolumeClaimRetentionPolicy.whenDeleted",
        retention,
    ),
    (
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
        retention,
    ),
    ("spec.ordinals.start", not_negative),
    ("spec.serviceName", dns_label),
    (
        "spec.podManagementPolicy",
        |policy, findings| match policy.text() {
            "" => findings.required(policy, ""),
            "OrderedReady" | "Parallel" => {}
            _ => findings.invalid(policy, "must be 'OrderedReady' or 'Parallel'"),
        },
    ),
    ("spec.updateStrategy.rollingUpdate.partition", not_negative),
    ("spec.updateStrategy", |strategy, findings| {
        let rolling = strategy.at("rollingUpdate");
        match strategy.at("type").text() {
            "" => findings.required(strategy, ""),
            "OnDelete" if rolling.is_set() => {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                findings.invalid(&rolling, detail);
            }
            "OnDelete" | "RollingUpdate" => {}
            _ => findings.invalid(strategy, "must be 'RollingUpdate' or 'OnDelete'"),
        }
    }),
    ("spec.volumeClaimTemplates[].spec", super::volumes::claim),
    ("spec", stateful_template),
];

const DAEMON_SET: &Rules = &[
    ("spec.minReadySeconds", not_negative),
    ("spec.revisionHistoryLimit", not_negative),
    ("spec.updateStrategy", daemon_strategy),
    ("spec.template", |template, findings| {
        spec::judge_lasting(template, "DaemonSet", findings);
    }),
];

const REPLICATION_CONTROLLER: &Rules = &[
    ("spec.replicas", not_negative),
    ("spec.minReadySeconds", not_negative),
    ("spec.selector", required),
    ("spec.template", |template, findings| {
        if template.is_set() {
            spec::judge_lasting(template, "ReplicationController", findings);
        } else {
            findings.required(template, "");
        }
    }),
    ("spec", |spec, findings| {
        let (selector, template) = (spec.at("selector"), spec.at("template"));
        let labels = template.within(&["metadata", "labels"]);
        let matches = |(key, value): (&str, Place<'_>)| labels.value.get(key) == Some(value.value);
        if template.is_set() && !selector.members().all(matches) {
            findings.invalid(&labels, UNMATCHED);
        }
    }),
];

const UNMATCHED: &str = "`selector` does not match template `labels`";
fn validate_job(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let fixed: &[&[&str]] = &[
        &["spec", "selector"],
        &["spec", "template"],
        &["spec", "completionMode"],
    ];
    let mut errors = found(object, |job, findings| {
        findings.judge(&job.at("spec"), jobs::JOB);
    });
    errors.extend(validate_fixed(object, live, fixed));
    errors
}

fn retention(policy: &Place<'_>, findings: &mut Findings) {
    if !policy.text().is_empty() {
        one_of_if_any(policy, &["Retain", "Delete"], findings);
    }
}

fn progress(spec: &Place<'_>, findings: &mut Findings) {
    let deadline = spec.at("progressDeadlineSeconds");
    let ready = spec.at("minReadySeconds").number().unwrap_or(0);
    if deadline.number().is_some_and(|it| it <= ready) {
        findings.invalid(&deadline, "must be greater than minReadySeconds");
    }
}

fn deployment_strategy(strategy: &Place<'_>, findings: &mut Findings) {
    let rolling = strategy.at("rollingUpdate");
    let kinds = ["Recreate", "RollingUpdate"];
    if !kinds.contains(&strategy.at("type").text()) {
        findings.not_supported(strategy, &kinds);
        return;
    }
    if strategy.at("type").text() == "Recreate" {
        if rolling.is_set() {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            findings.forbidden(&rolling, detail);
        }
        return;
    }
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    count_or_percent(&unavailable, findings);
    count_or_percent(&surge, findings);
    if rolling.is_set() && count_of(&unavailable) == 0 && count_of(&surge) == 0 {
        findings.invalid(&unavailable, "may not be 0 when `maxSurge` is 0");
    }
    at_most_all(&unavailable, findings);
}

fn daemon_strategy(strategy: &Place<'_>, findings: &mut Findings) {
    let rolling = strategy.at("rollingUpdate");
    let kinds = ["RollingUpdate", "OnDelete"];
    if !kinds.contains(&strategy.at("type").text()) {
        findings.not_supported(strategy, &kinds);
    }
    if strategy.at("type").text() != "RollingUpdate" {
        return;
    }
    if !rolling.is_set() {
        findings.required(&rolling, "");
        return;
    }
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    for place in [&unavailable, &surge] {
        count_or_percent(place, findings);
        at_most_all(place, findings);
    }
    match (count_of(&unavailable) != 0, count_of(&surge) != 0) {
        (true, true) => {
            findings.invalid(&surge, "may not be set when maxUnavailable is non-zero");
        }
        (false, false) => findings.required(&unavailable, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

/// The template of a StatefulSet has the volumes that are made from the set's templates of claims too.
fn stateful_template(spec: &Place<'_>, findings: &mut Findings) {
    let claims = spec.at("volumeClaimTemplates");
    let name = |claim: &Place<'_>| claim.within(&["metadata", "name"]).text().to_owned();
    let claimed: BTreeSet<String> = claims.items().map(|claim| name(&claim)).collect();
    let place = spec.at("template");
    if claimed.is_empty() {
        spec::judge_lasting(&place, "StatefulSet", findings);
        return;
    }
    let mut template = place.value.clone();
    if let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) {
        let own = pod.get("volumes").and_then(Value::as_array).cloned();
        let own = own.unwrap_or_default().into_iter();
        let is_own =
            |volume: &Value| !claimed.contains(volume["name"].as_str().unwrap_or_default());
        let made = claimed
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let volumes: Vec<Value> = made.chain(own.filter(is_own)).collect();
        pod.insert("volumes".to_owned(), volumes.into());
    }
    let place = Place {
        value: &template,
        path: place.path,
    };
    spec::judge_lasting(&place, "StatefulSet", findings);
}

/// The selector must select the pods of the template.
fn validate_selector(object: &Value, kind: &str) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let path = spec.child("selector");
    let selector = &object["spec"]["selector"];
    if selector.is_null() {
        let required = FieldError::required(&path, "");
        return match kind {
            "daemonset" => vec![unmatched(object)],
            _ => vec![required, unmatched(object)],
        };
    }
    if selector.as_object().is_some_and(serde_json::Map::is_empty) {
        let detail = format!("empty selector is invalid for {kind}");
        return vec![FieldError::invalid(&path, selector.clone(), detail)];
    }
    let Ok(typed) = LabelSelector::deserialize(selector) else {
        return Vec::new();
    };
    let mut errors = typed.validate(&path);
    let detail = match kind {
        "deployment" => Some("invalid label selector"),
        "statefulset" => Some(""),
        _ => None,
    };
    if let (false, Some(detail)) = (errors.is_empty(), detail) {
        errors.push(FieldError::invalid(&path, selector.clone(), detail));
        return errors;
    }
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
    FieldError::invalid(&path, value, UNMATCHED)
}
