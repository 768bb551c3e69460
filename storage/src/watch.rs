//! A watcher and the mailbox that feeds it.
//!
//! A watcher first hands out what history held after its revision, then what arrives in its mailbox.
//!
//! # Invariants
//! - The events of one revision are put into a mailbox at once and handed out at once.
//! - A mailbox holds at most [`MAILBOX_COUNT_MAX`] events. One that would overflow takes nothing
//!   of the revision that did not fit, and ends: what it has is still handed out, and the client
//!   resumes from there.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::event::Event;
use crate::key::KeyRange;
use crate::registry::WatcherId;
use crate::revision::Revision;
use crate::window::Feed;

/// Events that wait for one watcher: 32 KiB of pointers to shared events. Full: it is closed.
pub(crate) const MAILBOX_COUNT_MAX: usize = 4096;

/// Events that are handed out together, unless one revision has more of them.
const HANDED_OUT_MAX: usize = 1024;

/// Why a watch ended. But for [`WatchEnd::Expired`] the client resumes after the last revision that
/// it saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// It did not keep up.
    #[error("the watcher is too slow")]
    TooSlow,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The history behind what it has seen is gone: to resume is refused as compacted.
    #[error("the history that the watch was to see is gone")]
    Expired,
}

/// A watch of a range of keys.
pub struct Watcher {
    feed: Arc<Feed>,
    mailbox: Arc<Mailbox>,
    id: WatcherId,
    replay: VecDeque<Arc<Event>>,
    /// Everything up to this revision was handed out, or lay before the watch.
    seen: Revision,
}

/// Where events wait for a watcher.
#[derive(Debug)]
pub(crate) struct Mailbox {
    range: KeyRange,
    after: Revision,
    /// A leaf of the lock order.
    mail: Mutex<Mail>,
}

/// What a delivery leaves to do, once no lock is held.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) too_slow: bool,
    pub(crate) waker: Option<Waker>,
}

#[derive(Default)]
struct Mail {
    queue: VecDeque<Arc<Event>>,
    /// Events of a group of commits that is being delivered; not yet to be seen.
    staged: Vec<Arc<Event>>,
    end: Option<WatchEnd>,
    waker: Option<Waker>,
}

// === impl Watcher ===

impl Watcher {
    pub(crate) fn new(
        feed: Arc<Feed>,
        mailbox: Arc<Mailbox>,
        id: WatcherId,
        replay: VecDeque<Arc<Event>>,
    ) -> Self {
        let seen = mailbox.after;
        Self {
            feed,
            mailbox,
            id,
            replay,
            seen,
        }
    }

    /// Waits for the next events, whole revisions of them in order.
    ///
    /// # Errors
    /// The end of the watch, after everything that came before it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, WatchEnd> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`Watcher::next`] for hand-written futures.
    ///
    /// # Errors
    /// The end of the watch, after everything that came before it.
    #[expect(
        clippy::needless_pass_by_ref_mut,
        reason = "the signature of every poll function"
    )]
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Arc<Event>>, WatchEnd>> {
        let batch = if self.replay.is_empty() {
            let mut mail = self.mailbox.mail.lock();
            if mail.queue.is_empty() {
                if let Some(end) = mail.end {
                    return Poll::Ready(Err(end));
                }
                mail.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            take_revisions(&mut mail.queue)
        } else {
            take_revisions(&mut self.replay)
        };
        if let (Some(first), Some(last)) = (batch.first(), batch.last()) {
            assert!(first.revision() > self.seen, "a watch goes forward");
            self.seen = last.revision();
        }
        Poll::Ready(Ok(batch))
    }

    /// The revision up to which everything in the range was handed out: what a bookmark says. It
    /// never goes back.
    pub fn progress(&mut self) -> Revision {
        if !self.replay.is_empty() {
            return self.seen;
        }
        // Read before the mailbox: what was delivered up to it lies in the mailbox by now.
        let delivered = self.feed.delivered();
        let mail = self.mailbox.mail.lock();
        if mail.queue.is_empty() && mail.end.is_none() {
            self.seen = self.seen.max(delivered);
        }
        self.seen
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.feed.unsubscribe(&self.mailbox, self.id);
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher")
            .field("seen", &self.seen)
            .field("replay", &self.replay.len())
            .field("mailbox", &self.mailbox)
            .finish_non_exhaustive()
    }
}

/// Takes the first events off, and never a part of a revision.
fn take_revisions(queue: &mut VecDeque<Arc<Event>>) -> Vec<Arc<Event>> {
    let mut count = queue.len().min(HANDED_OUT_MAX);
    while let (Some(last), Some(next)) = (queue.get(count.wrapping_sub(1)), queue.get(count)) {
        if last.revision() != next.revision() {
            break;
        }
        count = count.saturating_add(1);
    }
    queue.drain(..count).collect()
}

// === impl Mailbox ===

impl Mailbox {
    /// A mailbox for the events of a range after a revision.
    pub(crate) fn new(range: KeyRange, after: Revision) -> Self {
        Self {
            range,
            after,
            mail: Mutex::default(),
        }
    }

    /// The range that its watcher watches.
    pub(crate) fn range(&self) -> &KeyRange {
        &self.range
    }

    /// Lays an event aside until [`Mailbox::deliver`]. Returns whether it is the first one.
    pub(crate) fn stage(&self, event: &Arc<Event>) -> bool {
        // A watch from the future lets what lies before it pass by.
        if event.revision() <= self.after {
            return false;
        }
        let mut mail = self.mail.lock();
        mail.staged.push(Arc::clone(event));
        mail.staged.len() == 1
    }

    /// Lets the watcher see what was staged, or ends it where that is too much.
    pub(crate) fn deliver(&self) -> Delivered {
        let mut mail = self.mail.lock();
        let staged = std::mem::take(&mut mail.staged);
        let overflows = mail.queue.len().saturating_add(staged.len()) > MAILBOX_COUNT_MAX;
        // A watcher that has nothing to do takes any group: the committer bounds its size.
        let too_slow = overflows && !mail.queue.is_empty();
        if too_slow {
            mail.end = Some(WatchEnd::TooSlow);
        } else {
            mail.queue.extend(staged);
        }
        Delivered {
            too_slow,
            waker: mail.waker.take(),
        }
    }

    /// Ends the watch.
    pub(crate) fn end(&self, end: WatchEnd) -> Option<Waker> {
        let mut mail = self.mail.lock();
        mail.end.get_or_insert(end);
        mail.waker.take()
    }
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail")
            .field("queue", &self.queue.len())
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
