//! Bytes, keys and revisions: the store of the hub, without a word of Kubernetes.
//!
//! One trait, [`Store`], for every engine: [`embedded`] keeps a directory on this machine. An
//! engine owns durability and the order of commits; everything that answers a reader is shared
//! by all engines and sits in memory:
//!
//! ```text
//!   commit(writes) ──► engine: evaluate, number, make durable
//!                                   │ only what is durable
//!                                   ▼
//!                            View::publish ──► Index  (get, range, at a revision)
//!                                   └────────► Feed   (history window, watchers)
//! ```
//!
//! # Invariants
//! - Nothing that is not durable is ever read, listed, watched or used as the reason of a refusal.
//! - Revisions rise by commit order, and one batch of writes has one revision.
//! - The bytes that were stored are the bytes that are served: no decoding on any read.
//! - No clock decides an order; the clock only says how long history is kept.
//! - Absent: leases, sorting, filters by content. They are the API server's. What it may hint at by terms, of which the
//!   store knows nothing but their hashes, only makes a range shorter.

mod key;
mod revision;

mod entry;
mod event;

mod answer;
mod error;
mod metrics;
mod store;

mod clock;
mod keyring;

mod index;
mod registry;
mod watch;
mod window;

mod view;

pub mod backup;
pub mod check;
pub mod embedded;
pub mod etcd;

// The harness is a crate of its own. The tests of this one compile it once more, over what they see of this crate.
#[cfg(test)]
#[path = "../../storage-conformance/src/lib.rs"]
pub mod conformance;
#[cfg(test)]
extern crate self as storage;

#[cfg(feature = "fuzzing")]
pub mod fuzzing;

pub use answer::{Answer, Responder};
pub use clock::{Clock, SystemClock};
pub use entry::Entry;
pub use error::{Error, OpenError};
pub use event::{Event, EventKind};
pub use key::{KEY_BYTES_MAX, Key, KeyRange};
pub use keyring::{KeyId, Keyring, KeyringError};
pub use metrics::{Metrics, Statistics};
pub use revision::Revision;
pub use store::{
    BATCH_BYTES_MAX, BATCH_COUNT_MAX, COUNTED_MAX, Change, Committed, Expect, Range, RangeQuery,
    STAMP_BYTES, Store, TermsOf, VALUE_BYTES_MAX, WatchQuery, Write,
};
pub use watch::{WatchEnd, Watcher};
