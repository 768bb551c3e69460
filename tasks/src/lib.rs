//! Tasks that are named, counted and awaited, the pauses between their attempts, and the queue that a controller's
//! workers take keys from.
//!
//! Everything that runs beside the caller is spawned through [`Tasks`], so that a shutdown waits for it and can say
//! what it waited for. A component gets a clone and a [`Shutdown`] token, and ends when the token is cancelled.
//!
//! **Invariant:** no task outlives [`Tasks::shutdown`]: what has not ended when the grace is over is aborted.

pub mod backoff;
pub mod group;
mod metrics;
pub mod queue;

pub use backoff::Backoff;
pub use group::{OnPanic, Shutdown, ShutdownReport, Tasks};
pub use queue::WorkQueue;
