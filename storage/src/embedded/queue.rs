//! The queue in front of the commit thread.
//!
//! A lone writer finds the thread waiting and pays one sync, nothing else. Many writers share syncs: the
//! slower the disk, the larger the groups. Writers that wait for their answers come back together,
//! a moment after it; so right after a group of several the thread lets as many gather again, for no
//! longer than the group took. Without it groups of one and of all others alternate.
//!
//! # Invariants
//! - The queue is bounded; what does not fit is refused at once.
//! - Its lock is a leaf of the lock order, and is never held during I/O.
//! - Once it has refused all, it takes nothing any more.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::group::Submission;
use crate::answer::{Answer, Responder};
use crate::clock::Clock;
use crate::error::Error;
use crate::revision::Revision;

/// Batches that may wait, and the bytes in them. Full: the write is refused, and the client is
/// told to come back (429). At 10,000 writes per second this is 0.4 s of them.
const QUEUE_COUNT_MAX: usize = 4096;
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What one group takes from the queue: enough that its sync is shared well, and little enough that
/// it lasts a few milliseconds.
const GROUP_COUNT_MAX: usize = 1024;
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Right after a group of several, the next one may gather for the time that the group took, and no longer than this. It
/// costs the first to come back less than it saves everybody: with 32 clients a sync then serves eleven of them, not
/// seven, and each is answered sooner, for a sync costs the processor as much as a write.
const GATHER_MAX: Duration = Duration::from_millis(1);

/// What callers hand over and the commit thread takes.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    /// Something is in the queue, or it was closed.
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    submissions: VecDeque<Submission>,
    bytes: usize,
    compactions: Vec<(Revision, Responder<Revision>)>,
    /// The thread gathers, and wants to be woken for no less than this.
    wanted: usize,
    closed: bool,
    poison: Option<Error>,
}

/// How long the next group may gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gathering {
    wanted: usize,
    until: Duration,
}

/// What the thread found in the queue.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) submissions: Vec<Submission>,
    pub(crate) compactions: Vec<(Revision, Responder<Revision>)>,
    pub(crate) closed: bool,
}

// === impl Queue ===

impl Queue {
    /// Queues a batch, or refuses it at once.
    pub(crate) fn submit(&self, submission: Submission) {
        let bytes = submission.bytes();
        let mut queue = self.inner.lock();
        if let Err(error) = queue.admit(bytes) {
            drop(queue);
            submission.responder.send(Err(error));
            return;
        }
        queue.bytes = queue.bytes.saturating_add(bytes);
        queue.submissions.push_back(submission);
        let enough = queue.submissions.len() >= queue.wanted;
        drop(queue);
        if enough {
            self.filled.notify_one();
        }
    }

    /// Queues a wish to forget history.
    pub(crate) fn compact(&self, floor: Revision) -> Answer<Revision> {
        let mut queue = self.inner.lock();
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
        self.inner.lock().open()
    }

    /// Batches that wait.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().submissions.len()
    }

    /// Takes nothing more up; what is queued is finished.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.filled.notify_one();
    }

    /// Waits until there is something to do, for at most `patience`, lets more of it gather, and
    /// takes a group of it.
    pub(crate) fn take(
        &self,
        patience: Duration,
        gathering: Option<Gathering>,
        clock: &dyn Clock,
    ) -> Taken {
        let mut queue = self.inner.lock();
        if queue.is_idle() && !patience.is_zero() {
            self.filled.wait_for(&mut queue, patience);
        }
        if let Some(Gathering { wanted, until }) = gathering
            && (1..wanted).contains(&queue.submissions.len())
            && !queue.closed
        {
            let left = until.saturating_sub(clock.elapsed());
            if !left.is_zero() {
                queue.wanted = wanted;
                self.filled.wait_for(&mut queue, left.min(GATHER_MAX));
                queue.wanted = 0;
            }
        }
        let submissions = queue.take_group();
        Taken {
            submissions,
            compactions: std::mem::take(&mut queue.compactions),
            closed: queue.closed,
        }
    }

    /// Takes nothing more up, for this reason, and answers all that wait with it.
    pub(crate) fn refuse_all(&self, error: &Error) {
        let mut queue = self.inner.lock();
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

    /// Waits until nobody wants the store any more.
    pub(crate) fn wait_for_close(&self) {
        let mut queue = self.inner.lock();
        self.filled.wait_while(&mut queue, |queue| !queue.closed);
    }
}

// === impl Inner ===

impl Inner {
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

// === impl Gathering ===

impl Gathering {
    /// What follows a group of so many batches. Nothing follows a lone writer.
    pub(crate) fn after(count: usize, began: Duration, now: Duration) -> Option<Self> {
        let window = now.saturating_sub(began).min(GATHER_MAX);
        (count > 1 && !window.is_zero()).then(|| Self {
            wanted: count,
            until: now.saturating_add(window),
        })
    }
}

// === impl Taken ===

impl Taken {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.submissions.is_empty() && self.compactions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_several_writers_are_waited_for_and_not_for_long() {
        let micros = Duration::from_micros;
        let after = |count, took: u64| Gathering::after(count, micros(1_000), micros(1_000 + took));
        let until = |wanted, until| {
            Some(Gathering {
                wanted,
                until: micros(until),
            })
        };
        for (name, got, want) in [
            ("a lone writer", after(1, 800), None),
            ("several", after(5, 800), until(5, 1_000 + 800 + 800)),
            (
                "a slow disk",
                after(5, 80_000),
                until(5, 1_000 + 80_000 + 1_000),
            ),
            ("a clock that stands", after(5, 0), None),
        ] {
            assert_eq!(got, want, "{name}");
        }
    }
}
