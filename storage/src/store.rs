//! What the hub asks of a store, whichever engine keeps it.

use std::fmt::Debug;

use crate::answer::Answer;
use crate::entry::Entry;
use crate::error::Error;
use crate::key::{Key, KeyRange};
use crate::metrics::{Metrics, Statistics};
use crate::revision::Revision;
use crate::watch::Watcher;

/// The largest value: an object has at most 1.5 MiB, and what the server adds to it has room.
pub const VALUE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The most writes in one batch.
pub const BATCH_COUNT_MAX: usize = 1024;

/// The most bytes in one batch: a few objects of the largest size.
pub const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Keys behind a limit that are counted. Counting is linear, and nobody needs to know that some
/// 983,214 more objects follow the first 500.
pub const COUNTED_MAX: usize = 16 * 1024;

/// Bytes that a stamp overwrites: a revision's digits.
pub const STAMP_BYTES: usize = Revision::DIGITS;

/// Finds the terms of a value: hashes of what it says, by which [`RangeQuery::holding`] finds its key. Depends on key and
/// value alone.
pub type TermsOf = fn(key: &[u8], value: &[u8], terms: &mut Vec<u64>);

/// A durable, ordered map of keys to values with history.
///
/// # Invariants
/// - One order of commits. A write is answered after it is durable, and every read that begins
///   after the answer sees it (with several hubs over one engine: after [`Store::fresh`]).
/// - A batch is all or nothing, for crashes and for readers.
/// - Watches are ordered, unique, reliable, atomic, resumable and bookmarkable.
pub trait Store: Debug + Send + Sync + 'static {
    /// The latest revision that reads see.
    fn revision(&self) -> Revision;

    /// The oldest revision that a range can be taken at, or a watch begun after.
    fn compaction_floor(&self) -> Revision;

    /// The latest state of a key.
    fn get(&self, key: &[u8]) -> Option<Entry>;

    /// The state of a range of keys at one revision, in the order of keys.
    ///
    /// # Errors
    /// [`Error::Compacted`] and [`Error::FutureRevision`] for `at` outside of what is kept.
    fn range(&self, query: RangeQuery) -> Result<Range, Error>;

    /// Hands a batch of writes over; all of them happen, in one revision, or none.
    ///
    /// The batch is taken up by this call, not by the first poll of the answer, and it runs to its
    /// end whatever becomes of the answer. Batches that write one key keep the order in which they
    /// were handed over.
    ///
    /// # Errors
    /// In the answer: [`Error::NotFound`] and [`Error::Conflict`] for a broken expectation,
    /// [`Error::Full`], [`Error::TooLarge`] and [`Error::Malformed`] for a batch that was not taken
    /// up, [`Error::StorageFull`] and [`Error::Unavailable`] for one of which nothing was kept,
    /// [`Error::Unknown`] and [`Error::Durability`] for one whose fate is not known.
    fn commit(&self, writes: Vec<Write>) -> Answer<Committed>;

    /// Watches a range: every change after a revision, in the order of commits. After a revision
    /// that has not been yet, it waits.
    ///
    /// # Errors
    /// [`Error::Compacted`] where the history is gone.
    fn watch(&self, query: WatchQuery) -> Result<Watcher, Error>;

    /// Answers with a revision once reads see everything that was acknowledged, by whatever hub,
    /// before the call. An engine with one hub answers at once.
    fn fresh(&self) -> Answer<Revision>;

    /// Whether writes are taken up; for readiness.
    ///
    /// # Errors
    /// The reason that they are not.
    fn health(&self) -> Result<(), Error>;

    /// Counts since the store was opened.
    fn metrics(&self) -> &Metrics;

    /// Sizes as they are now.
    fn statistics(&self) -> Statistics;
}

/// One write of a batch. A batch has at most one write of a key.
#[derive(Clone, Debug)]
pub struct Write {
    /// The key.
    pub key: Key,
    /// What to do with it.
    pub change: Change,
    /// What must hold right before.
    pub expect: Expect,
}

/// What a write does.
#[derive(Clone)]
pub enum Change {
    /// Gives the key a value.
    Put {
        /// The value.
        value: Vec<u8>,
        /// Offset in the value of [`STAMP_BYTES`] bytes that the committer overwrites with the
        /// digits of the commit's revision: stored bytes carry their own version.
        stamp: Option<usize>,
        /// The caller's mark, kept beside the value.
        tag: u64,
    },
    /// Takes the key away. It must be there.
    Delete {
        /// The last state for watchers, with its stamp; `None` leaves watchers with the state
        /// before.
        last: Option<(Vec<u8>, Option<usize>)>,
    },
    /// Leaves the key as it is, and makes no entry: the batch happens only while the key is as expected, which is a revision.
    /// A batch has something else beside.
    Keep,
}

/// What must hold for a write, judged in commit order against all writes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Any,
    /// The key is not there.
    Absent,
    /// The key is there, and this revision wrote it.
    Revision(Revision),
}

/// What became of a batch.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The revision of the batch.
    pub revision: Revision,
    /// The states that it made, in the order of the writes that change something.
    pub entries: Vec<Entry>,
}

/// Which keys to read, and how.
#[derive(Clone, Debug)]
pub struct RangeQuery {
    /// The keys.
    pub range: KeyRange,
    /// At most this many entries; `None` for all.
    pub limit: Option<usize>,
    /// The revision to read at; `None` for the latest.
    pub at: Option<Revision>,
    /// Sets of terms of which an entry has to hold one each, as far as the store knows: it may leave out what does not,
    /// and whoever asks looks at what comes.
    pub holding: Vec<Vec<u64>>,
}

/// The answer to a [`RangeQuery`].
#[derive(Clone, Debug)]
pub struct Range {
    /// The entries, by key.
    pub entries: Vec<Entry>,
    /// The revision that they were read at.
    pub revision: Revision,
    pub(crate) more: bool,
    /// How many entries of the range lie behind the limit, where counting them was cheap: at least every range of
    /// [`COUNTED_MAX`] keys is counted to its end.
    pub remaining: Option<u64>,
}

/// Which keys to watch, and from when.
#[derive(Clone, Debug)]
pub struct WatchQuery {
    /// The keys.
    pub range: KeyRange,
    /// The first event is the first one after this revision.
    pub after: Revision,
}

// === impl Write ===

impl Write {
    /// Gives a key a value, without stamp, tag or expectation.
    pub fn put(key: impl Into<Key>, value: impl Into<Vec<u8>>) -> Self {
        let change = Change::Put {
            value: value.into(),
            stamp: None,
            tag: 0,
        };
        Self {
            key: key.into(),
            change,
            expect: Expect::Any,
        }
    }

    /// Takes a key away, without a last state of its own or expectation.
    pub fn delete(key: impl Into<Key>) -> Self {
        Self {
            key: key.into(),
            change: Change::Delete { last: None },
            expect: Expect::Any,
        }
    }

    /// Lets a batch happen only while this revision is the latest one of a key.
    pub fn keep(key: impl Into<Key>, revision: Revision) -> Self {
        Self {
            key: key.into(),
            change: Change::Keep,
            expect: Expect::Revision(revision),
        }
    }

    /// The same write, if this holds.
    #[must_use]
    pub fn expecting(self, expect: Expect) -> Self {
        Self { expect, ..self }
    }
}

// === impl Change ===

impl Debug for Change {
    /// Leaves the value out: it may be a Secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Put { value, stamp, tag } => f
                .debug_struct("Put")
                .field("value_bytes", &value.len())
                .field("stamp", stamp)
                .field("tag", tag)
                .finish(),
            Self::Delete { last } => f
                .debug_struct("Delete")
                .field("last_bytes", &last.as_ref().map(|(value, _)| value.len()))
                .finish(),
            Self::Keep => f.write_str("Keep"),
        }
    }
}

// === impl RangeQuery ===

impl RangeQuery {
    /// Everything in a range, at the latest revision.
    pub fn of(range: KeyRange) -> Self {
        Self {
            range,
            limit: None,
            at: None,
            holding: Vec::new(),
        }
    }

    /// At most `limit` entries of it.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self {
            limit: Some(limit),
            ..self
        }
    }

    /// At this revision.
    #[must_use]
    pub fn at(self, revision: Revision) -> Self {
        Self {
            at: Some(revision),
            ..self
        }
    }
}

// === impl Range ===

impl Range {
    /// Whether entries of the range lie behind the limit.
    pub fn more(&self) -> bool {
        self.more
    }
}
