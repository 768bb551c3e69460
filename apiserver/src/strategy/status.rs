//! What a write of the status changes, beside the status: of the metadata, nothing or some of it.
//!
//! Source: the status strategies of kubernetes/pkg/registry, `ResetObjectMetaForStatus` of apimachinery, and
//! apiextensions-apiserver/pkg/registry/customresource/status_strategy.go.

use std::sync::LazyLock;

use schema::fieldmanager::FieldSet;
use serde_json::Value;

use super::fields::{copy_metadata, put};

/// Which metadata is written with the status. That of the live object stays for the rest of it, and so do owners and finalizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusMetadata {
    /// What the client sends.
    Written,
    /// What the client sends, but for labels.
    LabelsKept,
    /// None: of custom resources, and of the newer kinds.
    Kept,
}

static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::from_field_names(&[&["spec"]]));
static SPEC_AND_LABELS: LazyLock<FieldSet> =
    LazyLock::new(|| FieldSet::from_field_names(&[&["metadata", "labels"], &["spec"]]));
static SPEC_AND_METADATA: LazyLock<FieldSet> =
    LazyLock::new(|| FieldSet::from_field_names(&[&["metadata"], &["spec"]]));

// === impl StatusMetadata ===

impl StatusMetadata {
    /// Keeps all of the live object but what the status endpoint may change. The owners of fields move with the status.
    pub(crate) fn prepare(self, object: &mut Value, live: &Value) {
        let sent = std::mem::replace(object, live.clone());
        match (self, sent.get("metadata")) {
            (Self::Written | Self::LabelsKept, Some(metadata)) => {
                put(object, "metadata", Some(metadata.clone()));
                copy_metadata(object, live, "ownerReferences");
                copy_metadata(object, live, "finalizers");
                if self == Self::LabelsKept {
                    copy_metadata(object, live, "labels");
                }
            }
            _ => copy_metadata(object, &sent, "managedFields"),
        }
        put(object, "status", sent.get("status").cloned());
    }

    /// The fields that the status endpoint never writes.
    pub(crate) fn reset(self) -> &'static FieldSet {
        match self {
            Self::Written => &SPEC,
            Self::LabelsKept => &SPEC_AND_LABELS,
            Self::Kept => &SPEC_AND_METADATA,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_the_metadata_a_status_brings_along_what_its_kind_says() {
        let live = json!({
            "metadata": {"name": "a", "labels": {"a": "1"}, "annotations": {"a": "1"}, "finalizers": ["f"]},
            "spec": 1,
        });
        let sent = json!({
            "metadata": {"name": "a", "labels": {"a": "2"}, "annotations": {"a": "2"}, "managedFields": [1]},
            "spec": 2, "status": 2,
        });
        let cases = [
            (StatusMetadata::Written, "2", "2"),
            (StatusMetadata::LabelsKept, "1", "2"),
            (StatusMetadata::Kept, "1", "1"),
        ];
        for (metadata, label, annotation) in cases {
            let mut object = sent.clone();
            metadata.prepare(&mut object, &live);
            let want = json!({
                "metadata": {
                    "name": "a", "labels": {"a": label}, "annotations": {"a": annotation},
                    "finalizers": ["f"], "managedFields": [1],
                },
                "spec": 1, "status": 2,
            });
            assert_eq!(object, want, "{metadata:?}");
        }
    }
}
