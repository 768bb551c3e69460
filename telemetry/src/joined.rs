//! Spans and the traces that they belong to.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use parking_lot::Mutex;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::writes::Writes;
use crate::{HEADERS, Trust};

/// Whether spans are exported; once they are, for as long as the process lasts.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The writes that reconciles may follow. A leaf of the lock order.
static WRITES: Mutex<Writes> = Mutex::new(Writes::new());

struct Received<'a>(&'a HeaderMap);

struct Sent<'a>(&'a mut HeaderMap);

pub(crate) fn switch_on() {
    IS_ON.store(true, Ordering::Release);
}

pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

pub(crate) fn adopt(span: &Span, headers: &HeaderMap, trust: Trust) {
    if !is_on() {
        return;
    }
    let remote =
        TraceContextPropagator::new().extract_with_context(&Context::new(), &Received(headers));
    let named = remote.span().span_context().clone();
    if !named.is_valid() {
        return;
    }
    let is_joined = trust == Trust::Full && span.set_parent(remote).is_ok();
    if !is_joined {
        span.add_link(named); // also where a call to learn who sends it has begun a trace already
    }
}

pub(crate) fn inject(span: &Span, headers: &mut HeaderMap) {
    if !is_on() {
        return;
    }
    for name in HEADERS {
        headers.remove(name);
    }
    TraceContextPropagator::new().inject_context(&span.context(), &mut Sent(headers));
}

pub(crate) fn note_write(uid: &str) {
    if !is_on() {
        return;
    }
    let context = Span::current().context();
    let span = context.span();
    let sampled = Some(span.span_context()).filter(|it| it.is_sampled());
    WRITES.lock().note(uid, sampled, Instant::now());
}

pub(crate) fn follow_write(span: &Span, uid: &str) {
    if !is_on() {
        return;
    }
    let written = WRITES.lock().find(uid, Instant::now());
    if let Some(written) = written {
        let parent = Context::new().with_remote_span_context(written);
        // A span that has begun, which no caller's has, stays where it is.
        let _joined = span.set_parent(parent);
    }
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
