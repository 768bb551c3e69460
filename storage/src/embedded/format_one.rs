//! Format 1: every record by revision, in one redb file. Only read by an upgrade, and written by a roll-back.
//!
//! ```text
//!   table "log"    [revision u64 BE | index u32 BE] -> record     (entry.rs draws the record)
//!   table "meta"   "format" -> u32 LE      "epoch" -> u64 LE
//!                  "checkpoint" -> revision, floor, count, digest  (checkpoint.rs draws it)
//! ```
//!
//! redb checksums its pages, but only looks at them after a crash. The records' own checksums, the
//! checkpoint, the count of rows that redb keeps, and the gapless numbers behind the checkpoint notice
//! at every start what a disk has done to a row, a row that vanished included ([`reader`]).
//!
//! # Invariants
//! - Above the floor the log has every record, of consecutive revisions. At or below it, each key's
//!   latest record unless that is a deletion; anything else there is garbage not yet deleted.
//! - The floor is durable before the first row that it gives up is deleted.
//! - The last revision is known also where its rows are gone: whoever deletes rows writes a
//!   checkpoint.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod checkpoint;
mod reader;

use std::io;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use self::checkpoint::{Checkpoint, ROW_KEY_BYTES, Row};
use self::reader::Reader;
use super::disk::Disk;
use crate::entry::Entry;
use crate::error::OpenError;
use crate::revision::Revision;
use crate::view::Snapshot;

/// The number of this format.
pub(crate) const FORMAT: u32 = 1;

const LOG: TableDefinition<'static, &[u8; ROW_KEY_BYTES], &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

const FORMAT_KEY: &str = "format";
const EPOCH_KEY: &str = "epoch";
const CHECKPOINT_KEY: &str = "checkpoint";

/// A conversion reads every row once and writes every row once, in order.
const CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Rows that are written with one commit.
const ROWS_PER_COMMIT: usize = 4096;

/// How the log is called in messages.
const PLACE: &str = "the log";

/// A log of format 1.
#[derive(Debug)]
pub(crate) struct Log {
    database: redb::Database,
    /// As of the last commit; on disk it may be older.
    checkpoint: Checkpoint,
}

/// A disk as redb wants it.
#[derive(Debug)]
struct Backend(Box<dyn Disk>);

/// Reads and proves everything.
pub(super) fn read(disk: Box<dyn Disk>) -> Result<Snapshot, OpenError> {
    let (snapshot, _) = Log::open(disk)?.scan()?;
    Ok(snapshot)
}

/// Writes a log with what is in a snapshot, durable on an empty disk.
pub(super) fn write(disk: Box<dyn Disk>, snapshot: &Snapshot) -> Result<(), OpenError> {
    let mut log = Log::create(disk, snapshot.floor.epoch())?;
    // The table's keys are revisions, and rows are added at its end.
    let mut base: Vec<_> = snapshot.base.iter().collect();
    base.sort_unstable_by_key(|entry| (entry.modified(), entry.index()));
    let rows: Vec<_> = base.into_iter().chain(&snapshot.changes).cloned().collect();
    for rows in rows.chunks(ROWS_PER_COMMIT) {
        log.append(rows)?;
    }
    log.finish(snapshot.floor, snapshot.revision)
}

// === impl Log ===

impl Log {
    /// Makes an empty log, durable on its disk.
    fn create(disk: Box<dyn Disk>, epoch: u64) -> Result<Self, OpenError> {
        let start = Revision::start_of_epoch(epoch)
            .ok_or_else(|| corrupt(PLACE, "its epoch lies outside the number line"))?;
        let checkpoint = Checkpoint {
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
            meta.insert(EPOCH_KEY, epoch.to_le_bytes().as_slice())?;
            meta.insert(CHECKPOINT_KEY, checkpoint.encode().as_slice())?;
            drop(meta);
            Ok(transaction.commit()?)
        };
        guarded(|| initialise().map_err(engine_error("make the log")))?;
        Ok(Self {
            database,
            checkpoint,
        })
    }

    /// Opens a log, after a crash too.
    fn open(disk: Box<dyn Disk>) -> Result<Self, OpenError> {
        let database = open_database(disk)?;
        let checkpoint = guarded(|| read_meta(&database))?;
        Ok(Self {
            database,
            checkpoint,
        })
    }

    /// Reads everything, and returns it with the rows that are garbage. Comes before any write: only
    /// now is the last revision known.
    fn scan(&mut self) -> Result<(Snapshot, Vec<Row>), OpenError> {
        let (found, snapshot, garbage) = guarded(|| self.scan_rows())?;
        self.checkpoint = found;
        Ok((snapshot, garbage))
    }

    /// Appends records in one durable commit, which leaves the checkpoint alone.
    fn append(&mut self, entries: &[Entry]) -> Result<(), OpenError> {
        for entry in entries {
            self.checkpoint.add(Row::of(entry));
            self.checkpoint.revision = entry.modified();
        }
        self.commit(|transaction| write_rows(transaction, entries))
    }

    /// Writes the checkpoint, over everything that was appended.
    fn finish(&mut self, floor: Revision, revision: Revision) -> Result<(), OpenError> {
        self.checkpoint.floor = floor;
        self.checkpoint.revision = revision;
        let checkpoint = self.checkpoint.encode();
        self.commit(|transaction| {
            let mut meta = transaction.open_table(META)?;
            meta.insert(CHECKPOINT_KEY, checkpoint.as_slice())?;
            Ok(())
        })
    }

    fn commit(
        &self,
        write: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), OpenError> {
        let commit = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            write(&transaction)?;
            Ok(transaction.commit()?)
        };
        guarded(|| commit().map_err(engine_error("write the log")))
    }

    fn scan_rows(&self) -> Result<(Checkpoint, Snapshot, Vec<Row>), OpenError> {
        let failed = engine_error("read the log");
        let transaction = self.database.begin_read().map_err(|e| failed(e.into()))?;
        let table = transaction.open_table(LOG).map_err(|e| failed(e.into()))?;
        let mut reader = Reader::new(self.checkpoint);
        for row in table.iter().map_err(|e| failed(e.into()))? {
            let (key, record) = row.map_err(|e| failed(e.into()))?;
            reader.read(*key.value(), record.value())?;
        }
        reader.finish(table.len().map_err(|e| failed(e.into()))?)
    }
}

// === redb ===

fn open_database(disk: Box<dyn Disk>) -> Result<redb::Database, OpenError> {
    guarded(|| {
        redb::Builder::new()
            .set_cache_size(CACHE_BYTES)
            .set_repair_callback(|_| {
                tracing::info!("the last run did not close the log, checking it");
            })
            .create_with_backend(Backend(disk))
            .map_err(|error| engine_error("open the log")(error.into()))
    })
}

fn read_meta(database: &redb::Database) -> Result<Checkpoint, OpenError> {
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
    let checkpoint = Checkpoint::decode(&get(CHECKPOINT_KEY)?).ok_or_else(|| {
        corrupt(
            format!("{PLACE}, {CHECKPOINT_KEY}"),
            "checksum does not match",
        )
    })?;
    let epoch = <[u8; 8]>::try_from(get(EPOCH_KEY)?).map(u64::from_le_bytes);
    if epoch != Ok(checkpoint.revision.epoch()) {
        return Err(corrupt(
            format!("{PLACE}, {EPOCH_KEY}"),
            "it is not that of the revision",
        ));
    }
    Ok(checkpoint)
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

// === impl Backend ===

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

#[cfg(test)]
mod tests;
