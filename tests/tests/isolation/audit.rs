//! S29: each request that changes something or is refused has exactly one record, and nobody else writes in it.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use wheelhouse_tests::{eventually, hub::Settings};

use super::support::{APPLY_PATCH, Fixture, JSON, MERGE_PATCH, SPOKES, User};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A request and what its record must say.
struct Case {
    what: &'static str,
    user: User,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
    status: u16,
    /// Fields of the record; none where there must be no record.
    record: Option<Vec<String>>,
}

fn case(what: &'static str, user: &User, method: &'static str, path: &str, status: u16) -> Case {
    let record = vec![
        format!("user={:?}", user.name),
        format!("http.response.status_code={status}"),
    ];
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

    fn says(mut self, field: &str) -> Self {
        self.record.get_or_insert_default().push(field.to_owned());
        self
    }

    /// Of a sender who is not known.
    fn unknown(mut self) -> Self {
        let status = self.status;
        self.record = Some(vec![format!("http.response.status_code={status}")]);
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

/// The records with an id. A cause that is logged with the same id is none.
fn records(log: &str, id: &str) -> Vec<String> {
    let wanted = format!(" request audit_id={id:?}");
    let lines = log.lines().filter(|line| line.contains(&wanted));
    lines.map(str::to_owned).collect()
}

fn changes(admin: &User) -> Vec<Case> {
    let one = format!("{MAPS}/one");
    vec![
        case("a creation", admin, "POST", MAPS, 201)
            .body(JSON, &map("one"))
            .says("verb=\"create\"")
            .says("cluster=root"),
        case("a second creation", admin, "POST", MAPS, 409).body(JSON, &map("one")),
        case("an update", admin, "PUT", &one, 200)
            .body(JSON, &map("one"))
            .says("name=\"one\""),
        case("a patch", admin, "PATCH", &one, 200)
            .body(MERGE_PATCH, &json!({}))
            .says("verb=\"patch\""),
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
        case("a deletion", admin, "DELETE", &one, 200).says("namespace=\"default\""),
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
        .says("verb=\"deletecollection\""),
        case(
            "a subresource",
            admin,
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            201,
        )
        .body(JSON, &json!({"spec": {}}))
        .says("subresource=\"token\""),
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
            404,
        ),
        case("a change without a right", nobody, "POST", MAPS, 403)
            .body(JSON, &map("two"))
            .says("verb=\"create\""),
        case(
            "in an embedded cluster",
            admin,
            "POST",
            &format!("/clusters/a{MAPS}"),
            201,
        )
        .body(JSON, &map("one"))
        .says("cluster=a"),
        case(
            "at a spoke that is away",
            admin,
            "POST",
            &format!("/clusters/away{MAPS}"),
            503,
        )
        .body(JSON, &map("one"))
        .says("cluster=away"),
        case(
            "at a spoke that never answers",
            admin,
            "POST",
            &format!("/clusters/silent{MAPS}?timeout=1s"),
            504,
        )
        .body(JSON, &map("one"))
        .says("cluster=silent"),
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
        case("a read without a right", nobody, "GET", MAPS, 403).says("verb=\"list\""),
        case(
            "a watch without a right",
            nobody,
            "GET",
            &format!("{MAPS}?watch=true"),
            403,
        )
        .says("verb=\"watch\""),
        case(
            "a read where the gate is shut",
            nobody,
            "GET",
            &format!("/clusters/a{MAPS}"),
            403,
        )
        .says("cluster=a"),
        case(
            "a read of a cluster that is not there",
            nobody,
            "GET",
            &format!("/clusters/none{MAPS}"),
            403,
        )
        .says("cluster=none"),
        case(
            "a read of all clusters",
            nobody,
            "GET",
            "/clusters/*/api/v1/configmaps",
            403,
        ),
        case("a bad token", bad, "GET", MAPS, 401)
            .unknown()
            .says("verb=\"list\""),
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
            .unknown()
            .says("user=\"nobody\"")
            .header("impersonate-user", "nobody")
            .says("impersonator=\"admin\""),
        case("a read as one who may not", nobody, "GET", MAPS, 403)
            .header("impersonate-user", "admin"),
    ]
}

/// Names that try to end a line, or a field.
fn forgeries(admin: &User, nobody: &User) -> Vec<Case> {
    let user = "eve verb=\"get\" cluster=root user=\"admin\"";
    let mut forged = case(
        "a forged user",
        admin,
        "DELETE",
        &format!("{MAPS}/one"),
        403,
    )
    .header("impersonate-user", user)
    .says("verb=\"delete\"");
    forged.record.get_or_insert_default()[0] = format!("user={user:?}");
    let line = "x%0A2026-01-01T00:00:00.000000Z%20%20INFO%20request%20audit_id=%22forged%22%20user=%22admin%22";
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
        .header("user-agent", "x audit_id=\"forged\""),
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
async fn s29_each_change_and_each_refusal_has_one_record() {
    let settings = Settings {
        environment: vec![("WHEELHOUSE_LOG".to_owned(), "info".to_owned())],
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
        let found = eventually(&format!("{}: the record is written", case.what), || async {
            let found = records(&fixture.hub.process().log(), &format!("trial-{index}"));
            if found.len() >= wanted {
                Ok(found)
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
        assert_eq!(found.len(), wanted, "{}: {found:#?}", case.what);
        for field in case.record.iter().flatten() {
            assert!(
                found[0].contains(field.as_str()),
                "{}: {field} is in {}",
                case.what,
                found[0]
            );
        }
    }
    let log = fixture.hub.process().log();
    assert!(
        records(&log, "forged").is_empty(),
        "a client has written a record"
    );
    let gone = eventually("the record of a request whose client went away", || async {
        let found = records(&fixture.hub.process().log(), "gone");
        if found.is_empty() {
            Err("none".to_owned())
        } else {
            Ok(found)
        }
    })
    .await;
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert!(
        gone[0].contains("http.response.status_code=499"),
        "{gone:?}"
    );
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
