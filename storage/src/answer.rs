//! The answer to a write, which the asker may wait for or walk away from.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::error::Error;

/// A future answer of a store.
///
/// # Cancel safety
/// What was asked for is done whether or not this is awaited; dropping it drops the answer alone.
#[must_use = "the outcome of a write is only known from its answer"]
pub struct Answer<T>(State<T>);

/// The engine's end of an [`Answer`].
pub struct Responder<T>(oneshot::Sender<Result<T, Error>>);

enum State<T> {
    Ready(Option<Result<T, Error>>),
    Waiting(oneshot::Receiver<Result<T, Error>>),
}

// === impl Answer ===

impl<T> Answer<T> {
    /// An answer that is known already.
    pub fn ready(result: Result<T, Error>) -> Self {
        Self(State::Ready(Some(result)))
    }

    /// An answer that somebody will give.
    pub fn pending() -> (Responder<T>, Self) {
        let (sender, receiver) = oneshot::channel();
        (Responder(sender), Self(State::Waiting(receiver)))
    }

    /// Waits on this thread, outside of any async runtime.
    ///
    /// # Errors
    /// Those of the question; [`Error::Closed`] where the store went before it answered.
    pub fn wait(self) -> Result<T, Error> {
        match self.0 {
            State::Ready(result) => result.unwrap_or(Err(Error::Closed)),
            State::Waiting(receiver) => receiver.blocking_recv().unwrap_or(Err(Error::Closed)),
        }
    }
}

impl<T: Unpin> Future for Answer<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(result) => Poll::Ready(result.take().unwrap_or(Err(Error::Closed))),
            State::Waiting(receiver) => Pin::new(receiver)
                .poll(cx)
                .map(|got| got.unwrap_or(Err(Error::Closed))),
        }
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.0 {
            State::Ready(_) => "ready",
            State::Waiting(_) => "waiting",
        };
        f.debug_tuple("Answer").field(&state).finish()
    }
}

// === impl Responder ===

impl<T> Responder<T> {
    /// Gives the answer. Nobody may be left to hear it, which is fine.
    pub fn send(self, result: Result<T, Error>) {
        drop(self.0.send(result));
    }
}

impl<T> fmt::Debug for Responder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_responder_that_goes_silently_means_closed() {
        let (responder, answer) = Answer::<u8>::pending();
        drop(responder);
        assert!(matches!(answer.wait(), Err(Error::Closed)));
    }

    #[test]
    fn an_answer_that_nobody_waits_for_harms_nobody() {
        let (responder, answer) = Answer::<u8>::pending();
        drop(answer);
        responder.send(Ok(1));
    }
}
