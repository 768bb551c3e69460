//! Keeps the views true to the store: reads what defines them once, then follows their watch.
//!
//! Three resources define what is served: Spokes of root say which clusters there are, CustomResourceDefinitions add
//! kinds to root and to embedded clusters, ServedResources add them to composite ones. Definitions of a cluster that is
//! not there (any more, or yet) are kept until it is.
//!
//! Names are accepted here, where all definitions are seen in one order; the controller of definitions writes into
//! their status what was decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::LogicalCluster;
use api::crd::{self, CustomResourceDefinition};
use api::wheelhouse::{self, Provider, ServedResource, ServedState, Spoke};
use serde::Deserialize as _;
use serde_json::Value;
use storage::{
    Entry, Event, EventKind, KeyRange, RangeQuery, Revision, Store, WatchQuery, Watcher,
};
use tokio_util::sync::CancellationToken;

use super::compile::{Blueprint, install};
use super::names::{self, Accepted};
use super::scope::{EndCause, Phase};
use super::view::ClusterKind;
use super::view::ClusterView;
use super::{OpenError, Registry, builtin};
use crate::objects::{parse_key, prefix};
use crate::strategy;
use crate::strategy::rules::AuthorStamp;

/// What is known of the definitions of all clusters. Guarded by the registry; only the follower changes it.
#[derive(Debug, Default)]
pub(super) struct Known {
    definitions: BTreeMap<DefinitionId, Definition>,
}

/// One definition.
#[derive(Debug)]
struct Definition {
    source: Source,
    /// The names that it has, and how it got them.
    accepted: Accepted,
}

#[derive(Debug)]
enum Source {
    Crd(Box<CustomResourceDefinition>),
    Served(Box<ServedResource>),
}

/// What has to be told to others after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DefinitionChanged {
    pub(crate) cluster: LogicalCluster,
    /// `<plural>.<group>`.
    pub(crate) name: String,
}

/// The resources that define what is served.
const SOURCES: [(&str, &str); 3] = [
    (wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE),
    (crd::GROUP, crd::RESOURCE),
    (
        wheelhouse::INTERNAL_GROUP,
        wheelhouse::SERVED_RESOURCE_RESOURCE,
    ),
];

/// Between two attempts to read everything anew.
const RESYNC_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Fills a registry with what is in the store.
pub(super) fn load(registry: &Registry, store: &dyn Store) -> Result<(), OpenError> {
    let root = ClusterView::new(ClusterKind::Root, builtin::layer(ClusterKind::Root));
    registry.clusters.put(&LogicalCluster::root(), root);
    let revision = store.revision();
    for source in SOURCES {
        let query = RangeQuery::of(range_of(source)).at(revision);
        for entry in store.range(query)?.entries {
            put(registry, &entry);
        }
    }
    registry.seen.send_replace(revision);
    Ok(())
}

/// Follows the store. If the watch is lost, what is in the store is read again.
pub(super) fn start(registry: Arc<Registry>, store: Arc<dyn Store>, tasks: &tasks::Tasks) {
    let token = tasks.child_token();
    // Without it the hub would serve for ever what it served at that moment.
    tasks.spawn_with("registry", tasks::OnPanic::ShutDown, async move {
        while !token.is_cancelled() {
            follow(&registry, &store, &token).await;
        }
    });
}

async fn follow(registry: &Registry, store: &Arc<dyn Store>, token: &CancellationToken) {
    let after = *registry.seen.borrow();
    let mut watcher = match store.watch(WatchQuery {
        range: everything(),
        after,
    }) {
        Ok(watcher) => watcher,
        Err(storage::Error::Closed) => {
            token.cancelled().await;
            return;
        }
        Err(error) => {
            tracing::warn!(error = %error, "reading all definitions again");
            resync(registry, store.as_ref(), store.revision());
            // Whatever took the history away must not make this spin.
            tokio::time::sleep(RESYNC_PAUSE).await;
            return;
        }
    };
    loop {
        let events = tokio::select! {
            biased;
            () = token.cancelled() => return,
            events = watcher.next() => events,
        };
        match events {
            Ok(events) => observe(registry, &events, &mut watcher),
            Err(storage::WatchEnd::Expired) => return,
            Err(storage::WatchEnd::Closed) => {
                token.cancelled().await;
                return;
            }
        }
    }
}

fn observe(registry: &Registry, events: &[Arc<Event>], watcher: &mut Watcher) {
    let mut last = Revision::default();
    for event in events {
        last = event.revision();
        match event.kind() {
            EventKind::Created | EventKind::Updated => put(registry, event.entry()),
            EventKind::Deleted => remove(registry, event.key()),
        }
    }
    let reached = watcher.progress().max(last);
    registry.seen.send_if_modified(|seen| {
        let forward = reached > *seen;
        *seen = reached.max(*seen);
        forward
    });
}

/// Reads everything again after the watch was lost, and forgets what is gone.
fn resync(registry: &Registry, store: &dyn Store, revision: Revision) {
    let mut found = Vec::new();
    for source in SOURCES {
        match store.range(RangeQuery::of(range_of(source)).at(revision)) {
            Ok(range) => found.extend(range.entries),
            Err(error) => {
                tracing::warn!(error = %error, "cannot read definitions");
                return;
            }
        }
    }
    let there: std::collections::HashSet<&[u8]> = found.iter().map(Entry::key).collect();
    let gone = registry
        .known_sources()
        .into_iter()
        .filter(|source| !there.contains(source.key().as_slice()));
    for source in gone.collect::<Vec<_>>() {
        match source {
            SourceKey::Spoke(cluster) => registry.remove_cluster(&cluster),
            SourceKey::Definition(id) => registry.remove_definition(&id),
        }
    }
    for entry in &found {
        put(registry, entry);
    }
    registry.seen.send_replace(revision);
}

/// Every key: the follower must see every revision, so that [`Registry::reach`] can tell how far it has come.
fn everything() -> KeyRange {
    KeyRange::all()
}

fn range_of((group, resource): (&str, &str)) -> KeyRange {
    KeyRange::prefix(prefix(group, resource))
}

/// What a stored object says about what is served.
///
/// **Invariant:** only root's Spokes say which clusters there are, and none of them is root. An object that lies under
/// the name of one of [`SOURCES`] in another cluster is no source at all, whatever it looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SourceKey {
    /// A Spoke: this cluster is there.
    Spoke(LogicalCluster),
    /// A definition: its cluster has a kind of its own.
    Definition(DefinitionId),
}

/// Names one definition of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DefinitionId {
    cluster: LogicalCluster,
    sort: SourceSort,
    name: String,
}

/// By what a kind is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SourceSort {
    /// A CustomResourceDefinition, in root and embedded clusters.
    Crd,
    /// A ServedResource, in composite ones.
    Served,
}

fn put(registry: &Registry, entry: &Entry) {
    let Some(source) = SourceKey::parse(entry.key()) else {
        return;
    };
    let Ok(object) = serde_json::from_slice::<Value>(entry.value()) else {
        tracing::error!(key = %String::from_utf8_lossy(entry.key()), "cannot read a definition");
        return;
    };
    let id = match source {
        SourceKey::Spoke(cluster) => return put_spoke(registry, &cluster, &object),
        SourceKey::Definition(id) => id,
    };
    let source = match id.sort {
        SourceSort::Crd => CustomResourceDefinition::from_value(&object)
            .map(|definition| Source::Crd(Box::new(definition)))
            .map_err(|error| error.to_string()),
        SourceSort::Served => ServedResource::deserialize(&object)
            .map(|served| Source::Served(Box::new(served)))
            .map_err(|error| error.to_string()),
    };
    match source {
        Ok(source) => registry.put_definition(&id, source),
        Err(error) => {
            tracing::error!(cluster = %id.cluster, name = id.name, error = %error, "definition is malformed");
        }
    }
}

fn put_spoke(registry: &Registry, cluster: &LogicalCluster, object: &Value) {
    let kind = match Spoke::deserialize(object) {
        Ok(spoke) => match spoke.spec.provider {
            Provider::Embedded => ClusterKind::Embedded,
            Provider::Kubeconfig | Provider::KubeconfigFile | Provider::ClusterProfile => {
                ClusterKind::Composite
            }
        },
        Err(error) => {
            tracing::error!(spoke = %cluster, error = %error, "spoke is malformed");
            return;
        }
    };
    registry.put_cluster(cluster, kind);
}

fn remove(registry: &Registry, key: &[u8]) {
    match SourceKey::parse(key) {
        Some(SourceKey::Spoke(cluster)) => registry.remove_cluster(&cluster),
        Some(SourceKey::Definition(id)) => registry.remove_definition(&id),
        None => {}
    }
}

// === impl SourceKey ===

impl SourceKey {
    /// Reads a storage key; `None` for the key of anything that says nothing about what is served.
    fn parse(key: &[u8]) -> Option<Self> {
        if !SOURCES.iter().any(|source| lies_under(key, *source)) {
            return None;
        }
        let parts = parse_key(key)?;
        let cluster: LogicalCluster = parts.cluster.parse().ok()?;
        // All of them are cluster-scoped.
        if !parts.namespace.is_empty() || parts.name.is_empty() {
            return None;
        }
        let definition = |sort| {
            Self::Definition(DefinitionId {
                cluster: cluster.clone(),
                sort,
                name: parts.name.to_owned(),
            })
        };
        match (parts.group, parts.resource) {
            (wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE) => {
                let named: LogicalCluster = parts.name.parse().ok()?;
                (cluster.is_root() && !named.is_root()).then_some(Self::Spoke(named))
            }
            (crd::GROUP, crd::RESOURCE) => Some(definition(SourceSort::Crd)),
            (wheelhouse::INTERNAL_GROUP, wheelhouse::SERVED_RESOURCE_RESOURCE) => {
                Some(definition(SourceSort::Served))
            }
            _ => None,
        }
    }
}

impl SourceKey {
    /// The storage key.
    fn key(&self) -> Vec<u8> {
        let ((group, resource), cluster, name) = match self {
            Self::Spoke(cluster) => (
                (wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE),
                &LogicalCluster::root(),
                cluster.as_str(),
            ),
            Self::Definition(id) => (id.sort.resource(), &id.cluster, id.name.as_str()),
        };
        let mut key = crate::objects::prefix_in(group, resource, cluster);
        key.extend_from_slice(format!("/{name}").as_bytes());
        key
    }
}

/// Whether a key is of one of the resources, without taking it apart: the follower sees every key of the store.
fn lies_under(key: &[u8], (group, resource): (&str, &str)) -> bool {
    let rest = key
        .strip_prefix(b"/")
        .and_then(|key| key.strip_prefix(group.as_bytes()));
    let rest = rest.and_then(|key| key.strip_prefix(b"/"));
    let rest = rest.and_then(|key| key.strip_prefix(resource.as_bytes()));
    rest.is_some_and(|rest| rest.first() == Some(&b'/'))
}

// === impl SourceSort ===

impl SourceSort {
    /// Whether clusters of a kind are defined like this.
    fn fits(self, kind: ClusterKind) -> bool {
        match self {
            Self::Crd => matches!(kind, ClusterKind::Root | ClusterKind::Embedded),
            Self::Served => kind == ClusterKind::Composite,
        }
    }

    fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Crd => (crd::GROUP, crd::RESOURCE),
            Self::Served => (
                wheelhouse::INTERNAL_GROUP,
                wheelhouse::SERVED_RESOURCE_RESOURCE,
            ),
        }
    }
}

// === impl Registry ===

impl Registry {
    /// What is known, by source: what is gone from the store is told from what is there by it.
    fn known_sources(&self) -> Vec<SourceKey> {
        let known = self.known.lock();
        let definitions = known.definitions.keys().cloned();
        let mut sources: Vec<_> = definitions.map(SourceKey::Definition).collect();
        let clusters = self.kinds.borrow();
        sources.extend(clusters.keys().cloned().map(SourceKey::Spoke));
        sources
    }

    fn put_cluster(&self, cluster: &LogicalCluster, kind: ClusterKind) {
        if self.cluster_kind(cluster) == Some(kind) {
            return;
        }
        self.remove_cluster(cluster);
        self.clusters
            .put(cluster, ClusterView::new(kind, builtin::layer(kind)));
        let definitions = self.definitions_of(cluster, kind);
        for id in &definitions {
            self.refresh(id);
        }
        self.kinds.send_modify(|kinds| {
            Arc::make_mut(kinds).insert(cluster.clone(), kind);
        });
        for id in &definitions {
            self.tell(id);
        }
    }

    /// The definitions that are known of a cluster of a kind.
    fn definitions_of(&self, cluster: &LogicalCluster, kind: ClusterKind) -> Vec<DefinitionId> {
        let known = self.known.lock();
        let ids = known.definitions.keys();
        ids.filter(|id| id.cluster == *cluster && id.sort.fits(kind))
            .cloned()
            .collect()
    }

    fn remove_cluster(&self, cluster: &LogicalCluster) {
        // What is served in root depends on nothing that is stored.
        if cluster.is_root() {
            return;
        }
        if let Some(view) = self.clusters.remove(cluster) {
            view.all_installed()
                .for_each(|installed| installed.life.end.come(EndCause::Changed));
            self.kinds.send_modify(|kinds| {
                Arc::make_mut(kinds).remove(cluster);
            });
        }
    }

    fn put_definition(&self, id: &DefinitionId, source: Source) {
        {
            let mut known = self.known.lock();
            let accepted = match &source {
                Source::Crd(definition) => known.decided(id, definition).unwrap_or_else(|| {
                    let others = known.accepted_of_others(id, &definition.spec.group);
                    let before = known.definitions.get(id).map(|it| &it.accepted);
                    names::decide(definition, before, &others)
                }),
                Source::Served(served) => Accepted::all(&served.spec.crd),
            };
            known
                .definitions
                .insert(id.clone(), Definition { source, accepted });
        }
        self.refresh(id);
        self.tell(id);
    }

    fn remove_definition(&self, id: &DefinitionId) {
        let group = {
            let mut known = self.known.lock();
            let Some(removed) = known.definitions.remove(id) else {
                return;
            };
            let spec = removed.source.spec();
            if self.has_sort(id) {
                self.uninstall(&id.cluster, &spec.group_resource(), EndCause::Removed);
            }
            spec.group.clone()
        };
        self.tell(id);
        self.reconsider(&id.cluster, &group);
    }

    /// Whether a definition counts in its cluster, as that is now.
    fn has_sort(&self, id: &DefinitionId) -> bool {
        self.cluster_kind(&id.cluster)
            .is_some_and(|kind| id.sort.fits(kind))
    }

    /// Names were given up: other definitions of the group may get them now.
    fn reconsider(&self, cluster: &LogicalCluster, group: &str) {
        let waiting: Vec<(DefinitionId, CustomResourceDefinition)> = {
            let known = self.known.lock();
            let of_group = known
                .definitions
                .iter()
                .filter(|(id, _)| id.cluster == *cluster);
            of_group
                .filter(|(_, definition)| !definition.accepted.is_whole())
                .filter_map(|(id, definition)| match &definition.source {
                    Source::Crd(crd) if crd.spec.group == group => {
                        Some((id.clone(), CustomResourceDefinition::clone(crd)))
                    }
                    Source::Crd(_) | Source::Served(_) => None,
                })
                .collect()
        };
        for (id, definition) in waiting {
            self.put_definition(&id, Source::Crd(Box::new(definition)));
        }
    }

    /// Brings a definition into the view of its cluster, or out of it.
    fn refresh(&self, id: &DefinitionId) {
        let known = self.known.lock();
        let Some(definition) = known.definitions.get(id) else {
            return;
        };
        let cluster = &id.cluster;
        let Some(view) = self.view(cluster) else {
            return;
        };
        // One of the other sort was never installed, and what it names may be another's.
        if !id.sort.fits(view.kind()) {
            return;
        }
        let spec = definition.source.spec();
        let resource = spec.group_resource();
        if view.is_built_in(&resource) || !definition.accepted.is_served() {
            self.uninstall(cluster, &resource, EndCause::Changed);
            return;
        }
        let blueprint = definition.blueprint();
        let marks = blueprint.marks();
        if view
            .installed(&resource)
            .is_some_and(|installed| installed.content == marks.content)
        {
            return;
        }
        let before = view.installed(&resource);
        match install(&self.pool, (&blueprint, &marks), before.map(Arc::as_ref)) {
            Ok(installed) => {
                let replaced = before
                    .map(|before| before.life.end.clone())
                    .filter(|end| !end.is_of(&installed.life.end));
                self.clusters
                    .put(cluster, view.with(&resource, Some(installed)));
                if let Some(replaced) = replaced {
                    replaced.come(EndCause::Changed);
                }
            }
            Err(error) => {
                tracing::error!(cluster = %cluster, name = id.name, error = %error, "cannot serve a definition");
                self.uninstall(cluster, &resource, EndCause::Changed);
            }
        }
    }

    fn uninstall(&self, cluster: &LogicalCluster, resource: &api::GroupResource, cause: EndCause) {
        let Some(view) = self.view(cluster) else {
            return;
        };
        if let Some(installed) = view.installed(resource) {
            self.clusters.put(cluster, view.with(resource, None));
            installed.life.end.come(cause);
        }
    }

    /// What was decided about the names of a definition.
    pub(crate) fn accepted(&self, cluster: &LogicalCluster, name: &str) -> Option<Accepted> {
        let id = DefinitionId {
            cluster: cluster.clone(),
            sort: SourceSort::Crd,
            name: name.to_owned(),
        };
        let known = self.known.lock();
        Some(known.definitions.get(&id)?.accepted.clone())
    }

    /// Whether a definition names a resource that the cluster has anyway.
    pub(crate) fn is_built_in(
        &self,
        cluster: &LogicalCluster,
        resource: &api::GroupResource,
    ) -> bool {
        self.view(cluster)
            .is_some_and(|view| view.is_built_in(resource))
    }

    /// Every CustomResourceDefinition that is known: for a controller that begins.
    pub(crate) fn all_definitions(&self) -> Vec<DefinitionChanged> {
        let known = self.known.lock();
        let ids = known.definitions.keys();
        ids.filter(|id| id.sort == SourceSort::Crd)
            .map(|id| DefinitionChanged {
                cluster: id.cluster.clone(),
                name: id.name.clone(),
            })
            .collect()
    }

    fn tell(&self, id: &DefinitionId) {
        let changed = DefinitionChanged {
            cluster: id.cluster.clone(),
            name: id.name.clone(),
        };
        self.changes.tell(changed);
    }
}

// === impl Known ===

impl Known {
    /// What was decided about the names of a definition, if it wants the same as then and got all of it: nobody can have taken
    /// any of them since.
    fn decided(
        &self,
        id: &DefinitionId,
        definition: &CustomResourceDefinition,
    ) -> Option<Accepted> {
        let before = self.definitions.get(id)?;
        let is_same = before.accepted.is_whole() && *before.source.spec() == definition.spec;
        is_same.then(|| before.accepted.clone())
    }

    /// The names that other definitions of a group have in the same cluster.
    fn accepted_of_others(&self, id: &DefinitionId, group: &str) -> Vec<crd::Names> {
        self.definitions
            .iter()
            .filter(|(other, definition)| {
                other.cluster == id.cluster
                    && other.sort == id.sort
                    && other.name != id.name
                    && definition.source.spec().group == group
            })
            .map(|(_, definition)| definition.accepted.names.clone())
            .collect()
    }
}

// === impl Definition ===

impl Definition {
    fn blueprint(&self) -> Blueprint {
        let spec = self.source.spec().clone();
        let names = self.accepted.names.clone();
        match &self.source {
            Source::Crd(definition) => {
                let phase = if definition.metadata.deletion_timestamp.is_some() {
                    Phase::Terminating
                } else {
                    Phase::Served
                };
                Blueprint::new(spec, names, &definition.metadata.labels, phase)
            }
            Source::Served(served) => {
                let phase = match served.spec.state {
                    ServedState::Serving => Phase::Served,
                    ServedState::Importing => Phase::Importing,
                };
                let mut blueprint = Blueprint::new(spec, names, &served.spec.labels, phase);
                // Only kinds that graphs generate are served for a spoke.
                blueprint.strategy = strategy::custom(AuthorStamp::Stamped);
                blueprint.is_judged = served.spec.judged;
                blueprint
            }
        }
    }
}

// === impl Source ===

impl Source {
    fn spec(&self) -> &crd::DefinitionSpec {
        match self {
            Self::Crd(definition) => &definition.spec,
            Self::Served(served) => &served.spec.crd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_roots_spokes_say_which_clusters_there_are() {
        let cluster = |name: &str| name.parse::<LogicalCluster>().expect("a cluster");
        let definition = |at: &str, sort, name: &str| {
            Some(SourceKey::Definition(DefinitionId {
                cluster: cluster(at),
                sort,
                name: name.to_owned(),
            }))
        };
        for (key, want) in [
            (
                "/wheelhouse.dev/spokes/root//east",
                Some(SourceKey::Spoke(cluster("east"))),
            ),
            ("/wheelhouse.dev/spokes/root//root", None),
            ("/wheelhouse.dev/spokes/east//root", None),
            ("/wheelhouse.dev/spokes/east//west", None),
            ("/wheelhouse.dev/spokes/root/default/west", None),
            ("/wheelhouse.dev/spokes/root//a.b", None),
            ("/wheelhouse.dev/spokesmen/root//east", None),
            ("/example.com/spokes/root//east", None),
            (
                "/apiextensions.k8s.io/customresourcedefinitions/east//carts.kro.run",
                definition("east", SourceSort::Crd, "carts.kro.run"),
            ),
            (
                "/internal.wheelhouse.dev/servedresources/east//carts.kro.run",
                definition("east", SourceSort::Served, "carts.kro.run"),
            ),
        ] {
            assert_eq!(SourceKey::parse(key.as_bytes()), want, "{key}");
            if let Some(source) = want {
                assert_eq!(source.key(), key.as_bytes(), "{key}");
            }
        }
    }
}
