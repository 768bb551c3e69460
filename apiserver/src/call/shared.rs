//! The state that all calls share.

use std::sync::Arc;

use storage::Store;

use super::namespaces::{NamespaceView, StoredNamespaces};
use super::spoke_writes::SpokeWrites;
use crate::authorize::Authorizer;
use crate::guards::Guards;
use crate::registry::Registry;
use crate::webhooks::Webhooks;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) guards: Guards,
    pub(crate) webhooks: Webhooks,
    pub(crate) namespaces: StoredNamespaces,
    /// The namespaces of spokes; `None` in a process without spokes.
    pub(crate) spoke_namespaces: Option<Arc<dyn NamespaceView>>,
    /// Writes instances where they were made; `None` in a process without spokes.
    pub(crate) spoke_writes: Option<Arc<dyn SpokeWrites>>,
}
