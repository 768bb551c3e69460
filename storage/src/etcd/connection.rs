//! One HTTP/2 connection to one member of etcd.
//!
//! It never connects again by itself: another connection may lead to an etcd that was set back, and
//! that is to be found out before anything is sent ([`super::session`]).

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::client::GrpcService;

use super::failure::Failure;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a member may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes that a member may send ahead, on a stream and on all of them: a page of a large range.
const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// The files that name this hub to etcd, and etcd to this hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Who signs the certificates of etcd.
    pub certificate_authority: Option<PathBuf>,
    /// The certificate of this hub and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A member of etcd, by its address.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) uri: Uri,
    address: String,
    tls: Option<(ServerName<'static>, Arc<ClientConfig>)>,
}

/// An open connection; clones share it.
#[derive(Clone)]
pub(crate) struct Connection(SendRequest<Body>);

// === impl TlsFiles ===

impl TlsFiles {
    fn load(&self) -> Result<Arc<ClientConfig>, BoxError> {
        let authority = self
            .certificate_authority
            .as_ref()
            .ok_or("an https endpoint needs the file of its certificate authority")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authority)? {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            Some((certificate, key)) => {
                let chain =
                    CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key)?)?
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// Reads `http://host:port` or `https://host:port`.
    pub(crate) fn parse(text: &str, tls: &TlsFiles) -> Result<Self, BoxError> {
        let uri: Uri = text.parse()?;
        let host = uri.host().ok_or("an endpoint has a host")?;
        let port = uri.port_u16().unwrap_or(2379);
        if uri.path() != "/" || uri.query().is_some() {
            return Err("an endpoint has no path".into());
        }
        let tls = match uri.scheme_str() {
            Some("http") => None,
            Some("https") => {
                let name = host.trim_start_matches('[').trim_end_matches(']');
                Some((ServerName::try_from(name.to_owned())?, tls.load()?))
            }
            _ => return Err("an endpoint begins with http:// or https://".into()),
        };
        let address = format!("{host}:{port}");
        Ok(Self { uri, address, tls })
    }

    /// Connects. The connection lives as long as `tasks`.
    pub(crate) async fn connect(&self, tasks: &mut JoinSet<()>) -> Result<Connection, Failure> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.try_connect(tasks)).await;
        let outcome = connected.unwrap_or_else(|_elapsed| {
            Err(format!("it did not accept within {CONNECT_TIMEOUT:?}").into())
        });
        outcome.map_err(|source| Failure::Connect {
            endpoint: self.uri.to_string(),
            source,
        })
    }

    async fn try_connect(&self, tasks: &mut JoinSet<()>) -> Result<Connection, BoxError> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let Some((name, config)) = &self.tls else {
            return handshake(stream, tasks).await;
        };
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
        handshake(connector.connect(name.clone(), stream).await?, tasks).await
    }
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    tasks: &mut JoinSet<()>,
) -> Result<Connection, BoxError> {
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .handshake(TokioIo::new(stream))
        .await?;
    tasks.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = %error, "connection to etcd broke");
        }
    });
    Ok(Connection(sender))
}

// === impl Connection ===

impl GrpcService<Body> for Connection {
    type ResponseBody = Incoming;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_scheme_and_an_authority() {
        for (text, want) in [
            ("http://127.0.0.1:2379", Some("127.0.0.1:2379")),
            ("http://etcd-0.etcd", Some("etcd-0.etcd:2379")),
            ("http://[::1]:4001", Some("[::1]:4001")),
            ("127.0.0.1:2379", None),
            ("ftp://127.0.0.1:2379", None),
            ("http://127.0.0.1:2379/v3", None),
            ("https://127.0.0.1:2379", None),
        ] {
            let got = Endpoint::parse(text, &TlsFiles::default());
            assert_eq!(got.ok().map(|it| it.address).as_deref(), want, "{text}");
        }
    }
}
