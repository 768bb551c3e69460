//! What a client may do with connections (S24) and with the frames of HTTP/2 (S25): it is cut, or it costs the hub a bounded
//! amount of memory, and whoever else asks is answered as ever.
//!
//! The attackers write their bytes themselves. What becomes of a flood is counted, never timed: each ends when the hub
//! cuts it, takes no more of it, or has taken all of it.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::join_all;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use wheelhouse_tests::{
    pki::Pair,
    wire::{self, Wire},
};

use super::support::{Fixture, User};

/// How long the hub may leave a flood unread before the trial takes it for held back.
const STALL: Duration = Duration::from_secs(2);
/// How long the hub may take to cut a connection that it is to cut.
const CUT: Duration = Duration::from_secs(30);
/// Memory that the hub may have with all attackers there, in bytes.
const RESIDENT_MAX: u64 = 400 << 20;
/// Requests of the good client beside each attack.
const GOOD_COUNT: usize = 25;

/// What HTTP/2 begins with: the preface and empty settings.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// `GET https://localhost/api`, with indexes of the static table.
const GET: &[u8] = b"\x82\x87\x04\x04/api\x41\x09localhost";
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Where the hub listens, and whom its clients trust.
struct Address {
    address: String,
    roots: Arc<RootCertStore>,
}

/// What became of a flood.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The hub closed the connection.
    Cut,
    /// The hub reads no more of it.
    HeldBack,
    /// The hub took all of it.
    Taken,
}

// === impl Address ===

impl Address {
    fn of(fixture: &Fixture) -> Self {
        let config: Value = serde_json::from_str(&fixture.kubeconfig(None)).expect("it is JSON");
        let cluster = &config["clusters"][0]["cluster"];
        let authority = cluster["certificate-authority-data"]
            .as_str()
            .expect("an authority");
        let authority = STANDARD.decode(authority).expect("it is base64");
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&authority) {
            roots
                .add(certificate.expect("it is PEM"))
                .expect("it is a root");
        }
        let server = fixture.hub.server();
        Self {
            address: server.trim_start_matches("https://").to_owned(),
            roots: Arc::new(roots),
        }
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(&self.address)
            .await
            .expect("the hub accepts")
    }

    async fn tls(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the versions are known")
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").expect("a name");
        let connector = TlsConnector::from(Arc::new(config));
        connector
            .connect(name, self.tcp().await)
            .await
            .expect("a handshake")
    }

    /// Opens a connection of HTTP/2 and leaves the rest to the attacker.
    async fn http2(&self) -> TlsStream<TcpStream> {
        let mut stream = self.tls(b"h2").await;
        stream.write_all(HELLO).await.expect("the hub reads");
        stream.flush().await.expect("the hub reads");
        stream
    }
}

/// One frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .expect("a short frame")
        .to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Opens a connection of HTTP/2, with a client certificate or without, and leaves the rest to the attacker.
pub(super) async fn http2(address: &wire::Address, client: Option<&Pair>) -> Wire {
    let mut wire = Wire::connect(address, &["h2"], client).await;
    wire.write(HELLO).await;
    wire
}

/// A request on a stream.
pub(super) fn request(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, GET)
}

/// So many requests from a stream on, each of them taken back at once.
pub(super) fn taken_back(first: u32, count: u32) -> Vec<u8> {
    let streams = (0..count).map(|index| first + index * 2);
    let pair = |stream| {
        let mut pair = request(stream);
        pair.extend(frame(RESET, 0, stream, b"\0\0\0\x08"));
        pair
    };
    streams.flat_map(pair).collect()
}

/// Reads until a stream is answered, whatever with, or the connection closes.
pub(super) async fn is_answered(wire: &mut Wire, stream: u32) -> bool {
    let mut head = vec![HEADERS, END_HEADERS];
    head.extend(stream.to_be_bytes());
    let received = wire.read_bytes_until(&head).await;
    received.windows(head.len()).any(|it| it == head)
}

/// Writes pieces until the hub has had enough of them. What the hub answers is not read.
async fn flood(stream: &mut TlsStream<TcpStream>, pieces: impl Iterator<Item = Vec<u8>>) -> End {
    for piece in pieces {
        let written = async {
            stream.write_all(&piece).await?;
            stream.flush().await
        };
        match timeout(STALL, written).await {
            Ok(Ok(())) => {}
            Ok(Err(_closed)) => return End::Cut,
            Err(_stalled) => return End::HeldBack,
        }
    }
    End::Taken
}

/// Reads until the hub closes the connection.
async fn is_cut(stream: &mut TlsStream<TcpStream>) -> bool {
    let mut buffer = vec![0; 64 * 1024];
    let read = async {
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    timeout(CUT, read).await.is_ok()
}

/// The good client is answered, each time.
async fn is_served(good: &User, during: &str) {
    for _ in 0..GOOD_COUNT {
        let answer = good
            .try_send("GET", "/api/v1/namespaces/default", &[], "")
            .await;
        let status = answer.map(|answer| answer.status);
        assert_eq!(status, Ok(200), "{during}");
    }
}

fn resident(fixture: &Fixture) -> u64 {
    let path = format!("/proc/{}/status", fixture.hub.process().pid());
    let status = std::fs::read_to_string(path).expect("the hub runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        * 1024
}

#[track_caller]
fn is_small(fixture: &Fixture, during: &str) {
    let bytes = resident(fixture);
    assert!(bytes < RESIDENT_MAX, "{during}: the hub has {bytes} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn s24_connections_that_do_nothing_are_in_nobodys_way() {
    let fixture = Fixture::start(&[]).await;
    let good = fixture.admin().await;
    let address = Address::of(&fixture);

    let sockets = join_all((0..1_500).map(|_| address.tcp())).await;
    is_served(&good, "sockets that say nothing").await;
    let mut handshakes = Vec::new();
    for _ in 0..200 {
        let mut socket = address.tcp().await;
        // The beginning of a record of TLS that never ends.
        socket
            .write_all(b"\x16\x03\x01\x02\0\x01\0\x01")
            .await
            .expect("the hub reads");
        handshakes.push(socket);
    }
    let mut heads = Vec::new();
    for _ in 0..100 {
        let mut stream = address.tls(b"http/1.1").await;
        let head = b"GET /api HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
        stream.write_all(head).await.expect("the hub reads");
        heads.push(stream);
    }
    let mut bodies = Vec::new();
    for _ in 0..100 {
        let mut stream = address.tls(b"http/1.1").await;
        let head = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n{";
        stream.write_all(head).await.expect("the hub reads");
        bodies.push(stream);
    }
    let silent = join_all((0..100).map(|_| address.tls(b"h2"))).await;
    is_served(&good, "2,000 connections that do nothing").await;
    fixture.admin().await.get("/readyz").await.must(200);
    is_small(&fixture, "2,000 connections that do nothing");

    // Readers with a window of nothing: the answers wait, a bounded amount of each.
    let mut readers = Vec::new();
    for _ in 0..10 {
        let mut stream = address.tls(b"h2").await;
        let mut bytes = HELLO[..24].to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0"));
        for index in 0..200 {
            bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, index * 2 + 1, GET));
        }
        stream.write_all(&bytes).await.expect("the hub reads");
        readers.push(stream);
    }
    is_served(&good, "readers that do not read").await;
    is_small(&fixture, "readers that do not read");
    drop((sockets, handshakes, heads, bodies, silent, readers));
    is_served(&good, "after all of it").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s25_floods_of_frames_are_cut_or_held_back() {
    let fixture = Fixture::start(&[]).await;
    let good = fixture.admin().await;
    let address = Address::of(&fixture);

    // Rapid reset, CVE-2023-44487: a request and its reset, again and again.
    let mut stream = address.http2().await;
    let pairs = (0..500_u32).map(|block| taken_back(block * 400 + 1, 200));
    let (end, ()) = tokio::join!(flood(&mut stream, pairs), is_served(&good, "rapid reset"));
    assert!(
        end == End::Cut || is_cut(&mut stream).await,
        "rapid reset: {end:?}"
    );

    // A head that never ends, CVE-2024-27316.
    let mut stream = address.http2().await;
    let filler = b"\0\x01a\x7f\xff\x7e"
        .iter()
        .chain([b'x'; 16_000].iter())
        .copied();
    let filler: Vec<u8> = filler.take(16_000).collect();
    let head = frame(HEADERS, END_STREAM, 1, GET);
    let pieces =
        std::iter::once(head).chain((0..2_000).map(|_| frame(CONTINUATION, 0, 1, &filler)));
    let (end, ()) = tokio::join!(flood(&mut stream, pieces), is_served(&good, "CONTINUATION"));
    assert!(
        end == End::Cut || is_cut(&mut stream).await,
        "CONTINUATION: {end:?}"
    );
    is_small(&fixture, "CONTINUATION");

    // A field of 4,000 bytes in the table, and then 16,000 references to it in each head.
    let mut stream = address.http2().await;
    let mut first = GET.to_vec();
    first.extend(b"\x40\x01a\x7f\xa1\x1e");
    first.extend([b'x'; 4_000]);
    let mut bomb = GET.to_vec();
    bomb.extend([0xbe; 16_000]);
    let first = std::iter::once(frame(HEADERS, END_STREAM | END_HEADERS, 1, &first));
    let bombs =
        (1..300).map(|index| frame(HEADERS, END_STREAM | END_HEADERS, index * 2 + 1, &bomb));
    let (end, ()) = tokio::join!(
        flood(&mut stream, first.chain(bombs)),
        is_served(&good, "HPACK")
    );
    is_small(&fixture, &format!("a bomb of HPACK ({end:?})"));

    // Frames that want an answer, or none, and whose answers nobody reads.
    let floods: [(&str, Vec<u8>); 5] = [
        ("PING", frame(PING, 0, 0, b"12345678")),
        ("SETTINGS", frame(SETTINGS, 0, 0, b"\0\x04\0\0\xff\xff")),
        ("PRIORITY", frame(PRIORITY, 0, 3, b"\0\0\0\x01\x10")),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01")),
        ("empty frames", frame(0, 0, 1, b"")),
    ];
    for (name, one) in floods {
        let mut stream = address.http2().await;
        let block = one.repeat(1_000);
        let blocks = std::iter::repeat_n(block, 100);
        let (end, ()) = tokio::join!(flood(&mut stream, blocks), is_served(&good, name));
        is_small(&fixture, &format!("{name} ({end:?})"));
    }
    is_served(&good, "after all of it").await;
    fixture.admin().await.get("/readyz").await.must(200);
}
