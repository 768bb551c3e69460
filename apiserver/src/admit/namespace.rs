//! Namespace life cycle: nothing is made in a namespace that is not there or is being emptied.
//!
//! Source: apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go.

use api::status::CAUSE_NAMESPACE_TERMINATING;
use api::{LogicalCluster, Status, StatusCause};

use crate::call::{Call, NamespacePhase, Target};
use crate::refusal::Refusal;
use crate::registry::ClusterKind;
use crate::strategy::namespaces;

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
            let Some(view) = &call.shared.spoke_namespaces else {
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
