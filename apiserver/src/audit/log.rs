//! The audit log: events as lines of a file, in the order in which they were made.
//!
//! ```text
//!   append ──► nobody writes, regular file ──► written by the request itself ──► drains what came meanwhile
//!          └─► somebody writes, or a pipe  ──► queue (bounded) ──► the thread, or whoever writes
//! ```
//!
//! The request that made an event writes it: a `write` to a regular file ends in the page cache, which outlives the process.
//! Only where another request writes at the moment, the event waits for that one. What may block for as long as somebody
//! else likes (a pipe, a terminal) is written by a thread.
//!
//! # Invariants
//! - A line is written whole or not at all; what a crash has left of one is cut off at the next start.
//! - Nobody waits longer than [`WAIT_MAX`] for a line, and nobody at all while the log is known to stand still.
//! - What is lost is counted, and told in the log of the process.
//!
//! Source: `plugin/pkg/audit/log/backend.go`.

mod file;

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tokio::{sync::Notify, time::timeout};

use super::counts::{Counts, add};
use file::Output;
pub(super) use file::Rotation;

/// How long an answer waits for its event to be written. A disk that takes longer has a problem that is not the client's.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Bytes of events that wait to be written. Full: further ones are lost, and counted.
const QUEUE_BYTES_MAX: usize = 32 << 20;
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
    queue: Vec<u8>,
    /// What those wait for whose events are in the queue.
    batch: Option<Arc<Batch>>,
    is_closed: bool,
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
    /// Opens a log: `-` is standard output. With `is_batched` requests leave the writing to a thread.
    ///
    /// # Errors
    /// [`LogError`].
    pub(super) fn open(
        path: &str,
        rotation: Rotation,
        is_batched: bool,
        counts: Arc<Counts>,
    ) -> Result<Self, LogError> {
        let output = Output::open(path, rotation).map_err(|source| LogError::Open {
            path: path.into(),
            source,
        })?;
        let shared = Arc::new(Shared {
            by_requests: output.is_regular() && !is_batched,
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
    pub(super) fn append(&self, line: &[u8]) -> Receipt {
        let shared = &self.shared;
        let mut state = shared.state.lock();
        if state.writer == Writer::Nobody && shared.by_requests {
            state.writer = Writer::Somebody;
            drop(state);
            let written = shared.write(line, 1);
            shared.drain(TURNS_MAX);
            return Receipt::Done(written);
        }
        if state.queue.len() + line.len() > QUEUE_BYTES_MAX {
            drop(state);
            add(&shared.counts.lost_by_queue, 1);
            return Receipt::Done(Err(Lost));
        }
        state.queue.extend_from_slice(line);
        let batch = Arc::clone(state.batch.get_or_insert_default());
        batch.count.fetch_add(1, Ordering::Relaxed);
        if state.writer == Writer::Nobody {
            state.writer = Writer::Thread;
            shared.wake.notify_one();
        }
        drop(state);
        Receipt::Queued(Queued {
            batch,
            shared: Arc::clone(shared),
        })
    }

    /// Waits until everything is written that was appended before.
    pub(super) async fn flushed(&self, patience: Duration) {
        let batch = {
            let mut state = self.shared.state.lock();
            match state.writer {
                Writer::Nobody => None,
                // What is being written has left the queue. The next batch, even an empty one, is done after it.
                Writer::Somebody | Writer::Thread => {
                    Some(Arc::clone(state.batch.get_or_insert_default()))
                }
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
        let Queued { batch, shared } = match self {
            Self::Done(written) => return written,
            Self::Queued(queued) => queued,
        };
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
        loop {
            let mut state = self.state.lock();
            while state.writer != Writer::Thread {
                if state.is_closed && state.writer == Writer::Nobody {
                    return;
                }
                self.wake.wait(&mut state);
            }
            state.writer = Writer::Somebody;
            drop(state);
            self.drain(usize::MAX);
        }
    }

    /// Writes what is in the queue, in so many turns, and leaves the rest to the thread. The caller is the writer.
    fn drain(&self, turns_max: usize) {
        for _turn in 0..turns_max {
            let mut state = self.state.lock();
            let Some(batch) = state.batch.take() else {
                state.writer = Writer::Nobody;
                if state.is_closed {
                    self.wake.notify_one();
                }
                return;
            };
            let lines = std::mem::take(&mut state.queue);
            drop(state);
            let count = batch.count.load(Ordering::Relaxed);
            batch.finish(self.write(&lines, count));
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

#[cfg(test)]
mod tests;
