//! The one thread that writes, and the queue in front of it.
//!
//! ```text
//!   callers ──► queue ──► [ take all ► judge ► append + sync ► publish ► answer ] ──► again
//!               bounded     while this group syncs, the next one gathers in the queue
//! ```
//!
//! A lone writer finds the thread waiting and pays one sync. Many writers share syncs, without any
//! timer: the slower the disk, the larger the groups.
//!
//! # Invariants
//! - Answers follow the publication, and the publication follows the sync.
//! - The queue is the only thing that callers and the thread share besides the view; its lock is
//!   never held during I/O.
//! - Once poisoned, the queue takes nothing, and the log is never written again.
//! - However the thread ends, the queue is closed, whoever waits is answered, and watches end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::directory::Directory;
use super::group::{Group, Submission};
use super::log::{Log, LogError, Row};
use super::retention::Retention;
use super::{Config, Statistics};
use crate::answer::{Answer, Responder};
use crate::error::Error;
use crate::event::{Event, EventKind};
use crate::revision::Revision;
use crate::view::View;

/// Batches that may wait, and the bytes in them. Full: the write is refused, and the client is
/// told to come back (429). At 10,000 writes per second this is 0.4 s of them.
const QUEUE_COUNT_MAX: usize = 4096;
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What one group takes from the queue: enough that its sync is shared well, and little enough that
/// it lasts a few milliseconds.
const GROUP_COUNT_MAX: usize = 1024;
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

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
    /// Guards the queue alone; a leaf of the lock order.
    queue: Mutex<Queue>,
    /// Something is in the queue, or it was closed.
    filled: Condvar,
    view: View,
    groups: AtomicU64,
    writes: AtomicU64,
    garbage: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    submissions: VecDeque<Submission>,
    bytes: usize,
    compactions: Vec<(Revision, Responder<Revision>)>,
    closed: bool,
    poison: Option<Error>,
}

/// What the commit thread owns. The log is dropped before the directory's lock: fields are dropped
/// in their order.
#[derive(Debug)]
pub(crate) struct Committer {
    log: Log,
    garbage: VecDeque<Row>,
    /// Events may lie below the floor still.
    forgetting: bool,
    retention: Retention,
    config: Config,
    _directory: Option<Directory>,
    shared: Arc<Shared>,
}

/// What the thread found in the queue.
#[derive(Debug, Default)]
struct Taken {
    submissions: Vec<Submission>,
    compactions: Vec<(Revision, Responder<Revision>)>,
    closed: bool,
}

/// Closes the queue when the thread ends, in whatever way.
struct Closing<'a>(&'a Shared);

// === impl Shared ===

impl Shared {
    pub(crate) fn new(view: View) -> Self {
        Self {
            queue: Mutex::default(),
            filled: Condvar::new(),
            view,
            groups: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            garbage: AtomicU64::new(0),
        }
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Queues a batch, or refuses it at once.
    pub(crate) fn submit(&self, submission: Submission) {
        let bytes = submission.bytes();
        let mut queue = self.queue.lock();
        if let Err(error) = queue.admit(bytes) {
            drop(queue);
            submission.responder.send(Err(error));
            return;
        }
        queue.bytes = queue.bytes.saturating_add(bytes);
        queue.submissions.push_back(submission);
        drop(queue);
        self.filled.notify_one();
    }

    /// Queues a wish to forget history.
    pub(crate) fn compact(&self, floor: Revision) -> Answer<Revision> {
        let mut queue = self.queue.lock();
        if let Err(error) = queue.open() {
            return Answer::ready(Err(error));
        }
        let (responder, answer) = Answer::pending();
        queue.compactions.push((floor, responder));
        drop(queue);
        self.filled.notify_one();
        answer
    }

    /// Whether writes are taken up.
    pub(crate) fn health(&self) -> Result<(), Error> {
        self.queue.lock().open()
    }

    /// Takes nothing more up; what is queued is finished.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.filled.notify_one();
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
            queued: self.queue.lock().submissions.len(),
            groups: self.groups.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            garbage: self.garbage.load(Ordering::Relaxed),
        }
    }

    /// Waits until there is something to do, for at most `patience`, and takes a group of it.
    fn take(&self, patience: Duration) -> Taken {
        let mut queue = self.queue.lock();
        if queue.is_idle() && !patience.is_zero() {
            self.filled.wait_for(&mut queue, patience);
        }
        let submissions = queue.take_group();
        Taken {
            submissions,
            compactions: std::mem::take(&mut queue.compactions),
            closed: queue.closed,
        }
    }

    /// Takes nothing more up, because the log has failed.
    fn poison(&self, error: &Error) {
        if self.health().is_ok() {
            tracing::error!(
                error = chain_of(error),
                "the disk failed, no write is taken any more"
            );
        }
        self.refuse_all(error);
    }

    fn wait_for_close(&self) {
        let mut queue = self.queue.lock();
        self.filled.wait_while(&mut queue, |queue| !queue.closed);
    }

    /// Takes nothing more up, for this reason, and answers all that wait with it.
    fn refuse_all(&self, error: &Error) {
        let mut queue = self.queue.lock();
        queue.poison.get_or_insert_with(|| error.clone());
        let submissions = std::mem::take(&mut queue.submissions);
        let compactions = std::mem::take(&mut queue.compactions);
        queue.bytes = 0;
        drop(queue);
        for submission in submissions {
            submission.responder.send(Err(error.clone()));
        }
        for (_, responder) in compactions {
            responder.send(Err(error.clone()));
        }
    }
}

// === impl Queue ===

impl Queue {
    fn open(&self) -> Result<(), Error> {
        if let Some(error) = &self.poison {
            return Err(error.clone());
        }
        if self.closed {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    fn admit(&self, bytes: usize) -> Result<(), Error> {
        self.open()?;
        let full = self.submissions.len() >= QUEUE_COUNT_MAX
            || self.bytes.saturating_add(bytes) > QUEUE_BYTES_MAX;
        if full { Err(Error::Full) } else { Ok(()) }
    }

    fn is_idle(&self) -> bool {
        self.submissions.is_empty() && self.compactions.is_empty() && !self.closed
    }

    fn take_group(&mut self) -> Vec<Submission> {
        let mut group = Vec::with_capacity(self.submissions.len().min(GROUP_COUNT_MAX));
        let (mut count, mut bytes) = (0_usize, 0_usize);
        while let Some(next) = self.submissions.front() {
            let next_count = count.saturating_add(next.proposals.len());
            let next_bytes = bytes.saturating_add(next.bytes());
            let fits = next_count <= GROUP_COUNT_MAX && next_bytes <= GROUP_BYTES_MAX;
            if !fits && !group.is_empty() {
                break;
            }
            (count, bytes) = (next_count, next_bytes);
            group.extend(self.submissions.pop_front());
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        group
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
        let garbage = garbage.into();
        let forgetting = false;
        Self {
            log,
            garbage,
            forgetting,
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
            let taken = shared.take(patience);
            if taken.closed && taken.is_empty() {
                break;
            }
            if let Err(error) = self.turn(taken) {
                shared.poison(&error);
                shared.wait_for_close();
                break;
            }
        }
        // First the log and the directory's lock, so that whoever sees the watches end can open.
        drop(self);
        drop(closing);
    }

    fn turn(&mut self, taken: Taken) -> Result<(), Error> {
        let idle = taken.submissions.is_empty();
        let writes = taken
            .submissions
            .iter()
            .map(|batch| batch.proposals.len())
            .sum::<usize>();
        if !idle {
            self.commit(taken.submissions)?;
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
        if let Some(floor) = self.shared.view.floor_for(self.config.history_bytes_max) {
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

// === impl Taken ===

impl Taken {
    fn is_empty(&self) -> bool {
        self.submissions.is_empty() && self.compactions.is_empty()
    }
}

// === impl Closing ===

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
        self.0.refuse_all(&Error::Closed);
        self.0.view.close();
    }
}
