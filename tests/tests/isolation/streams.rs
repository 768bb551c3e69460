//! Streams: S11 and S13 for requests that ask for another protocol and for spokes that switch as they like, S16 and S26 for what comes of
//! them.

use std::time::Duration;

use serde_json::{Value, json};
use wheelhouse_tests::{
    hub::Settings,
    process::Scratch,
    wait::within,
    wire::{Address, FakeSpoke, Wire, json_answer},
};

use super::support::{Fixture, PATIENCE, RBAC};

const HTTP1: &[&str] = &["http/1.1"];
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/clusters/fake/api/v1/namespaces/default/pods";
/// Stands in every request that nobody sent as such.
const MARK: &str = "smuggled";
/// What asks for a stream.
const WEBSOCKET: &str = "connection: Upgrade\r\nupgrade: websocket\r\n";
/// Streams that a user may have.
const STREAM_COUNT: usize = 3;

/// A spoke whose pods answer a request for another protocol by their names.
pub(super) async fn hostile() -> FakeSpoke {
    FakeSpoke::start(|head, body| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let switch = |to: &str, rest: &str| {
            format!("HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: {to}\r\n\r\n{rest}").into_bytes()
        };
        match path {
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => json_answer(
                201,
                &json!({"kind": "SubjectAccessReview", "spec": sent["spec"], "status": {"allowed": true}}),
            ),
            "/version" => json_answer(200, &json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})),
            "/api/v1/namespaces/kube-system" => {
                json_answer(200, &json!({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "fake"}}))
            }
            MAPS => json_answer(200, &json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": []})),
            "/api/v1/namespaces/default/pods/good/exec" => switch("websocket", "hello of the pod"),
            "/api/v1/namespaces/default/pods/other/exec" => switch("h2c", "hello of another"),
            "/api/v1/namespaces/default/pods/switches" => switch("websocket", ""),
            "/api/v1/namespaces/default/pods/silent/exec" => Vec::new(),
            "/api/v1/namespaces/default/pods/refuses/exec" => json_answer(
                403,
                &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": "not this one"}),
            ),
            _ => json_answer(
                404,
                &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound"}),
            ),
        }
    })
    .await
}

/// A hub with that spoke, which alice may enter.
struct Stage {
    fixture: Fixture,
    spoke: FakeSpoke,
    address: Address,
    _scratch: Scratch,
}

impl Stage {
    async fn set() -> Self {
        let settings = Settings {
            arguments: vec![format!("--max-streams-per-user={STREAM_COUNT}")],
            ..Settings::default()
        };
        let fixture = Fixture::start_with(&["alice", "bob"], settings).await;
        let spoke = hostile().await;
        let scratch = Scratch::new("fake");
        let file = scratch.write("fake.kubeconfig", spoke.kubeconfig("fake"));
        let from = file.display().to_string();
        let arguments = ["spoke", "add", "fake", "--from", &from];
        fixture
            .hub
            .wheelhouse(&arguments)
            .await
            .succeeded("spoke add");
        for user in ["alice", "bob"] {
            fixture.allow_access(user, "fake").await;
            let user = fixture.user(user).await;
            user.until_status(&format!("/clusters/fake{MAPS}"), 200)
                .await;
        }
        let address = Address::of_kubeconfig(&fixture.kubeconfig(None));
        Self {
            fixture,
            spoke,
            address,
            _scratch: scratch,
        }
    }

    /// Sends a request as a user, and whatever stands behind its head.
    async fn ask(&self, user: &str, line: &str, headers: &str, behind: &str) -> Wire {
        let mut wire = Wire::connect(&self.address, HTTP1, None).await;
        let head = format!(
            "{line} HTTP/1.1\r\nhost: hub\r\nauthorization: Bearer {user}-token\r\n{headers}\r\n{behind}"
        );
        wire.write(head).await;
        wire
    }

    /// The same as alice, up to the head of the answer.
    async fn answered(&self, line: &str, headers: &str, behind: &str) -> (Wire, String) {
        let mut wire = self.ask("alice", line, headers, behind).await;
        let said = wire.read_until("\r\n\r\n").await;
        (wire, said)
    }

    /// The heads of the requests for pods that have reached the spoke.
    fn pods_asked(&self) -> Vec<String> {
        let mut heads = self.spoke.heads();
        heads.retain(|head| head.contains("/pods/"));
        heads
    }

    async fn open_count_is(&self, count: usize) {
        let admin = self.fixture.admin().await;
        let want = format!("wheelhouse_streams {count}\n");
        let what = format!("{count} streams are open");
        admin
            .until("/metrics", &what, |answer| {
                answer
                    .body
                    .as_str()
                    .is_some_and(|text| text.contains(&want))
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_s13_s16_a_stream_is_its_users_and_leaves_no_way_into_a_spoke() {
    let stage = Stage::set().await;
    what_a_stream_carries(&stage).await;
    what_fails_is_over(&stage).await;
    what_is_not_asked_for_is_not_switched_to(&stage).await;
    a_stream_counts(&stage).await;
    s16_a_stream_ends_with_the_right_to_it(&stage).await;
    // After all of it the hub serves whom it served before.
    let bob = stage.fixture.user("bob").await;
    bob.get(&format!("/clusters/fake{MAPS}")).await.must(200);
}

/// A stream is the user's, and its bytes go both ways, those too that came before it was one.
async fn what_a_stream_carries(stage: &Stage) {
    let line = format!("GET {PODS}/good/exec?command=sh");
    let headers = format!(
        "{WEBSOCKET}cookie: session=stolen\r\nimpersonate_user: system:admin\r\nx-remote-user: system:admin\r\n\
         sec-websocket-protocol: base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io\r\n"
    );
    let early = format!("GET /api/v1/secrets?{MARK} HTTP/1.1\r\n\r\n");
    let mut wire = stage.ask("alice", &line, &headers, &early).await;
    let said = wire.read_until("hello of the pod").await;
    assert!(said.starts_with("HTTP/1.1 101 "), "{said}");
    assert!(
        said.to_ascii_lowercase().contains("upgrade: websocket\r\n"),
        "{said}"
    );
    wire.write("later bytes").await;
    within(PATIENCE, "the bytes arrive", || async {
        let sent = stage.spoke.was_sent(&early) && stage.spoke.was_sent("later bytes");
        sent.then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    let heads = stage.pods_asked();
    let head = heads.first().expect("it was asked").to_ascii_lowercase();
    for want in [
        "connection: upgrade\r\n",
        "upgrade: websocket\r\n",
        "impersonate-user: alice\r\n",
        "v5.channel.k8s.io\r\n",
    ] {
        assert!(head.contains(want), "{want}: {head}");
    }
    for never in [
        "authorization:",
        "cookie:",
        "impersonate_user",
        "x-remote-user",
        "base64url",
    ] {
        assert!(!head.contains(never), "{never}: {head}");
    }
    drop(wire);
    stage.open_count_is(0).await;
}

/// The class of CVE-2018-1002105: what follows a request for a stream that was refused must not reach the spoke, where it would be the
/// hub's own.
async fn what_fails_is_over(stage: &Stage) {
    let hidden = format!("GET /api/v1/secrets?{MARK}-late HTTP/1.1\r\nhost: spoke\r\n\r\n");
    for (name, pod, code, text) in [
        ("a refusal", "refuses", "403", "not this one"),
        ("another protocol", "other", "502", "another protocol"),
        ("nothing there", "nobody", "404", "NotFound"),
    ] {
        let before = stage.pods_asked().len();
        let line = format!("GET {PODS}/{pod}/exec?command=sh");
        let mut wire = stage.ask("alice", &line, WEBSOCKET, &hidden).await;
        wire.write(&hidden).await;
        let said = wire.read_to_end().await;
        let said = String::from_utf8_lossy(&said);
        assert!(
            said.starts_with(&format!("HTTP/1.1 {code} ")),
            "{name}: {said}"
        );
        assert!(said.contains(text), "{name}: {said}");
        assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{name}: {said}");
        let asked = stage.pods_asked();
        assert_eq!(asked.len(), before + 1, "{name}: {asked:?}");
        assert!(!stage.spoke.was_sent(&format!("{MARK}-late")), "{name}");
    }
}

/// What HTTP answers is asked for in HTTP; a spoke that switches all the same is refused.
async fn what_is_not_asked_for_is_not_switched_to(stage: &Stage) {
    let exec = format!("{PODS}/nobody/exec?command=sh");
    let hidden = format!("GET /{MARK} HTTP/1.1\r\nhost: spoke\r\n\r\n");
    let length = hidden.len();
    let with_body = format!("{WEBSOCKET}content-length: {length}\r\n");
    let chunked = format!("{WEBSOCKET}transfer-encoding: chunked\r\n");
    let chunks = format!("{length:x}\r\n{hidden}\r\n0\r\n\r\n");
    for (name, line, headers, behind, code) in [
        (
            "a list",
            format!("GET /clusters/fake{MAPS}"),
            WEBSOCKET,
            "",
            "200",
        ),
        (
            "a pod",
            format!("GET {PODS}/switches"),
            WEBSOCKET,
            "",
            "502",
        ),
        (
            "no Upgrade",
            format!("GET {exec}"),
            "connection: upgrade\r\n",
            "",
            "404",
        ),
        (
            "no Connection",
            format!("GET {exec}"),
            "upgrade: websocket\r\n",
            "",
            "404",
        ),
        (
            "HTTP/2",
            format!("GET {exec}"),
            "connection: upgrade\r\nupgrade: h2c\r\n",
            "",
            "404",
        ),
        ("a body", format!("GET {exec}"), &with_body, &hidden, "400"),
        ("chunks", format!("POST {exec}"), &chunked, &chunks, "400"),
        ("a method", format!("POST {exec}"), WEBSOCKET, "", "400"),
    ] {
        let (_wire, said) = stage.answered(&line, headers, behind).await;
        assert!(
            said.starts_with(&format!("HTTP/1.1 {code} ")),
            "{name}: {said}"
        );
        let heads = stage.spoke.heads();
        let hidden = heads.iter().any(|head| head.contains(&format!("/{MARK} ")));
        assert!(!hidden, "{name}: {heads:?}");
        let last = heads.last().expect("it was asked").to_ascii_lowercase();
        assert!(!last.contains("upgrade"), "{name}: {last}");
    }
}

/// A user has as many as it may have, also while a spoke does not answer; nobody else notices.
async fn a_stream_counts(stage: &Stage) {
    let silent = format!("GET {PODS}/silent/exec?command=sh");
    let mut open = Vec::new();
    for _ in 0..STREAM_COUNT {
        open.push(stage.ask("alice", &silent, WEBSOCKET, "").await);
    }
    stage.open_count_is(STREAM_COUNT).await;
    let good = format!("GET {PODS}/good/exec?command=sh");
    let (_wire, said) = stage.answered(&good, WEBSOCKET, "").await;
    assert!(said.starts_with("HTTP/1.1 429 "), "{said}");
    let mut bobs = stage.ask("bob", &good, WEBSOCKET, "").await;
    let said = bobs.read_until("hello of the pod").await;
    assert!(said.starts_with("HTTP/1.1 101 "), "{said}");
    let alice = stage.fixture.user("alice").await;
    alice.get(&format!("/clusters/fake{MAPS}")).await.must(200);
    drop((open, bobs));
    stage.open_count_is(0).await;
}

async fn s16_a_stream_ends_with_the_right_to_it(stage: &Stage) {
    let good = format!("GET {PODS}/good/exec?command=sh");
    let mut wire = stage.ask("alice", &good, WEBSOCKET, "").await;
    wire.read_until("hello of the pod").await;
    let mut waiting = stage
        .ask("alice", &format!("GET {PODS}/silent/exec"), WEBSOCKET, "")
        .await;
    stage.open_count_is(2).await;
    let admin = stage.fixture.admin().await;
    let binding = format!("{RBAC}/clusterrolebindings/access-fake-alice-of-alice");
    let revoked = Duration::from_secs(10);
    admin.delete(&binding).await.must(200);
    ends_within(&mut wire, revoked).await;
    let said = tokio::time::timeout(revoked, waiting.read_until("\r\n\r\n")).await;
    let said = said.expect("what has not begun is refused");
    assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
}

/// Waits for the end of a stream.
async fn ends_within(wire: &mut Wire, patience: Duration) {
    let ended = tokio::time::timeout(patience, wire.read_to_end()).await;
    ended.expect("the stream ends with the right to it");
}
