//! Volumes, their claims, and the kinds of `storage.k8s.io`.
//!
//! Source: kubernetes/pkg/registry/storage/*/strategy.go, kubernetes/pkg/apis/storage/validation.

use api::FieldError;
use serde_json::Value;

use super::built_in::BUILT_IN;
use super::rules::PutWithoutVersion;
use super::workloads::validate_fixed;
use super::{Deletion, Strategy};

/// Volumes and claims.
pub(super) const VOLUMES: Strategy = Strategy {
    deletion: Deletion::ANSWERED_WITH_OBJECT,
    ..BUILT_IN
};

const STORAGE_CLASSES: Strategy = Strategy {
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

fn validate_class(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let fixed: &[&[&str]] = &[
        &["parameters"],
        &["provisioner"],
        &["reclaimPolicy"],
        &["volumeBindingMode"],
    ];
    validate_fixed(object, live, fixed)
}
