//! All that a served resource in one version needs: names, schema, rules, where its objects lie.

use std::fmt;
use std::sync::Arc;

use api::crd::ConversionWebhook;
use api::{GroupResource, GroupVersionKind};
use tokio_util::sync::CancellationToken;

use crate::objects::ResourcePrefix;
use crate::served::ServedKind;
use crate::strategy::typing::Typing;
use crate::strategy::version::VersionRules;
use crate::strategy::{StoredAs, Strategy};

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

/// What belongs to all versions of a resource.
#[derive(Debug)]
pub(crate) struct ResourceRules {
    /// Group and plural name.
    pub(crate) resource: GroupResource,
    /// Where the objects lie. Not always the resource's own name: events of both groups lie in one place.
    pub(crate) prefix: ResourcePrefix,
    /// What the server does with the objects beyond what every object goes through.
    pub(crate) strategy: &'static Strategy,
    /// The version in which objects are stored.
    pub(crate) storage: Arc<VersionRules>,
    /// The versions that are served.
    pub(crate) versions: Vec<Arc<VersionRules>>,
    /// How other versions are made of it.
    pub(crate) conversion: Conversion,
}

/// How an object gets from one version to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Only `apiVersion` differs.
    None,
    /// Fields have other names in the kind that is stored.
    Renaming(&'static StoredAs),
    /// A webhook is asked.
    Webhook(Arc<ConversionWebhook>),
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

    /// The rules of the kind.
    pub(crate) fn strategy(&self) -> &'static Strategy {
        self.rules.strategy
    }

    /// How the objects are typed.
    pub(crate) fn typing(&self) -> &'static dyn Typing {
        self.rules.strategy.typing
    }

    /// Whether stored bytes can be served as they are: written under the schema of this version, in this version.
    pub(crate) fn serves_as_stored(&self, tag: u64, bytes: &[u8]) -> bool {
        tag == self.version.hash && bytes.starts_with(&self.version.lead)
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
