//! Volumes, their claims, and the kinds of `storage.k8s.io`.
//!
//! Source: kubernetes/pkg/registry/storage/*/strategy.go, kubernetes/pkg/apis/storage/validation.

use std::collections::HashSet;

use api::FieldError;
use api::validation::is_qualified_name;
use serde_json::Value;

use super::built_in::{BUILT_IN, RULED, validate_fixed};
use super::checks::{
    Findings, Place, Rules, dns_subdomain, judge, no_backsteps, one_of_if_any, positive_quantity,
    qualified_name, required, selector,
};
use super::pods;
use super::rules::{Judged, PutWithoutVersion};
use super::status::StatusMetadata;
use super::{Deletion, Strategy};

pub(super) const VOLUMES: Strategy = Strategy {
    deletion: Deletion::ANSWERED_WITH_OBJECT,
    validate: |object, _live| judge(object, VOLUME),
    ..RULED
};

pub(super) const CLAIMS: Strategy = Strategy {
    validate: |object, _live| judge(object, &[("spec", claim)]),
    ..VOLUMES
};

const STORAGE_CLASSES: Strategy = Strategy {
    judged: Judged::Rules,
    validate: validate_class,
    deletion: Deletion::ANSWERED_WITH_OBJECT,
    ..BUILT_IN
};

const STORAGE_CAPACITIES: Strategy = Strategy {
    put_without_version: PutWithoutVersion::Refused,
    ..BUILT_IN
};

/// Drivers, nodes and attachments.
const ATTACHMENTS: Strategy = Strategy {
    status_metadata: StatusMetadata::Kept,
    deletion: Deletion::ANSWERED_WITH_OBJECT,
    ..STORAGE_CAPACITIES
};

/// The kinds of `storage.k8s.io`.
pub(super) fn storage(resource: &str) -> &'static Strategy {
    match resource {
        "storageclasses" => &STORAGE_CLASSES,
        "csistoragecapacities" => &STORAGE_CAPACITIES,
        "csidrivers" | "csinodes" | "volumeattachments" => &ATTACHMENTS,
        _ => &BUILT_IN,
    }
}

const VOLUME: &Rules = &[
    ("spec.accessModes", access_modes),
    ("spec.accessModes", required),
    ("spec.capacity", capacity),
    ("spec.storageClassName", dns_subdomain),
    ("spec.csi", |csi, findings| {
        if csi.is_set() {
            pods::volumes::driver(&csi.at("driver"), findings);
            required(&csi.at("volumeHandle"), findings);
        }
    }),
    ("spec.hostPath.path", required),
    ("spec.hostPath.path", no_backsteps),
    ("spec.local.path", required),
    ("spec.local.path", no_backsteps),
    ("spec.nfs.server", required),
    ("spec.nfs.path", required),
    ("spec.nodeAffinity", |affinity, findings| {
        let needed = affinity.at("required");
        if affinity.is_set() && !needed.is_set() {
            findings.required(&needed, "must specify required node constraints");
        }
        pods::scheduling::node_selector(&needed, findings);
    }),
    ("spec", source),
];

const STORAGE_CLASS: &Rules = &[
    ("provisioner", required),
    ("reclaimPolicy", |policy, findings| {
        if !policy.text().is_empty() {
            one_of_if_any(policy, &["Delete", "Retain"], findings);
        }
    }),
    ("volumeBindingMode", |mode, findings| {
        one_of_if_any(mode, &["Immediate", "WaitForFirstConsumer"], findings);
    }),
    ("provisioner", |place, findings| {
        if !place.text().is_empty() {
            let name = place.text().to_lowercase();
            for detail in is_qualified_name(&name) {
                findings.push(FieldError::invalid(&place.path, name.as_str(), detail));
            }
        }
    }),
    ("parameters", |parameters, findings| {
        for (key, _) in parameters.members().filter(|(key, _)| key.is_empty()) {
            let detail = "field can not be empty.";
            findings.push(FieldError::invalid(&parameters.path, key, detail));
        }
    }),
    ("allowedTopologies", topologies),
];

/// The fields of the spec of a volume that are not where it comes from.
const NOT_A_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

fn access_modes(modes: &Place<'_>, findings: &mut Findings) {
    let mut known = 0;
    for mode in modes.items() {
        if ACCESS_MODES.contains(&mode.text()) {
            known += 1;
        } else {
            // Kubernetes tells it of the list.
            let value = mode.value.clone();
            let error = FieldError::not_supported(&modes.path, value, ACCESS_MODES);
            findings.push(error);
        }
    }
    let singles = modes.items().filter(|it| it.text() == "ReadWriteOncePod");
    let singles = singles.count();
    if singles > 0 && singles < known {
        let detail = "may not use ReadWriteOncePod with other access modes";
        findings.forbidden(modes, detail);
    }
}

/// What a claim asks for, in a PersistentVolumeClaim or in a template of one.
pub(super) fn claim(spec: &Place<'_>, findings: &mut Findings) {
    let modes = spec.at("accessModes");
    if modes.count() == 0 {
        findings.required(&modes, "at least 1 access mode is required");
    }
    access_modes(&modes, findings);
    selector(&spec.at("selector"), findings);
    let storage = Place {
        value: spec.within(&["resources", "requests", "storage"]).value,
        path: spec.at("resources").path.key("storage"),
    };
    if storage.is_set() {
        positive_quantity(&storage, findings);
    } else {
        findings.required(&storage, "");
    }
    dns_subdomain(&spec.at("storageClassName"), findings);
}

fn capacity(capacity: &Place<'_>, findings: &mut Findings) {
    required(capacity, findings);
    if !capacity.at("storage").is_set() || capacity.count() > 1 {
        let value = capacity.value.clone();
        findings.push(FieldError::not_supported(
            &capacity.path,
            value,
            ["storage"],
        ));
    }
    for (_, amount) in capacity.members() {
        if let Some(whole) = amount
            .quantity()
            .and_then(|it| it.to_int())
            .filter(|it| *it < 0)
        {
            let detail = "must be a valid resource quantity";
            findings.push(FieldError::invalid(&amount.path, whole, detail));
        }
        positive_quantity(&amount, findings);
    }
}

fn source(spec: &Place<'_>, findings: &mut Findings) {
    let fields = spec.value.as_object().into_iter().flatten();
    let mut sources =
        fields.filter(|(name, value)| !NOT_A_SOURCE.contains(&name.as_str()) && !value.is_null());
    if sources.next().is_none() {
        findings.required(spec, "must specify a volume type");
    }
    for (other, _) in sources {
        let detail = "may not specify more than 1 volume type";
        findings.forbidden(&spec.at(other), detail);
    }
}

fn topologies(topologies: &Place<'_>, findings: &mut Findings) {
    let mut seen = HashSet::new();
    for topology in topologies.items() {
        let expressions = topology.at("matchLabelExpressions");
        for expression in expressions.items() {
            let (key, values) = (expression.at("key"), expression.at("values"));
            qualified_name(&key, findings);
            if values.count() == 0 {
                findings.required(&values, "");
            }
            findings.unique(values.items());
        }
        findings.unique(expressions.items().map(|it| it.at("key")));
        if !seen.insert(topology.value) || expressions.count() == 0 {
            findings.push(FieldError::duplicate(&expressions.path, ""));
        }
    }
}

fn validate_class(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let fixed: &[&[&str]] = &[
        &["parameters"],
        &["provisioner"],
        &["reclaimPolicy"],
        &["volumeBindingMode"],
    ];
    let mut errors = judge(object, STORAGE_CLASS);
    errors.extend(validate_fixed(object, live, fixed));
    errors
}
