//! HTTP as it is on the wire: bytes over TLS to a server that is known by its authority, and a server that keeps what it was sent.
//! For trials about what no client library lets one send or see.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use crate::pki::{self, Authority, Pair};

/// How long the other end may be silent before a trial says so.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Where a server is, and how it is known.
#[derive(Clone, Debug)]
pub struct Address {
    /// Host and port.
    pub host: String,
    /// The certificate of its authority, PEM.
    pub authority: String,
}

/// A connection over TLS that speaks whatever the trial writes.
#[derive(Debug)]
pub struct Wire {
    stream: TlsStream<TcpStream>,
    received: Vec<u8>,
}

/// What an HTTP/1.1 server answers to one request: the head with its body as it goes out.
type Answering = dyn Fn(&str, &[u8]) -> Vec<u8> + Send + Sync;

/// A server that answers as a trial wants and keeps every byte that it was sent. Ends when it is dropped.
#[derive(Debug)]
pub struct FakeSpoke {
    /// Where it listens.
    pub address: SocketAddr,
    authority: Authority,
    kept: Arc<Mutex<Kept>>,
    /// Ends with all connections when it is dropped.
    _accepting: JoinSet<()>,
}

/// What a [`FakeSpoke`] was sent.
#[derive(Debug, Default)]
struct Kept {
    /// All bytes, by connection.
    bytes: HashMap<usize, Vec<u8>>,
    /// Heads of requests, in the order in which they came.
    heads: Vec<String>,
}

// === impl Address ===

impl Address {
    /// Reads the address of a kubeconfig's first cluster.
    pub fn of_kubeconfig(text: &str) -> Self {
        let config: Value = serde_saphyr::from_str(text).expect("the kubeconfig is YAML");
        let cluster = &config["clusters"][0]["cluster"];
        let server = cluster["server"].as_str().expect("it has a server");
        let host = server.trim_start_matches("https://");
        let authority = cluster["certificate-authority-data"].as_str();
        let authority = STANDARD
            .decode(authority.expect("it has an authority"))
            .expect("in base64");
        Self {
            host: host.split('/').next().unwrap_or(host).to_owned(),
            authority: String::from_utf8(authority).expect("as PEM"),
        }
    }
}

impl Pair {
    /// Reads the client certificate of a kubeconfig's first user.
    pub fn of_kubeconfig(text: &str) -> Self {
        let config: Value = serde_saphyr::from_str(text).expect("the kubeconfig is YAML");
        let user = &config["users"][0]["user"];
        let part = |name: &str| {
            let encoded = user[name].as_str().expect("it has a certificate");
            let decoded = STANDARD.decode(encoded).expect("in base64");
            String::from_utf8(decoded).expect("as PEM")
        };
        Self {
            certificate: part("client-certificate-data"),
            key: part("client-key-data"),
        }
    }
}

// === impl Wire ===

impl Wire {
    /// Connects for these protocols (ALPN), with a client certificate or without.
    pub async fn connect(address: &Address, protocols: &[&str], client: Option<&Pair>) -> Self {
        let config = config(address, protocols, client);
        let stream = TcpStream::connect(&address.host).await.expect("it listens");
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await;
        stream.expect("a handshake").into()
    }

    /// Writes bytes. A peer that has closed already is no fault: what it has said is read afterwards.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        if self.stream.write_all(bytes.as_ref()).await.is_ok() {
            drop(self.stream.flush().await);
        }
    }

    /// Reads what comes next, and tells whether more may come.
    pub async fn read_more(&mut self) -> bool {
        let mut buffer = vec![0; 16 * 1024];
        let read = timeout(SILENCE_MAX, self.stream.read(&mut buffer)).await;
        let read = read.expect("the other end says something").unwrap_or(0);
        self.received.extend_from_slice(&buffer[..read]);
        read > 0
    }

    /// Reads until the other end closes or what was received holds a text; tells everything that was received.
    pub async fn read_until(&mut self, text: &str) -> String {
        loop {
            let received = String::from_utf8_lossy(&self.received).into_owned();
            if received.contains(text) || !self.read_more().await {
                return String::from_utf8_lossy(&self.received).into_owned();
            }
        }
    }

    /// Reads until the other end closes; tells everything that was received.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        while self.read_more().await {}
        std::mem::take(&mut self.received)
    }

    /// Reads until the other end closes or what was received holds some bytes; tells everything that was received.
    pub async fn read_bytes_until(&mut self, bytes: &[u8]) -> &[u8] {
        while find(&self.received, bytes).is_none() && self.read_more().await {}
        &self.received
    }

    /// Forgets what was received.
    pub fn forget(&mut self) {
        self.received.clear();
    }
}

impl From<TlsStream<TcpStream>> for Wire {
    fn from(stream: TlsStream<TcpStream>) -> Self {
        Self {
            stream,
            received: Vec::new(),
        }
    }
}

// === impl FakeSpoke ===

impl FakeSpoke {
    /// Listens on loopback, speaks HTTP/1.1 alone, and answers every request by its head and body.
    pub async fn start(answer: impl Fn(&str, &[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let authority = Authority::new("fake-ca");
        let (chain, key) = read(&authority.serving());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a pair");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("it is bound");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let kept = Arc::new(Mutex::new(Kept::default()));
        let (keeping, answer): (_, Arc<Answering>) = (Arc::clone(&kept), Arc::new(answer));
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                let (acceptor, kept) = (acceptor.clone(), Arc::clone(&keeping));
                let answer = Arc::clone(&answer);
                connections.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, number, &kept, &*answer).await;
                    }
                });
            }
        });
        Self {
            address,
            authority,
            kept,
            _accepting: accepting,
        }
    }

    /// Writes a kubeconfig for it.
    pub fn kubeconfig(&self, name: &str) -> String {
        let client = self.authority.client("hub", Some("system:masters"));
        let server = format!("https://{}", self.address);
        pki::kubeconfig(name, &server, &self.authority.certificate(), &client)
    }

    /// Returns its host and port.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Returns how a webhook at a path of it is configured.
    pub fn client_config(&self, path: &str) -> Value {
        let bundle = STANDARD.encode(self.authority.certificate());
        json!({"url": format!("https://{}{path}", self.address), "caBundle": bundle})
    }

    /// Returns the heads of the requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.kept().heads.clone()
    }

    /// Returns whether some connection was sent a text.
    pub fn was_sent(&self, text: &str) -> bool {
        let kept = self.kept();
        let mut all = kept.bytes.values();
        all.any(|bytes| String::from_utf8_lossy(bytes).contains(text))
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a configuration for a server that is known by its authority.
pub fn config(address: &Address, protocols: &[&str], client: Option<&Pair>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(address.authority.as_bytes());
    roots.add(root.expect("PEM")).expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let (chain, key) = read(pair);
            builder.with_client_auth_cert(chain, key).expect("a pair")
        }
    };
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    config
}

async fn serve(
    mut stream: tokio_rustls::server::TlsStream<TcpStream>,
    number: usize,
    kept: &Mutex<Kept>,
    answer: &Answering,
) {
    let mut rest = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        // Whatever follows one request on the connection is the next one: that is what smuggling lives on.
        while let Some((head, body, length)) = request(&rest) {
            rest.drain(..length);
            let said = answer(&head, &body);
            keep(kept, |kept| kept.heads.push(head));
            if stream.write_all(&said).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => {
                rest.extend_from_slice(&buffer[..read]);
                keep(kept, |kept| {
                    let bytes = kept.bytes.entry(number).or_default();
                    bytes.extend_from_slice(&buffer[..read]);
                });
            }
            _ => return,
        }
    }
}

fn keep(kept: &Mutex<Kept>, change: impl FnOnce(&mut Kept)) {
    change(&mut kept.lock().unwrap_or_else(PoisonError::into_inner));
}

/// The first whole request of some bytes: its head, its body, and the length of both. As naive as a server may be: `Content-Length` counts,
/// and chunks where there is none.
fn request(bytes: &[u8]) -> Option<(String, Vec<u8>, usize)> {
    let end = find(bytes, b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let field = |name: &str| {
        head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    if let Some(length) = field("content-length").and_then(|it| it.parse::<usize>().ok()) {
        let body = bytes.get(end..end + length)?.to_vec();
        return Some((head, body, end + length));
    }
    if field("transfer-encoding").is_none() {
        return Some((head, Vec::new(), end));
    }
    let (mut body, mut at) = (Vec::new(), end);
    loop {
        let line = at + find(bytes.get(at..)?, b"\r\n")?;
        let size = String::from_utf8_lossy(&bytes[at..line]).into_owned();
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        let chunk = bytes.get(line + 2..line + 2 + size)?;
        body.extend_from_slice(chunk);
        at = line + 2 + size + 2;
        if bytes.len() < at {
            return None;
        }
        if size == 0 {
            return Some((head, body, at));
        }
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|it| it == text)
}

fn read(pair: &Pair) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes());
    (vec![certificate.expect("PEM")], key.expect("PEM"))
}

/// Makes an answer of HTTP/1.1 out of JSON.
pub fn json_answer(code: u16, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!("HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}
