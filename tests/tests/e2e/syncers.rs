//! Syncers in processes of their own: they share the spokes of a hub that only answers, and never write beside another.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use client::DeleteRequest;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};
use wheelhouse_tests::{
    FakeSpoke, Spoke, assets, eventually, openmetrics,
    process::{Process, Scratch, free_port},
    wait::within,
};

use super::{
    etcd::{Etcd, Replica},
    replicas::{AGENT, Stage, calls, endpoint, shared},
};

const SPOKE_COUNT: usize = 4;

/// Within this another syncer has what one had: what the hub promises.
const HANDOVER_MAX: Duration = Duration::from_secs(10);

/// How long the work may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// A syncer in a process of its own.
pub(super) struct Syncer {
    pub(super) process: Process,
    _scratch: Scratch,
}

// === impl Syncer ===

impl Syncer {
    /// Starts one, whose writes are to be told by its name.
    pub(super) fn start(hub: &Path, name: &str) -> Self {
        let scratch = Scratch::new(name);
        let mut command = Command::new(assets::wheelhouse());
        command
            .args(["syncer", "--hub"])
            .arg(hub)
            .env("HOSTNAME", name)
            .env("NO_COLOR", "1")
            .env("WHEELHOUSE_LOG", "info");
        let process = Process::start(&command, &scratch.file("syncer.log"));
        Self {
            process,
            _scratch: scratch,
        }
    }

    /// Reads a page of the syncer: the code, and the body.
    async fn page(&self, path: &str) -> (u16, String) {
        let address = within(PATIENCE, "the syncer serves its pages", || async {
            let log = self.process.log();
            let told = log
                .lines()
                .find(|it| it.contains("serving health and metrics"));
            let address = told.and_then(|line| line.split("address=").nth(1)?.split(' ').next());
            address.map(str::to_owned).ok_or(log)
        })
        .await;
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: syncer\r\nConnection: close\r\n\r\n");
        let sent = stream.write_all(request.as_bytes()).await;
        sent.expect("it reads");
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer).await;
        read.expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP");
        let code = head.split(' ').nth(1).expect("a code");
        (code.parse().expect("a number"), body.to_owned())
    }

    /// Waits until a page is answered with a code and a text.
    pub(super) async fn says(&self, path: &str, code: u16, text: &str) {
        within(PATIENCE, path, || async {
            let (found, body) = self.page(path).await;
            let is_said = found == code && body.contains(text);
            is_said.then_some(()).ok_or(format!("{found}: {body}"))
        })
        .await;
    }

    /// Waits until a metric has a value.
    pub(super) async fn counts(&self, sample: &str, want: impl Fn(f64) -> bool) {
        within(PATIENCE, sample, || async {
            let (code, text) = self.page("/metrics").await;
            assert_eq!(code, 200, "{text}");
            openmetrics::parse(&text).expect("it is OpenMetrics");
            let line = text.lines().find_map(|it| it.strip_prefix(sample));
            let value = line.and_then(|it| it.trim().parse().ok());
            value.filter(|it| want(*it)).map(drop).ok_or(text)
        })
        .await;
    }
}

/// Returns who wrote to a spoke, in order: the names of syncers, and the empty one for a hub that is alone.
fn writers(spoke: &FakeSpoke) -> Vec<String> {
    let wrote = spoke.wrote().into_iter().filter(|it| it.agent != AGENT);
    let name = |agent: &str| {
        let identity = agent.split_once('(').map_or("", |(_, identity)| identity);
        identity.split('_').next().unwrap_or_default().to_owned()
    };
    wrote.map(|it| name(&it.agent)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn syncers_of_their_own_share_the_spokes_and_those_of_one_that_is_killed_move() {
    let etcd = Etcd::start();
    let keys = Scratch::new("syncers");
    let file = keys.file("syncers.kubeconfig");
    let out = file.to_str().expect("a path of text");
    let options = ["--no-syncer", "--syncer-kubeconfig-out", out];
    let hub = Replica::start_with(&etcd, "hub", &options).await;
    let one = Syncer::start(&file, "one");
    let (stage, root) = Stage::join(etcd, &hub, SPOKE_COUNT).await;
    shared(&root, &[SPOKE_COUNT]).await;
    let two = Syncer::start(&file, "two");
    shared(&root, &[SPOKE_COUNT / 2, SPOKE_COUNT / 2]).await;
    stage.make(&root, "before").await;
    stage.converged("before").await;
    let half = f64::from(u32::try_from(SPOKE_COUNT / 2).expect("a few"));
    for syncer in [&one, &two] {
        syncer.says("/readyz", 200, "ok").await;
        let is_half = |value: f64| (value - half).abs() < f64::EPSILON;
        syncer.counts("wheelhouse_share_spokes ", is_half).await;
        let work = r#"controller_runtime_reconcile_total{controller="spoke",result="success"} "#;
        syncer.counts(work, |value| value > 0.0).await;
    }
    let left = r#"wheelhouse_share_handovers_total{change="left"} "#;
    one.counts(left, |value| value >= half).await;
    for name in ["one", "two"] {
        let has_written = stage
            .spokes
            .iter()
            .any(|spoke| writers(spoke).last().is_some_and(|last| last == name));
        assert!(has_written, "{name} wrote to none");
    }
    // What syncers do not have is with the hub, which has none.
    let kubectl = hub.kubectl();
    kubectl.must(&["create", "namespace", "going"]).await;
    kubectl
        .must(&["delete", "namespace", "going", "--timeout=30s"])
        .await;

    let killed = Instant::now();
    one.process.signal("KILL");
    shared(&root, &[SPOKE_COUNT]).await;
    let took = killed.elapsed();
    assert!(took <= HANDOVER_MAX, "they moved after {took:?}");
    within(PATIENCE, "the Spokes say who has them", || async {
        let wide = ["get", "spokes", "-o", "wide", "--no-headers"];
        let told = hub.kubectl().must(&wide).await;
        let of_two = told.lines().filter(|line| line.contains(" two_")).count();
        (of_two == SPOKE_COUNT).then_some(()).ok_or(told)
    })
    .await;
    two.counts("wheelhouse_share_leads ", |value| value > 0.0)
        .await;
    stage.make(&root, "after").await;
    stage.converged("after").await;
    for spoke in &stage.spokes {
        let writers = writers(spoke);
        assert_eq!(writers.last().map(String::as_str), Some("two"));
        assert!(
            writers.iter().all(|name| name == "one" || name == "two"),
            "the hub itself wrote: {writers:?}"
        );
        // A spoke may have moved from one to the other; never to and fro.
        let mut hands = writers.clone();
        hands.dedup();
        assert!(hands.len() <= 2, "{}: {hands:?}", spoke.name());
    }
    two.process.signal("TERM");
    let root = calls(&hub).await;
    shared(&root, &[]).await;
}

/// A hub over a directory.
pub(super) struct Alone {
    pub(super) scratch: Scratch,
    port: u16,
}

// === impl Alone ===

impl Alone {
    pub(super) fn new() -> Self {
        Self {
            scratch: Scratch::new("alone"),
            port: free_port(),
        }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.scratch.file("kubeconfig")
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(assets::wheelhouse());
        command
            .args(["serve", "--audit-log-path=", "--data-dir"])
            .arg(self.scratch.file("data"))
            .args(["--listen", &format!("127.0.0.1:{}", self.port)])
            .arg("--kubeconfig-out")
            .arg(self.kubeconfig())
            .args(options)
            .env("NO_COLOR", "1")
            .env("WHEELHOUSE_LOG", "info");
        command
    }

    pub(super) async fn start(&self, options: &[&str]) -> Replica {
        let log = Scratch::new("alone-log");
        let _absent = std::fs::remove_file(self.kubeconfig());
        let process = Process::start(&self.command(options), &log.file("hub.log"));
        eventually("the hub is ready", || async {
            assert!(process.runs(), "it ended:\n{}", process.log());
            let is_ready = self.kubeconfig().is_file();
            is_ready.then_some(()).ok_or_else(|| process.log())
        })
        .await;
        let kubeconfig = std::fs::read(self.kubeconfig()).expect("it is there");
        log.write("kubeconfig", kubeconfig);
        Replica {
            process,
            scratch: log,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_has_a_syncer_again_writes_only_once_the_other_has_stopped() {
    let alone = Alone::new();
    let file = alone.scratch.file("syncers.kubeconfig");
    let out = file.to_str().expect("a path of text");
    let refused = alone.command(&["--syncer-kubeconfig-out", out]).output();
    let refused = refused.expect("wheelhouse can be started");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("--no-syncer"), "{told}");

    let options = ["--no-syncer", "--syncer-kubeconfig-out", out];
    let hub = alone.start(&options).await;
    let one = Syncer::start(&file, "one");
    let (stage, root) = Stage::join_to(None, &hub, 1).await;
    stage.make(&root, "before").await;
    stage.converged("before").await;
    let spoke = &stage.spokes[0];
    assert_eq!(writers(spoke).last().map(String::as_str), Some("one"));

    hub.process.signal("KILL");
    drop(hub);
    let early = Syncer::start(&file, "early");
    early.says("/livez", 200, "ok").await;
    early.says("/readyz?verbose", 500, "[-]hub failed").await;
    early.says("/readyz/hub", 500, "has not answered").await;
    early.says("/version", 404, "not found").await;
    drop(early);
    let hub = alone.start(&[]).await;
    let root = calls(&hub).await;
    stage.make(&root, "after").await;
    stage.converged("after").await;
    let log = hub.process.log();
    assert!(
        log.contains("waiting until syncers of other processes"),
        "{log}"
    );
    let mut hands = writers(spoke);
    hands.dedup();
    assert_eq!(hands, ["one", ""], "one after the other");
    within(PATIENCE, "the syncer is told why", || async {
        let log = one.process.log();
        let is_told = log.contains("looks after its spokes itself");
        is_told.then_some(()).ok_or(log)
    })
    .await;
    one.says("/readyz/share", 500, "has no share of the work")
        .await;
    one.says("/healthz", 500, "[+]hub ok").await;
    one.says("/livez", 200, "ok").await;
    let renewals = "wheelhouse_share_failed_renewals_total ";
    one.counts(renewals, |value| value > 0.0).await;
    one.counts("wheelhouse_share_member ", |value| value < 1.0)
        .await;
    let again = Syncer::start(&file, "again");
    within(PATIENCE, "another one ends", || async {
        let log = again.process.log();
        (!again.process.runs() && log.contains("--no-syncer"))
            .then_some(())
            .ok_or(log)
    })
    .await;
}

/// What a syncer of its own does in a cluster that is not ours: children are written, mended and deleted, and another syncer goes on
/// where one has stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_syncer_of_its_own_keeps_a_real_cluster_as_the_hub_says() {
    let alone = Alone::new();
    let file = alone.scratch.file("syncers.kubeconfig");
    let out = file.to_str().expect("a path of text");
    let options = ["--no-syncer", "--syncer-kubeconfig-out", out];
    let (hub, spoke) = tokio::join!(alone.start(&options), Spoke::start("real"));
    let one = Syncer::start(&file, "one");
    let (_stage, root) = Stage::join_to(None, &hub, 0).await;
    let added = tokio::process::Command::new(assets::wheelhouse())
        .args(["spoke", "add", "real", "--wait=60", "--from"])
        .arg(spoke.kubeconfig())
        .arg("--kubeconfig")
        .arg(hub.scratch.file("kubeconfig"))
        .output()
        .await
        .expect("wheelhouse can be started");
    assert!(added.status.success(), "{added:?}");
    let boxes = endpoint("real", ("kro.run", "v1alpha1", "boxes"), "default");
    let make = async |name: &str| {
        let object = json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "Box",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"text": name},
        });
        eventually("an instance can be made", || async {
            let made = root.create(&boxes, &object).await;
            made.map(drop).map_err(|error| error.chain())
        })
        .await;
    };
    let kubectl = spoke.kubectl();
    let is_there = async |name: &str, text: &str| {
        within(PATIENCE, "the children are in the cluster", || async {
            let map = kubectl.json(&["get", "configmap", name]).await?;
            let second = kubectl
                .json(&["get", "configmap", &format!("{name}-second")])
                .await?;
            let is_so =
                map["data"]["text"] == text && second["data"]["first"] == map["metadata"]["uid"];
            is_so.then_some(()).ok_or(format!("{map} {second}"))
        })
        .await;
    };
    make("first").await;
    is_there("first", "first").await;
    kubectl.must(&["delete", "configmap", "first"]).await;
    is_there("first", "first").await;
    let wrong = r#"{"data":{"text":"drifted"}}"#;
    kubectl
        .must(&["patch", "configmap", "first", "--type=merge", "-p", wrong])
        .await;
    is_there("first", "first").await;

    one.process.signal("TERM");
    let two = Syncer::start(&file, "two");
    make("second").await;
    is_there("second", "second").await;
    two.says("/readyz", 200, "ok").await;
    let removed = root
        .delete(&boxes, "first", &DeleteRequest::default())
        .await;
    removed.expect("it is there");
    within(PATIENCE, "the children are gone", || async {
        let left = kubectl.must(&["get", "configmaps", "-o", "name"]).await;
        let is_left = left.lines().any(|it| it.starts_with("configmap/first"));
        (!is_left).then_some(()).ok_or(left)
    })
    .await;
    is_there("second", "second").await;
}
