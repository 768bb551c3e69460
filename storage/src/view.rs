//! What readers and watchers see of a store: the same for every engine.
//!
//! An engine calls [`View::publish`] with what has become durable, in order, and everything else
//! here answers from memory.
//!
//! # Invariants
//! - A group is published in two steps: the index first, the feed then. So whoever has read a
//!   revision and watches after it misses nothing: either the feed has the later events already,
//!   or they come.
//! - The two locks are never held together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::entry::Entry;
use crate::error::Error;
use crate::event::Event;
use crate::index::Index;
use crate::revision::Revision;
use crate::store::{Range, RangeQuery, TermsOf, WatchQuery};
use crate::watch::{WatchEnd, Watcher};
use crate::window::{Feed, Sleepers, WindowSize};

/// The readable side of a store.
#[derive(Debug)]
pub(crate) struct View {
    /// Guards the states; never held while the window is locked.
    index: RwLock<Index>,
    /// The index's revision, for those who need no lock.
    revision: AtomicU64,
    feed: Arc<Feed>,
    terms_of: Option<TermsOf>,
}

/// What an engine has found on disk.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The state at the floor, at most one entry per key.
    pub(crate) base: Vec<Entry>,
    /// Every later change, in order.
    pub(crate) changes: Vec<Entry>,
    pub(crate) floor: Revision,
    pub(crate) revision: Revision,
}

// === impl View ===

impl View {
    /// A view of what was found on disk, with an index of terms where they are told.
    pub(crate) fn new(snapshot: Snapshot, terms_of: Option<TermsOf>) -> Self {
        let Snapshot {
            base,
            changes,
            floor,
            revision,
        } = snapshot;
        let (mut index, history) = Index::of_history(base, changes, floor, terms_of);
        index.advance(revision);
        let history = history
            .into_iter()
            .map(|(entry, previous)| Arc::new(Event::past(entry, previous)))
            .collect();
        let feed = Arc::new(Feed::new(history, floor, revision));
        Self {
            index: RwLock::new(index),
            revision: AtomicU64::new(revision.0),
            feed,
            terms_of,
        }
    }

    /// Shows a group of commits to everybody. `entries` are in order, and durable. What it gives wakes the watchers.
    pub(crate) fn publish(&self, entries: &[Entry]) -> Option<Sleepers> {
        let revision = entries.last().map(Entry::modified)?;
        let mut events = Vec::with_capacity(entries.len());
        let terms = |entry| Index::terms(self.terms_of, entry);
        let terms: Vec<_> = entries.iter().map(terms).collect();
        let mut index = self.index.write();
        for (entry, terms) in entries.iter().zip(&terms) {
            let previous = index.apply(entry.clone(), terms);
            events.push((entry, previous));
        }
        self.revision.store(revision.0, Ordering::Release);
        drop(index);
        let events = events
            .into_iter()
            .map(|(entry, previous)| Arc::new(Event::fresh(entry.clone(), previous)))
            .collect();
        Some(self.feed.deliver(events, revision))
    }

    /// Notes that everything up to a revision has been published, one that changed nothing here
    /// included.
    pub(crate) fn advance(&self, revision: Revision) {
        let mut index = self.index.write();
        index.advance(revision);
        self.revision.fetch_max(revision.0, Ordering::AcqRel);
        drop(index);
        self.feed.advance(revision);
    }

    /// Takes up another state, which does not follow from what was published: ends all watches.
    ///
    /// Whoever has read the old state and watches after it is refused, because the floor of the
    /// new state is higher, or ended with all the others.
    pub(crate) fn replace(&self, state: Self) {
        let revision = state.revision();
        assert!(
            revision >= self.revision(),
            "what replaces a state is newer than it"
        );
        let mut index = self.index.write();
        *index = state.index.into_inner();
        self.revision.store(revision.0, Ordering::Release);
        drop(index);
        self.feed.replace(&state.feed, WatchEnd::Expired);
    }

    /// The changes of one revision, in the order of its batch, where history still has them.
    pub(crate) fn changes(&self, revision: Revision) -> Vec<Entry> {
        self.feed.changes(revision)
    }

    /// The latest revision that reads see.
    pub(crate) fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    /// The oldest revision that can be read at.
    pub(crate) fn floor(&self) -> Revision {
        self.index.read().floor()
    }

    /// What finds the terms of values, for a view that takes the place of this one.
    pub(crate) fn terms_of(&self) -> Option<TermsOf> {
        self.terms_of
    }

    /// How many keys there are.
    pub(crate) fn live(&self) -> u64 {
        self.index.read().live()
    }

    /// The latest state of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Entry> {
        self.index.read().get(key).cloned()
    }

    /// The revision of a key's state at a revision from the floor on; `None` where it was absent.
    pub(crate) fn state_at(&self, key: &[u8], at: Revision) -> Option<Revision> {
        self.index.read().get_at(key, at).map(Entry::modified)
    }

    /// Reads a range at one revision, with the index locked only step by step.
    pub(crate) fn range(&self, query: &RangeQuery) -> Result<Range, Error> {
        loop {
            match self.try_range(query) {
                // The floor overtook a read of the latest revision: that is not the caller's
                // doing, and needs minutes to happen twice.
                Err(Error::Compacted { .. }) if query.at.is_none() => {}
                answer => return answer,
            }
        }
    }

    /// Begins a watch.
    pub(crate) fn watch(&self, query: WatchQuery) -> Result<Watcher, Error> {
        self.feed.subscribe(query)
    }

    /// Refuses reads and watches below a revision from now on.
    pub(crate) fn raise_floor(&self, floor: Revision) {
        self.index.write().raise_floor(floor);
        self.feed.raise_floor(floor);
    }

    /// Frees what lies below the floor, the oldest `count` events at most, and returns those.
    pub(crate) fn forget(&self, count: usize) -> Vec<Arc<Event>> {
        let events = self.feed.forget(count);
        let mut index = self.index.write();
        for event in &events {
            index.trim(event.key());
        }
        events
    }

    /// The floor at which history would weigh at most `bytes`, where it weighs more.
    pub(crate) fn floor_for(&self, bytes: u64) -> Option<Revision> {
        self.feed.floor_for(bytes)
    }

    /// How large the watch window is.
    pub(crate) fn window_size(&self) -> WindowSize {
        self.feed.size()
    }

    /// Ends all watches. Reads go on.
    pub(crate) fn close(&self) {
        self.feed.close();
    }

    fn try_range(&self, query: &RangeQuery) -> Result<Range, Error> {
        if !query.holding.is_empty() {
            let held = self.index.read().held(query)?;
            if let Some(held) = held {
                return Ok(held.finish(query.limit));
            }
        }
        let mut reading = self
            .index
            .read()
            .read(query.range.clone(), query.limit, query.at)?;
        while self.index.read().step(&mut reading)? {}
        Ok(reading.finish())
    }
}
