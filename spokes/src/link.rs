//! A connection to a spoke, shared by everything in the process that needs one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use api::{LogicalCluster, wheelhouse::keys};
use client::{Connection, Dynamic};
use parking_lot::Mutex;
use tasks::{Shutdown, Tasks};
use tokio::sync::Notify;

use crate::{
    access::Access,
    breaker::{Breaker, Broken, Circuit, Permit},
    namespaces::Namespaces,
};

/// The way to one spoke, with one credential at a time: a later one for the same server and the same cluster takes the place
/// of the one before, and what runs over the link goes on.
#[derive(Debug)]
pub struct Link {
    spoke: LogicalCluster,
    /// What the connections are made with. Guards one value.
    access: Mutex<Access>,
    connections: Connections,
    /// Whether `system:masters` of the hub are `system:masters` there.
    trusts_masters: AtomicBool,
    namespaces: Arc<Namespaces>,
    probe: Arc<Notify>,
    /// Since when and why it does not answer. Guards one value.
    trouble: Mutex<Option<Trouble>>,
    /// Whether it ever answered.
    has_answered: AtomicBool,
    breaker: Breaker,
    /// Why a later credential has not taken the place of this one. Guards one value.
    successor_fault: Mutex<Option<String>>,
    tasks: Tasks,
    end: Shutdown,
}

/// The connections of a link. The streams of users never wait for those of controllers, nor make them wait.
#[derive(Debug)]
pub(crate) struct Connections {
    /// For the requests of users.
    pub(crate) requests: Connection,
    /// For what the hub does by itself.
    pub(crate) controllers: Connection,
}

/// Since when, and why, a spoke is not used. Its text stands in the Spoke's status and in the 503 of its path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} since {since}: {reason}", kind.words())]
pub struct Trouble {
    /// Since when (RFC 3339).
    pub since: String,
    /// What kind of failure the last one was.
    pub kind: TroubleKind,
    /// The last failure.
    pub reason: String,
}

/// What a spoke that is not used does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleKind {
    /// It does not answer.
    Silent,
    /// It answers: it refuses the hub, or is not the cluster that its Spoke is for.
    Refused,
}

// === impl TroubleKind ===

impl TroubleKind {
    const fn words(self) -> &'static str {
        match self {
            Self::Silent => "unreachable",
            Self::Refused => "not used",
        }
    }

    /// Returns the reason of the condition `Reachable` while the spoke is not used.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Silent => "NoAnswer",
            Self::Refused => keys::REASON_REFUSED,
        }
    }
}

// === impl Link ===

impl Link {
    pub(crate) fn new(
        spoke: &LogicalCluster,
        access: Access,
        connections: Connections,
        tasks: &Tasks,
    ) -> Self {
        Self {
            spoke: spoke.clone(),
            access: Mutex::new(access),
            connections,
            trusts_masters: AtomicBool::new(false),
            namespaces: Arc::default(),
            probe: Arc::default(),
            trouble: Mutex::default(),
            has_answered: AtomicBool::new(false),
            breaker: Breaker::default(),
            successor_fault: Mutex::default(),
            tasks: tasks.clone(),
            end: tasks.child_token(),
        }
    }

    /// Returns the logical cluster of the spoke.
    pub const fn spoke(&self) -> &LogicalCluster {
        &self.spoke
    }

    /// Returns the connection for the requests of users.
    pub const fn for_requests(&self) -> &Connection {
        &self.connections.requests
    }

    /// Returns calls on objects for what the hub does by itself.
    pub fn for_controllers(&self) -> Dynamic {
        Dynamic::new(self.connections.controllers.client())
    }

    /// Whether `system:masters` of the hub are `system:masters` there.
    pub fn trusts_masters(&self) -> bool {
        self.trusts_masters.load(Ordering::Relaxed)
    }

    /// Returns the namespaces of the spoke.
    pub const fn namespaces(&self) -> &Arc<Namespaces> {
        &self.namespaces
    }

    /// Starts the watch of the namespaces anew, with nothing known of them: what was seen before may be another cluster's.
    pub fn follow_namespaces(&self) {
        let client = self.connections.controllers.client();
        let end = self.end.child_token();
        Namespaces::follow(&self.namespaces, client, &self.spoke, &self.tasks, end);
    }

    /// Returns what asks for a heartbeat at once: a call has failed.
    pub const fn probe(&self) -> &Arc<Notify> {
        &self.probe
    }

    /// Whether the spoke ever answered over this connection.
    pub fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Lets a request to the spoke pass, or refuses it while the spoke does not answer.
    ///
    /// # Errors
    /// [`Broken`] while the circuit is open and a probe is under way or not due.
    pub fn admit(&self) -> Result<Permit<'_>, Broken> {
        self.breaker.admit()
    }

    /// Returns whether requests pass.
    pub fn circuit(&self) -> Circuit {
        self.breaker.circuit()
    }

    /// Returns how long until a probe is let through; `None` while all requests pass.
    pub fn probe_pause(&self) -> Option<Duration> {
        self.breaker.pause()
    }

    /// Notes word from elsewhere that the spoke is back.
    pub(crate) fn hurry(&self) {
        self.breaker.hurry();
    }

    /// Returns since when and why the spoke does not answer.
    pub fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().clone()
    }

    /// Returns why a later credential is not used yet; `None` where there is none.
    pub fn successor_fault(&self) -> Option<String> {
        self.successor_fault.lock().clone()
    }

    /// Notes that the spoke answered.
    pub fn answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
        self.breaker.closed();
        let trouble = self.trouble.lock().take();
        if trouble.is_some() {
            self.namespaces.wake();
        }
    }

    /// Notes that the spoke answered, if only to refuse: requests pass.
    pub fn refused(&self) {
        self.breaker.closed();
    }

    /// Notes that the spoke did not answer, which its status is to say soon. Returns since when it does not.
    pub fn failed(&self, reason: String, now: &str) -> Trouble {
        let trouble = self.note_trouble(TroubleKind::Silent, reason, now);
        self.probe.notify_one();
        trouble
    }

    /// Notes that a heartbeat failed. Returns since when they do.
    pub fn note_trouble(&self, kind: TroubleKind, reason: String, now: &str) -> Trouble {
        let mut trouble = self.trouble.lock();
        let since = trouble
            .take()
            .map_or_else(|| now.to_owned(), |known| known.since);
        let noted = Trouble {
            since,
            kind,
            reason,
        };
        *trouble = Some(noted.clone());
        noted
    }

    /// Whether another link has taken its place, or its Spoke is gone.
    pub fn has_ended(&self) -> bool {
        self.end.is_cancelled()
    }

    /// Whether it was made with an access; another one needs another link.
    pub(crate) fn is_made_with(&self, access: &Access) -> bool {
        *self.access.lock() == *access
    }

    /// Lets connections that were made with a later access to the same cluster take the place of its own. Returns whether they
    /// did, which they do not where the server has another URL.
    pub(crate) fn succeed_by(&self, access: Access, connections: &Connections) -> bool {
        let (ours, theirs) = (&self.connections, connections);
        let done = ours.controllers.succeed_by(&theirs.controllers)
            && ours.requests.succeed_by(&theirs.requests);
        if done {
            *self.access.lock() = access;
            self.note_successor(None);
        }
        done
    }

    /// Notes why a later access does not take the place of its own.
    pub(crate) fn note_successor(&self, fault: Option<String>) {
        *self.successor_fault.lock() = fault;
    }

    pub(crate) fn note_trust(&self, trusts_masters: bool) {
        self.trusts_masters.store(trusts_masters, Ordering::Relaxed);
    }

    /// Ends what runs for the link.
    pub(crate) fn end(&self) {
        self.end.cancel();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end.cancel();
    }
}
