//! The two uids of an instance: the hub's, which clients of its path know, and that of its mirror, which the spoke knows.
//!
//! An object of the spoke may name an instance as its owner. The spoke's garbage collector deletes an object whose owner it
//! does not find under the uid that is named, so requests to a spoke name the mirror's and answers name the hub's ([`swap`], [`selector`]).
//!
//! The syncer writes both into the instance's Inventory; this index follows them, in every replica.
//!
//! # Invariants
//! - An index concerns one logical cluster: no spoke can make the path of another show a uid of its choice.
//! - Only uids in their canonical form are kept, so that what stands for one is as long as it.
//! - A lookup waits for nobody.

pub(super) mod selector;
pub(super) mod swap;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use api::{LogicalCluster, wheelhouse};
use parking_lot::RwLock;
use serde::Deserialize;
use storage::{Entry, Event, EventKind, KeyRange, Store};
use tasks::{OnPanic, Tasks};
use uuid::Uuid;

use crate::{
    following::{Follow, Following},
    objects,
};

/// The uids of the instances of all clusters; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uids {
    // Guards the map; taken before the lock of one of its pairs.
    clusters: Arc<RwLock<BTreeMap<LogicalCluster, Arc<Pairs>>>>,
}

/// The uids of the instances of one cluster.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    // Guards both maps, which are each other's inverse; never held across an await.
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    mirrors: HashMap<Uuid, Uuid>,
    instances: HashMap<Uuid, Uuid>,
}

/// Keeps [`Uids`] in step with the store.
#[derive(Debug)]
struct Follower {
    uids: Uids,
}

/// What of an Inventory counts here.
#[derive(Deserialize)]
struct Ledger {
    spec: LedgerSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LedgerSpec {
    #[serde(rename = "mirrorUID", default)]
    mirror_uid: String,
}

// === impl Uids ===

impl Uids {
    /// Reads what is in the store, and follows it from then on, in `tasks`.
    ///
    /// # Errors
    /// What the store says.
    pub(crate) fn open(store: Arc<dyn Store>, tasks: &Tasks) -> Result<Self, storage::Error> {
        let uids = Self::default();
        let follower = Follower { uids: uids.clone() };
        let following = Following::open(store, follower)?;
        // Its end would let spokes collect the dependents of new instances.
        let running = following.run(tasks.child_token());
        tasks.spawn_with("uids", OnPanic::ShutDown, running);
        Ok(uids)
    }

    /// Returns the pairs of a cluster, which go on to change.
    pub(super) fn of(&self, cluster: &LogicalCluster) -> Arc<Pairs> {
        if let Some(pairs) = self.clusters.read().get(cluster) {
            return Arc::clone(pairs);
        }
        Arc::clone(self.clusters.write().entry(cluster.clone()).or_default())
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        let Some((cluster, instance)) = place_of(key) else {
            return;
        };
        let ledger = serde_json::from_slice::<Ledger>(value).ok();
        let mirror = ledger.and_then(|ledger| canonical(ledger.spec.mirror_uid.as_bytes()));
        self.of(&cluster).set(instance, mirror);
    }
}

// === impl Pairs ===

impl Pairs {
    /// Whether there is no instance with a mirror.
    pub(super) fn is_empty(&self) -> bool {
        self.known.read().mirrors.is_empty()
    }

    fn set(&self, instance: Uuid, mirror: Option<Uuid>) {
        let mut known = self.known.write();
        if let Some(before) = known.mirrors.remove(&instance)
            && known.instances.get(&before) == Some(&instance)
        {
            known.instances.remove(&before);
        }
        if let Some(mirror) = mirror {
            known.mirrors.insert(instance, mirror);
            known.instances.insert(mirror, instance);
        }
    }
}

// === impl Follower ===

impl Follow for Follower {
    const WHAT: &'static str = "inventories";

    fn range() -> KeyRange {
        KeyRange::prefix(objects::prefix(
            wheelhouse::INTERNAL_GROUP,
            wheelhouse::INVENTORY_RESOURCE,
        ))
    }

    fn read(&mut self, entries: &[Entry]) {
        // Running requests hold the pairs: they are emptied, not replaced.
        for pairs in self.uids.clusters.read().values() {
            *pairs.known.write() = Known::default();
        }
        for entry in entries {
            self.uids.put(entry.key(), entry.value());
        }
    }

    fn take(&mut self, events: &[Arc<Event>]) {
        for event in events {
            match event.kind() {
                EventKind::Created | EventKind::Updated => {
                    self.uids.put(event.key(), event.entry().value());
                }
                EventKind::Deleted => {
                    if let Some((cluster, instance)) = place_of(event.key()) {
                        self.uids.of(&cluster).set(instance, None);
                    }
                }
            }
        }
    }
}

/// Returns whose Inventory lies under a key: it is named by the instance's uid.
fn place_of(key: &[u8]) -> Option<(LogicalCluster, Uuid)> {
    let parts = objects::parse_key(key)?;
    let cluster = parts.cluster.parse().ok()?;
    Some((cluster, canonical(parts.name.as_bytes())?))
}

/// Parses a uid that is written as Kubernetes writes it: 36 characters, in small letters.
fn canonical(text: &[u8]) -> Option<Uuid> {
    let uid = Uuid::try_parse_ascii(text).ok()?;
    let mut buffer = Uuid::encode_buffer();
    let written = uid.hyphenated().encode_lower(&mut buffer);
    (written.as_bytes() == text).then_some(uid)
}

#[cfg(test)]
mod tests;
