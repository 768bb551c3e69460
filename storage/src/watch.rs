//! A watcher and the mailbox that feeds it.
//!
//! A watcher first hands out what history held after its revision, then what arrives in its mailbox. One that does not keep
//! up misses what its mailbox has no room for, and reads that from history once it has handed out the rest:
//!
//! ```text
//!   history   ...  4  5  6  7  8  9  10  11     a watcher behind: its mailbox has 4 to 6,
//!   mailbox        4  5  6 |missed from 7       and 7 to 11 cost it nothing
//! ```
//!
//! # Invariants
//! - The events of one revision are put into a mailbox at once and handed out at once.
//! - A mailbox holds at most [`MAILBOX_COUNT_MAX`] events, in order, and every one up to the first that it missed.
//! - A watcher catches up under the lock under which history grows: what it has read it is not given again, and what comes
//!   then is not missed. Where history no longer has what was missed, the watch ends.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;

use crate::event::Event;
use crate::key::KeyRange;
use crate::registry::WatcherId;
use crate::revision::Revision;
use crate::window::Feed;

/// Events that wait for one watcher: 2 KiB of pointers to shared events, which a watcher that keeps up never needs.
pub(crate) const MAILBOX_COUNT_MAX: usize = 256;

/// Events that are handed out together, unless one revision has more of them.
const HANDED_OUT_MAX: usize = 1024;

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// The store was closed. The client resumes after the last revision that it saw.
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

#[derive(Default)]
struct Mail {
    queue: VecDeque<Arc<Event>>,
    /// Events of a group of commits that is being delivered; not yet to be seen.
    staged: Vec<Arc<Event>>,
    /// The first revision that did not fit; it and what follows is in history.
    missed: Option<Revision>,
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

    /// Returns the next of the events that the store has delivered by now; `None` once all of them were handed out.
    ///
    /// # Errors
    /// The end of the watch, after everything that came before it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next_waiting(&mut self) -> Result<Option<Vec<Arc<Event>>>, WatchEnd> {
        poll_fn(|cx| match self.poll_next(cx) {
            Poll::Ready(batch) => Poll::Ready(batch.map(Some)),
            // It reads on in history in its next turn.
            Poll::Pending if self.has_waiting() => Poll::Pending,
            Poll::Pending => Poll::Ready(Ok(None)),
        })
        .await
    }

    /// Whether something was delivered that was not handed out.
    fn has_waiting(&self) -> bool {
        let mail = self.mailbox.mail.lock();
        !self.replay.is_empty() || !mail.queue.is_empty() || mail.missed.is_some()
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
            ready!(self.poll_mailbox(cx))?
        } else {
            take_revisions(&mut self.replay)
        };
        if let (Some(first), Some(last)) = (batch.first(), batch.last()) {
            assert!(first.revision() > self.seen, "a watch goes forward");
            self.seen = last.revision();
        }
        Poll::Ready(Ok(batch))
    }

    /// What lies in the mailbox, or what history has of what it missed.
    fn poll_mailbox(&mut self, cx: &Context<'_>) -> Poll<Result<Vec<Arc<Event>>, WatchEnd>> {
        loop {
            {
                let mut mail = self.mailbox.mail.lock();
                if !mail.queue.is_empty() {
                    return Poll::Ready(Ok(take_revisions(&mut mail.queue)));
                }
                if let Some(end) = mail.end {
                    return Poll::Ready(Err(end));
                }
                if mail.missed.is_none() {
                    mail.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
            let is_behind = self.feed.catch_up(&self.mailbox, &mut self.replay)?;
            if !self.replay.is_empty() {
                return Poll::Ready(Ok(take_revisions(&mut self.replay)));
            }
            if is_behind {
                // Nothing of this step is in its range. Others have their turn before the next one.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
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
        if mail.queue.is_empty() && mail.missed.is_none() && mail.end.is_none() {
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
        if mail.missed.is_some() {
            return false;
        }
        mail.staged.push(Arc::clone(event));
        mail.staged.len() == 1
    }

    /// Lets the watcher see what was staged, or know that it has missed it.
    pub(crate) fn deliver(&self) -> Option<Waker> {
        let mut mail = self.mail.lock();
        let staged = std::mem::take(&mut mail.staged);
        if mail.queue.len().saturating_add(staged.len()) > MAILBOX_COUNT_MAX {
            mail.missed = staged.first().map(|event| event.revision());
        } else {
            mail.queue.extend(staged);
        }
        mail.waker.take()
    }

    /// The first revision that the watcher has missed, unless its watch has ended. For whoever has locked the window.
    pub(crate) fn missed(&self) -> Result<Option<Revision>, WatchEnd> {
        let mail = self.mail.lock();
        mail.end.map_or(Ok(mail.missed), Err)
    }

    /// Notes what the watcher still misses. For whoever has locked the window.
    pub(crate) fn set_missed(&self, missed: Option<Revision>) {
        self.mail.lock().missed = missed;
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
            .field("missed", &self.missed)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
