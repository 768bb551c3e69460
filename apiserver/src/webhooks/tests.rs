//! Webhooks over real connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// What a server does with a call.
#[derive(Clone, Copy)]
enum Manner {
    /// Answers with this code and text.
    Says(u16, &'static str),
    /// Answers with a location and nothing else.
    Redirects,
    /// Answers without end.
    Floods,
    /// Says nothing.
    Hangs,
    /// Closes the connection behind each answer, without saying so.
    Closes,
}

struct Server {
    config: WebhookClientConfig,
    accepted: Arc<AtomicUsize>,
    served: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.served.abort();
    }
}

async fn server(manner: Manner) -> Server {
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let bundle = STANDARD.encode(pair.cert.pem());
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(pair.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    #[expect(clippy::disallowed_methods, reason = "the server ends with its test")]
    let served = tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    Box::pin(serve(stream, manner)).await;
                }
            });
        }
    });
    Server {
        config: WebhookClientConfig {
            url: Some(format!("https://127.0.0.1:{port}/hook")),
            ca_bundle: bundle,
            service: None,
        },
        accepted,
        served,
    }
}

async fn serve(mut stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>, manner: Manner) {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        seen.extend_from_slice(&buffer[..count]);
        // The body of every call here is one line.
        if !seen.ends_with(b"}") {
            continue;
        }
        seen.clear();
        let (head, body) = match manner {
            Manner::Says(code, text) => {
                (format!("{code} x\r\ncontent-length: {}", text.len()), text)
            }
            Manner::Redirects => {
                let head = "302 x\r\nlocation: https://127.0.0.1:1/\r\ncontent-length: 0";
                (head.to_owned(), "")
            }
            Manner::Floods => ("200 x\r\ncontent-length: 1000000000".to_owned(), ""),
            Manner::Closes => ("200 x\r\ncontent-length: 2".to_owned(), "{}"),
            Manner::Hangs => continue,
        };
        let text = format!("HTTP/1.1 {head}\r\n\r\n{body}");
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        if matches!(manner, Manner::Floods) {
            let filler = vec![b' '; 64 * 1024];
            while stream.write_all(&filler).await.is_ok() {}
            return;
        }
        if matches!(manner, Manner::Closes) {
            let _closed = stream.shutdown().await;
            return;
        }
    }
}

async fn call(webhooks: &Webhooks, server: &Server, wait: Duration) -> Result<Value, CallError> {
    let deadline = Instant::now() + wait;
    let root = LogicalCluster::root();
    webhooks
        .call(&root, &server.config, &json!({}), deadline)
        .await
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_answer_is_read_and_the_connection_used_again() {
    let webhooks = Webhooks::new(AllowedHosts::default());
    let server = server(Manner::Says(200, r#"{"a":1}"#)).await;
    for _ in 0..3 {
        let answer = call(&webhooks, &server, LONG).await.unwrap();
        assert_eq!(answer, json!({"a": 1}));
    }
    assert_eq!(server.accepted.load(Ordering::SeqCst), 1, "one connection");
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_made_again() {
    let webhooks = Webhooks::new(AllowedHosts::default());
    let server = server(Manner::Closes).await;
    for _ in 0..3 {
        assert_eq!(call(&webhooks, &server, LONG).await.unwrap(), json!({}));
    }
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    let webhooks = Webhooks::new(AllowedHosts::default());
    for (manner, wanted) in [
        (Manner::Says(500, "{}"), "an error on the server (500)"),
        (Manner::Says(200, "what?"), "the answer is no JSON"),
        (Manner::Redirects, "an error on the server (302)"),
        (Manner::Floods, "the answer cannot be read"),
    ] {
        let server = server(manner).await;
        let error = call(&webhooks, &server, LONG)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let hanging = server(Manner::Hangs).await;
    let error = call(&webhooks, &hanging, Duration::from_millis(50)).await;
    assert!(
        matches!(error, Err(CallError::TimedOut { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn only_the_bundle_is_trusted() {
    let webhooks = Webhooks::new(AllowedHosts::default());
    let (mut one, other) = (
        server(Manner::Says(200, "{}")).await,
        server(Manner::Hangs).await,
    );
    one.config.ca_bundle.clone_from(&other.config.ca_bundle);
    let error = call(&webhooks, &one, LONG).await.unwrap_err().to_string();
    assert!(error.contains("tls:"), "{error}");
    one.config.ca_bundle.clear();
    let error = call(&webhooks, &one, LONG).await.unwrap_err().to_string();
    assert!(error.contains("caBundle"), "{error}");
}

#[tokio::test]
async fn one_that_hangs_does_not_hold_up_another() {
    let webhooks = Arc::new(Webhooks::new(AllowedHosts::default()));
    let (hanging, quick) = (
        server(Manner::Hangs).await,
        server(Manner::Says(200, "{}")).await,
    );
    let calls: Vec<_> = (0..peer::SEATS + 8)
        .map(|_| call(&webhooks, &hanging, Duration::from_mins(10)))
        .collect();
    let stuck = futures::future::join_all(calls);
    let answer = tokio::select! {
        _ = stuck => panic!("a call that hangs was answered"),
        answer = call(&webhooks, &quick, LONG) => answer,
    };
    assert_eq!(answer.unwrap(), json!({}));
}
