//! A span for each request that is sent as part of a trace.

use std::task::{Context, Poll};

use futures::future::{BoxFuture, Either};
use http::{Request, Response};
use tower::Service;
use tracing::{Instrument as _, field};

/// Names the trace to the server, which is the one of the span that the request is handed over in.
#[derive(Clone)]
pub(super) struct Traced<S> {
    inner: S,
}

// === impl Traced ===

impl<S> Traced<S> {
    pub(super) const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, Q, A> Service<Request<Q>> for Traced<S>
where
    S: Service<Request<Q>, Response = Response<A>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    A: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<A>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut req: Request<Q>) -> Self::Future {
        if !telemetry::is_traced() {
            return Either::Left(self.inner.call(req));
        }
        let span = tracing::debug_span!(
            "call",
            otel.kind = "client",
            otel.name = req.method().as_str(),
            otel.status_code = field::Empty,
            http.request.method = req.method().as_str(),
            http.response.status_code = field::Empty,
            server.address = req.uri().host(),
            url.path = req.uri().path(),
        );
        span.in_scope(|| telemetry::inject(req.headers_mut()));
        let sent = self.inner.call(req);
        let answered = async move {
            let answer = sent.await;
            let span = tracing::Span::current();
            match &answer {
                Ok(answer) => {
                    let code = answer.status().as_u16();
                    span.record("http.response.status_code", code);
                    if code >= 400 {
                        span.record("otel.status_code", "ERROR");
                    }
                }
                Err(_) => {
                    span.record("otel.status_code", "ERROR");
                }
            }
            answer
        };
        Either::Right(Box::pin(answered.instrument(span)))
    }
}
