//! The embedded engine: a directory on this machine, one process, everything in memory for reads.
//!
//! In the order of a write: [`Engine::commit`] lays the records out on the caller's thread and
//! queues them ([`queue`]); the one commit thread takes all that is queued ([`committer`]), judges and numbers
//! it ([`group`]), appends it to the log with one sync ([`log`], in the layout of [`codec`], on [`disk`]), publishes it,
//! and answers. How long history is kept is decided by [`retention`]; who may open a directory by
//! [`directory`]; which format it has, by [`format`]; [`import`] creates one from a backup.
//! `docs/storage-format.md` draws the files.
//!
//! # Invariants
//! - A lone writer waits for its own sync and for nothing else.
//! - After a commit that failed, no write is taken up until the store is opened again. Reads go on.
//! - The engine's thread ends before the directory's lock is given back.

mod codec;
mod committer;
mod directory;
mod disk;
mod format;
mod group;
mod import;
mod log;
mod queue;
pub(crate) mod retention;

#[cfg(any(test, feature = "fuzzing"))]
pub mod probe;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

pub use self::directory::is_in_use;
pub use self::disk::{Directory, Disk};
pub use self::import::{Import, Imported, import};

use self::committer::{Committer, Shared};
use self::directory::FileDirectory;
use self::format::Found;
use self::group::{Proposal, Submission};
use self::log::{Log, Options, Sizes, read_snapshot};
use crate::answer::Answer;
use crate::clock::{Clock, SystemClock};
use crate::entry::{Draft, Entry, Op};
use crate::error::{Error, OpenError};
use crate::key::{KEY_BYTES_MAX, KeyRange};
use crate::keyring::Keyring;
use crate::metrics::{Metrics, Statistics};
use crate::revision::Revision;
use crate::store::{
    BATCH_BYTES_MAX, BATCH_COUNT_MAX, Change, Committed, Expect, Range, RangeQuery, STAMP_BYTES,
    Store, TermsOf, VALUE_BYTES_MAX, WatchQuery, Write,
};
use crate::view::View;
use crate::watch::Watcher;

/// How an engine keeps history.
#[derive(Debug)]
pub struct Config {
    /// How long every revision can be read at and watched from. Kubernetes' compactor: 5 minutes.
    pub history: Duration,
    /// How much memory history may take beyond the current states. When it takes more, the oldest
    /// part goes early, with a warning: memory comes before the age of history.
    pub history_bytes_max: u64,
    /// How often an idle commit thread looks at the clock.
    pub tick: Duration,
    /// What tells how old a revision is.
    pub clock: Arc<dyn Clock>,
    /// What seals the values of the keys that it covers, on disk. In memory all values are plain.
    pub keyring: Option<Arc<Keyring>>,
    /// What finds the terms of values, for [`RangeQuery::holding`].
    pub terms_of: Option<TermsOf>,
    /// How large the first segment of the log is after a start. Each one after it is four times as
    /// large as the one before.
    pub segment_bytes_first: u32,
    /// How large segments become.
    pub segment_bytes_max: u32,
}

/// A store in a directory. It closes when it is dropped.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    /// Taken by whoever closes first.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Reads a directory as a start does, and writes nothing: what the index would hold, by key.
///
/// # Errors
/// As [`Engine::open`].
pub fn read(directory: &Path, keyring: Option<&Keyring>) -> Result<Vec<Entry>, OpenError> {
    let directory = FileDirectory::open(directory)?;
    let view = View::new(read_snapshot(&directory, keyring)?, None);
    let everything = RangeQuery::of(KeyRange::prefix(""));
    let range = view.range(&everything);
    Ok(range.expect("the latest revision is kept").entries)
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            history: Duration::from_mins(5),
            history_bytes_max: 1024 * 1024 * 1024,
            tick: Duration::from_secs(1),
            clock: Arc::new(SystemClock::default()),
            keyring: None,
            terms_of: None,
            segment_bytes_first: 1024 * 1024,
            segment_bytes_max: 64 * 1024 * 1024,
        }
    }
}

// === impl Options ===

impl Options {
    fn of(config: &Config, metrics: &Metrics) -> Self {
        Self {
            sizes: Sizes {
                first: config.segment_bytes_first,
                max: config.segment_bytes_max.max(config.segment_bytes_first),
            },
            keyring: config.keyring.clone(),
            clock: Arc::clone(&config.clock),
            metrics: metrics.clone(),
        }
    }
}

// === impl Engine ===

impl Engine {
    /// Opens the store in a directory, and makes both where there is none. Reads the whole log, so
    /// it belongs on a thread that may block.
    ///
    /// # Errors
    /// [`OpenError::Locked`] where the directory is in use, [`OpenError::UnknownFormat`] for a
    /// format of another version, [`OpenError::Corrupt`] for bytes that are not what was written,
    /// [`OpenError::Sealed`] where the keyring lacks a key.
    pub fn open(directory: &Path, config: Config) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(FileDirectory::open(directory)?), config)
    }

    /// Opens the store in whatever directory, and makes it where there is none. Nothing here keeps a
    /// second engine from the same directory.
    ///
    /// # Errors
    /// As [`Engine::open`], but for the lock.
    pub fn open_on(directory: Arc<dyn Directory>, config: Config) -> Result<Self, OpenError> {
        let began = config.clock.elapsed();
        match format::find(&*directory)? {
            Found::Nothing => {
                import::remove_leftovers(&*directory)?;
                Log::create(&*directory)?;
                format::write(&*directory)?;
            }
            Found::Store => {}
        }
        let metrics = Metrics::default();
        let (log, snapshot) = Log::open(directory, Options::of(&config, &metrics))?;
        let view = View::new(snapshot, config.terms_of);
        tracing::info!(
            revision = view.revision().0,
            floor = view.floor().0,
            keys = view.live(),
            latency_ms = millis(config.clock.elapsed().saturating_sub(began)),
            "store opened"
        );
        let shared = Arc::new(Shared::new(view, metrics));
        let committer = Committer::new(Arc::clone(&shared), log, config);
        let thread = std::thread::Builder::new()
            .name("store-commit".to_owned())
            .spawn(move || committer.run())
            .map_err(|source| OpenError::Io {
                action: "start the commit thread".to_owned(),
                source,
            })?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Forgets history below a revision, or as much of it as there is.
    pub fn compact(&self, floor: Revision) -> Answer<Revision> {
        self.shared.queue().compact(floor)
    }

    /// Takes no more writes, finishes those that were taken up, and ends all watches. Blocks.
    pub fn close(&self) {
        self.shared.queue().close();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the commit thread panicked");
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for Engine {
    fn revision(&self) -> Revision {
        self.shared.view().revision()
    }

    fn compaction_floor(&self) -> Revision {
        self.shared.view().floor()
    }

    fn get(&self, key: &[u8]) -> Option<Entry> {
        self.shared.view().get(key)
    }

    fn range(&self, query: RangeQuery) -> Result<Range, Error> {
        self.shared.view().range(&query)
    }

    fn commit(&self, writes: Vec<Write>) -> Answer<Committed> {
        match propose(writes) {
            Ok(proposals) => {
                let (responder, answer) = Answer::pending();
                self.shared.queue().submit(Submission {
                    proposals,
                    responder,
                });
                answer
            }
            Err(error) => Answer::ready(Err(error)),
        }
    }

    fn watch(&self, query: WatchQuery) -> Result<Watcher, Error> {
        self.shared.view().watch(query)
    }

    fn fresh(&self) -> Answer<Revision> {
        Answer::ready(Ok(self.revision()))
    }

    fn health(&self) -> Result<(), Error> {
        self.shared.queue().health()
    }

    fn metrics(&self) -> &Metrics {
        self.shared.metrics()
    }

    fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }
}

/// Checks what can be checked without knowing the order of commits, and lays the records out.
fn propose(writes: Vec<Write>) -> Result<Vec<Proposal>, Error> {
    bounded("batch (writes)", writes.len(), BATCH_COUNT_MAX)?;
    if writes
        .iter()
        .all(|write| matches!(write.change, Change::Keep))
    {
        return Err(Error::Malformed {
            reason: "the batch is empty",
        });
    }
    if writes.len() > 1 {
        let mut keys = HashSet::with_capacity(writes.len());
        if !writes.iter().all(|write| keys.insert(write.key.as_bytes())) {
            return Err(Error::Malformed {
                reason: "a key is written twice in one batch",
            });
        }
    }
    let proposals = writes
        .into_iter()
        .map(propose_one)
        .collect::<Result<Vec<_>, _>>()?;
    let size = proposals.iter().map(|proposal| proposal.draft.len()).sum();
    bounded("batch", size, BATCH_BYTES_MAX)?;
    Ok(proposals)
}

fn propose_one(write: Write) -> Result<Proposal, Error> {
    let Write {
        key,
        change,
        expect,
    } = write;
    let is_kept = matches!(change, Change::Keep);
    let (op, value, stamp, tag) = match change {
        Change::Put { value, stamp, tag } => (Op::Put, value, stamp, Some(tag)),
        Change::Delete { last } => {
            let (value, stamp) = last.unwrap_or_default();
            (Op::Delete, value, stamp, None)
        }
        Change::Keep => (Op::Put, Vec::new(), None, None),
    };
    if is_kept && !matches!(expect, Expect::Revision(_)) {
        return Err(Error::Malformed {
            reason: "what is kept has a revision",
        });
    }
    bounded("key", key.len(), KEY_BYTES_MAX)?;
    bounded("value", value.len(), VALUE_BYTES_MAX)?;
    if op == Op::Delete && expect == Expect::Absent {
        return Err(Error::Malformed {
            reason: "what is absent cannot be deleted",
        });
    }
    let fits = |stamp: usize| {
        stamp
            .checked_add(STAMP_BYTES)
            .is_some_and(|end| end <= value.len())
    };
    if !stamp.is_none_or(fits) {
        return Err(Error::Malformed {
            reason: "the stamp does not fit into the value",
        });
    }
    Ok(Proposal {
        draft: Draft::new(op, &key, &value, stamp),
        expect,
        tag,
        is_kept,
    })
}

fn bounded(what: &'static str, size: usize, limit: usize) -> Result<(), Error> {
    if size > limit {
        return Err(Error::TooLarge { what, size, limit });
    }
    Ok(())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
