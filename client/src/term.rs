//! Terms: a write is sent only while whoever sends it may.
//!
//! Who renews a lease lets a [`Lifetime`] begin anew each time. A [`Term`] is the right to write somewhere during such a
//! lifetime, until it is closed. A client that was made by [`in_terms`](crate::in_terms) asks for the term of each write:
//!
//! ```text
//!   write ──► is there a term? ──► does it hold? ──► headers ──► does it still hold? ──► body ──► answer
//!                                                                                 the term ends ──► reset
//! ```
//!
//! A process that was stopped, or a machine that was suspended, goes on where it was, before any timer fires. So the clocks
//! are read right before the body goes to the connection, and a request without its body changes nothing. What has left the
//! machine by then is beyond reach: writes name the uid and the version that they expect, or fields that are the hub's own.
//!
//! **Invariant:** a clock that jumps forward ends a term; no clock prolongs one.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::BoxError;

use crate::transport::RequestBody;

/// What clients that do not say otherwise are called, as the `User-Agent`; the name of who writes in a term follows it.
pub(crate) const USER_AGENT: &str = concat!("wheelhouse/", env!("CARGO_PKG_VERSION"));

/// Says in which term a request to the hub is sent: `NAME/REVISION` of a Lease in the namespace `kube-system` of root. The
/// hub commits the request only while that revision of the Lease is the latest one.
pub const FENCE_HEADER: HeaderName = HeaderName::from_static("wheelhouse-fence");

/// A write that was not sent, or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the term in which it was to be written is over")]
pub struct TermError;

/// A moment, by every clock that can tell how long ago it was.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Stands still while the machine is suspended.
    monotonic: Duration,
    /// Goes on while the machine is suspended.
    boot: Duration,
    /// Follows when a whole virtual machine was stopped, once somebody sets it right.
    real: Duration,
}

/// How long something may be done, from when it was last renewed. Clones are the same.
#[derive(Clone, Debug)]
pub struct Lifetime {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    length: Duration,
    /// Guards one value. A leaf of the lock order.
    renewed: Mutex<Option<Moment>>,
}

/// The right to write somewhere. Clones are the same.
#[derive(Clone, Debug)]
pub struct Term {
    office: Arc<Office>,
}

#[derive(Debug)]
struct Office {
    lifetime: Lifetime,
    /// No write begins any more.
    closed: CancellationToken,
    /// No write goes on any more.
    ended: CancellationToken,
    /// Writes that are under way.
    writes: TaskTracker,
    /// Who writes.
    identity: String,
    /// The same, as the `User-Agent` says: audits of spokes tell replicas apart.
    agent: Option<HeaderValue>,
    /// What the hub is told, if anything. Guards one value.
    fence: Mutex<Option<HeaderValue>>,
}

/// The body of a write, which is there only while its term holds.
struct Guarded {
    inner: RequestBody,
    term: Term,
}

/// Lets the body of a request that is sent in a term go to the connection while that holds.
pub(crate) fn guard(mut request: Request<RequestBody>) -> Request<RequestBody> {
    match request.extensions_mut().remove::<Term>() {
        Some(term) => request.map(|inner| Guarded { inner, term }.boxed_unsync()),
        None => request,
    }
}

// === impl Moment ===

impl Moment {
    /// Reads the clocks.
    pub fn now() -> Self {
        let read = |clock| {
            let time = clock_gettime(clock);
            let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
            Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
        };
        Self {
            monotonic: read(ClockId::Monotonic),
            boot: read(ClockId::Boottime),
            real: read(ClockId::Realtime),
        }
    }

    /// Returns how long ago this was before another moment, by the clock that says the most.
    fn until(&self, later: &Self) -> Duration {
        let passed = [
            later.monotonic.saturating_sub(self.monotonic),
            later.boot.saturating_sub(self.boot),
            later.real.saturating_sub(self.real),
        ];
        passed.into_iter().max().unwrap_or_default()
    }
}

// === impl Lifetime ===

impl Lifetime {
    /// Begins one of a length, as of a moment.
    pub fn begin(length: Duration, began: Moment) -> Self {
        Self {
            shared: Arc::new(Shared {
                length,
                renewed: Mutex::new(Some(began)),
            }),
        }
    }

    /// Lets it begin anew, as of a moment; not, once it was ended.
    pub fn renew(&self, began: Moment) {
        if let Some(renewed) = &mut *self.shared.renewed.lock() {
            *renewed = began;
        }
    }

    /// Ends it for good.
    pub fn end(&self) {
        *self.shared.renewed.lock() = None;
    }

    /// Returns how long it goes on unless it is renewed.
    pub fn left(&self) -> Duration {
        self.left_at(&Moment::now())
    }

    fn left_at(&self, now: &Moment) -> Duration {
        let renewed = *self.shared.renewed.lock();
        renewed.map_or(Duration::ZERO, |renewed| {
            self.shared.length.saturating_sub(renewed.until(now))
        })
    }

    /// Whether it goes on.
    pub fn holds(&self) -> bool {
        !self.left().is_zero()
    }
}

// === impl Term ===

impl Term {
    /// Begins a term of somebody in a lifetime.
    pub fn begin(lifetime: &Lifetime, identity: &str) -> Self {
        let writes = TaskTracker::new();
        // Closed only means that waiting for it ends when it is empty; writes are counted all the same.
        writes.close();
        Self {
            office: Arc::new(Office {
                lifetime: lifetime.clone(),
                closed: CancellationToken::new(),
                ended: CancellationToken::new(),
                writes,
                identity: identity.to_owned(),
                agent: HeaderValue::try_from(format!("{USER_AGENT} ({identity})")).ok(),
                fence: Mutex::default(),
            }),
        }
    }

    /// Notes which revision of which Lease the hub is to find.
    pub fn note_fence(&self, name: &str, revision: &str) {
        *self.office.fence.lock() = HeaderValue::try_from(format!("{name}/{revision}")).ok();
    }

    /// Names who writes.
    pub fn identity(&self) -> &str {
        &self.office.identity
    }

    /// Whether something may be written.
    pub fn holds(&self) -> bool {
        !self.office.closed.is_cancelled() && self.office.lifetime.holds()
    }

    /// Lets no further write begin.
    pub fn close(&self) {
        self.office.closed.cancel();
    }

    /// Waits until no write is under way.
    pub async fn settled(&self) {
        self.office.writes.wait().await;
    }

    /// Cancels what is under way, and lets no further write begin.
    pub fn end(&self) {
        self.close();
        self.office.ended.cancel();
    }

    pub(crate) async fn send(
        self,
        client: kube::Client,
        mut request: Request<Body>,
    ) -> Result<http::Response<Body>, BoxError> {
        // Counted first: who closes the term and sees none under way has seen the last.
        let _counted = self.office.writes.token();
        if !self.holds() {
            return Err(TermError.into());
        }
        let fence = self.office.fence.lock().clone();
        if let Some(fence) = fence {
            request.headers_mut().insert(FENCE_HEADER, fence);
        }
        if let Some(agent) = self.office.agent.clone() {
            request.headers_mut().insert(header::USER_AGENT, agent);
        }
        request.extensions_mut().insert(self.clone());
        tokio::select! {
            biased;
            () = self.office.ended.cancelled() => Err(TermError.into()),
            answer = client.send(request) => answer.map_err(BoxError::from),
        }
    }
}

impl PartialEq for Term {
    /// Terms are equal only where they are the same one.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.office, &other.office)
    }
}

impl Eq for Term {}

// === impl Guarded ===

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.term.holds() {
            return Poll::Ready(Some(Err(TermError.into())));
        }
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    /// Never, so that an empty body too is asked for, and judged.
    fn is_end_stream(&self) -> bool {
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn the_clock_that_says_the_most_counts() {
        let began = Moment::now();
        let length = Duration::from_secs(5);
        let lifetime = Lifetime::begin(length, began);
        assert_eq!(lifetime.left_at(&began), length);
        let after = Duration::from_secs(6);
        for (name, later) in [
            (
                "the process was stopped",
                Moment {
                    monotonic: began.monotonic + after,
                    ..began
                },
            ),
            (
                "the machine was suspended",
                Moment {
                    boot: began.boot + after,
                    ..began
                },
            ),
            (
                "the clock was set",
                Moment {
                    real: began.real + after,
                    ..began
                },
            ),
        ] {
            assert_eq!(lifetime.left_at(&later), Duration::ZERO, "{name}");
        }
        let back = Moment {
            real: began.real.saturating_sub(HOUR),
            ..began
        };
        assert_eq!(lifetime.left_at(&back), length, "no clock prolongs it");
        lifetime.end();
        lifetime.renew(began);
        assert!(!lifetime.holds(), "an end is for good");
    }

    #[tokio::test]
    async fn a_body_is_not_sent_once_the_term_is_over() {
        let lifetime = Lifetime::begin(HOUR, Moment::now());
        let guarded = |term: &Term| Guarded {
            inner: http_body_util::Full::from("{}")
                .map_err(BoxError::from)
                .boxed_unsync(),
            term: term.clone(),
        };
        let term = Term::begin(&lifetime, "one");
        let sent = guarded(&term).collect().await;
        assert_eq!(sent.expect("it holds").to_bytes(), "{}");
        let body = guarded(&term);
        term.close();
        let error = body.collect().await;
        assert!(error.is_err(), "the process was stopped in between");
    }
}
