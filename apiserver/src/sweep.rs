//! What is kept in order without anyone asking: namespaces that go, objects whose owners are gone, events that are old, and the rules that
//! aggregating roles show.
//!
//! Namespaces, events and roles only in root and in embedded clusters: those of a spoke are its own. Garbage is collected in
//! what the hub stores for any cluster.
//!
//! Invariant: nothing is deleted because something could not be read.

mod events;
mod garbage;
mod namespaces;
mod roles;

use std::sync::Arc;
use std::time::Duration;

use api::LogicalCluster;
use tasks::Tasks;

use crate::call::Shared;
use crate::registry::ClusterKind;

/// How long one write of a controller may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the controllers.
pub(crate) fn start(shared: &Arc<Shared>, tasks: &Tasks) {
    namespaces::start(shared, tasks);
    garbage::start(shared, tasks);
    events::start(shared, tasks);
    roles::start(shared, tasks);
}

/// Whether a cluster is swept here.
fn is_ours(shared: &Shared, cluster: &LogicalCluster) -> bool {
    matches!(
        shared.registry.cluster_kind(cluster),
        Some(ClusterKind::Root | ClusterKind::Embedded)
    )
}
