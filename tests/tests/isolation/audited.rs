//! The audit by a policy: the events of kube-apiserver, each once, whatever ends the hub (S29).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use wheelhouse_tests::{
    FakeSpoke, Spoke, eventually,
    hub::Settings,
    process::Scratch,
    spoke::{AUDIT_POLICY, Options},
};

use super::support::{APPLY_PATCH, Answer, Fixture, JSON, MERGE_PATCH, RBAC, User};

const MAPS: &str = "/api/v1/namespaces/audited/configmaps";
/// The path of the spoke.
const EAST: &str = "/clusters/east";
const ACCOUNTS: &str = "/api/v1/namespaces/audited/serviceaccounts";

/// A request of the comparison: who, method, path, type of the body, body, further headers.
type Asked = (
    &'static str,
    &'static str,
    String,
    &'static str,
    Value,
    Vec<(&'static str, &'static str)>,
);

/// The events of a log and of the full logs beside it.
fn events(log: &Path) -> Vec<Value> {
    let folder = log.parent().expect("a log is in a folder");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|file| {
            file.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("audit"))
        })
        .filter(|file| file.extension().is_some_and(|end| end == "log"))
        .collect();
    files.sort();
    let texts = files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("a log"));
    let lines: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines
        .iter()
        .map(|line| {
            let event = serde_json::from_str::<Value>(line);
            assert!(event.is_ok(), "a line is an event: {line}");
            event.unwrap_or_default()
        })
        .collect()
}

/// The last event of each request that was not long-running.
fn is_last(event: &Value) -> bool {
    let is_early = event["stage"] == "ResponseStarted" && event["user"] == json!({});
    event["stage"] == "ResponseComplete" || event["stage"] == "Panic" || is_early
}

fn of_id(events: &[Value], id: &str) -> Vec<Value> {
    let own = events.iter().filter(|event| event["auditID"] == id);
    own.cloned().collect()
}

// === the comparison ===

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn asked() -> Vec<Asked> {
    let one = format!("{MAPS}/one");
    let plain =
        |user, method, path: &str| (user, method, path.to_owned(), JSON, Value::Null, vec![]);
    let sent =
        |user, method, path: &str, body: Value| (user, method, path.to_owned(), JSON, body, vec![]);
    let patch = |media, body: Value, query: &str| {
        (
            "admin",
            "PATCH",
            format!("{one}{query}"),
            media,
            body,
            vec![],
        )
    };
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    vec![
        sent("admin", "POST", MAPS, map("one", "a")),
        sent("admin", "POST", MAPS, map("one", "a")),
        sent("admin", "POST", MAPS, map("BAD_NAME", "a")),
        sent("admin", "PUT", &one, map("one", "b")),
        patch(MERGE_PATCH, json!({"data": {"key": "c"}}), ""),
        patch(APPLY_PATCH, map("one", "d"), "?fieldManager=m&force=true"),
        plain("admin", "GET", &one),
        plain("admin", "GET", &format!("{MAPS}?labelSelector=none")),
        plain(
            "admin",
            "GET",
            &format!("{MAPS}?watch=true&timeoutSeconds=1&labelSelector=none"),
        ),
        plain("admin", "GET", &format!("{MAPS}/none")),
        sent("alice", "POST", MAPS, map("two", "a")),
        plain("alice", "GET", &one),
        plain("alice", "GET", &format!("{MAPS}?watch=true")),
        plain("viewer", "GET", &one),
        plain("viewer", "DELETE", &one),
        plain("unknown", "GET", &one),
        plain("unknown", "DELETE", &one),
        plain("quiet", "DELETE", &one),
        (
            "admin",
            "GET",
            one.clone(),
            JSON,
            Value::Null,
            vec![("impersonate-user", "viewer")],
        ),
        (
            "admin",
            "DELETE",
            one.clone(),
            JSON,
            Value::Null,
            vec![("impersonate-user", "alice")],
        ),
        (
            "viewer",
            "GET",
            one.clone(),
            JSON,
            Value::Null,
            vec![("x-forwarded-for", "192.0.2.1, x")],
        ),
        plain("admin", "DELETE", &format!("{one}?dryRun=All")),
        plain("admin", "DELETE", &one),
        plain("admin", "DELETE", &one),
        plain("admin", "DELETE", &format!("{MAPS}?labelSelector=none")),
        sent("admin", "POST", ACCOUNTS, account("robot")),
        sent(
            "admin",
            "POST",
            &format!("{ACCOUNTS}/robot/token"),
            json!({"spec": {}}),
        ),
        (
            "admin",
            "PATCH",
            format!("{ACCOUNTS}/robot"),
            MERGE_PATCH,
            json!({}),
            vec![],
        ),
        plain("admin", "GET", "/version"),
        plain("alice", "GET", "/nothing"),
        sent(
            "admin",
            "POST",
            "/apis/none.example.com/v1/things",
            json!({}),
        ),
        plain("admin", "GET", "/api/v1/namespaces/none?pretty=true"),
    ]
}

/// Sends all requests; `trial-N` is the audit id of the Nth.
async fn send_all(users: &BTreeMap<&str, User>) -> Vec<u16> {
    let mut codes = Vec::new();
    for (index, (user, method, path, media, body, headers)) in asked().into_iter().enumerate() {
        let id = format!("trial-{index}");
        let mut all = vec![("audit-id", id.as_str()), ("user-agent", "trial/1")];
        all.extend(headers);
        let body = if body.is_null() {
            String::new()
        } else {
            all.push(("content-type", media));
            body.to_string()
        };
        codes.push(users[user].send(method, &path, &all, body).await.status);
    }
    codes
}

/// What may differ: what names the server, its objects, its users' credentials, and the moment.
fn normalized(mut event: Value) -> Value {
    let fields = event.as_object_mut().expect("an event");
    for name in [
        "requestReceivedTimestamp",
        "stageTimestamp",
        "authenticationMetadata",
    ] {
        fields.remove(name);
    }
    if let Some(annotations) = fields.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| key.starts_with("authorization.k8s.io/"));
        if annotations.is_empty() {
            fields.remove("annotations");
        }
    }
    scrub(&mut event);
    event
}

fn scrub(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["uid", "resourceVersion", "creationTimestamp", "extra"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(scrub);
        }
        Value::Array(items) => items.iter_mut().for_each(scrub),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A namespace, and a user who may read its ConfigMaps.
async fn prepare(admin: &User) {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "audited"}});
    admin.post("/api/v1/namespaces", &namespace).await.must(201);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reads"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}],
    });
    let path = format!("{RBAC}/namespaces/audited/roles");
    admin.post(&path, &role).await.must(201);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "reads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}],
    });
    let path = format!("{RBAC}/namespaces/audited/rolebindings");
    admin.post(&path, &binding).await.must(201);
}

fn with_token(kubeconfig: &Path, token: &str) -> String {
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let mut config: Value = serde_saphyr::from_str(&text).expect("a kubeconfig is YAML");
    for user in config["users"].as_array_mut().into_iter().flatten() {
        user["user"] = json!({ "token": token });
    }
    config.to_string()
}

async fn users_of_spoke(spoke: &Spoke) -> BTreeMap<&'static str, User> {
    let mut users = BTreeMap::new();
    for name in ["admin", "alice", "viewer", "quiet"] {
        let group = (name == "admin").then_some("system:masters");
        let kubeconfig =
            std::fs::read_to_string(spoke.kubeconfig_for(name, group)).expect("a kubeconfig");
        users.insert(name, User::connect(name, &kubeconfig).await);
    }
    let unknown = with_token(spoke.kubeconfig(), "a-guess");
    users.insert("unknown", User::connect("unknown", &unknown).await);
    users
}

fn audited(scratch: &Scratch, more: &[&str]) -> Settings {
    let policy = scratch.write("policy.yaml", AUDIT_POLICY);
    let mut arguments = vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", scratch.file("audit.log").display()),
    ];
    arguments.extend(more.iter().map(|it| (*it).to_owned()));
    Settings {
        arguments,
        ..Settings::default()
    }
}

/// The same requests by the same kinds of users, to both.
#[tokio::test(flavor = "multi_thread")]
async fn s29_events_are_those_of_kube_apiserver_with_the_same_policy() {
    let options = Options {
        without_controllers: true,
        audited: true,
        ..Options::default()
    };
    let scratch = Scratch::new("audited");
    let (spoke, fixture) = tokio::join!(
        Spoke::start_with("audited", options),
        Fixture::start_with(&["alice", "viewer", "quiet"], audited(&scratch, &[]))
    );
    let mut ours = BTreeMap::from([("admin", fixture.admin().await)]);
    for name in ["alice", "viewer", "quiet"] {
        ours.insert(name, fixture.user(name).await);
    }
    ours.insert("unknown", fixture.bearer("unknown", "a-guess").await);
    let theirs = users_of_spoke(&spoke).await;
    for users in [&ours, &theirs] {
        prepare(&users["admin"]).await;
        let view = format!("{MAPS}?limit=1");
        users["viewer"].until_status(&view, 200).await;
    }
    let codes = (send_all(&ours).await, send_all(&theirs).await);
    assert_eq!(codes.0, codes.1, "both answer alike");
    // The events of reads are written together, in the order in which they were made.
    let last = format!("trial-{}", asked().len() - 1);
    let own = eventually("the hub has written its events", || async {
        let own = events(&scratch.file("audit.log"));
        let has_last = !of_id(&own, &last).is_empty();
        has_last
            .then_some(own)
            .ok_or_else(|| "its last is not there".to_owned())
    })
    .await;
    // kube-apiserver writes its events after its answers.
    let peer = eventually("kube-apiserver has written its events", || async {
        let peer = events(&spoke.audit_log());
        let count = |events: &[Value]| {
            let trial = |event: &&Value| {
                event["auditID"]
                    .as_str()
                    .is_some_and(|id| id.starts_with("trial-"))
            };
            events.iter().filter(trial).count()
        };
        if count(&peer) >= count(&own) {
            Ok(peer)
        } else {
            Err(format!("{} of {}", count(&peer), count(&own)))
        }
    })
    .await;
    let mut count = 0;
    for (index, asked) in asked().iter().enumerate() {
        let id = format!("trial-{index}");
        let both = [&own, &peer].map(|events| -> Vec<Value> {
            of_id(events, &id).into_iter().map(normalized).collect()
        });
        assert_eq!(both[0], both[1], "{asked:?}: ours, and kube-apiserver's");
        count += both[0].len();
        let is_quiet = asked.0 == "quiet" || asked.2 == "/version";
        let last = both[0].iter().filter(|event| is_last(event)).count();
        assert_eq!(last, usize::from(!is_quiet), "{asked:?}: {:#?}", both[0]);
    }
    assert!(count > 40, "{count} events were compared");
}

// === what ends the hub ===

/// What each request was answered, by its audit id.
type Answered = Arc<Mutex<BTreeMap<String, u16>>>;

/// Creates, deletes, and asks for what is refused, below a prefix, until the hub does not answer any more.
async fn write((user, nobody): (User, User), prefix: &str, name: String, answered: Answered) {
    let maps = format!("{prefix}{MAPS}");
    for number in 0.. {
        let name = format!("{name}-{number}");
        let one = format!("{maps}/{name}");
        let steps: [(&User, &str, &str, String); 4] = [
            (&user, "POST", &maps, map(&name, "a").to_string()),
            (&nobody, "DELETE", &one, String::new()),
            (&user, "DELETE", &one, String::new()),
            (&user, "PATCH", &one, "{}".to_owned()),
        ];
        for (step, (user, method, path, body)) in steps.into_iter().enumerate() {
            let id = format!("{name}-{step}");
            let media = if method == "PATCH" { MERGE_PATCH } else { JSON };
            let headers = [("audit-id", id.as_str()), ("content-type", media)];
            let answer: Result<Answer, String> = user.try_send(method, path, &headers, body).await;
            let Ok(answer) = answer else {
                return;
            };
            let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
            answered.insert(id, answer.status);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s29_a_hub_that_is_killed_has_the_last_event_of_each_request_that_it_answered() {
    let scratch = Scratch::new("audited");
    // Small enough to be full many times.
    let settings = audited(&scratch, &["--audit-log-maxsize=1"]);
    let mut fixture = Fixture::start_with(&["nobody"], settings).await;
    prepare(&fixture.admin().await).await;
    let east = FakeSpoke::start("east").await;
    let kubeconfig = east.kubeconfig().display().to_string();
    let join = ["spoke", "add", "east", "--from", &kubeconfig];
    fixture.hub.wheelhouse(&join).await.succeeded("spoke add");
    let answered = Answered::default();
    for round in 0..3 {
        let admin = fixture.admin().await;
        admin.until_status(&format!("{EAST}{MAPS}"), 200).await;
        let mut writers = JoinSet::new();
        for writer in 0..8 {
            let users = (fixture.admin().await, fixture.user("nobody").await);
            let (prefix, name) = if writer % 2 == 0 {
                ("", format!("map-{round}-{writer}"))
            } else {
                (EAST, format!("relayed-{round}-{writer}"))
            };
            writers.spawn(write(users, prefix, name, Arc::clone(&answered)));
        }
        // Not a wait for a condition: the kill comes at any moment of the load.
        tokio::time::sleep(Duration::from_millis(1200 + 170 * round)).await;
        fixture.hub.kill();
        while writers.join_next().await.is_some() {}
        fixture.hub.launch().await;
    }
    let events = events(&scratch.file("audit.log"));
    let mut last: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in events.iter().filter(|event| is_last(event)) {
        let id = event["auditID"].as_str().expect("an event has an id");
        last.entry(id).or_default().push(event);
    }
    for (id, found) in &last {
        assert_eq!(found.len(), 1, "{id} has one last event: {found:#?}");
    }
    let answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
    for (id, status) in answered.iter() {
        let found = last.get(id.as_str());
        let found = found.unwrap_or_else(|| panic!("{id} was answered {status}, and has no event"));
        assert_eq!(found[0]["responseStatus"]["code"], *status, "{id}");
    }
    assert!(answered.len() > 200, "there was load: {}", answered.len());
    for kind in ["map-", "relayed-"] {
        let refused = answered
            .iter()
            .filter(|(id, status)| id.starts_with(kind) && **status == 403);
        let refused = refused.count();
        assert!(refused > 20, "{refused} of {kind} were refused");
    }
    assert!(east.write_count() > 20, "east was written");
}

// === the webhook ===

/// Takes events as a webhook does; one that hangs takes connections and says nothing.
async fn listen(hangs: bool, taken: Arc<Mutex<Vec<Value>>>) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            if hangs {
                kept.push(stream);
            } else {
                take(stream, &taken).await;
            }
        }
    });
    (format!("http://{address}/audit"), tasks)
}

/// Reads requests of one connection, and answers each.
async fn take(mut stream: TcpStream, taken: &Mutex<Vec<Value>>) {
    let mut read = Vec::new();
    loop {
        let end = read.windows(4).position(|window| window == b"\r\n\r\n");
        let head = end.map(|end| String::from_utf8_lossy(&read[..end]).to_lowercase());
        let length = head.as_ref().and_then(|head| {
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length:"))?;
            length.trim().parse::<usize>().ok()
        });
        if let (Some(end), Some(length)) = (end, length)
            && read.len() >= end + 4 + length
        {
            let body: Vec<u8> = read.drain(..end + 4 + length).skip(end + 4).collect();
            let list: Value = serde_json::from_slice(&body).expect("a list of events");
            assert_eq!(list["kind"], "EventList", "events come as a list");
            let is_called = head.is_some_and(|head| head.starts_with("post /audit http/1.1"));
            assert!(is_called, "it is called at the path of its server");
            let items = list["items"].as_array().expect("it has items").clone();
            taken
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(items);
            let answer = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await;
            if answer.is_err() {
                return;
            }
            continue;
        }
        let mut buffer = [0; 8192];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => read.extend_from_slice(&buffer[..count]),
        }
    }
}

fn webhook_kubeconfig(scratch: &Scratch, server: &str) -> PathBuf {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": server}}],
        "users": [{"name": "x", "user": {}}],
    });
    scratch.write("webhook.kubeconfig", kubeconfig.to_string())
}

async fn lost(admin: &User) -> u64 {
    let text = admin.get("/metrics").await.body;
    let text = text.as_str().unwrap_or_default();
    let prefix = "apiserver_audit_error_total{plugin=\"buffered\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(prefix));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[expect(clippy::too_many_lines, reason = "one story, told in order")]
#[tokio::test(flavor = "multi_thread")]
async fn s29_a_webhook_gets_each_event_and_one_that_hangs_holds_up_nobody() {
    for hangs in [false, true] {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (server, _listening) = listen(hangs, Arc::clone(&taken)).await;
        let scratch = Scratch::new("audited");
        let kubeconfig = webhook_kubeconfig(&scratch, &server);
        let webhook = format!("--audit-webhook-config-file={}", kubeconfig.display());
        // What hangs is to be full soon.
        let buffer = if hangs { 50 } else { 10_000 };
        let buffer = format!("--audit-webhook-batch-buffer-size={buffer}");
        let more = [
            webhook.as_str(),
            buffer.as_str(),
            "--audit-webhook-batch-max-wait=200ms",
        ];
        let fixture = Fixture::start_with(&["nobody"], audited(&scratch, &more)).await;
        let admin = fixture.admin().await;
        prepare(&admin).await;
        let began = tokio::time::Instant::now();
        let count = if hangs { 200 } else { 20 };
        let sent = (0..count).map(|index| {
            let admin = &admin;
            async move {
                let id = format!("sent-{index}");
                let headers = [("audit-id", id.as_str()), ("content-type", JSON)];
                let body = map(&format!("map-{index}"), "a").to_string();
                admin.send("POST", MAPS, &headers, body).await.must(201);
            }
        });
        if hangs {
            join_all(sent).await;
            // One attempt of a batch takes half a minute.
            assert!(
                began.elapsed() < Duration::from_secs(15),
                "{:?}",
                began.elapsed()
            );
            eventually("what the webhook did not take is counted", || async {
                let lost = lost(&admin).await;
                if lost > 100 {
                    Ok(())
                } else {
                    Err(format!("{lost}"))
                }
            })
            .await;
        } else {
            for one in sent {
                one.await;
            }
            for index in 0..count {
                let id = format!("sent-{index}");
                eventually("the webhook has both events of each request", || async {
                    let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
                    let stages: Vec<Value> = of_id(&taken, &id)
                        .into_iter()
                        .map(|it| it["stage"].clone())
                        .collect();
                    if stages == ["RequestReceived", "ResponseComplete"] {
                        Ok(())
                    } else {
                        Err(format!("{id}: {stages:?}"))
                    }
                })
                .await;
            }
        }
        let own = events(&scratch.file("audit.log"));
        for index in 0..count {
            let found = of_id(&own, &format!("sent-{index}"));
            assert_eq!(
                found.len(),
                2,
                "the log has what the webhook has not: {found:#?}"
            );
        }
    }
}
