//! The log: every record by revision, in one redb file.
//!
//! ```text
//!   table "log"    [revision u64 BE | index u32 BE] -> record     (entry.rs draws the record)
//!   table "meta"   "format" -> u32 LE      "epoch" -> u64 LE
//!                  "tail"   -> | crc32 | 0 u32 | revision | floor | count | digest |  (u64 LE)
//! ```
//!
//! One commit of redb is one group: its records, a share of garbage that is deleted, and the tail.
//! redb checksums its pages, but only looks at them after a crash; the records' own checksums, and
//! `count` and `digest` over all rows in the tail, notice at every start what a disk has done to
//! them, a row that vanished included.
//!
//! # Invariants
//! - Above the floor the log has every record. At or below it, each key's latest record unless that
//!   is a deletion; anything else there is garbage that was not deleted yet.
//! - The floor is durable before the first row that it gives up is deleted.
//! - `tail.revision` is that of the last commit, also where its rows are gone.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use super::disk::{Backend, Disk};
use crate::entry::{Entry, NotARecord};
use crate::error::OpenError;
use crate::revision::Revision;
use crate::view::Snapshot;

/// The format that this version writes.
pub(crate) const FORMAT: u32 = 1;

const LOG: TableDefinition<'static, &[u8; ROW_KEY_BYTES], &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

const FORMAT_KEY: &str = "format";
const EPOCH_KEY: &str = "epoch";
const TAIL_KEY: &str = "tail";

const ROW_KEY_BYTES: usize = 12;
const TAIL_BYTES: usize = 40;

/// Reads are served from our own index, so redb's cache only has to hold the pages that commits
/// touch: the right edge of the tree, and those that compaction visits.
const CACHE_BYTES: usize = 32 * 1024 * 1024;

/// How the log is called in messages.
const PLACE: &str = "the log";

/// The log of a store, open for one writer.
#[derive(Debug)]
pub(crate) struct Log {
    database: redb::Database,
    tail: Tail,
}

/// What every commit leaves behind about the whole log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tail {
    revision: Revision,
    floor: Revision,
    count: u64,
    digest: u64,
}

/// A row that can be deleted, with what its deletion takes from the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    revision: Revision,
    index: u32,
    crc: u32,
}

/// Why the log could not be written. The log is not to be written again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("the engine below refused")]
    Engine(#[source] Box<redb::Error>),
    #[error("the engine below panicked")]
    Panicked,
    #[error("row {}/{} is missing", .0.revision, .0.index)]
    Missing(Row),
}

// === impl Log ===

impl Log {
    /// Makes an empty log, durable on its disk.
    pub(crate) fn create(disk: Box<dyn Disk>) -> Result<Self, OpenError> {
        let start = Revision::start_of_epoch(Revision::EPOCH_FIRST)
            .expect("the first epoch lies on the number line");
        let tail = Tail {
            revision: start,
            floor: start,
            count: 0,
            digest: 0,
        };
        let database = open_database(disk)?;
        let initialise = || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            transaction.open_table(LOG)?;
            let mut meta = transaction.open_table(META)?;
            meta.insert(FORMAT_KEY, FORMAT.to_le_bytes().as_slice())?;
            meta.insert(EPOCH_KEY, Revision::EPOCH_FIRST.to_le_bytes().as_slice())?;
            meta.insert(TAIL_KEY, tail.encode().as_slice())?;
            drop(meta);
            Ok(transaction.commit()?)
        };
        initialise().map_err(engine_error("make the log"))?;
        Ok(Self { database, tail })
    }

    /// Opens a log, after a crash too.
    pub(crate) fn open(disk: Box<dyn Disk>) -> Result<Self, OpenError> {
        let database = open_database(disk)?;
        let tail = guarded(|| read_meta(&database))?;
        Ok(Self { database, tail })
    }

    /// Reads everything, and returns it with the rows that are garbage.
    pub(crate) fn scan(&self) -> Result<(Snapshot, Vec<Row>), OpenError> {
        guarded(|| self.scan_rows())
    }

    /// The revision of the last commit.
    pub(crate) fn revision(&self) -> Revision {
        self.tail.revision
    }

    /// The oldest revision of which the log knows everything.
    pub(crate) fn floor(&self) -> Revision {
        self.tail.floor
    }

    /// Appends records and deletes garbage, in one durable commit.
    ///
    /// After an error nothing is known about what became durable, and the log must be dropped.
    pub(crate) fn append(&mut self, entries: &[Entry], garbage: &[Row]) -> Result<(), LogError> {
        let mut tail = self.tail;
        for entry in entries {
            tail.add(Row::of(entry));
        }
        for row in garbage {
            tail.remove(*row);
        }
        if let Some(last) = entries.last() {
            tail.revision = last.modified();
        }
        self.commit(entries, garbage, tail)
    }

    /// Gives history below a revision up, durably. Only then may its rows be deleted.
    pub(crate) fn raise_floor(&mut self, floor: Revision) -> Result<(), LogError> {
        let floor = floor.min(self.tail.revision);
        if floor <= self.tail.floor {
            return Ok(());
        }
        self.commit(&[], &[], Tail { floor, ..self.tail })
    }

    fn commit(&mut self, entries: &[Entry], garbage: &[Row], tail: Tail) -> Result<(), LogError> {
        let database = &self.database;
        let write = || -> Result<(), LogError> {
            let transaction = database.begin_write().map_err(LogError::engine)?;
            write_rows(&transaction, entries).map_err(LogError::engine)?;
            delete_rows(&transaction, garbage)?;
            write_tail(&transaction, tail).map_err(LogError::engine)?;
            transaction.commit().map_err(LogError::engine)
        };
        // redb asserts on pages that a disk has changed behind its back.
        catch_unwind(AssertUnwindSafe(write)).unwrap_or(Err(LogError::Panicked))?;
        self.tail = tail;
        Ok(())
    }

    fn scan_rows(&self) -> Result<(Snapshot, Vec<Row>), OpenError> {
        let failed = engine_error("read the log");
        let transaction = self.database.begin_read().map_err(|e| failed(e.into()))?;
        let table = transaction.open_table(LOG).map_err(|e| failed(e.into()))?;
        let mut reader = Reader::new(self.tail);
        for row in table.iter().map_err(|e| failed(e.into()))? {
            let (key, record) = row.map_err(|e| failed(e.into()))?;
            reader.read(*key.value(), record.value())?;
        }
        reader.finish()
    }
}

/// Turns the rows of the log, in order, into what they mean, and proves them whole.
#[derive(Debug)]
struct Reader {
    tail: Tail,
    found: Tail,
    base: Vec<Entry>,
    changes: Vec<Entry>,
}

// === impl Reader ===

impl Reader {
    fn new(tail: Tail) -> Self {
        let found = Tail {
            count: 0,
            digest: 0,
            ..tail
        };
        Self {
            tail,
            found,
            base: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn read(&mut self, key: [u8; ROW_KEY_BYTES], record: &[u8]) -> Result<(), OpenError> {
        let row = || {
            let revision = key
                .first_chunk()
                .map_or(0, |bytes| u64::from_be_bytes(*bytes));
            let index = key
                .last_chunk()
                .map_or(0, |bytes| u32::from_be_bytes(*bytes));
            format!("{PLACE}, row {revision}/{index}")
        };
        let entry = Entry::decode(record).map_err(|NotARecord(reason)| corrupt(row(), reason))?;
        if Row::of(&entry).key() != key {
            return Err(corrupt(row(), "the record belongs elsewhere"));
        }
        if entry.modified() > self.tail.revision {
            return Err(corrupt(row(), "it is behind the end"));
        }
        self.found.add(Row::of(&entry));
        if entry.modified() <= self.tail.floor {
            self.base.push(entry);
            return Ok(());
        }
        if !self.follows(&entry) {
            return Err(corrupt(row(), "its batch is not whole"));
        }
        self.changes.push(entry);
        Ok(())
    }

    /// Whether a record above the floor is the next one of its batch, or the first of another.
    fn follows(&self, entry: &Entry) -> bool {
        let open = self
            .changes
            .last()
            .filter(|last| last.index().saturating_add(1) < last.count());
        match open {
            Some(last) => {
                entry.modified() == last.modified()
                    && entry.count() == last.count()
                    && entry.index() == last.index().saturating_add(1)
            }
            None => entry.index() == 0,
        }
    }

    fn finish(mut self) -> Result<(Snapshot, Vec<Row>), OpenError> {
        if self.found != self.tail {
            return Err(corrupt(PLACE, "rows are missing, or there are too many"));
        }
        if self
            .changes
            .last()
            .is_some_and(|last| last.index().saturating_add(1) != last.count())
        {
            return Err(corrupt(PLACE, "its last batch is not whole"));
        }
        let garbage = settle(&mut self.base);
        let Tail {
            revision, floor, ..
        } = self.tail;
        Ok((
            Snapshot {
                base: self.base,
                changes: self.changes,
                floor,
                revision,
            },
            garbage,
        ))
    }
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

// === impl Row ===

impl Row {
    /// The row of a record.
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            revision: entry.modified(),
            index: entry.index(),
            crc: entry.crc(),
        }
    }

    fn key(self) -> [u8; ROW_KEY_BYTES] {
        let number = (u128::from(self.revision.0) << u32::BITS) | u128::from(self.index);
        *number
            .to_be_bytes()
            .last_chunk()
            .expect("twelve is less than sixteen")
    }

    /// What the row adds to the digest. The digest is a sum, so that rows come and go in any order.
    fn digest(self) -> u64 {
        mix(mix(self.revision.0) ^ (u64::from(self.index) << 32) ^ u64::from(self.crc))
    }
}

/// The finaliser of splitmix64: every bit of the input moves half the bits of the output.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

// === impl Tail ===

impl Tail {
    fn add(&mut self, row: Row) {
        self.count = self.count.saturating_add(1);
        self.digest = self.digest.wrapping_add(row.digest());
    }

    fn remove(&mut self, row: Row) {
        self.count = self.count.saturating_sub(1);
        self.digest = self.digest.wrapping_sub(row.digest());
    }

    fn encode(self) -> [u8; TAIL_BYTES] {
        let fields = [self.revision.0, self.floor.0, self.count, self.digest];
        let mut body = Vec::with_capacity(TAIL_BYTES);
        body.extend_from_slice(&[0; 8]);
        body.extend(fields.into_iter().flat_map(u64::to_le_bytes));
        let crc = tail_crc(&body);
        let mut bytes = [0; TAIL_BYTES];
        for (byte, source) in bytes.iter_mut().zip(
            crc.to_le_bytes()
                .into_iter()
                .chain(body.into_iter().skip(4)),
        ) {
            *byte = source;
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; TAIL_BYTES] = bytes.try_into().ok()?;
        let (crc, _) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*crc) != tail_crc(bytes) {
            return None;
        }
        let mut fields = bytes
            .get(8..)?
            .as_chunks::<8>()
            .0
            .iter()
            .map(|f| u64::from_le_bytes(*f));
        let mut field = || fields.next();
        let tail = Self {
            revision: Revision(field()?),
            floor: Revision(field()?),
            count: field()?,
            digest: field()?,
        };
        (tail.floor <= tail.revision && tail.revision.is_of_a_hub()).then_some(tail)
    }
}

fn tail_crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes.get(4..).unwrap_or_default())
}

// === redb ===

fn open_database(disk: Box<dyn Disk>) -> Result<redb::Database, OpenError> {
    guarded(|| {
        redb::Builder::new()
            .set_cache_size(CACHE_BYTES)
            .set_repair_callback(|_| {
                tracing::info!("the last run did not close the log, checking it");
            })
            .create_with_backend(Backend::new(disk))
            .map_err(|error| engine_error("open the log")(error.into()))
    })
}

fn read_meta(database: &redb::Database) -> Result<Tail, OpenError> {
    let failed = engine_error("read the log");
    let transaction = database.begin_read().map_err(|e| failed(e.into()))?;
    let meta = transaction.open_table(META).map_err(|e| failed(e.into()))?;
    let get = |key| -> Result<Vec<u8>, OpenError> {
        let row = meta.get(key).map_err(|e| failed(e.into()))?;
        row.map(|value| value.value().to_vec())
            .ok_or_else(|| corrupt(format!("{PLACE}, {key}"), "it is missing"))
    };
    let format = <[u8; 4]>::try_from(get(FORMAT_KEY)?).map(u32::from_le_bytes);
    match format {
        Ok(FORMAT) => {}
        Ok(found) if found > FORMAT => {
            return Err(OpenError::NewerFormat {
                found,
                known: FORMAT,
            });
        }
        _ => {
            return Err(corrupt(
                format!("{PLACE}, {FORMAT_KEY}"),
                "there is no such format",
            ));
        }
    }
    let tail = Tail::decode(&get(TAIL_KEY)?)
        .ok_or_else(|| corrupt(format!("{PLACE}, {TAIL_KEY}"), "checksum does not match"))?;
    let epoch = <[u8; 8]>::try_from(get(EPOCH_KEY)?).map(u64::from_le_bytes);
    if epoch != Ok(tail.revision.epoch()) {
        return Err(corrupt(
            format!("{PLACE}, {EPOCH_KEY}"),
            "it is not that of the revision",
        ));
    }
    Ok(tail)
}

fn write_rows(transaction: &redb::WriteTransaction, entries: &[Entry]) -> Result<(), redb::Error> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut table = transaction.open_table(LOG)?;
    let mut end = table.upper_bound_mut(Bound::<&[u8; ROW_KEY_BYTES]>::Unbounded)?;
    for entry in entries {
        end.insert_before(&Row::of(entry).key(), entry.record())?;
    }
    Ok(end.close()?)
}

fn delete_rows(transaction: &redb::WriteTransaction, rows: &[Row]) -> Result<(), LogError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = transaction.open_table(LOG).map_err(LogError::engine)?;
    for row in rows {
        let removed = table.remove(&row.key()).map_err(LogError::engine)?;
        if removed.is_none() {
            return Err(LogError::Missing(*row));
        }
    }
    Ok(())
}

fn write_tail(transaction: &redb::WriteTransaction, tail: Tail) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    meta.insert(TAIL_KEY, tail.encode().as_slice())?;
    Ok(())
}

/// Takes a panic of redb for what it is at a start: a page that makes no sense.
fn guarded<T>(work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(corrupt(PLACE, "its pages make no sense")))
}

fn corrupt(place: impl Into<String>, reason: &str) -> OpenError {
    OpenError::Corrupt {
        place: place.into(),
        reason: reason.to_owned(),
    }
}

fn engine_error(action: &'static str) -> impl Fn(redb::Error) -> OpenError + Copy {
    move |error| match error {
        redb::Error::Corrupted(reason) => corrupt(PLACE, &reason),
        redb::Error::TableDoesNotExist(table) => {
            corrupt(PLACE, &format!("table {table} is missing"))
        }
        redb::Error::Io(source) => OpenError::Io {
            action: action.to_owned(),
            source,
        },
        other => OpenError::Engine {
            action,
            source: Box::new(other),
        },
    }
}

// === impl LogError ===

impl LogError {
    fn engine(error: impl Into<redb::Error>) -> Self {
        Self::Engine(Box::new(error.into()))
    }
}

#[cfg(test)]
mod tests;
