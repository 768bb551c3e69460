//! HTTP/2 over connections that notice a dead peer, and HTTP/1.1 for upgrades.
//!
//! Streams are spread over *lanes*, one HTTP/2 connection each. A server allows a number of streams on a connection
//! (kube-apiserver 100 to 250) and makes further ones wait without a word: with a watch per kind and user, a call
//! would wait for a watch to end. So a lane takes fewer streams than any known server allows, and a further lane is
//! opened when all are full.
//!
//! A stopped or unplugged server keeps its connections open; pings find it out, and break the connection with all
//! streams on it. Connecting, TLS included, has its own deadline.
//!
//! **Invariant:** a stream counts against its lane until its response body is dropped.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower::{BoxError, Service};

use self::resend::{Attempt, Resendable};

mod connector;
mod resend;
pub(crate) mod upgrade;

pub use connector::{ConnectTimeoutError, DeadlineConnector, ServerName};
pub use upgrade::{Protocol, Switched, Upgrade, Upgraded};

/// How many streams a lane takes. Go's HTTP/2 server allows 250 by default, kube-apiserver 100 to those it does not
/// know yet.
const LANE_STREAMS_MAX: usize = 90;
/// How many lanes there are at most: 64 × 90 streams to one cluster. Beyond, streams wait on the emptiest lane.
const LANE_COUNT_MAX: usize = 64;
/// Streams that were given up, and whose frames are passed over in silence for a second: a watch that somebody leaves has
/// many under way.
const REMEMBERED_STREAMS_MAX: usize = 1000;
/// Frames of streams that were given up before those, in the life of a connection; each is answered with a reset, and one
/// more breaks the connection with all streams on it. h2's own bound of 1,024 is reached by leaving some dozens of
/// busy watches in a second; without any, a server that never reads would let resets pile up.
const STRAY_FRAMES_MAX: usize = 100_000;
/// What a stream may be sent before somebody reads it, in bytes: 10 MB/s at a round trip of 100 ms.
const STREAM_WINDOW: u32 = 1 << 20;
/// The same for all streams of a connection together, as Go's client has it: never the narrower one, or a few answers
/// that nobody reads would hold up all others. h2 also bears small unread frames up to half of it.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// How often a request is sent that its server does not take up. Source: Go `x/net/http2`, `Transport.RoundTripOpt`.
const ATTEMPT_COUNT_MAX: usize = 7;
/// How long a connection without streams is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The body of a request, in whatever form it comes.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

type HyperClient = Client<DeadlineConnector<HttpsConnector<HttpConnector>>, Attempt>;

/// When a connection counts as dead.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long connecting may take, TLS included.
    pub connect_timeout: Duration,
    /// How often a connection is pinged.
    pub ping_interval: Duration,
    /// How long the answer to a ping may take.
    pub ping_timeout: Duration,
}

/// Sends requests with absolute URLs to one cluster; cheap to clone.
#[derive(Clone)]
pub struct Transport {
    shared: Arc<Shared>,
}

struct Shared {
    tls: rustls::ClientConfig,
    server_name: Option<ServerName>,
    timing: Timing,
    /// HTTP/1.1 alone, because HTTP/2 has no upgrades. A connection of its own for each request: none is kept, whatever
    /// the answer was, so that a stream that stalls holds up nothing and what failed to be one is never used again.
    upgrades: HyperClient,
    /// Guards the list, in which lanes are only ever added. Held for the choice of one.
    lanes: Mutex<Vec<Arc<Lane>>>,
}

struct Lane {
    client: HyperClient,
    stream_count: AtomicUsize,
}

/// The body of a response; its stream counts until it is dropped.
pub struct ResponseBody {
    inner: Inner,
    _stream: Option<Stream>,
}

enum Inner {
    Wire(Incoming),
    /// From a network that is not the machine's.
    Other(RequestBody),
}

/// One stream of a lane.
struct Stream(Arc<Lane>);

// === impl Timing ===

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(5),
            ping_timeout: Duration::from_secs(5),
        }
    }
}

// === impl Transport ===

impl Transport {
    /// Makes a transport; nothing is connected before the first request.
    pub fn new(tls: rustls::ClientConfig, server_name: Option<ServerName>, timing: Timing) -> Self {
        let connector = connector::http1(tls.clone(), server_name.clone(), timing.connect_timeout);
        let upgrades = builder(timing).pool_max_idle_per_host(0).build(connector);
        let lanes = Mutex::new(Vec::new());
        Self {
            shared: Arc::new(Shared {
                tls,
                server_name,
                timing,
                upgrades,
                lanes,
            }),
        }
    }

    /// Counts the lanes and the streams on them.
    pub fn load(&self) -> (usize, usize) {
        let lanes = self
            .shared
            .lanes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let streams = lanes
            .iter()
            .map(|lane| lane.stream_count.load(Ordering::Relaxed))
            .sum();
        (lanes.len(), streams)
    }

    /// Takes a place on the first lane that has one, so that further lanes empty first.
    fn take_stream(&self) -> Stream {
        let shared = &*self.shared;
        let mut lanes = shared.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |lane: &Arc<Lane>| lane.stream_count.load(Ordering::Relaxed);
        let free = lanes.iter().find(|lane| count(lane) < LANE_STREAMS_MAX);
        let lane = match free {
            Some(lane) => Arc::clone(lane),
            None => match lanes.iter().min_by_key(|lane| count(lane)) {
                Some(emptiest) if lanes.len() >= LANE_COUNT_MAX => Arc::clone(emptiest),
                _ => {
                    let lane = Arc::new(Lane {
                        client: shared.client(),
                        stream_count: AtomicUsize::new(0),
                    });
                    lanes.push(Arc::clone(&lane));
                    lane
                }
            },
        };
        lane.stream_count.fetch_add(1, Ordering::Relaxed);
        Stream(lane)
    }
}

impl Service<Request<RequestBody>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    /// Sends a request. One that [`upgrade::ask`] has marked goes over an HTTP/1.1 connection of its own; no other one
    /// asks for another protocol, whatever its headers say.
    fn call(&mut self, mut req: Request<RequestBody>) -> Self::Future {
        // The connection decides the version; a relayed request brings that of its own connection.
        *req.version_mut() = Version::HTTP_11;
        let protocol = upgrade::asked(&req);
        let headers = req.headers_mut();
        headers.remove(header::UPGRADE);
        headers.remove(header::CONNECTION);
        if let Some(protocol) = protocol {
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, protocol.value());
            let req = req.map(|body| Resendable::new(body).attempt());
            let response = self.shared.upgrades.request(req);
            return Box::pin(async move {
                Ok(response.await?.map(|inner| ResponseBody {
                    inner: Inner::Wire(inner),
                    _stream: None,
                }))
            });
        }
        let stream = self.take_stream();
        Box::pin(async move {
            let response = send(&stream.0.client, req).await?;
            Ok(response.map(|inner| ResponseBody {
                inner: Inner::Wire(inner),
                _stream: Some(stream),
            }))
        })
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lane_count, stream_count) = self.load();
        f.debug_struct("Transport")
            .field("lane_count", &lane_count)
            .field("stream_count", &stream_count)
            .finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    fn client(&self) -> HyperClient {
        let (tls, timing) = (self.tls.clone(), self.timing);
        let connector = connector::http2(tls, self.server_name.clone(), timing.connect_timeout);
        builder(timing).build(connector)
    }
}

// === impl Stream ===

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.stream_count.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl ResponseBody ===

impl ResponseBody {
    /// Wraps a body that came over a network other than the machine's.
    pub(crate) fn other(body: RequestBody) -> Self {
        Self {
            inner: Inner::Other(body),
            _stream: None,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.inner {
            Inner::Wire(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Inner::Other(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Wire(body) => body.is_end_stream(),
            Inner::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Wire(body) => body.size_hint(),
            Inner::Other(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}

/// Sends a request, and again where the server has not begun to work on it.
async fn send(
    client: &HyperClient,
    req: Request<RequestBody>,
) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
    let (parts, body) = req.into_parts();
    let body = Resendable::new(body);
    let mut attempt_count = 1;
    loop {
        let req = Request::from_parts(parts.clone(), body.attempt());
        match client.request(req).await {
            Err(error)
                if attempt_count < ATTEMPT_COUNT_MAX
                    && resend::is_untouched(&error)
                    && body.rewind() =>
            {
                attempt_count += 1;
                // The connection's own task takes it out of the pool.
                tokio::task::yield_now().await;
            }
            sent => return sent,
        }
    }
}

fn builder(timing: Timing) -> hyper_util::client::legacy::Builder {
    // Connections are driven by tasks of hyper's; they end with the last clone of their client.
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http2_keep_alive_interval(timing.ping_interval)
        .http2_keep_alive_timeout(timing.ping_timeout)
        // Also between calls: otherwise the first call after an outage would find out by its own deadline.
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_concurrent_reset_streams(REMEMBERED_STREAMS_MAX)
        .http2_max_local_error_reset_streams(STRAY_FRAMES_MAX);
    builder
}
