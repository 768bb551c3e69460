//! `store check`: a second reader of the embedded store's files.
//!
//! It is written from `docs/storage-format.md` and shares no decoding with the engine, so what the two of them agree
//! on was not agreed by one mistake. In reading order: [`files`] (where they are), [`layout`] (what the bytes mean), [`walk`] (the
//! directory, from its first byte to its last), and here the hashes and the comparison with the engine.
//!
//! # Invariants
//! - Nothing is written, and nothing is repaired.
//! - Everything that is wrong is a finding with its place. Where nothing can be read, that is an error, not a finding.
//!
//! Not checked: whether a sweep could have dropped more, and leftovers that the next start removes.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod files;
mod layout;
mod walk;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256, digest};

use self::files::Files;
use self::walk::{Opened, Walk, shown};
use crate::backup::Record;
use crate::keyring::{KeyId, Keyring};
use crate::revision::Revision;

/// Differences that are told one by one; the rest is counted.
const DIFFERENCE_COUNT_MAX: usize = 100;

/// What a check found.
#[derive(Clone, Debug)]
pub struct Report {
    /// What is wrong; empty for a sound store.
    pub findings: Vec<Finding>,
    /// The store's id, in hex.
    pub store_id: String,
    /// The epoch of its revisions.
    pub epoch: u64,
    /// The oldest revision that can be read at.
    pub floor: Revision,
    /// The latest revision.
    pub revision: Revision,
    /// Segments that were read.
    pub segments: u64,
    /// Frames that were read.
    pub frames: u64,
    /// Records that were read.
    pub records: u64,
    /// Keys that there are.
    pub keys: u64,
    /// SHA-256 over (key, revision, value) of every record, in the order of the log.
    pub log_hash: String,
    /// SHA-256 over (key, revision, value) of every key's current state, by key.
    pub state_hash: String,
    /// How many records each key has sealed, current ones and garbage.
    pub sealed: BTreeMap<KeyId, u64>,
}

/// Something that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: String,
    /// What is wrong there.
    pub reason: String,
}

/// Why a directory cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A hub has the directory open.
    #[error("{} is in use by another process; stop the hub, or check a copy", directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// It is not a store of the format that is checked.
    #[error("{} is no store of format 2: {found}", directory.display())]
    Format {
        /// The directory.
        directory: PathBuf,
        /// What `FORMAT` says.
        found: String,
    },
    /// Values are sealed, and there is no keyring.
    #[error("{count} records are sealed; pass the key file")]
    NoKeyring {
        /// How many.
        count: u64,
    },
    /// Values are sealed with other keys than those of the keyring.
    #[error("records are sealed with {}, which the key file does not hold: pass one that does", keys.join(", "))]
    MissingKeys {
        /// Which.
        keys: Vec<String>,
    },
    /// The engine takes a lock, and makes no exception for this directory.
    #[error("{} cannot be written, so that the index cannot be compared: check a copy", directory.display())]
    ReadOnly {
        /// The directory.
        directory: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The operating system refused.
    #[error("cannot read {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

/// The current states, as the log says.
#[derive(Debug, Default)]
pub struct States {
    states: BTreeMap<Vec<u8>, State>,
}

/// What is compared of a state: its value only by its hash, so that a large store can be checked in little memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    revision: Revision,
    created: Revision,
    tag: u64,
    value: [u8; 32],
}

// === impl Report ===

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

// === impl States ===

impl States {
    /// Compares with what another reader says the states are, and returns the differences.
    pub fn compare<'a>(
        mut self,
        others: impl IntoIterator<Item = (&'a [u8], Revision, Revision, u64, &'a [u8])>,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut find = |key: &[u8], reason: &str| {
            findings.push(Finding {
                place: shown(key),
                reason: reason.to_owned(),
            });
        };
        for (key, revision, created, tag, value) in others {
            let found = State::of(revision, created, tag, value);
            match self.states.remove(key) {
                None => find(key, "the engine's index has it, the log does not"),
                Some(state) if state.revision != found.revision => {
                    find(key, "the engine's index has another revision than the log");
                }
                Some(state) if state.value != found.value => {
                    find(key, "the engine's index has another value than the log");
                }
                Some(state) if state != found => {
                    find(key, "the engine's index has other marks than the log");
                }
                Some(_) => {}
            }
        }
        for key in self.states.keys() {
            find(key, "the log has it, the engine's index does not");
        }
        let count = findings.len();
        if count > DIFFERENCE_COUNT_MAX {
            findings.truncate(DIFFERENCE_COUNT_MAX);
            findings.push(Finding {
                place: "the engine's index".to_owned(),
                reason: format!("{count} differences in all"),
            });
        }
        findings
    }

    fn hash(&self) -> String {
        let mut context = Context::new(&SHA256);
        for (key, state) in &self.states {
            add(&mut context, key, state.revision.0, &state.value);
        }
        hex(context.finish().as_ref())
    }

    fn take(&mut self, opened: &Opened<'_>) {
        let record = &opened.record;
        if record.is_deletion {
            self.states.remove(record.key);
            return;
        }
        let revision = Revision(record.revision);
        let created = Revision(record.created);
        let state = State::of(revision, created, record.tag, &opened.value);
        self.states.insert(record.key.to_vec(), state);
    }
}

// === impl State ===

impl State {
    fn of(revision: Revision, created: Revision, tag: u64, value: &[u8]) -> Self {
        Self {
            revision,
            created,
            tag,
            value: sha256(value),
        }
    }
}

/// Reads a store's directory to its end, and returns what was found and the current states.
///
/// # Errors
/// [`CheckError::InUse`] for one that is open; [`CheckError::Format`] for what is no store of format 2;
/// [`CheckError::NoKeyring`] where values are sealed and cannot be opened.
pub fn check(directory: &Path, keyring: Option<&Keyring>) -> Result<(Report, States), CheckError> {
    let _lock = lock(directory)?;
    check_all(&directory, keyring)
}

/// [`check`] of files in memory, by their names in the directory.
///
/// # Errors
/// As [`check`].
#[cfg(any(test, feature = "fuzzing"))]
pub fn check_files(
    files: &BTreeMap<String, Vec<u8>>,
    keyring: Option<&Keyring>,
) -> Result<(Report, States), CheckError> {
    check_all(files, keyring)
}

fn check_all(files: &dyn Files, keyring: Option<&Keyring>) -> Result<(Report, States), CheckError> {
    let mut states = States::default();
    let mut log = Context::new(&SHA256);
    let mut sink = |opened: Opened<'_>| {
        let record = &opened.record;
        add(
            &mut log,
            record.key,
            record.revision,
            &sha256(&opened.value),
        );
        states.take(&opened);
    };
    let seen = Walk::new(files, keyring, &mut sink).run()?;
    let count = seen.sealed.values().sum();
    if keyring.is_none() && count > 0 {
        return Err(CheckError::NoKeyring { count });
    }
    let held: Vec<_> = keyring.into_iter().flat_map(Keyring::keys).collect();
    let missing = seen
        .sealed
        .keys()
        .filter(|id| !held.iter().any(|it| it.0 == **id));
    let keys: Vec<_> = missing.map(ToString::to_string).collect();
    if !keys.is_empty() {
        return Err(CheckError::MissingKeys { keys });
    }
    let report = Report {
        findings: seen.findings,
        store_id: hex(&seen.store),
        epoch: seen.epoch,
        floor: Revision(seen.floor),
        revision: Revision(seen.revision),
        segments: seen.segments,
        frames: seen.frames,
        records: seen.records,
        keys: states.states.len() as u64,
        log_hash: hex(log.finish().as_ref()),
        state_hash: states.hash(),
        sealed: seen.sealed,
    };
    Ok((report, states))
}

/// Reads the current states of a store's directory, by key, for a backup of it. What is wrong is returned as findings;
/// then the records are not to be relied on.
///
/// # Errors
/// As [`check`].
pub fn records(
    directory: &Path,
    keyring: Option<&Keyring>,
) -> Result<(Report, Vec<Record>), CheckError> {
    let mut records: BTreeMap<Vec<u8>, Record> = BTreeMap::new();
    let (report, _states) = check(directory, keyring)?;
    let _lock = lock(directory)?;
    let mut sink = |opened: Opened<'_>| {
        let record = &opened.record;
        if record.is_deletion {
            records.remove(record.key);
            return;
        }
        let state = Record {
            key: record.key.to_vec(),
            value: opened.value,
            created: Revision(record.created),
            modified: Revision(record.revision),
            tag: record.tag,
        };
        records.insert(state.key.clone(), state);
    };
    Walk::new(&directory, keyring, &mut sink).run()?;
    Ok((report, records.into_values().collect()))
}

/// Whether bytes are a manifest as it is drawn.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn reads_manifest(bytes: &[u8]) -> bool {
    layout::Manifest::parse(bytes).is_ok()
}

/// Makes sure of the format, and that no hub has the directory while it is read.
fn lock(directory: &Path) -> Result<File, CheckError> {
    let failed = |path: &Path, source| CheckError::Io {
        path: path.to_owned(),
        source,
    };
    let path = directory.join("FORMAT");
    let format = fs::read_to_string(&path).map_err(|source| failed(&path, source))?;
    if format.lines().take(2).ne(["wheelhouse-store", "format 2"]) {
        return Err(CheckError::Format {
            directory: directory.to_owned(),
            found: format.lines().take(2).collect::<Vec<_>>().join(", "),
        });
    }
    let path = directory.join("LOCK");
    let file = File::open(&path).map_err(|source| failed(&path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(CheckError::InUse {
            directory: directory.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(failed(&path, source)),
    }
}

fn add(context: &mut Context, key: &[u8], revision: u64, value: &[u8; 32]) {
    context.update(&(key.len() as u64).to_le_bytes());
    context.update(key);
    context.update(&revision.to_le_bytes());
    context.update(value);
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let hash = digest(&SHA256, bytes);
    hash.as_ref().first_chunk().copied().unwrap_or([0; 32])
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
