//! The embedded engine: a directory on this machine, one process, everything in memory for reads.
//!
//! In the order of a write: [`Engine::commit`] lays the records out on the caller's thread and
//! queues them ([`queue`]); the one commit thread takes all that is queued ([`committer`]), judges and numbers
//! it ([`group`]), appends it to the log with one sync ([`log`] on [`disk`]), publishes it, and
//! answers. How long history is kept is decided by [`retention`]; who may open a directory, and
//! which formats, by [`directory`]. `docs/storage-format.md` draws the files.
//!
//! # Invariants
//! - A lone writer waits for its own sync and for nothing else.
//! - After a commit that failed, no write is taken up until the store is opened again. Reads go on.
//! - The engine's thread ends before the directory's lock is given back.

mod committer;
mod directory;
mod disk;
mod group;
mod log;
mod queue;
pub(crate) mod retention;

#[cfg(any(test, feature = "conformance"))]
pub mod simulated;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

pub use self::disk::Disk;

use self::committer::{Committer, Shared};
use self::directory::{Directory, Found};
use self::disk::FileDisk;
use self::group::{Proposal, Submission};
use self::log::Log;
use crate::answer::Answer;
use crate::clock::{Clock, SystemClock};
use crate::entry::{Draft, Entry, Op};
use crate::error::{Error, OpenError};
use crate::key::KEY_BYTES_MAX;
use crate::revision::Revision;
use crate::store::{
    BATCH_BYTES_MAX, BATCH_COUNT_MAX, Change, Committed, Expect, Range, RangeQuery, STAMP_BYTES,
    Store, VALUE_BYTES_MAX, WatchQuery, Write,
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
}

/// A store in a directory. It closes when it is dropped.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    /// Taken by whoever closes first.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Sizes and counts since the engine was opened; for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The latest revision.
    pub revision: Revision,
    /// The oldest readable revision.
    pub floor: Revision,
    /// Keys that there are.
    pub keys: u64,
    /// Events in the watch window.
    pub history_events: usize,
    /// What history takes beyond the current states.
    pub history_bytes: u64,
    /// Open watches.
    pub watchers: usize,
    /// Batches that wait for the commit thread.
    pub queued: usize,
    /// Groups that were made durable, each with one sync.
    pub groups: u64,
    /// Writes in those groups.
    pub writes: u64,
    /// Rows of the log that nobody needs and that are not deleted yet.
    pub garbage: u64,
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            history: Duration::from_mins(5),
            history_bytes_max: 1024 * 1024 * 1024,
            tick: Duration::from_secs(1),
            clock: Arc::new(SystemClock::default()),
        }
    }
}

// === impl Engine ===

impl Engine {
    /// Opens the store in a directory, and makes both where there is none. Reads the whole log, so
    /// it belongs on a thread that may block.
    ///
    /// # Errors
    /// [`OpenError::Locked`] where the directory is in use, [`OpenError::NewerFormat`] for a
    /// format of the future, [`OpenError::Corrupt`] for bytes that are not what was written.
    pub fn open(directory: &Path, config: Config) -> Result<Self, OpenError> {
        let directory = Directory::open(directory)?;
        if directory.find()? == Found::Nothing {
            let file = directory.begin_log()?;
            drop(Log::create(Box::new(FileDisk::new(file)))?);
            directory.finish_log()?;
        }
        let disk = FileDisk::new(directory.log()?);
        Self::start(Box::new(disk), config, Some(directory))
    }

    /// Opens the store on a disk, and makes it where the disk is empty. Nothing keeps a second
    /// engine from the same disk.
    ///
    /// # Errors
    /// As [`Engine::open`], without those of directories.
    pub fn open_on(disk: Box<dyn Disk>, config: Config) -> Result<Self, OpenError> {
        let empty = disk.len().map_err(|source| OpenError::Io {
            action: "learn the size of the disk".to_owned(),
            source,
        })? == 0;
        if empty {
            return Self::start_with(Log::create(disk)?, config, None);
        }
        Self::start(disk, config, None)
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

    /// What there is to say in numbers.
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    fn start(
        disk: Box<dyn Disk>,
        config: Config,
        directory: Option<Directory>,
    ) -> Result<Self, OpenError> {
        Self::start_with(Log::open(disk)?, config, directory)
    }

    fn start_with(
        mut log: Log,
        config: Config,
        directory: Option<Directory>,
    ) -> Result<Self, OpenError> {
        let began = config.clock.elapsed();
        let (snapshot, garbage) = log.scan()?;
        let view = View::new(snapshot);
        tracing::info!(
            revision = view.revision().0,
            floor = view.floor().0,
            keys = view.live(),
            latency_ms = millis(config.clock.elapsed().saturating_sub(began)),
            "store opened"
        );
        let shared = Arc::new(Shared::new(view));
        let committer = Committer::new(Arc::clone(&shared), log, config, garbage, directory);
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
}

/// Checks what can be checked without knowing the order of commits, and lays the records out.
fn propose(writes: Vec<Write>) -> Result<Vec<Proposal>, Error> {
    bounded("batch (writes)", writes.len(), BATCH_COUNT_MAX)?;
    if writes.is_empty() {
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
    let (op, value, stamp, tag) = match change {
        Change::Put { value, stamp, tag } => (Op::Put, value, stamp, Some(tag)),
        Change::Delete { last } => {
            let (value, stamp) = last.unwrap_or_default();
            (Op::Delete, value, stamp, None)
        }
    };
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
