//! What belongs to one version of a resource, as its strategy and its handlers see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use api::GroupVersionKind;
use schema::Schema;
use schema::columns::Columns;
use schema::structural::ValueType;

/// What belongs to one version of a resource.
#[derive(Debug)]
pub(crate) struct VersionRules {
    /// Identifies a version within this process, for what is encoded once and shared.
    pub(crate) number: u32,
    /// The type of the objects.
    pub(crate) gvk: GroupVersionKind,
    /// Group and version, as objects say it.
    pub(crate) api_version: String,
    /// How canonical bytes of this version begin: `{"apiVersion":"..","kind":"..",`.
    pub(crate) lead: Box<[u8]>,
    /// The schema; what is not declared in one that is absent is kept as it is.
    pub(crate) schema: Arc<Schema>,
    /// Identifies the schema; the tag of objects that were stored in this version.
    pub(crate) hash: u64,
    /// What a table of it shows.
    pub(crate) columns: Arc<Columns>,
    /// Fields that selectors may name, beside those of metadata: label and JSON path.
    pub(crate) selectable: Vec<SelectableField>,
    /// Whether status is a subresource.
    pub(crate) status: StatusMode,
    /// The paths of the scale subresource.
    pub(crate) scale: Option<ScalePaths>,
    /// A warning for everyone who uses the version.
    pub(crate) deprecation: Option<String>,
}

/// Whether status is written apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusMode {
    /// Only by the subresource.
    Subresource,
    /// Together with the rest.
    Inline,
}

/// A field that a field selector may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectableField {
    /// What selectors call it.
    pub(crate) label: String,
    /// The fields on the way to it.
    pub(crate) path: Vec<String>,
    /// What it is compared as where it is absent.
    pub(crate) unset: &'static str,
}

/// Where scale finds its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    /// Desired replicas, below `.spec.`.
    pub(crate) spec_replicas: String,
    /// Observed replicas, below `.status.`.
    pub(crate) status_replicas: String,
    /// A text label selector.
    pub(crate) label_selector: Option<String>,
}

// === impl VersionRules ===

impl VersionRules {
    /// A number that no other version has.
    pub(crate) fn next_number() -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// How canonical bytes of a type begin.
    pub(crate) fn lead_of(api_version: &str, kind: &str) -> Box<[u8]> {
        format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}","#)
            .into_bytes()
            .into()
    }
}

// === impl SelectableField ===

impl SelectableField {
    /// A field by the path to it, `spec.nodeName` for instance.
    pub(crate) fn new(label: &str, path: &str) -> Self {
        Self {
            label: label.to_owned(),
            path: path.split('.').map(str::to_owned).collect(),
            unset: "",
        }
    }

    /// A field of a built-in kind, which Go prints with the zero of its type where it is absent.
    ///
    /// Source: kubernetes/pkg/registry/core/node/strategy.go (`NodeToSelectableFields`), `apps/replicaset/strategy.go`.
    pub(crate) fn of_go(label: &str, path: &str, schema: &Schema) -> Self {
        let mut field = Self::new(label, path);
        let mut names = field.path.iter();
        let found = names.try_fold(schema, |at, name| at.field(name).map(|it| &**it));
        field.unset = match found.and_then(|found| found.value_type) {
            Some(ValueType::Boolean) => "false",
            Some(ValueType::Integer) => "0",
            _ => "",
        };
        field
    }
}
