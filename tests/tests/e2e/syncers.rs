//! Syncers in processes of their own: they share the spokes of a hub that only answers, and never write beside another.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tokio::time::Instant;
use wheelhouse_tests::{
    FakeSpoke, assets, eventually,
    process::{Process, Scratch, free_port},
    wait::within,
};

use super::{
    etcd::{Etcd, Replica},
    replicas::{AGENT, Stage, calls, shared},
};

const SPOKE_COUNT: usize = 4;

/// Within this another syncer has what one had: what the hub promises.
const HANDOVER_MAX: Duration = Duration::from_secs(10);

/// How long the work may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// A syncer in a process of its own.
struct Syncer {
    process: Process,
    _scratch: Scratch,
}

// === impl Syncer ===

impl Syncer {
    /// Starts one, whose writes are to be told by its name.
    fn start(hub: &Path, name: &str) -> Self {
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
struct Alone {
    scratch: Scratch,
    port: u16,
}

// === impl Alone ===

impl Alone {
    fn new() -> Self {
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

    async fn start(&self, options: &[&str]) -> Replica {
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
    let again = Syncer::start(&file, "again");
    within(PATIENCE, "another one ends", || async {
        let log = again.process.log();
        (!again.process.runs() && log.contains("--no-syncer"))
            .then_some(())
            .ok_or(log)
    })
    .await;
}
