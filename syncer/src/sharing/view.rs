//! What the Leases say, as the watch has delivered them. Pure but for the time, which is passed in.
//!
//! # Invariants
//! - How old a Lease is, is measured from when this process saw it change: clocks of machines are not compared.
//! - A holder that has no Lease of a replica is gone for good: it was there before it held anything, all Leases come by one
//!   watch in the order of their commits, and no replica has the name of another.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use api::LogicalCluster;
use client::reflector::{Event, RawObject};
use tokio::time::Instant;

use super::lease::{Lease, Purpose};

/// All Leases that matter.
#[derive(Debug, Default)]
pub(super) struct View {
    replicas: BTreeMap<String, Seen>,
    clusters: BTreeMap<LogicalCluster, Lease>,
    is_listed: bool,
}

/// A Lease of a replica, and since when it is as it is.
#[derive(Debug)]
struct Seen {
    lease: Lease,
    since: Instant,
}

// === impl View ===

impl View {
    /// Takes up what the watch delivers.
    pub(super) fn take(&mut self, event: Event, now: Instant) {
        match event {
            Event::Restarted { objects, .. } => {
                let leases: Vec<Lease> = objects.iter().filter_map(|it| Lease::of(it)).collect();
                let names: BTreeSet<&str> = leases.iter().map(|it| it.name.as_str()).collect();
                self.replicas
                    .retain(|name, _| names.contains(name.as_str()));
                self.clusters.clear();
                for lease in leases {
                    self.put(lease, now);
                }
                self.is_listed = true;
            }
            Event::Applied(object) => {
                if let Some(lease) = Lease::of(&object) {
                    self.put(lease, now);
                }
            }
            Event::Deleted(object) => self.remove(&object),
            Event::Interrupted(_) | Event::Resumed => {}
        }
    }

    /// Notes a Lease; nothing where a later state of it is known.
    pub(super) fn put(&mut self, lease: Lease, now: Instant) {
        match Purpose::of(&lease.name) {
            Some(Purpose::Replica) => {
                let known = self.replicas.get(&lease.name);
                if known.is_none_or(|known| known.lease.revision < lease.revision) {
                    let seen = Seen { lease, since: now };
                    self.replicas.insert(seen.lease.name.clone(), seen);
                }
            }
            Some(Purpose::Cluster(cluster)) => {
                let known = self.clusters.get(&cluster);
                if known.is_none_or(|known| known.revision < lease.revision) {
                    self.clusters.insert(cluster, lease);
                }
            }
            None => {}
        }
    }

    fn remove(&mut self, object: &Arc<RawObject>) {
        match Purpose::of(&object.name) {
            Some(Purpose::Replica) => {
                let known = self.replicas.get(&object.name);
                if known.is_some_and(|known| known.lease.uid == object.uid) {
                    self.replicas.remove(&object.name);
                }
            }
            Some(Purpose::Cluster(cluster)) => {
                let known = self.clusters.get(&cluster);
                if known.is_some_and(|known| known.uid == object.uid) {
                    self.clusters.remove(&cluster);
                }
            }
            None => {}
        }
    }

    /// Whether all Leases were seen once.
    pub(super) const fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Returns the replicas that take part.
    pub(super) fn members(&self) -> BTreeSet<String> {
        let holders = self.replicas.values().map(|it| it.lease.holder.clone());
        holders.filter(|holder| !holder.is_empty()).collect()
    }

    /// Returns the Leases of replicas that have not changed for so long, or that nobody has.
    pub(super) fn expired(&self, age: Duration, now: Instant) -> Vec<Lease> {
        let seen = self.replicas.values();
        seen.filter(|it| it.lease.holder.is_empty() || now.duration_since(it.since) >= age)
            .map(|it| it.lease.clone())
            .collect()
    }

    /// Returns who holds which logical cluster, root included.
    pub(super) fn holders(&self) -> BTreeMap<LogicalCluster, String> {
        let members = self.members();
        let held = self.clusters.iter();
        held.filter(|(_, lease)| members.contains(&lease.holder))
            .map(|(cluster, lease)| (cluster.clone(), lease.holder.clone()))
            .collect()
    }

    /// Returns the Lease of a logical cluster.
    pub(super) fn lease(&self, cluster: &LogicalCluster) -> Option<&Lease> {
        self.clusters.get(cluster)
    }

    /// Returns the logical clusters that have a Lease.
    pub(super) fn clusters(&self) -> impl Iterator<Item = (&LogicalCluster, &Lease)> {
        self.clusters.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: &str, holder: &str, revision: u64) -> Lease {
        Lease {
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            revision,
            holder: holder.to_owned(),
            transitions: 0,
        }
    }

    #[test]
    fn a_replica_is_as_old_as_its_last_change_and_its_spokes_are_its_own_while_it_is_there() {
        let (start, age) = (Instant::now(), Duration::from_secs(7));
        let mut view = View::default();
        view.put(lease("wheelhouse-replica-1", "one", 1), start);
        view.put(lease("wheelhouse-replica-2", "two", 2), start);
        view.put(lease("wheelhouse-spoke-east", "one", 3), start);
        view.put(lease("wheelhouse-spoke-west", "gone", 4), start);
        let east: LogicalCluster = "east".parse().expect("a name");
        let held = BTreeMap::from([(east.clone(), "one".to_owned())]);
        assert_eq!(view.holders(), held, "who is gone holds nothing");

        let later = start + age;
        view.put(lease("wheelhouse-replica-2", "two", 5), later);
        view.put(lease("wheelhouse-replica-1", "one", 1), later);
        let expired = view.expired(age, later);
        let names: Vec<&str> = expired.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["wheelhouse-replica-1"], "it is as it was");

        view.put(lease("wheelhouse-replica-1", "", 6), later);
        assert_eq!(view.members().len(), 1);
        assert!(view.holders().is_empty(), "its holder was sent away");
        assert!(view.lease(&east).is_some());
    }
}
