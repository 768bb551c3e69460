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

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::directory::Directory;
use super::group::{Group, Submission};
use super::log::{Log, LogError, Row};
use super::queue::{Gathering, Queue, Taken};
use super::retention::Retention;
use super::{Config, Statistics};
use crate::error::Error;
use crate::event::{Event, EventKind};
use crate::revision::Revision;
use crate::view::View;

/// What an idle thread does at a time, so that a writer who comes then waits a few milliseconds at
/// most: events that it forgets, and rows of garbage that it deletes with one sync.
const FORGET_IDLE: usize = 1024;
const SWEEP_IDLE: usize = 128;

/// Events forgotten, and rows deleted, for each write of a group. Two keep pace with any load: a
/// write is one event, and makes two rows needless at most (the state before, a deletion itself).
const GARBAGE_PER_WRITE: usize = 2;

/// What callers and the commit thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    queue: Queue,
    view: View,
    groups: AtomicU64,
    writes: AtomicU64,
    garbage: AtomicU64,
}

/// What the commit thread owns. The log is dropped before the directory's lock: fields are dropped
/// in their order.
#[derive(Debug)]
pub(crate) struct Committer {
    log: Log,
    garbage: VecDeque<Row>,
    /// Events may lie below the floor still.
    forgetting: bool,
    gathering: Option<Gathering>,
    retention: Retention,
    config: Config,
    _directory: Option<Directory>,
    shared: Arc<Shared>,
}

/// Closes the queue when the thread ends, in whatever way.
struct Closing<'a>(&'a Shared);

// === impl Shared ===

impl Shared {
    pub(crate) fn new(view: View) -> Self {
        Self {
            queue: Queue::default(),
            view,
            groups: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            garbage: AtomicU64::new(0),
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
            groups: self.groups.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            garbage: self.garbage.load(Ordering::Relaxed),
        }
    }

    /// Takes nothing more up, because the log has failed.
    fn poison(&self, error: &Error) {
        if self.queue.health().is_ok() {
            tracing::error!(
                error = chain_of(error),
                "the disk failed, no write is taken any more"
            );
        }
        self.queue.refuse_all(error);
    }
}

// === impl Committer ===

impl Committer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        log: Log,
        config: Config,
        garbage: Vec<Row>,
        directory: Option<Directory>,
    ) -> Self {
        let retention = Retention::new(config.history);
        Self {
            log,
            garbage: garbage.into(),
            forgetting: false,
            gathering: None,
            retention,
            config,
            _directory: directory,
            shared,
        }
    }

    /// Commits until the queue is closed and empty. Once the disk has failed, only waits for the
    /// closing: reads go on, and the directory stays locked for as long as they do.
    pub(crate) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let closing = Closing(&shared);
        loop {
            let busy = self.forgetting || !self.garbage.is_empty();
            let patience = if busy {
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
                break;
            }
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
            self.raise_floor(floor)?;
            responder.send(Ok(self.log.floor()));
        }
        self.retain()?;
        self.forget(if idle {
            FORGET_IDLE
        } else {
            writes.saturating_mul(GARBAGE_PER_WRITE)
        });
        if idle && !self.garbage.is_empty() {
            let rows = take_front(&mut self.garbage, SWEEP_IDLE);
            self.log.append(&[], &rows).map_err(durability)?;
        }
        self.shared
            .garbage
            .store(self.garbage.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Makes a group durable, shows it, and answers it.
    fn commit(&mut self, submissions: Vec<Submission>) -> Result<(), Error> {
        let shared = &self.shared;
        let group = Group::judge(submissions, self.log.revision(), |key| shared.view.get(key));
        if !group.entries.is_empty() {
            let share = group.entries.len().saturating_mul(GARBAGE_PER_WRITE);
            let rows = take_front(&mut self.garbage, share);
            if let Err(error) = self.log.append(&group.entries, &rows).map_err(durability) {
                // Whoever hears of the failure finds the store unhealthy.
                shared.poison(&error);
                group.fail(&error);
                return Err(error);
            }
            shared.view.publish(&group.entries);
            shared.groups.fetch_add(1, Ordering::Relaxed);
            shared
                .writes
                .fetch_add(group.entries.len() as u64, Ordering::Relaxed);
        }
        group.answer();
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
                "history takes too much memory, forgetting early"
            );
            self.raise_floor(floor)?;
        }
        Ok(())
    }

    fn raise_floor(&mut self, floor: Revision) -> Result<(), Error> {
        self.log.raise_floor(floor).map_err(durability)?;
        self.shared.view.raise_floor(self.log.floor());
        self.forgetting = true;
        Ok(())
    }

    /// Frees a part of what lies below the floor, in memory, and notes its rows as garbage.
    fn forget(&mut self, count: usize) {
        if !self.forgetting {
            return;
        }
        let events = self.shared.view.forget(count);
        self.forgetting = events.len() == count;
        for event in &events {
            collect_garbage(event, &mut self.garbage);
        }
    }
}

/// The rows that are not needed once the floor has passed an event.
fn collect_garbage(event: &Event, garbage: &mut VecDeque<Row>) {
    garbage.extend(event.previous().map(Row::of));
    if event.kind() == EventKind::Deleted {
        garbage.push_back(Row::of(event.entry()));
    }
}

fn take_front<T>(queue: &mut VecDeque<T>, count: usize) -> Vec<T> {
    queue.drain(..count.min(queue.len())).collect()
}

/// The fate of all writes from the moment that the log has failed.
fn durability(error: LogError) -> Error {
    Error::Durability {
        source: Arc::new(error),
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
