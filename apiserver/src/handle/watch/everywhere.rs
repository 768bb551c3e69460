//! A watch over all clusters: what becomes of it when a definition, or the caller's rights, change in one of them.
//!
//! Nothing ends the watch of the other clusters. What the caller begins to see is told as added, what is read by
//! another definition as modified, and what is seen no longer as deleted; each as of the revision up to which the watch has
//! told, so that what follows fits.
//!
//! # Invariants
//! - An object that was told is told to be deleted, also where its cluster no longer serves the version by then.
//! - Rights are asked for again every [`REVIEW_LIFETIME`]; of what is taken away only names are told.

use std::collections::HashMap;
use std::sync::Arc;

use api::LogicalCluster;
use storage::{Revision, Watcher};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until};

use super::{Bookmarks, Phase, WatchStream, encode};
use crate::authorize::REVIEW_LIFETIME;
use crate::call::Each;
use crate::objects::parse_key;
use crate::refusal::Refusal;
use crate::registry::{ClusterKind, ResourceScope};
use crate::watch::WatchEventType;

type Clusters = Arc<std::collections::BTreeMap<LogicalCluster, ClusterKind>>;

/// How a watch over all clusters reads the objects of each.
pub(super) struct Everywhere {
    each: Each,
    /// The definitions by which objects were told, by cluster.
    told: HashMap<LogicalCluster, Arc<ResourceScope>>,
    definitions: broadcast::Receiver<LogicalCluster>,
    clusters: watch::Receiver<Clusters>,
    look_again: Instant,
}

/// What may have changed.
pub(super) enum Woke {
    /// The definition of one cluster.
    One(LogicalCluster),
    /// Anything.
    All,
}

/// What becomes of the objects of a cluster.
enum Change {
    /// They are told by this definition from now on.
    Seen(Arc<ResourceScope>, WatchEventType),
    /// They are not told any more; this is what they were told by.
    Unseen(Arc<ResourceScope>),
}

/// Notes that an object cannot be shown.
pub(super) fn left_out(refusal: &Refusal) {
    tracing::debug!(error = %refusal, "object omitted from a watch over all clusters");
}

/// Whether objects look the same, and are selected the same, under two definitions of one cluster.
fn read_alike(before: &ResourceScope, now: &ResourceScope) -> bool {
    let (old, new) = (&before.version, &now.version);
    old.number == new.number
        || (old.hash == new.hash
            && old.lead == new.lead
            && old.selectable == new.selectable
            && before.rules.conversion == now.rules.conversion)
}

// === impl Everywhere ===

impl Everywhere {
    pub(super) fn new(each: Each) -> Self {
        // Subscribed before the definitions are read: no change falls in between.
        let definitions = each.registry().definitions_named(&each.definition_name());
        let mut clusters = each.registry().clusters();
        clusters.mark_unchanged();
        let told = each.serving().into_iter().collect();
        Self {
            each,
            told,
            definitions,
            clusters,
            look_again: Instant::now() + REVIEW_LIFETIME,
        }
    }

    /// The definition by which an object is told: that of its cluster as it is now, or, where there is none any more, the
    /// last one, until its end has been told.
    pub(super) fn scope_of(&self, key: &[u8]) -> Option<Arc<ResourceScope>> {
        let cluster = parse_key(key)?.cluster;
        self.each
            .scope(cluster)
            .or_else(|| self.told.get(cluster).cloned())
    }

    /// Waits until something may have changed.
    ///
    /// # Cancel safety
    /// Nothing is lost: a change that was received is answered at once.
    pub(super) async fn wait(&mut self) -> Woke {
        loop {
            let look_again = async {
                if self.each.is_judged() {
                    sleep_until(self.look_again).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                changed = self.definitions.recv() => match changed {
                    Ok(cluster) => return Woke::One(cluster),
                    Err(broadcast::error::RecvError::Lagged(_)) => return Woke::All,
                    // The registry is gone, and the watch ends with the server.
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                },
                changed = self.clusters.changed() => match changed {
                    Ok(()) => return Woke::All,
                    Err(_closed) => std::future::pending().await,
                },
                () = look_again => return Woke::All,
            }
        }
    }

    /// Finds out what has changed.
    async fn changes(&mut self, woke: Woke) -> Vec<(LogicalCluster, Change)> {
        self.each.look_again().await;
        self.look_again = Instant::now() + REVIEW_LIFETIME;
        let mut clusters = match woke {
            Woke::One(cluster) => vec![cluster],
            Woke::All => {
                let serving = self.each.serving().into_iter().map(|(cluster, _)| cluster);
                serving.chain(self.told.keys().cloned()).collect()
            }
        };
        clusters.sort();
        clusters.dedup();
        let mut changes = Vec::new();
        for cluster in clusters {
            let now = self.each.scope(cluster.as_str());
            let before = match &now {
                Some(now) => self.told.insert(cluster.clone(), Arc::clone(now)),
                None => self.told.remove(&cluster),
            };
            let change = match (before, now) {
                (None, Some(now)) => Change::Seen(now, WatchEventType::Added),
                (Some(before), Some(now)) if !read_alike(&before, &now) => {
                    Change::Seen(now, WatchEventType::Modified)
                }
                (Some(before), None) => Change::Unseen(before),
                (Some(_), Some(_)) | (None, None) => continue,
            };
            changes.push((cluster, change));
        }
        changes
    }
}

// === impl WatchStream ===

impl WatchStream {
    /// Waits until the definitions are those under which events were written.
    pub(super) async fn catch_up(&self, events: &[Arc<storage::Event>]) {
        if let (Some(everywhere), Some(last)) = (&self.everywhere, events.last()) {
            let registry = Arc::clone(everywhere.each.registry());
            registry.reach(last.revision()).await;
        }
    }

    /// Returns what a change in one or several clusters means for this watcher.
    pub(super) async fn tell_clusters(
        &mut self,
        woke: Woke,
        mut watcher: Watcher,
        out: &mut Vec<u8>,
    ) -> Phase {
        let Some(everywhere) = &mut self.everywhere else {
            return Phase::Live(watcher);
        };
        let changes = everywhere.changes(woke).await;
        if changes.is_empty() {
            return Phase::Live(watcher);
        }
        let revision = watcher.progress();
        for (cluster, change) in &changes {
            if let Err(refusal) = self.tell_cluster(cluster, change, revision, out) {
                return self.fail_with(&refusal, out);
            }
        }
        if self.bookmarks == Bookmarks::Sent {
            // Objects carry older versions than the watcher has seen: it goes on from here.
            self.encoder
                .bookmark(out, &self.scope, revision, encode::Initial::Not);
        }
        Phase::Live(watcher)
    }

    fn tell_cluster(
        &mut self,
        cluster: &LogicalCluster,
        change: &Change,
        revision: Revision,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let Some(everywhere) = &self.everywhere else {
            return Ok(());
        };
        let (store, prefix) = (self.shared.store.as_ref(), &self.scope.rules.prefix);
        let entries = everywhere
            .each
            .of_cluster(store, prefix, cluster, revision)?;
        for entry in &entries {
            let (scope, event_type) = match change {
                Change::Seen(scope, event_type) => (scope, Some(*event_type)),
                Change::Unseen(scope) => (scope, None),
            };
            // One that cannot be judged was not told either.
            if !self.selection.matches(scope, entry).unwrap_or_default() {
                continue;
            }
            let told = match event_type {
                Some(event_type) => self.encoder.entry(out, scope, event_type, entry),
                None => self.encoder.gone(out, scope, entry, revision),
            };
            if let Err(refusal) = told {
                left_out(&refusal);
            }
        }
        Ok(())
    }
}
