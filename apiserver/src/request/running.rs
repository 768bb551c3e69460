//! Requests that go on, counted for as long as they do.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// Counts a watch or a stream as running for as long as it lives; the body of its answer holds it.
#[derive(Debug)]
pub(crate) struct LongRunning {
    gauge: Arc<AtomicI64>,
}

// === impl LongRunning ===

impl LongRunning {
    /// Counts one more in `gauge`.
    pub(crate) fn new(gauge: &Arc<AtomicI64>) -> Self {
        gauge.fetch_add(1, Ordering::Relaxed);
        Self {
            gauge: Arc::clone(gauge),
        }
    }
}

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.gauge.fetch_sub(1, Ordering::Relaxed);
    }
}
