//! Turns: an instance is worked on by one worker at a time, whatever connections there are to its cluster.
//!
//! A target that takes the place of another, because a credential was changed, has workers of its own. Those of the one before
//! finish what they have begun, and their ledger and status would be written between those of the new ones.

use std::{collections::HashSet, hash::Hash, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Who works on what.
#[derive(Debug)]
pub(crate) struct Turns<K> {
    // Guards the set; never held across an await.
    taken: Mutex<HashSet<K>>,
    freed: Notify,
}

/// A turn; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<K: Eq + Hash> {
    turns: Arc<Turns<K>>,
    key: K,
}

// === impl Turns ===

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self {
            taken: Mutex::default(),
            freed: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Turns<K> {
    /// Waits until nobody works on a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a turn is taken only in the poll that returns it.
    pub(crate) async fn take(self: &Arc<Self>, key: K) -> Turn<K> {
        loop {
            let freed = self.freed.notified();
            if self.taken.lock().insert(key.clone()) {
                let turns = Arc::clone(self);
                return Turn { turns, key };
            }
            freed.await;
        }
    }

    /// Waits until nobody works on a key of these. Whether somebody begins again is up to the caller.
    pub(crate) async fn idle(&self, is_meant: impl Fn(&K) -> bool) {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            if !self.taken.lock().iter().any(&is_meant) {
                return;
            }
            freed.await;
        }
    }
}

// === impl Turn ===

impl<K: Eq + Hash> Drop for Turn<K> {
    fn drop(&mut self) {
        self.turns.taken.lock().remove(&self.key);
        self.turns.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn one_at_a_time_has_a_key() {
        let turns = Arc::new(Turns::default());
        let first = turns.take("a").now_or_never().expect("nobody has it");
        let other = turns.take("b").now_or_never();
        assert!(other.is_some(), "another key");
        let mut second = Box::pin(turns.take("a"));
        assert!((&mut second).now_or_never().is_none(), "it is taken");
        drop(first);
        assert!(other.is_some(), "another key is not in the way");
        let mut idle = Box::pin(turns.idle(|key| *key == "b"));
        assert!((&mut idle).now_or_never().is_none(), "somebody works on it");
        drop(other);
        assert!((&mut idle).now_or_never().is_some(), "nobody does any more");
        assert!((&mut second).now_or_never().is_some(), "it is free again");
    }
}
