//! What is known of every Spoke, and who is told of changes.
//!
//! # Invariants
//! - A change is never lost and never waits for a slow subscriber: each has a set of names, which is bounded by the
//!   number of Spokes.
//! - A link that is replaced or whose Spoke is gone has ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Weak},
};

use api::{
    LogicalCluster,
    wheelhouse::{Spoke, keys},
};
use client::{Budget, reflector::RawObject};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{dialer::Dialer, fault::Fault, identity, link::Link, sightings::Sightings};

/// All spokes of a hub. Clones share them.
#[derive(Debug, Clone)]
pub struct Spokes {
    dialer: Dialer,
    table: Arc<Table>,
    sightings: Arc<Sightings>,
    rejections: Arc<Rejections>,
}

/// Spokes whose clusters refused the hub's credential.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    /// Guards the names. A leaf of the lock order.
    names: Mutex<BTreeSet<LogicalCluster>>,
    wake: Notify,
}

/// A Spoke, parsed once for everyone who reads it.
#[derive(Debug)]
pub struct Known {
    /// The object as the hub's watch delivered it last.
    pub object: Arc<RawObject>,
    /// The same, parsed.
    pub spoke: Result<Spoke, Fault>,
    /// Why nothing is relayed to its cluster: the syncer has found that it is another one.
    pub(crate) refused: Option<Fault>,
    /// Whether the cluster answers, as the heartbeat of the replica that leads has noted.
    pub(crate) is_reachable: bool,
}

/// What came of connecting a spoke.
#[derive(Debug, Clone)]
pub enum State {
    /// It has not been tried yet.
    Pending,
    /// This hub serves the cluster itself.
    Embedded,
    /// There is a connection, which nobody may have used yet.
    Connected(Arc<Link>),
    /// There is none.
    Refused(Fault),
}

/// One spoke.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The Spoke.
    pub known: Arc<Known>,
    /// What came of it.
    pub state: State,
    /// The generation of the Spoke that the state is for.
    generation: Option<i64>,
}

/// Notifies a subscriber which spokes have changed, each once however often it did.
#[derive(Debug)]
pub struct Changes {
    table: Arc<Table>,
    subscriber: Arc<Subscriber>,
}

#[derive(Debug)]
pub(crate) struct Table {
    // Guards entries and subscribers; taken before the lock of a subscriber, never held across an await.
    inner: Mutex<Inner>,
    /// Whether all Spokes of the hub are known.
    listed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<LogicalCluster, Entry>,
    subscribers: Vec<Weak<Subscriber>>,
}

#[derive(Debug, Default)]
struct Subscriber {
    /// Guards the set. A leaf of the lock order.
    changed: Mutex<BTreeSet<LogicalCluster>>,
    wake: Notify,
}

// === impl Spokes ===

impl Spokes {
    /// Knows no spoke before it is started.
    pub fn new(dialer: Dialer) -> Self {
        Self {
            dialer,
            table: Arc::new(Table::new()),
            sightings: Arc::default(),
            rejections: Arc::default(),
        }
    }

    /// Returns what is known of a spoke.
    pub fn get(&self, spoke: &LogicalCluster) -> Option<Entry> {
        self.table.inner.lock().entries.get(spoke).cloned()
    }

    /// Returns the way for requests of users to a spoke.
    ///
    /// # Errors
    /// Why there is none, which is also the case where its cluster is not the one that the Spoke is for.
    pub fn route(&self, spoke: &LogicalCluster) -> Result<Arc<Link>, Fault> {
        let inner = self.table.inner.lock();
        let entry = inner.entries.get(spoke).ok_or(Fault::Pending)?;
        if let Some(fault) = &entry.known.refused {
            return Err(fault.clone());
        }
        match &entry.state {
            State::Connected(link) => Ok(Arc::clone(link)),
            State::Refused(fault) => Err(fault.clone()),
            State::Embedded => Err(Fault::Embedded),
            State::Pending => Err(Fault::Pending),
        }
    }

    /// Returns what a spoke makes the hub hold, whichever part of the hub holds it.
    pub fn budget(&self, spoke: &LogicalCluster) -> Arc<Budget> {
        self.dialer.budget(spoke)
    }

    /// Returns the clusters that were found.
    pub const fn sightings(&self) -> &Arc<Sightings> {
        &self.sightings
    }

    /// Returns every spoke that has a Spoke.
    pub fn names(&self) -> BTreeSet<LogicalCluster> {
        self.table.clusters()
    }

    /// Notes that the cluster of a spoke refused the hub's credential (401): where a plug-in gave it, that is asked for another one.
    pub fn reject(&self, spoke: &LogicalCluster) {
        self.rejections.names.lock().insert(spoke.clone());
        self.rejections.wake.notify_one();
    }

    /// Whether ClusterProfiles are clusters.
    pub fn reads_cluster_profiles(&self) -> bool {
        !self.dialer.policy().cluster_profile_namespaces.is_empty()
    }

    pub(crate) const fn rejections(&self) -> &Arc<Rejections> {
        &self.rejections
    }

    pub(crate) const fn parts(&self) -> (&Dialer, &Arc<Table>) {
        (&self.dialer, &self.table)
    }

    /// Waits until every Spoke of the hub is known, also where there is none.
    pub async fn listed(&self) {
        let mut listed = self.table.listed.subscribe();
        // The sender lives as long as the table.
        let _listed = listed.wait_for(|listed| *listed).await.is_ok();
    }

    /// Returns a subscription that begins with every spoke that is known.
    pub fn subscribe(&self) -> Changes {
        let mut inner = self.table.inner.lock();
        let known = inner.entries.keys().cloned().collect();
        let subscriber = Arc::new(Subscriber {
            changed: Mutex::new(known),
            wake: Notify::new(),
        });
        inner.subscribers.push(Arc::downgrade(&subscriber));
        Changes {
            table: Arc::clone(&self.table),
            subscriber,
        }
    }
}

// === impl Rejections ===

impl Rejections {
    /// Waits for refused credentials and takes their spokes. There is one caller.
    ///
    /// # Cancel safety
    /// Cancel safe: the names are taken only in the poll that returns them.
    pub(crate) async fn next(&self) -> BTreeSet<LogicalCluster> {
        loop {
            let names = std::mem::take(&mut *self.names.lock());
            if !names.is_empty() {
                return names;
            }
            self.wake.notified().await;
        }
    }
}

// === impl Known ===

impl Known {
    pub(crate) fn of(object: Arc<RawObject>) -> Self {
        let unreadable = |error: &dyn fmt::Display| Fault::Unreadable(error.to_string());
        let value = object.value().map_err(|error| unreadable(&error));
        let spoke =
            value.and_then(|value| Spoke::from_value(&value).map_err(|error| unreadable(&error)));
        let status = spoke.as_ref().ok().and_then(|spoke| spoke.status.as_ref());
        let refused = status.and_then(|status| identity::refusal(&status.conditions));
        let is_reachable = status.is_some_and(|status| {
            let mut conditions = status.conditions.iter();
            conditions.any(|it| it.type_ == keys::CONDITION_REACHABLE && it.status == "True")
        });
        Self {
            object,
            spoke,
            refused,
            is_reachable,
        }
    }
}

// === impl State ===

impl PartialEq for State {
    /// Links are equal only where they are the same one.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pending, Self::Pending) | (Self::Embedded, Self::Embedded) => true,
            (Self::Connected(link), Self::Connected(other)) => Arc::ptr_eq(link, other),
            (Self::Refused(fault), Self::Refused(other)) => fault == other,
            _ => false,
        }
    }
}

impl State {
    fn end(&self) {
        if let Self::Connected(link) = self {
            link.end();
        }
    }
}

// === impl Entry ===

impl Entry {
    /// Whether the state is that of the Spoke as it is now, and not of an older one.
    pub fn is_current(&self) -> bool {
        self.generation == Some(self.known.object.generation)
    }

    /// Whether it was suspended after a generation.
    fn is_suspended_since(&self, generation: i64) -> bool {
        let is_later = self.generation.is_some_and(|it| it > generation);
        is_later && self.state == State::Refused(Fault::Suspended)
    }
}

// === impl Changes ===

impl Changes {
    /// Waits until something has changed, and returns which spokes: also those that are gone. The first answer comes once
    /// all Spokes of the hub are known, and has all of them.
    ///
    /// # Cancel safety
    /// Cancel safe: the names are taken only in the poll that returns them.
    pub async fn next(&self) -> BTreeSet<LogicalCluster> {
        let mut listed = self.table.listed.subscribe();
        // The sender lives as long as the table.
        let _listed = listed.wait_for(|listed| *listed).await.is_ok();
        loop {
            let changed = std::mem::take(&mut *self.subscriber.changed.lock());
            if !changed.is_empty() {
                return changed;
            }
            self.subscriber.wake.notified().await;
        }
    }
}

// === impl Table ===

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            inner: Mutex::default(),
            listed: watch::Sender::new(false),
        }
    }

    /// Returns the Spoke of a spoke.
    pub(crate) fn known(&self, spoke: &LogicalCluster) -> Option<Arc<Known>> {
        let inner = self.inner.lock();
        inner.entries.get(spoke).map(|it| Arc::clone(&it.known))
    }

    /// Returns what came of connecting a spoke.
    pub(crate) fn state(&self, spoke: &LogicalCluster) -> Option<State> {
        let inner = self.inner.lock();
        inner.entries.get(spoke).map(|it| it.state.clone())
    }

    /// Returns the spokes whose Spoke, if it can be read, is one of those meant.
    pub(crate) fn clusters_where(&self, is_meant: impl Fn(&Spoke) -> bool) -> Vec<LogicalCluster> {
        let inner = self.inner.lock();
        let entries = inner.entries.iter();
        let meant = entries.filter(|(_, it)| it.known.spoke.as_ref().is_ok_and(&is_meant));
        meant.map(|(spoke, _)| spoke.clone()).collect()
    }

    pub(crate) fn clusters(&self) -> BTreeSet<LogicalCluster> {
        self.inner.lock().entries.keys().cloned().collect()
    }

    /// Notes a Spoke as it is now. Returns how it was before.
    pub(crate) fn note(&self, spoke: &LogicalCluster, known: Known) -> Option<Arc<Known>> {
        let known = Arc::new(known);
        let mut inner = self.inner.lock();
        let before = if let Some(entry) = inner.entries.get_mut(spoke) {
            Some(std::mem::replace(&mut entry.known, known))
        } else {
            let entry = Entry {
                known,
                state: State::Pending,
                generation: None,
            };
            inner.entries.insert(spoke.clone(), entry);
            None
        };
        inner.tell(spoke);
        before
    }

    /// Forgets a Spoke that is gone, and ends its link.
    pub(crate) fn forget(&self, spoke: &LogicalCluster) {
        let mut inner = self.inner.lock();
        if let Some(entry) = inner.entries.remove(spoke) {
            entry.state.end();
            inner.tell(spoke);
        }
    }

    /// Notes what came of connecting a Spoke as it was known.
    pub(crate) fn settle(&self, spoke: &LogicalCluster, known: &Known, state: State) {
        let mut inner = self.inner.lock();
        let entry = inner.entries.get_mut(spoke);
        let Some(entry) = entry.filter(|it| it.known.object.uid == known.object.uid) else {
            state.end();
            return; // it is gone since
        };
        let generation = known.object.generation;
        let is_new = entry.state != state;
        if is_new && entry.is_suspended_since(generation) {
            state.end();
            return;
        }
        if !is_new && entry.generation == Some(generation) {
            return;
        }
        if is_new {
            entry.state.end();
        }
        entry.state = state;
        entry.generation = Some(generation);
        inner.tell(spoke);
    }

    /// Notes that every Spoke of the hub is known.
    pub(crate) fn set_listed(&self) {
        self.listed.send_replace(true);
    }
}

// === impl Inner ===

impl Inner {
    fn tell(&mut self, spoke: &LogicalCluster) {
        self.subscribers.retain(|subscriber| {
            let Some(subscriber) = subscriber.upgrade() else {
                return false;
            };
            subscriber.changed.lock().insert(spoke.clone());
            subscriber.wake.notify_one();
            true
        });
    }
}
