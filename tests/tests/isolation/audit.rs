//! S29: each request that changes something or is refused has exactly one event, and nobody else writes in it. Without a policy.

use std::{path::Path, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use wheelhouse_tests::{eventually, hub::Settings, process::Scratch};

use super::support::{APPLY_PATCH, Fixture, JSON, MERGE_PATCH, SPOKES, User};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const USER: &str = "/user/username";
const IMPERSONATED: &str = "/impersonatedUser/username";
const CODE: &str = "/responseStatus/code";
const CLUSTER: &str = "/annotations/wheelhouse.dev~1cluster";

/// A request and what its event must say.
struct Case {
    what: &'static str,
    user: User,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
    status: u16,
    /// Fields of the event, by their JSON pointers; none where there must be no event.
    record: Option<Vec<(&'static str, Value)>>,
}

fn case(what: &'static str, user: &User, method: &'static str, path: &str, status: u16) -> Case {
    let record = vec![(USER, json!(user.name)), (CODE, json!(status))];
    Case {
        what,
        user: user.clone(),
        method,
        path: path.to_owned(),
        headers: Vec::new(),
        body: String::new(),
        status,
        record: Some(record),
    }
}

impl Case {
    fn body(mut self, content_type: &str, body: &Value) -> Self {
        self.headers.push(("content-type", content_type.to_owned()));
        self.body = match body {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self
    }

    fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn says(mut self, pointer: &'static str, value: &str) -> Self {
        let fields = self.record.get_or_insert_default();
        fields.push((pointer, json!(value)));
        self
    }

    /// Of a sender who is not known.
    fn unknown(mut self) -> Self {
        let status = self.status;
        self.record = Some(vec![(USER, Value::Null), (CODE, json!(status))]);
        self
    }

    fn silent(mut self) -> Self {
        self.record = None;
        self
    }
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// The events with an id.
fn records(log: &Path, id: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log).expect("the hub writes a log");
    let events = text.lines().map(serde_json::from_str::<Value>);
    let events = events.map(|event| event.expect("each line is an event"));
    events
        .filter(|event: &Value| event["auditID"] == id)
        .collect()
}

fn changes(admin: &User) -> Vec<Case> {
    let one = format!("{MAPS}/one");
    vec![
        case("a creation", admin, "POST", MAPS, 201)
            .body(JSON, &map("one"))
            .says("/verb", "create")
            .says(CLUSTER, "root"),
        case("a second creation", admin, "POST", MAPS, 409).body(JSON, &map("one")),
        case("an update", admin, "PUT", &one, 200)
            .body(JSON, &map("one"))
            .says("/objectRef/name", "one"),
        case("a patch", admin, "PATCH", &one, 200)
            .body(MERGE_PATCH, &json!({}))
            .says("/verb", "patch"),
        case(
            "an apply",
            admin,
            "PATCH",
            &format!("{one}?fieldManager=m"),
            200,
        )
        .body(APPLY_PATCH, &map("one")),
        case(
            "a dry run",
            admin,
            "DELETE",
            &format!("{one}?dryRun=All"),
            200,
        ),
        case("a deletion", admin, "DELETE", &one, 200).says("/objectRef/namespace", "default"),
        case(
            "a deletion of what is not there",
            admin,
            "DELETE",
            &one,
            404,
        ),
        case(
            "a deletion of many",
            admin,
            "DELETE",
            &format!("{MAPS}?labelSelector=none"),
            200,
        )
        .says("/verb", "deletecollection"),
        case(
            "a subresource",
            admin,
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            201,
        )
        .body(JSON, &json!({"spec": {}}))
        .says("/objectRef/subresource", "token"),
    ]
}

/// Changes that fail, and those of other clusters.
fn failing_changes(admin: &User, nobody: &User) -> Vec<Case> {
    vec![
        case("a body that is no JSON", admin, "POST", MAPS, 400).body(JSON, &json!("{{{")),
        case("a type that is not taken", admin, "POST", MAPS, 415).body("text/html", &json!("x")),
        case(
            "a kind that is not there",
            admin,
            "POST",
            "/apis/none.example.com/v1/things",
            404,
        )
        .body(JSON, &json!({})),
        case(
            "a method that is not served",
            admin,
            "POST",
            "/version",
            405,
        ),
        case("a change without a right", nobody, "POST", MAPS, 403)
            .body(JSON, &map("two"))
            .says("/verb", "create"),
        case(
            "in an embedded cluster",
            admin,
            "POST",
            &format!("/clusters/a{MAPS}"),
            201,
        )
        .body(JSON, &map("one"))
        .says(CLUSTER, "a"),
        case(
            "at a spoke that is away",
            admin,
            "POST",
            &format!("/clusters/away{MAPS}"),
            503,
        )
        .body(JSON, &map("one"))
        .says(CLUSTER, "away"),
        case(
            "at a spoke that never answers",
            admin,
            "POST",
            &format!("/clusters/silent{MAPS}?timeout=1s"),
            504,
        )
        .body(JSON, &map("one"))
        .says(CLUSTER, "silent"),
    ]
}

fn reads_and_refusals(admin: &User, nobody: &User, bad: &User) -> Vec<Case> {
    vec![
        case("a read", admin, "GET", MAPS, 200).silent(),
        case(
            "a read of what is not there",
            admin,
            "GET",
            &format!("{MAPS}/none"),
            404,
        )
        .silent(),
        case("a read without a right", nobody, "GET", MAPS, 403).says("/verb", "list"),
        case(
            "a watch without a right",
            nobody,
            "GET",
            &format!("{MAPS}?watch=true"),
            403,
        )
        .says("/verb", "watch"),
        case(
            "a read where the gate is shut",
            nobody,
            "GET",
            &format!("/clusters/a{MAPS}"),
            403,
        )
        .says(CLUSTER, "a"),
        case(
            "a read of a cluster that is not there",
            nobody,
            "GET",
            &format!("/clusters/none{MAPS}"),
            403,
        )
        .says(CLUSTER, "none"),
        case(
            "a read of all clusters",
            nobody,
            "GET",
            "/clusters/*/api/v1/configmaps",
            403,
        ),
        case("a bad token", bad, "GET", MAPS, 401)
            .unknown()
            .says("/verb", "list"),
        case(
            "a change with a bad token",
            bad,
            "DELETE",
            &format!("{MAPS}/one"),
            401,
        )
        .unknown(),
        case(
            "a path that is none",
            admin,
            "POST",
            "/clusters/Not_A_Name/api/v1/namespaces",
            400,
        )
        .unknown(),
        case("a read as another", admin, "GET", MAPS, 403)
            .header("impersonate-user", "nobody")
            .says(IMPERSONATED, "nobody"),
        case("a read as one who may not", nobody, "GET", MAPS, 403)
            .header("impersonate-user", "admin"),
    ]
}

/// Names that try to end a line, or a field.
fn forgeries(admin: &User, nobody: &User) -> Vec<Case> {
    let user = "eve verb=\"get\" cluster=root user=\"admin\"";
    let forged = case(
        "a forged user",
        admin,
        "DELETE",
        &format!("{MAPS}/one"),
        403,
    )
    .header("impersonate-user", user)
    .says("/verb", "delete")
    .says(IMPERSONATED, user);
    let line = "x%0A%7B%22kind%22:%22Event%22,%22auditID%22:%22forged%22%7D%0A";
    vec![
        forged,
        case(
            "a line in a name",
            nobody,
            "DELETE",
            &format!("{MAPS}/{line}"),
            403,
        ),
        case(
            "a line in a namespace",
            nobody,
            "DELETE",
            &format!("/api/v1/namespaces/{line}/configmaps/x"),
            403,
        ),
        case(
            "a line in a resource",
            nobody,
            "DELETE",
            &format!("/apis/{line}/v1/things/x"),
            403,
        ),
        case(
            "a line in a subresource",
            nobody,
            "DELETE",
            &format!("{MAPS}/x/{line}"),
            403,
        ),
        case(
            "a line in the client's name",
            nobody,
            "DELETE",
            &format!("{MAPS}/x"),
            403,
        )
        .header("user-agent", "x\",\"auditID\":\"forged"),
    ]
}

/// A spoke that takes connections and says nothing, and one whose port nobody listens to.
async fn join_spokes(admin: &User) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let silent = listener.local_addr().expect("it is bound").port();
    for (name, port) in [("silent", silent), ("away", 1)] {
        let kubeconfig = json!({
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": format!("https://127.0.0.1:{port}")}}],
            "users": [{"name": "x", "user": {"token": "t"}}],
        });
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("spoke-{name}"), "labels": {"wheelhouse.dev/spoke": name}},
            "data": {"kubeconfig": STANDARD.encode(kubeconfig.to_string())},
        });
        admin
            .post("/api/v1/namespaces/default/secrets", &secret)
            .await
            .must(201);
        let reference =
            json!({"namespace": "default", "name": format!("spoke-{name}"), "key": "kubeconfig"});
        let spoke = json!({
            "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": name},
            "spec": {"connection": {"type": "Direct", "secretRef": reference}},
        });
        admin.post(SPOKES, &spoke).await.must(201);
        let path = format!("/clusters/{name}/api/v1/namespaces?timeout=1s");
        admin
            .until(&path, "the spoke has a link", |answer| {
                !answer.message().contains("is not connected")
            })
            .await;
    }
    listener
}

#[tokio::test(flavor = "multi_thread")]
async fn s29_each_change_and_each_refusal_has_one_event() {
    let scratch = Scratch::new("audit");
    let log = scratch.file("audit.log");
    let settings = Settings {
        arguments: vec![format!("--audit-log-path={}", log.display())],
        ..Settings::default()
    };
    let fixture = Fixture::start_with(&["nobody", "tenant"], settings).await;
    let admin = fixture.admin().await;
    fixture.embed("a").await;
    let _silent = join_spokes(&admin).await;
    let nobody = fixture.user("nobody").await;
    let bad = fixture.bearer("nobody", "a-guess").await;
    let mut cases = changes(&admin);
    cases.extend(failing_changes(&admin, &nobody));
    cases.extend(reads_and_refusals(&admin, &nobody, &bad));
    cases.extend(forgeries(&admin, &nobody));
    for (index, case) in cases.iter().enumerate() {
        let id = format!("trial-{index}");
        let mut headers: Vec<(&str, &str)> = case
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        headers.push(("audit-id", &id));
        let answer = case
            .user
            .send(case.method, &case.path, &headers, case.body.clone())
            .await;
        assert_eq!(answer.status, case.status, "{}: {}", case.what, answer.body);
    }
    gone_before_the_answer(&admin).await;
    for (index, case) in cases.iter().enumerate() {
        let wanted = usize::from(case.record.is_some());
        // It was there before the answer was.
        let found = records(&log, &format!("trial-{index}"));
        assert_eq!(found.len(), wanted, "{}: {found:#?}", case.what);
        for (pointer, value) in case.record.iter().flatten() {
            let said = found[0].pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(said, value, "{}: {pointer} in {:#}", case.what, found[0]);
        }
    }
    assert!(
        records(&log, "forged").is_empty(),
        "a client has written an event"
    );
    let gone = eventually("the event of a request whose client went away", || async {
        let found = records(&log, "gone");
        if found.is_empty() {
            Err("none".to_owned())
        } else {
            Ok(found)
        }
    })
    .await;
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert_eq!(gone[0].pointer(CODE), Some(&json!(499)), "{gone:?}");
}

/// Sends a change to a spoke that never answers, and leaves.
async fn gone_before_the_answer(admin: &User) {
    let path = format!("/clusters/silent{MAPS}");
    let body = map("one").to_string();
    let headers = [("content-type", JSON), ("audit-id", "gone")];
    let sent = admin.try_send("POST", &path, &headers, body);
    // Long enough to arrive: what is waited for here is that nothing comes.
    let outcome = tokio::time::timeout(Duration::from_millis(700), sent).await;
    assert!(outcome.is_err(), "nobody answers: {outcome:?}");
}
