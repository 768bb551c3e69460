//! All that a served resource in one version needs: names, schema, rules, where its objects lie.

use std::fmt;
use std::sync::{Arc, OnceLock};

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
    /// The definition changes or is removed, and watches end.
    pub(crate) end: End,
    /// The definition is being deleted: nothing new may be created.
    pub(crate) phase: Phase,
    /// The admission of the spoke behind the cluster may have something against an object.
    pub(crate) is_judged: bool,
}

/// The end of a resource as it is served, which comes once and for one cause.
#[derive(Clone, Default)]
pub(crate) struct End {
    token: CancellationToken,
    /// Set before the token is cancelled.
    cause: Arc<OnceLock<EndCause>>,
}

/// Why a resource is not served any more as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndCause {
    /// It may be served otherwise from now on: clients list again.
    Changed,
    /// Its definition is gone, and its objects were deleted before: clients are told that, and nothing more.
    Removed,
}

/// Whether a resource takes new objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does.
    Served,
    /// Its definition is being deleted.
    Terminating,
    /// Only to controllers of this process, which take up what is in the spoke; everybody else still gets the spoke's.
    Importing,
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

    /// Whether everybody gets it from here.
    pub(crate) fn is_served(&self) -> bool {
        self.life.phase != Phase::Importing
    }

    /// Whether a write is tried in the spoke before it is committed.
    pub(crate) fn is_judged(&self) -> bool {
        self.life.is_judged
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
            end: End::default(),
            phase: Phase::Served,
            is_judged: false,
        }
    }
}

// === impl End ===

impl End {
    /// Ends it. Of several causes the first counts.
    pub(crate) fn come(&self, cause: EndCause) {
        let _first = self.cause.get_or_init(|| cause);
        self.token.cancel();
    }

    /// Whether both are one.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cause, &other.cause)
    }

    /// Waits for the end and returns its cause.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn reached(&self) -> EndCause {
        self.token.cancelled().await;
        self.cause.get().copied().unwrap_or(EndCause::Changed)
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life")
            .field("end", &self.end.cause.get())
            .field("phase", &self.phase)
            .field("is_judged", &self.is_judged)
            .finish()
    }
}
