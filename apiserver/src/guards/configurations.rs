//! The policies, bindings and webhooks of a logical cluster, as they are stored now.
//!
//! They are read with each write and compiled once per content, so what was written acts on the next write.
//!
//! # Invariants
//! - Those of root act in every cluster, those of another cluster in that one alone: [`acting`] is the only list of whose
//!   configurations are read for a write.
//! - What is kept in memory is what the store holds: a set is dropped when it is empty, or replaced as a whole.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use api::LogicalCluster;
use api::admission::GROUP;
use parking_lot::Mutex;
use serde_json::Value;
use storage::{Entry, KeyRange, RangeQuery, Revision, Store};

use crate::objects::{parse_key, prefix, prefix_in};
use crate::refusal::Refusal;

/// Compiled configurations of one resource, by logical cluster.
pub(crate) struct Configurations<T> {
    resource: &'static str,
    /// Those of all clusters.
    everywhere: KeyRange,
    compile: fn(&str, &Value) -> Result<T, String>,
    /// Leaf lock.
    sets: Mutex<HashMap<LogicalCluster, Set<T>>>,
}

/// The configurations of one cluster.
struct Set<T> {
    states: Vec<(String, Revision)>,
    all: Arc<[Arc<T>]>,
}

/// The configurations of clusters that have any.
pub(crate) type Acting<T> = Vec<(LogicalCluster, Arc<[Arc<T>]>)>;

/// The clusters whose configurations act on a write in `cluster`.
fn acting(cluster: &LogicalCluster) -> Vec<LogicalCluster> {
    let root = LogicalCluster::root();
    if *cluster == root {
        return vec![root];
    }
    vec![root, cluster.clone()]
}

// === impl Configurations ===

impl<T> Configurations<T> {
    /// Reads configurations of a resource by `compile`, which gets the name and the object.
    pub(crate) fn new(
        resource: &'static str,
        compile: fn(&str, &Value) -> Result<T, String>,
    ) -> Self {
        Self {
            resource,
            everywhere: KeyRange::prefix(prefix(GROUP, resource)),
            compile,
            sets: Mutex::default(),
        }
    }

    /// The configurations that act on a write in a cluster.
    pub(crate) fn acting_on(
        &self,
        store: &dyn Store,
        cluster: &LogicalCluster,
    ) -> Result<Acting<T>, Refusal> {
        let mut sets = Acting::new();
        // Mostly there are none at all, and each write asks.
        let first = RangeQuery::of(self.everywhere.clone()).limit(1);
        if store.range(first)?.entries.is_empty() {
            self.sets.lock().clear();
            return Ok(sets);
        }
        for cluster in acting(cluster) {
            let found = self.of(store, &cluster)?;
            if !found.is_empty() {
                sets.push((cluster, found));
            }
        }
        Ok(sets)
    }

    /// The configurations of a cluster, by name.
    pub(crate) fn of(
        &self,
        store: &dyn Store,
        cluster: &LogicalCluster,
    ) -> Result<Arc<[Arc<T>]>, Refusal> {
        let entries = store.range(RangeQuery::of(self.range(cluster)))?.entries;
        if entries.is_empty() {
            self.forget(cluster);
            return Ok(Arc::new([]));
        }
        let states: Vec<_> = entries.iter().filter_map(state).collect();
        if let Some(set) = self.sets.lock().get(cluster)
            && set.states == states
        {
            return Ok(Arc::clone(&set.all));
        }
        let all: Arc<[Arc<T>]> = entries.iter().filter_map(|it| self.load(it)).collect();
        let set = Set {
            states,
            all: Arc::clone(&all),
        };
        let mut sets = self.sets.lock();
        // A cluster that is gone is not asked about again.
        sets.retain(|cluster, _| {
            let first = RangeQuery::of(self.range(cluster)).limit(1);
            store.range(first).is_ok_and(|it| !it.entries.is_empty())
        });
        sets.insert(cluster.clone(), set);
        Ok(all)
    }

    fn range(&self, cluster: &LogicalCluster) -> KeyRange {
        KeyRange::prefix(prefix_in(GROUP, self.resource, cluster))
    }

    fn forget(&self, cluster: &LogicalCluster) {
        let mut sets = self.sets.lock();
        if !sets.is_empty() {
            sets.remove(cluster);
        }
    }

    /// What was stored before it was validated may not be readable; then it does not act, which is logged.
    fn load(&self, entry: &Entry) -> Option<Arc<T>> {
        let parts = parse_key(entry.key())?;
        let object = serde_json::from_slice::<Value>(entry.value()).map_err(|it| it.to_string());
        match object.and_then(|object| (self.compile)(parts.name, &object)) {
            Ok(compiled) => Some(Arc::new(compiled)),
            Err(error) => {
                tracing::warn!(
                    cluster = parts.cluster,
                    resource = parts.resource,
                    name = parts.name,
                    error,
                    "cannot read an admission configuration, which does not act"
                );
                None
            }
        }
    }
}

impl<T> fmt::Debug for Configurations<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configurations")
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

fn state(entry: &Entry) -> Option<(String, Revision)> {
    Some((parse_key(entry.key())?.name.to_owned(), entry.modified()))
}
