//! The audit log: events as lines of a file, in the order in which they were made.
//!
//! ```text
//!   append ──► at once, nobody writes, regular file ──► written by the request itself, behind the queue
//!          ├─► at once, somebody writes, or a pipe  ──► queue (bounded) ──► the thread, or whoever writes
//!          └─► later                                ──► queue (bounded) ──► whoever writes next, or the thread after a moment
//! ```
//!
//! The request that made an event writes it, with those of all requests that could go on at that moment: a `write` to a
//! regular file ends in the page cache, which outlives the process. Only where another request writes at the moment, the
//! event waits for that one. What may block for as long as somebody else likes (a pipe, a terminal) is written by a thread.
//! Events that nobody waits for share a `write`: alone, it takes longer than all else that an event costs.
//!
//! # Invariants
//! - A line is written whole or not at all; what a crash has left of one is cut off at the next start.
//! - Nobody waits longer than [`WAIT_MAX`] for a line, and nobody at all while the log is known to stand still.
//! - What is lost is counted, and told in the log of the process.
//!
//! Source: `plugin/pkg/audit/log/backend.go`.

mod file;

use std::{
    future::poll_fn,
    io,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::counts::{Counts, add};
use file::Output;
pub(super) use file::Rotation;

/// How long an answer waits for its event to be written. A disk that takes longer has a problem that is not the client's.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Bytes of events that wait to be written. Full: further ones are lost, and counted.
const QUEUE_BYTES_MAX: usize = 32 << 20;
/// How long an event stays in the queue that nobody waits for.
const LATER: Duration = Duration::from_millis(50);
/// Bytes of such events that are written before that time.
const LATER_BYTES_MAX: usize = 64 << 10;
/// How many times a request writes what others have made before it leaves the rest to the thread.
const TURNS_MAX: usize = 4;

/// An audit log that is written. Dropped, it is closed once the queue is empty.
#[derive(Debug)]
pub(super) struct Log {
    shared: Arc<Shared>,
}

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file, or its folder.
    #[error("the audit log {} cannot be written: check --audit-log-path", path.display())]
    Open {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The thread.
    #[error("the thread of the audit log cannot be started")]
    Thread(#[source] io::Error),
}

#[derive(Debug)]
struct Shared {
    // Guards the queue, and who writes. Held for moments. Before `output`.
    state: Mutex<State>,
    /// Wakes the thread.
    wake: Condvar,
    // Guards what is written to; taken by whoever has set `State::writer`, so nobody waits for it.
    output: Mutex<Output>,
    /// Whether requests write themselves.
    by_requests: bool,
    /// Set while the log stands still: nobody waits for it then.
    stalled: AtomicBool,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct State {
    writer: Writer,
    queue: Vec<Entry>,
    /// Bytes of the queue.
    queue_bytes: usize,
    /// What those wait for whose events are in the queue.
    batch: Option<Arc<Batch>>,
    /// When the thread writes what nobody waits for, unless somebody has written it before.
    due: Option<Instant>,
    is_closed: bool,
}

/// What is in the queue.
#[derive(Debug)]
enum Entry {
    Lines(Vec<u8>),
    Late(Box<dyn Late>),
}

/// An event that is made a line of when it is written. Whoever makes many of them has the code for it in the processor's caches; a
/// request that comes alone has not, and would pay three times as much.
pub(super) trait Late: std::fmt::Debug + Send {
    /// About how many bytes it takes.
    fn bytes(&self) -> usize;
    /// Writes it behind others, with its newline.
    fn write_line(&self, lines: &mut Vec<u8>);
}

/// When an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before its request is answered.
    AtOnce,
    /// With others, within [`LATER`].
    Later,
}

/// Who writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Writer {
    #[default]
    Nobody,
    /// A request; or the thread, which is at it.
    Somebody,
    /// The thread, which has to be woken for it.
    Thread,
}

/// Events that are written together.
#[derive(Debug, Default)]
struct Batch {
    count: std::sync::atomic::AtomicU64,
    written: OnceLock<Result<(), Lost>>,
    done: Notify,
}

/// An event is lost, or not written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost;

/// What became of an event.
#[derive(Debug)]
#[must_use = "an answer waits for its event"]
pub(super) enum Receipt {
    /// It is written, or lost.
    Done(Result<(), Lost>),
    /// It is in the queue.
    Queued(Queued),
}

/// An event in the queue.
#[derive(Debug)]
pub(super) struct Queued {
    batch: Arc<Batch>,
    shared: Arc<Shared>,
}

// === impl Log ===

impl Log {
    /// Opens a log: `-` is standard output.
    ///
    /// # Errors
    /// [`LogError`].
    pub(super) fn open(
        path: &str,
        rotation: Rotation,
        counts: Arc<Counts>,
    ) -> Result<Self, LogError> {
        let output = Output::open(path, rotation).map_err(|source| LogError::Open {
            path: path.into(),
            source,
        })?;
        let shared = Arc::new(Shared {
            by_requests: output.is_regular(),
            state: Mutex::default(),
            wake: Condvar::new(),
            output: Mutex::new(output),
            stalled: AtomicBool::new(false),
            counts,
        });
        let writing = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("audit-log".to_owned())
            .spawn(move || writing.run())
            .map_err(LogError::Thread)?;
        Ok(Self { shared })
    }

    /// Writes a line, which ends with its newline, or puts it into the queue.
    pub(super) fn append(&self, line: &[u8], when: When) -> Receipt {
        let shared = &self.shared;
        let mut state = shared.state.lock();
        let is_own = when == When::AtOnce && state.writer == Writer::Nobody && shared.by_requests;
        if is_own && state.queue.is_empty() {
            state.writer = Writer::Somebody;
            drop(state);
            let written = shared.write(line, 1);
            shared.drain(TURNS_MAX);
            return Receipt::Done(written);
        }
        if !shared.has_room(&state, line.len()) {
            return Receipt::Done(Err(Lost));
        }
        state.queue_bytes += line.len();
        match state.queue.last_mut() {
            Some(Entry::Lines(lines)) => lines.extend_from_slice(line),
            Some(Entry::Late(_)) | None => state.queue.push(Entry::Lines(line.to_vec())),
        }
        let receipt = Shared::count_in(shared, &mut state, when);
        if is_own {
            state.writer = Writer::Somebody;
            drop(state);
            shared.drain(TURNS_MAX);
        } else if when == When::AtOnce {
            shared.wake_writer(&mut state);
        }
        receipt
    }

    /// Puts an event into the queue that is made a line of when it is written: by the thread, or by its receipt.
    pub(super) fn append_late(&self, event: Box<dyn Late>, when: When) -> Receipt {
        let shared = &self.shared;
        let bytes = event.bytes();
        let mut state = shared.state.lock();
        if !shared.has_room(&state, bytes) {
            // What an event holds is let go without the lock.
            drop(state);
            drop(event);
            return Receipt::Done(Err(Lost));
        }
        state.queue_bytes += bytes;
        state.queue.push(Entry::Late(event));
        let receipt = Shared::count_in(shared, &mut state, when);
        // Otherwise the receipt has it written.
        if when == When::AtOnce && !shared.by_requests {
            shared.wake_writer(&mut state);
        }
        receipt
    }

    /// Waits until everything is written that was appended before.
    pub(super) async fn flushed(&self, patience: Duration) {
        let batch = {
            let mut state = self.shared.state.lock();
            if state.writer == Writer::Nobody && state.queue.is_empty() {
                None
            } else {
                self.shared.wake_writer(&mut state);
                // What is being written has left the queue. The next batch, even an empty one, is done after it.
                Some(Arc::clone(state.batch.get_or_insert_default()))
            }
        };
        if let Some(batch) = batch {
            // What is late is written by the thread.
            drop(timeout(patience, batch.written()).await);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.wake.notify_one();
    }
}

// === impl Receipt ===

impl Receipt {
    /// Waits until the event is written, if it is in time.
    ///
    /// # Errors
    /// It is lost, or it is late.
    pub(super) async fn written(self) -> Result<(), Lost> {
        let queued = match self {
            Self::Done(written) => return written,
            Self::Queued(queued) => queued,
        };
        let Queued { batch, shared } = &queued;
        if batch.written.get().is_none() && shared.by_requests {
            // What else can go on now may have an event for the same `write`.
            yield_once().await;
            shared.write_batch(batch);
        }
        if let Some(written) = batch.written.get() {
            return *written;
        }
        if !shared.stalled.load(Ordering::Relaxed)
            && let Ok(written) = timeout(WAIT_MAX, batch.written()).await
        {
            return written;
        }
        if let Some(written) = batch.written.get() {
            return *written;
        }
        add(&shared.counts.late, 1);
        if !shared.stalled.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "the audit log takes no events: requests do not wait for it any more, and events are lost once the queue is \
                 full; check its disk, or what reads it"
            );
        }
        Err(Lost)
    }
}

// === impl Queued ===

impl Drop for Queued {
    fn drop(&mut self) {
        if self.batch.written.get().is_none() {
            // Whoever was to write it does not.
            self.shared.wake_writer(&mut self.shared.state.lock());
        }
    }
}

// === impl Batch ===

impl Batch {
    async fn written(&self) -> Result<(), Lost> {
        loop {
            let done = self.done.notified();
            if let Some(written) = self.written.get() {
                return *written;
            }
            done.await;
        }
    }

    fn finish(&self, written: Result<(), Lost>) {
        self.written.get_or_init(|| written);
        self.done.notify_waiters();
    }
}

// === impl Shared ===

impl Shared {
    /// Writes what is in the queue, until the log is closed.
    fn run(&self) {
        while self.wait_for_work() {
            self.drain(usize::MAX);
        }
    }

    /// Makes the thread the writer once there is something for it to write; `false` where the log is closed and written.
    fn wait_for_work(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            let remaining = state.due.map(|due| due.duration_since(Instant::now()));
            let is_due = remaining.is_some_and(|remaining| remaining.is_zero());
            let is_free = state.writer == Writer::Nobody;
            if state.writer == Writer::Thread
                || is_free && !state.queue.is_empty() && (is_due || state.is_closed)
            {
                state.writer = Writer::Somebody;
                return true;
            }
            if is_free && state.is_closed {
                return false;
            }
            match remaining.filter(|_| !is_due) {
                Some(remaining) => drop(self.wake.wait_for(&mut state, remaining)),
                None => self.wake.wait(&mut state),
            }
        }
    }

    /// Counts what was put into the queue, and has it written in time where nobody waits for it.
    fn count_in(shared: &Arc<Self>, state: &mut State, when: When) -> Receipt {
        let batch = state.batch.get_or_insert_default();
        batch.count.fetch_add(1, Ordering::Relaxed);
        if when == When::Later {
            shared.schedule(state);
            return Receipt::Done(Ok(()));
        }
        Receipt::Queued(Queued {
            batch: Arc::clone(batch),
            shared: Arc::clone(shared),
        })
    }

    /// Whether something can be put into the queue; it is lost otherwise.
    fn has_room(&self, state: &State, bytes: usize) -> bool {
        let has_room = state.queue_bytes + bytes <= QUEUE_BYTES_MAX;
        if !has_room {
            add(&self.counts.lost_by_queue, 1);
        }
        has_room
    }

    /// Has the thread write the queue, if nobody is at it.
    fn wake_writer(&self, state: &mut State) {
        if state.writer == Writer::Nobody {
            state.writer = Writer::Thread;
            self.wake.notify_one();
        }
    }

    /// Has the queue written in a moment, or now if it is long.
    fn schedule(&self, state: &mut State) {
        if state.queue_bytes >= LATER_BYTES_MAX {
            self.wake_writer(state);
        } else if state.due.is_none() {
            state.due = Some(Instant::now() + LATER);
            self.wake.notify_one();
        }
    }

    /// Writes a batch, unless somebody else is at it or was.
    fn write_batch(&self, batch: &Arc<Batch>) {
        let mut state = self.state.lock();
        let is_queued = state
            .batch
            .as_ref()
            .is_some_and(|it| Arc::ptr_eq(it, batch));
        if state.writer == Writer::Nobody && is_queued {
            state.writer = Writer::Somebody;
            drop(state);
            self.drain(TURNS_MAX);
        }
    }

    /// Writes what is in the queue, in so many turns, and leaves the rest to the thread. The caller is the writer.
    fn drain(&self, turns_max: usize) {
        let (mut entries, mut lines) = (Vec::new(), Vec::new());
        for _turn in 0..turns_max {
            let mut state = self.state.lock();
            state.due = None;
            let Some(batch) = state.batch.take() else {
                state.writer = Writer::Nobody;
                if state.is_closed {
                    self.wake.notify_one();
                }
                return;
            };
            std::mem::swap(&mut state.queue, &mut entries);
            let bytes = std::mem::take(&mut state.queue_bytes);
            drop(state);
            lines.reserve(bytes);
            for entry in entries.drain(..) {
                match entry {
                    Entry::Lines(more) => lines.extend_from_slice(&more),
                    Entry::Late(event) => event.write_line(&mut lines),
                }
            }
            let count = batch.count.load(Ordering::Relaxed);
            batch.finish(self.write(&lines, count));
            lines.clear();
            lines.shrink_to(LATER_BYTES_MAX * 2);
        }
        self.state.lock().writer = Writer::Thread;
        self.wake.notify_one();
    }

    fn write(&self, lines: &[u8], count: u64) -> Result<(), Lost> {
        if lines.is_empty() {
            // Somebody waits for what was written before.
            return Ok(());
        }
        let written = self.output.lock().write(lines);
        if written.is_ok() {
            if self.stalled.load(Ordering::Relaxed) {
                self.stalled.store(false, Ordering::Relaxed);
                tracing::info!("the audit log accepts events again");
            }
            return Ok(());
        }
        add(&self.counts.lost_by_log, count);
        Err(Lost)
    }
}

/// Lets all tasks go first that can go on.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
