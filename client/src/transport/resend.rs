//! Sending a request once more that its server has not begun to work on.
//!
//! A server that shuts down, or sheds connections as kube-apiserver does with `--goaway-chance`, says in a GOAWAY which streams it
//! has taken up. A request that crosses with it is not among them, and is sent again over another connection, whatever its
//! method: nothing was done. Sources: RFC 9113 sections 6.8 and 8.7; Go `x/net/http2`, `canRetryError`.
//!
//! What a body has given is kept for that as long as it is little, so that a stream is sent on and not held back.

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::RequestBody;

/// What is kept of a body that comes in pieces, in bytes. One that comes as a whole is in memory already, and is kept.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// A body that can be sent again from its beginning, as long as that is kept.
#[derive(Clone)]
pub(super) struct Resendable(Arc<Mutex<Kept>>);

struct Kept {
    rest: RequestBody,
    /// What was given, from the beginning; `None` where it was too much.
    given: Option<Vec<Bytes>>,
    /// How many attempts there were before this one.
    attempt: usize,
    /// How much of what was given this attempt has sent.
    sent_count: usize,
}

/// One attempt to send a body.
pub(super) struct Attempt {
    kept: Arc<Mutex<Kept>>,
    number: usize,
}

// === impl Resendable ===

impl Resendable {
    pub(super) fn new(body: RequestBody) -> Self {
        Self(Arc::new(Mutex::new(Kept {
            rest: body,
            given: Some(Vec::new()),
            attempt: 0,
            sent_count: 0,
        })))
    }

    /// Returns the body for the attempt that is under way.
    pub(super) fn attempt(&self) -> Attempt {
        let number = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .attempt;
        Attempt {
            kept: Arc::clone(&self.0),
            number,
        }
    }

    /// Ends the attempt that is under way. Returns whether there can be another one.
    pub(super) fn rewind(&self) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.attempt += 1;
        kept.sent_count = 0;
        kept.given.is_some()
    }
}

// === impl Kept ===

impl Kept {
    fn keep(&mut self, frame: &Frame<Bytes>) {
        let is_whole = self.rest.is_end_stream();
        let Some(given) = &mut self.given else {
            return;
        };
        let Some(data) = frame.data_ref() else {
            self.given = None; // trailers, which requests of Kubernetes do not have
            return;
        };
        let bytes: usize = given.iter().map(Bytes::len).sum();
        if bytes + data.len() <= KEPT_BYTES_MAX || (given.is_empty() && is_whole) {
            given.push(data.clone());
            self.sent_count = given.len();
        } else {
            self.given = None;
        }
    }

    /// Returns what of the given is to be sent again.
    fn left(&self) -> &[Bytes] {
        let given = self.given.as_deref().unwrap_or_default();
        given.get(self.sent_count..).unwrap_or_default()
    }
}

// === impl Attempt ===

impl Body for Attempt {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.attempt != self.number {
            return Poll::Ready(Some(Err("the attempt is over".into())));
        }
        if let Some(again) = kept.left().first().cloned() {
            kept.sent_count += 1;
            return Poll::Ready(Some(Ok(Frame::data(again))));
        }
        let polled = Pin::new(&mut kept.rest).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            kept.keep(frame);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.left().is_empty() && kept.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let again: usize = kept.left().iter().map(Bytes::len).sum();
        let again = u64::try_from(again).unwrap_or(u64::MAX);
        let rest = kept.rest.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(again));
        }
        hint.set_lower(rest.lower().saturating_add(again));
        hint
    }
}

/// Returns whether an error says that the server has not begun to work on the request.
pub(super) fn is_untouched(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let reason = error.reason();
            return error.is_remote()
                && (error.is_go_away() && reason == Some(h2::Reason::NO_ERROR)
                    || error.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM));
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests;
