//! Replicas are replaced by those of another version, one after the other, and by those of the first one again, while clients go
//! on behind one address (R28).
//!
//! The other version is that of `WHEELHOUSE_OLD_BIN`. Without it both are the one under test, and the trial is one of rolling
//! restarts: what every upgrade needs, whatever differs.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use api::meta;
use client::{
    Dynamic,
    reflector::{self, Event, Tasks},
};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};
use wheelhouse_tests::{Balancer, Kubectl, assets, process::Scratch, wait::within};

use super::{
    etcd::{Etcd, Replica},
    replicas::{Stage, calls_by, endpoint, shared},
};

const SPOKE_COUNT: usize = 2;

/// Clients that write and read back what they have written, each over a connection of its own.
const WRITER_COUNT: usize = 3;
const WATCHER_COUNT: usize = 3;

/// Between two writes of a writer: etcd keeps all of them.
const PACE: Duration = Duration::from_millis(20);

/// How long the work may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_mins(2);

/// What clients have met.
#[derive(Debug, Clone, Default)]
struct Met(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    /// What was acknowledged, by name, with its uid.
    written: BTreeMap<String, String>,
    /// Requests that were not answered as they should be, and why.
    dropped: Vec<String>,
    /// What each watcher was told of each object, and how often it had to list.
    seen: Vec<BTreeMap<String, usize>>,
    lists: Vec<usize>,
}

// === impl Met ===

impl Met {
    fn note<T>(&self, note: impl FnOnce(&mut Record) -> T) -> T {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn config_maps() -> client::Endpoint {
    endpoint("root", ("", "v1", "configmaps"), "default")
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"name": name}})
}

/// Writes, and reads each write back: every request is answered, whichever replica it meets.
async fn write(calls: Dynamic, writer: usize, met: Met, end: Arc<AtomicBool>) {
    for number in 0.. {
        if end.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("w{writer}-{number}");
        let began = Instant::now();
        match calls.create(&config_maps(), &config_map(&name)).await {
            Ok(made) => met.note(|it| {
                let uid = meta::uid(&made).to_owned();
                it.written.insert(name.clone(), uid);
            }),
            Err(error) => {
                let why = error.chain();
                let took = began.elapsed();
                met.note(|it| {
                    it.dropped
                        .push(format!("create {name} after {took:?}: {why}"));
                });
            }
        }
        if let Err(error) = calls.get(&config_maps(), &name).await {
            let why = error.chain();
            met.note(|it| it.dropped.push(format!("get {name}: {why}")));
        }
        tokio::time::sleep(PACE).await;
    }
}

/// Follows what is written, as a controller does.
fn watch(calls: &Dynamic, watcher: usize, met: &Met, tasks: &Tasks) {
    met.note(|it| {
        it.seen.push(BTreeMap::new());
        it.lists.push(0);
    });
    let source = reflector::Config {
        client: calls.client().clone(),
        endpoint: config_maps(),
        label_selector: None,
        field_selector: None,
        name: "config-maps".to_owned(),
    };
    let mut events = reflector::start(source, tasks, tasks.child_token());
    let met = met.clone();
    tasks.spawn("watcher", async move {
        while let Some(event) = events.recv().await {
            met.note(|it| match event {
                Event::Restarted { objects, .. } => {
                    it.lists[watcher] += 1;
                    for object in objects {
                        *it.seen[watcher].entry(object.name.clone()).or_default() += 1;
                    }
                }
                Event::Applied(object) => {
                    *it.seen[watcher].entry(object.name.clone()).or_default() += 1;
                }
                Event::Deleted(object) => {
                    it.dropped.push(format!("{} was deleted", object.name));
                }
                Event::Interrupted(_) | Event::Resumed => {}
            });
        }
    });
}

/// Returns the port that a replica serves at.
fn port(replica: &Replica) -> u16 {
    let kubeconfig = std::fs::read_to_string(replica.scratch.file("kubeconfig"));
    let kubeconfig = kubeconfig.expect("it is ready");
    let (_, after) = kubeconfig
        .split_once("https://127.0.0.1:")
        .expect("an address");
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a port")
}

/// Puts another replica in the place of one, as a rolling update does: it is ready before the old one ends, and the old one is
/// listed no more when it is asked to end.
async fn replace(
    replicas: &mut [Replica],
    (place, binary): (usize, &Path),
    balancer: &Balancer,
    etcd: &Etcd,
    name: &str,
) {
    let next = Replica::start_of(binary, &etcd.url(), name, &[]).await;
    let old = std::mem::replace(&mut replicas[place], next);
    balancer.list(replicas.iter().map(port));
    old.process.signal("TERM");
    within(PATIENCE, "the old replica ends", || async {
        if old.process.runs() {
            return Err(old.process.log());
        }
        Ok(())
    })
    .await;
    let log = old.process.log();
    assert!(
        !log.contains("aborted") && !log.contains("panicked"),
        "it ends in order:\n{log}"
    );
}

/// Returns the uids of the children of an instance, in the order of the spokes.
fn children(stage: &Stage, name: &str) -> Vec<String> {
    let path = format!("/api/v1/namespaces/default/configmaps/{name}-second");
    let uid = |spoke: &wheelhouse_tests::FakeSpoke| {
        let child = spoke.object(&path);
        meta::uid(&child.expect("it converged")).to_owned()
    };
    stage.spokes.iter().map(uid).collect()
}

/// Waits until every watcher was told of everything, and checks that nobody was told anything twice, or had to list again.
async fn told_once(met: &Met) {
    within(PATIENCE, "watchers see all that was written", || async {
        met.note(|it| {
            let lacks = |seen: &BTreeMap<String, usize>| {
                let mut written = it.written.keys();
                written.find(|name| !seen.contains_key(*name)).cloned()
            };
            match it.seen.iter().find_map(lacks) {
                Some(name) => Err(format!("{name} was not seen")),
                None => Ok(()),
            }
        })
    })
    .await;
    met.note(|it| {
        assert!(it.dropped.is_empty(), "dropped: {:#?}", it.dropped);
        assert_eq!(
            it.lists, [1; WATCHER_COUNT],
            "watches are resumed, not listed again"
        );
        for seen in &it.seen {
            let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
            assert!(twice.is_empty(), "told twice: {twice:?}");
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_an_upgrade_and_the_way_back_drop_no_request_and_no_watch() {
    let (older, newer) = (assets::older_wheelhouse(), assets::wheelhouse());
    let etcd = Etcd::start();
    let first = Replica::start_of(&older, &etcd.url(), "old-0", &[]).await;
    let (stage, root) = Stage::join(etcd, &first, SPOKE_COUNT).await;
    let etcd = stage.etcd();
    let second = Replica::start_of(&older, &etcd.url(), "old-1", &[]).await;
    let mut replicas = [first, second];
    shared(&root, &[1, 1]).await;
    stage.make(&root, "before").await;
    stage.converged("before").await;
    let born = children(&stage, "before");

    let balancer = Balancer::start().await;
    balancer.list(replicas.iter().map(port));
    let own = format!("https://127.0.0.1:{}", port(&replicas[0]));
    let kubeconfig = std::fs::read_to_string(replicas[0].scratch.file("kubeconfig"));
    let kubeconfig = kubeconfig
        .expect("it is ready")
        .replace(&own, &balancer.url());
    let scratch = Scratch::new("clients");
    let kubectl = Kubectl::new(&scratch.write("kubeconfig", &kubeconfig));
    let (met, tasks) = (Met::default(), Tasks::new());
    let end = Arc::new(AtomicBool::new(false));
    for watcher in 0..WATCHER_COUNT {
        watch(&calls_by(&kubeconfig).await, watcher, &met, &tasks);
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITER_COUNT {
        let calls = calls_by(&kubeconfig).await;
        writers.spawn(write(calls, writer, met.clone(), Arc::clone(&end)));
    }

    let root = calls_by(&kubeconfig).await;
    let rounds = [(0, newer), (1, newer), (0, &*older), (1, &*older)];
    for (round, (place, binary)) in rounds.into_iter().enumerate() {
        let name = format!("round-{round}");
        replace(&mut replicas, (place, binary), &balancer, etcd, &name).await;
        // Old and new side by side, or all of one: the hub does all that it is for.
        kubectl
            .apply(&config_map(&format!("kubectl-{round}")).to_string())
            .await;
        stage.make(&root, &name).await;
        stage.converged(&name).await;
        shared(&root, &[1, 1]).await;
    }
    end.store(true, Ordering::Relaxed);
    while let Some(ended) = writers.join_next().await {
        ended.expect("a writer ends");
    }

    told_once(&met).await;
    assert_eq!(children(&stage, "before"), born, "nothing was made anew");
    let all = client::ListRequest::default();
    let listed = root.list(&config_maps(), &all).await.expect("a list").items;
    let found: BTreeMap<&str, &str> = listed
        .iter()
        .map(|it| (meta::name(it), meta::uid(it)))
        .collect();
    met.note(|it| {
        for (name, uid) in &it.written {
            assert_eq!(found.get(name.as_str()), Some(&uid.as_str()), "{name}");
        }
        eprintln!("R28: {} writes, none dropped", it.written.len());
    });
    tasks.shutdown(Duration::from_secs(5)).await;
}
