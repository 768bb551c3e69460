//! S05: what listens says nothing but its health to who shows no credential. S13: one request in is one request out at most, whatever it looks
//! like. S14: what a hostile spoke says of its own ServiceAccounts makes nobody of the hub.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use rustls::{ClientConnection, pki_types::ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use wheelhouse_tests::{
    assets, eventually,
    process::{Process, Scratch},
    wire::{Address, FakeSpoke, Wire, config, json_answer},
};

use super::support::{Fixture, RGDS};

const HTTP1: &[&str] = &["http/1.1"];
const HTTP2: &[&str] = &["h2"];
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Stands in every request that nobody sent as such.
const MARK: &str = "smuggled";

#[tokio::test(flavor = "multi_thread")]
async fn s13_s14_one_request_in_is_one_out_and_a_spoke_names_nobody_of_the_hub() {
    let fixture = Fixture::start(&["alice"]).await;
    let says = Arc::new(AtomicU8::new(0));
    let signer = Signer::new();
    let spoke = hostile(&signer, &says).await;
    let scratch = Scratch::new("fake");
    let file = scratch.write("fake.kubeconfig", spoke.kubeconfig("fake"));
    let file = file.display().to_string();
    let added = fixture
        .hub
        .wheelhouse(&["spoke", "add", "fake", "--from", &file, "--skip-contact"])
        .await;
    added.succeeded("spoke add fake");
    fixture.embed("a").await;
    let admin = fixture.admin().await;
    admin
        .until_status(&format!("/clusters/fake{MAPS}"), 200)
        .await;
    fixture.allow_access("alice", "fake").await;
    let alice = fixture.user("alice").await;
    alice
        .until_status(&format!("/clusters/fake{MAPS}"), 200)
        .await;
    let address = Address::of_kubeconfig(&fixture.kubeconfig(None));
    nothing_is_smuggled_over_http1(&address, &spoke).await;
    nothing_is_smuggled_over_http2(&address, &spoke).await;
    nothing_comes_early(&address).await;
    a_hostile_spoke_names_nobody(&fixture, &spoke, &signer, &says).await;
    // After all of it the hub serves, and whom it served before.
    alice.get(&format!("/clusters/fake{MAPS}")).await.must(200);
    admin.get(MAPS).await.must(200);
}

#[expect(clippy::too_many_lines, reason = "a table is told in one piece")]
async fn nothing_is_smuggled_over_http1(address: &Address, spoke: &FakeSpoke) {
    let hidden = format!(
        "GET /clusters/fake/api/v1/namespaces/{MARK} HTTP/1.1\r\nhost: hub\r\nauthorization: Bearer alice-token\r\n\r\n"
    );
    let length = hidden.len();
    let both = length + 5;
    for (name, fields, body) in [
        (
            "length before chunks",
            format!("content-length: {both}\r\ntransfer-encoding: chunked\r\n"),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "chunks before length",
            format!("transfer-encoding: chunked\r\ncontent-length: {both}\r\n"),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "a short length and chunks",
            "content-length: 4\r\ntransfer-encoding: chunked\r\n".to_owned(),
            format!("{length:x}\r\n{hidden}\r\n0\r\n\r\n"),
        ),
        (
            "two lengths",
            format!("content-length: 0\r\ncontent-length: {length}\r\n"),
            hidden.clone(),
        ),
        (
            "a list of lengths",
            format!("content-length: 0, {length}\r\n"),
            hidden.clone(),
        ),
        (
            "a signed length",
            "content-length: +0\r\n".to_owned(),
            hidden.clone(),
        ),
        (
            "a length in words",
            "content-length: 0x0\r\n".to_owned(),
            hidden.clone(),
        ),
        (
            "chunks that are not the last coding",
            "transfer-encoding: chunked, identity\r\n".to_owned(),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "another coding",
            "transfer-encoding: xchunked\r\n".to_owned(),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "a coding behind a space",
            "transfer-encoding : chunked\r\n".to_owned(),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "a coding behind a tab",
            "transfer-encoding:\tchunked\r\ncontent-length: 0\r\n".to_owned(),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "a folded line",
            "x-one: a\r\n transfer-encoding: chunked\r\ncontent-length: 0\r\n".to_owned(),
            hidden.clone(),
        ),
        (
            "a folded coding",
            "transfer-encoding:\r\n chunked\r\n".to_owned(),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "a bare line feed",
            "x-one: a\ntransfer-encoding: chunked\r\n".to_owned(),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "a bare carriage return",
            "x-one: a\rtransfer-encoding: chunked\r\ncontent-length: 0\r\n".to_owned(),
            hidden.clone(),
        ),
        (
            "chunk extensions",
            "transfer-encoding: chunked\r\n".to_owned(),
            format!("2;{MARK}=\"\r\n\"\r\n{{}}\r\n0\r\n\r\n{hidden}"),
        ),
        (
            "a chunk of a size that is none",
            "transfer-encoding: chunked\r\n".to_owned(),
            format!("-2\r\n{{}}\r\n0\r\n\r\n{hidden}"),
        ),
        (
            "a chunk of too great a size",
            "transfer-encoding: chunked\r\n".to_owned(),
            format!("ffffffffffffffff2\r\n{{}}\r\n0\r\n\r\n{hidden}"),
        ),
        (
            "a chunk that is longer than it says",
            "transfer-encoding: chunked\r\n".to_owned(),
            format!("2\r\n{{}}{hidden}"),
        ),
        (
            "trailers",
            "transfer-encoding: chunked\r\ntrailer: content-length\r\n".to_owned(),
            format!(
                "2\r\n{{}}\r\n0\r\ncontent-length: 0\r\nimpersonate-user: {MARK}\r\n\r\n{hidden}"
            ),
        ),
        (
            "a connection header that names the length",
            "connection: content-length, host\r\ncontent-length: 2\r\n".to_owned(),
            "{}".to_owned(),
        ),
    ] {
        let before = spoke.heads().len();
        let mut wire = Wire::connect(address, HTTP1, None).await;
        let head = format!(
            "POST /clusters/fake{MAPS} HTTP/1.1\r\nhost: hub\r\nauthorization: Bearer alice-token\r\ncontent-type: application/json\r\n"
        );
        wire.write(format!("{head}{fields}\r\n{body}")).await;
        // Whoever stays open is asked to close: the answer to that is the last.
        let answer = wire.read_until("\r\n\r\n").await;
        let is_open = !answer.contains("connection: close") && answer.starts_with("HTTP/1.1 2");
        if is_open {
            assert!(!body.contains(MARK), "{name}: goes on after {answer}");
            continue;
        }
        wire.read_to_end().await;
        let sent: Vec<String> = spoke.heads().split_off(before);
        let relayed = sent
            .iter()
            .filter(|head| head.contains(MAPS) || head.contains(MARK));
        assert!(relayed.count() <= 1, "{name}: {sent:?}");
        // As a server that counts lengths before chunks has read them.
        let is_hidden = |head: &String| head.contains(&format!("namespaces/{MARK}"));
        assert!(!sent.iter().any(is_hidden), "{name}: {sent:?}");
        assert!(
            !spoke.was_sent(&format!("impersonate-user: {MARK}")),
            "{name}"
        );
    }
}

/// What HTTP/2 can carry and HTTP/1.1, which the spoke speaks, must not.
#[expect(clippy::too_many_lines, reason = "a table is told in one piece")]
async fn nothing_is_smuggled_over_http2(address: &Address, spoke: &FakeSpoke) {
    let path = format!("/clusters/fake{MAPS}");
    let split = format!("a\r\nx-{MARK}: 1");
    let hidden = format!("/clusters/fake/api/v1/namespaces/{MARK}");
    let in_path = format!("{path} HTTP/1.1\r\nx-{MARK}: 1\r\n\r\n");
    let body = format!("0\r\n\r\nGET {hidden} HTTP/1.1\r\nhost: hub\r\n\r\n");
    for (name, path, field, data) in [
        (
            "chunks",
            &*path,
            Some(("transfer-encoding", "chunked")),
            Some(&*body),
        ),
        (
            "a connection",
            &*path,
            Some(("connection", "keep-alive, x-one")),
            None,
        ),
        (
            "keep alive",
            &*path,
            Some(("keep-alive", "timeout=5")),
            None,
        ),
        ("an upgrade", &*path, Some(("upgrade", "h2c")), None),
        (
            "a line within a value",
            &*path,
            Some(("x-one", &*split)),
            None,
        ),
        (
            "a colon within a name",
            &*path,
            Some(("x-one: a\r\nx-two", MARK)),
            None,
        ),
        ("capitals", &*path, Some(("X-One", MARK)), None),
        ("a line within the path", &*in_path, None, None),
        (
            "a length of none with data",
            &*path,
            Some(("content-length", "0")),
            Some(&*body),
        ),
        (
            "a length that is too short",
            &*path,
            Some(("content-length", "2")),
            Some(&*body),
        ),
        ("a second path", &*path, Some((":path", &*hidden)), None),
    ] {
        let before = spoke.heads().len();
        let mut wire = Wire::connect(address, HTTP2, None).await;
        let mut fields = vec![
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "hub"),
            (":path", path),
        ];
        fields.push(("authorization", "Bearer alice-token"));
        fields.extend(field);
        let mut frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frames.extend(frame(4, 0, 0, &[]));
        let ends = u8::from(data.is_none());
        frames.extend(frame(1, 4 | ends, 1, &block(&fields)));
        if let Some(data) = data {
            frames.extend(frame(0, 1, 1, data.as_bytes()));
        }
        // The answer to a ping comes behind whatever became of the request, as far as it is said at once; GOAWAY ends the connection.
        frames.extend(frame(7, 0, 0, &[0; 8]));
        wire.write(frames).await;
        wire.read_to_end().await;
        let sent: Vec<String> = spoke.heads().split_off(before);
        let relayed = sent
            .iter()
            .filter(|head| head.contains(MAPS) || head.contains(MARK));
        assert!(relayed.count() <= 1, "{name}: {sent:?}");
        for head in &sent {
            let lines = head.to_ascii_lowercase();
            for never in ["keep-alive:", "upgrade:", "x-smuggled", "x-two"] {
                assert!(!lines.contains(never), "{name}: {head}");
            }
        }
        // As a server that counts lengths before chunks has read them.
        let is_hidden = |head: &String| head.contains(&format!("namespaces/{MARK}"));
        assert!(!sent.iter().any(is_hidden), "{name}: {sent:?}");
    }
}

/// TLS takes nothing before its handshake is over, so that nobody plays it again.
async fn nothing_comes_early(address: &Address) {
    let mut config = config(address, HTTP1, None);
    config.enable_early_data = true;
    let config = Arc::new(config);
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let stream = TcpStream::connect(&address.host).await.expect("it listens");
    let connector = TlsConnector::from(Arc::clone(&config));
    let stream = connector.connect(name.clone(), stream).await;
    // Tickets come with the first answer.
    let mut wire = Wire::from(stream.expect("a handshake"));
    wire.write("GET /livez HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n")
        .await;
    wire.read_to_end().await;
    let mut again = ClientConnection::new(config, name).expect("a session");
    assert!(again.early_data().is_none(), "early data would be taken");
}

async fn a_hostile_spoke_names_nobody(
    fixture: &Fixture,
    spoke: &FakeSpoke,
    signer: &Signer,
    says: &AtomicU8,
) {
    let path = format!("/clusters/fake{MAPS}");
    for what in [1, 2, 3] {
        says.store(what, Ordering::SeqCst);
        let token = signer.token(&format!("named-{what}"));
        let named = fixture.bearer("named", &token).await;
        named.get(&path).await.must(401);
    }
    // It may say that its own account is good, and whatever else about it.
    says.store(4, Ordering::SeqCst);
    let token = signer.token("bot");
    let bot = fixture.bearer("bot", &token).await;
    bot.get(&path).await.must(200);
    for base in ["", "/clusters/a", "/clusters/*", "/clusters/root"] {
        bot.get(&format!("{base}{MAPS}")).await.must(401);
    }
    let revision = json!({"apiVersion": "internal.kro.run/v1alpha1", "kind": "GraphRevision", "metadata": {"name": "forged"}});
    let revisions = "/clusters/fake/apis/internal.kro.run/v1alpha1/graphrevisions";
    bot.post(revisions, &revision).await.must(403);
    let rgds = format!("/clusters/fake{RGDS}");
    bot.get(&rgds).await.must(200);
    assert!(
        spoke.was_sent(&format!("Bearer {token}")),
        "it goes as it is"
    );
    // What it has not signed it never sees.
    let asked = spoke.heads().len();
    let stranger = Signer::new();
    let account = json!({"spec": {}});
    let path_of_token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let admin = fixture.admin().await;
    let mut others = vec![stranger.token("bot"), "a.b.c".to_owned()];
    for base in ["", "/clusters/a"] {
        let made = admin
            .post(&format!("{base}{path_of_token}"), &account)
            .await
            .must(201);
        others.push(
            made["status"]["token"]
                .as_str()
                .expect("a token")
                .to_owned(),
        );
    }
    for token in &others {
        let other = fixture.bearer("other", token).await;
        for _ in 0..20 {
            let answer = other.get(&path).await;
            assert!(matches!(answer.status, 401 | 403), "{}", answer.body);
        }
        assert!(!spoke.was_sent(token), "another's token");
    }
    let heads = spoke.heads().split_off(asked);
    let reviews = heads.iter().filter(|head| head.contains("tokenreviews"));
    assert_eq!(reviews.count(), 0, "{heads:?}");
    let keys = heads.iter().filter(|head| head.contains("/openid/v1/jwks"));
    assert!(keys.count() <= 5, "{heads:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s05_what_listens_tells_strangers_its_health_alone() {
    let fixture = Fixture::start(&[]).await;
    fixture.embed("a").await;
    let scratch = Scratch::new("dev");
    let mut command = Command::new(assets::wheelhouse());
    command.args([
        "dev",
        "--listen",
        "127.0.0.1:0",
        "--spokes",
        "1",
        "--no-demo",
        "--kubeconfig-out",
    ]);
    let kubeconfig = scratch.file("dev.kubeconfig");
    command
        .arg(&kubeconfig)
        .arg("--dir")
        .arg(scratch.file("dev"));
    let dev = Process::start(&command, &scratch.file("dev.log"));
    let text = eventually("dev is ready", || async {
        assert!(dev.runs(), "dev ended:\n{}", dev.log());
        std::fs::read_to_string(&kubeconfig).map_err(|error| error.to_string())
    })
    .await;
    for (process, text) in [
        (fixture.hub.process(), fixture.kubeconfig(None)),
        (&dev, text),
    ] {
        let address = Address::of_kubeconfig(&text);
        let listening = listening(process.pid());
        let own: SocketAddr = address.host.parse().expect("an address");
        assert_eq!(
            listening,
            BTreeSet::from([own.port()]),
            "one listener, its own"
        );
        for path in STRANGE {
            for base in [
                "",
                "/clusters/a",
                "/clusters/spoke-1",
                "/clusters/none",
                "/clusters/*",
            ] {
                let code = asked(&address, &format!("{base}{path}")).await;
                assert!(matches!(code, 401 | 403 | 404), "{base}{path}: {code}");
            }
        }
        // The page to sign in on is a file that tells nothing of this hub.
        for path in ["/livez", "/readyz", "/healthz", "/version", "/ui/"] {
            assert_eq!(asked(&address, path).await, 200, "{path}");
        }
        // Without TLS there is nothing at all.
        let stream = TcpStream::connect(&address.host).await.expect("it listens");
        let answer = plain(stream).await;
        assert!(!answer.contains("HTTP/1.1 200"), "{answer}");
    }
}

const STRANGE: &[&str] = &[
    "/",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/wheelhouse.dev",
    "/openapi/v2",
    "/openapi/v3",
    "/metrics",
    "/metrics/slis",
    "/debug/pprof/",
    "/debug/pprof/heap",
    "/debug/flags/v",
    "/configz",
    "/logs/",
    "/ui/api/instances?kind=spokes.v1alpha1.wheelhouse.dev",
    "/ui/api/drawing/root/webapp",
    "/ui/.git/config",
    "/wheelhouse/backup",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/statusz",
    "/flagz",
    "/api/v1/secrets",
    "/apis/wheelhouse.dev/v1alpha1/spokes",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
];

/// Asks without a credential, for the code alone.
async fn asked(address: &Address, path: &str) -> u16 {
    let mut wire = Wire::connect(address, HTTP1, None).await;
    wire.write(format!(
        "GET {path} HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n"
    ))
    .await;
    let answer = wire.read_until("\r\n\r\n").await;
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    assert!(code.is_some(), "{path}: {answer}");
    code.unwrap_or_default()
}

async fn plain(mut stream: TcpStream) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let request = b"GET /readyz HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.expect("it is taken");
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    // A reset is an end too.
    drop(
        tokio::time::timeout(Duration::from_secs(10), read)
            .await
            .expect("an end"),
    );
    String::from_utf8_lossy(&answer).into_owned()
}

/// The TCP ports on which a process listens.
///
/// Source: `proc(5)`: state `0A` of `/proc/net/tcp` is LISTEN, its tenth field is the socket that the process's descriptors name.
fn listening(pid: u32) -> BTreeSet<u16> {
    let mut sockets = BTreeSet::new();
    for file in std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("it runs")
        .flatten()
    {
        if let Ok(target) = std::fs::read_link(file.path()) {
            let target = target.display().to_string();
            let inode = target
                .strip_prefix("socket:[")
                .and_then(|it| it.strip_suffix(']'));
            sockets.extend(inode.map(str::to_owned));
        }
    }
    let mut ports = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, "0A", _, _, _, _, _, inode, ..] = fields[..] else {
                continue;
            };
            let port = local
                .rsplit(':')
                .next()
                .and_then(|it| u16::from_str_radix(it, 16).ok());
            ports.extend(port.filter(|_| sockets.contains(inode)));
        }
    }
    ports
}

/// A spoke that publishes a key and says of tokens what it is told to: 1 an administrator, 2 another account, 3 no name, 4 the account, with the groups
/// of an administrator.
async fn hostile(signer: &Signer, says: &Arc<AtomicU8>) -> FakeSpoke {
    let (keys, says) = (signer.keys(), Arc::clone(says));
    FakeSpoke::start(move |head, body| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        match path {
            "/openid/v1/jwks" => json_answer(200, &keys),
            "/apis/authentication.k8s.io/v1/tokenreviews" => {
                let username = match says.load(Ordering::SeqCst) {
                    1 => "admin",
                    2 => "system:serviceaccount:kube-system:admin",
                    3 => "",
                    _ => "system:serviceaccount:default:bot",
                };
                let user = json!({"username": username, "uid": "\r\nx: y", "groups": ["system:masters"], "extra": {"a": ["b"]}});
                json_answer(201, &json!({"kind": "TokenReview", "spec": sent["spec"], "status": {"authenticated": true, "user": user}}))
            }
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                json_answer(201, &json!({"kind": "SubjectAccessReview", "spec": sent["spec"], "status": {"allowed": true}}))
            }
            "/api/v1/namespaces/default/serviceaccounts/bot" => json_answer(200, &json!({"metadata": {"name": "bot", "uid": "u1"}})),
            "/version" => json_answer(200, &json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})),
            "/api/v1/namespaces/kube-system" => json_answer(200, &json!({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "fake"}})),
            MAPS => json_answer(200, &json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": []})),
            _ => json_answer(404, &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound"})),
        }
    })
    .await
}

/// Signs tokens as a spoke does.
struct Signer(KeyPair);

impl Signer {
    fn new() -> Self {
        Self(KeyPair::generate().expect("a key"))
    }

    fn keys(&self) -> Value {
        // A point that is not compressed: a byte, and the two coordinates.
        let (x, y) = self.0.der_bytes()[1..].split_at(32);
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "x": BASE64.encode(x), "y": BASE64.encode(y)}]})
    }

    /// A token of the account `default/<name>`.
    fn token(&self, name: &str) -> String {
        let header = json!({"alg": "ES256", "kid": "k"});
        let claims = json!({
            "iss": "https://fake", "sub": format!("system:serviceaccount:default:{name}"), "aud": ["https://fake"], "exp": 4_000_000_000_i64,
            "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": name, "uid": "u1"}},
        });
        let signed = format!(
            "{}.{}",
            BASE64.encode(header.to_string()),
            BASE64.encode(claims.to_string())
        );
        let der = self.0.sign(signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", BASE64.encode(numbers(&der)))
    }
}

/// The two numbers of a signature in DER, 32 bytes each.
fn numbers(der: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::new();
    let mut rest = &der[2..];
    while let [2, length, after @ ..] = rest {
        let (number, after) = after.split_at(usize::from(*length));
        let digits = number.strip_prefix(&[0]).unwrap_or(number);
        numbers.extend(std::iter::repeat_n(0, 32 - digits.len()));
        numbers.extend(digits);
        rest = after;
    }
    numbers
}

/// A frame of HTTP/2. Source: RFC 9113 section 4.1.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short one");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A block of header fields, none of them indexed or compressed. Source: RFC 7541 section 6.2.2.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.extend(integer(text.len()));
            block.extend(text.as_bytes());
        }
    }
    block
}

/// An integer with a prefix of seven bits. Source: RFC 7541 section 5.1.
fn integer(value: usize) -> Vec<u8> {
    let byte = |value: usize| u8::try_from(value).expect("it fits");
    if value < 127 {
        return vec![byte(value)];
    }
    let mut rest = value - 127;
    let mut bytes = vec![127];
    while rest >= 128 {
        bytes.push(byte(rest % 128 + 128));
        rest /= 128;
    }
    bytes.push(byte(rest));
    bytes
}
