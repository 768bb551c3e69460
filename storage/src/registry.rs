//! Finds the watchers of a key.
//!
//! Nearly all watchers watch a prefix, or one key. Prefixes are found by looking up the beginnings
//! of the key in a hash map; only those lengths are tried at which some prefix ends, and only where
//! the key has the byte there that such a prefix ends with. So with thousands of clusters and their
//! many lengths of names, a key of a path costs about as many look-ups as it has slashes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::key::{Key, KeyRange, Shape};
use crate::watch::Mailbox;

/// The live watchers.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    exact: HashMap<Key, Members>,
    prefixes: HashMap<Key, Members>,
    /// How many prefixes have this length and this last byte.
    endings: BTreeMap<(usize, Option<u8>), usize>,
    others: Members,
    next_id: u64,
    count: usize,
}

/// Names a watcher within its registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatcherId(u64);

type Members = BTreeMap<WatcherId, Arc<Mailbox>>;

// === impl Registry ===

impl Registry {
    /// How many watchers there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds a watcher.
    pub(crate) fn insert(&mut self, mailbox: Arc<Mailbox>) -> WatcherId {
        let id = WatcherId(self.next_id);
        self.next_id = self.next_id.saturating_add(1);
        self.count = self.count.saturating_add(1);
        let start = mailbox.range().start.clone();
        let members = match mailbox.range().shape() {
            Shape::Exact(_) => self.exact.entry(start).or_default(),
            Shape::Prefix(prefix) => {
                let ending = ending(prefix);
                let members = self.prefixes.entry(start).or_default();
                if members.is_empty() {
                    let count = self.endings.entry(ending).or_default();
                    *count = count.saturating_add(1);
                }
                members
            }
            Shape::Other => &mut self.others,
        };
        members.insert(id, mailbox);
        id
    }

    /// Takes a watcher out, if it is still in.
    pub(crate) fn remove(&mut self, range: &KeyRange, id: WatcherId) {
        let gone = match range.shape() {
            Shape::Exact(key) => remove_member(&mut self.exact, key, id).is_some(),
            Shape::Prefix(prefix) => match remove_member(&mut self.prefixes, prefix, id) {
                Some(Rest::Empty) => {
                    self.forget_ending(prefix);
                    true
                }
                rest => rest.is_some(),
            },
            Shape::Other => self.others.remove(&id).is_some(),
        };
        self.count = self.count.saturating_sub(usize::from(gone));
    }

    /// Calls `each` for every watcher of a key.
    pub(crate) fn matching(&self, key: &[u8], mut each: impl FnMut(WatcherId, &Arc<Mailbox>)) {
        if let Some(members) = self.exact.get(key) {
            for (id, mailbox) in members {
                each(*id, mailbox);
            }
        }
        for (length, last) in self.endings.keys() {
            let Some(beginning) = key.get(..*length) else {
                break;
            };
            if beginning.last() != last.as_ref() {
                continue;
            }
            if let Some(members) = self.prefixes.get(beginning) {
                for (id, mailbox) in members {
                    each(*id, mailbox);
                }
            }
        }
        for (id, mailbox) in &self.others {
            if mailbox.range().contains(key) {
                each(*id, mailbox);
            }
        }
    }

    /// Takes all watchers out.
    pub(crate) fn drain(&mut self) -> Vec<Arc<Mailbox>> {
        let all = std::mem::replace(
            self,
            Self {
                next_id: self.next_id,
                ..Self::default()
            },
        );
        let shaped = all.exact.into_values().chain(all.prefixes.into_values());
        shaped
            .flat_map(BTreeMap::into_values)
            .chain(all.others.into_values())
            .collect()
    }

    fn forget_ending(&mut self, prefix: &[u8]) {
        let ending = ending(prefix);
        if let Some(count) = self.endings.get_mut(&ending) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.endings.remove(&ending);
            }
        }
    }
}

/// Whether members are left.
#[derive(Debug)]
enum Rest {
    Empty,
    Some,
}

fn remove_member(map: &mut HashMap<Key, Members>, key: &[u8], id: WatcherId) -> Option<Rest> {
    let members = map.get_mut(key)?;
    members.remove(&id)?;
    if members.is_empty() {
        map.remove(key);
        return Some(Rest::Empty);
    }
    Some(Rest::Some)
}

fn ending(prefix: &[u8]) -> (usize, Option<u8>) {
    (prefix.len(), prefix.last().copied())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::revision::Revision;

    fn mailbox(range: &KeyRange) -> Arc<Mailbox> {
        Arc::new(Mailbox::new(range.clone(), Revision(0)))
    }

    fn range(kind: u8, text: &str) -> KeyRange {
        match kind % 3 {
            0 => KeyRange::prefix(text),
            1 => KeyRange::exact(text),
            _ => KeyRange {
                start: Key::from(text),
                end: Some(Key::from("/b/c")),
            },
        }
    }

    fn found(registry: &Registry, key: &[u8]) -> Vec<WatcherId> {
        let mut ids = Vec::new();
        registry.matching(key, |id, _| ids.push(id));
        ids.sort_unstable();
        ids
    }

    proptest! {
        /// The model asks every range whether it contains the key.
        #[test]
        fn the_watchers_of_a_key_are_those_whose_range_contains_it(
            watchers in proptest::collection::vec((any::<u8>(), "(/|[abc]){0,4}"), 0..30),
            removed in proptest::collection::vec(any::<bool>(), 30),
            key in "(/|[abc]){0,5}",
        ) {
            let mut registry = Registry::default();
            let mut model = Vec::new();
            for (kind, text) in watchers {
                let range = range(kind, &text);
                let id = registry.insert(mailbox(&range));
                model.push((id, range));
            }
            let mut gone = removed.iter();
            model.retain(|(id, range)| {
                let stays = !gone.next().unwrap();
                if !stays {
                    registry.remove(range, *id);
                }
                stays
            });
            let want: Vec<_> = model
                .iter()
                .filter(|(_, range)| range.contains(key.as_bytes()))
                .map(|(id, _)| *id)
                .collect();
            prop_assert_eq!(found(&registry, key.as_bytes()), want);
            prop_assert_eq!(registry.count(), model.len());
        }
    }

    #[test]
    fn removing_twice_removes_once() {
        let mut registry = Registry::default();
        let range = KeyRange::prefix("/a/");
        let first = registry.insert(mailbox(&range));
        let second = registry.insert(mailbox(&range));
        registry.remove(&range, first);
        registry.remove(&range, first);
        assert_eq!(found(&registry, b"/a/x"), [second]);
        assert_eq!(registry.count(), 1);
        assert_eq!(registry.drain().len(), 1);
        assert_eq!(registry.count(), 0);
    }
}
