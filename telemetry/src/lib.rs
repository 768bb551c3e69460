//! Traces: which spans belong together, across processes, and where they are sent.
//!
//! The spans are those of `tracing`. A span that begins a trace in this process has a target that ends with [`TRACED`], and is
//! made only if it is sampled ([`sample_request`], [`sample_reconcile`]); what is within it is part of the trace. So a
//! request that is not sampled costs a glance at its headers. The trace is named to the servers that are called ([`inject`]), and
//! [`export::start`] sends spans to a collector.
//!
//! # Invariants
//! - Until a process exports, and in a build without the feature `otlp`, everything here does nothing.
//! - Whoever is not trusted does not decide what is sampled.
//!
//! Sources: W3C Trace Context; `apiserver/pkg/endpoints/filters/traces.go`.

use http::{HeaderMap, HeaderName};
use tracing::Span;

#[cfg(feature = "otlp")]
pub mod export;
#[cfg(feature = "otlp")]
mod joined;
#[cfg(not(feature = "otlp"))]
#[path = "none.rs"]
mod joined;
#[cfg(feature = "otlp")]
mod writes;

/// The headers that name a trace, and what goes along with it. Sources: W3C Trace Context, W3C Baggage.
pub static HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];

/// How the target of a span ends that begins a trace in this process, and is none of the log's.
pub const TRACED: &str = "::traced";

/// What the trace counts that the sender of a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is gone on with, and sampled if the sender says so.
    Full,
    /// It is linked from a trace of the hub's own, if that is sampled.
    None,
}

/// Where a span that is sampled belongs.
#[derive(Debug)]
#[must_use]
pub struct Place(joined::Place);

/// Whether spans are exported.
#[must_use]
pub fn is_on() -> bool {
    joined::is_on()
}

/// Where the span of a request belongs that is sampled; `None` for one that is not.
#[must_use]
pub fn sample_request(headers: &HeaderMap, trust: Trust) -> Option<Place> {
    joined::sample_request(headers, trust)
}

/// Where the span of a reconcile belongs that is sampled: in the trace of the newest write of its object, for a minute after
/// the write. `None` for one that is not.
#[must_use]
pub fn sample_reconcile(uid: &str) -> Option<Place> {
    joined::sample_reconcile(uid)
}

/// Reads the headers by which strangers name a trace, `traceparent` and `tracestate`. What is named to the next server is read there
/// as the same.
#[cfg(feature = "fuzzing")]
pub fn fuzz_trace_headers(parent: &[u8], state: &[u8]) {
    let mut headers = HeaderMap::new();
    for (name, bytes) in HEADERS.iter().zip([parent, state]) {
        if let Ok(value) = http::HeaderValue::from_bytes(bytes) {
            headers.insert(name, value);
        }
    }
    if let Some(next) = joined::passed_on(&headers) {
        let again = joined::passed_on(&next);
        assert_eq!(again.as_ref(), Some(&next), "it is named as it was read");
    }
}

/// Names the current span, if it is part of a trace, to the server that a request is sent to, in place of whatever trace the request
/// names.
pub fn inject(headers: &mut HeaderMap) {
    joined::inject(headers);
}

/// Whether the current span is part of a trace.
#[must_use]
pub fn is_traced() -> bool {
    joined::is_traced()
}

/// Notes that the current span writes the object of this uid, for [`sample_reconcile`] in this process. Of writes that are not
/// sampled nothing is kept, and of others the newest few hundred.
pub fn note_write(uid: &str) {
    joined::note_write(uid);
}

// === impl Place ===

impl Place {
    /// Puts a span, which nobody has entered yet, in its place.
    #[must_use]
    pub fn take(self, span: Span) -> Span {
        joined::put(&span, self.0);
        span
    }
}
