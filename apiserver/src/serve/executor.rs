//! Where the streams of HTTP/2 connections run: counted, so that a drain can wait for them.

use tokio_util::task::TaskTracker;

/// Runs futures as counted tasks.
#[derive(Clone, Debug)]
pub(super) struct Executor(pub(super) TaskTracker);

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, fut: F) {
        drop(self.0.spawn(fut));
    }
}
