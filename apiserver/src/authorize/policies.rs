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
use storage::{Entry, Event, EventKind, KeyRange, Store};

use super::rbac::{self, Policy, RulePool};
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
    pool: RulePool,
}

/// The RBAC objects of one cluster by storage key, as the store holds them: parsed, those of a new cluster alone take 220 KB.
type Objects = BTreeMap<Vec<u8>, Entry>;

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
            pool: RulePool::default(),
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
    pub(crate) fn of_objects(objects: &[(&str, &str, serde_json::Value)]) -> Self {
        use serde::Deserialize as _;

        let policies = Self::default();
        let mut by_cluster: HashMap<LogicalCluster, Vec<_>> = HashMap::new();
        for (cluster, resource, object) in objects {
            let cluster = cluster.parse().unwrap();
            let object = rbac::Object::deserialize(object).unwrap();
            by_cluster
                .entry(cluster)
                .or_default()
                .push((*resource, object));
        }
        let compiled = by_cluster
            .into_iter()
            .map(|(cluster, objects)| {
                let policy = Policy::compile(objects, &mut RulePool::default());
                (cluster, Arc::new(policy))
            })
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
            self.put(entry);
        }
        let (all, pool) = (self.objects.iter(), &mut self.pool);
        let compiled = all
            .map(|(cluster, objects)| (cluster.clone(), compile(objects, pool)))
            .collect();
        self.policies.compiled.store(Arc::new(compiled));
        self.pool.tidy();
    }

    fn take(&mut self, events: &[Arc<Event>]) {
        let mut changed = BTreeSet::new();
        for event in events {
            let cluster = match event.kind() {
                EventKind::Created | EventKind::Updated => self.put(event.entry()),
                EventKind::Deleted => self.remove(event.key()),
            };
            changed.extend(cluster);
        }
        let mut compiled = HashMap::clone(&self.policies.compiled.load());
        for cluster in changed {
            match self.objects.get(&cluster) {
                Some(objects) => compiled.insert(cluster, compile(objects, &mut self.pool)),
                None => compiled.remove(&cluster),
            };
        }
        self.policies.compiled.store(Arc::new(compiled));
        self.pool.tidy();
    }
}

impl Follower {
    /// Takes an object up; returns its cluster.
    fn put(&mut self, entry: &Entry) -> Option<LogicalCluster> {
        let key = entry.key();
        let cluster: LogicalCluster = objects::parse_key(key)?.cluster.parse().ok()?;
        let objects = self.objects.entry(cluster.clone()).or_default();
        objects.insert(key.to_vec(), entry.clone());
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

fn compile(objects: &Objects, pool: &mut RulePool) -> Arc<Policy> {
    let objects = objects.iter().filter_map(|(key, entry)| {
        let resource = objects::parse_key(key)?.resource;
        Some((resource, rbac::Object::parse(entry.value())?))
    });
    Arc::new(Policy::compile(objects, pool))
}

#[cfg(test)]
mod tests;
