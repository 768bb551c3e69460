//! Real servers for tests: HTTP over TLS on a free port, and a wire that can be frozen.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tasks::Tasks;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use crate::transport::Timing;
use crate::{Connection, Options};

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(crate) type Reply = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// What a server saw of a request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) version: http::Version,
    pub(crate) has_client_certificate: bool,
}

/// A server on a free port; it ends with the test's runtime.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) tasks: Tasks,
    seen: Arc<Mutex<Vec<Seen>>>,
    connection_count: Arc<AtomicUsize>,
    ca_pem: String,
    client_pem: (String, String),
}

// === impl Server ===

impl Server {
    pub(crate) async fn start<H>(handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> Reply + Send + Sync + 'static,
    {
        Self::start_with(u32::MAX, handler).await
    }

    /// Starts a server that allows a number of streams on a connection.
    pub(crate) async fn start_with<H>(stream_count_max: u32, handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> Reply + Send + Sync + 'static,
    {
        Self::start_as((0, |_| std::future::ready(())), stream_count_max, handler).await
    }

    /// Starts a server of which the first connections are treated in another way.
    pub(crate) async fn start_grudging<H, G, D>(count: usize, grudge: G, handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> Reply + Send + Sync + 'static,
        G: Fn(TlsStream) -> D + Send + Sync + 'static,
        D: Future<Output = ()> + Send + 'static,
    {
        Self::start_as((count, grudge), u32::MAX, handler).await
    }

    async fn start_as<H, G, D>(
        (grudge_count, grudge): (usize, G),
        stream_count_max: u32,
        handler: H,
    ) -> Self
    where
        H: Fn(Request<Incoming>) -> Reply + Send + Sync + 'static,
        G: Fn(TlsStream) -> D + Send + Sync + 'static,
        D: Future<Output = ()> + Send + 'static,
    {
        let (tls, ca_pem, client_pem) = certificates();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            tasks: Tasks::new(),
            seen: Arc::default(),
            connection_count: Arc::default(),
            ca_pem,
            client_pem,
        };
        let (tasks, seen) = (server.tasks.clone(), Arc::clone(&server.seen));
        let connection_count = Arc::clone(&server.connection_count);
        let (handler, grudge) = (Arc::new(handler), Arc::new(grudge));
        server.tasks.spawn("listener", async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let is_grudged = connection_count.fetch_add(1, Ordering::SeqCst) < grudge_count;
                let grudge = Arc::clone(&grudge);
                let acceptor = TlsAcceptor::from(Arc::clone(&tls));
                let (seen, handler) = (Arc::clone(&seen), Arc::clone(&handler));
                tasks.spawn("connection", async move {
                    let Ok(stream) = acceptor.accept(socket).await else {
                        return;
                    };
                    if is_grudged {
                        return grudge(stream).await;
                    }
                    let has_client_certificate = stream.get_ref().1.peer_certificates().is_some();
                    let service = hyper::service::service_fn(move |request| {
                        let seen = Arc::clone(&seen);
                        note(&seen, &request, has_client_certificate);
                        let reply = handler(request);
                        async move { Ok::<_, Infallible>(reply.await) }
                    });
                    let mut builder = auto::Builder::new(TokioExecutor::new());
                    builder.http2().max_concurrent_streams(stream_count_max);
                    let served =
                        builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
                    drop(served.await);
                });
            }
        });
        server
    }

    /// Renders a kubeconfig with a user's fields, `token: t` for example.
    pub(crate) fn kubeconfig(&self, address: SocketAddr, path: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             contexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://{address}{path}', tls-server-name: localhost, \
             certificate-authority-data: {}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n",
            STANDARD.encode(&self.ca_pem)
        )
    }

    /// Renders a user with a client certificate.
    pub(crate) fn certificate_user(&self) -> String {
        let (certificate, key) = &self.client_pem;
        format!(
            "client-certificate-data: {}, client-key-data: {}",
            STANDARD.encode(certificate),
            STANDARD.encode(key)
        )
    }

    pub(crate) async fn connect(&self) -> Connection {
        self.connect_as(self.address, "", "token: secret").await
    }

    pub(crate) async fn connect_as(
        &self,
        address: SocketAddr,
        path: &str,
        user: &str,
    ) -> Connection {
        let options = Options {
            timing: hasty(),
            ..Options::default()
        };
        crate::connect(&self.kubeconfig(address, path, user), None, &options)
            .await
            .unwrap()
    }

    /// Takes what was seen so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connection_count.load(Ordering::SeqCst)
    }
}

/// Times that let a test fail soon and yet do not fail it on a busy machine.
pub(crate) fn hasty() -> Timing {
    Timing {
        connect_timeout: Duration::from_secs(2),
        ping_interval: Duration::from_millis(200),
        ping_timeout: Duration::from_secs(2),
    }
}

/// A wire between a client and a server that can be frozen: both ends stay open and nothing passes.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    frozen: watch::Sender<bool>,
    _tasks: Tasks,
}

// === impl Wire ===

impl Wire {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tasks = Tasks::new();
        let (frozen, is_frozen) = watch::channel(false);
        let spawner = tasks.clone();
        tasks.spawn("wire", async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let mut is_frozen = is_frozen.clone();
                spawner.spawn("strand", async move {
                    if *is_frozen.borrow() {
                        // Accepted, and never answered.
                        drop(is_frozen.wait_for(|frozen| !frozen).await);
                    }
                    let mut far = TcpStream::connect(server).await.unwrap();
                    let mut near = near;
                    let freezing = async { drop(is_frozen.wait_for(|frozen| *frozen).await) };
                    let was_frozen = tokio::select! {
                        biased;
                        () = freezing => true,
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => false,
                    };
                    if was_frozen {
                        // Held open until the wire itself goes.
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self {
            address,
            frozen,
            _tasks: tasks,
        }
    }

    pub(crate) fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Lets new connections pass; the frozen ones stay so.
    pub(crate) fn thaw(&self) {
        self.frozen.send_replace(false);
    }
}

pub(crate) fn reply(code: u16, body: impl Into<Bytes>) -> Reply {
    let body = Full::new(body.into()).boxed_unsync();
    Box::pin(async move { Response::builder().status(code).body(body).unwrap() })
}

pub(crate) fn json(code: u16, value: &serde_json::Value) -> Reply {
    reply(code, value.to_string())
}

/// Answers and never ends.
pub(crate) fn never() -> Reply {
    Box::pin(std::future::pending())
}

/// Answers with chunks as they are sent; the stream ends with the sender.
pub(crate) fn stream() -> (mpsc::UnboundedSender<Bytes>, Reply) {
    let (sender, receiver) = mpsc::unbounded_channel::<Bytes>();
    let chunks = futures::stream::unfold(receiver, |mut receiver| async move {
        let chunk = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(chunk)), receiver))
    });
    let body = StreamBody::new(chunks).boxed_unsync();
    (sender, Box::pin(async move { Response::new(body) }))
}

/// Answers with chunks and stays open.
pub(crate) fn held(chunks: Vec<Bytes>) -> Reply {
    let chunks = futures::stream::iter(chunks).map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
    let body = StreamBody::new(chunks.chain(futures::stream::pending())).boxed_unsync();
    Box::pin(async move { Response::new(body) })
}

/// Waits for a condition that a counter or a list must reach.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("not seen: {what}"));
}

fn note(seen: &Mutex<Vec<Seen>>, request: &Request<Incoming>, has_client_certificate: bool) {
    seen.lock().unwrap().push(Seen {
        line: format!(
            "{} {}",
            request.method(),
            request.uri().path_and_query().unwrap()
        ),
        headers: request.headers().clone(),
        version: request.version(),
        has_client_certificate,
    });
}

type Certificates = (Arc<rustls::ServerConfig>, String, (String, String));

fn certificates() -> Certificates {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let issue = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &issuer).unwrap(), key)
    };
    let (server, server_key) = issue("localhost");
    let (client, client_key) = issue("admin");
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from(ca_certificate.der().to_vec()))
        .unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .allow_unauthenticated()
        .build()
        .unwrap();
    let mut tls = rustls::ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![server.der().clone()],
            PrivateKeyDer::try_from(server_key.serialize_der()).unwrap(),
        )
        .unwrap();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let client_pem = (client.pem(), client_key.serialize_pem());
    (Arc::new(tls), ca_certificate.pem(), client_pem)
}
