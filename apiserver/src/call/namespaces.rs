//! Looks up the phase of a namespace, in the store or in a spoke.

use std::fmt;
use std::sync::Arc;

use api::LogicalCluster;
use futures::future::BoxFuture;
use serde_json::Value;
use storage::Store;

use crate::objects::{ResourcePrefix, head};
use crate::refusal::Refusal;
use crate::strategy::namespaces;

/// How a namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespacePhase {
    /// There.
    Active,
    /// On its way out.
    Terminating,
    /// Not there.
    Absent,
}

/// Sees namespaces that are not in the hub's store.
pub trait NamespaceView: fmt::Debug + Send + Sync {
    /// Returns the state of a namespace of a spoke. What a cache does not know must be asked for where the namespace is.
    ///
    /// # Errors
    /// 503 where that cannot be found out.
    fn phase<'a>(
        &'a self,
        cluster: &'a LogicalCluster,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<NamespacePhase, Refusal>>;

    /// Reads a namespace of a spoke; `None` where it is not there.
    ///
    /// # Errors
    /// 503 where that cannot be found out.
    fn object<'a>(
        &'a self,
        cluster: &'a LogicalCluster,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, Refusal>>;
}

/// Sees the namespaces of root and of embedded clusters.
#[derive(Debug)]
pub(crate) struct StoredNamespaces {
    store: Arc<dyn Store>,
    prefix: ResourcePrefix,
}

// === impl StoredNamespaces ===

impl StoredNamespaces {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            prefix: ResourcePrefix::new(&namespaces::resource()),
        }
    }

    pub(crate) fn phase(&self, cluster: &LogicalCluster, namespace: &str) -> NamespacePhase {
        let key = self.prefix.key(cluster, "", namespace);
        match self.store.get(&key) {
            None => NamespacePhase::Absent,
            Some(entry) if head(entry.value()).is_some_and(|head| head.deleting) => {
                NamespacePhase::Terminating
            }
            Some(_) => NamespacePhase::Active,
        }
    }

    /// Reads a namespace.
    pub(crate) fn object(&self, cluster: &LogicalCluster, namespace: &str) -> Option<Value> {
        let entry = self.store.get(&self.prefix.key(cluster, "", namespace))?;
        serde_json::from_slice(entry.value()).ok()
    }
}
