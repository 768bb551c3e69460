//! A small API server that a test joins as a spoke: honest by default, and on command as hostile as a server can be.
//!
//! Honest it stores objects by path, lists and watches them, and establishes CRDs at once; that is all that the hub asks
//! of a spoke. It knows no schemas and no users: what depends on those is for a real kube-apiserver.

mod hostile;
mod store;

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Collected, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_rustls::TlsAcceptor;

pub use hostile::{GROUP, Mode};
use store::Store;

use crate::{
    pki::{self, Authority},
    process::Scratch,
};

/// Requests that are remembered.
const SEEN_COUNT_MAX: usize = 1000;

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct FakeSpoke {
    name: String,
    address: SocketAddr,
    kubeconfig: PathBuf,
    shared: Arc<Shared>,
    _scratch: Scratch,
    _listener: JoinSet<()>,
}

/// What all connections of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    mode: Mutex<Mode>,
    /// Counts the modes; a connection ends with the one that it began in.
    epoch: watch::Sender<u64>,
    asked_count: AtomicUsize,
    /// Counts the connections that were asked for.
    connection_count: AtomicUsize,
    /// The bearer tokens that are accepted; all where none is named.
    tokens: Mutex<Vec<String>>,
    seen: Mutex<VecDeque<Seen>>,
    written: Mutex<Vec<Wrote>>,
    /// Whether writes are done and not answered.
    holds_answers: watch::Sender<bool>,
}

/// Which answers are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// None.
    Nothing,
    /// Those to writes.
    Writes,
}

/// A write as it was done: the request had arrived as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrote {
    /// What the client calls itself.
    pub agent: String,
    /// Its method.
    pub method: Method,
    /// Its path and query.
    pub path: String,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its method.
    pub method: Method,
    /// Its path and query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
}

impl FakeSpoke {
    /// Starts an honest server, whose cluster has a uid of its own.
    pub async fn start(name: &str) -> Self {
        Self::start_as(name, &format!("uid-of-{name}")).await
    }

    /// Starts an honest server, whose cluster has this uid.
    pub async fn start_as(name: &str, uid: &str) -> Self {
        let scratch = Scratch::new(name);
        let authority = Authority::new(&format!("{name}-ca"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let client = authority.client("hub", Some("system:masters"));
        let server = format!("https://{address}");
        let text = pki::kubeconfig(name, &server, &authority.certificate(), &client);
        let kubeconfig = scratch.write("kubeconfig", text);
        let shared = Arc::new(Shared {
            store: Store::new(uid),
            mode: Mutex::new(Mode::Honest),
            epoch: watch::Sender::new(0),
            asked_count: AtomicUsize::new(0),
            connection_count: AtomicUsize::new(0),
            tokens: Mutex::default(),
            seen: Mutex::default(),
            written: Mutex::default(),
            holds_answers: watch::Sender::new(false),
        });
        let acceptor = acceptor(&authority);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, Arc::clone(&shared)));
        Self {
            name: name.to_owned(),
            address,
            kubeconfig,
            shared,
            _scratch: scratch,
            _listener: tasks,
        }
    }

    /// Returns the name that it was started under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the file of the hub's kubeconfig.
    pub const fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// Changes how it answers. Connections of before are cut, so that everything is read again.
    pub fn set(&self, mode: Mode) {
        self.shared.store.keep_managers(mode != Mode::NoManagers);
        *lock(&self.shared.mode) = mode;
        self.shared.asked_count.store(0, Ordering::Relaxed);
        self.shared.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// Counts the requests since the mode was set.
    pub fn asked_count(&self) -> usize {
        self.shared.asked_count.load(Ordering::Relaxed)
    }

    /// Counts the connections that were asked for, also those that were refused.
    pub fn connection_count(&self) -> usize {
        self.shared.connection_count.load(Ordering::Relaxed)
    }

    /// Accepts these bearer tokens from now on, and nobody else. Connections go on.
    pub fn accept_tokens(&self, tokens: &[&str]) {
        *lock(&self.shared.tokens) = tokens.iter().map(|it| (*it).to_owned()).collect();
    }

    /// Returns a kubeconfig with a token in the place of the certificate.
    pub fn kubeconfig_with(&self, user: Value) -> String {
        let text = std::fs::read_to_string(&self.kubeconfig).expect("it was written");
        let mut config: Value = serde_json::from_str(&text).expect("it is JSON");
        config["users"][0]["user"] = user;
        config.to_string()
    }

    /// Sets the store back, as a backup of an earlier time does: the next change has this version.
    pub fn set_back(&self, version: u64) {
        self.shared.store.set_back(version);
    }

    /// Returns the last requests.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).iter().cloned().collect()
    }

    /// Does writes and does not answer them from now on, or answers them all.
    pub fn hold_answers(&self, hold: Hold) {
        self.shared.holds_answers.send_replace(hold == Hold::Writes);
    }

    /// Returns all writes since it was started, in their order.
    pub fn wrote(&self) -> Vec<Wrote> {
        lock(&self.shared.written).clone()
    }

    /// Returns the paths of all objects that are stored.
    pub fn stored(&self) -> Vec<String> {
        self.shared.store.paths()
    }

    /// Counts the writes since it was started.
    pub fn write_count(&self) -> u64 {
        self.shared.store.write_count()
    }

    /// Counts the stored objects of a resource.
    pub fn object_count(&self, resource: &str) -> usize {
        self.shared.store.count(resource)
    }

    /// Streams the objects that are written from now on. One that falls behind misses some.
    pub fn written(&self) -> impl Stream<Item = Arc<Value>> + use<> {
        self.shared.store.written()
    }

    /// Returns an object that is stored.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.shared.store.get(path)
    }

    /// Stores an object as if somebody in the cluster had written it.
    pub fn put(&self, path: &str, object: &Value) {
        self.shared.store.put(path, object.clone());
    }
}

pub(crate) fn acceptor(authority: &Authority) -> TlsAcceptor {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
    let pair = authority.serving();
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.expect("a certificate")],
            key.expect("a key"),
        )
        .expect("they belong together");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        shared.connection_count.fetch_add(1, Ordering::Relaxed);
        if *lock(&shared.mode) == Mode::Closed {
            continue; // before anything is said
        }
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else {
                return;
            };
            let mut epoch = shared.epoch.subscribe();
            let service = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(answer(&shared, request).await) }
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            let served = builder.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ended = served => {}
                _cut = epoch.changed() => {}
            }
        });
    }
}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    shared.asked_count.fetch_add(1, Ordering::Relaxed);
    let (head, body) = request.into_parts();
    let asked = Seen {
        method: head.method,
        path: head.uri.to_string(),
        headers: head.headers,
    };
    {
        let mut seen = lock(&shared.seen);
        if seen.len() >= SEEN_COUNT_MAX {
            seen.pop_front();
        }
        seen.push_back(asked.clone());
    }
    let mode = lock(&shared.mode).clone();
    if !is_accepted(&lock(&shared.tokens), &asked.headers) {
        return status(401, "Unauthorized");
    }
    let Ok(body) = body.collect().await.map(Collected::to_bytes) else {
        return status(400, "BadRequest"); // the client left in the middle of it
    };
    if !matches!(asked.method, Method::GET | Method::HEAD) {
        let agent = asked.headers.get("user-agent");
        lock(&shared.written).push(Wrote {
            agent: agent
                .and_then(|it| it.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            method: asked.method.clone(),
            path: asked.path.clone(),
        });
    }
    if let Some(answer) = hostile::answer(&mode, shared, &asked).await {
        return answer;
    }
    let answer = store::answer(shared, &asked, &body);
    if !matches!(asked.method, Method::GET | Method::HEAD) {
        let mut held = shared.holds_answers.subscribe();
        drop(held.wait_for(|held| !*held).await);
    }
    answer
}

fn is_accepted(tokens: &[String], headers: &HeaderMap) -> bool {
    let sent = headers.get("authorization");
    let sent = sent.and_then(|it| it.to_str().ok()?.strip_prefix("Bearer "));
    tokens.is_empty() || sent.is_some_and(|sent| tokens.iter().any(|it| it == sent))
}

impl Seen {
    /// Returns the bearer token of the request.
    pub fn token(&self) -> &str {
        let sent = self.headers.get("authorization");
        let sent = sent.and_then(|it| it.to_str().ok()?.strip_prefix("Bearer "));
        sent.unwrap_or_default()
    }

    /// Splits the path from the query.
    pub(crate) fn parts(&self) -> (&str, &str) {
        let path = self
            .path
            .strip_prefix("https://")
            .map_or(self.path.as_str(), |rest| {
                rest.find('/').map_or("/", |at| rest.split_at(at).1)
            });
        path.split_once('?').unwrap_or((path, ""))
    }
}

pub(crate) fn reply(code: u16, value: &Value) -> Response<Body> {
    bytes(code, value.to_string().into())
}

pub(crate) fn bytes(code: u16, bytes: Bytes) -> Response<Body> {
    let body = Full::new(bytes).boxed_unsync();
    head(code, body)
}

pub(crate) fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = chunks.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
    head(200, StreamBody::new(frames).boxed_unsync())
}

fn head(code: u16, body: Body) -> Response<Body> {
    Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(body)
        .expect("a sound head")
}

pub(crate) fn status(code: u16, reason: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": reason, "code": code});
    reply(code, &status)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
