//! From ready to gone: what the steps of a drain wait for and what they tell.

use std::time::Duration;

use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

/// The state of a hub that is about to stop, or not.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    draining: CancellationToken,
    watches_end: CancellationToken,
    /// Requests that are not long-running and not answered yet.
    requests: TaskTracker,
    shutdown_delay: Duration,
}

// === impl Lifecycle ===

impl Lifecycle {
    /// Starts as not draining.
    pub(super) fn new(shutdown_delay: Duration) -> Self {
        let requests = TaskTracker::new();
        // Closed only means that waiting for it ends when it is empty; requests are counted all the same.
        requests.close();
        Self {
            draining: CancellationToken::new(),
            watches_end: CancellationToken::new(),
            requests,
            shutdown_delay,
        }
    }

    /// Is cancelled when the drain begins.
    pub(super) fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Makes the server unready.
    pub(crate) fn begin_draining(&self) {
        tracing::info!("draining");
        self.draining.cancel();
    }

    /// How long requests are still taken once the server is unready, so that balancers notice.
    pub(crate) fn shutdown_delay(&self) -> Duration {
        self.shutdown_delay
    }

    /// Counts a request for as long as the token lives.
    pub(super) fn request(&self) -> TaskTrackerToken {
        self.requests.token()
    }

    /// Waits until no counted request is left.
    pub(crate) async fn requests_ended(&self) {
        self.requests.wait().await;
    }

    /// Is cancelled when watches have to end.
    pub(super) fn watches_end(&self) -> CancellationToken {
        self.watches_end.clone()
    }

    /// Ends all watches.
    pub(crate) fn end_watches(&self) {
        self.watches_end.cancel();
    }
}
