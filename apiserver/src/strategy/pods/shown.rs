//! What of a pod and its containers can be shown to them: the downward API, in variables and in files.
//!
//! Source: kubernetes/pkg/apis/core/validation/validation.go (`validateObjectFieldSelector`,
//! `validateContainerResourceFieldSelector`).

use api::FieldError;
use api::validation::is_qualified_name;

use super::super::checks::{Findings, Place};

/// What of a pod a variable can show.
pub(super) const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// What of a container's resources can be shown.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const BYTES_DIVISORS: [&str; 13] = [
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// A field of the pod, by its path.
pub(super) fn field_ref(place: &Place<'_>, known: &[&str], findings: &mut Findings) {
    if !place.is_set() {
        return;
    }
    for name in ["apiVersion", "fieldPath"] {
        if place.at(name).text().is_empty() {
            findings.required(&place.at(name), "");
            return;
        }
    }
    let field = place.at("fieldPath");
    let path = field.text();
    let (version, is_v1) = (
        place.at("apiVersion").text(),
        place.at("apiVersion").text() == "v1",
    );
    if !is_v1 {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        findings.invalid(&field, detail);
        return;
    }
    let subscript = path
        .strip_suffix("']")
        .and_then(|rest| rest.split_once("['"));
    match subscript {
        Some((map @ ("metadata.annotations" | "metadata.labels"), key)) => {
            let key = if map == "metadata.annotations" {
                key.to_lowercase()
            } else {
                key.to_owned()
            };
            for detail in is_qualified_name(&key) {
                findings.push(FieldError::invalid(&place.path, key.as_str(), detail));
            }
        }
        Some((path, _)) if is_of_a_pod(path) => {
            let detail = "does not support subscript";
            findings.push(FieldError::invalid(&place.path, path, detail));
        }
        _ if known.contains(&path) => {}
        _ if is_of_a_pod(path) => findings.not_supported(&field, known),
        _ => {
            let detail = format!("error converting fieldPath: field label not supported: {path}");
            findings.invalid(&field, detail);
        }
    }
}

/// Whether Kubernetes knows the path at all.
fn is_of_a_pod(path: &str) -> bool {
    FIELDS.contains(&path)
        || matches!(
            path,
            "metadata.annotations"
                | "metadata.labels"
                | "spec.restartPolicy"
                | "spec.schedulerName"
                | "status.phase"
        )
}

/// A resource of a container, which has to be named in a volume.
pub(super) fn resource_ref(
    place: &Place<'_>,
    container: Option<&'static str>,
    findings: &mut Findings,
) {
    if !place.is_set() {
        return;
    }
    let (resource, divisor) = (place.at("resource"), place.at("divisor"));
    let name = resource.text();
    if let Some(field) = container
        && place.at(field).text().is_empty()
    {
        findings.required(&place.at(field), "");
    } else if name.is_empty() {
        findings.required(&resource, "");
    } else if !RESOURCES.contains(&name)
        && !["limits.hugepages-", "requests.hugepages-"]
            .iter()
            .any(|it| name.starts_with(it))
    {
        findings.not_supported(&resource, &RESOURCES);
    }
    let asked = divisor.text();
    if asked.is_empty() || divisor.quantity().is_some_and(|it| it.to_float() == 0.0) {
        return;
    }
    let what = match name.split_once('.').map(|(_, what)| what) {
        Some("cpu") if !["1m", "1"].contains(&asked) => {
            "only divisor's values 1m and 1 are supported with the cpu resource".to_owned()
        }
        Some(what @ ("memory" | "ephemeral-storage")) if !BYTES_DIVISORS.contains(&asked) => {
            let what = if what == "memory" {
                what
            } else {
                "local ephemeral storage"
            };
            let known = BYTES_DIVISORS.join(", ");
            format!("only divisor's values {known} are supported with the {what} resource")
        }
        _ => return,
    };
    findings.push(FieldError::invalid(&divisor.path, name, what));
}
