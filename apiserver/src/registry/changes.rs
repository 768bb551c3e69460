//! Who is told which definitions have changed.
//!
//! A watch over all clusters follows the definitions of one name. There are as many of them as kinds, so that each is told of its
//! own alone: what a definition costs would otherwise grow with how many there are.

use std::collections::HashMap;

use api::LogicalCluster;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use super::follow::DefinitionChanged;

/// How many changes of definitions may wait for a follower of all; who lags looks at all of them.
const CHANGES_MAX: usize = 1024;

/// How many changes may wait for a follower of one name.
const CHANGES_OF_ONE_MAX: usize = 16;

/// The followers of definitions.
#[derive(Debug)]
pub(super) struct Changes {
    all: broadcast::Sender<DefinitionChanged>,
    /// Those of one name, `<plural>.<group>`. Guards the map alone.
    of_name: Mutex<HashMap<String, broadcast::Sender<LogicalCluster>>>,
}

// === impl Changes ===

impl Default for Changes {
    fn default() -> Self {
        Self {
            all: broadcast::Sender::new(CHANGES_MAX),
            of_name: Mutex::default(),
        }
    }
}

impl Changes {
    /// Tells the followers of a change.
    pub(super) fn tell(&self, changed: DefinitionChanged) {
        if let Some(followers) = self.of_name.lock().get(&changed.name) {
            // Where nobody listens any more, nobody misses it.
            let _told = followers.send(changed.cluster.clone());
        }
        // Nobody listens before the controller starts; it begins with all of them.
        let _told = self.all.send(changed);
    }

    /// Follows all definitions.
    pub(super) fn follow_all(&self) -> broadcast::Receiver<DefinitionChanged> {
        self.all.subscribe()
    }

    /// Follows the definitions of one name: in which cluster one has changed.
    pub(super) fn follow(&self, name: &str) -> broadcast::Receiver<LogicalCluster> {
        let mut of_name = self.of_name.lock();
        // Without those that nobody follows any more.
        of_name.retain(|_, followers| followers.receiver_count() > 0);
        let followers = of_name
            .entry(name.to_owned())
            .or_insert_with(|| broadcast::Sender::new(CHANGES_OF_ONE_MAX));
        followers.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(cluster: &str, name: &str) -> DefinitionChanged {
        DefinitionChanged {
            cluster: cluster.parse().expect("a cluster"),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_follower_of_one_name_is_told_of_that_alone() {
        let changes = Changes::default();
        let (mut all, mut one) = (changes.follow_all(), changes.follow("widgets.example.com"));
        for name in ["gadgets.example.com", "widgets.example.com"] {
            changes.tell(changed("east", name));
        }
        assert_eq!(
            one.try_recv().expect("a change").as_str(),
            "east",
            "its own"
        );
        assert!(one.try_recv().is_err(), "nothing of others");
        assert_eq!(all.len(), 2, "who follows all is told of both");
        drop(all.try_recv());
    }

    #[test]
    fn names_that_nobody_follows_are_not_kept() {
        let changes = Changes::default();
        drop(changes.follow("widgets.example.com"));
        changes.tell(changed("east", "widgets.example.com"));
        let _followed = changes.follow("gadgets.example.com");
        let kept: Vec<String> = changes.of_name.lock().keys().cloned().collect();
        assert_eq!(kept, ["gadgets.example.com"], "the other has no follower");
    }
}
