//! Stores that are made from other records: an upgrade, the way back, and a restore.
//!
//! # Invariants
//! - `FORMAT` is switched when everything that it names is durable, and what it named before is still
//!   there. So at every moment one whole store is named.
//! - Nothing that was acknowledged is left out: revisions, the floor, history and tags stay.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::codec::{FORMAT, Manifest, Place, Sealed, StoreId, is_in_log, to_disk};
use super::directory::FileDirectory;
use super::disk::Directory;
use super::format::{self, Found, LOG_ONE_FILE};
use super::log::{
    FORMAT_ONE_COPY, Log, LogError, MANIFEST_FILE, NEW_SUFFIX, Options, Rewriter, corrupt,
    io_error, replace,
};
use super::{Config, format_one};
use crate::entry::{Draft, Entry, Op, Seal};
use crate::error::OpenError;
use crate::key::KEY_BYTES_MAX;
use crate::keyring::Keyring;
use crate::revision::Revision;
use crate::store::VALUE_BYTES_MAX;
use crate::view::Snapshot;

/// A segment that is made from other records ends when it holds so much.
const SEGMENT_BYTES: u32 = 64 * 1024 * 1024;

/// What a new store is made of.
#[derive(Debug)]
pub struct Import {
    /// Its first revision and its floor: later than those of the entries, in an epoch of its own, so that no number is
    /// given twice.
    pub start: Revision,
    /// Its identity, if it is to have one; otherwise random.
    pub store_id: Option<[u8; 16]>,
    /// Its states, at most one per key, in any order.
    pub entries: Vec<Imported>,
}

/// One state of a new store.
#[derive(Clone, PartialEq, Eq)]
pub struct Imported {
    /// The key.
    pub key: Vec<u8>,
    /// The value, as it is served: with the digits of `modified` in it, where it was stamped.
    pub value: Vec<u8>,
    /// The revision in which the key came to be.
    pub created: Revision,
    /// The revision of this state.
    pub modified: Revision,
    /// What the writer attached.
    pub tag: u64,
}

/// Makes a store in a directory that holds none.
///
/// There is no history: floor and revision are the same. Cut off, it leaves a directory that
/// is refused, and that has to be emptied before the next attempt.
///
/// # Errors
/// [`OpenError::Locked`]; [`OpenError::Corrupt`] where the directory holds a store or a part of one, or where
/// entries contradict each other; [`OpenError::Io`].
pub fn import(directory: &Path, import: Import, config: &Config) -> Result<(), OpenError> {
    let directory = FileDirectory::open(directory)?;
    import_into(&directory, import, config.keyring.as_deref())
}

/// Makes the store in a directory one of format 1 again, for the version before this one, with everything
/// that was written since. What is sealed becomes plain: format 1 knows no sealing.
///
/// # Errors
/// As [`super::Engine::open`].
pub fn rollback(directory: &Path, config: &Config) -> Result<(), OpenError> {
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(directory)?);
    roll_back_on(&directory, config)
}

/// [`import`] into any directory.
pub(super) fn import_into(
    directory: &dyn Directory,
    import: Import,
    keyring: Option<&Keyring>,
) -> Result<(), OpenError> {
    if format::find(directory)? != Found::Nothing {
        return Err(corrupt("the directory", "it holds a store already"));
    }
    let floor = import.start;
    if !floor.is_of_a_hub() {
        return Err(corrupt("the import", "it begins outside the number line"));
    }
    let base = sealed_entries(import.entries, floor)?;
    let snapshot = Snapshot {
        base,
        changes: Vec::new(),
        floor,
        revision: floor,
    };
    let store = match import.store_id {
        Some(store) => store,
        None => directory.identity().map_err(io_error("name the store"))?,
    };
    remove_second(directory)?;
    write_second(directory, store, &snapshot, keyring)?;
    format::switch(directory, FORMAT)
}

/// [`rollback`] in any directory.
pub(super) fn roll_back_on(
    directory: &Arc<dyn Directory>,
    config: &Config,
) -> Result<(), OpenError> {
    match format::find(&**directory)? {
        Found::One => return remove_second(&**directory),
        Found::Nothing => return Err(corrupt("the directory", "it holds no store")),
        Found::Two => {}
    }
    let (mut log, snapshot) = Log::open(Arc::clone(directory), Options::of(config))?;
    log.close()?;
    drop(log);
    let new = format!("{LOG_ONE_FILE}{NEW_SUFFIX}");
    let disk = directory.create(&new).map_err(io_error("make the log"))?;
    format_one::write(disk, &snapshot)?;
    let renamed = directory.rename(&new, LOG_ONE_FILE);
    renamed
        .and_then(|()| directory.sync(""))
        .map_err(io_error("rename the log"))?;
    format::switch(&**directory, format_one::FORMAT)?;
    remove_second(&**directory)
}

/// Makes a store of format 1 one of format 2.
pub(super) fn upgrade(
    directory: &dyn Directory,
    keyring: Option<&Keyring>,
) -> Result<(), OpenError> {
    let disk = directory.open(LOG_ONE_FILE);
    let snapshot = format_one::read(disk.map_err(io_error("open the log"))?)?;
    remove_second(directory)?;
    let store = directory.identity().map_err(io_error("name the store"))?;
    write_second(directory, store, &snapshot, keyring)?;
    format::switch(directory, FORMAT)?;
    tracing::info!(
        revision = snapshot.revision.0,
        "the store was upgraded from format 1 to format 2"
    );
    Ok(())
}

/// Puts the log of format 1 aside, once nothing names it any more.
pub(super) fn put_first_aside(directory: &dyn Directory) -> Result<(), OpenError> {
    match directory.rename(LOG_ONE_FILE, FORMAT_ONE_COPY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed
            .and_then(|()| directory.sync(""))
            .map_err(io_error("put the log of format 1 aside")),
    }
}

/// Removes what format 2 has in a directory, while `FORMAT` does not name it.
pub(super) fn remove_second(directory: &dyn Directory) -> Result<(), OpenError> {
    let names = directory.list().map_err(io_error("list the directory"))?;
    let needless = |name: &&String| {
        is_in_log(name) || [MANIFEST_FILE, FORMAT_ONE_COPY].contains(&name.as_str())
    };
    for name in names.iter().filter(needless) {
        directory
            .remove(name)
            .map_err(io_error("remove a leftover"))?;
    }
    directory.sync("").map_err(io_error("sync the directory"))
}

/// Writes segments and manifest with what is in a snapshot.
fn write_second(
    directory: &dyn Directory,
    store: StoreId,
    snapshot: &Snapshot,
    keyring: Option<&Keyring>,
) -> Result<(), OpenError> {
    let mut base: Vec<_> = snapshot.base.iter().collect();
    base.sort_unstable_by_key(|entry| (entry.modified(), entry.index()));
    let records = base.into_iter().chain(&snapshot.changes);
    let sealed = write_segments(directory, store, records, snapshot, keyring)?;
    let manifest = Manifest {
        store,
        epoch: snapshot.revision.epoch(),
        floor: snapshot.floor,
        revision: snapshot.revision,
        sequence: sealed.last().map_or(0, |sealed| sealed.tally.last),
        active: None,
        sealed,
    };
    Ok(replace(directory, MANIFEST_FILE, &manifest.encode())?)
}

fn write_segments<'a>(
    directory: &dyn Directory,
    store: StoreId,
    records: impl Iterator<Item = &'a Entry>,
    snapshot: &Snapshot,
    keyring: Option<&Keyring>,
) -> Result<Vec<Sealed>, LogError> {
    let mut sealed = Vec::new();
    let begin = |number, previous| {
        let place = Place {
            store,
            number,
            generation: 0,
        };
        Rewriter::begin(directory, place, previous, snapshot.floor)
    };
    let mut number = 1_u32;
    let mut writer = begin(number, 0)?;
    let mut revision = snapshot.floor;
    for entry in records {
        let record = to_disk(entry, keyring).map_err(LogError::Sealing)?;
        writer.push(&record);
        revision = entry.modified();
        if writer.is_filled() {
            writer.flush(writer.last().saturating_add(1), revision)?;
        }
        if writer.end() >= SEGMENT_BYTES {
            number = number.saturating_add(1);
            let next = begin(number, writer.last())?;
            let done = std::mem::replace(&mut writer, next);
            sealed.extend(done.finish(snapshot.floor)?);
        }
    }
    writer.flush(writer.last().saturating_add(1), revision)?;
    sealed.extend(writer.finish(snapshot.floor)?);
    Ok(sealed)
}

/// The entries of an import as records, each in the place of its batch that is left of it.
fn sealed_entries(mut imported: Vec<Imported>, floor: Revision) -> Result<Vec<Entry>, OpenError> {
    let refuse = |reason| Err(corrupt("the import", reason));
    imported.sort_unstable_by(|a, b| (a.modified, &a.key).cmp(&(b.modified, &b.key)));
    let mut entries = Vec::with_capacity(imported.len());
    for batch in imported.chunk_by(|a, b| a.modified == b.modified) {
        let Ok(count) = u32::try_from(batch.len()) else {
            return refuse("a batch is too large");
        };
        for (index, state) in (0..count).zip(batch) {
            if state.created > state.modified || state.modified > floor {
                return refuse("its revisions make no sense");
            }
            if state.key.len() > KEY_BYTES_MAX || state.value.len() > VALUE_BYTES_MAX {
                return refuse("a key or a value is too large");
            }
            let draft = Draft::new(Op::Put, &state.key, &state.value, None);
            entries.push(draft.seal(Seal {
                revision: state.modified,
                created: state.created,
                tag: state.tag,
                index,
                count,
            }));
        }
    }
    let order = crate::index::parallel::order_of_keys(&entries);
    let mut keys = order
        .iter()
        .filter_map(|place| entries.get(*place as usize))
        .map(Entry::key);
    let mut last = keys.next();
    for key in keys {
        if last.replace(key) == Some(key) {
            return refuse("a key is there twice");
        }
    }
    Ok(entries)
}

impl std::fmt::Debug for Imported {
    /// Leaves the value out: it may be a Secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Imported")
            .field("key", &String::from_utf8_lossy(&self.key))
            .field("modified", &self.modified)
            .field("value_bytes", &self.value.len())
            .finish_non_exhaustive()
    }
}
