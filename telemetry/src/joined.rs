//! Spans and the traces that they belong to.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::writes::Writes;
use crate::{HEADERS, Trust};

const MILLION: u32 = 1_000_000;

/// Whether spans are exported; once they are, for as long as the process lasts.
static IS_ON: AtomicBool = AtomicBool::new(false);
static PER_MILLION: AtomicU32 = AtomicU32::new(0);

/// The writes that reconciles may follow. A leaf of the lock order.
static WRITES: Mutex<Writes> = Mutex::new(Writes::new());

struct Received<'a>(&'a HeaderMap);

struct Sent<'a>(&'a mut HeaderMap);

/// Where a span that is sampled belongs.
#[derive(Debug)]
pub(crate) enum Place {
    /// Below a span of this process or of another.
    Below(SpanContext),
    /// In a trace of its own, linked to another if there is one.
    Apart(Option<SpanContext>),
}

/// Switches all of it on. Of the traces that no client has decided about, `per_million` are sampled.
pub(crate) fn switch_on(per_million: u32) {
    PER_MILLION.store(per_million, Ordering::Relaxed);
    IS_ON.store(true, Ordering::Release);
}

pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

/// Draws whether a trace that nobody has decided about is sampled.
fn is_drawn() -> bool {
    let per_million = PER_MILLION.load(Ordering::Relaxed);
    per_million > 0 && rand::random_range(0..MILLION) < per_million
}

pub(crate) fn sample_request(headers: &HeaderMap, trust: Trust) -> Option<crate::Place> {
    if !is_on() {
        return None;
    }
    let named = named_by(headers);
    let place = match (named, trust) {
        (Some(named), Trust::Full) => named.is_sampled().then_some(Place::Below(named)),
        (named, _) => is_drawn().then_some(Place::Apart(named)),
    };
    place.map(crate::Place)
}

/// Returns the span that headers name.
fn named_by(headers: &HeaderMap) -> Option<SpanContext> {
    let first = HEADERS.first()?;
    headers.get(first)?;
    let nothing = Context::new();
    let context = TraceContextPropagator::new().extract_with_context(&nothing, &Received(headers));
    let named = context.span().span_context().clone();
    named.is_valid().then_some(named)
}

pub(crate) fn sample_reconcile(uid: &str) -> Option<crate::Place> {
    if !is_on() {
        return None;
    }
    let written = WRITES.lock().find(uid, Instant::now());
    let place = written.map(Place::Below);
    let place = place.or_else(|| is_drawn().then_some(Place::Apart(None)));
    place.map(crate::Place)
}

pub(crate) fn put(span: &Span, place: Place) {
    match place {
        // A span that has begun, which no caller's has, stays where it is.
        Place::Below(parent) => {
            drop(span.set_parent(Context::new().with_remote_span_context(parent)));
        }
        Place::Apart(Some(linked)) => span.add_link(linked),
        Place::Apart(None) => {}
    }
}

/// Returns the current span, if it is part of a trace.
fn current() -> Option<SpanContext> {
    if !is_on() {
        return None;
    }
    let context = Span::current().context();
    let span = context.span().span_context().clone();
    span.is_valid().then_some(span)
}

pub(crate) fn is_traced() -> bool {
    current().is_some()
}

pub(crate) fn inject(headers: &mut HeaderMap) {
    let Some(span) = current() else { return };
    for name in &HEADERS {
        headers.remove(name);
    }
    name_to(span, headers);
}

/// Names a span to the server that these headers are for.
fn name_to(span: SpanContext, headers: &mut HeaderMap) {
    let context = Context::new().with_remote_span_context(span);
    TraceContextPropagator::new().inject_context(&context, &mut Sent(headers));
}

pub(crate) fn note_write(uid: &str) {
    if is_on() {
        let sampled = current().filter(SpanContext::is_sampled);
        WRITES.lock().note(uid, sampled.as_ref(), Instant::now());
    }
}

/// Returns the headers that name to the next server what the headers of a stranger name, if they name anything.
#[cfg(feature = "fuzzing")]
pub(crate) fn passed_on(headers: &HeaderMap) -> Option<HeaderMap> {
    let mut next = HeaderMap::new();
    name_to(named_by(headers)?, &mut next);
    Some(next)
}

// === impl Received ===

impl Extractor for Received<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

// === impl Sent ===

impl Injector for Sent<'_> {
    fn set(&mut self, key: &str, value: String) {
        let name = HeaderName::try_from(key);
        let value = HeaderValue::try_from(value);
        if let (Ok(name), Ok(value)) = (name, value) {
            self.0.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the span of a request with this `traceparent` belongs.
    fn sampled(parent: &'static str, trust: Trust) -> Option<Place> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", HeaderValue::from_static(parent));
        sample_request(&headers, trust).map(|place| place.0)
    }

    #[test]
    fn who_is_trusted_decides_and_others_are_drawn_for() {
        const ASKED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        const DECLINED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        assert!(sampled(ASKED, Trust::Full).is_none(), "nothing is exported");

        switch_on(0);
        let below = sampled(ASKED, Trust::Full);
        assert!(matches!(below, Some(Place::Below(_))), "{below:?}");
        assert!(
            sampled(DECLINED, Trust::Full).is_none(),
            "its sender's word"
        );
        assert!(sampled(ASKED, Trust::None).is_none(), "nobody is drawn");
        assert!(
            sampled("nonsense", Trust::Full).is_none(),
            "no trace is named"
        );

        switch_on(MILLION);
        for (parent, trust) in [(ASKED, Trust::None), (DECLINED, Trust::None)] {
            let apart = sampled(parent, trust);
            assert!(matches!(apart, Some(Place::Apart(Some(_)))), "{apart:?}");
        }
        let alone = sampled("nonsense", Trust::Full);
        assert!(matches!(alone, Some(Place::Apart(None))), "{alone:?}");
        assert!(
            sampled(DECLINED, Trust::Full).is_none(),
            "its sender's word"
        );
    }
}
