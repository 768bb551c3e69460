//! The policies of all logical clusters, kept in step with the RBAC objects in the store.
//!
//! All four RBAC resources lie under one prefix, so one range reads them and one watch follows them. A change compiles
//! the policy of its cluster anew; questions read the last compiled one and never wait.
//!
//! As in Kubernetes, a new binding counts a moment after it has been answered, not at once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use api::cluster::LogicalCluster;
use arc_swap::ArcSwap;
use serde_json::Value;
use storage::{Entry, Event, EventKind, KeyRange, Store};

use super::rbac::{self, Policy};
use crate::{
    following::{Follow, Following},
    objects,
};

/// The compiled policies; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    compiled: Arc<ArcSwap<HashMap<LogicalCluster, Arc<Policy>>>>,
    empty: Arc<Policy>,
}

/// Keeps [`Policies`] in step with the store.
#[derive(Debug)]
pub struct Follower {
    policies: Policies,
    objects: BTreeMap<LogicalCluster, Objects>,
}

/// The RBAC objects of one cluster by storage key, each with its resource.
type Objects = BTreeMap<Vec<u8>, (String, Value)>;

// === impl Policies ===

impl Policies {
    /// Reads what is in the store, at once, and makes the follower that has to be run from then on.
    ///
    /// # Errors
    /// What the store says.
    pub fn open(store: Arc<dyn Store>) -> Result<(Self, Following<Follower>), storage::Error> {
        let policies = Self::default();
        let follower = Follower {
            policies: policies.clone(),
            objects: BTreeMap::new(),
        };
        Ok((policies, Following::open(store, follower)?))
    }

    /// The policy of a logical cluster; one that allows nothing where there are no RBAC objects.
    pub fn of(&self, cluster: &LogicalCluster) -> Arc<Policy> {
        self.compiled
            .load()
            .get(cluster)
            .map_or_else(|| Arc::clone(&self.empty), Arc::clone)
    }

    #[cfg(test)]
    pub(crate) fn of_objects(objects: &[(&str, &str, Value)]) -> Self {
        let policies = Self::default();
        let mut by_cluster: HashMap<LogicalCluster, Vec<(&str, &Value)>> = HashMap::new();
        for (cluster, resource, object) in objects {
            let cluster = cluster.parse().unwrap();
            by_cluster
                .entry(cluster)
                .or_default()
                .push((resource, object));
        }
        let compiled = by_cluster
            .into_iter()
            .map(|(cluster, objects)| (cluster, Arc::new(Policy::compile(objects))))
            .collect();
        policies.compiled.store(Arc::new(compiled));
        policies
    }
}

// === impl Follower ===

impl Follow for Follower {
    const WHAT: &'static str = "rbac";

    /// Keys of all RBAC objects of all clusters: `/rbac.authorization.k8s.io/...`.
    fn range() -> KeyRange {
        KeyRange::prefix(format!("/{}/", rbac::GROUP).into_bytes())
    }

    fn read(&mut self, entries: &[Entry]) {
        self.objects.clear();
        for entry in entries {
            self.put(entry.key(), entry.value());
        }
        let compiled = self
            .objects
            .iter()
            .map(|(cluster, objects)| (cluster.clone(), compile(objects)))
            .collect();
        self.policies.compiled.store(Arc::new(compiled));
    }

    fn take(&mut self, events: &[Arc<Event>]) {
        let mut changed = BTreeSet::new();
        for event in events {
            let cluster = match event.kind() {
                EventKind::Created | EventKind::Updated => {
                    self.put(event.key(), event.entry().value())
                }
                EventKind::Deleted => self.remove(event.key()),
            };
            changed.extend(cluster);
        }
        let mut compiled = HashMap::clone(&self.policies.compiled.load());
        for cluster in changed {
            match self.objects.get(&cluster) {
                Some(objects) => compiled.insert(cluster, compile(objects)),
                None => compiled.remove(&cluster),
            };
        }
        self.policies.compiled.store(Arc::new(compiled));
    }
}

impl Follower {
    /// Takes an object up; returns its cluster. A value that is no JSON grants nothing.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Option<LogicalCluster> {
        let parts = objects::parse_key(key)?;
        let cluster: LogicalCluster = parts.cluster.parse().ok()?;
        let object = serde_json::from_slice(value).unwrap_or(Value::Null);
        self.objects
            .entry(cluster.clone())
            .or_default()
            .insert(key.to_vec(), (parts.resource.to_owned(), object));
        Some(cluster)
    }

    fn remove(&mut self, key: &[u8]) -> Option<LogicalCluster> {
        let cluster: LogicalCluster = objects::parse_key(key)?.cluster.parse().ok()?;
        let objects = self.objects.get_mut(&cluster)?;
        objects.remove(key);
        if objects.is_empty() {
            self.objects.remove(&cluster);
        }
        Some(cluster)
    }
}

fn compile(objects: &Objects) -> Arc<Policy> {
    let objects = objects
        .values()
        .map(|(resource, object)| (resource.as_str(), object));
    Arc::new(Policy::compile(objects))
}

#[cfg(test)]
mod tests;
