//! The watch window: the changes since the floor, and who wants the next ones.
//!
//! ```text
//!        floor                                      delivered
//!   -------|==========================================|- - - - - ->  revisions
//!   gone   | history: a watch may begin here,         |
//!          | and one that fell behind reads on here   | mailboxes
//! ```
//!
//! # Invariants
//! - History has every event above the floor, in order of revision; below it, none.
//! - A watcher is entered under the same lock under which it has read history to its end: no event
//!   falls between, none comes twice.
//! - `delivered` rises only after the events up to it lie in the mailboxes, or are noted there as missed.
//! - Locks: the window, then a mailbox. Neither is held while an index is locked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::entry::Entry;
use crate::error::Error;
use crate::event::Event;
use crate::key::KeyRange;
use crate::registry::{Registry, WatcherId};
use crate::revision::Revision;
use crate::store::WatchQuery;
use crate::watch::{MAILBOX_COUNT_MAX, Mailbox, WatchEnd, Watcher};

/// Events of history that a watcher looks at under one lock: about 0.2 ms.
const EVENTS_PER_STEP: usize = 4096;

/// How many recent events, of how many bytes, keep the encodings that watchers made of them. A
/// watcher that keeps up is a few events behind; the rest is for those that hang for a moment.
const FRAMED_COUNT_MAX: usize = 1024;
const FRAMED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Delivers events, and keeps them for those who come later.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Guards history and the registry.
    window: Mutex<Window>,
    delivered: AtomicU64,
}

#[derive(Debug, Default)]
struct Window {
    history: VecDeque<Arc<Event>>,
    floor: Revision,
    /// What history holds beyond the current states, in bytes.
    weight: u64,
    framed: VecDeque<Arc<Event>>,
    framed_bytes: usize,
    registry: Registry,
    closed: bool,
}

/// Sizes of the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowSize {
    pub(crate) events: usize,
    pub(crate) bytes: u64,
    pub(crate) watchers: usize,
}

/// Watchers that something was delivered to. They are woken when this is dropped, which is foreign code, so nowhere under
/// a lock.
#[derive(Debug)]
pub(crate) struct Sleepers(Vec<Waker>);

// === impl Sleepers ===

impl Drop for Sleepers {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

// === impl Feed ===

impl Feed {
    /// A window with this history, which ends with `revision`.
    pub(crate) fn new(history: VecDeque<Arc<Event>>, floor: Revision, revision: Revision) -> Self {
        let weight = history.iter().map(|event| event.weight()).sum();
        let window = Window {
            history,
            floor,
            weight,
            framed: VecDeque::new(),
            framed_bytes: 0,
            registry: Registry::default(),
            closed: false,
        };
        Self {
            window: Mutex::new(window),
            delivered: AtomicU64::new(revision.0),
        }
    }

    /// Everything up to this revision lies in the mailboxes, or is noted there as missed.
    pub(crate) fn delivered(&self) -> Revision {
        Revision(self.delivered.load(Ordering::Acquire))
    }

    /// Takes up the events of a group of commits, and hands them to their watchers at once. They look when they are woken.
    pub(crate) fn deliver(&self, events: Vec<Arc<Event>>, revision: Revision) -> Sleepers {
        let mut window = self.window.lock();
        let mut touched = Vec::new();
        for event in &events {
            window.registry.matching(event.key(), |_, mailbox| {
                if mailbox.stage(event) {
                    touched.push(Arc::clone(mailbox));
                }
            });
        }
        for event in events {
            window.keep(event);
        }
        let wakers = touched.iter().filter_map(|mailbox| mailbox.deliver());
        let sleepers = Sleepers(wakers.collect());
        self.delivered.store(revision.0, Ordering::Release);
        drop(window);
        sleepers
    }

    /// Notes that there is nothing more to deliver up to a revision.
    pub(crate) fn advance(&self, revision: Revision) {
        // Under the lock, so that it does not overtake a delivery.
        let window = self.window.lock();
        self.delivered.fetch_max(revision.0, Ordering::AcqRel);
        drop(window);
    }

    /// Takes another history up, and ends all watches: they were of the one before.
    pub(crate) fn replace(&self, other: &Self, end: WatchEnd) {
        let mut taken = std::mem::take(&mut *other.window.lock());
        let mut window = self.window.lock();
        let mailboxes = window.registry.drain();
        // They end before `delivered` rises: no bookmark tells of what they have not seen.
        let wakers: Vec<_> = mailboxes
            .iter()
            .filter_map(|mailbox| mailbox.end(end))
            .collect();
        // The empty registry stays: it gives no watcher the number of one that has ended.
        taken.registry = std::mem::take(&mut window.registry);
        taken.closed = window.closed;
        *window = taken;
        self.delivered.store(other.delivered().0, Ordering::Release);
        drop(window);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The changes of one revision, where history still has them.
    pub(crate) fn changes(&self, revision: Revision) -> Vec<Entry> {
        let window = self.window.lock();
        let start = window
            .history
            .partition_point(|event| event.revision() < revision);
        window
            .history
            .range(start..)
            .take_while(|event| event.revision() == revision)
            .map(|event| event.entry().clone())
            .collect()
    }

    /// Begins a watch.
    pub(crate) fn subscribe(self: &Arc<Self>, query: WatchQuery) -> Result<Watcher, Error> {
        let WatchQuery { range, after } = query;
        let mut replay = VecDeque::new();
        let mut cursor = after;
        let mailbox = Arc::new(Mailbox::new(range, after));
        let id = loop {
            let mut window = self.window.lock();
            if cursor < window.floor {
                return Err(Error::Compacted {
                    requested: after,
                    floor: window.floor,
                });
            }
            if window.replay(mailbox.range(), &mut cursor, &mut replay, usize::MAX) {
                continue;
            }
            if window.closed {
                return Err(Error::Closed);
            }
            break window.registry.insert(Arc::clone(&mailbox));
        };
        Ok(Watcher::new(Arc::clone(self), mailbox, id, replay))
    }

    /// Reads the next part of what a watcher has missed. Returns whether there is more of it.
    pub(crate) fn catch_up(
        &self,
        mailbox: &Mailbox,
        replay: &mut VecDeque<Arc<Event>>,
    ) -> Result<bool, WatchEnd> {
        let window = self.window.lock();
        let Some(missed) = mailbox.missed()? else {
            return Ok(false);
        };
        if missed <= window.floor {
            drop(window);
            drop(mailbox.end(WatchEnd::Expired));
            return Err(WatchEnd::Expired);
        }
        let mut cursor = Revision(missed.0.saturating_sub(1));
        let is_behind = window.replay(mailbox.range(), &mut cursor, replay, MAILBOX_COUNT_MAX);
        mailbox.set_missed(is_behind.then(|| cursor.next()));
        Ok(is_behind)
    }

    /// Takes a watcher out.
    pub(crate) fn unsubscribe(&self, mailbox: &Mailbox, id: WatcherId) {
        self.window.lock().registry.remove(mailbox.range(), id);
    }

    /// Refuses watches that begin below the floor from now on.
    pub(crate) fn raise_floor(&self, floor: Revision) {
        let mut window = self.window.lock();
        window.floor = window.floor.max(floor);
    }

    /// Takes the oldest events off that lie at or below the floor, at most `limit` of them.
    pub(crate) fn forget(&self, limit: usize) -> Vec<Arc<Event>> {
        let mut window = self.window.lock();
        let floor = window.floor;
        let below = window
            .history
            .partition_point(|event| event.revision() <= floor);
        let forgotten: Vec<_> = window.history.drain(..below.min(limit)).collect();
        let weight: u64 = forgotten.iter().map(|event| event.weight()).sum();
        window.weight = window.weight.saturating_sub(weight);
        forgotten
    }

    /// Where history weighs more than `bytes`: the floor at which it would weigh an eighth less
    /// than that, so that the floor need not be raised again for each commit.
    pub(crate) fn floor_for(&self, bytes: u64) -> Option<Revision> {
        let window = self.window.lock();
        if window.weight <= bytes {
            return None;
        }
        let mut excess = window.weight.saturating_sub(bytes / 8 * 7);
        for event in &window.history {
            excess = excess.saturating_sub(event.weight());
            if excess == 0 {
                return Some(event.revision());
            }
        }
        None
    }

    /// How large the window is.
    pub(crate) fn size(&self) -> WindowSize {
        let window = self.window.lock();
        WindowSize {
            events: window.history.len(),
            bytes: window.weight,
            watchers: window.registry.count(),
        }
    }

    /// Ends all watches, and refuses new ones.
    pub(crate) fn close(&self) {
        let mut window = self.window.lock();
        window.closed = true;
        let mailboxes = window.registry.drain();
        drop(window);
        let wakers = mailboxes
            .iter()
            .filter_map(|mailbox| mailbox.end(WatchEnd::Closed));
        wakers.for_each(Waker::wake);
    }
}

// === impl Window ===

impl Window {
    fn keep(&mut self, event: Arc<Event>) {
        self.weight = self.weight.saturating_add(event.weight());
        self.framed_bytes = self
            .framed_bytes
            .saturating_add(event.entry().record().len());
        self.framed.push_back(Arc::clone(&event));
        self.history.push_back(event);
        while self.framed.len() > FRAMED_COUNT_MAX || self.framed_bytes > FRAMED_BYTES_MAX {
            let Some(old) = self.framed.pop_front() else {
                break;
            };
            self.framed_bytes = self.framed_bytes.saturating_sub(old.entry().record().len());
            old.forget_frames();
        }
    }

    /// Copies the next part of history, until there is no `room`. Returns whether there is more of it.
    fn replay(
        &self,
        range: &KeyRange,
        cursor: &mut Revision,
        replay: &mut VecDeque<Arc<Event>>,
        room: usize,
    ) -> bool {
        let start = self
            .history
            .partition_point(|event| event.revision() <= *cursor);
        let mut seen = 0_usize;
        for event in self.history.range(start..) {
            // A step ends between two revisions, so that the next one can begin by revision.
            if (seen >= EVENTS_PER_STEP || replay.len() >= room) && event.revision() > *cursor {
                return true;
            }
            seen = seen.saturating_add(1);
            *cursor = event.revision();
            if range.contains(event.key()) {
                replay.push_back(Arc::clone(event));
            }
        }
        false
    }
}
