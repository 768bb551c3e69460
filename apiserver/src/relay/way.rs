//! The way to one spoke: its connection, as the relay uses it.

use std::sync::Arc;

use api::{LogicalCluster, Status};
use client::{Connection, Dynamic};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::Refusal;

/// Streams to one spoke at a time: half of what all users together may have, so that one spoke's are in no other's way.
const STREAM_COUNT_MAX: usize = 1_000;
/// Seconds after which a client that was refused a stream may try again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The way to one spoke.
#[derive(Debug)]
pub(super) struct Way {
    link: Arc<spokes::Link>,
    /// The streams that may be opened still.
    streams: Arc<Semaphore>,
}

// === impl Way ===

impl Way {
    pub(super) fn new(link: Arc<spokes::Link>) -> Self {
        Self {
            link,
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

    /// Returns the connection for the requests of users.
    pub(super) fn connection(&self) -> &Connection {
        self.link.for_requests()
    }

    /// Returns calls on objects, as the hub.
    pub(super) fn dynamic(&self) -> Dynamic {
        Dynamic::new(self.connection().client())
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

    /// Notes that it did not, and returns the 503 for the client.
    pub(super) fn unreachable(&self, error: &client::Error) -> Refusal {
        let now = api::meta::time_now_text(jiff::Timestamp::now());
        let trouble = self.link.failed(error.chain(), &now);
        let text = format!("spoke {:?} is {trouble}", self.cluster().as_str());
        let status = Status::service_unavailable(text);
        if self.link.has_answered() {
            status.retry_after(1).into()
        } else {
            // It may never answer: kubectl would ask ten times before it shows the reason.
            status.into()
        }
    }
}
