//! Spans of reconciles that are part of a trace.

use tracing::Span;

/// Makes the span of a reconcile that is sampled: in the trace of the last write of the object with the uid that `uid` returns, or in one of
/// its own. The uid is empty where the reconcile is of no one object.
pub(crate) fn sampled(uid: impl FnOnce() -> String, make: impl FnOnce() -> Span) -> Span {
    if !telemetry::is_on() {
        return Span::none();
    }
    let place = telemetry::sample_reconcile(&uid());
    place.map_or_else(Span::none, |place| place.take(make()))
}

/// Makes the span of a reconcile for the exporter, which knows it by its target.
macro_rules! traced_span {
    ($($fields:tt)*) => {
        tracing::debug_span!(target: concat!(module_path!(), "::traced"), "reconcile", $($fields)*)
    };
}
pub(crate) use traced_span;
