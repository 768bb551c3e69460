//! Who holds a kind, as it is stored.
//!
//! # Invariants
//! - What is kept here is what is stored: of a logical cluster that this process looks after, it alone writes records, one at a
//!   time; those of others are followed.

use std::collections::{BTreeMap, BTreeSet};

use api::{GroupResource, LogicalCluster};
use parking_lot::RwLock;

use super::served::DefinitionKey;

/// Which definition holds which kind.
#[derive(Debug, Default)]
pub(crate) struct KindClaims {
    // Guards both; never held across an await.
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    holders: BTreeMap<(LogicalCluster, GroupResource), Holder>,
    /// Definitions that were refused a kind, or hold it against root's: they are looked at again when that may change.
    contested: BTreeSet<DefinitionKey>,
}

/// The definition that holds a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// How a definition stands with its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds it, and nobody else wants it.
    Holds,
    /// It held it first, and this definition of root waits in its cluster.
    HoldsAgainst(DefinitionKey),
    /// This one holds it.
    Refused(DefinitionKey),
}

// === impl KindClaims ===

impl KindClaims {
    /// Returns the definition that holds a kind in a cluster, among those of the cluster itself.
    pub(crate) fn holder(
        &self,
        cluster: &LogicalCluster,
        kind: &GroupResource,
    ) -> Option<DefinitionKey> {
        let state = self.state.read();
        let holder = state.holders.get(&(cluster.clone(), kind.clone()))?;
        Some(DefinitionKey {
            cluster: cluster.clone(),
            name: holder.name.clone(),
        })
    }

    /// Returns whether a definition of a cluster holds any kind there.
    pub(crate) fn has_holders(&self, cluster: &LogicalCluster) -> bool {
        let state = self.state.read();
        let first = (cluster.clone(), GroupResource::new("", ""));
        let mut from = state.holders.range(first..);
        from.next().is_some_and(|((of, _), _)| of == cluster)
    }

    /// Returns whether a definition holds a kind.
    pub(crate) fn holds(&self, key: &DefinitionKey, kind: &GroupResource) -> bool {
        self.holder(&key.cluster, kind).as_ref() == Some(key)
    }

    /// Returns the definitions that have something to lose or to win when a kind changes hands in a cluster; in root, that is
    /// everywhere.
    pub(crate) fn concerned(
        &self,
        cluster: &LogicalCluster,
        kind: Option<&GroupResource>,
    ) -> BTreeSet<DefinitionKey> {
        let reaches = |other: &LogicalCluster| cluster.is_root() || other == cluster;
        let state = self.state.read();
        let holding = state
            .holders
            .iter()
            .filter(|((other, held), _)| reaches(other) && kind == Some(held))
            .map(|((other, _), holder)| DefinitionKey {
                cluster: other.clone(),
                name: holder.name.clone(),
            });
        let contested = state.contested.iter().filter(|key| reaches(&key.cluster));
        holding.chain(contested.cloned()).collect()
    }

    /// Returns the kinds that a definition holds.
    pub(crate) fn held_by(&self, key: &DefinitionKey) -> Vec<GroupResource> {
        let state = self.state.read();
        let of_cluster = state.holders.iter();
        of_cluster
            .filter(|((cluster, _), holder)| *cluster == key.cluster && holder.name == key.name)
            .map(|((_, kind), _)| kind.clone())
            .collect()
    }

    /// Notes how a definition stands with its kind.
    pub(crate) fn note(&self, key: &DefinitionKey, standing: &Standing) {
        let mut state = self.state.write();
        match standing {
            Standing::Holds => state.contested.remove(key),
            Standing::HoldsAgainst(_) | Standing::Refused(_) => state.contested.insert(key.clone()),
        };
    }

    /// Returns the record of a kind in a cluster.
    pub(crate) fn record(&self, cluster: &LogicalCluster, kind: &GroupResource) -> Option<Holder> {
        let state = self.state.read();
        state.holders.get(&(cluster.clone(), kind.clone())).cloned()
    }

    /// Notes a record that is stored.
    pub(crate) fn put(&self, cluster: &LogicalCluster, kind: GroupResource, holder: Holder) {
        let mut state = self.state.write();
        state.holders.insert((cluster.clone(), kind), holder);
    }

    /// Takes up all records of a cluster.
    pub(crate) fn replace(&self, cluster: &LogicalCluster, held: Vec<(GroupResource, Holder)>) {
        let mut state = self.state.write();
        state.holders.retain(|(of, _), _| of != cluster);
        for (kind, holder) in held {
            state.holders.insert((cluster.clone(), kind), holder);
        }
    }

    /// Returns all kinds that are held.
    pub(crate) fn all(&self) -> Vec<(LogicalCluster, GroupResource)> {
        self.state.read().holders.keys().cloned().collect()
    }

    /// Notes that a record is gone.
    pub(crate) fn remove(&self, cluster: &LogicalCluster, kind: &GroupResource) {
        let mut state = self.state.write();
        state.holders.remove(&(cluster.clone(), kind.clone()));
    }

    /// Forgets that a definition is contested.
    pub(crate) fn forget(&self, key: &DefinitionKey) {
        self.state.write().contested.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cluster: &str, name: &str) -> DefinitionKey {
        DefinitionKey {
            cluster: cluster.parse().expect("a cluster"),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_kind_of_root_concerns_everyone_and_a_local_one_its_own_cluster() {
        let claims = KindClaims::default();
        let kind = GroupResource::new("kro.run", "carts");
        let holders = [("root", "fleet"), ("east", "own"), ("west", "own")];
        for (cluster, name) in holders {
            let holder = Holder {
                name: name.to_owned(),
                uid: "u".to_owned(),
            };
            let cluster = cluster.parse().expect("a cluster");
            claims.put(&cluster, kind.clone(), holder);
        }
        claims.note(&key("east", "late"), &Standing::Refused(key("east", "own")));
        let concerned = |cluster: &str| {
            let cluster = cluster.parse().expect("a cluster");
            let concerned = claims.concerned(&cluster, Some(&kind));
            concerned.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(concerned("east"), [key("east", "late"), key("east", "own")]);
        assert_eq!(concerned("west"), [key("west", "own")]);
        assert_eq!(concerned("root").len(), 4);
        claims.note(&key("east", "late"), &Standing::Holds);
        assert_eq!(concerned("east"), [key("east", "own")]);
        assert!(claims.holds(&key("west", "own"), &kind));
        assert!(!claims.holds(&key("west", "fleet"), &kind));
    }
}
