//! Work on large answers, apart from the threads that serve.
//!
//! Decoding some megabytes takes as long as hundreds of requests. It is done on threads of its own, which the scheduler
//! runs after those that serve, and only on so many at once as there are cores: one cluster's answers do not delay
//! the requests of another.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread;

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{Semaphore, oneshot},
};

use crate::error::Error;

/// Answers up to this size are decoded where they are: handing one over costs more than it saves.
const SMALL_BYTES: usize = 64 * 1024;
/// How much less urgent than serving the work is: the last step of the `nice` scale.
const NICENESS: i32 = 19;

/// The threads that may run at once.
static PLACES: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(thread::available_parallelism().map_or(1, NonZero::get)));

/// Returns what `decode` returns for an answer of `length` bytes. If the call is given up, the work still runs to its end. Where
/// the runtime has one thread, the work is done on it.
///
/// # Errors
/// [`Error::Transport`] where no thread can be started, or `decode` panics.
pub async fn run<T: Send + 'static>(
    length: usize,
    decode: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if length <= SMALL_BYTES || has_one_thread() {
        return Ok(decode());
    }
    let place = PLACES
        .acquire()
        .await
        .map_err(|error| Error::Transport(error.into()))?;
    let (sender, receiver) = oneshot::channel();
    let spawned = thread::Builder::new()
        .name("decode".to_owned())
        .spawn(move || {
            let _place = place;
            // Where the system has no priorities of threads, the work is done as well.
            let _unsupported = rustix::process::setpriority_process(None, NICENESS);
            let _given_up = sender.send(decode());
        });
    spawned.map_err(|error| Error::Transport(error.into()))?;
    receiver
        .await
        .map_err(|error| Error::Transport(error.into()))
}

/// Whether the runtime has one thread, as that of a tool or of a simulation, whose clock must not run on meanwhile.
fn has_one_thread() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_answers_are_decoded_on_a_thread_of_their_own() {
        let here = thread::current().id();
        let small = run(10, || thread::current().id()).await.expect("it is run");
        assert_eq!(small, here);
        let place = || {
            let niceness = rustix::process::getpriority_process(None).expect("it has one");
            (thread::current().id(), niceness)
        };
        let (large, niceness) = run(SMALL_BYTES + 1, place).await.expect("it is run");
        assert_ne!(large, here);
        assert_eq!(niceness, NICENESS.max(place().1));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_decodes_there() {
        let here = thread::current().id();
        let large = run(SMALL_BYTES + 1, || thread::current().id()).await;
        assert_eq!(large.expect("it is run"), here);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_is_the_failure_of_one_answer() {
        let failed = run(SMALL_BYTES + 1, || assert!(thread::panicking(), "planted")).await;
        assert!(matches!(failed, Err(Error::Transport(_))), "{failed:?}");
        let next = run(SMALL_BYTES + 1, || 7).await;
        assert_eq!(next.expect("its place is free again"), 7);
    }
}
