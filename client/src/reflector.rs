//! Follows a collection: one complete list, then every change, again and again, whatever breaks.
//!
//! ```text
//!          list all pages          watch from the list's version
//! start ──▶ Restarted(all) ──▶ Applied, Deleted, ... ──▶ end of stream ──▶ watch from the last version
//!    ▲                                   │ connection lost: Interrupted ──▶ watch again ──▶ Resumed
//!    └────────── version is gone (410), or a line of another history ◀──────────┘
//! ```
//!
//! **Invariant:** what is delivered is right by level: whoever replaces what it has at `Restarted`, puts at `Applied`
//! and removes at `Deleted` ends up with the collection.
//! **Invariant:** a `Restarted` comes from a list that was read to its end. A list that failed, or a page that came too
//! late, delivers nothing.
//! **Invariant:** nothing is skipped: a consumer that is slow makes the stream wait, and the server may close it.
//!
//! Source: `client-go/tools/cache/reflector.go`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use api::selector::{FieldSelector, Selector};
pub use tasks::{Shutdown, Tasks};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use crate::connection::Client;
use crate::dynamic::Endpoint;

mod decode_error;
mod follow;
mod lines;
mod raw_object;
mod wire;

#[cfg(feature = "fuzzing")]
pub(crate) use lines::Lines;
pub use raw_object::RawObject;
pub(crate) use wire::decode_page;
#[cfg(feature = "fuzzing")]
pub(crate) use wire::{read_line, read_page};

/// How many events wait for the consumer. When it is full the watch is not read on.
const EVENT_COUNT_MAX: usize = 1024;

/// What a reflector follows.
#[derive(Clone)]
pub struct Config {
    /// The client of the cluster, with what the cluster may make the reflector hold.
    pub client: Client,
    /// The collection.
    pub endpoint: Endpoint,
    /// Which labels objects must have.
    pub label_selector: Option<Selector>,
    /// Which fields objects must have.
    pub field_selector: Option<FieldSelector>,
    /// What the reflector is called in the log.
    pub name: String,
}

/// What those around a reflector and the reflector tell each other while it runs. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Counts how often the server was said to answer, which ends the pause after a failure: that of an attempt, too, that was
    /// under way when it was said.
    wakes: Arc<watch::Sender<u64>>,
    /// Counts how often everything is to be listed anew.
    relists: Arc<watch::Sender<u64>>,
    /// Counts how often the server was found not to answer.
    aways: Arc<AtomicU64>,
    /// Counts how often it answered again after that.
    returns: Arc<watch::Sender<u64>>,
    /// A server that had answered was not reached.
    lost: Arc<Notify>,
}

/// What became of the collection.
#[derive(Clone, Debug)]
pub enum Event {
    /// These are all objects as of a version; any other was gone by then.
    Restarted {
        /// All objects.
        objects: Vec<Arc<RawObject>>,
        /// The version of the list. It is older than what was delivered before only where the server was set back.
        resource_version: String,
        /// When the list was begun that shows all that the server had answered by then, whatever its version is; `None` where a cache
        /// may have answered with less.
        latest_as_of: Option<Instant>,
    },
    /// This object is new or changed.
    Applied(Arc<RawObject>),
    /// This object is gone, or is not selected any more; this is its last state.
    Deleted(Arc<RawObject>),
    /// The collection cannot be read now, and why. What was delivered may be out of date until the next `Restarted`
    /// or [`Event::Resumed`].
    Interrupted(String),
    /// Changes are delivered again, and none is missing.
    Resumed,
}

/// Starts following a collection, until the token is cancelled or the receiver is dropped.
pub fn start(config: Config, tasks: &Tasks, shutdown: Shutdown) -> mpsc::Receiver<Event> {
    start_signalled(config, Signals::default(), tasks, shutdown)
}

/// [`start`], for whoever knows of the server from elsewhere.
pub fn start_signalled(
    config: Config,
    signals: Signals,
    tasks: &Tasks,
    shutdown: Shutdown,
) -> mpsc::Receiver<Event> {
    start_with(config, follow::Timing::default(), signals, tasks, shutdown)
}

pub(crate) fn start_with(
    config: Config,
    timing: follow::Timing,
    signals: Signals,
    tasks: &Tasks,
    shutdown: Shutdown,
) -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(EVENT_COUNT_MAX);
    // A panic here would leave the consumer with an empty channel that never ends the process: it is logged, and
    // the channel closes, which consumers see.
    tasks.spawn(
        "reflector",
        follow::Follower::new(config, timing, signals, sender).run(shutdown),
    );
    receiver
}

// === impl Signals ===

impl Signals {
    /// Makes signals whose `lost` is notified where the server is not reached.
    pub fn new(lost: Arc<Notify>) -> Self {
        Self {
            lost,
            ..Self::default()
        }
    }

    /// Ends the pauses after failures: the server answers.
    pub fn wake(&self) {
        self.wakes.send_modify(|count| *count += 1);
    }

    /// Counts how often the server was said to answer.
    pub fn wake_count(&self) -> u64 {
        *self.wakes.borrow()
    }

    /// Notes that the server does not answer.
    pub fn note_away(&self) {
        self.aways.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that the server, which was away, answers again. It may have been set back meanwhile: it may have passed the version
    /// that a watch would be resumed from, with another history before it. So everything is listed anew, but for what was
    /// listed after the server was noted as away and has been watched without a break since: what sets a server back stops it
    /// first.
    pub fn note_back(&self) {
        self.returns.send_modify(|count| *count += 1);
    }

    /// Counts how often the server was found not to answer.
    pub fn away_count(&self) -> u64 {
        self.aways.load(Ordering::Acquire)
    }

    /// Has everything listed anew: the server was set back.
    pub fn relist(&self) {
        self.relists.send_modify(|count| *count += 1);
    }

    /// Counts how often everything was to be listed anew.
    pub fn relist_count(&self) -> u64 {
        *self.relists.borrow()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .field("label_selector", &self.label_selector)
            .field("field_selector", &self.field_selector)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
