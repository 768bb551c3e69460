//! Why a store refuses.

use std::path::PathBuf;
use std::sync::Arc;

use crate::entry::Entry;
use crate::key::Key;
use crate::revision::Revision;

/// A cause from below, shared by every write that it befell.
pub(crate) type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why an open store refuses a request.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A write expects a key that is not there.
    #[error("key {key} is absent")]
    NotFound {
        /// The key.
        key: Key,
    },
    /// A write expects another state of the key.
    #[error("key {key} is not in the expected state")]
    Conflict {
        /// The key.
        key: Key,
        /// Its state in the order of commits, at the place of the refused write; durable by now.
        current: Option<Entry>,
    },
    /// The history that is asked for is gone.
    #[error("revision {requested} is older than {floor}, the oldest that is kept")]
    Compacted {
        /// The revision asked for.
        requested: Revision,
        /// The oldest one that can be had.
        floor: Revision,
    },
    /// The revision has not been yet.
    #[error("revision {requested} is newer than {current}, the latest one")]
    FutureRevision {
        /// The revision asked for.
        requested: Revision,
        /// The latest one.
        current: Revision,
    },
    /// The queue of writes is full; nothing was taken up.
    #[error("the queue of writes is full")]
    Full,
    /// A key, a value or a batch is too large; nothing was taken up.
    #[error("{what} has {size}, at most {limit} are allowed")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is: bytes, or writes of a batch.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The caller broke the contract; nothing was taken up.
    #[error("the write is malformed: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The disk could not keep what it was given. Whether this write will be there after a restart
    /// is not known; no write is taken up until then.
    #[error("the store cannot make writes durable")]
    Durability {
        /// What the disk said.
        #[source]
        source: Cause,
    },
    /// The disk is full. Nothing of the batch was kept; the store goes on by itself once there is
    /// space again.
    #[error("the store's disk is full")]
    StorageFull {
        /// What the disk said.
        #[source]
        source: Cause,
    },
    /// What keeps the store cannot be reached, or refuses for now. Nothing was written.
    #[error("the store cannot be reached")]
    Unavailable {
        /// What it said.
        #[source]
        source: Cause,
    },
    /// No answer came to a write that was sent. Whether it happened is not known.
    #[error("the store did not answer, and the write may have happened")]
    Unknown {
        /// What came instead of an answer.
        #[source]
        source: Cause,
    },
    /// Stored bytes are not what was written.
    #[error("{place} is corrupt: {reason}")]
    Corrupt {
        /// Where.
        place: String,
        /// How it was noticed.
        reason: String,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another engine of this one, has the directory.
    #[error("{} is in use by another process", directory.display())]
    Locked {
        /// The directory.
        directory: PathBuf,
    },
    /// Another version of this software wrote it. Nothing was touched.
    #[error(
        "the store has format {found}, and this version reads format {known} alone: use the version that wrote it"
    )]
    UnknownFormat {
        /// The format found.
        found: u32,
        /// The format of this version.
        known: u32,
    },
    /// The bytes are not those that were written.
    #[error("{place} is corrupt: {reason}")]
    Corrupt {
        /// Where.
        place: String,
        /// How it was noticed.
        reason: String,
    },
    /// A record is encrypted, and cannot be read.
    #[error("{place} holds a sealed record that does not open")]
    Sealed {
        /// Where.
        place: String,
        /// Why it does not open.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The operating system refused.
    #[error("cannot {action}")]
    Io {
        /// What was tried.
        action: String,
        /// What it said.
        #[source]
        source: std::io::Error,
    },
    /// The engine below refused.
    #[error("cannot {action}")]
    Engine {
        /// What was tried.
        action: &'static str,
        /// What it said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
