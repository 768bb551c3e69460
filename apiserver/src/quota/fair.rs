//! Who gets the processors: while several users send requests, each of them alone runs on half of them at most.
//!
//! A task of the runtime waits for all that became ready before it, whoever they work for: a user with a hundred requests under way would
//! have a hundred tasks in that queue, and everybody else would wait behind them. So the tasks of a user take turns. Each poll of a connection
//! or of a stream on it is a turn, for which it needs one of the user's places. Who has got one goes to the end of the runtime's queue,
//! so that all others who are ready come first:
//!
//! ```text
//!   connection ─┐
//!   stream ─────┼─► ready ─► wait for a place of the user ─► end of the runtime's queue ─► poll, and give the place back
//!   stream ─────┘            (half of the processors)
//! ```
//!
//! # Invariants
//! - A user who is alone has all processors, and takes no turns.
//! - Who has a place is ready to be polled, and gives it back after that: places always come back.
//! - No future that takes turns is within another that does: it would wait for the place that the other one has.
//! - The hub's own controllers take no turns. Connections of a front proxy take none, for they work for many; each request on them
//!   takes those of its user.
//!
//! Source: API priority and fairness (KEP-1040) for the aim. It queues requests, of which it guesses the width; here it is what a request
//! takes that is counted out.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::PollSemaphore;

use super::Seat;
use crate::request::{RequestContext, share::Share};

pin_project! {
    /// A future that runs in turns with the others of its user.
    pub(crate) struct Fair<F> {
        #[pin]
        work: F,
        of: Of,
        turn: Turn,
    }
}

/// Where a future is on the way to its next poll.
#[derive(Debug, Default)]
enum Turn {
    /// Nowhere.
    #[default]
    Outside,
    /// In the queue of its user.
    Waits(PollSemaphore),
    /// In the queue of the runtime, with a place.
    Has(OwnedSemaphorePermit),
}

/// For whom a future works.
#[derive(Debug)]
pub(crate) enum Of {
    /// For the user of a connection, once that is known.
    Connection(Arc<Seat>),
    /// For a user.
    User(Arc<Share>),
    /// For a part of what takes turns as a whole, or for the hub itself.
    Nobody,
}

// === impl Of ===

impl Of {
    /// For whom a request is answered. Most are part of a connection that takes turns; those that come through a front proxy are not.
    pub(crate) fn request(seat: Option<&Seat>, context: &RequestContext) -> Self {
        let runs_for_nobody = seat.is_some_and(|seat| seat.user().is_none());
        match &context.share {
            Some(share) if runs_for_nobody => Self::User(Arc::clone(share)),
            _ => Self::Nobody,
        }
    }

    fn share(&self) -> Option<&Arc<Share>> {
        match self {
            Self::Connection(seat) => seat.user(),
            Self::User(share) => Some(share),
            Self::Nobody => None,
        }
    }
}

// === impl Turn ===

impl Turn {
    fn begin(share: &Share, cx: &mut Context<'_>) -> Self {
        let mut queue = PollSemaphore::new(share.places());
        match queue.poll_acquire(cx) {
            Poll::Ready(Some(place)) => {
                cx.waker().wake_by_ref();
                Self::Has(place)
            }
            // `None`: they were closed, which nothing does.
            Poll::Ready(None) | Poll::Pending => Self::Waits(queue),
        }
    }
}

// === impl Fair ===

impl<F> Fair<F> {
    pub(crate) const fn new(work: F, of: Of) -> Self {
        Self {
            work,
            of,
            turn: Turn::Outside,
        }
    }
}

impl<F: Future> Future for Fair<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let crowded = this.of.share().filter(|share| share.is_crowded());
        let _place = match (std::mem::take(this.turn), crowded) {
            (Turn::Outside, None) => None,
            (Turn::Outside, Some(share)) => {
                *this.turn = Turn::begin(share, cx);
                return Poll::Pending;
            }
            (Turn::Waits(mut queue), _) => match queue.poll_acquire(cx) {
                Poll::Ready(place) => place,
                Poll::Pending => {
                    *this.turn = Turn::Waits(queue);
                    return Poll::Pending;
                }
            },
            (Turn::Has(place), _) => Some(place),
        };
        this.work.poll(cx)
    }
}

impl<F> fmt::Debug for Fair<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fair")
            .field("of", &self.of)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
