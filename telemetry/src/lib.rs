//! Traces: which spans belong together, across processes, and where they are sent.
//!
//! The spans are those of `tracing` that the code has for its log. This crate joins them to a trace: to that of a request
//! that came in ([`adopt`]), of the write that caused a reconcile ([`follow_write`]), and it names the trace to the servers that
//! are called ([`inject`]). [`export::start`] sends them to a collector.
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
#[cfg(feature = "otlp")]
mod writes;

/// The headers that name a trace, and what goes along with it. Sources: W3C Trace Context, W3C Baggage.
pub const HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];

/// What the trace counts that the sender of a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is gone on with, and sampled if the sender says so.
    Full,
    /// It is linked from a trace of its own.
    None,
}

/// Returns whether spans are exported.
#[must_use]
pub fn is_on() -> bool {
    #[cfg(feature = "otlp")]
    return joined::is_on();
    #[cfg(not(feature = "otlp"))]
    return false;
}

/// Joins the span of a request to the trace that its headers name.
pub fn adopt(span: &Span, headers: &HeaderMap, trust: Trust) {
    #[cfg(feature = "otlp")]
    joined::adopt(span, headers, trust);
    #[cfg(not(feature = "otlp"))]
    let _ = (span, headers, trust);
}

/// Names a span to the server that a request is sent to, in place of whatever trace the request names.
pub fn inject(span: &Span, headers: &mut HeaderMap) {
    #[cfg(feature = "otlp")]
    joined::inject(span, headers);
    #[cfg(not(feature = "otlp"))]
    let _ = (span, headers);
}

/// Notes that the current span writes the object of this uid, for [`follow_write`] in this process. Of writes that are not
/// sampled nothing is kept, and of others the newest few hundred.
pub fn note_write(uid: &str) {
    #[cfg(feature = "otlp")]
    joined::note_write(uid);
    #[cfg(not(feature = "otlp"))]
    let _ = uid;
}

/// Joins the span of a reconcile to the trace of the newest write of its object, for a minute after the write.
pub fn follow_write(span: &Span, uid: &str) {
    #[cfg(feature = "otlp")]
    joined::follow_write(span, uid);
    #[cfg(not(feature = "otlp"))]
    let _ = (span, uid);
}
