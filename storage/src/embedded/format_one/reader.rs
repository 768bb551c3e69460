//! Turns the rows of the log, in their order, into what they mean, and proves them whole.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::checkpoint::{Checkpoint, ROW_KEY_BYTES, Row};
use super::{PLACE, corrupt};
use crate::entry::{Entry, NotARecord};
use crate::error::OpenError;
use crate::view::Snapshot;

/// A scan on its way.
#[derive(Debug)]
pub(super) struct Reader {
    /// What the log says about itself.
    told: Checkpoint,
    /// What the rows say, up to the checkpoint's revision.
    found: Checkpoint,
    base: Vec<Entry>,
    changes: Vec<Entry>,
}

// === impl Reader ===

impl Reader {
    /// A reader of the log with this checkpoint.
    pub(super) fn new(told: Checkpoint) -> Self {
        let found = Checkpoint {
            count: 0,
            digest: 0,
            ..told
        };
        Self {
            told,
            found,
            base: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Takes up the next row.
    pub(super) fn read(
        &mut self,
        key: [u8; ROW_KEY_BYTES],
        record: &[u8],
    ) -> Result<(), OpenError> {
        let entry =
            Entry::decode(record).map_err(|NotARecord(reason)| corrupt(place_of(key), reason))?;
        let row = Row::of(&entry);
        if row.key() != key {
            return Err(corrupt(place_of(key), "the record belongs elsewhere"));
        }
        if entry.modified() <= self.told.revision {
            self.found.add(row);
        }
        if entry.modified() <= self.told.floor {
            self.base.push(entry);
            return Ok(());
        }
        if !self.follows(&entry) {
            return Err(corrupt(place_of(key), "rows before it are missing"));
        }
        self.changes.push(entry);
        Ok(())
    }

    /// Compares what was found with what the log says, and settles it.
    pub(super) fn finish(
        mut self,
        row_count: u64,
    ) -> Result<(Checkpoint, Snapshot, Vec<Row>), OpenError> {
        if self.found != self.told {
            return Err(corrupt(PLACE, "rows are missing, or there are too many"));
        }
        if self.changes.last().is_some_and(|last| !ends_batch(last)) {
            return Err(corrupt(PLACE, "its last batch is not whole"));
        }
        let mut checkpoint = self.told;
        let behind = self
            .changes
            .iter()
            .filter(|entry| entry.modified() > self.told.revision);
        for entry in behind {
            checkpoint.add(Row::of(entry));
            checkpoint.revision = entry.modified();
        }
        if checkpoint.count != row_count {
            return Err(corrupt(PLACE, "its count of rows is another"));
        }
        let garbage = settle(&mut self.base);
        let Checkpoint {
            revision, floor, ..
        } = checkpoint;
        let snapshot = Snapshot {
            base: self.base,
            changes: self.changes,
            floor,
            revision,
        };
        Ok((checkpoint, snapshot, garbage))
    }

    /// Whether a record above the floor is the next one: of its batch, or of the next revision.
    fn follows(&self, entry: &Entry) -> bool {
        match self.changes.last() {
            Some(last) if !ends_batch(last) => {
                entry.modified() == last.modified()
                    && entry.count() == last.count()
                    && entry.index() == last.index().saturating_add(1)
            }
            last => {
                let before = last.map_or(self.told.floor, Entry::modified);
                entry.modified() == before.next() && entry.index() == 0
            }
        }
    }
}

fn ends_batch(entry: &Entry) -> bool {
    entry.index().saturating_add(1) == entry.count()
}

fn place_of(key: [u8; ROW_KEY_BYTES]) -> String {
    let revision = key
        .first_chunk()
        .map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let index = key
        .last_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes));
    format!("{PLACE}, row {revision}/{index}")
}

/// Reduces the records at or below the floor to the latest of each key that is no deletion, and
/// returns the others.
fn settle(base: &mut Vec<Entry>) -> Vec<Row> {
    let mut garbage = Vec::new();
    base.sort_by(|a, b| (a.key(), a.modified()).cmp(&(b.key(), b.modified())));
    let mut latest: Vec<Entry> = Vec::with_capacity(base.len());
    for entry in base.drain(..) {
        if let Some(older) = latest.pop_if(|last| last.key() == entry.key()) {
            garbage.push(Row::of(&older));
        }
        latest.push(entry);
    }
    latest.retain(|entry| {
        if entry.is_deletion() {
            garbage.push(Row::of(entry));
        }
        !entry.is_deletion()
    });
    *base = latest;
    garbage
}
