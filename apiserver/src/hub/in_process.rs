//! A client's way into the hub without a connection: what controllers in this process use.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, header::USER_AGENT};
use http_body::Body as HttpBody;
use tower::Service;

use super::Hub;
use crate::{
    refusal::BoxError,
    request::{Peer, UserInfo},
    respond::{RequestBody, Response},
};

/// Who the hub's own controllers are in `managedFields` and in the audit log.
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("wheelhouse/", env!("CARGO_PKG_VERSION")));

/// Sends requests to a hub as one user. `kube::Client::new` takes it.
#[derive(Clone)]
pub struct InProcess {
    hub: Hub,
    peer: Arc<Peer>,
}

// === impl InProcess ===

impl InProcess {
    pub(super) fn new(hub: Hub, user: UserInfo) -> Self {
        Self {
            hub,
            peer: Arc::new(Peer::InProcess(Arc::new(user))),
        }
    }

    /// Sends one request.
    pub async fn send(&self, mut request: http::Request<RequestBody>) -> Response {
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert(AGENT);
        telemetry::inject(headers);
        self.hub.answer(request, &self.peer, None).await
    }
}

impl<B> Service<http::Request<B>> for InProcess
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, req: http::Request<B>) -> Self::Future {
        let sender = self.clone();
        let request = req.map(RequestBody::foreign);
        Box::pin(async move { Ok(sender.send(request).await) })
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}
