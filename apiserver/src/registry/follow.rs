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

use api::crd::{self, CustomResourceDefinition};
use api::wheelhouse::{self, Provider, ServedResource, Spoke};
use api::{LogicalCluster, meta};
use serde::Deserialize as _;
use serde_json::Value;
use storage::{
    Entry, Event, EventKind, KeyRange, RangeQuery, Revision, Store, WatchQuery, Watcher,
};
use tokio_util::sync::CancellationToken;

use super::compile::{Blueprint, install};
use super::scope::Phase;
use super::view::ClusterKind;
use super::view::ClusterView;
use super::{OpenError, Registry, builtin};
use crate::definitions::names::{self, Accepted};
use crate::objects::{parse_key, prefix};

/// What is known of the definitions of all clusters. Guarded by the registry; only the follower changes it.
#[derive(Debug, Default)]
pub(super) struct Known {
    definitions: BTreeMap<(LogicalCluster, String), Definition>,
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
            tracing::warn!(error = %error, "definitions are read anew");
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
        if !is_source(event.key()) {
            continue;
        }
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
                tracing::warn!(error = %error, "definitions cannot be read");
                return;
            }
        }
    }
    let gone: Vec<Vec<u8>> = registry
        .known_keys()
        .into_iter()
        .filter(|key| !found.iter().any(|entry| entry.key() == key.as_slice()))
        .collect();
    for key in &gone {
        remove(registry, key);
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

fn is_source(key: &[u8]) -> bool {
    SOURCES.iter().any(|(group, resource)| {
        let rest = key
            .strip_prefix(b"/")
            .and_then(|key| key.strip_prefix(group.as_bytes()));
        let rest = rest.and_then(|key| key.strip_prefix(b"/"));
        let rest = rest.and_then(|key| key.strip_prefix(resource.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&b'/'))
    })
}

fn put(registry: &Registry, entry: &Entry) {
    let Some(parts) = parse_key(entry.key()) else {
        return;
    };
    let Ok(object) = serde_json::from_slice::<Value>(entry.value()) else {
        tracing::error!(key = %String::from_utf8_lossy(entry.key()), "a definition cannot be read");
        return;
    };
    let Ok(cluster) = parts.cluster.parse::<LogicalCluster>() else {
        return;
    };
    match parts.resource {
        wheelhouse::SPOKE_RESOURCE if cluster.is_root() => put_spoke(registry, &object),
        crd::RESOURCE => match CustomResourceDefinition::from_value(&object) {
            Ok(definition) => registry.put_definition(&cluster, Source::Crd(Box::new(definition))),
            Err(error) => {
                tracing::error!(cluster = %cluster, error = %error, "a definition is malformed");
            }
        },
        wheelhouse::SERVED_RESOURCE_RESOURCE => match ServedResource::deserialize(&object) {
            Ok(served) => registry.put_definition(&cluster, Source::Served(Box::new(served))),
            Err(error) => {
                tracing::error!(cluster = %cluster, error = %error, "a served resource is malformed");
            }
        },
        _ => {}
    }
}

fn put_spoke(registry: &Registry, object: &Value) {
    let Ok(cluster) = meta::name(object).parse::<LogicalCluster>() else {
        tracing::warn!(
            name = meta::name(object),
            "a spoke whose name is no DNS label has no cluster"
        );
        return;
    };
    if cluster.is_root() {
        tracing::warn!("a spoke cannot be named root");
        return;
    }
    let kind = match Spoke::deserialize(object) {
        Ok(spoke) => match spoke.spec.provider {
            Provider::Embedded => ClusterKind::Embedded,
            Provider::Kubeconfig => ClusterKind::Composite,
        },
        Err(error) => {
            tracing::error!(spoke = %cluster, error = %error, "a spoke is malformed");
            return;
        }
    };
    registry.put_cluster(&cluster, kind);
}

fn remove(registry: &Registry, key: &[u8]) {
    let Some(parts) = parse_key(key) else { return };
    let Ok(cluster) = parts.cluster.parse::<LogicalCluster>() else {
        return;
    };
    if parts.resource == wheelhouse::SPOKE_RESOURCE {
        if let Ok(spoke) = parts.name.parse::<LogicalCluster>() {
            registry.remove_cluster(&spoke);
        }
        return;
    }
    registry.remove_definition(&cluster, parts.name);
}

// === impl Registry ===

impl Registry {
    fn known_keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = self
            .known
            .lock()
            .definitions
            .iter()
            .map(|((cluster, name), definition)| {
                let (group, resource) = match definition.source {
                    Source::Crd(_) => (crd::GROUP, crd::RESOURCE),
                    Source::Served(_) => (
                        wheelhouse::INTERNAL_GROUP,
                        wheelhouse::SERVED_RESOURCE_RESOURCE,
                    ),
                };
                let mut key = crate::objects::prefix_in(group, resource, cluster);
                key.extend_from_slice(format!("/{name}").as_bytes());
                key
            })
            .collect();
        keys.extend(self.kinds.borrow().keys().map(|cluster| {
            let (group, resource) = (wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE);
            let mut key = crate::objects::prefix_in(group, resource, &LogicalCluster::root());
            key.extend_from_slice(format!("/{cluster}").as_bytes());
            key
        }));
        keys
    }

    fn put_cluster(&self, cluster: &LogicalCluster, kind: ClusterKind) {
        if self.cluster_kind(cluster) == Some(kind) {
            return;
        }
        self.remove_cluster(cluster);
        self.clusters
            .put(cluster, ClusterView::new(kind, builtin::layer(kind)));
        let names: Vec<String> = {
            let known = self.known.lock();
            known
                .definitions
                .keys()
                .filter(|(its, _)| its == cluster)
                .map(|(_, name)| name.clone())
                .collect()
        };
        for name in &names {
            self.refresh(cluster, name);
        }
        self.kinds.send_modify(|kinds| {
            Arc::make_mut(kinds).insert(cluster.clone(), kind);
        });
    }

    fn remove_cluster(&self, cluster: &LogicalCluster) {
        if let Some(view) = self.clusters.remove(cluster) {
            view.all_installed()
                .for_each(|installed| installed.life.ended.cancel());
            self.kinds.send_modify(|kinds| {
                Arc::make_mut(kinds).remove(cluster);
            });
        }
    }

    fn put_definition(&self, cluster: &LogicalCluster, source: Source) {
        let name = source.name();
        {
            let mut known = self.known.lock();
            let accepted = match &source {
                Source::Crd(definition) => {
                    let group = definition.spec.group.as_str();
                    let others = known.accepted_of_others(cluster, group, &name);
                    let key = (cluster.clone(), name.clone());
                    let before = known.definitions.get(&key).map(|it| &it.accepted);
                    names::decide(definition, before, &others)
                }
                Source::Served(served) => Accepted::all(&served.spec.crd),
            };
            known.definitions.insert(
                (cluster.clone(), name.clone()),
                Definition { source, accepted },
            );
        }
        self.refresh(cluster, &name);
        self.tell(cluster, &name);
    }

    fn remove_definition(&self, cluster: &LogicalCluster, name: &str) {
        let group = {
            let mut known = self.known.lock();
            let removed = known
                .definitions
                .remove(&(cluster.clone(), name.to_owned()));
            let Some(removed) = removed else { return };
            let spec = removed.source.spec();
            self.uninstall(cluster, &spec.group_resource());
            spec.group.clone()
        };
        self.tell(cluster, name);
        self.reconsider(cluster, &group);
    }

    /// Names were given up: other definitions of the group may get them now.
    fn reconsider(&self, cluster: &LogicalCluster, group: &str) {
        let waiting: Vec<CustomResourceDefinition> = {
            let known = self.known.lock();
            let of_group = known
                .definitions
                .iter()
                .filter(|((its, _), _)| its == cluster);
            of_group
                .filter(|(_, definition)| !definition.accepted.is_whole())
                .filter_map(|(_, definition)| match &definition.source {
                    Source::Crd(crd) if crd.spec.group == group => {
                        Some(CustomResourceDefinition::clone(crd))
                    }
                    Source::Crd(_) | Source::Served(_) => None,
                })
                .collect()
        };
        for definition in waiting {
            self.put_definition(cluster, Source::Crd(Box::new(definition)));
        }
    }

    /// Brings a definition into the view of its cluster, or out of it.
    fn refresh(&self, cluster: &LogicalCluster, name: &str) {
        let known = self.known.lock();
        let Some(definition) = known.definitions.get(&(cluster.clone(), name.to_owned())) else {
            return;
        };
        let Some(view) = self.view(cluster) else {
            return;
        };
        let spec = definition.source.spec();
        let resource = spec.group_resource();
        let fits = matches!(
            (view.kind(), &definition.source),
            (ClusterKind::Root | ClusterKind::Embedded, Source::Crd(_))
                | (ClusterKind::Composite, Source::Served(_))
        );
        if !fits || view.is_built_in(&resource) || !definition.accepted.is_served() {
            self.uninstall(cluster, &resource);
            return;
        }
        let blueprint = definition.blueprint();
        let content = blueprint.content();
        if view
            .installed(&resource)
            .is_some_and(|installed| installed.content == content)
        {
            return;
        }
        match install(&self.pool, &blueprint) {
            Ok(installed) => {
                let before = view
                    .installed(&resource)
                    .map(|installed| installed.life.clone());
                self.clusters
                    .put(cluster, view.with(&resource, Some(installed)));
                if let Some(before) = before {
                    before.ended.cancel();
                }
            }
            Err(error) => {
                tracing::error!(cluster = %cluster, name, error = %error, "a definition cannot be served");
                self.uninstall(cluster, &resource);
            }
        }
    }

    fn uninstall(&self, cluster: &LogicalCluster, resource: &api::GroupResource) {
        let Some(view) = self.view(cluster) else {
            return;
        };
        if let Some(installed) = view.installed(resource) {
            self.clusters.put(cluster, view.with(resource, None));
            installed.life.ended.cancel();
        }
    }

    /// What was decided about the names of a definition.
    pub(crate) fn accepted(&self, cluster: &LogicalCluster, name: &str) -> Option<Accepted> {
        let known = self.known.lock();
        let definition = known.definitions.get(&(cluster.clone(), name.to_owned()))?;
        Some(definition.accepted.clone())
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
        let crds = known
            .definitions
            .iter()
            .filter(|(_, it)| matches!(it.source, Source::Crd(_)));
        crds.map(|((cluster, name), _)| DefinitionChanged {
            cluster: cluster.clone(),
            name: name.clone(),
        })
        .collect()
    }

    fn tell(&self, cluster: &LogicalCluster, name: &str) {
        let changed = DefinitionChanged {
            cluster: cluster.clone(),
            name: name.to_owned(),
        };
        // Nobody listens before the controller starts; it begins with all of them.
        let _told = self.changed.send(changed);
    }
}

// === impl Known ===

impl Known {
    /// The names that other definitions of a group have.
    fn accepted_of_others(
        &self,
        cluster: &LogicalCluster,
        group: &str,
        name: &str,
    ) -> Vec<crd::Names> {
        self.definitions
            .iter()
            .filter(|((its, other), definition)| {
                its == cluster && other != name && definition.source.spec().group == group
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
                let mut blueprint = Blueprint::new(spec, names, &served.spec.labels, Phase::Served);
                // Only kinds that graphs generate are served for a spoke.
                blueprint.author = super::scope::AuthorStamp::Stamped;
                blueprint
            }
        }
    }
}

// === impl Source ===

impl Source {
    fn name(&self) -> String {
        match self {
            Self::Crd(definition) => definition.metadata.name.clone(),
            Self::Served(served) => served.metadata.name.clone(),
        }
    }

    fn spec(&self) -> &crd::DefinitionSpec {
        match self {
            Self::Crd(definition) => &definition.spec,
            Self::Served(served) => &served.spec.crd,
        }
    }
}
