//! The engine over real members of etcd.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::conformance::ports::free_port;
use crate::conformance::{self, Fixture, Step};
use crate::key::KeyRange;
use crate::store::{Change, Expect};
use crate::watch::WatchEnd;

mod cluster;
mod fates;
mod faults;
mod full;
mod past;
mod proxy;
mod replicas;
mod sealed;
mod tls;

use self::cluster::Cluster;

/// What this etcd must take for the suite's largest batches.
const LARGE: &[&str] = &["--max-txn-ops=4096", "--max-request-bytes=16777216"];

/// A bound for a broken engine, not a measure.
const PATIENCE: Duration = Duration::from_secs(30);

/// An engine over one member. A crash kills both.
#[derive(Debug)]
struct OverEtcd {
    cluster: Cluster,
    engine: Arc<Engine>,
}

// === impl OverEtcd ===

impl OverEtcd {
    fn new() -> Option<Self> {
        let cluster = Cluster::start(1, LARGE)?;
        let engine = open(cluster.config());
        Some(Self { cluster, engine })
    }
}

impl Fixture for OverEtcd {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.engine) as _
    }

    fn compact(&mut self, floor: Revision) -> Step<'_> {
        Box::pin(async move {
            self.engine.compact(floor).await.unwrap();
        })
    }

    fn reopen(&mut self) -> Step<'_> {
        Box::pin(async move {
            self.engine.close();
            self.engine = open(self.cluster.config());
        })
    }

    fn crash(&mut self) -> Step<'_> {
        Box::pin(async move {
            self.cluster.kill_member(0);
            self.cluster.start_member(0);
            self.engine = open(self.cluster.config());
        })
    }
}

fn open(config: Config) -> Arc<Engine> {
    Arc::new(Engine::open(config).unwrap())
}

fn put(key: &str, value: &str) -> Vec<Write> {
    vec![Write::put(key, value)]
}

fn value(store: &Engine, key: &str) -> Option<String> {
    let entry = store.get(key.as_bytes())?;
    Some(String::from_utf8_lossy(entry.value()).into_owned())
}

fn watch_all(store: &Engine, after: Revision) -> Watcher {
    let range = KeyRange::all();
    store.watch(WatchQuery { range, after }).unwrap()
}

/// Waits for a condition.
async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "{what} takes too long");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Asks for the newest revision until it is known. Members that elect a leader let one question pass its deadline.
async fn insist_on_fresh(store: &Engine) -> Revision {
    let began = Instant::now();
    loop {
        match store.fresh().await {
            Ok(revision) => return revision,
            Err(Error::Unavailable { .. }) => {
                assert!(began.elapsed() < PATIENCE, "the revision takes too long");
            }
            Err(other) => unreachable!("{other}"),
        }
    }
}

/// Writes until it succeeds. Everything else that is said must be a typed refusal.
async fn insist(store: &Engine, key: &str, value: &str) -> Revision {
    let began = Instant::now();
    loop {
        match store.commit(put(key, value)).await {
            Ok(done) => return done.revision,
            Err(Error::Unavailable { .. } | Error::Unknown { .. }) => {
                assert!(began.elapsed() < PATIENCE, "a write takes too long");
            }
            Err(other) => unreachable!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_over_etcd_conforms() {
    if cluster::binary().is_none() {
        return;
    }
    conformance::run(
        async || Box::new(OverEtcd::new().unwrap()) as _,
        |case| println!("{case}"),
    )
    .await;
}

#[tokio::test]
async fn a_batch_that_is_too_large_for_this_etcd_is_refused_as_such() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let engine = open(cluster.config());
    let before = engine.commit(put("/a", "0")).await.unwrap().revision;
    let many = (0..200).map(|n| Write::put(format!("/{n}"), "")).collect();
    for writes in [many, vec![Write::put("/a", vec![0; 2_000_000])]] {
        let refused = engine.commit(writes).await.unwrap_err();
        assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    }
    assert_eq!(engine.revision(), before, "nothing was written");
    engine.commit(put("/a", "1")).await.unwrap();
}

#[test]
fn a_store_whose_etcd_is_not_there_does_not_open() {
    let config = Config {
        open_timeout: Duration::from_millis(300),
        ..Config::new(vec![format!("http://127.0.0.1:{}", free_port())])
    };
    let refused = Engine::open(config);
    assert!(
        matches!(refused, Err(OpenError::Engine { .. })),
        "{refused:?}"
    );
    for servers in [vec![], vec!["etcd".to_owned()]] {
        let refused = Engine::open(Config::new(servers));
        assert!(
            matches!(refused, Err(OpenError::Engine { .. })),
            "{refused:?}"
        );
    }
}
