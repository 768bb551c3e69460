//! What the volumes of a pod must be.
//!
//! Of the kinds of volumes that exist, those are judged that are in use; what is left are drivers that have moved to CSI, of which only is
//! asked that there is one of them.
//!
//! Source: kubernetes/pkg/apis/core/validation/validation.go (`ValidateVolumes`).

use std::collections::HashSet;

use api::FieldError;
use api::validation::is_dns_label;
use serde_json::Value;

use super::super::checks::{Findings, Place, Rules, file_mode, file_path, no_backsteps, required};
use super::shown::{field_ref, resource_ref};

/// The fields of a volume that are none of its kinds.
const NOT_A_KIND: &str = "name";

const KEY_TO_PATH: &Rules = &[
    ("key", required),
    ("path", required),
    ("path", file_path),
    ("mode", file_mode),
];

/// What is asked of a kind of volume.
const KINDS: &[(&str, &Rules)] = &[
    ("emptyDir", &[("sizeLimit", size_limit)]),
    ("hostPath", &[("path", required), ("path", no_backsteps)]),
    (
        "secret",
        &[
            ("secretName", required),
            ("defaultMode", file_mode),
            ("items[]", key_to_path),
        ],
    ),
    (
        "configMap",
        &[
            ("name", required),
            ("defaultMode", file_mode),
            ("items[]", key_to_path),
        ],
    ),
    ("persistentVolumeClaim", &[("claimName", required)]),
    (
        "nfs",
        &[
            ("server", required),
            ("path", required),
            ("path", absolute_path),
        ],
    ),
    (
        "downwardAPI",
        &[("defaultMode", file_mode), ("", shown_files)],
    ),
    ("projected", &[("defaultMode", file_mode), ("", projected)]),
    ("csi", &[("driver", driver)]),
];

/// What of a pod a file can show.
const FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

const DRIVER_BYTES_MAX: usize = 63;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

/// Judges the volumes of a pod, and returns the names that its containers can mount.
pub(super) fn judge<'a>(volumes: &Place<'a>, findings: &mut Findings) -> HashSet<&'a str> {
    let mut names: HashSet<&str> = HashSet::new();
    for volume in volumes.items() {
        let before = findings.len();
        kind(&volume, findings);
        let name = volume.at("name");
        findings.needed(&name, is_dns_label);
        if names.contains(name.text()) {
            findings.duplicate(&name);
        }
        // What is not in order cannot be mounted.
        if findings.len() == before {
            names.insert(name.text());
        }
    }
    names
}

fn kind(volume: &Place<'_>, findings: &mut Findings) {
    let kinds = volume.value.as_object().into_iter().flatten();
    let mut kinds = kinds.filter(|(name, value)| *name != NOT_A_KIND && !value.is_null());
    let Some((first, _)) = kinds.next() else {
        findings.required(volume, "must specify a volume type");
        return;
    };
    for (other, _) in kinds {
        let detail = "may not specify more than 1 volume type";
        findings.forbidden(&volume.at(other), detail);
    }
    if let Some((_, rules)) = KINDS.iter().find(|(name, _)| name == first) {
        findings.judge(&volume.at(first), rules);
    }
}

fn size_limit(place: &Place<'_>, findings: &mut Findings) {
    if place.quantity().is_some_and(|it| it.to_float() < 0.0) {
        let detail = "SizeLimit field must be a valid resource quantity";
        findings.forbidden(place, detail);
    }
}

fn absolute_path(place: &Place<'_>, findings: &mut Findings) {
    if !place.text().starts_with('/') {
        let detail = "must be an absolute path";
        findings.push(FieldError::invalid(&place.path, place.text(), detail));
    }
}

fn key_to_path(item: &Place<'_>, findings: &mut Findings) {
    findings.judge(item, KEY_TO_PATH);
}

/// The name of a driver of the container storage interface.
pub(in super::super) fn driver(place: &Place<'_>, findings: &mut Findings) {
    let name = place.text();
    if name.is_empty() {
        findings.required(place, "");
        return;
    }
    if name.len() > DRIVER_BYTES_MAX {
        findings.push(FieldError::too_long(&place.path, DRIVER_BYTES_MAX));
    }
    for detail in api::validation::is_dns_subdomain(&name.to_lowercase()) {
        findings.invalid(place, detail);
    }
}

/// Files that show something of the pod. Kubernetes tells what is wrong with them of their list.
fn shown_files(volume: &Place<'_>, findings: &mut Findings) {
    for item in volume.at("items").items() {
        let told = Place {
            value: item.value,
            path: volume.path.clone(),
        };
        shown_file(&told, findings);
    }
}

/// A file that shows something of the pod.
fn shown_file(item: &Place<'_>, findings: &mut Findings) {
    findings.judge(
        item,
        &[("path", required), ("path", file_path), ("mode", file_mode)],
    );
    let (field, resource) = (item.at("fieldRef"), item.at("resourceFieldRef"));
    if field.is_set() {
        field_ref(&field, &FIELDS, findings);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            findings.push(FieldError::invalid(&item.path, "resource", detail));
        }
    } else if resource.is_set() {
        resource_ref(&resource, Some("containerName"), findings);
    } else {
        let detail = "one of fieldRef and resourceFieldRef is required";
        findings.required(item, detail);
    }
}

fn projected(volume: &Place<'_>, findings: &mut Findings) {
    let mut paths: HashSet<&Value> = HashSet::new();
    for source in volume.at("sources").items() {
        let mut count = 0;
        for name in ["secret", "configMap"] {
            let inner = source.at(name);
            if !inner.is_set() {
                continue;
            }
            count += 1;
            required(&inner.at("name"), findings);
            for item in inner.at("items").items() {
                key_to_path(&item, findings);
                taken(
                    volume,
                    &item.at("path"),
                    inner.at("name").value,
                    &mut paths,
                    findings,
                );
            }
        }
        let shown = source.at("downwardAPI");
        if shown.is_set() {
            count += 1;
            shown_files(&shown, findings);
            for item in shown.at("items").items() {
                let path = item.at("path");
                taken(volume, &path, path.value, &mut paths, findings);
            }
        }
        let token = source.at("serviceAccountToken");
        if token.is_set() {
            count += 1;
            token_file(volume, &token, findings);
        }
        count += ["clusterTrustBundle", "podCertificate"]
            .iter()
            .filter(|name| source.at(name).is_set())
            .count();
        if count > 1 {
            let detail = "may not specify more than 1 volume type per source";
            findings.forbidden(&source, detail);
        }
    }
}

/// Notes a path, and says of one that is there already that it is.
fn taken<'a>(
    volume: &Place<'_>,
    path: &Place<'a>,
    told: &Value,
    paths: &mut HashSet<&'a Value>,
    findings: &mut Findings,
) {
    if path.text().is_empty() {
        return;
    }
    if !paths.insert(path.value) {
        let told = Place {
            value: told,
            path: volume.path.clone(),
        };
        findings.invalid(&told, "conflicting duplicate paths");
    }
}

fn token_file(volume: &Place<'_>, token: &Place<'_>, findings: &mut Findings) {
    let seconds = token.at("expirationSeconds");
    match seconds.number() {
        Some(count) if count < TOKEN_SECONDS_MIN => {
            findings.invalid(&seconds, "may not specify a duration less than 10 minutes");
        }
        Some(count) if count > TOKEN_SECONDS_MAX => {
            findings.invalid(
                &seconds,
                "may not specify a duration larger than 2^32 seconds",
            );
        }
        _ => {}
    }
    // Kubernetes tells this of the volume.
    let path = Place {
        value: token.at("path").value,
        path: volume.path.child("path"),
    };
    required(&path, findings);
    file_path(&path, findings);
}
