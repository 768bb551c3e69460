//! Namespace life cycle: nothing is made in a namespace that is not there or is being emptied.
//!
//! Source: apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go.

use std::fmt;
use std::sync::Arc;

use api::status::CAUSE_NAMESPACE_TERMINATING;
use api::{LogicalCluster, Status, StatusCause};
use futures::future::BoxFuture;
use storage::Store;

use crate::handle::call::{Call, Target};
use crate::objects::{ResourcePrefix, head};
use crate::registry::ClusterKind;
use crate::respond::Refusal;
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
    /// Says how a namespace of a spoke is. What a cache does not know must be asked for where the namespace is.
    ///
    /// # Errors
    /// 503 where that cannot be found out.
    fn phase<'a>(
        &'a self,
        cluster: &'a LogicalCluster,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<NamespacePhase, Refusal>>;
}

/// Sees the namespaces of root and of embedded clusters.
#[derive(Debug)]
pub(crate) struct StoredNamespaces {
    store: Arc<dyn Store>,
    prefix: ResourcePrefix,
}

/// Refuses a new object whose namespace is not fit for it.
pub(super) async fn admit_create(call: &Call<'_>, target: &Target) -> Result<(), Refusal> {
    let namespace = target.namespace.as_str();
    if namespace.is_empty() {
        return Ok(());
    }
    match phase(call, &target.cluster, namespace).await? {
        NamespacePhase::Active => Ok(()),
        NamespacePhase::Absent => Err(Status::not_found(&namespaces::resource(), namespace).into()),
        NamespacePhase::Terminating => {
            let detail = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let cause = StatusCause {
                reason: CAUSE_NAMESPACE_TERMINATING.to_owned(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            };
            let status = Status::forbidden(call.resource(), &target.name, &detail);
            Err(status.with_cause(cause).into())
        }
    }
}

async fn phase(
    call: &Call<'_>,
    cluster: &LogicalCluster,
    namespace: &str,
) -> Result<NamespacePhase, Refusal> {
    match call.shared.registry.cluster_kind(cluster) {
        Some(ClusterKind::Composite) => {
            let Some(view) = call.shared.spoke_namespaces.get() else {
                let text = format!("the namespaces of spoke {cluster} are not known yet");
                return Err(Status::service_unavailable(text).into());
            };
            view.phase(cluster, namespace).await
        }
        Some(ClusterKind::Root | ClusterKind::Embedded) | None => {
            Ok(call.shared.namespaces.phase(cluster, namespace))
        }
    }
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
}
