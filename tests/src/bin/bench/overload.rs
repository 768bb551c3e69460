//! `hack/bench overload` (R30): what others notice of a tenant that sends as much as it can.
//!
//! Tenants work in clusters of their own at a steady rate: the load is open, so that a request that waits is as old as it is. The hostile
//! tenant is a process of its own, which gets a processor only when nobody else wants it: what it computes itself is not to count.
//! Turns without it alternate with turns with it, so that a machine that slows down for a while slows down both.

use std::{path::Path, process::ExitCode, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::watch,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use wheelhouse_tests::{Hub, hub::Settings, process::Scratch, support::base, wait::within};

use crate::{
    Asked, fleet,
    measure::{Series, float, percentile_ms},
    report::{Better, Report, say},
    wire::{Target, Wire},
};

/// The name under which the process of the hostile tenant is started.
pub(crate) const FLOOD: &str = "flood";

const TENANTS: usize = 8;
const HOSTILE: &str = "mallory";
/// Requests of a tenant in a second.
const RATE: u32 = 20;
/// Connections of the hostile tenant, and requests under way on each.
const FLOOD_CONNECTIONS: usize = 8;
const FLOOD_WIDTH: usize = 16;
/// Objects of each cluster: what is listed.
const OBJECTS: usize = 200;
const TURN: Duration = Duration::from_secs(3);
/// After each change, until its first storm is part of no turn.
const SETTLE: Duration = Duration::from_millis(500);
/// Between two looks at the hub's health.
const HEALTH_INTERVAL: Duration = Duration::from_millis(100);
/// Between two renewals of a tenant's Lease, and how long one may take: as a kubelet has it.
const LEASE_INTERVAL: Duration = Duration::from_secs(1);
const LEASE_TIMEOUT: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_mins(1);
/// The rise that is accepted, in percent.
const RISE_MAX: f64 = 20.0;
const ACCESS: &str = "access";

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// What the others got in the turns of one kind.
#[derive(Default)]
struct Found {
    /// Of requests of the tenants, what was asked, and how long it took in microseconds.
    requests: Vec<(Verb, u64)>,
    refused_count: usize,
    /// Of looks at the health of the hub, likewise.
    health: Vec<u64>,
    sick_count: usize,
    lease_count: usize,
    lost_lease_count: usize,
    rss_max: u64,
    hub_ms: u64,
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    List,
    Update,
}

/// The process of the hostile tenant.
struct Flood {
    _child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// A tenant, in the cluster of its name.
struct Tenant {
    name: String,
    wire: Wire,
}

/// Measures, three seconds with and three without.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    let names: Vec<String> = (0..TENANTS)
        .map(|index| format!("tenant-{index}"))
        .collect();
    let all: Vec<String> = names.iter().cloned().chain([HOSTILE.to_owned()]).collect();
    let scratch = Scratch::new("overload");
    let hub = start(&scratch, &all).await;
    let tenants: Vec<Arc<Tenant>> = join_all(names.iter().map(|name| tenant(&hub, name))).await;
    let mut flood = Flood::start(&hub.kubeconfig());
    let (mut calm, mut flooded) = (Found::default(), Found::default());
    drop(turn(&hub, &tenants).await);
    let (mut taken, mut refused, mut lasted) = (0, 0, Duration::ZERO);
    for _ in 0..asked.seconds.unwrap_or(30).div_ceil(TURN.as_secs()) {
        sleep(SETTLE).await;
        calm.add(turn(&hub, &tenants).await);
        flood.say("go").await;
        let begun = Instant::now();
        sleep(SETTLE).await;
        flooded.add(turn(&hub, &tenants).await);
        let told = flood.say("stop").await;
        lasted += begun.elapsed();
        taken += told["taken"].as_u64().unwrap_or(0);
        refused += told["refused"].as_u64().unwrap_or(0);
    }
    tell(&calm, &flooded, report);
    for (what, count) in [("answered", taken), ("refused", refused)] {
        let what = format!("R30 requests of the hostile tenant, {what}");
        let rate = float(count) / lasted.as_secs_f64();
        report.row(&what, "1/s", rate, Series::default(), Better::More);
    }
    report.note(format!(
        "R30: {TENANTS} tenants with {RATE} requests per second each, of which half are gets, a quarter lists of {OBJECTS} ConfigMaps of \
         1.2 KB, and a quarter updates, each in an embedded cluster of its own; one more sends {} at a time, lists and updates, without a \
         pause. Turns of {TURN:?}; the peer of a row is the time without it.",
        FLOOD_CONNECTIONS * FLOOD_WIDTH
    ));
}

/// A hub with a cluster for each name, whose user of that name may do everything in it.
async fn start(scratch: &Scratch, names: &[String]) -> Hub {
    let lines: Vec<String> = names
        .iter()
        .map(|it| format!("{it},{it},uid-of-{it}"))
        .collect();
    let tokens = scratch.write("tokens.csv", lines.join("\n"));
    let settings = Settings {
        arguments: vec!["--token-auth-file".to_owned(), tokens.display().to_string()],
        ..Settings::default()
    };
    let hub = Hub::start_with(settings).await;
    let wire = fleet::wire(&hub).await;
    fleet::embed(&wire, names).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let group = "rbac.authorization.k8s.io";
    let bound = |name: &str, role: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": format!("{role}-{name}")},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}]})
    };
    let grants = names.iter().flat_map(|name| {
        let role = format!("{ACCESS}-{name}");
        let rule = json!({"apiGroups": ["wheelhouse.dev"], "resources": ["spokes"], "resourceNames": [name], "verbs": [ACCESS]});
        let access = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": role}, "rules": [rule]});
        [
            (format!("{rbac}/clusterroles"), access),
            (format!("{rbac}/clusterrolebindings"), bound(name, &role)),
            (format!("{}{rbac}/clusterrolebindings", base(name)), bound(name, "cluster-admin")),
        ]
    });
    fleet::send_all(&wire, "POST", 201, grants).await;
    let objects = names.iter().flat_map(|name| {
        let path = format!("{}/api/v1/namespaces/default/configmaps", base(name));
        (0..OBJECTS).map(move |index| {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{index}")},
                "data": {"payload": "x".repeat(900)}});
            (path.clone(), map)
        })
    });
    fleet::send_all(&wire, "POST", 201, objects).await;
    hub
}

async fn tenant(hub: &Hub, name: &str) -> Arc<Tenant> {
    let wire = Target::with_token(&hub.kubeconfig(), name).wire(1).await;
    let maps = format!("{}/api/v1/namespaces/default/configmaps", base(name));
    within(PATIENCE, "the tenant is let in", || async {
        let (code, answer) = wire
            .json("GET", &format!("{maps}?limit=1"), &Value::Null)
            .await;
        (code == 200).then_some(()).ok_or(answer.to_string())
    })
    .await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "node"}, "spec": {}});
    let leases = format!(
        "{}/apis/coordination.k8s.io/v1/namespaces/default/leases",
        base(name)
    );
    let (code, answer) = wire.json("POST", &leases, &lease).await;
    assert_eq!(code, 201, "{answer}");
    let name = name.to_owned();
    Arc::new(Tenant { name, wire })
}

/// One turn of all tenants, with looks at the hub's health.
async fn turn(hub: &Hub, tenants: &[Arc<Tenant>]) -> Found {
    let before = hub.process().usage().0;
    let mut works = JoinSet::new();
    for tenant in tenants {
        works.spawn(Arc::clone(tenant).works());
        works.spawn(Arc::clone(tenant).renews());
    }
    let health = Target::anonymous(&hub.kubeconfig()).wire(1).await;
    let mut found = Found::default();
    let end = Instant::now() + TURN;
    let mut due = interval(HEALTH_INTERVAL);
    while Instant::now() < end {
        due.tick().await;
        for path in ["/livez", "/readyz"] {
            let sent = Instant::now();
            let answer = health
                .connection(0)
                .send("GET", path, JSON, Bytes::new())
                .await;
            found.health.push(micros(sent));
            found.sick_count += usize::from(!answer.is_ok_and(|(code, _)| code == 200));
        }
        found.rss_max = found.rss_max.max(hub.process().usage().1);
    }
    for other in works.join_all().await {
        found.add(other);
    }
    found.hub_ms = hub.process().usage().0 - before;
    found
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// A request of a tenant or of the flood: half are gets, a quarter lists, and a quarter updates.
fn request(cluster: &str, index: usize) -> (Verb, String, &'static str, Bytes) {
    let maps = format!("{}/api/v1/namespaces/default/configmaps", base(cluster));
    let one = format!("{maps}/map-{}", index % OBJECTS);
    match index % 4 {
        0 | 2 => (Verb::Get, one, JSON, Bytes::new()),
        1 => (Verb::List, maps, JSON, Bytes::new()),
        _ => (
            Verb::Update,
            one,
            MERGE,
            json!({"data": {"stamp": index.to_string()}})
                .to_string()
                .into(),
        ),
    }
}

fn tell(calm: &Found, flooded: &Found, report: &mut Report) {
    let of = |found: &Found, verbs: &[Verb]| -> Vec<u64> {
        let those = found
            .requests
            .iter()
            .filter(|(verb, _)| verbs.contains(verb));
        those.map(|(_, took)| *took).collect()
    };
    let kinds: [(&str, &[Verb]); 4] = [
        (
            "requests of the others",
            &[Verb::Get, Verb::List, Verb::Update],
        ),
        ("gets of the others", &[Verb::Get]),
        ("lists of the others", &[Verb::List]),
        ("updates of the others", &[Verb::Update]),
    ];
    for (what, verbs) in kinds {
        latencies(what, &of(flooded, verbs), &of(calm, verbs), report);
    }
    latencies("looks at health", &flooded.health, &calm.health, report);
    let seconds =
        float(flooded.requests.len() as u64) / (float(u64::from(RATE)) * float(TENANTS as u64));
    let number = |count: usize| float(count as u64);
    let megabytes = |found: &Found| float(found.rss_max) / float(1 << 20);
    let processors = |found: &Found| float(found.hub_ms) / seconds / 1000.0;
    let figures: [(&str, &'static str, fn(&Found) -> usize); 5] = [
        ("requests of the others", "", |it| it.requests.len()),
        ("requests of the others that failed", "", |it| {
            it.refused_count
        }),
        ("looks at health that failed", "", |it| it.sick_count),
        ("renewals of Leases", "", |it| it.lease_count),
        ("renewals of Leases that failed", "", |it| {
            it.lost_lease_count
        }),
    ];
    let mut less = |what: &str, unit: &'static str, ours: f64, calm: f64| {
        report.row(&format!("R30 {what}"), unit, ours, calm, Better::Less);
    };
    for (what, unit, of) in figures {
        less(what, unit, number(of(flooded)), number(of(calm)));
    }
    less(
        "RSS of the hub, at most",
        "MB",
        megabytes(flooded),
        megabytes(calm),
    );
    less(
        "processors that the hub took",
        "",
        processors(flooded),
        processors(calm),
    );
}

fn latencies(what: &str, flooded: &[u64], calm: &[u64], report: &mut Report) {
    for percent in [50, 99] {
        let (ours, peer) = (
            percentile_ms(flooded, percent),
            percentile_ms(calm, percent),
        );
        report.row(
            &format!("R30 {what}, p{percent}"),
            "ms",
            ours,
            peer,
            Better::Less,
        );
    }
    let rise = 100.0 * (percentile_ms(flooded, 99) / percentile_ms(calm, 99) - 1.0);
    let what = format!("R30 {what}, rise of the p99");
    report.row(&what, "%", rise, Series::default(), Better::Less);
    report.wanted(RISE_MAX);
}

/// The process of the hostile tenant: it floods between `go` and `stop`, and says then what came of it. It ends with its input.
pub(crate) async fn flood(arguments: Vec<String>) -> ExitCode {
    let Some(kubeconfig) = arguments.first() else {
        return ExitCode::FAILURE;
    };
    let target = Target::with_token(Path::new(kubeconfig), HOSTILE);
    let (switch, on) = watch::channel(false);
    let (told, mut counts) = tokio::sync::mpsc::unbounded_channel::<bool>();
    let mut works = JoinSet::new();
    for index in 0..FLOOD_CONNECTIONS {
        let wire = target.wire(1).await;
        for place in 0..FLOOD_WIDTH {
            let (wire, mut on, told) = (wire.clone(), on.clone(), told.clone());
            works.spawn(async move {
                for number in (index * FLOOD_WIDTH + place).. {
                    if on.wait_for(|on| *on).await.is_err() {
                        return;
                    }
                    // Lists and updates: what costs most.
                    let (verb, path, media_type, body) = request(HOSTILE, number * 2 + 1);
                    let answer = wire
                        .connection(0)
                        .send(verb.method(), &path, media_type, body)
                        .await;
                    let _gone = told.send(answer.is_ok_and(|(code, _)| code < 400));
                }
            });
        }
    }
    let next = || tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
    while let Ok(Some(Ok(line))) = next().await {
        let goes = line == "go";
        let _same = switch.send_replace(goes);
        let (mut taken, mut refused) = (0_u64, 0_u64);
        while let Ok(was_taken) = counts.try_recv() {
            *(if was_taken { &mut taken } else { &mut refused }) += 1;
        }
        say(&json!({"taken": taken, "refused": refused}).to_string());
    }
    ExitCode::SUCCESS
}

// === impl Verb ===

impl Verb {
    const fn method(self) -> &'static str {
        match self {
            Self::Get | Self::List => "GET",
            Self::Update => "PATCH",
        }
    }
}

// === impl Found ===

impl Found {
    fn add(&mut self, other: Self) {
        self.requests.extend(other.requests);
        self.refused_count += other.refused_count;
        self.health.extend(other.health);
        self.sick_count += other.sick_count;
        self.lease_count += other.lease_count;
        self.lost_lease_count += other.lost_lease_count;
        self.rss_max = self.rss_max.max(other.rss_max);
        self.hub_ms += other.hub_ms;
    }
}

// === impl Tenant ===

impl Tenant {
    /// Sends requests as they are due, whatever became of those before.
    async fn works(self: Arc<Self>) -> Found {
        let mut due = interval(Duration::from_secs(1) / RATE);
        due.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut sent = JoinSet::new();
        let count = u64::from(RATE) * TURN.as_secs();
        for index in 0..usize::try_from(count).unwrap_or(0) {
            due.tick().await;
            let (verb, path, media_type, body) = request(&self.name, index);
            let connection = self.wire.connection(0).clone();
            let begin = Instant::now();
            sent.spawn(async move {
                let answer = connection
                    .send(verb.method(), &path, media_type, body)
                    .await;
                let took = (verb, micros(begin));
                (answer.is_ok_and(|(code, _)| code == 200), took)
            });
        }
        let mut found = Found::default();
        for (is_good, took) in sent.join_all().await {
            found.requests.push(took);
            found.refused_count += usize::from(!is_good);
        }
        found
    }

    /// Renews the Lease of the tenant, as a kubelet does.
    async fn renews(self: Arc<Self>) -> Found {
        let mut found = Found::default();
        let path = format!(
            "{}/apis/coordination.k8s.io/v1/namespaces/default/leases/node",
            base(&self.name)
        );
        let (mut due, end) = (interval(LEASE_INTERVAL), Instant::now() + TURN);
        while Instant::now() < end {
            due.tick().await;
            found.lease_count += 1;
            let body = json!({"spec": {"leaseTransitions": found.lease_count}}).to_string();
            let renewal = self
                .wire
                .connection(0)
                .send("PATCH", &path, MERGE, body.into());
            let answer = tokio::time::timeout(LEASE_TIMEOUT, renewal).await;
            let is_good = matches!(answer, Ok(Ok((200, _))));
            found.lost_lease_count += usize::from(!is_good);
        }
        found
    }
}

// === impl Flood ===

impl Flood {
    fn start(kubeconfig: &Path) -> Self {
        let mut command = Command::new("chrt");
        command
            .args(["--idle", "0"])
            .arg(std::env::current_exe().expect("it runs"));
        command.arg(FLOOD).arg(kubeconfig).kill_on_drop(true);
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped());
        let mut child = command.spawn().expect("chrt is there");
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        let lines = BufReader::new(output).lines();
        Self {
            _child: child,
            input,
            lines,
        }
    }

    /// Says something to it; returns what it says.
    async fn say(&mut self, what: &str) -> Value {
        let line = format!("{what}\n");
        self.input
            .write_all(line.as_bytes())
            .await
            .expect("it reads");
        let answer = self
            .lines
            .next_line()
            .await
            .expect("it answers")
            .unwrap_or_default();
        serde_json::from_str(&answer).expect("JSON")
    }
}
