//! Groups of the Kubernetes community, which need its approval.
//!
//! Source: `apiextensions-apiserver/pkg/apihelpers/helpers.go`.

use super::{ANNOTATION_API_APPROVED, CustomResourceDefinition, FieldError, FieldPath};

/// Whether the community approved a definition in one of its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// The group is not one of the community's.
    NotNeeded,
    /// The annotation names a pull request.
    Approved(String),
    /// The annotation says that there is no approval.
    Bypassed(String),
    /// There is no annotation.
    Missing(String),
    /// The annotation says neither.
    Invalid(String),
}

/// Whether the community approved a definition, with the message of the condition.
pub fn approval(definition: &CustomResourceDefinition) -> Approval {
    if !is_protected(&definition.spec.group) {
        return Approval::NotNeeded;
    }
    let annotation = definition.metadata.annotations.get(ANNOTATION_API_APPROVED);
    let annotation = annotation.map_or("", String::as_str);
    let name = ANNOTATION_API_APPROVED;
    let see = "https://github.com/kubernetes/enhancements/pull/1111";
    if annotation.is_empty() {
        let text = format!("protected groups must have approval annotation {name:?}, see {see}");
        return Approval::Missing(text);
    }
    if annotation.starts_with("unapproved") {
        return Approval::Bypassed(format!("not approved: {annotation:?}"));
    }
    if is_url(annotation) {
        return Approval::Approved(format!("approved in {annotation}"));
    }
    Approval::Invalid(format!(
        "protected groups must have approval annotation {name:?} with either a URL or a reason starting with \
         \"unapproved\", see {see}"
    ))
}

/// An approval that is as it was is not judged again.
pub(super) fn validate(
    definition: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
) -> Option<FieldError> {
    let state = approval(definition);
    let is_as_before = |old: &CustomResourceDefinition| {
        std::mem::discriminant(&approval(old)) == std::mem::discriminant(&state)
    };
    if old.is_some_and(is_as_before) {
        return None;
    }
    let path = FieldPath::new("metadata.annotations").key(ANNOTATION_API_APPROVED);
    match state {
        Approval::NotNeeded | Approval::Approved(_) | Approval::Bypassed(_) => None,
        Approval::Missing(reason) => Some(FieldError::required(&path, reason)),
        Approval::Invalid(reason) => {
            let value = definition.metadata.annotations.get(ANNOTATION_API_APPROVED);
            Some(FieldError::invalid(
                &path,
                value.map_or("", String::as_str),
                reason,
            ))
        }
    }
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// A URL with a scheme and a host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    !scheme.is_empty()
        && scheme
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it))
        && !host.is_empty()
        && !text.contains(|it: char| it.is_whitespace() || it.is_control())
}
