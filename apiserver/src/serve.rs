//! Connections: accepted, wrapped in TLS, and served until the server drains.
//!
//! Drain, in this order: readiness fails; nothing is accepted any more and every connection is told so (GOAWAY, `Connection: close`);
//! requests that are under way end; watches end, cleanly, and streams; connections that are left are cut. Each step has
//! its own grace.
//!
//! Source: `apiserver/pkg/server/genericapiserver.go` (`RunWithContext`), `.../secure_serving.go`.

mod connection;
mod cork;
mod executor;
mod stream;

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    hub::Hub,
    quota::{Fair, Of, Room},
    tls::{self, ClientVerifier},
};

/// Open connections. Full: further ones wait in the listener's backlog. A process here has at most 20,000 files.
const CONNECTION_COUNT_MAX: usize = 16_384;
/// How long requests that are under way may take after the drain has begun: as long as any request may.
const REQUEST_GRACE: Duration = Duration::from_mins(1);
/// How long connections may take to close once nothing is under way.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// A client that is silent is probed by the kernel, and given up after five minutes without a sign of life. kube-apiserver probes
/// after three. Source: `apiserver/pkg/server/secure_serving.go` (`tcpKeepAliveListener`).
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_mins(3))
    .with_interval(Duration::from_secs(30))
    .with_retries(4);
/// Wait after a failed accept: the process is out of files, and hammering does not help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections of one listener.
#[derive(Debug)]
pub(crate) struct Server {
    hub: Hub,
    config: Arc<ServerConfig>,
    verifier: Arc<ClientVerifier>,
    /// Connections that have not said yet who uses them.
    room: Arc<Room>,
    /// Connections and the streams on them.
    tracker: TaskTracker,
    /// Connections are told to finish.
    finish: CancellationToken,
    /// Connections are cut.
    cut: CancellationToken,
}

// === impl Hub ===

impl Hub {
    /// Serves connections of `listener` until `shutdown`, then drains and returns.
    ///
    /// Controllers must go on until this has returned, and the store after them: cancel their tasks afterwards.
    ///
    /// # Errors
    /// [`tls::Error::Certificate`] for certificates that rustls does not take.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<(), tls::Error> {
        let (config, verifier) = self.pki().server_config(self.client_certificates())?;
        let server = Server::new(self.clone(), config, verifier);
        // All who wait are accepted before their handshakes get the thread: a full backlog drops what comes next. Slots
        // bound how many that can be.
        tokio::task::unconstrained(server.run(listener, shutdown)).await;
        Ok(())
    }
}

// === impl Server ===

impl Server {
    /// Makes a server of `hub`.
    pub(crate) fn new(hub: Hub, config: Arc<ServerConfig>, verifier: Arc<ClientVerifier>) -> Self {
        Self {
            hub,
            config,
            verifier,
            room: Arc::default(),
            tracker: TaskTracker::new(),
            finish: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }

    /// Serves until `shutdown`, and then drains.
    pub(crate) async fn run(self, listener: TcpListener, shutdown: CancellationToken) {
        let slots = Arc::new(Semaphore::new(CONNECTION_COUNT_MAX));
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = accept(&listener, &slots) => accepted,
            };
            match accepted {
                Ok((accepted, slot)) => self.start(accepted, slot, acceptor.clone()),
                Err(error) => {
                    tracing::warn!(error = %error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        self.drain(listener).await;
    }

    fn start(&self, accepted: Accepted, slot: OwnedSemaphorePermit, acceptor: TlsAcceptor) {
        let Accepted { stream, address } = accepted;
        let connection = connection::Connection {
            hub: self.hub.clone(),
            verifier: Arc::clone(&self.verifier),
            tracker: self.tracker.clone(),
            seat: Arc::new(self.room.enter(address, &self.finish, &self.cut)),
            drain: self.finish.clone(),
        };
        let of = Of::Connection(Arc::clone(&connection.seat));
        let running = async move {
            connection.run(stream, acceptor).await;
            drop(slot);
        };
        self.tracker.spawn(Fair::new(running, of));
    }

    async fn drain(self, listener: TcpListener) {
        let lifecycle = self.hub.lifecycle();
        lifecycle.begin_draining();
        tokio::time::sleep(lifecycle.shutdown_delay()).await;
        drop(listener);
        self.finish.cancel();
        self.tracker.close();
        if timeout(REQUEST_GRACE, lifecycle.requests_ended())
            .await
            .is_err()
        {
            tracing::warn!("requests are still in flight after the grace period and are aborted");
        }
        lifecycle.end_watches();
        if timeout(CLOSE_GRACE, self.tracker.wait()).await.is_err() {
            tracing::info!("closing connections that their clients have not closed");
            self.cut.cancel();
            self.tracker.wait().await;
        }
    }
}

/// A connection, and where it comes from.
struct Accepted {
    stream: TcpStream,
    address: IpAddr,
}

/// Waits for a connection and a slot for it.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(Accepted, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, address) = listener.accept().await?;
    stream.set_nodelay(true)?;
    // HTTP/1.1 has no pings, and streams have none that the hub sees: what a client leaves behind that was unplugged ends by this.
    SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE)?;
    let address = address.ip();
    Ok((Accepted { stream, address }, slot))
}

#[cfg(test)]
mod tests;
