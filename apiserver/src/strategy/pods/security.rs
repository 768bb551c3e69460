//! Users, groups, kernel parameters and profiles of a pod.
//!
//! Source: kubernetes/pkg/apis/core/validation/validation.go (`validatePodSpecSecurityContext`).

use api::FieldError;

use super::super::checks::{Findings, Place, Rules, descending_path, id};

const SECURITY: &Rules = &[
    ("fsGroup", id),
    ("runAsUser", id),
    ("runAsGroup", id),
    ("supplementalGroups[]", id),
    ("sysctls", sysctls),
    ("seccompProfile", seccomp),
];

const SYSCTL_BYTES_MAX: usize = 253;
const SYSCTL: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// What the security context of a pod must be.
pub(super) fn judge(context: &Place<'_>, findings: &mut Findings) {
    findings.judge(context, SECURITY);
}

fn sysctls(sysctls: &Place<'_>, findings: &mut Findings) {
    let names: Vec<Place<'_>> = sysctls.items().map(|it| it.at("name")).collect();
    for name in &names {
        if name.text().is_empty() {
            findings.required(name, "");
        } else if !is_sysctl(name.text()) {
            findings.invalid(name, SYSCTL);
        }
    }
    findings.unique(names);
}

fn is_sysctl(name: &str) -> bool {
    name.len() <= SYSCTL_BYTES_MAX && name.split(['.', '/']).all(is_segment)
}

/// Whether a text is of lower case letters, digits, `-` and `_`, which are not at its ends.
pub(super) fn is_segment(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes
            .iter()
            .all(|byte| edge(byte) || matches!(byte, b'-' | b'_'))
}

/// A profile of seccomp, of a pod or a container.
pub(super) fn seccomp(profile: &Place<'_>, findings: &mut Findings) {
    if !profile.is_set() {
        return;
    }
    let (kind, file) = (profile.at("type"), profile.at("localhostProfile"));
    if kind.text().is_empty() {
        findings.required(&kind, "type is required when seccompProfile is set");
    }
    if kind.text() != "Localhost" {
        if file.is_set() {
            let detail = "can only be set when seccomp type is Localhost";
            findings.push(FieldError::invalid(
                &file.path,
                profile.value.clone(),
                detail,
            ));
        }
    } else if file.is_set() {
        descending_path(&file, findings);
    } else {
        findings.required(&file, "must be set when seccomp type is Localhost");
    }
}
