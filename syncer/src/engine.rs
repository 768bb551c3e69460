//! What all controllers of the syncer share: the state ([`crate::state`]), the queues, and the hub.
//!
//! It calls no controller: a controller takes what it needs out of it and puts work into a queue.

use std::{fmt, sync::Arc, time::Duration};

use api::{ClusterScope, GroupVersionResource, LogicalCluster};
use client::{Dynamic, Endpoint, reflector};
use spokes::{Identities, Spokes};
use tasks::{Tasks, WorkQueue};
use tokio::sync::Semaphore;

use crate::{
    metrics::WorkMetrics,
    state::{
        brake::Brake, definitions::Definitions, fleet::Fleet, instances::InstanceCache,
        keys::InstanceKey, restored::Restored, served::DefinitionKey, shares::Shares,
        switches::Switchboard, target::Target, turns::Turns,
    },
};

/// How long counts of instances may change before a Spoke's status is written once.
const CENSUS_DELAY: Duration = Duration::from_secs(1);

/// The shared parts, one for each hub.
pub(crate) struct Engine {
    /// The hub, as its own system user. Each write is sent in the term of the logical cluster that it is for.
    pub(crate) hub: Dynamic,
    /// The same for what is written elsewhere than at the path of the logical cluster that it is for.
    pub(crate) hub_anywhere: Dynamic,
    /// Which logical clusters this process looks after.
    pub(crate) shares: Arc<Shares>,
    /// Root, for reading: as a target it is connected where this process looks after it.
    pub(crate) root: Arc<Target>,
    /// Names this hub to other writers of the same spoke.
    pub(crate) hub_id: String,
    /// kro's switches, in each logical cluster.
    pub(crate) switches: Switchboard,
    /// Definitions that are served.
    pub(crate) definitions: Definitions,
    /// Instances of all logical clusters.
    pub(crate) instances: InstanceCache,
    /// Targets by logical cluster.
    pub(crate) fleet: Fleet,
    /// Who reconciles which instance.
    pub(crate) turns: Arc<Turns<(LogicalCluster, InstanceKey)>>,
    /// Who writes the status of which mirror.
    pub(crate) mirror_turns: Arc<Turns<(LogicalCluster, InstanceKey)>>,
    /// Definitions to be reconciled.
    pub(crate) definition_queue: Arc<WorkQueue<DefinitionKey>>,
    /// Spokes to be reconciled.
    pub(crate) spoke_queue: Arc<WorkQueue<LogicalCluster>>,
    /// Targets whose CRDs are to be looked after.
    pub(crate) distribution_queue: Arc<WorkQueue<LogicalCluster>>,
    /// The connections to all spokes.
    pub(crate) spokes: Spokes,
    /// Which cluster is behind each Spoke.
    pub(crate) identities: Identities,
    /// What may be deleted after a restore.
    pub(crate) restored: Restored,
    /// When deletions wait to be confirmed.
    pub(crate) brake: Brake,
    /// Turns of targets to plan what takes long.
    pub(crate) planning: Semaphore,
    /// What is counted of the work.
    pub(crate) metrics: WorkMetrics,
    /// All tasks of the syncer.
    pub(crate) tasks: Tasks,
}

/// Plans that take long and are made at the same time: half of a small machine.
pub(crate) const LONG_PLANS_MAX: usize = 1;

// === impl Engine ===

impl Engine {
    /// Returns the time as the wire writes it.
    pub(crate) fn now() -> String {
        api::meta::time_now_text(jiff::Timestamp::now())
    }

    /// Names an endpoint of a logical cluster on the hub.
    pub(crate) fn hub_endpoint(
        cluster: &LogicalCluster,
        gvr: &GroupVersionResource,
        namespace: &str,
    ) -> Endpoint {
        Endpoint {
            scope: Some(ClusterScope::One(cluster.clone())),
            gvr: gvr.clone(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        }
    }

    /// Names what a reflector reads: a collection in all logical clusters of the hub.
    pub(crate) fn everywhere(&self, gvr: &GroupVersionResource) -> reflector::Config {
        reflector::Config {
            client: self.hub.client().clone(),
            endpoint: Endpoint {
                scope: Some(ClusterScope::All),
                gvr: gvr.clone(),
                namespace: None,
            },
            label_selector: None,
            field_selector: None,
            name: format!("hub/{}", gvr.resource),
        }
    }

    /// Asks for the counts in a Spoke's status to be brought up to date soon.
    pub(crate) fn note_census(&self, cluster: &LogicalCluster) {
        if !cluster.is_root() {
            self.spoke_queue.add_after(cluster.clone(), CENSUS_DELAY);
        }
    }

    /// Asks for every instance of a target to be reconciled, and every mirror to be looked at, because what may be deleted
    /// there has changed.
    pub(crate) fn reconsider(&self, cluster: &LogicalCluster) {
        self.requeue_cluster(cluster);
        if let Some(target) = self.fleet.get(cluster) {
            for (key, _) in target.mirrors.all() {
                target.queue.add(key);
            }
        }
        self.note_census(cluster);
    }

    /// Asks for every instance of a target to be reconciled.
    pub(crate) fn requeue_cluster(&self, cluster: &LogicalCluster) {
        if let Some(target) = self.fleet.get(cluster) {
            for (key, _) in self.instances.of_cluster(cluster) {
                target.queue.add(key);
            }
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("hub_id", &self.hub_id)
            .finish_non_exhaustive()
    }
}
