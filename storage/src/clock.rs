//! Time as a seam. The store asks only how long ago something was, never what time it is: a wall
//! clock that jumps changes nothing here.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::Instant;

/// Measures how much time has passed.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The time since a fixed moment in the past; it never goes back.
    fn elapsed(&self) -> Duration;
}

/// The monotonic clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

// === impl SystemClock ===

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }
}
