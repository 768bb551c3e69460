//! One connection to a webhook: HTTP/1.1 over TLS, one call at a time.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use super::address::Address;

/// A connection. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
}

// === impl Connection ===

impl Connection {
    /// Connects; the caller bounds the time.
    pub(super) async fn open(address: &Address) -> Result<Self, String> {
        let stream = connect(address).await?;
        let connector = TlsConnector::from(address.tls());
        let stream = connector.connect(address.name(), stream).await;
        let stream = stream.map_err(|error| format!("tls: {error}"))?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, driver) = shaken.map_err(|error| error.to_string())?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it is aborted with the connection, which nothing keeps beyond a shutdown"
        )]
        let driver = tokio::spawn(async move {
            // What went wrong is what the call came to.
            let _ended = driver.await;
        });
        Ok(Self {
            sender,
            driver: driver.abort_handle(),
        })
    }

    /// Whether another call can be sent.
    pub(super) async fn is_open(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        self.sender.send_request(request).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn connect(address: &Address) -> Result<TcpStream, String> {
    let mut reason = String::new();
    for address in address.resolve().await? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(error = %error, "cannot set TCP_NODELAY");
                }
                return Ok(stream);
            }
            Err(error) => reason = format!("dial tcp {address}: {error}"),
        }
    }
    Err(reason)
}
