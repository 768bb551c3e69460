//! The one thread that writes.
//!
//! ```text
//!   callers ──► queue ──► [ take all ► judge ► append + sync ► publish ► answer ] ──► again
//!               bounded     while this group syncs, the next one gathers in the queue
//! ```
//!
//! # Invariants
//! - Answers follow the publication, and the publication follows the sync.
//! - Once poisoned, the queue takes nothing, and the log is never written again.
//! - However the thread ends, the queue is closed, whoever waits is answered, and watches end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Config;
use super::group::{Group, Submission};
use super::log::{Log, LogError, States, stored_bytes};
use super::queue::{Gathering, Queue, Taken};
use super::retention::Retention;
use crate::error::Error;
use crate::event::{Event, EventKind};
use crate::metrics::{Metrics, Statistics};
use crate::revision::Revision;
use crate::view::View;

/// What an idle thread forgets at a time, in events, so that a writer who comes then waits a few
/// milliseconds at most.
const FORGET_IDLE: usize = 1024;

/// Events forgotten for each write of a group. A write is one event, so two outrun any load.
const FORGOTTEN_PER_WRITE: usize = 2;

/// What callers and the commit thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    queue: Queue,
    view: View,
    metrics: Metrics,
    live: AtomicU64,
    garbage: AtomicU64,
    /// The last group was refused because the disk is full.
    full: AtomicBool,
}

/// What the commit thread owns. With the log it drops the directory's lock.
#[derive(Debug)]
pub(crate) struct Committer {
    log: Log,
    /// Events may lie below the floor still.
    forgetting: bool,
    gathering: Option<Gathering>,
    retention: Retention,
    config: Config,
    shared: Arc<Shared>,
}

/// Closes the queue when the thread ends, in whatever way.
struct Closing<'a>(&'a Shared);

// === impl Shared ===

impl Shared {
    pub(crate) fn new(view: View, metrics: Metrics) -> Self {
        Self {
            queue: Queue::default(),
            view,
            metrics,
            live: AtomicU64::new(0),
            garbage: AtomicU64::new(0),
            full: AtomicBool::new(false),
        }
    }

    /// What readers see.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// What writers hand over.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// What was counted since the engine was opened.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Sizes as they are now.
    pub(crate) fn statistics(&self) -> Statistics {
        let window = self.view.window_size();
        Statistics {
            revision: self.view.revision(),
            floor: self.view.floor(),
            keys: self.view.live(),
            history_events: window.events,
            history_bytes: window.bytes,
            watchers: window.watchers,
            queued: self.queue.len(),
            live_bytes: self.live.load(Ordering::Relaxed),
            garbage_bytes: self.garbage.load(Ordering::Relaxed),
            sessions: 0,
        }
    }

    /// Logs once that writes are refused for lack of space.
    fn note_full(&self, error: &Error) {
        if !self.full.swap(true, Ordering::Relaxed) {
            tracing::error!(
                error = chain_of(error),
                "disk is full: writes are refused until space is freed"
            );
        }
    }

    /// Takes nothing more up, because the log has failed.
    fn poison(&self, error: &Error) {
        if self.queue.health().is_ok() {
            tracing::error!(
                error = chain_of(error),
                "disk failed: no write is accepted until a restart"
            );
        }
        self.queue.refuse_all(error);
    }
}

impl States for Shared {
    fn state_at(&self, key: &[u8], at: Revision) -> Option<Revision> {
        self.view.state_at(key, at)
    }
}

// === impl Committer ===

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, mut log: Log, config: Config) -> Self {
        let retention = Retention::new(config.history);
        log.start_upkeep(Arc::clone(&shared) as Arc<dyn States>);
        Self {
            log,
            forgetting: false,
            gathering: None,
            retention,
            config,
            shared,
        }
    }

    /// Commits until the queue is closed and empty. Once the disk has failed, only waits for the
    /// closing: reads go on, and the directory stays locked for as long as they do.
    pub(crate) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let closing = Closing(&shared);
        loop {
            let patience = if self.forgetting {
                Duration::ZERO
            } else {
                self.config.tick
            };
            let taken = shared
                .queue
                .take(patience, self.gathering, &*self.config.clock);
            if taken.closed && taken.is_empty() {
                break;
            }
            if let Err(error) = self.turn(taken) {
                shared.poison(&error);
                shared.queue.wait_for_close();
                drop(self);
                drop(closing);
                return;
            }
        }
        if let Err(error) = self.log.close() {
            tracing::warn!(
                error = chain_of(&error),
                "cannot close the log cleanly: the next start recovers it as after a crash"
            );
        }
        // First the log and the directory's lock, so that whoever sees the watches end can open.
        drop(self);
        drop(closing);
    }

    /// Does what was taken, and a share of the upkeep.
    fn turn(&mut self, taken: Taken) -> Result<(), Error> {
        let idle = taken.submissions.is_empty();
        let writes = taken
            .submissions
            .iter()
            .map(|batch| batch.proposals.len())
            .sum::<usize>();
        if !idle {
            let (count, began) = (taken.submissions.len(), self.config.clock.elapsed());
            self.commit(taken.submissions)?;
            self.gathering = Gathering::after(count, began, self.config.clock.elapsed());
        }
        for (floor, responder) in taken.compactions {
            let raised = self.raise_floor(floor);
            match raised {
                Err(error @ Error::StorageFull { .. }) => responder.send(Err(error)),
                raised => {
                    raised?;
                    responder.send(Ok(self.log.floor()));
                }
            }
        }
        match self.retain() {
            // The floor rises once there is space.
            Err(Error::StorageFull { .. }) => {}
            retained => retained?,
        }
        self.forget(if idle {
            FORGET_IDLE
        } else {
            writes.saturating_mul(FORGOTTEN_PER_WRITE)
        });
        if idle && !self.forgetting {
            self.log.idle();
        }
        let (live, garbage) = self.log.live_and_garbage_bytes();
        self.shared.live.store(live, Ordering::Relaxed);
        self.shared.garbage.store(garbage, Ordering::Relaxed);
        self.log
            .failure()
            .map_or(Ok(()), |source| Err(Error::Durability { source }))
    }

    /// Makes a group durable, shows it, and answers it. Where the disk is full it answers that, and
    /// nothing happened.
    fn commit(&mut self, submissions: Vec<Submission>) -> Result<(), Error> {
        let shared = &self.shared;
        let group = Group::judge(submissions, self.log.revision(), |key| shared.view.get(key));
        let mut watchers = None;
        if let (Some(first), Some(last)) = (group.entries.first(), group.entries.last()) {
            let (revision, writes) = (last.modified(), group.entries.len());
            let span = tracing::debug_span!("commit", revision = revision.0, write_count = writes);
            let _entered = span.enter();
            // Each batch that was accepted has a revision, and they follow each other.
            let batches = revision
                .0
                .saturating_sub(first.modified().0)
                .saturating_add(1);
            let began = self.config.clock.elapsed();
            match self.log.append(&group.entries).map_err(refused) {
                Ok(()) => {}
                Err(error @ Error::StorageFull { .. }) => {
                    self.shared.note_full(&error);
                    group.fail(&error);
                    return Ok(());
                }
                Err(error) => {
                    // Whoever hears of the failure finds the store unhealthy.
                    shared.poison(&error);
                    group.fail(&error);
                    return Err(error);
                }
            }
            shared.full.store(false, Ordering::Relaxed);
            let took = self.config.clock.elapsed().saturating_sub(began);
            shared.metrics.committed(batches, writes, took);
            watchers = shared.view.publish(&group.entries);
        }
        group.answer();
        // After the answers, which somebody waits for: each that is woken may take this thread's processor.
        drop(watchers);
        Ok(())
    }

    /// Lets the floor follow the clock, and the memory that history takes.
    fn retain(&mut self) -> Result<(), Error> {
        let now = self.config.clock.elapsed();
        self.retention.observe(now, self.log.revision());
        if let Some(floor) = self.retention.floor(now) {
            self.raise_floor(floor)?;
        }
        // While events are being forgotten, their weight is not gone yet.
        let excess = self.shared.view.floor_for(self.config.history_bytes_max);
        if let Some(floor) = excess.filter(|_| !self.forgetting) {
            tracing::warn!(
                revision = floor.0,
                "history exceeds its memory limit: dropping the oldest part early"
            );
            self.raise_floor(floor)?;
        }
        Ok(())
    }

    fn raise_floor(&mut self, floor: Revision) -> Result<(), Error> {
        let before = self.log.floor();
        self.log.raise_floor(floor).map_err(refused)?;
        if self.log.floor() > before {
            self.shared.metrics.compactions.inc();
        }
        self.shared.view.raise_floor(self.log.floor());
        self.forgetting = true;
        Ok(())
    }

    /// Frees a part of what lies below the floor, in memory, and notes its records as garbage.
    fn forget(&mut self, count: usize) {
        if !self.forgetting {
            return;
        }
        let events = self.shared.view.forget(count);
        self.forgetting = events.len() == count;
        self.log
            .note_garbage(events.iter().flat_map(|event| garbage_of(event)));
    }
}

/// The records that are not needed once the floor has passed an event: revisions and sizes.
fn garbage_of(event: &Event) -> impl Iterator<Item = (Revision, u64)> {
    let deletion = (event.kind() == EventKind::Deleted).then(|| event.entry());
    let needless = event.previous().into_iter().chain(deletion);
    needless.map(|entry| (entry.modified(), stored_bytes(entry.record())))
}

/// What a failure of the log means to those who write. But for a full disk, it is the fate of all writes
/// from then on.
fn refused(error: LogError) -> Error {
    let full = error.is_full();
    let source = Arc::new(error);
    if full {
        Error::StorageFull { source }
    } else {
        Error::Durability { source }
    }
}

/// An error with all its causes.
fn chain_of(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

// === impl Closing ===

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.queue.close();
        self.0.queue.refuse_all(&Error::Closed);
        self.0.view.close();
    }
}
