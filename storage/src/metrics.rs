//! What an engine tells about itself: counts that it keeps as it works, and sizes that it is asked for.
//!
//! The numbers have no names here: whoever exposes them chooses those.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::revision::Revision;

/// Counts since the engine was opened. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Batches that were made durable.
    pub commits: Counter,
    /// Groups that were made durable, each with one sync; with etcd each batch is a group.
    pub groups: Counter,
    /// Writes in those groups.
    pub writes: Counter,
    /// Writes in each group.
    pub group_writes: Histogram,
    /// Seconds that it took to make a group durable: to write and sync it, or the transaction with etcd.
    pub commit_seconds: Histogram,
    /// Seconds that each sync of the log took. Empty with etcd, which syncs its own.
    pub sync_seconds: Histogram,
    /// Bytes written to the log, without what sweeps write. Zero with etcd.
    pub written_bytes: Counter,
    /// How often history was given up: the floor rose.
    pub compactions: Counter,
    /// Rewrites of segments of the log, without what nobody needs. Zero with etcd.
    pub sweeps: Counter,
}

/// Sizes of a store at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The latest revision that reads see.
    pub revision: Revision,
    /// The oldest readable revision.
    pub floor: Revision,
    /// Keys that there are.
    pub keys: u64,
    /// Events in the watch window.
    pub history_events: usize,
    /// What history takes beyond the current states.
    pub history_bytes: u64,
    /// Open watches.
    pub watchers: usize,
    /// Batches that wait to be committed.
    pub queued: usize,
    /// Bytes of records in the log that somebody may need. Zero with etcd.
    pub live_bytes: u64,
    /// Bytes of sealed segments that hold nothing needed. A sweep frees them once they are half of a
    /// segment. Zero with etcd.
    pub garbage_bytes: u64,
    /// Connections to etcd that came to be. Zero with a directory.
    pub sessions: u64,
}

// === impl Metrics ===

impl Metrics {
    /// Counts a group that was made durable.
    pub(crate) fn committed(&self, batches: u64, writes: usize, took: Duration) {
        let writes = u64::try_from(writes).unwrap_or(u64::MAX);
        self.commits.inc_by(batches);
        self.groups.inc();
        self.writes.inc_by(writes);
        self.group_writes
            .observe(f64::from(u32::try_from(writes).unwrap_or(u32::MAX)));
        self.commit_seconds.observe(took.as_secs_f64());
    }
}

impl Default for Metrics {
    fn default() -> Self {
        // From 50 µs, a sync of a disk with a battery, to 1.6 s, one that is about to fail.
        let seconds = || Histogram::new(exponential_buckets(0.000_05, 2.0, 16));
        Self {
            commits: Counter::default(),
            groups: Counter::default(),
            writes: Counter::default(),
            group_writes: Histogram::new(exponential_buckets(1.0, 2.0, 12)),
            commit_seconds: seconds(),
            sync_seconds: seconds(),
            written_bytes: Counter::default(),
            compactions: Counter::default(),
            sweeps: Counter::default(),
        }
    }
}
