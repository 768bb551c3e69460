use std::convert::Infallible;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::StreamExt as _;
use http::{Method, StatusCode, Version};
use http_body_util::{Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::Switched;
use crate::testing::{PATIENCE, Reply, Server, Wire, held, never, reply};

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(path).body(Empty::new()).unwrap()
}

async fn text(response: Response<ResponseBody>) -> String {
    let bytes = timeout(PATIENCE, response.into_body().collect())
        .await
        .unwrap()
        .unwrap();
    String::from_utf8(bytes.to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn calls_share_one_connection_and_keep_the_path_of_the_server() {
    let server = Server::start(|_| reply(200, "ok")).await;
    let connection = server
        .connect_as(server.address, "/clusters/east", "token: secret")
        .await;
    for _ in 0..5 {
        let response = connection
            .send(get("/version?a=b"), Identity::Kubeconfig)
            .await
            .unwrap();
        assert_eq!(text(response).await, "ok");
    }
    assert_eq!(server.connection_count(), 1);
    let seen = server.seen();
    assert_eq!(seen[0].line, "GET /clusters/east/version?a=b");
    assert_eq!(seen[0].version, Version::HTTP_2);
    assert!(
        seen[0].headers["user-agent"]
            .to_str()
            .unwrap()
            .starts_with("wheelhouse/")
    );
    assert_eq!(connection.server().path(), "/clusters/east");
}

#[tokio::test]
async fn a_call_does_not_wait_for_watches_to_end() {
    // A server that allows as many streams as kube-apiserver does at least.
    let server = Server::start_with(100, |request| {
        if request.uri().path() == "/watch" {
            stream_forever()
        } else {
            reply(200, "ok")
        }
    })
    .await;
    let connection = server.connect().await;
    let mut watches = Vec::new();
    for _ in 0..150 {
        watches.push(
            connection
                .send(get("/watch"), Identity::Kubeconfig)
                .await
                .unwrap(),
        );
    }
    let call = connection.send(get("/version"), Identity::Kubeconfig);
    let response = timeout(PATIENCE, call)
        .await
        .expect("the call waits for a watch")
        .unwrap();
    assert_eq!(text(response).await, "ok");
    let lines = server.lines();
    assert_eq!(
        lines.iter().filter(|line| line.ends_with("/watch")).count(),
        150
    );
}

fn stream_forever() -> Reply {
    held(vec![Bytes::from_static(b"\n")])
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_given_up_soon() {
    let server = Server::start(|_| reply(200, "ok")).await;
    let wire = Wire::to(server.address).await;
    wire.freeze();
    let mut options = Options::default();
    options.timing.connect_timeout = Duration::from_millis(100);
    let kubeconfig = server.kubeconfig(wire.address, "", "token: secret");
    let connection = connect(&kubeconfig, None, &options).await.unwrap();
    let call = connection.send(get("/version"), Identity::Kubeconfig);
    let error = timeout(PATIENCE, call)
        .await
        .expect("connecting has no deadline")
        .unwrap_err();
    assert!(error.unreachable(), "{error:?}");
    assert!(
        error.chain().contains("not connected after 100 ms"),
        "{}",
        error.chain()
    );
}

#[tokio::test]
async fn a_stream_to_a_frozen_server_breaks_and_the_next_call_connects_anew() {
    let server = Server::start(|request| {
        if request.uri().path() == "/watch" {
            stream_forever()
        } else {
            reply(200, "ok")
        }
    })
    .await;
    let wire = Wire::to(server.address).await;
    let connection = server.connect_as(wire.address, "", "token: secret").await;
    let mut watch = connection
        .send(get("/watch"), Identity::Kubeconfig)
        .await
        .unwrap()
        .into_body();
    watch.frame().await.unwrap().unwrap();
    wire.freeze();
    let broken = timeout(PATIENCE, watch.frame())
        .await
        .expect("nobody noticed")
        .unwrap();
    assert!(broken.is_err());
    wire.thaw();
    let call = connection.send(get("/version"), Identity::Kubeconfig);
    let response = timeout(PATIENCE, call).await.unwrap().unwrap();
    assert_eq!(text(response).await, "ok");
}

#[tokio::test]
async fn bodies_stream_in_both_directions() {
    let server = Server::start(|request| {
        let frames = request
            .into_body()
            .into_data_stream()
            .map(|chunk| Ok::<_, Infallible>(Frame::data(chunk.unwrap_or_default())));
        let body = StreamBody::new(frames).boxed_unsync();
        Box::pin(async move { Response::new(body) })
    })
    .await;
    let connection = server.connect().await;
    let (sender, receiver) = mpsc::unbounded_channel::<Bytes>();
    let chunks = futures::stream::unfold(receiver, |mut receiver| async move {
        Some((
            Ok::<_, Infallible>(Frame::data(receiver.recv().await?)),
            receiver,
        ))
    });
    let request = Request::post("/echo")
        .body(StreamBody::new(chunks))
        .unwrap();
    sender.send(Bytes::from_static(b"one")).unwrap();
    let response = timeout(PATIENCE, connection.send(request, Identity::Kubeconfig)).await;
    let mut body = response
        .expect("the request is held back")
        .unwrap()
        .into_body();
    for (got, next) in [("one", Some("two")), ("two", None)] {
        let frame = timeout(PATIENCE, body.frame())
            .await
            .expect("the answer is held back");
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), got);
        if let Some(next) = next {
            sender.send(Bytes::from_static(next.as_bytes())).unwrap();
        }
    }
    drop(sender);
    let rest = timeout(PATIENCE, body.collect())
        .await
        .expect("the answer does not end")
        .unwrap();
    assert_eq!(rest.to_bytes(), "");
}

#[tokio::test]
async fn a_token_of_the_request_never_travels_with_the_hubs_credential() {
    let server = Server::start(|_| reply(200, "ok")).await;
    let connection = server
        .connect_as(server.address, "", &server.certificate_user())
        .await;
    let request = || {
        let mut request = get("/api");
        let token = http::HeaderValue::from_static("Bearer of-the-user");
        request.headers_mut().insert(header::AUTHORIZATION, token);
        request
    };
    connection.send(request(), Identity::Request).await.unwrap();
    connection
        .send(get("/api"), Identity::Kubeconfig)
        .await
        .unwrap();
    connection.send(request(), Identity::Request).await.unwrap();
    let seen = server.seen();
    let got: Vec<(bool, bool)> = seen
        .iter()
        .map(|it| {
            (
                it.has_client_certificate,
                it.headers.contains_key("authorization"),
            )
        })
        .collect();
    assert_eq!(got, [(false, true), (true, false), (false, true)]);
}

#[tokio::test]
async fn the_token_of_the_kubeconfig_replaces_what_the_request_brings() {
    let server = Server::start(|_| reply(200, "ok")).await;
    let connection = server.connect().await;
    let mut request = get("/api");
    let token = http::HeaderValue::from_static("Bearer of-the-user");
    request.headers_mut().insert(header::AUTHORIZATION, token);
    request
        .headers_mut()
        .insert(header::HOST, http::HeaderValue::from_static("elsewhere"));
    connection
        .send(request, Identity::Kubeconfig)
        .await
        .unwrap();
    let seen = server.seen();
    let tokens: Vec<_> = seen[0].headers.get_all("authorization").iter().collect();
    assert_eq!(tokens, ["Bearer secret"]);
    assert!(!seen[0].headers.contains_key("host"));
}

/// Switches to `protocol` and says four bytes backwards; asked for `/no`, refuses.
async fn switches_to(protocol: &'static str) -> Server {
    let reply = move |mut request: Request<hyper::body::Incoming>| -> Reply {
        if request.uri().path() == "/no" {
            return reply(403, "no");
        }
        let upgrade = hyper::upgrade::on(&mut request);
        let tasks = tasks::Tasks::new();
        tasks.spawn("echo", async move {
            let Ok(stream) = upgrade.await else { return };
            let mut stream = TokioIo::new(stream);
            let mut bytes = [0; 4];
            if stream.read_exact(&mut bytes).await.is_ok() {
                bytes.reverse();
                drop(stream.write_all(&bytes).await);
            }
        });
        Box::pin(async move {
            Response::builder()
                .status(StatusCode::SWITCHING_PROTOCOLS)
                .header("connection", "Upgrade")
                .header("upgrade", protocol)
                .body(Full::default().boxed_unsync())
                .unwrap()
        })
    };
    Server::start(reply).await
}

fn to_exec(path: &str) -> Request<()> {
    Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(path)
        .body(())
        .unwrap()
}

#[tokio::test]
async fn an_upgrade_goes_over_http_1_and_can_be_taken_over() {
    let server = switches_to("spdy/3.1").await;
    let connection = server.connect().await;
    let request = to_exec("/exec?command=sh");
    let answer = connection
        .upgrade(request, Protocol::Spdy, Identity::Kubeconfig)
        .await;
    let Upgrade::Switched(Switched { head, mut stream }) = answer.unwrap() else {
        panic!("the server switches");
    };
    assert_eq!(head.status, StatusCode::SWITCHING_PROTOCOLS);
    stream.write_all(b"abcd").await.unwrap();
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"dcba");
    let seen = server.seen();
    assert_eq!(seen[0].version, Version::HTTP_11);
    assert_eq!(seen[0].headers["authorization"], "Bearer secret");
    assert_eq!(seen[0].headers["upgrade"], "SPDY/3.1");
}

/// The class of CVE-2018-1002105: the connection of a failed upgrade is authenticated as the hub.
#[tokio::test]
async fn what_is_no_upgrade_leaves_no_connection() {
    let server = switches_to("websocket").await;
    let connection = server.connect().await;
    for count in 1..=3 {
        let request = to_exec("/no");
        let answer = connection.upgrade(request, Protocol::Spdy, Identity::Kubeconfig);
        let Upgrade::Answered(answer) = answer.await.unwrap() else {
            panic!("the server refuses");
        };
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "no");
        assert_eq!(server.connection_count(), count, "one for each");
    }
    let request = to_exec("/other");
    let answer = connection.upgrade(request, Protocol::Spdy, Identity::Kubeconfig);
    let error = answer.await.expect_err("another protocol");
    assert!(matches!(error, Error::Switch(_)), "{error:?}");
    // A header alone asks for nothing.
    let plain = Request::get("/no").header("upgrade", "websocket");
    let plain = plain.body(Empty::<Bytes>::new()).unwrap();
    drop(connection.send(plain, Identity::Kubeconfig).await.unwrap());
    let seen = server.seen();
    let last = seen.last().unwrap();
    assert!(!last.headers.contains_key("upgrade"), "{last:?}");
}

#[tokio::test]
async fn a_stream_counts_until_its_body_or_its_call_is_dropped() {
    let server = Server::start(|request| match request.uri().path() {
        "/never" => never(),
        _ => stream_forever(),
    })
    .await;
    let kubeconfig = server.kubeconfig(server.address, "", "token: secret");
    let config = kube::Config::try_from(kubeconfig::parse(&kubeconfig).unwrap()).unwrap();
    let name = config.tls_server_name.clone().unwrap().try_into().unwrap();
    let tls = config.rustls_client_config().unwrap();
    let mut transport = Transport::new(tls, Some(name), crate::testing::hasty());
    let mut call = |path: &str| {
        let uri = format!("https://{}{path}", server.address);
        transport.call(
            Request::get(uri)
                .body(request_body(Empty::<Bytes>::new()))
                .unwrap(),
        )
    };
    let response = call("/watch").await.unwrap();
    let pending = call("/never");
    assert_eq!(transport.load(), (1, 2));
    drop(pending);
    assert_eq!(transport.load(), (1, 1));
    drop(response);
    assert_eq!(transport.load(), (1, 0));
}

#[tokio::test]
async fn a_service_in_the_same_process_is_a_client_too() {
    let client = in_process(tower::service_fn(
        |request: Request<kube::client::Body>| async move {
            let path = request.uri().path().to_owned();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(format!(
                "{{\"path\":\"{path}\"}}"
            )))))
        },
    ));
    let answer = crate::Dynamic::new(client)
        .raw_get("/clusters/root/api")
        .await
        .unwrap();
    assert_eq!(answer, "{\"path\":\"/clusters/root/api\"}");
}

/// Made by `openssl x509 -req -signkey` without extensions. It is read before it is compared with its key.
const VERSION_ONE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBEjCBuQIUL8VfLQpkbJoc3p5vbFy4pt4h1TMwCgYIKoZIzj0EAwIwDDEKMAgG
A1UEAwwBeDAeFw0yNjExMjcyMDE3NTlaFw0yNjEyMDcyMDE3NTlaMAwxCjAIBgNV
BAMMAXgwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARfHAWHqSh94Mn44DTxnmA8
bI22s/F/ZykFf91xrvJBSJYUmQKfLlp6MHMHypzMV6dfIHBkPwsoIzSo73XjGrex
MAoGCCqGSM49BAMCA0gAMEUCIQDV9SissxzALEPFCHIbE2tM7+dEQIgmnxrDpGP1
xN+ecgIgbEu2ubhxVjsjoENUNVnpmTELYhgUQaOgZ62RVT5mKp4=
-----END CERTIFICATE-----
";

#[tokio::test]
async fn what_cannot_be_used_is_said_before_anything_is_dialled() {
    let server = Server::start(|_| reply(200, "ok")).await;
    let good = server.kubeconfig(server.address, "", "token: t");
    let key = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let [old, key] = [VERSION_ONE, &key].map(|pem| STANDARD.encode(pem));
    let old = format!("client-certificate-data: {old}, client-key-data: {key}");
    for (kubeconfig, context, want) in [
        ("{".to_owned(), None, "kubeconfig: "),
        (good.clone(), Some("missing"), "kubeconfig: "),
        (
            good.replace(
                "tls-server-name",
                "proxy-url: 'http://p:1', tls-server-name",
            ),
            None,
            "kubeconfig: proxy-url",
        ),
        (
            good.replace("token: t", "exec: {command: sh}"),
            None,
            "kubeconfig: exec is not allowed here",
        ),
        (
            good.replace("token: t", &old),
            None,
            "kubeconfig: the client certificate is of X.509 version 1",
        ),
    ] {
        let error = connect(&kubeconfig, context, &Options::default())
            .await
            .unwrap_err();
        assert!(error.to_string().starts_with(want), "{error}");
    }
    assert_eq!(server.connection_count(), 0);
}

#[tokio::test]
async fn a_successor_sends_for_those_who_have_the_connection_and_what_runs_goes_on() {
    let (chunks, watch) = crate::testing::stream();
    let watch = std::sync::Mutex::new(Some(watch));
    let server = Server::start(move |request| match request.uri().path() {
        "/watch" => watch.lock().unwrap().take().unwrap(),
        _ => reply(200, "{}"),
    })
    .await;
    let connection = server.connect_as(server.address, "", "token: before").await;
    let dynamic = crate::Dynamic::new(connection.client());
    let running = connection.send(get("/watch"), Identity::Kubeconfig).await;
    let mut running = running.unwrap().into_body();
    let elsewhere = server.connect_as(server.address, "/b", "token: x").await;
    assert!(!connection.succeed_by(&elsewhere), "it may be another one");
    let successor = server.connect_as(server.address, "", "token: after").await;
    assert!(connection.succeed_by(&successor));
    drop(successor);
    dynamic.raw_get("/version").await.unwrap();
    connection
        .send(get("/apis"), Identity::Kubeconfig)
        .await
        .unwrap();
    chunks.send(Bytes::from_static(b"on")).unwrap();
    let frame = timeout(PATIENCE, running.frame()).await.unwrap().unwrap();
    assert_eq!(frame.unwrap().into_data().unwrap(), "on", "it goes on");
    let tokens: Vec<(String, String)> = server
        .seen()
        .iter()
        .map(|seen| {
            let token = seen.headers["authorization"].to_str().unwrap();
            (seen.line.clone(), token.to_owned())
        })
        .collect();
    let want = [
        ("GET /watch", "Bearer before"),
        ("GET /version", "Bearer after"),
        ("GET /apis", "Bearer after"),
    ];
    let want = want.map(|(line, token)| (line.to_owned(), token.to_owned()));
    assert_eq!(tokens, want);
}

#[tokio::test]
async fn only_where_no_connection_came_about_has_the_request_no_part_in_a_failure() {
    let server = Server::start(|_| reply(200, "{}")).await;
    let connection = server.connect().await;
    let broken = futures::stream::iter([
        Ok(Frame::data(Bytes::from_static(b"half"))),
        Err(BoxError::from("the client went away")),
    ]);
    let request = Request::post("/").body(StreamBody::new(broken)).unwrap();
    let error = connection.send(request, Identity::Kubeconfig).await;
    let error = error.map(drop).expect_err("the body broke off");
    assert!(error.unreachable() && !error.is_connect(), "{error:?}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let connection = server.connect_as(address, "", "token: t").await;
    let error = connection.send(get("/"), Identity::Kubeconfig).await;
    let error = error.map(drop).expect_err("nobody listens");
    assert!(error.is_connect(), "{error:?}");
    let error = crate::Dynamic::new(connection.client())
        .raw_get("/version")
        .await;
    let error = error.expect_err("nobody listens");
    assert!(error.is_connect(), "{error:?}");
}
