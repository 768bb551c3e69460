//! One connection: handshake, then HTTP/2 or HTTP/1.1, with upgrades.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    cork::{Corked, Turns},
    executor::Executor,
    stream,
};
use crate::{hub::Hub, quota::Seat, request::Peer, respond::RequestBody, tls::ClientVerifier};

/// How long a handshake may take, of which there may be thousands at once: what is cut then comes back and costs as much
/// again. Source: apiserver/pkg/server/secure_serving.go (`ReadHeaderTimeout`, which covers it).
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(32);
/// How long the head of an HTTP/1.1 request may take, and an idle connection may stay open.
const HEAD_TIMEOUT: Duration = Duration::from_secs(90);
/// Streams of one connection: an informer per kind is one. kube-apiserver's recommended value is the same.
const STREAM_COUNT_MAX: u32 = 1000;
/// Size of a request's head: a path of 64 KiB, which no parser of ours takes more of, and as much of headers. It is what a
/// small frame may unpack to, for each of the streams (an HPACK bomb); kube-apiserver allows 1 MiB.
const HEAD_BYTES_MAX: u32 = 128 * 1024;
/// How long a connection may stay open before its first request. What follows has the limits of its protocol.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(90);
/// How long a connection that is refused may take to close.
const REFUSED_GRACE: Duration = Duration::from_secs(5);
/// Streams that a client opened and reset before they were looked at, after which the connection is cut (CVE-2023-44487).
/// Source: h2's default, which is stated here because it is relied on.
const PENDING_RESETS_MAX: usize = 20;
/// The same over the connection of a front proxy, which carries the requests of all users of a host and the resets of those who go
/// away: a user who floods the host must not cut off the others. As many as may be open at once.
const PROXIED_PENDING_RESETS_MAX: usize = STREAM_COUNT_MAX as usize;
/// Streams that were reset for a mistake of the client, after which the connection is cut (CVE-2025-8671).
const ERROR_RESETS_MAX: usize = 128;
/// Lines of an HTTP/1.1 request's head.
const HEAD_LINES_MAX: usize = 256;
/// A client that is silent for this long is asked whether it is there, so that watches of one that is not end.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How long it may take to answer that.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long requests that are under way may take to end once the client's certificate has run out. Watches end by themselves before
/// that, with a reason ([`crate::hub`]).
const EXPIRY_GRACE: Duration = Duration::from_secs(7);

/// Bytes of a request's body that a client may send before they are read, as of kube-apiserver.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The same for all streams of a connection together: never the narrower one, or requests for a spoke that hangs would
/// hold up those for others. kube-apiserver multiplies alike.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAM_COUNT_MAX;
/// Bytes of frames that wait for a client to take them, of each of its streams. A client that is slow holds this memory, and one
/// that is not never lets so many wait.
const SEND_BYTES_MAX: usize = 64 * 1024;
/// Encrypted bytes that wait for the socket: one record of TLS.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// What a connection needs.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) hub: Hub,
    pub(super) verifier: Arc<ClientVerifier>,
    pub(super) tracker: TaskTracker,
    /// Who it counts for, and what ends it.
    pub(super) seat: Arc<Seat>,
    /// The server drains: what is under way may take its time.
    pub(super) drain: CancellationToken,
}

// === impl Connection ===

impl Connection {
    /// Serves the connection until it closes, or the server drains.
    pub(super) async fn run(self, stream: TcpStream, acceptor: TlsAcceptor) {
        let socket = Corked::new(stream);
        let handshake = tokio::select! {
            biased;
            () = self.seat.finish().cancelled() => return,
            () = self.seat.cut().cancelled() => return,
            handshake = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket.clone())) => handshake,
        };
        match handshake {
            Ok(Ok(mut stream)) => {
                stream.get_mut().1.set_buffer_limit(Some(RECORD_BYTES_MAX));
                self.serve(stream, socket).await;
            }
            Ok(Err(error)) => tracing::debug!(error = %error, "TLS handshake failed"),
            Err(_elapsed) => tracing::debug!("TLS handshake timed out"),
        }
    }

    /// How many streams may be reset before they are looked at. The connection of a front proxy counts for nobody.
    fn pending_resets_max(&self, peer: &Peer) -> usize {
        if !self.hub.is_front_proxy(peer, Timestamp::now()) {
            return PENDING_RESETS_MAX;
        }
        // Whatever comes over it first, be it a page of the view.
        self.seat.count_for_nobody();
        PROXIED_PENDING_RESETS_MAX
    }

    async fn serve(self, stream: TlsStream<Corked>, socket: Corked) {
        let (_, session) = stream.get_ref();
        let chain = session.peer_certificates();
        let peer = Arc::new(self.hub.peer(&self.verifier, chain, Timestamp::now()));
        let pending_resets_max = self.pending_resets_max(&peer);
        let expired = until(peer.not_after());
        let (hub, seat) = (self.hub, self.seat);
        let seat_of_requests = Arc::clone(&seat);
        let switched = Arc::new(Mutex::new(None));
        let switching = Arc::clone(&switched);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (hub, peer) = (hub.clone(), Arc::clone(&peer));
            let seat = Arc::clone(&seat_of_requests);
            let switching = Arc::clone(&switching);
            // Nobody else gets the bytes of the connection.
            let on_upgrade = hyper::upgrade::on(&mut request);
            async move {
                let answering = seat.answering();
                let request = request.map(RequestBody::incoming);
                let mut response = hub.answer(request, &peer, Some(&seat)).await;
                if let Some(stream) = response.body_mut().take_stream() {
                    *switching.lock() = Some((on_upgrade, stream));
                }
                answering.complete();
                Ok::<_, Infallible>(response)
            }
        });
        let executor = Executor {
            tracker: self.tracker,
            seat: Arc::clone(&seat),
        };
        let builder = builder(executor, pending_resets_max);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut turns = Turns::new(connection, socket);
        let told = tokio::select! {
            biased;
            ended = &mut turns => Told::Ended(ended),
            told = first_notice(&seat, expired) => told,
        };
        let ended = match told {
            Told::Ended(ended) => ended,
            Told::ToClose => Ok(()),
            Told::ToFinish => {
                turns.connection().graceful_shutdown();
                tokio::select! {
                    biased;
                    ended = turns => ended,
                    () = seat.cut().cancelled() => Ok(()),
                    () = refused_grace(&self.drain) => Ok(()),
                }
            }
            Told::Expired => {
                tracing::debug!("closing a connection whose client certificate has expired");
                turns.connection().graceful_shutdown();
                tokio::select! {
                    biased;
                    ended = turns => ended,
                    () = seat.cut().cancelled() => Ok(()),
                    () = sleep(EXPIRY_GRACE) => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = %error, "connection ended with an error");
            return;
        }
        let stream = switched.lock().take();
        if let Some((on_upgrade, stream)) = stream {
            stream::run(on_upgrade, stream, seat.cut()).await;
        }
    }
}

/// How a connection comes to its end.
enum Told<T> {
    /// By itself.
    Ended(T),
    /// It is cut, or was never used.
    ToClose,
    /// It is to finish: the server drains, or the user has too many.
    ToFinish,
    /// The client's certificate has run out.
    Expired,
}

/// Waits for the first thing that ends a connection from outside.
///
/// A connection is polled several times for each request and each event of a watch. `FuturesUnordered` polls what is in it
/// only when that was woken itself, which spares each of those turns two timers and the locks of two tokens.
async fn first_notice<T>(seat: &Seat, expired: impl Future<Output = ()>) -> Told<T> {
    let notice = async {
        tokio::select! {
            biased;
            () = seat.cut().cancelled() => Told::ToClose,
            () = stays_unused(seat) => Told::ToClose,
            () = seat.finish().cancelled() => Told::ToFinish,
            () = expired => Told::Expired,
        }
    };
    let mut notices = FuturesUnordered::from_iter([notice]);
    notices.next().await.unwrap_or(Told::ToClose)
}

/// Waits until after a second since 1970, by a clock that nobody sets; for ever without one. Requests are judged by the clock that may be
/// set: here it is about connections that nobody uses.
async fn until(not_after: Option<i64>) {
    let Some(not_after) = not_after else {
        return std::future::pending().await;
    };
    let left = not_after
        .saturating_add(1)
        .saturating_sub(Timestamp::now().as_second());
    sleep(Duration::from_secs(u64::try_from(left).unwrap_or(0))).await;
}

/// Ends if no request comes in time.
async fn stays_unused(seat: &Seat) {
    sleep(FIRST_REQUEST_TIMEOUT).await;
    if seat.was_used() {
        std::future::pending::<()>().await;
    }
    tracing::debug!("closing a connection without a request");
}

/// Ends when a connection that is to close has had the time for it; while the server drains, the server says when.
async fn refused_grace(drain: &CancellationToken) {
    sleep(REFUSED_GRACE).await;
    if drain.is_cancelled() {
        std::future::pending::<()>().await;
    }
}

fn builder(executor: Executor, pending_resets_max: usize) -> Builder<Executor> {
    let mut builder = Builder::new(executor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(HEAD_LINES_MAX)
        .max_buf_size(HEAD_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAM_COUNT_MAX)
        .max_pending_accept_reset_streams(pending_resets_max)
        .max_local_error_reset_streams(ERROR_RESETS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
    builder
}
