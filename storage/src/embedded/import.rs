//! Creates a store from given states: what a restore does.
//!
//! # Invariants
//! - `FORMAT` is written once everything that it names is durable, so a store is whole or does not exist.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::path::Path;

use super::Config;
use super::codec::{Manifest, Place, Sealed, StoreId, is_in_log, to_disk};
use super::directory::FileDirectory;
use super::disk::Directory;
use super::format::{self, Found};
use super::log::{LogError, MANIFEST_FILE, Rewriter, corrupt, io_error, replace};
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
    remove_leftovers(directory)?;
    write(directory, store, &snapshot, keyring)?;
    format::write(directory)
}

/// Removes what a directory without `FORMAT` has of a store.
pub(super) fn remove_leftovers(directory: &dyn Directory) -> Result<(), OpenError> {
    let names = directory.list().map_err(io_error("list the directory"))?;
    let leftovers = names
        .iter()
        .filter(|name| is_in_log(name) || *name == MANIFEST_FILE);
    for name in leftovers {
        directory
            .remove(name)
            .map_err(io_error("remove a leftover"))?;
    }
    directory.sync("").map_err(io_error("sync the directory"))
}

/// Writes the segments and the manifest of a snapshot.
fn write(
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
