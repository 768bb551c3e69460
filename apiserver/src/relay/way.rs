//! The way to one spoke: its connection, as the relay uses it.
//!
//! **Invariant:** the connection is had only through [`Way::admit`], which refuses while the spoke does not answer.

use std::sync::Arc;

use api::{LogicalCluster, Status};
use client::{Budget, Connection, Dynamic};
use spokes::{Broken, Permit, Spokes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::Refusal;

/// Streams to one spoke at a time: half of what all users together may have, so that one spoke's are in no other's way.
const STREAM_COUNT_MAX: usize = 1_000;
/// Seconds after which a client that was refused a stream may try again.
const RETRY_AFTER_SECONDS: u32 = 1;
/// How long a spoke that does not answer may be about to answer again: one that restarts its API server takes as long.
const BACK_SOON: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// The way to one spoke. Clones lead there by the same connection.
#[derive(Clone, Debug)]
pub(super) struct Way {
    link: Arc<spokes::Link>,
    spokes: Spokes,
    /// The streams that may be opened still.
    streams: Arc<Semaphore>,
}

/// The right to send one request to a spoke.
#[derive(Debug)]
pub(super) struct Admitted<'w> {
    way: &'w Way,
    permit: Permit<'w>,
}

// === impl Way ===

impl Way {
    pub(super) fn new(link: Arc<spokes::Link>, spokes: Spokes) -> Self {
        Self {
            link,
            spokes,
            streams: Arc::new(Semaphore::new(STREAM_COUNT_MAX)),
        }
    }

    /// Counts a stream for as long as the place lives.
    ///
    /// # Errors
    /// 429 where the spoke has as many as it may have.
    pub(super) fn take_stream(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let place = Arc::clone(&self.streams).try_acquire_owned();
        place.map_err(|_full| Status::too_many_requests(RETRY_AFTER_SECONDS).into())
    }

    /// Whether it is the way over a connection.
    pub(super) fn is(&self, link: &Arc<spokes::Link>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }

    /// Returns the logical cluster of the spoke.
    pub(super) fn cluster(&self) -> &LogicalCluster {
        self.link.spoke()
    }

    /// Lets a request to the spoke pass.
    ///
    /// # Errors
    /// 503 at once where the spoke has failed repeatedly and it is not the turn of this request to try.
    pub(super) fn admit(&self) -> Result<Admitted<'_>, Box<Status>> {
        match self.link.admit() {
            Ok(permit) => Ok(Admitted { way: self, permit }),
            Err(broken) => Err(Box::new(self.broken(broken))),
        }
    }

    /// Makes a call of the hub's own.
    ///
    /// # Errors
    /// That of the call; a 503 where it is not made.
    pub(super) async fn ask<T>(
        &self,
        call: impl AsyncFnOnce(Dynamic) -> Result<T, client::Error>,
    ) -> Result<T, client::Error> {
        let admitted = self.admit().map_err(client::Error::Status)?;
        let answer = call(Dynamic::new(self.link.for_requests().client())).await;
        match &answer {
            Err(error) if error.unreachable() => admitted.note(error),
            Ok(_) | Err(_) => drop(admitted),
        }
        answer
    }

    /// Returns what the spoke may make the hub hold.
    pub(super) fn budget(&self) -> Arc<Budget> {
        Arc::clone(self.link.for_requests().client().budget())
    }

    fn broken(&self, broken: Broken) -> Status {
        let cluster = self.cluster().as_str();
        let text = match self.link.trouble() {
            Some(trouble) => format!("spoke {cluster:?} is {trouble}"),
            None => format!("spoke {cluster:?} does not answer"),
        };
        let seconds = broken.pause.as_secs().saturating_add(1);
        let text = format!("{text}; it is tried again within {seconds} s");
        self.retriable(text, u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    fn retriable(&self, text: String, after_seconds: u32) -> Status {
        let status = Status::service_unavailable(text);
        let since = self.link.circuit().since;
        if self.link.has_answered() && is_back_soon(since, jiff::Timestamp::now()) {
            status.retry_after(after_seconds)
        } else {
            // It may never answer: kubectl would ask ten times before it shows the reason.
            status
        }
    }

    /// Whether `system:masters` of the hub are `system:masters` there.
    pub(super) fn trusts_masters(&self) -> bool {
        self.link.trusts_masters()
    }

    /// Returns the namespaces of the spoke as they were last seen.
    pub(super) fn namespaces(&self) -> &spokes::Namespaces {
        self.link.namespaces()
    }

    /// Notes that the spoke answered.
    pub(super) fn answered(&self) {
        self.link.answered();
    }

    /// Notes that it refused the hub's own credential.
    pub(super) fn rejected(&self) {
        self.spokes.reject(self.cluster());
    }

    /// Notes that it did not, and returns the 503 for the client.
    pub(super) fn unreachable(&self, error: &client::Error) -> Refusal {
        if let client::Error::Status(status) = error
            && status.code == 503
        {
            return Status::clone(status).into(); // not asked, or the spoke's own
        }
        let now = api::meta::time_now_text(jiff::Timestamp::now());
        let trouble = self.link.failed(error.chain(), &now);
        let text = format!("spoke {:?} is {trouble}", self.cluster().as_str());
        self.retriable(text, RETRY_AFTER_SECONDS).into()
    }
}

/// Whether it is worth while to ask a spoke again whose circuit is open since then.
fn is_back_soon(since: Option<jiff::Timestamp>, now: jiff::Timestamp) -> bool {
    since.is_none_or(|since| now.duration_since(since) < BACK_SOON)
}

// === impl Admitted ===

impl Admitted<'_> {
    /// Returns the connection for the requests of users.
    pub(super) fn connection(&self) -> &Connection {
        self.way.link.for_requests()
    }

    /// Notes that no answer came, and returns the 503 for the client.
    pub(super) fn unreachable(self, error: &client::Error) -> Refusal {
        let refusal = self.way.unreachable(error);
        self.note(error);
        refusal
    }

    /// Notes why no answer came. Only that no connection came about counts: anything else may be what a user sent.
    fn note(self, error: &client::Error) {
        if error.is_connect() {
            self.permit.failed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_a_spoke_that_has_just_failed_is_told_to_ask_again() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        assert!(is_back_soon(None, now), "its circuit is closed");
        let ago = |seconds| Some(now - jiff::SignedDuration::from_secs(seconds));
        assert!(is_back_soon(ago(9), now), "it may only restart");
        assert!(!is_back_soon(ago(10), now), "it is away");
    }
}
