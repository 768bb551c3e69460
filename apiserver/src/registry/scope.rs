//! All that a served resource in one version needs: names, schema, rules, where its objects lie.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use api::{GroupResource, GroupVersionKind};
use schema::Schema;
use schema::columns::Columns;
use tokio_util::sync::CancellationToken;

use super::strategy::{Origin, Strategy};
use crate::objects::ResourcePrefix;
use crate::served::ServedKind;

/// A resource in one version, as one logical cluster serves it.
///
/// Everything but [`Life`] is shared by all clusters in which the definition has the same content.
#[derive(Debug, Clone)]
pub struct ResourceScope {
    /// Names and verbs, as discovery shows them.
    pub kind: Arc<ServedKind>,
    /// The rules of this version.
    pub(crate) version: Arc<VersionRules>,
    /// The rules that all versions share.
    pub(crate) rules: Arc<ResourceRules>,
    /// How long the resource is served like this.
    pub(crate) life: Life,
}

/// What belongs to one version of a resource.
#[derive(Debug)]
pub(crate) struct VersionRules {
    /// Tells versions of this process apart, for what is encoded once and shared.
    pub(crate) number: u32,
    /// Group and version, as objects say it.
    pub(crate) api_version: String,
    /// How canonical bytes of this version begin: `{"apiVersion":"..","kind":"..",`.
    pub(crate) lead: Box<[u8]>,
    /// The schema; what is not declared in one that is absent is kept as it is.
    pub(crate) schema: Arc<Schema>,
    /// Tells schemas apart; the tag of objects that were stored in this version.
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

/// What belongs to all versions of a resource.
#[derive(Debug)]
pub(crate) struct ResourceRules {
    /// Group and plural name.
    pub(crate) resource: GroupResource,
    /// Where the objects lie. Not always the resource's own name: events of both groups lie in one place.
    pub(crate) prefix: ResourcePrefix,
    /// Behaviour that is not schema.
    pub(crate) strategy: Strategy,
    /// The version in which objects are stored.
    pub(crate) storage: Arc<VersionRules>,
    /// The versions that are served.
    pub(crate) versions: Vec<Arc<VersionRules>>,
    /// How other versions are made of it.
    pub(crate) conversion: Conversion,
    /// Whose author the server stamps into objects.
    pub(crate) author: AuthorStamp,
}

/// How an object gets from one version to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Only `apiVersion` differs.
    None,
    /// `v1` and `events.k8s.io/v1` events name their fields differently.
    Events,
    /// A webhook would have to be asked, which this server does not do yet: versions other than the stored one answer 500.
    Webhook,
}

/// Whether objects carry `internal.wheelhouse.dev/author`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthorStamp {
    /// They do: what is made of them is made in their author's name.
    Stamped,
    /// They do not.
    Absent,
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

/// How long a resource is served as it is now.
#[derive(Clone)]
pub(crate) struct Life {
    /// Cancelled when the definition changes or goes: watches end then and clients list anew.
    pub(crate) ended: CancellationToken,
    /// The definition is being deleted: nothing new may be created.
    pub(crate) phase: Phase,
}

/// Whether a resource takes new objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does.
    Served,
    /// Its definition is being deleted.
    Terminating,
}

// === impl ResourceScope ===

impl ResourceScope {
    /// The type of the objects.
    pub(crate) fn gvk(&self) -> &GroupVersionKind {
        &self.kind.gvk
    }

    /// Group and resource, for messages.
    pub(crate) fn resource(&self) -> &GroupResource {
        &self.rules.resource
    }

    /// Whether this is a custom resource.
    pub(crate) fn is_custom(&self) -> bool {
        self.rules.strategy.origin == Origin::Custom
    }

    /// Whether this is the resource of a group.
    pub(crate) fn is(&self, group: &str, resource: &str) -> bool {
        self.rules.resource.group == group && self.rules.resource.resource == resource
    }

    /// Whether stored bytes can be served as they are: written under the schema of this version, in this version.
    pub(crate) fn serves_as_stored(&self, tag: u64, bytes: &[u8]) -> bool {
        tag == self.version.hash && bytes.starts_with(&self.version.lead)
    }
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

// === impl Life ===

impl Life {
    /// The life of a resource that is served for good.
    pub(crate) fn endless() -> Self {
        Self {
            ended: CancellationToken::new(),
            phase: Phase::Served,
        }
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life")
            .field("ended", &self.ended.is_cancelled())
            .field("phase", &self.phase)
            .finish()
    }
}
