//! [`crate`] without the feature `otlp`: no span is part of a trace.

use http::HeaderMap;
use tracing::Span;

use crate::Trust;

/// There is none.
#[derive(Debug)]
pub(crate) enum Place {}

pub(crate) const fn is_on() -> bool {
    false
}

pub(crate) const fn sample_request(_headers: &HeaderMap, _trust: Trust) -> Option<crate::Place> {
    None
}

pub(crate) const fn sample_reconcile(_uid: &str) -> Option<crate::Place> {
    None
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "with the feature it is consumed"
)]
pub(crate) fn put(_span: &Span, place: Place) {
    match place {}
}

pub(crate) const fn is_traced() -> bool {
    false
}

pub(crate) const fn inject(_headers: &mut HeaderMap) {}

pub(crate) const fn note_write(_uid: &str) {}
