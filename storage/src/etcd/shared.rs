//! What the callers of the store and the engine's tasks share.
//!
//! Locks, all of them leaves: `waiters` guards who waits for which revision, `health` the latest
//! word about the connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::client::Client;
use super::envelope::Sealing;
use super::failure::Failure;
use super::fates::{ConnectionTicket, Fate, Fates};
use super::transaction::Fence;
use crate::error::{Cause, Error};
use crate::metrics::{Metrics, Statistics};
use crate::revision::Revision;
use crate::store::TermsOf;
use crate::view::{Snapshot, View};

/// The state of an engine.
#[derive(Debug)]
pub(crate) struct Shared {
    view: View,
    waiters: Mutex<BTreeMap<Revision, Vec<oneshot::Sender<()>>>>,
    /// Somebody waits for a revision that the watch has not told yet.
    pub(crate) wanted: Notify,
    live: watch::Sender<Option<Live>>,
    /// What became of what was sent.
    pub(crate) fates: Fates,
    health: Mutex<Result<(), Cause>>,
    /// Connections that came to be.
    pub(crate) sessions: AtomicU64,
    pub(crate) metrics: Metrics,
}

/// A connection over which the store may be written.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) client: Client,
    pub(crate) fence: Fence,
    pub(crate) sealing: Option<Sealing>,
    /// Its number among the connections of this process.
    pub(crate) session: u64,
    pub(crate) connection_ticket: ConnectionTicket,
}

// === impl Shared ===

impl Shared {
    /// Nothing, and no connection. The terms are those of what will be shown.
    pub(crate) fn new(terms_of: Option<TermsOf>) -> Self {
        let nothing = Snapshot {
            base: Vec::new(),
            changes: Vec::new(),
            floor: Revision(0),
            revision: Revision(0),
        };
        Self {
            view: View::new(nothing, terms_of),
            waiters: Mutex::default(),
            wanted: Notify::new(),
            live: watch::Sender::new(None),
            fates: Fates::new(),
            health: Mutex::new(Err(Arc::new(Failure::NotYet))),
            sessions: AtomicU64::new(0),
            metrics: Metrics::default(),
        }
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Sizes as they are now, but for the queue of the engine.
    pub(crate) fn statistics(&self) -> Statistics {
        let window = self.view.window_size();
        Statistics {
            revision: self.view.revision(),
            floor: self.view.floor(),
            keys: self.view.live(),
            history_events: window.events,
            history_bytes: window.bytes,
            watchers: window.watchers,
            sessions: self.sessions.load(Ordering::Relaxed),
            ..Statistics::default()
        }
    }

    /// From now on the store may be written over this connection. What was sent before and not
    /// told of has this fate.
    pub(crate) fn set_up(
        &self,
        client: Client,
        fence: Fence,
        sealing: Option<Sealing>,
        untold: Fate,
    ) {
        let live = Live {
            client,
            fence,
            sealing,
            session: self.fates.settle(untold),
            connection_ticket: ConnectionTicket::default(),
        };
        *self.health.lock() = Ok(());
        self.sessions.fetch_add(1, Ordering::Relaxed);
        self.live.send_replace(Some(live));
    }

    /// The connection is gone.
    pub(crate) fn set_down(&self, failure: Cause) {
        *self.health.lock() = Err(failure);
        self.live.send_replace(None);
    }

    /// The connection, if there is one now.
    pub(crate) fn connection(&self) -> Option<Live> {
        self.live.borrow().clone()
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where there is none in time.
    pub(crate) async fn connected(&self, until: Instant) -> Result<Live, Error> {
        let mut live = self.live.subscribe();
        let found = tokio::time::timeout_at(until, live.wait_for(Option::is_some)).await;
        let found = found.ok().and_then(Result::ok);
        match found.and_then(|live| live.clone()) {
            Some(live) => Ok(live),
            None => Err(self.unavailable()),
        }
    }

    /// Waits for an answer for as long as its connection is there: one that hangs tells nothing of
    /// its end.
    pub(crate) async fn answer<T>(
        &self,
        live: &Live,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut now = self.live.subscribe();
        let is_other = |now: &Option<Live>| {
            let session = now.as_ref().map(|now| now.session);
            session != Some(live.session)
        };
        let lost = async { drop(now.wait_for(is_other).await) };
        tokio::select! {
            biased;
            answer = call => answer,
            () = lost => Err(Failure::ConnectionLost),
        }
    }

    /// Waits until reads see a revision. Returns whether they do.
    pub(crate) async fn reached(&self, revision: Revision, until: Instant) -> bool {
        let (sender, receiver) = oneshot::channel();
        self.waiters
            .lock()
            .entry(revision)
            .or_default()
            .push(sender);
        // Looked at only now, so that no publication falls between.
        if self.view.revision() >= revision {
            return true;
        }
        self.wanted.notify_one();
        matches!(tokio::time::timeout_at(until, receiver).await, Ok(Ok(())))
    }

    /// Wakes those whose revision reads see by now.
    pub(crate) fn wake(&self) {
        let revision = self.view.revision();
        let mut waiters = self.waiters.lock();
        let waiting = waiters.split_off(&revision.next());
        let done = std::mem::replace(&mut *waiters, waiting);
        drop(waiters);
        for waiter in done.into_values().flatten() {
            // An error: it has lost its patience.
            waiter.send(()).unwrap_or_default();
        }
    }

    /// Nobody gets what he waits for: history was set back.
    pub(crate) fn forsake(&self) {
        drop(std::mem::take(&mut *self.waiters.lock()));
    }

    /// Whether somebody waits for a revision.
    pub(crate) fn is_wanted(&self) -> bool {
        let mut waiters = self.waiters.lock();
        waiters.retain(|_, of_it| {
            of_it.retain(|waiter| !waiter.is_closed());
            !of_it.is_empty()
        });
        !waiters.is_empty()
    }

    pub(crate) fn health(&self) -> Result<(), Error> {
        match &*self.health.lock() {
            Ok(()) => Ok(()),
            Err(source) => Err(Error::Unavailable {
                source: Arc::clone(source),
            }),
        }
    }

    fn unavailable(&self) -> Error {
        self.health().err().unwrap_or_else(|| Error::Unavailable {
            source: Arc::new(Failure::NotYet),
        })
    }
}
