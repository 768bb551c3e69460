//! A hub behind a real socket, with TLS, and a real HTTP client before it.

mod turns;
mod versions;

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tasks::Tasks;
use tokio_rustls::TlsConnector;

use super::*;
use crate::{Config, tls::IssuedCertificate};

struct Served {
    hub: Hub,
    address: SocketAddr,
    shutdown: CancellationToken,
    tasks: Tasks,
    serving: tokio::task::JoinHandle<()>,
    _directory: tempfile::TempDir,
}

impl Served {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let token_file = directory.path().join("tokens.csv");
        std::fs::write(&token_file, "secret,alice,1,\"dev\"\n").unwrap();
        let tasks = Tasks::new();
        let config = Config {
            token_file: Some(token_file),
            ..Config::new(directory.path())
        };
        let hub = Hub::open(config, &tasks).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let serving = tasks.spawn("serve", {
            let (hub, shutdown) = (hub.clone(), shutdown.clone());
            async move { hub.serve(listener, shutdown).await.unwrap() }
        });
        Self {
            hub,
            address,
            shutdown,
            tasks,
            serving,
            _directory: directory,
        }
    }

    fn admin(&self) -> &IssuedCertificate {
        &self.hub.pki().admin
    }

    async fn http2(
        &self,
        certificate: Option<&IssuedCertificate>,
    ) -> conn::http2::SendRequest<Empty<Bytes>> {
        let stream = self.connect(certificate, b"h2").await;
        let (sender, connection) =
            conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        drop(self.tasks.spawn("client", connection));
        sender
    }

    async fn connect(
        &self,
        certificate: Option<&IssuedCertificate>,
        protocol: &[u8],
    ) -> tokio_rustls::client::TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let authority = self.hub.pki().authority.certificate_pem().as_bytes();
        roots
            .add(CertificateDer::from_pem_slice(authority).unwrap())
            .unwrap();
        let builder =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots);
        let mut config = match certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => builder
                .with_client_auth_cert(
                    vec![
                        CertificateDer::from_pem_slice(certificate.certificate_pem.as_bytes())
                            .unwrap(),
                    ],
                    PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap();
        assert_eq!(
            stream.get_ref().1.alpn_protocol(),
            Some(protocol),
            "the protocol that was asked for"
        );
        stream
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.serving.await.unwrap();
        self.tasks.shutdown(Duration::from_secs(5)).await;
    }
}

fn get(path: &str, headers: &[(&str, &str)]) -> Request<Empty<Bytes>> {
    let mut request = Request::get(format!("https://127.0.0.1{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Empty::new()).unwrap()
}

async fn text_of(response: Response<Incoming>) -> String {
    String::from_utf8(
        response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .to_vec(),
    )
    .unwrap()
}

#[tokio::test]
async fn each_credential_is_known_for_what_it_is() {
    let served = Served::start().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let foreign = tls::Pki::open(elsewhere.path(), &[], &[], jiff::Timestamp::now())
        .unwrap()
        .admin;
    for (name, certificate, token, path, want) in [
        (
            "admin",
            Some(served.admin()),
            None,
            "/api/v1/namespaces",
            200,
        ),
        (
            "admin, metrics",
            Some(served.admin()),
            None,
            "/metrics",
            200,
        ),
        ("anonymous, health", None, None, "/readyz", 200),
        ("anonymous, version", None, None, "/version", 200),
        ("anonymous, objects", None, None, "/api/v1/namespaces", 403),
        ("anonymous, metrics", None, None, "/metrics", 403),
        (
            "good token, discovery",
            None,
            Some("Bearer secret"),
            "/apis",
            200,
        ),
        (
            "good token, objects",
            None,
            Some("Bearer secret"),
            "/api/v1/namespaces",
            403,
        ),
        ("bad token", None, Some("Bearer guess"), "/version", 401),
        ("foreign certificate", Some(&foreign), None, "/version", 401),
        (
            "foreign certificate, good token",
            Some(&foreign),
            Some("Bearer secret"),
            "/version",
            200,
        ),
    ] {
        let mut client = served.http2(certificate).await;
        let headers: Vec<(&str, &str)> = token
            .iter()
            .map(|token| ("authorization", *token))
            .collect();
        let response = client.send_request(get(path, &headers)).await.unwrap();
        let code = response.status().as_u16();
        assert_eq!(code, want, "{name}: {}", text_of(response).await);
    }
    served.stop().await;
}

#[tokio::test]
async fn http_1_is_served_beside_http_2() {
    let served = Served::start().await;
    let stream = served.connect(Some(served.admin()), b"http/1.1").await;
    let (mut client, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    drop(served.tasks.spawn("client", connection));
    for _again in 0..2 {
        let response = client.send_request(get("/version", &[])).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(
            text_of(response).await.contains("\"gitVersion\": \"v1.36."),
            "the version is told"
        );
    }
    drop(client);
    served.stop().await;
}

#[tokio::test]
async fn answers_have_the_headers_that_clients_expect() {
    let served = Served::start().await;
    let mut client = served.http2(Some(served.admin())).await;
    let response = client
        .send_request(get("/api/v1/namespaces/default", &[("audit-id", "mine")]))
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["audit-id"], "mine");
    assert_eq!(response.headers()["cache-control"], "no-cache, private");
    assert_eq!(response.headers()["content-type"], "application/json");
    assert!(response.headers().contains_key("date"), "the date is told");

    for path in [
        "/nowhere",
        "/apis/no.such.group/v1",
        "/apis/no.such.group/v1/things",
        "/clusters/a/clusters/b",
    ] {
        let response = client.send_request(get(path, &[])).await.unwrap();
        assert_eq!(response.status(), 404, "{path}");
        assert_eq!(
            response.headers()["content-type"],
            "text/plain; charset=utf-8",
            "{path}"
        );
        assert_eq!(text_of(response).await, "404 page not found\n", "{path}");
    }
    let unknown = client
        .send_request(get("/api/v1/things", &[]))
        .await
        .unwrap();
    assert_eq!(unknown.status(), 404);
    assert!(
        text_of(unknown)
            .await
            .contains("the server could not find the requested resource"),
        "a Status"
    );

    let cluster = client
        .send_request(get("/clusters/nowhere/api/v1/pods", &[]))
        .await
        .unwrap();
    assert_eq!(cluster.status(), 404);
    assert!(
        text_of(cluster)
            .await
            .contains(r#"spoke \"nowhere\" not found"#),
        "a Status"
    );
    served.stop().await;
}

#[tokio::test]
async fn head_is_answered_without_a_body() {
    let served = Served::start().await;
    let mut client = served.http2(Some(served.admin())).await;
    let mut request = get("/apis", &[]);
    *request.method_mut() = http::Method::HEAD;
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_ne!(response.headers()["content-length"], "0");
    assert_eq!(text_of(response).await, "");
    served.stop().await;
}

#[tokio::test]
async fn a_drain_ends_watches_cleanly_and_accepts_nothing_more() {
    let served = Served::start().await;
    let address = served.address;
    let mut client = served.http2(Some(served.admin())).await;
    let watch = client
        .send_request(get("/api/v1/namespaces?watch=true", &[]))
        .await
        .unwrap();
    assert_eq!(watch.status(), 200);
    let mut body = watch.into_body();
    let first = body.frame().await.unwrap().unwrap();
    assert!(first.is_data(), "namespaces that are there come first");
    served.stop().await;
    while let Some(frame) = body.frame().await {
        frame.expect("the watch ends as if it were complete");
    }
    TcpStream::connect(address)
        .await
        .expect_err("nobody listens any more");
}

#[tokio::test]
async fn a_kube_client_works_in_process() {
    let served = Served::start().await;
    let user = crate::request::UserInfo::system("system:wheelhouse:test");
    let client = kube::Client::new(served.hub.in_process(user), "default");
    let request = Request::get("/api/v1/namespaces/kube-system")
        .body(Vec::new())
        .unwrap();
    let namespace: serde_json::Value = client.request(request).await.unwrap();
    assert_eq!(namespace["metadata"]["name"], "kube-system");
    let missing = Request::get("/api/v1/namespaces/none")
        .body(Vec::new())
        .unwrap();
    match client.request::<serde_json::Value>(missing).await {
        Err(kube::Error::Api(status)) => assert_eq!(status.reason, "NotFound"),
        other => panic!("{other:?}"),
    }
    drop(client);
    served.stop().await;
}
