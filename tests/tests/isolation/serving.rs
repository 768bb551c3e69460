//! R29 and S28: the operator's serving certificate is replaced while the hub serves, and what the hub has handed out goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::{TlsConnector, client::TlsStream};
use wheelhouse_tests::{
    Hub, Kubectl,
    hub::Settings,
    pki::{Authority, Pair},
    process::Scratch,
    wait::within,
    wire::{self, Address},
};

/// The operator's certificate is looked at every five seconds.
const PROMISED: Duration = Duration::from_secs(20);
/// Connections that must all be shown the same once one was.
const CONNECTION_COUNT: usize = 50;
/// Between two requests of the load.
const LOAD_PAUSE: Duration = Duration::from_millis(20);
/// A name with a certificate of its own.
const NAMED: &str = "kubernetes.default.svc";
/// How often the certificate is replaced.
const ROTATION_COUNT: usize = 2;

/// The hub, and what its operator has.
struct Stage {
    hub: Hub,
    authority: Authority,
    scratch: Scratch,
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_s28_a_serving_certificate_is_replaced_under_load() {
    let (authority, scratch) = (Authority::new("operator"), Scratch::new("serving"));
    let first = authority.serving();
    let certificate = scratch.write("tls.crt", &first.certificate);
    let key = scratch.write("tls.key", &first.key);
    let (certificate, key) = (certificate.display(), key.display());
    let named = authority.serving();
    let named_certificate = scratch.write("named.crt", &named.certificate);
    let named_key = scratch.write("named.key", &named.key);
    let (named_certificate, named_key) = (named_certificate.display(), named_key.display());
    let settings = Settings {
        arguments: vec![
            format!("--tls-cert-file={certificate}"),
            format!("--tls-private-key-file={key}"),
            format!("--tls-sni-cert-key={named_certificate},{named_key}:{NAMED}"),
        ],
        ..Settings::default()
    };
    let stage = Stage {
        hub: Hub::start_with(settings).await,
        authority,
        scratch,
    };
    stage.shows(&first).await;
    what_the_hub_hands_out_is_good(&stage).await;

    let load = Load::start(&stage.address());
    let mut last = first;
    for _ in 0..ROTATION_COUNT {
        last = rotate(&stage, &last).await;
    }
    load.end().await;
    a_name_has_its_own(&stage, [&last, &named]).await;
    what_the_hub_hands_out_is_good(&stage).await;
}

/// Replaces the certificate: first by what cannot be used, which takes the place of nothing.
async fn rotate(stage: &Stage, before: &Pair) -> Pair {
    let next = stage.authority.serving();
    stage.scratch.write("tls.crt", &next.certificate); // its key is not there yet
    let count = |log: &str| log.matches("showing the previous one").count();
    let known = count(&stage.hub.process().log());
    within(PROMISED, "the hub says so", || async {
        let now = count(&stage.hub.process().log());
        (now > known).then_some(()).ok_or("not yet".to_owned())
    })
    .await;
    stage.shows(before).await;
    stage.scratch.write("tls.key", &next.key);
    within(PROMISED, "the next one is shown", || async {
        let shown = stage.shown().await;
        (shown == der(&next))
            .then_some(())
            .ok_or("not yet".to_owned())
    })
    .await;
    for _ in 0..CONNECTION_COUNT {
        stage.shows(&next).await;
    }
    next
}

/// A certificate for one name is replaced by itself, and changes nothing at another.
async fn a_name_has_its_own(stage: &Stage, [other, named]: [&Pair; 2]) {
    assert_eq!(stage.shown_at(NAMED).await, der(named), "at its name");
    let next = stage.authority.serving();
    stage.scratch.write("named.key", &next.key);
    stage.scratch.write("named.crt", &next.certificate);
    within(PROMISED, "the next one is shown", || async {
        let shown = stage.shown_at(NAMED).await;
        (shown == der(&next))
            .then_some(())
            .ok_or("not yet".to_owned())
    })
    .await;
    stage.shows(other).await;
}

/// The hub's kubeconfigs trust its own authority, whatever the operator's certificate is.
async fn what_the_hub_hands_out_is_good(stage: &Stage) {
    let root = stage.hub.root();
    root.apply("{apiVersion: wheelhouse.dev/v1alpha1, kind: Spoke, metadata: {name: a}, spec: {provider: Embedded}}")
        .await;
    root.must(&["wait", "--for=condition=Ready", "spoke/a", "--timeout=30s"])
        .await;
    // kubectl forgets the server name of a kubeconfig where it is told another server.
    let server = format!("{}/clusters/a", stage.hub.server());
    let at = [
        "--server",
        &server,
        "--tls-server-name",
        "wheelhouse.internal",
    ];
    root.must(&[at.as_slice(), &["get", "namespaces"]].concat())
        .await;
    let body = stage.scratch.write("request.json", "{}");
    let path = "/apis/wheelhouse.dev/v1alpha1/spokes/a/kubeconfig";
    let made = root
        .must(&["create", "--raw", path, "-f", &body.display().to_string()])
        .await;
    let made: serde_json::Value = serde_json::from_str(&made).expect("JSON");
    let text = made["status"]["kubeconfig"].as_str().expect("a kubeconfig");
    assert!(
        text.contains("tls-server-name: wheelhouse.internal"),
        "{text}"
    );
    let file = stage.scratch.write("a.kubeconfig", text);
    Kubectl::new(&file).must(&["get", "namespaces"]).await;
}

// === impl Stage ===

impl Stage {
    /// The hub as a client knows it that trusts the operator's authority alone.
    fn address(&self) -> Address {
        Address {
            host: self.hub.server().trim_start_matches("https://").to_owned(),
            authority: self.authority.certificate(),
        }
    }

    async fn shown(&self) -> CertificateDer<'static> {
        self.shown_at("localhost").await
    }

    async fn shown_at(&self, name: &'static str) -> CertificateDer<'static> {
        let stream = connect_to(&self.address(), name).await;
        let stream = stream.expect("a handshake");
        let shown = stream.get_ref().1.peer_certificates();
        let first = shown.and_then(<[_]>::first).expect("a certificate");
        first.clone().into_owned()
    }

    async fn shows(&self, pair: &Pair) {
        assert_eq!(
            self.shown().await,
            der(pair),
            "another certificate is shown"
        );
    }
}

fn der(pair: &Pair) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pair.certificate.as_bytes()).expect("a certificate")
}

async fn connect(address: &Address) -> std::io::Result<TlsStream<TcpStream>> {
    connect_to(address, "localhost").await
}

async fn connect_to(
    address: &Address,
    name: &'static str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let config = wire::config(address, &["http/1.1"], None);
    let name = ServerName::try_from(name).expect("a name");
    let stream = TcpStream::connect(&address.host).await?;
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// Asks whether the hub lives.
async fn ask(stream: &mut TlsStream<TcpStream>) -> Result<(), String> {
    let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream
        .write_all(request)
        .await
        .map_err(|it| it.to_string())?;
    let mut buffer = vec![0; 4096];
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok") {
        let read = stream.read(&mut buffer).await;
        let read = read.map_err(|it| it.to_string())?;
        if read == 0 {
            return Err(String::from_utf8_lossy(&answer).into_owned());
        }
        answer.extend_from_slice(buffer.get(..read).unwrap_or_default());
    }
    Ok(())
}

/// Requests over new connections and over one that stays.
struct Load {
    is_over: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    tasks: JoinSet<Result<(), String>>,
}

// === impl Load ===

impl Load {
    fn start(address: &Address) -> Self {
        let (is_over, asked) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut tasks = JoinSet::new();
        for is_new in [true, false] {
            let (is_over, asked) = (Arc::clone(&is_over), Arc::clone(&asked));
            let address = address.clone();
            tasks.spawn(async move {
                let text = |it: std::io::Error| it.to_string();
                let mut stream = connect(&address).await.map_err(text)?;
                while !is_over.load(Ordering::Relaxed) {
                    if is_new {
                        stream = connect(&address).await.map_err(text)?;
                    }
                    ask(&mut stream).await?;
                    AtomicUsize::fetch_add(&asked, 1, Ordering::Relaxed);
                    // Other trials have the same two cores.
                    tokio::time::sleep(LOAD_PAUSE).await;
                }
                Ok(())
            });
        }
        Self {
            is_over,
            asked,
            tasks,
        }
    }

    /// Requires that no request has failed.
    async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for ended in self.tasks.join_all().await {
            ended.expect("each request is answered");
        }
        let asked = self.asked.load(Ordering::Relaxed);
        assert!(asked > 100, "{asked} requests are no load");
    }
}
