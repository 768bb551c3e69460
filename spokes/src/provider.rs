//! Where the access to spokes comes from.

mod embedded;
mod files;
mod kubeconfig;
mod profiles;

use std::sync::Arc;

use api::{
    LogicalCluster,
    wheelhouse::{self, Spoke},
};
use client::Dynamic;
use futures::future::BoxFuture;
use tasks::{Tasks, WorkQueue};

use crate::{
    access::Access, dialer::Dialer, fault::Fault, plugin::Issuer, sightings::Sightings,
    table::Table,
};

/// What a provider answers: the access to a spoke, or why there is none. The outer error is the hub's and says nothing
/// about the spoke, which is asked for again.
pub(crate) type Answer = Result<Result<Access, Fault>, client::Error>;

/// Finds the access to the spokes of one sort.
pub(crate) trait Provider: Send + Sync {
    /// Starts to follow what access depends on beside the Spoke itself. `concerned` is told which spokes are to be asked
    /// for again.
    fn start(&self, concerned: Concerned, tasks: &Tasks);

    /// Returns the access to a spoke as it is now. It is asked for each spoke in a task of its own, and again whenever
    /// the Spoke changes.
    fn access<'a>(&'a self, spoke: &'a LogicalCluster, object: &'a Spoke) -> BoxFuture<'a, Answer>;
}

/// Asks for spokes to be reconciled again.
#[derive(Debug, Clone)]
pub(crate) struct Concerned {
    table: Arc<Table>,
    queue: Arc<WorkQueue<LogicalCluster>>,
}

/// All providers.
pub(crate) struct Providers {
    kubeconfig: kubeconfig::KubeconfigSecrets,
    files: files::KubeconfigFiles,
    profiles: profiles::ClusterProfiles,
    embedded: embedded::EmbeddedClusters,
    issuer: Arc<Issuer>,
}

// === impl Concerned ===

impl Concerned {
    pub(crate) const fn new(table: Arc<Table>, queue: Arc<WorkQueue<LogicalCluster>>) -> Self {
        Self { table, queue }
    }

    /// Adds every spoke whose Spoke matches the predicate.
    pub(crate) fn add_where(&self, is_meant: impl Fn(&Spoke) -> bool) {
        for spoke in self.table.clusters_where(is_meant) {
            self.queue.add(spoke);
        }
    }

    /// Adds every spoke whose name matches the predicate.
    pub(crate) fn add_named(&self, is_meant: impl Fn(&LogicalCluster) -> bool) {
        for spoke in self.table.clusters() {
            if is_meant(&spoke) {
                self.queue.add(spoke);
            }
        }
    }
}

// === impl Providers ===

impl Providers {
    pub(crate) fn new(hub: &Dynamic, dialer: &Dialer, sightings: &Arc<Sightings>) -> Self {
        let kubeconfig = kubeconfig::KubeconfigSecrets::new(hub.clone(), dialer.clone(), sightings);
        let issuer = Arc::new(Issuer::new(&dialer.policy().plugin_variables));
        Self {
            kubeconfig,
            files: files::KubeconfigFiles::new(dialer, sightings, &issuer),
            profiles: profiles::ClusterProfiles::new(hub, dialer, sightings, &issuer),
            embedded: embedded::EmbeddedClusters,
            issuer,
        }
    }

    /// Returns the provider that a Spoke names.
    pub(crate) const fn of(&self, provider: wheelhouse::Provider) -> &dyn Provider {
        match provider {
            wheelhouse::Provider::Kubeconfig => &self.kubeconfig,
            wheelhouse::Provider::KubeconfigFile => &self.files,
            wheelhouse::Provider::ClusterProfile => &self.profiles,
            wheelhouse::Provider::Embedded => &self.embedded,
        }
    }

    /// Returns where plug-ins are run.
    pub(crate) const fn issuer(&self) -> &Arc<Issuer> {
        &self.issuer
    }

    pub(crate) fn start(&self, concerned: &Concerned, tasks: &Tasks) {
        let providers: [&dyn Provider; 4] = [
            &self.kubeconfig,
            &self.files,
            &self.profiles,
            &self.embedded,
        ];
        for provider in providers {
            provider.start(concerned.clone(), tasks);
        }
    }
}
