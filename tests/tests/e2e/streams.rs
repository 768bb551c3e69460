//! Streams through the hub are those of the spoke: unmodified kubectl at both, with WebSocket and with SPDY.

use std::{process::Stdio, time::Duration};

use bytes::Bytes;
use client::Identity;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::{Child, ChildStdout},
};
use wheelhouse_tests::{
    Hub, Kubectl, Kubelet, Spoke,
    backend::{self, Backend},
    eventually,
    hub::Settings,
    kubectl::Ran,
    process,
    spoke::Options,
    wait::within,
};

/// How long something may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_mins(1);
/// A stream of this size fills every buffer on its way.
const LARGE_BYTES: usize = 4 * 1024 * 1024;
/// Pieces of 64 KiB of an answer that is larger than what the hub may hold.
const LARGE_PIECES: usize = 2 * 1024;
/// How much more memory the hub may take for it.
const GROWTH_MAX: u64 = 64 * 1024 * 1024;

/// A hub, and a spoke with a pod that runs.
struct Scene {
    hub: Hub,
    east: Spoke,
    kubelet: Kubelet,
    web: Backend,
    mirror: Backend,
}

impl Scene {
    async fn set() -> Self {
        let options = Options {
            without_controllers: true,
            ..Options::default()
        };
        // No stream and no body may make the hub need more than this.
        let settings = Settings {
            address_limit: Some(1 << 30),
            ..Settings::default()
        };
        let (hub, east) = tokio::join!(
            Hub::start_with(settings),
            Spoke::start_with("east", options)
        );
        hub.join(&east).await;
        let (web, mirror) = tokio::join!(Backend::web(), Backend::mirror());
        let account = ["create", "serviceaccount", "default"];
        east.kubectl().must(&account).await;
        let kubelet = Kubelet::start(&east).await;
        let address = backend::address().expect("an address that is not loopback, for the pod");
        kubelet.run_pod(&east, "web", &address).await;
        serve(&east, &address, web.port).await;
        Self {
            hub,
            east,
            kubelet,
            web,
            mirror,
        }
    }

    fn path(&self) -> Kubectl {
        self.hub.at("east")
    }

    /// Runs kubectl at the spoke and at its path on the hub, which must come to the same; returns what that is.
    async fn same(&self, arguments: &[&str], input: &[u8], protocol: Protocol) -> (Ran, Vec<u8>) {
        let direct = protocol.chosen_by(self.east.kubectl());
        let path = protocol.chosen_by(self.path());
        let (direct, path) =
            tokio::join!(run(&direct, arguments, input), run(&path, arguments, input));
        let what = format!("{arguments:?} by {protocol:?}");
        assert_eq!(direct.0.code, path.0.code, "{what}: {direct:?} {path:?}");
        assert_eq!(direct.0.stderr, path.0.stderr, "{what}");
        assert!(direct.1 == path.1, "{what}: the output differs");
        path
    }
}

/// How kubectl streams.
#[derive(Clone, Copy, Debug)]
enum Protocol {
    WebSocket,
    Spdy,
}

impl Protocol {
    fn chosen_by(self, kubectl: Kubectl) -> Kubectl {
        let websockets = matches!(self, Self::WebSocket).to_string();
        kubectl
            .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets.as_str())
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
    }
}

/// Runs kubectl with bytes on standard input; returns what it printed, also as bytes.
async fn run(kubectl: &Kubectl, arguments: &[&str], input: &[u8]) -> (Ran, Vec<u8>) {
    let mut command = kubectl.command(arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("kubectl");
    let mut stdin = child.stdin.take().expect("it is piped");
    let writing = async {
        // kubectl may end without reading; the broken pipe then says nothing new.
        drop(stdin.write_all(input).await);
        drop(stdin);
    };
    let output = tokio::time::timeout(PATIENCE, async {
        let (output, ()) = tokio::join!(child.wait_with_output(), writing);
        output.expect("kubectl ends")
    });
    let output = output.await.expect("kubectl ends in time");
    let stdout = output.stdout.clone();
    (output.into(), stdout)
}

/// Makes a service of the web server in the pod.
async fn serve(east: &Spoke, address: &str, port: u16) {
    let manifest = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: default}}\n\
         spec: {{ports: [{{name: http, port: 80, targetPort: {port}}}]}}\n---\n\
         apiVersion: v1\nkind: Endpoints\nmetadata: {{name: web, namespace: default}}\n\
         subsets: [{{addresses: [{{ip: {address}, targetRef: {{kind: Pod, namespace: default, name: web}}}}], \
         ports: [{{name: http, port: {port}}}]}}]\n"
    );
    east.kubectl().apply(&manifest).await;
}

/// Bytes that no layer would make of itself: each depends on where it stands.
fn pattern(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_through_the_hub_are_those_of_the_spoke() {
    let scene = Scene::set().await;
    for protocol in [Protocol::WebSocket, Protocol::Spdy] {
        commands_run(&scene, protocol).await;
        files_are_copied(&scene, protocol).await;
        a_client_is_attached(&scene, protocol).await;
        ports_are_forwarded(&scene, protocol).await;
        what_is_refused_is_told(&scene, protocol).await;
    }
    logs_are_followed(&scene).await;
    applications_are_reached(&scene).await;
    an_application_speaks_its_own_protocol(&scene).await;
    kubectl_proxy_reaches_the_path(&scene).await;
    bodies_pass_as_they_are(&scene).await;
    a_stalled_stream_is_in_nobodys_way(&scene).await;
    an_embedded_cluster_says_that_nothing_runs(&scene).await;
    streams_end_with_the_hub(scene).await;
}

async fn commands_run(scene: &Scene, protocol: Protocol) {
    let script = "echo out; echo err >&2; exit 7";
    let arguments = ["exec", "web", "--", "sh", "-c", script];
    let (ran, _) = scene.same(&arguments, b"", protocol).await;
    assert_eq!((ran.code, &*ran.stdout), (7, "out\n"), "{protocol:?}");
    assert!(ran.stderr.starts_with("err\n"), "{}", ran.stderr);
    let sent = pattern(LARGE_BYTES);
    let (ran, received) = scene
        .same(&["exec", "-i", "web", "--", "cat"], &sent, protocol)
        .await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(received == sent, "{} bytes came back", received.len());
}

async fn files_are_copied(scene: &Scene, protocol: Protocol) {
    let here = scene.kubelet.folder(&format!("here-{protocol:?}"));
    let there = scene.kubelet.folder(&format!("there-{protocol:?}"));
    let sent = pattern(LARGE_BYTES / 4);
    let (from, back) = (here.join("sent"), here.join("back"));
    std::fs::write(&from, &sent).expect("a file");
    let in_pod = format!("default/web:{}", there.join("file").display());
    let kubectl = protocol.chosen_by(scene.path());
    let text = |path: &std::path::Path| path.display().to_string();
    kubectl.must(&["cp", &text(&from), &in_pod]).await;
    assert!(
        std::fs::read(there.join("file")).ok().as_ref() == Some(&sent),
        "it arrived"
    );
    kubectl.must(&["cp", &in_pod, &text(&back)]).await;
    assert!(std::fs::read(&back).ok() == Some(sent), "it came back");
}

async fn a_client_is_attached(scene: &Scene, protocol: Protocol) {
    let arguments = ["attach", "-i", "web"];
    let (ran, _) = scene.same(&arguments, b"hello\n", protocol).await;
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "attached\nhello\n"),
        "{}",
        ran.stderr
    );
}

async fn what_is_refused_is_told(scene: &Scene, protocol: Protocol) {
    for arguments in [
        ["exec", "nobody", "--", "true"].as_slice(),
        &["exec", "web", "-c", "other", "--", "true"],
        &["port-forward", "pod/nobody", ":80"],
        &["logs", "web", "-c", "other"],
    ] {
        let (ran, _) = scene.same(arguments, b"", protocol).await;
        assert_ne!(ran.code, 0, "{arguments:?}");
    }
}

/// A kubectl that goes on, and its output.
pub(super) fn start(kubectl: &Kubectl, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = kubectl.command(arguments).spawn().expect("kubectl");
    let stdout = child.stdout.take().expect("it is piped");
    (child, BufReader::new(stdout))
}

pub(super) async fn line(output: &mut BufReader<ChildStdout>, what: &str) -> String {
    let mut line = String::new();
    let read = tokio::time::timeout(PATIENCE, output.read_line(&mut line)).await;
    let read = read.map_err(|_elapsed| format!("not printed: {what}"));
    read.expect("in time").expect("kubectl prints text");
    line
}

/// The port in `... 127.0.0.1:12345 ...`.
pub(super) fn port(line: &str) -> u16 {
    let after = line.split("127.0.0.1:").nth(1).unwrap_or_default();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a port")
}

/// Opens connections to a forwarded port that leads to something that sends back what it gets.
pub(super) async fn are_mirrored(port: u16, count: usize) {
    // All at once, and each says what it has to say before it is answered: the end of one direction passes alone.
    let asking = (1..=count).map(|number: usize| async move {
        let mut stream = TcpStream::connect(("127.0.0.1", port))
            .await
            .expect("kubectl listens");
        let sent = pattern(number * 10_000);
        let (mut read, mut write) = stream.split();
        let mut received = Vec::new();
        let writing = async {
            write.write_all(&sent).await.expect("all of it is taken");
            write.shutdown().await.expect("the end is taken");
        };
        let (read, ()) = tokio::join!(read.read_to_end(&mut received), writing);
        read.expect("all of it comes");
        assert!(
            received == sent,
            "{} of {} bytes",
            received.len(),
            sent.len()
        );
    });
    let all = tokio::time::timeout(PATIENCE, futures::future::join_all(asking)).await;
    all.expect("all are answered");
}

async fn ports_are_forwarded(scene: &Scene, protocol: Protocol) {
    let kubectl = protocol.chosen_by(scene.path());
    let forwarded = format!(":{}", scene.mirror.port);
    let arguments = ["port-forward", "pod/web", &forwarded, "--address=127.0.0.1"];
    let (child, mut output) = start(&kubectl, &arguments);
    let port = port(&line(&mut output, "the forwarded port").await);
    are_mirrored(port, 16).await;
    drop(child);
}

async fn logs_are_followed(scene: &Scene) {
    scene.kubelet.log("web", "one\n");
    let (mut child, mut output) = start(&scene.path(), &["logs", "-f", "web"]);
    let first = line(&mut output, "what was there").await;
    assert_eq!(first, "one\n", "what was there");
    for text in ["two\n", "three\n"] {
        scene.kubelet.log("web", text);
        let next = line(&mut output, "what is added").await;
        assert_eq!(next, text, "as it is written");
    }
    child.kill().await.expect("kubectl can be ended");
    let (ran, _) = scene.same(&["logs", "web"], b"", Protocol::Spdy).await;
    assert_eq!(ran.stdout, "one\ntwo\nthree\n", "all of it");
}

/// Sends a request to the hub as its administrator, or to the spoke as its own.
async fn ask(
    kubeconfig: &std::path::Path,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, HeaderMap, Bytes) {
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let connection = client::connect(&text, None, &client::Options::default()).await;
    let connection = connection.expect("it is sound");
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let answer = connection.send(request, Identity::Kubeconfig).await;
    let (head, body) = answer.expect("an answer").into_parts();
    let body = body.collect().await.expect("all of it").to_bytes();
    (head.status, head.headers, body)
}

async fn applications_are_reached(scene: &Scene) {
    let port = scene.web.port;
    let pod = format!("/api/v1/namespaces/default/pods/web:{port}/proxy");
    let service = "/api/v1/namespaces/default/services/http:web:80/proxy";
    let by_name = "/api/v1/namespaces/default/services/web:http/proxy";
    for path in [&*pod, service, by_name] {
        let path = format!("{path}/echo?a=b%2Fc&d");
        let (ran, _) = scene
            .same(&["get", "--raw", &path], b"", Protocol::Spdy)
            .await;
        assert!(
            ran.stdout.contains("GET /echo"),
            "{path}: {}{}",
            ran.stdout,
            ran.stderr
        );
    }
    // kube-apiserver is no proxy of a node on loopback, where the kubelet of the trial stays.
    let node = ["get", "--raw", "/api/v1/nodes/node-1/proxy/echo"];
    let (ran, _) = scene.same(&node, b"", Protocol::Spdy).await;
    assert!(ran.stderr.contains("address not allowed"), "{}", ran.stderr);
    let hub = scene.hub.kubeconfig();
    let headers = [("cookie", "session=1"), ("x-mine", "there")];
    let at = |rest: &str| format!("/clusters/east{pod}{rest}");
    let (status, back, said) = ask(&hub, "DELETE", &at("/x"), &headers).await;
    assert_eq!(status, StatusCode::OK, "{said:?}");
    assert_eq!(said, "DELETE /x  0 - - there\n", "no cookie, no credential");
    assert_eq!(back["x-mine"], "back", "{back:?}");
    assert!(!back.contains_key("set-cookie"), "{back:?}");
    // A redirect of the application's leads to the application.
    for (location, want) in [("/next?a=b", Some("/next?a=b")), ("/", Some("/"))] {
        let (status, headers, _) = ask(&hub, "GET", &at(&format!("/to?{location}")), &[]).await;
        let want = want.map(at);
        assert_eq!(status, StatusCode::FOUND, "{location}");
        let found = headers
            .get("location")
            .map(|it| it.to_str().expect("text").to_owned());
        assert_eq!(found, want, "{location}");
    }
    for location in [
        "https://attacker/",
        "//attacker/",
        "/../../../secrets",
        "../../../../../secrets",
    ] {
        let (status, headers, _) = ask(&hub, "GET", &at(&format!("/to?{location}")), &[]).await;
        assert_eq!(status, StatusCode::BAD_GATEWAY, "{location}: {headers:?}");
        assert!(!headers.contains_key("location"), "{location}: {headers:?}");
    }
}

/// Bytes of an application's own protocol, through `kubectl proxy`.
async fn an_application_speaks_its_own_protocol(scene: &Scene) {
    let (child, mut output) = start(
        &scene.path(),
        &["proxy", "--port=0", "--append-server-path"],
    );
    let proxy = port(&line(&mut output, "where it serves").await);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy))
        .await
        .expect("kubectl proxy listens");
    let head = format!(
        "GET /api/v1/namespaces/default/pods/web:{}/proxy/socket HTTP/1.1\r\nhost: localhost\r\n\
         connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        scene.web.port
    );
    stream
        .write_all(head.as_bytes())
        .await
        .expect("kubectl proxy reads");
    let mut received = Vec::new();
    let talking = async {
        while !received.ends_with(b"\r\n\r\n") {
            received.push(stream.read_u8().await.expect("an answer"));
        }
        let text = String::from_utf8_lossy(&received).into_owned();
        assert!(text.starts_with("HTTP/1.1 101"), "{text}");
        let sent = pattern(LARGE_BYTES / 4);
        let (mut read, mut write) = stream.split();
        let mut back = vec![0; sent.len()];
        let (read, wrote) = tokio::join!(read.read_exact(&mut back), write.write_all(&sent));
        read.expect("all of it comes back");
        wrote.expect("all of it is taken");
        assert!(back == sent, "untouched");
    };
    tokio::time::timeout(PATIENCE, talking)
        .await
        .expect("in time");
    drop(child);
}

async fn kubectl_proxy_reaches_the_path(scene: &Scene) {
    let (child, mut output) = start(
        &scene.path(),
        &["proxy", "--port=0", "--append-server-path"],
    );
    let proxy = port(&line(&mut output, "where it serves").await);
    let through = Kubectl::new(&scene.hub.kubeconfig()).server(format!("http://127.0.0.1:{proxy}"));
    let direct = scene
        .east
        .kubectl()
        .must(&["get", "pods", "-o", "name"])
        .await;
    let pods = through.must(&["get", "pods", "-o", "name"]).await;
    assert_eq!(pods, direct, "the pods");
    let logs = through.must(&["logs", "web"]).await;
    assert_eq!(logs, "one\ntwo\nthree\n", "the logs");
    drop(child);
}

/// Lists in other forms pass untouched, and one that is larger than the hub may grow.
async fn bodies_pass_as_they_are(scene: &Scene) {
    let (hub, east) = (scene.hub.kubeconfig(), scene.east.kubeconfig().clone());
    let list = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    for headers in [
        [
            ("accept", "application/vnd.kubernetes.protobuf"),
            ("accept-encoding", "identity"),
        ],
        [("accept", "application/json"), ("accept-encoding", "gzip")],
        [
            ("accept", "application/cbor"),
            ("accept-encoding", "identity"),
        ],
    ] {
        // A list bears the revision of the whole cluster, and any write to it makes a difference.
        let undisturbed = async {
            loop {
                let before = ask(&east, "GET", list, &headers).await;
                let path = ask(&hub, "GET", &format!("/clusters/east{list}"), &headers).await;
                let after = ask(&east, "GET", list, &headers).await;
                if before.2 == after.2 {
                    return (after, path);
                }
            }
        };
        let (direct, path) = tokio::time::timeout(PATIENCE, undisturbed)
            .await
            .expect("a moment without a write");
        assert_eq!(direct.0, path.0, "{headers:?}");
        for name in ["content-type", "content-encoding"] {
            assert_eq!(direct.1.get(name), path.1.get(name), "{headers:?}");
        }
        assert!(direct.2 == path.2, "{headers:?}");
    }
    let large = format!(
        "/clusters/east/api/v1/namespaces/default/pods/web:{}/proxy/large?{LARGE_PIECES}",
        scene.web.port
    );
    let pid = scene.hub.process().pid();
    let (_, before) = process::usage(pid);
    let text = std::fs::read_to_string(&hub).expect("a kubeconfig");
    let connection = client::connect(&text, None, &client::Options::default()).await;
    let request = Request::get(large)
        .body(Empty::<Bytes>::new())
        .expect("a request");
    let answer = connection
        .expect("it is sound")
        .send(request, Identity::Kubeconfig)
        .await;
    let mut body = answer.expect("an answer").into_body();
    let (mut length, mut most) = (0_u64, before);
    while let Some(frame) = body.frame().await {
        length += frame
            .expect("all of it")
            .data_ref()
            .map_or(0, |data| data.len() as u64);
        most = most.max(process::usage(pid).1);
    }
    assert_eq!(length, LARGE_PIECES as u64 * 64 * 1024, "all of it");
    assert!(
        most - before < GROWTH_MAX,
        "the hub grew by {} MiB",
        (most - before) >> 20
    );
}

/// The story: with Rancher, some `kubectl logs -f` that nobody read held up every other request for the cluster.
async fn a_stalled_stream_is_in_nobodys_way(scene: &Scene) {
    let kubectl = scene.path();
    let stalled: Vec<_> = (0..8)
        .map(|_| {
            kubectl
                .command(&["exec", "web", "--", "yes"])
                .spawn()
                .expect("kubectl")
        })
        .collect();
    let open = format!("wheelhouse_streams {}\n", stalled.len());
    let root = scene.hub.root();
    let metrics = || async {
        let metrics = root.must(&["get", "--raw", "/metrics"]).await;
        metrics.contains(&open).then_some(()).ok_or(metrics)
    };
    within(PATIENCE, "all streams are open and count", metrics).await;
    kubectl.must(&["get", "pods"]).await;
    commands_run(scene, Protocol::WebSocket).await;
    drop(stalled);
    within(PATIENCE, "none is left", || async {
        let metrics = root.must(&["get", "--raw", "/metrics"]).await;
        metrics
            .contains("wheelhouse_streams 0\n")
            .then_some(())
            .ok_or(metrics)
    })
    .await;
}

const EMBEDDED: &str = "apiVersion: wheelhouse.dev/v1alpha1\nkind: Spoke\n\
                        metadata: {name: inner}\nspec: {provider: Embedded}\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: default}\n\
                   spec: {containers: [{name: main, image: none}]}\n";

async fn an_embedded_cluster_says_that_nothing_runs(scene: &Scene) {
    scene.hub.root().apply(EMBEDDED).await;
    let inner = scene.hub.at("inner");
    eventually("the pod is made", || async {
        inner.run_with_input(&["apply", "-f", "-"], POD).await.ok()
    })
    .await;
    for protocol in [Protocol::WebSocket, Protocol::Spdy] {
        let inner = protocol.chosen_by(inner.clone());
        for arguments in [
            ["exec", "web", "--", "true"].as_slice(),
            &["attach", "web"],
            &["logs", "web"],
        ] {
            let ran = inner.run(arguments).await;
            assert_ne!(ran.code, 0, "{arguments:?}");
            let want = "pod web does not have a host assigned";
            assert!(ran.stderr.contains(want), "{arguments:?}: {}", ran.stderr);
        }
    }
}

async fn streams_end_with_the_hub(scene: Scene) {
    let arguments = [
        "exec",
        "-i",
        "web",
        "--",
        "sh",
        "-c",
        "echo begun; exec cat",
    ];
    let mut command = scene.path().command(&arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("kubectl");
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let begun = line(&mut output, "that it runs").await;
    assert_eq!(begun, "begun\n", "it runs");
    let process = scene.hub.process();
    process.signal("TERM");
    within(PATIENCE, "the hub ends", || async {
        let log = process.log();
        (!process.runs()).then_some(()).ok_or(log)
    })
    .await;
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
    let status = ended.expect("kubectl ends too").expect("it ran");
    assert!(!status.success(), "what was cut is no success");
}
