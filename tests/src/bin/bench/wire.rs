//! The wire of the load generator: HTTP/2 over TLS, or without, as bare as a fair client can be.
//!
//! The same against every server. What a request costs here is taken from the same two cores as the server, so nothing
//! is parsed that a benchmark does not ask for, and head and body of a request leave together: apart, they wake a server
//! twice.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{StreamExt, stream};
use h2::{
    RecvStream,
    client::{Builder, SendRequest},
};
use http::Request;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpSocket,
    task::JoinHandle,
};

/// Bytes that a server may send before they are read: of a stream, and of a connection. As hyper has them.
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 5 * 1024 * 1024;

/// Loopback addresses that connections come from, in turn: ports of one address pair are few.
const SOURCE_COUNT: u8 = 8;

/// A configuration of TLS that does not say yet who comes.
type Anonymous = rustls::ConfigBuilder<rustls::ClientConfig, rustls::client::WantsClientCert>;

/// Where a server is, and who comes.
#[derive(Clone)]
pub(crate) struct Target {
    address: SocketAddr,
    tls: Option<Arc<rustls::ClientConfig>>,
    /// The value of the header `authorization`, where no certificate says who comes.
    authorization: Option<Arc<str>>,
}

/// One connection. It is cut when the last of its clones is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Bytes>,
    origin: Arc<str>,
    authorization: Option<Arc<str>>,
    _driver: Arc<Driver>,
}

/// The body of an answer. Dropped before its end, it cancels the request.
#[derive(Debug)]
pub(crate) struct Body(RecvStream);

/// Some connections to the same server, used in turn.
#[derive(Clone)]
pub(crate) struct Wire {
    connections: Arc<[Connection]>,
}

/// Drives a connection until nobody uses it.
#[derive(Debug)]
struct Driver(JoinHandle<()>);

// === impl Target ===

impl Target {
    /// What a kubeconfig's first cluster and first user say.
    pub(crate) fn of_kubeconfig(file: &Path) -> Self {
        let config = read(file);
        let user = &config["users"][0]["user"];
        let chain = CertificateDer::pem_slice_iter(&pem(&user["client-certificate-data"]))
            .collect::<Result<Vec<_>, _>>()
            .expect("certificates");
        let key = PrivateKeyDer::from_pem_slice(&pem(&user["client-key-data"])).expect("a key");
        Self::of_cluster(&config, |tls| {
            tls.with_client_auth_cert(chain, key)
                .expect("the key is the certificate's")
        })
    }

    /// The same server, for somebody with a token.
    pub(crate) fn with_token(file: &Path, token: &str) -> Self {
        let authorization = Some(format!("Bearer {token}").into());
        Self {
            authorization,
            ..Self::anonymous(file)
        }
    }

    /// The same server, for somebody who does not say who it is.
    pub(crate) fn anonymous(file: &Path) -> Self {
        Self::of_cluster(&read(file), Anonymous::with_no_client_auth)
    }

    fn of_cluster(
        config: &Value,
        identify: impl FnOnce(Anonymous) -> rustls::ClientConfig,
    ) -> Self {
        let cluster = &config["clusters"][0]["cluster"];
        let mut roots = rustls::RootCertStore::empty();
        for certificate in
            CertificateDer::pem_slice_iter(&pem(&cluster["certificate-authority-data"]))
        {
            roots
                .add(certificate.expect("a certificate"))
                .expect("an authority");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(roots);
        let mut tls = identify(builder);
        tls.alpn_protocols = vec![b"h2".to_vec()];
        // As client-go does, which keeps no tickets: each handshake is a whole one.
        tls.resumption = rustls::client::Resumption::disabled();
        let server = cluster["server"].as_str().expect("the server's URL");
        let address = server
            .trim_start_matches("https://")
            .parse()
            .expect("an address with a port");
        Self {
            address,
            tls: Some(Arc::new(tls)),
            authorization: None,
        }
    }

    /// A server on loopback without TLS: etcd.
    pub(crate) fn plain(port: u16) -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            tls: None,
            authorization: None,
        }
    }

    /// Connects; `index` picks the address that it comes from.
    pub(crate) async fn connect(&self, index: usize) -> io::Result<Connection> {
        let socket = TcpSocket::new_v4()?;
        let last = u8::try_from(index % usize::from(SOURCE_COUNT)).map_err(io::Error::other)?;
        let source = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1 + last));
        socket.bind(SocketAddr::new(source, 0))?;
        let stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        let authorization = self.authorization.clone();
        let Some(tls) = &self.tls else {
            let origin = format!("http://{}", self.address);
            return handshake(stream, origin, authorization).await;
        };
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = tokio_rustls::TlsConnector::from(Arc::clone(tls))
            .connect(name, stream)
            .await?;
        let origin = format!("https://{}", self.address);
        handshake(stream, origin, authorization).await
    }

    /// Connects several times.
    pub(crate) async fn wire(&self, count: usize) -> Wire {
        let mut connections = Vec::new();
        for index in 0..count {
            connections.push(self.connect(index).await.expect("the server accepts"));
        }
        Wire {
            connections: connections.into(),
        }
    }
}

fn read(kubeconfig: &Path) -> Value {
    let text = std::fs::read_to_string(kubeconfig).expect("the kubeconfig can be read");
    serde_saphyr::from_str(&text).expect("the kubeconfig is YAML")
}

fn pem(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("the kubeconfig holds it");
    STANDARD.decode(text).expect("base64")
}

async fn handshake<S>(
    stream: S,
    origin: String,
    authorization: Option<Arc<str>>,
) -> io::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .enable_push(false)
        .handshake(stream)
        .await
        .map_err(io::Error::other)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the task is aborted when the connection is dropped"
    )]
    let driver = tokio::spawn(async move {
        // What ends a connection, its requests tell.
        drop(connection.await);
    });
    Ok(Connection {
        sender,
        origin: origin.into(),
        authorization,
        _driver: Arc::new(Driver(driver)),
    })
}

// === impl Driver ===

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// === impl Connection ===

impl Connection {
    /// Sends a request; answers as soon as the head of the answer is there.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> io::Result<(u16, Body)> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.origin))
            .header("content-type", content_type)
            .header("accept", "application/json")
            .header("te", "trailers");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", &**authorization);
        }
        let request = request.body(()).expect("a request");
        let mut sender = self
            .sender
            .clone()
            .ready()
            .await
            .map_err(io::Error::other)?;
        let (answer, mut rest) = sender
            .send_request(request, body.is_empty())
            .map_err(io::Error::other)?;
        if !body.is_empty() {
            rest.send_data(body, true).map_err(io::Error::other)?;
        }
        let answer = answer.await.map_err(io::Error::other)?;
        let code = answer.status().as_u16();
        Ok((code, Body(answer.into_body())))
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> io::Result<(u16, Bytes)> {
        let (code, mut body) = self.open(method, path, content_type, body).await?;
        let first = body.piece().await?.unwrap_or_default();
        let Some(second) = body.piece().await? else {
            return Ok((code, first));
        };
        let mut whole = [first, second].concat();
        while let Some(piece) = body.piece().await? {
            whole.extend_from_slice(&piece);
        }
        Ok((code, whole.into()))
    }
}

// === impl Body ===

impl Body {
    /// The next piece; none at the end.
    pub(crate) async fn piece(&mut self) -> io::Result<Option<Bytes>> {
        let Some(piece) = self.0.data().await else {
            return Ok(None);
        };
        let piece = piece.map_err(io::Error::other)?;
        let window = self.0.flow_control();
        window
            .release_capacity(piece.len())
            .map_err(io::Error::other)?;
        Ok(Some(piece))
    }
}

// === impl Wire ===

impl Wire {
    /// Connects to several servers, `count` times in all: the servers follow each other.
    pub(crate) async fn over(targets: &[Target], count: usize) -> Self {
        let mut connections = Vec::new();
        for (index, target) in targets.iter().cycle().take(count).enumerate() {
            connections.push(target.connect(index).await.expect("the server accepts"));
        }
        Self {
            connections: connections.into(),
        }
    }

    /// The connection of a request.
    pub(crate) fn connection(&self, index: usize) -> &Connection {
        &self.connections[index % self.connections.len()]
    }

    /// Sends JSON and reads the whole answer.
    pub(crate) async fn json(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let bytes = match body {
            Value::Null => Bytes::new(),
            body => Bytes::from(body.to_string()),
        };
        let answer = self
            .connection(0)
            .send(method, path, "application/json", bytes);
        let (code, body) = answer.await.expect("an answer");
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Creates `count` objects, `width` at a time, each of which must be accepted; tells how long each took, in
    /// microseconds.
    pub(crate) async fn create(
        &self,
        path: &str,
        bodies: impl Iterator<Item = Bytes>,
        width: usize,
    ) -> Vec<u64> {
        stream::iter(bodies.enumerate())
            .map(|(index, body)| async move {
                let start = tokio::time::Instant::now();
                let connection = self.connection(index);
                let answer = connection.send("POST", path, "application/json", body);
                let (code, body) = answer.await.expect("an answer");
                assert_eq!(code, 201, "{}", String::from_utf8_lossy(&body));
                u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
            })
            .buffer_unordered(width)
            .collect()
            .await
    }
}
