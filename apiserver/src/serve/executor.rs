//! Where the streams of HTTP/2 connections run: counted, so that a drain can wait for them, and in the turns of their user.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::quota::{Fair, Of, Seat};

/// Runs futures as counted tasks.
#[derive(Clone, Debug)]
pub(super) struct Executor {
    pub(super) tracker: TaskTracker,
    /// The place of the connection.
    pub(super) seat: Arc<Seat>,
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, fut: F) {
        let of = Of::Connection(Arc::clone(&self.seat));
        drop(self.tracker.spawn(Fair::new(fut, of)));
    }
}
