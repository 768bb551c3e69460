//! Who depends on whom: the keys of dependents by the uid of their owner.

use std::collections::{BTreeSet, HashMap};

use storage::Key;

/// The dependents of every owner that some object names.
#[derive(Debug, Default)]
pub(super) struct Graph {
    dependents: HashMap<String, BTreeSet<Vec<u8>>>,
    owners: HashMap<Vec<u8>, Vec<String>>,
    /// Owners that wait for their dependents, by uid.
    waiting: HashMap<String, Key>,
}

// === impl Graph ===

impl Graph {
    /// Sets the owners of an object. Returns those that it had and that wait for their dependents: it may have left them,
    /// or block them no longer.
    pub(super) fn put(&mut self, key: &Key, owners: Vec<String>) -> Vec<Key> {
        let before = self.owners.get(key.as_bytes()).cloned().unwrap_or_default();
        let waiting = before.iter().filter_map(|uid| self.waiting.get(uid));
        let waiting = waiting.cloned().collect();
        for uid in before.iter().filter(|uid| !owners.contains(uid)) {
            self.unlink(key, uid);
        }
        for uid in &owners {
            self.dependents
                .entry(uid.clone())
                .or_default()
                .insert(key.to_vec());
        }
        if owners.is_empty() {
            self.owners.remove(key.as_bytes());
        } else {
            self.owners.insert(key.to_vec(), owners);
        }
        waiting
    }

    /// Takes an object out. Answers the owners that wait for such.
    pub(super) fn forget(&mut self, key: &Key) -> Vec<Key> {
        self.waiting.retain(|_, waiting| waiting != key);
        self.put(key, Vec::new())
    }

    /// Whether an object has owners.
    pub(super) fn knows(&self, key: &Key) -> bool {
        self.owners.contains_key(key.as_bytes())
    }

    /// The dependents of an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Key> {
        let keys = self.dependents.get(uid).into_iter().flatten();
        keys.map(|key| Key::copy_of(key)).collect()
    }

    /// Notes that an owner waits for its dependents.
    pub(super) fn wait(&mut self, uid: &str, key: &Key) {
        self.waiting.insert(uid.to_owned(), key.clone());
    }

    fn unlink(&mut self, key: &Key, uid: &str) {
        if let Some(dependents) = self.dependents.get_mut(uid) {
            dependents.remove(key.as_bytes());
            if dependents.is_empty() {
                self.dependents.remove(uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependents_come_and_go_and_owners_that_wait_hear_of_it() {
        let mut graph = Graph::default();
        let (owner, first, second) = (Key::from("/o"), Key::from("/a"), Key::from("/b"));
        assert_eq!(graph.put(&first, vec!["u".into()]), []);
        assert_eq!(graph.put(&second, vec!["u".into(), "v".into()]), []);
        assert_eq!(graph.dependents("u"), [first.clone(), second.clone()]);
        graph.wait("u", &owner);
        assert_eq!(
            graph.put(&second, vec!["v".into()]),
            std::slice::from_ref(&owner),
            "it left an owner that waits"
        );
        assert_eq!(graph.forget(&first), std::slice::from_ref(&owner));
        assert_eq!(graph.dependents("u"), []);
        assert!(!graph.knows(&first) && graph.knows(&second));
        assert_eq!(graph.forget(&owner), []);
        assert_eq!(graph.forget(&second), []);
        assert!(
            graph.dependents.is_empty() && graph.waiting.is_empty(),
            "{graph:?}"
        );
    }
}
