//! Connecting: TCP and TLS within one deadline, HTTP/2 where the server offers it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::builderstates::WantsProtocols1;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tower::{BoxError, Service};

/// The name that the server's certificate must have, where it is not that of its address.
pub type ServerName = rustls::pki_types::ServerName<'static>;

/// A TCP connection on which nothing moves for this long is probed by the kernel; for HTTP/1.1, which has no pings.
const TCP_KEEPALIVE: Duration = Duration::from_secs(10);
const TCP_KEEPALIVE_COUNT: u32 = 3;

/// Connecting took too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not connected after {} ms", after.as_millis())]
pub struct ConnectTimeoutError {
    /// How long it was waited for.
    pub after: Duration,
}

/// Bounds the time that another connector takes, from the name to the end of the TLS handshake.
#[derive(Clone, Debug)]
pub struct DeadlineConnector<C> {
    inner: C,
    timeout: Duration,
}

/// Makes a connector that offers HTTP/2 and HTTP/1.1.
pub(super) fn http2(
    tls: rustls::ClientConfig,
    server_name: Option<ServerName>,
    timeout: Duration,
) -> DeadlineConnector<HttpsConnector<HttpConnector>> {
    let builder = https(tls, server_name).enable_http1().enable_http2();
    let inner = builder.wrap_connector(tcp(timeout));
    DeadlineConnector { inner, timeout }
}

/// Makes a connector that offers HTTP/1.1 alone.
pub(super) fn http1(
    tls: rustls::ClientConfig,
    server_name: Option<ServerName>,
    timeout: Duration,
) -> DeadlineConnector<HttpsConnector<HttpConnector>> {
    let builder = https(tls, server_name).enable_http1();
    let inner = builder.wrap_connector(tcp(timeout));
    DeadlineConnector { inner, timeout }
}

fn https(
    tls: rustls::ClientConfig,
    server_name: Option<ServerName>,
) -> HttpsConnectorBuilder<WantsProtocols1> {
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    match server_name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
        None => builder,
    }
}

fn tcp(timeout: Duration) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    // Per address; the deadline around it is for all of them together.
    connector.set_connect_timeout(Some(timeout));
    connector.set_keepalive(Some(TCP_KEEPALIVE));
    connector.set_keepalive_interval(Some(TCP_KEEPALIVE));
    connector.set_keepalive_retries(Some(TCP_KEEPALIVE_COUNT));
    connector
}

// === impl DeadlineConnector ===

impl<C> Service<Uri> for DeadlineConnector<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, req: Uri) -> Self::Future {
        let connecting = self.inner.call(req);
        let after = self.timeout;
        Box::pin(async move {
            match tokio::time::timeout(after, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_elapsed) => Err(ConnectTimeoutError { after }.into()),
            }
        })
    }
}
