//! The last event of a request is in the log when its answer comes: also of one that panics, and of one whose client leaves.

use std::{fs, path::Path, task::Poll, time::Duration};

use bytes::Bytes;
use http::{Method, Request, header};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};

use super::world::{ADMIN, World};
use crate::{
    audit::{Config, LogConfig, LogMode},
    refusal::BoxError,
    request::Peer,
    respond::{RequestBody, Response},
};

const MAPS: &str = "/api/v1/namespaces/here/configmaps";

fn log_at(path: &Path, mode: LogMode) -> LogConfig {
    LogConfig {
        path: path.to_str().unwrap().to_owned(),
        mode,
        max_size_mib: 0,
        max_age_days: 0,
        max_backups: 0,
        compresses: false,
    }
}

fn request(id: &str, token: &str, body: RequestBody) -> Request<RequestBody> {
    Request::builder()
        .method(Method::POST)
        .uri(MAPS)
        .header("audit-id", id)
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(body)
        .unwrap()
}

fn map(name: &str) -> RequestBody {
    RequestBody::full(json!({"metadata": {"name": name}}).to_string())
}

/// A body of which nothing comes, or which panics.
fn body(poll: impl Fn() + Send + 'static) -> RequestBody {
    let frames = futures::stream::poll_fn(move |_| {
        poll();
        Poll::<Option<Result<Frame<Bytes>, BoxError>>>::Pending
    });
    RequestBody::foreign(StreamBody::new(frames))
}

async fn answer(world: &World, request: Request<RequestBody>) -> Response {
    world.hub.answer(request, &Peer::Unknown, None).await
}

fn events(path: &Path, id: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["auditID"] == id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_in_which_a_request_ends_has_one_last_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let config = Config {
        log: Some(log_at(&path, LogMode::Blocking)),
        ..Config::default()
    };
    let world = World::with_audit(config).await;
    let answered = answer(&world, request("made", ADMIN, map("one"))).await;
    assert_eq!(answered.status(), 201);
    let answered = answer(&world, request("refused", "nobody", map("two"))).await;
    assert_eq!(answered.status(), 403);
    let panics = body(|| panic!("the trial panics here"));
    let answered = answer(&world, request("panics", ADMIN, panics)).await;
    assert_eq!(answered.status(), 500);
    let leaves = answer(&world, request("leaves", ADMIN, body(|| {})));
    // Long enough to begin: what is waited for here is that nothing comes.
    let left = tokio::time::timeout(Duration::from_millis(300), leaves).await;
    assert!(left.is_err(), "the body never comes: {left:?}");
    for (id, stage, code, reason) in [
        ("made", "ResponseComplete", 201, Value::Null),
        ("refused", "ResponseComplete", 403, json!("Forbidden")),
        ("panics", "Panic", 500, json!("InternalError")),
        ("leaves", "ResponseComplete", 499, Value::Null),
    ] {
        let found = events(&path, id);
        let [event] = found.as_slice() else {
            panic!("{id} has one event: {found:#?}");
        };
        let status = &event["responseStatus"];
        assert_eq!(event["stage"], stage, "{event:#}");
        assert_eq!(
            (&status["code"], &status["reason"]),
            (&json!(code), &reason),
            "{event:#}"
        );
        assert_eq!(
            event["annotations"]["wheelhouse.dev/cluster"], "root",
            "{event:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_says_what_is_recorded_and_strict_mode_refuses_what_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    let text =
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: Metadata, users: [alice]}\n";
    fs::write(&policy, text).unwrap();
    let (path, full) = (folder.path().join("audit.log"), Path::new("/dev/full"));
    for (log, strict_code) in [(path.as_path(), 201), (full, 500)] {
        let config = Config {
            policy_file: Some(policy.clone()),
            log: Some(log_at(log, LogMode::BlockingStrict)),
            webhook: None,
        };
        let world = World::with_audit(config).await;
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
        world.grant("", "here", "alice", rules).await;
        world
            .until("alice", MAPS, if strict_code == 500 { 500 } else { 200 })
            .await;
        let answered = answer(&world, request("alice", "alice", map("one"))).await;
        assert_eq!(answered.status(), strict_code, "{}", log.display());
        let answered = answer(&world, request("admin", ADMIN, map("two"))).await;
        assert_eq!(answered.status(), 201, "no rule is about the administrator");
        let one = world.get(ADMIN, &format!("{MAPS}/one")).await;
        assert_eq!(one.code, if strict_code == 500 { 404 } else { 200 });
        if log == path {
            let stages: Vec<Value> = events(&path, "alice")
                .into_iter()
                .map(|it| it["stage"].clone())
                .collect();
            assert_eq!(stages, ["RequestReceived", "ResponseComplete"]);
            assert_eq!(events(&path, "admin"), [Value::Null; 0]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_only_reads_is_recorded_if_its_answer_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let config = Config {
        log: Some(log_at(&path, LogMode::Blocking)),
        ..Config::default()
    };
    let world = World::with_audit(config).await;
    let get = |id: &str, token: &str, alias: Option<&str>| {
        let mut request = request(id, token, RequestBody::full(""));
        *request.method_mut() = Method::GET;
        if let Some(alias) = alias {
            let alias = alias.parse().unwrap();
            request.headers_mut().insert("impersonate-user", alias);
        }
        request
    };
    for (id, token, alias, code, decision) in [
        ("read", ADMIN, None, 200, None),
        ("refused", "nobody", None, 403, Some(json!("forbid"))),
        ("unknown", "", None, 401, Some(Value::Null)),
        ("alias", ADMIN, Some("bob"), 403, Some(json!("forbid"))),
    ] {
        let mut request = get(id, token, alias);
        if token.is_empty() {
            let wrong = "Bearer a.b.c".parse().unwrap();
            request.headers_mut().insert(header::AUTHORIZATION, wrong);
        }
        let answered = answer(&world, request).await;
        assert_eq!(answered.status(), code, "{id}");
        let found = events(&path, id);
        let decisions: Vec<Value> = found
            .iter()
            .map(|it| it["annotations"]["authorization.k8s.io/decision"].clone())
            .collect();
        assert_eq!(decisions, Vec::from_iter(decision), "{id}: {found:#?}");
        for event in &found {
            assert_eq!(event["responseStatus"]["code"], code, "{event:#}");
            assert_eq!(event["verb"], "list", "{event:#}");
            let alias = alias.map_or(Value::Null, |alias| json!(alias));
            assert_eq!(event["impersonatedUser"]["username"], alias, "{event:#}");
        }
    }
}

/// The story: a `write` of its own made the event of a read dearer than the read. Those of reads are written together, but
/// nothing is late that a change, a refusal or a Secret is about.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_plain_read_is_recorded_before_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let policy = folder.path().join("policy.yaml");
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";
    fs::write(&policy, text).unwrap();
    let config = Config {
        policy_file: Some(policy),
        log: Some(log_at(&path, LogMode::default())),
        webhook: None,
    };
    let world = World::with_audit(config).await;
    let secrets = "/api/v1/namespaces/here/secrets";
    for round in 0..20 {
        let (read, next) = (format!("read-{round}"), format!("next-{round}"));
        let (method, path_of, token, code) = match round % 5 {
            0 => (Method::POST, MAPS, ADMIN, 201),
            1 => (Method::GET, MAPS, "nobody", 403),
            2 => (Method::GET, secrets, ADMIN, 200),
            3 => (Method::GET, "/wheelhouse/backup", ADMIN, 200),
            _ => (Method::GET, "/api/v1/namespaces/here/none", ADMIN, 404),
        };
        let mut plain = request(&read, ADMIN, RequestBody::full(""));
        *plain.method_mut() = Method::GET;
        assert_eq!(answer(&world, plain).await.status(), 200);
        let is_change = method == Method::POST;
        let body = is_change.then(|| map(&next));
        let mut telling = request(&next, token, body.unwrap_or_else(|| RequestBody::full("")));
        *telling.method_mut() = method;
        *telling.uri_mut() = path_of.parse().unwrap();
        assert_eq!(answer(&world, telling).await.status(), code, "{path_of}");
        let log = fs::read_to_string(&path).unwrap();
        let ids: Vec<String> = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["auditID"].clone())
            .filter_map(|id| id.as_str().map(str::to_owned))
            .filter(|id| *id == read || *id == next)
            .collect();
        assert_eq!(ids, [read, next], "both, in the order of their answers");
    }
}
