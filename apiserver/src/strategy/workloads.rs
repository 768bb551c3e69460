//! Workloads, the kinds of `apps` and `batch`: selectors that must fit their templates, and fields that cannot change.
//!
//! Source: kubernetes/pkg/apis/{apps,batch}/validation, kubernetes/pkg/registry/{apps,batch}/*/strategy.go.

use api::selector::LabelSelector;
use api::{FieldError, FieldPath, meta};
use serde::Deserialize as _;
use serde_json::Value;

use super::built_in::{BUILT_IN, immutable};
use super::rules::{Generation, Propagation};
use super::{Deletion, Strategy};

pub(super) const POD_TEMPLATES: Strategy = Strategy {
    deletion: Deletion::ANSWERED_WITH_OBJECT,
    ..COUNTED
};

pub(super) const REPLICATION_CONTROLLERS: Strategy = Strategy {
    selectable: &[("status.replicas", "status.replicas")],
    scale_selector: SCALE_SELECTOR,
    deletion: Deletion {
        propagation: Propagation::Orphan,
        ..Deletion::PLAIN
    },
    ..COUNTED
};

const DAEMON_SETS: Strategy = Strategy {
    validate: validate_workload,
    ..COUNTED
};

const DEPLOYMENTS: Strategy = Strategy {
    scale_selector: SCALE_SELECTOR,
    ..DAEMON_SETS
};

const STATEFUL_SETS: Strategy = Strategy {
    scale_selector: SCALE_SELECTOR,
    validate: |object, _live| validate_template(object),
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
    validate: |object, _live| validate_cron_job(object),
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
    ..BUILT_IN
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
        "deployments" | "replicasets" => &DEPLOYMENTS,
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

/// Deployments, ReplicaSets and DaemonSets, whose selectors cannot change.
fn validate_workload(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let mut errors = validate_template(object);
    errors.extend(validate_fixed(object, live, &[&["spec", "selector"]]));
    errors
}

fn validate_template(object: &Value) -> Vec<FieldError> {
    let mut errors = validate_selector(object);
    errors.extend(validate_pod_of_template(object));
    errors
}

fn validate_job(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let fixed: &[&[&str]] = &[
        &["spec", "selector"],
        &["spec", "template"],
        &["spec", "completionMode"],
    ];
    let mut errors = validate_pod_of_template(object);
    errors.extend(validate_fixed(object, live, fixed));
    errors
}

fn validate_pod_of_template(object: &Value) -> Vec<FieldError> {
    let path = FieldPath::new("spec").child("template").child("spec");
    validate_pod_spec(&object["spec"]["template"]["spec"], &path)
}

fn validate_cron_job(object: &Value) -> Vec<FieldError> {
    let path = ["jobTemplate", "spec", "template", "spec"]
        .iter()
        .fold(FieldPath::new("spec"), |path, name| path.child(name));
    let spec = &object["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    validate_pod_spec(spec, &path)
}

/// A pod has a container, and each has an image.
pub(super) fn validate_pod_spec(spec: &Value, path: &FieldPath) -> Vec<FieldError> {
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

/// Returns an error for each of the fields, by their paths, that an update changes and must not.
pub(super) fn validate_fixed(
    object: &Value,
    live: Option<&Value>,
    fixed: &[&[&str]],
) -> Vec<FieldError> {
    let Some(live) = live else {
        return Vec::new();
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
        (new != old).then(|| immutable(&whole, &new))
    });
    changed.collect()
}
