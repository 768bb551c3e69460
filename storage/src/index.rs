//! The index of states in memory: what is current, and what was, back to the floor.
//!
//! ```text
//!   current:  one slot per key, ordered        older:  only keys that changed since the floor
//!   +-----------------+---------------------+  +-----+------------------------------+
//!   | Arc of an entry | revision, deleted?  |  | key | its earlier entries, in order |
//!   +-----------------+---------------------+  +-----+------------------------------+
//! ```
//!
//! Pure and synchronous: whoever shares it locks it.
//!
//! # Invariants
//! - A slot's entry is the newest of its key; `older` has those before, oldest first.
//! - For every revision between `floor` and `revision`, both included, the state at that revision
//!   can be told. Below the floor nothing can.
//! - A deleted key keeps its slot until the floor has passed the deletion.
//! - What holds a term is known of the newest states alone ([`holders`]).

mod holders;
pub(crate) mod parallel;

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use self::holders::{Number, TermIndex};
use crate::entry::Entry;
use crate::error::Error;
use crate::key::{Key, KeyRange};
use crate::revision::Revision;
use crate::store::{COUNTED_MAX, Range, RangeQuery, TermsOf};

/// How many slots are looked at in one [`Index::step`], and so under one lock: about 50 µs.
const SLOTS_PER_STEP: usize = 1024;

/// All states between the floor and the latest revision.
#[derive(Debug)]
pub(crate) struct Index {
    current: BTreeSet<Slot>,
    older: HashMap<Key, Vec<Entry>>,
    /// Which newest states hold what; absent where the engine was told of no terms.
    terms: Option<TermIndex>,
    revision: Revision,
    floor: Revision,
    live: u64,
}

/// Newest states, as an index of terms finds them.
#[derive(Debug)]
pub(crate) struct Held {
    entries: Vec<Entry>,
    at: Revision,
}

/// A range being read at one revision, step by step.
#[derive(Debug)]
pub(crate) struct Reading {
    range: KeyRange,
    limit: usize,
    at: Revision,
    /// The slot that the last step ended with.
    cursor: Option<Entry>,
    entries: Vec<Entry>,
    /// Entries, and slots, behind the limit.
    behind: u64,
    slots_behind: usize,
    counted: bool,
}

/// The newest state of a key. Ordered by its key alone.
#[derive(Debug)]
struct Slot {
    entry: Entry,
    /// The entry's revision and op again, so that counting and reading at a revision need not
    /// follow the pointer: `revision * 2 + deleted`.
    mark: u64,
    /// Its place in the index of terms.
    number: Option<Number>,
}

// === impl Index ===

impl Index {
    /// An index of what was current at the floor: at most one entry per key, in any order.
    #[cfg(test)]
    pub(crate) fn new(base: Vec<Entry>, floor: Revision) -> Self {
        Self::of_history(base, Vec::new(), floor, None).0
    }

    /// An index of what was current at the floor, at most one entry per key and no deletion, in any
    /// order, and of the changes since, in order. Returns the changes with the states before them. Builds all
    /// at once: applying a million changes one by one would take seconds.
    pub(crate) fn of_history(
        base: Vec<Entry>,
        changes: Vec<Entry>,
        floor: Revision,
        terms_of: Option<TermsOf>,
    ) -> (Self, Vec<(Entry, Option<Entry>)>) {
        let revision = changes.last().map_or(floor, Entry::modified);
        let base_count = base.len();
        let mut entries = base;
        entries.extend(changes);
        let order = parallel::order_of_keys(&entries);
        let at = |place: &u32| {
            entries
                .get(*place as usize)
                .expect("it is a place of these")
        };
        let mut previous = vec![None; entries.len().saturating_sub(base_count)];
        let mut slots = Vec::with_capacity(entries.len());
        let mut older = HashMap::new();
        let mut live = 0_u64;
        for versions in order.chunk_by(|a, b| at(a).key() == at(b).key()) {
            for pair in versions.array_windows::<2>() {
                let [before, after] = pair;
                let change = (*after as usize).checked_sub(base_count);
                if let Some(place) = change.and_then(|change| previous.get_mut(change)) {
                    *place = Some(at(before))
                        .filter(|entry| !entry.is_deletion())
                        .cloned();
                }
            }
            let Some((newest, before)) = versions.split_last() else {
                continue;
            };
            let newest = at(newest);
            live = live.saturating_add(u64::from(!newest.is_deletion()));
            slots.push(Slot::new(newest.clone()));
            if !before.is_empty() {
                older.insert(newest.to_key(), before.iter().map(at).cloned().collect());
            }
        }
        let changes = entries.split_off(base_count);
        let mut terms = terms_of.map(TermIndex::new);
        if let Some(terms) = &mut terms {
            terms.fill(&mut slots);
        }
        let index = Self {
            // They are sorted: the tree is built from below.
            current: slots.into_iter().collect(),
            older,
            terms,
            revision,
            floor,
            live,
        };
        (index, changes.into_iter().zip(previous).collect())
    }

    /// The oldest revision that can be read at.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// How many keys there are.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// The latest state of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.current
            .get(key)
            .filter(|slot| !slot.is_deleted())
            .map(|slot| &slot.entry)
    }

    /// The state of a key at a revision from the floor on.
    pub(crate) fn get_at(&self, key: &[u8], at: Revision) -> Option<&Entry> {
        self.state_at(self.current.get(key)?, at)
    }

    /// The terms of a state, in ascending order, for [`Index::apply`].
    pub(crate) fn terms(terms_of: Option<TermsOf>, entry: &Entry) -> Vec<u64> {
        terms_of.map_or_else(Vec::new, |terms_of| holders::terms(terms_of, entry))
    }

    /// Takes up the next state of a key with its terms, and returns the one before if the key was there.
    pub(crate) fn apply(&mut self, entry: Entry, terms: &[u64]) -> Option<Entry> {
        assert!(
            entry.modified() >= self.revision,
            "revisions rise in the order of commits"
        );
        self.revision = entry.modified();
        let deleted = entry.is_deletion();
        let mut slot = Slot::new(entry);
        if let Some(index) = &mut self.terms {
            let before = self.current.get(slot.entry.key());
            let before = before.and_then(|slot| Some((slot.number?, &slot.entry)));
            slot.number = index.replace(before, &slot.entry, terms);
        }
        let Some(before) = self.current.replace(slot) else {
            self.live = self.live.saturating_add(u64::from(!deleted));
            return None;
        };
        let was_deleted = before.is_deleted();
        self.live = match (was_deleted, deleted) {
            (true, false) => self.live.saturating_add(1),
            (false, true) => self.live.saturating_sub(1),
            _ => self.live,
        };
        let previous = before.entry.clone();
        if let Some(versions) = self.older.get_mut(previous.key()) {
            versions.push(before.entry);
        } else {
            self.older.insert(previous.to_key(), vec![before.entry]);
        }
        (!was_deleted).then_some(previous)
    }

    /// Notes that a revision is over, one that changed nothing here included.
    pub(crate) fn advance(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Refuses reads below `floor` from now on. [`Index::trim`] then frees what they would need.
    pub(crate) fn raise_floor(&mut self, floor: Revision) {
        self.floor = self.floor.max(floor.min(self.revision));
    }

    /// Drops the states of a key that no revision from the floor on needs.
    pub(crate) fn trim(&mut self, key: &[u8]) {
        let Some(slot) = self.current.get(key) else {
            return;
        };
        let (newest, deleted) = (slot.revision(), slot.is_deleted());
        if newest <= self.floor {
            self.older.remove(key);
            if deleted {
                self.current.remove(key);
            }
            return;
        }
        let Some(versions) = self.older.get_mut(key) else {
            return;
        };
        // The last version at or below the floor is the state at the floor.
        let below = versions.partition_point(|entry| entry.modified() <= self.floor);
        let needless = match below.checked_sub(1).and_then(|state| versions.get(state)) {
            Some(state) if state.is_deletion() => below,
            _ => below.saturating_sub(1),
        };
        versions.drain(..needless);
        if versions.is_empty() {
            self.older.remove(key);
        } else {
            versions.shrink_to(versions.len().saturating_mul(2));
        }
    }

    /// Begins to read a range.
    pub(crate) fn read(
        &self,
        range: KeyRange,
        limit: Option<usize>,
        at: Option<Revision>,
    ) -> Result<Reading, Error> {
        let at = at.unwrap_or(self.revision);
        self.check(at)?;
        let limit = limit.unwrap_or(usize::MAX);
        let entries = Vec::with_capacity(limit.min(SLOTS_PER_STEP));
        Ok(Reading {
            range,
            limit,
            at,
            cursor: None,
            entries,
            behind: 0,
            slots_behind: 0,
            counted: true,
        })
    }

    /// Reads on. Returns whether there is more to read.
    pub(crate) fn step(&self, reading: &mut Reading) -> Result<bool, Error> {
        self.check(reading.at)?;
        if reading.range.is_empty() {
            return Ok(false);
        }
        let from = match &reading.cursor {
            Some(last) => Bound::Excluded(last.key()),
            None => Bound::Included(reading.range.start.as_bytes()),
        };
        let slots = self
            .current
            .range::<[u8], _>((from, reading.range.upper_bound()));
        let mut last = None;
        let mut seen = 0_usize;
        for slot in slots.take(SLOTS_PER_STEP) {
            seen = seen.saturating_add(1);
            last = Some(slot);
            reading.take(self.state_at(slot, reading.at));
        }
        reading.cursor = last.map(|slot| slot.entry.clone());
        let more = seen == SLOTS_PER_STEP;
        // Whether there is more at all is always found out.
        reading.counted = !more || reading.slots_behind < COUNTED_MAX || reading.behind == 0;
        Ok(more && reading.counted)
    }

    /// The newest states of a range that hold what a query wants, and perhaps others. `None` where the range has to be
    /// walked: there is no index of terms, too much holds them, or the query is for an older revision.
    pub(crate) fn held(&self, query: &RangeQuery) -> Result<Option<Held>, Error> {
        let at = query.at.unwrap_or(self.revision);
        self.check(at)?;
        let index = self.terms.as_ref().filter(|_| at == self.revision);
        let found = index.and_then(|index| index.find(&query.range, &query.holding));
        Ok(found.map(|entries| Held { entries, at }))
    }

    fn check(&self, at: Revision) -> Result<(), Error> {
        if at < self.floor {
            return Err(Error::Compacted {
                requested: at,
                floor: self.floor,
            });
        }
        if at > self.revision {
            return Err(Error::FutureRevision {
                requested: at,
                current: self.revision,
            });
        }
        Ok(())
    }

    fn state_at<'a>(&'a self, slot: &'a Slot, at: Revision) -> Option<&'a Entry> {
        if slot.revision() <= at {
            return (!slot.is_deleted()).then_some(&slot.entry);
        }
        let versions = self.older.get(slot.entry.key())?;
        let behind = versions.partition_point(|entry| entry.modified() <= at);
        let state = versions.get(behind.checked_sub(1)?)?;
        (!state.is_deletion()).then_some(state)
    }
}

// === impl Held ===

impl Held {
    /// The first `limit` of them, in the order of keys.
    pub(crate) fn finish(self, limit: Option<usize>) -> Range {
        let Self { mut entries, at } = self;
        entries.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        entries.dedup_by(|a, b| a.key() == b.key());
        let limit = limit.unwrap_or(usize::MAX);
        let behind = entries.len().saturating_sub(limit);
        entries.truncate(limit);
        Range {
            entries,
            revision: at,
            more: behind > 0,
            remaining: Some(behind as u64),
        }
    }
}

// === impl Reading ===

impl Reading {
    /// What was read.
    pub(crate) fn finish(self) -> Range {
        Range {
            entries: self.entries,
            revision: self.at,
            more: self.behind > 0,
            remaining: self.counted.then_some(self.behind),
        }
    }

    fn take(&mut self, state: Option<&Entry>) {
        if self.entries.len() < self.limit {
            self.entries.extend(state.cloned());
            return;
        }
        self.slots_behind = self.slots_behind.saturating_add(1);
        self.behind = self.behind.saturating_add(u64::from(state.is_some()));
    }
}

// === impl Slot ===

impl Slot {
    fn new(entry: Entry) -> Self {
        let mark = (entry.modified().0 << 1) | u64::from(entry.is_deletion());
        Self {
            entry,
            mark,
            number: None,
        }
    }

    fn revision(&self) -> Revision {
        Revision(self.mark >> 1)
    }

    fn is_deleted(&self) -> bool {
        self.mark & 1 == 1
    }
}

impl Borrow<[u8]> for Slot {
    fn borrow(&self) -> &[u8] {
        self.entry.key()
    }
}

impl Ord for Slot {
    fn cmp(&self, other: &Self) -> Ordering {
        self.entry.key().cmp(other.entry.key())
    }
}

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        self.entry.key() == other.entry.key()
    }
}

impl Eq for Slot {}

#[cfg(test)]
mod tests;
