//! The log: every record by revision, in one redb file.
//!
//! ```text
//!   table "log"    [revision u64 BE | index u32 BE] -> record     (entry.rs draws the record)
//!   table "meta"   "format" -> u32 LE      "epoch" -> u64 LE
//!                  "checkpoint" -> revision, floor, count, digest  (checkpoint.rs draws it)
//! ```
//!
//! One commit of redb is one group: its records, and, where there is garbage to delete, a share of it
//! with a new checkpoint. A group without garbage leaves the checkpoint alone, which saves a page.
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

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

pub(crate) use self::checkpoint::Row;

use self::checkpoint::{Checkpoint, ROW_KEY_BYTES};
use self::reader::Reader;
use super::disk::{Backend, Disk};
use crate::entry::Entry;
use crate::error::OpenError;
use crate::revision::Revision;
use crate::view::Snapshot;

/// The format that this version writes.
pub(crate) const FORMAT: u32 = 1;

const LOG: TableDefinition<'static, &[u8; ROW_KEY_BYTES], &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

const FORMAT_KEY: &str = "format";
const EPOCH_KEY: &str = "epoch";
const CHECKPOINT_KEY: &str = "checkpoint";

/// Reads are served from our own index, so redb's cache only has to hold the pages that commits
/// touch: the right edge of the tree, and those that compaction visits.
const CACHE_BYTES: usize = 32 * 1024 * 1024;

/// How the log is called in messages.
const PLACE: &str = "the log";

/// The log of a store, open for one writer.
#[derive(Debug)]
pub(crate) struct Log {
    database: redb::Database,
    /// As of the last commit; on disk it may be older.
    checkpoint: Checkpoint,
}

/// Why the log could not be written. The log is not to be written again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("the engine below refused")]
    Engine(#[source] Box<redb::Error>),
    #[error("the engine below panicked")]
    Panicked,
    #[error("{0} is missing")]
    Missing(Row),
}

// === impl Log ===

impl Log {
    /// Makes an empty log, durable on its disk.
    pub(crate) fn create(disk: Box<dyn Disk>) -> Result<Self, OpenError> {
        let start = Revision::start_of_epoch(Revision::EPOCH_FIRST)
            .expect("the first epoch lies on the number line");
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
            meta.insert(EPOCH_KEY, Revision::EPOCH_FIRST.to_le_bytes().as_slice())?;
            meta.insert(CHECKPOINT_KEY, checkpoint.encode().as_slice())?;
            drop(meta);
            Ok(transaction.commit()?)
        };
        initialise().map_err(engine_error("make the log"))?;
        Ok(Self {
            database,
            checkpoint,
        })
    }

    /// Opens a log, after a crash too.
    pub(crate) fn open(disk: Box<dyn Disk>) -> Result<Self, OpenError> {
        let database = open_database(disk)?;
        let checkpoint = guarded(|| read_meta(&database))?;
        Ok(Self {
            database,
            checkpoint,
        })
    }

    /// Reads everything, and returns it with the rows that are garbage. Comes before any write: only
    /// now is the last revision known.
    pub(crate) fn scan(&mut self) -> Result<(Snapshot, Vec<Row>), OpenError> {
        let (found, snapshot, garbage) = guarded(|| self.scan_rows())?;
        self.checkpoint = found;
        Ok((snapshot, garbage))
    }

    /// The revision of the last commit.
    pub(crate) fn revision(&self) -> Revision {
        self.checkpoint.revision
    }

    /// The oldest revision of which the log knows everything.
    pub(crate) fn floor(&self) -> Revision {
        self.checkpoint.floor
    }

    /// Appends records and deletes garbage, in one durable commit.
    ///
    /// After an error nothing is known about what became durable, and the log must be dropped.
    pub(crate) fn append(&mut self, entries: &[Entry], garbage: &[Row]) -> Result<(), LogError> {
        let mut checkpoint = self.checkpoint;
        for entry in entries {
            checkpoint.add(Row::of(entry));
        }
        for row in garbage {
            checkpoint.remove(*row);
        }
        if let Some(last) = entries.last() {
            checkpoint.revision = last.modified();
        }
        self.commit(checkpoint, |transaction| {
            write_rows(transaction, entries).map_err(LogError::engine)?;
            if garbage.is_empty() {
                return Ok(());
            }
            delete_rows(transaction, garbage)?;
            write_checkpoint(transaction, checkpoint)
        })
    }

    /// Gives history below a revision up, durably. Only then may its rows be deleted.
    pub(crate) fn raise_floor(&mut self, floor: Revision) -> Result<(), LogError> {
        let floor = floor.min(self.checkpoint.revision);
        if floor <= self.checkpoint.floor {
            return Ok(());
        }
        let checkpoint = Checkpoint {
            floor,
            ..self.checkpoint
        };
        self.commit(checkpoint, |transaction| {
            write_checkpoint(transaction, checkpoint)
        })
    }

    fn commit(
        &mut self,
        after: Checkpoint,
        write: impl FnOnce(&redb::WriteTransaction) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let database = &self.database;
        let commit = || -> Result<(), LogError> {
            let transaction = database.begin_write().map_err(LogError::engine)?;
            write(&transaction)?;
            transaction.commit().map_err(LogError::engine)
        };
        // redb asserts on pages that a disk has changed behind its back.
        catch_unwind(AssertUnwindSafe(commit)).unwrap_or(Err(LogError::Panicked))?;
        self.checkpoint = after;
        Ok(())
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
            .create_with_backend(Backend::new(disk))
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

fn write_checkpoint(
    transaction: &redb::WriteTransaction,
    checkpoint: Checkpoint,
) -> Result<(), LogError> {
    let mut meta = transaction.open_table(META).map_err(LogError::engine)?;
    meta.insert(CHECKPOINT_KEY, checkpoint.encode().as_slice())
        .map_err(LogError::engine)?;
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
