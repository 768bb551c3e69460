//! What each logical cluster serves from the hub's store.
//!
//! A cluster's kinds are those of its layer, shared by all clusters of the same [`ClusterKind`], and those that
//! definitions add: CustomResourceDefinitions in root and embedded clusters, ServedResource records in composite ones.
//! Definitions are compiled once per content and shared by all clusters.
//!
//! # Invariants
//! - A lookup takes no lock: views are immutable and swapped as a whole.
//! - A view changes only in [`follow`], which reads the store's own watch, so every change is seen once and in order.
//! - When a resource is replaced or removed, its [`Life`](scope::Life) ends after the new view is in place: a watch
//!   that ends because of it finds the new one.
//! - No cluster costs anything for a kind that it does not have of its own.

pub(crate) mod builtin;
mod changes;
mod clusters;
mod compile;
mod follow;
mod names;
pub(crate) mod scope;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cluster::ROOT;
use api::{ClusterScope, GroupVersionResource, LogicalCluster};
use parking_lot::Mutex;
use storage::{Revision, Store};
use tokio::sync::{broadcast, watch};

pub(crate) use builtin::built_in_names;
pub(crate) use follow::DefinitionChanged;
pub use scope::ResourceScope;
pub use view::ClusterKind;

use crate::request::RequestInfo;
use crate::served::{ServedKind, ServedKinds};
use crate::strategy::rules::AuthorStamp;
use changes::Changes;
use clusters::Clusters;
use view::ClusterView;

/// Knows what is served where.
#[derive(Debug)]
pub struct Registry {
    clusters: Clusters,
    pool: compile::Pool,
    /// Which kind each spoke's cluster has, for those who start something per cluster.
    kinds: watch::Sender<Arc<BTreeMap<LogicalCluster, ClusterKind>>>,
    /// Every change of the store up to here is in the views.
    seen: watch::Sender<Revision>,
    /// What the views are made of. Outermost lock: views are swapped, and the pool is locked, while it is held.
    known: Mutex<follow::Known>,
    /// Tells the controller of definitions what to look at, and watches over all clusters.
    changes: Changes,
}

/// Why a registry cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be read.
    #[error("cannot read the definitions in the store")]
    Store(#[from] storage::Error),
}

// === impl Registry ===

impl Registry {
    /// Makes a registry of what is in the store now.
    pub fn open(store: &Arc<dyn Store>) -> Result<Arc<Self>, OpenError> {
        let registry = Self {
            clusters: Clusters::default(),
            pool: compile::Pool::default(),
            kinds: watch::Sender::new(Arc::default()),
            seen: watch::Sender::new(Revision::default()),
            known: Mutex::default(),
            changes: Changes::default(),
        };
        follow::load(&registry, store.as_ref())?;
        Ok(Arc::new(registry))
    }

    /// Follows the store until shutdown.
    pub(crate) fn start(self: &Arc<Self>, store: Arc<dyn Store>, tasks: &tasks::Tasks) {
        follow::start(Arc::clone(self), store, tasks);
    }

    /// Returns what a logical cluster is; `None` if there is none of that name.
    pub fn cluster_kind(&self, cluster: &LogicalCluster) -> Option<ClusterKind> {
        self.clusters.view(cluster).map(|view| view.kind())
    }

    /// Follows which spokes there are.
    pub fn clusters(&self) -> watch::Receiver<Arc<BTreeMap<LogicalCluster, ClusterKind>>> {
        self.kinds.subscribe()
    }

    /// Finds what the hub's store serves under a name in one cluster. There is no such question about all clusters: each
    /// has its own definition.
    pub fn lookup(
        &self,
        cluster: &LogicalCluster,
        group: &str,
        version: &str,
        resource: &str,
    ) -> Option<Arc<ResourceScope>> {
        let name = view::ResourceName {
            group,
            version,
            resource,
        };
        self.clusters.view(cluster)?.lookup(&name)
    }

    /// [`Registry::cluster_kind`] and [`Registry::lookup`] at one moment.
    pub(crate) fn find(
        &self,
        cluster: &LogicalCluster,
        info: &RequestInfo,
    ) -> Option<(ClusterKind, Option<Arc<ResourceScope>>)> {
        let view = self.clusters.view(cluster)?;
        let scope = info.is_resource.then(|| {
            view.lookup(&view::ResourceName {
                group: &info.group,
                version: &info.version,
                resource: &info.resource,
            })
        });
        Some((view.kind(), scope.flatten()))
    }

    /// [`Registry::lookup`] by the name that a storage key has for the cluster.
    pub(crate) fn lookup_by_name(
        &self,
        cluster: &str,
        gvr: &GroupVersionResource,
    ) -> Option<Arc<ResourceScope>> {
        self.clusters.lookup(cluster, gvr)
    }

    /// The clusters that serve a resource in a version: root first, the others by name.
    pub(crate) fn serving(&self, gvr: &GroupVersionResource) -> Vec<LogicalCluster> {
        self.clusters.serving(gvr)
    }

    /// The clusters of spokes that keep a resource themselves, by name: the hub stores it for them in no version, and it is neither
    /// of the hub's own groups nor of a kind that root's graphs generate. Such a kind is the hub's wherever it is.
    pub(crate) fn relaying(&self, gvr: &GroupVersionResource) -> Vec<LogicalCluster> {
        let in_root = self.clusters.lookup(ROOT, gvr);
        let is_generated =
            |scope: Arc<ResourceScope>| scope.strategy().author == AuthorStamp::Stamped;
        if api::reserved::is_own_group(&gvr.group) || in_root.is_some_and(is_generated) {
            return Vec::new();
        }
        self.clusters.relaying(gvr)
    }

    /// The rules by which an embedded cluster serves a resource of Kubernetes' own.
    pub(crate) fn built_in(gvr: &GroupVersionResource) -> Option<Arc<ResourceScope>> {
        ClusterView::new(ClusterKind::Embedded, builtin::layer(ClusterKind::Embedded))
            .lookup_gvr(gvr)
    }

    /// Lists what the hub's store serves; `None` if there is no such cluster.
    pub fn served(&self, scope: &ClusterScope) -> Option<Arc<ServedKinds>> {
        match scope {
            ClusterScope::One(cluster) => Some(self.clusters.view(cluster)?.served()),
            ClusterScope::All => Some(self.clusters.served_anywhere()),
        }
    }

    /// Lists what a list over all clusters may be of: what the hub's store serves in any of them, and, where there are spokes, what those
    /// have, for which Kubernetes' own kinds stand in.
    pub(crate) fn listed_anywhere(&self) -> Arc<ServedKinds> {
        let everywhere = self.clusters.served_anywhere();
        let kinds = self.kinds.borrow();
        if kinds.values().all(|kind| *kind != ClusterKind::Composite) {
            return everywhere;
        }
        let layer = builtin::layer(ClusterKind::Embedded);
        let own = ClusterView::new(ClusterKind::Embedded, layer).served();
        clusters::together(&[everywhere, own])
    }

    /// Lists what stands in for a cluster's own kinds while nothing is known of them: Kubernetes' own, and root's, which every authenticated user may
    /// know. It only lets clients name what they ask for; it is no promise that the cluster has it.
    pub(crate) fn stand_in(&self) -> Arc<ServedKinds> {
        let built_in =
            ClusterView::new(ClusterKind::Embedded, builtin::layer(ClusterKind::Embedded));
        let root = self.clusters.view(&LogicalCluster::root());
        let mut kinds: BTreeMap<GroupVersionResource, Arc<ServedKind>> = BTreeMap::new();
        for view in root
            .iter()
            .map(|view| view.served())
            .chain([built_in.served()])
        {
            for kind in view.kinds() {
                kinds.insert(kind.gvr.clone(), Arc::clone(kind));
            }
        }
        Arc::new(ServedKinds::new(kinds.into_values().collect()))
    }

    /// Every resource of a cluster, each in the version that it is stored in or else any: for controllers that sweep.
    pub(crate) fn resources(&self, cluster: &LogicalCluster) -> Vec<Arc<ResourceScope>> {
        self.clusters
            .view(cluster)
            .map(|view| view.resources())
            .unwrap_or_default()
    }

    /// Finds where a resource of a cluster is stored, in the version that it is stored in or else any.
    pub(crate) fn stored(
        &self,
        cluster: &LogicalCluster,
        group: &str,
        resource: &str,
    ) -> Option<Arc<ResourceScope>> {
        self.clusters.view(cluster)?.stored(group, resource)
    }

    /// Finds a kind of a cluster, in any version that is served and stored.
    pub(crate) fn of_kind(
        &self,
        cluster: &LogicalCluster,
        group: &str,
        kind: &str,
    ) -> Option<Arc<ResourceScope>> {
        self.clusters.view(cluster)?.of_kind(group, kind)
    }

    /// Follows which definitions change; who lags looks at all of them.
    pub(crate) fn definitions(&self) -> broadcast::Receiver<DefinitionChanged> {
        self.changes.follow_all()
    }

    /// Follows in which clusters the definition of a name, `<plural>.<group>`, changes; who lags looks at all clusters.
    pub(crate) fn definitions_named(&self, name: &str) -> broadcast::Receiver<LogicalCluster> {
        self.changes.follow(name)
    }

    /// Waits until every change up to a revision is in the views.
    ///
    /// # Cancel safety
    /// Waiting changes nothing.
    pub(crate) async fn reach(&self, revision: Revision) {
        let mut seen = self.seen.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _reached = seen.wait_for(|seen| *seen >= revision).await;
    }

    fn view(&self, cluster: &LogicalCluster) -> Option<Arc<ClusterView>> {
        self.clusters.view(cluster)
    }
}
