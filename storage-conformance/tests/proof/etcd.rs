//! R05 over etcd: clients of two replicas on hot keys, while members of etcd hang, die and come back, and
//! replicas are opened anew, see one order of everything.
//!
//! Seeds decide what clients do and what befalls whom; real processes take their time, so a seed does
//! not repeat a failure as surely as on the simulated disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use storage::etcd::{Config, Engine};
use storage::{Revision, Store};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use wheelhouse_storage_conformance::histories::{
    Checked, Follower, InProcess, Recorder, Span, Subject, Violation, Workload, client,
};
use wheelhouse_storage_conformance::{Random, Trial, ports::free_port};

use self::cluster::Cluster;
use super::machine::Followers;

#[path = "../../../storage/src/etcd/tests/cluster.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it belongs to the engine's own tests, which use the rest of it"
)]
mod cluster;

const R05: Trial = Trial("R05");

const HISTORIES: usize = 2;
const CALLS_PER_ROUND: usize = 200;
const CLIENTS_PER_REPLICA: usize = 4;
/// Few enough that every key is always fought over.
const KEYS: usize = 8;
const MEMBERS: usize = 3;

/// A bound for a broken engine, not a measure.
const PATIENCE: Duration = Duration::from_mins(2);

/// What befalls the hub while clients run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    /// A member hangs.
    Stopped,
    /// A member dies.
    Killed,
    /// Two of three die.
    NoMajority,
    /// All of etcd hangs.
    AllStopped,
    /// A replica is closed and opened anew.
    Reopened,
    /// A member dies, and history is let go while a replica may be cut off.
    Compacted,
}

const MISHAPS: [Mishap; 6] = [
    Mishap::Stopped,
    Mishap::Reopened,
    Mishap::Killed,
    Mishap::AllStopped,
    Mishap::Compacted,
    Mishap::NoMajority,
];

/// An etcd, and two replicas over it.
struct Hub {
    cluster: Cluster,
    replicas: Vec<Replica>,
    recorder: Arc<Recorder>,
    random: Random,
}

struct Replica {
    engine: Arc<Engine>,
    clients: Arc<InProcess>,
}

// === impl Hub ===

impl Hub {
    fn start(seed: u64) -> Option<Self> {
        let cluster = Cluster::start(MEMBERS, &["--unsafe-no-fsync"])?;
        let replicas = (0..2).map(|_| Replica::open(&cluster)).collect();
        Some(Self {
            cluster,
            replicas,
            recorder: Arc::default(),
            random: Random::new(seed),
        })
    }

    /// Lets clients of all replicas run while something befalls them, and until all is well again.
    async fn round(&mut self, mishap: Mishap) -> Result<(), Violation> {
        let wanted = self.recorder.call_count() + CALLS_PER_ROUND;
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for replica in &self.replicas {
            for _ in 0..CLIENTS_PER_REPLICA {
                let subject = Arc::clone(&replica.clients);
                let recorder = Arc::clone(&self.recorder);
                let random = Random::new(self.random.bits());
                tasks.spawn(run(subject, recorder, random, Arc::clone(&stop)));
            }
        }
        self.pause(300).await;
        let victim = self.random.below(MEMBERS);
        self.befall(mishap, victim).await;
        self.pause(1500).await;
        self.heal(mishap, victim);
        let well = self.all_is_well(wanted).await;
        stop.store(true, Ordering::Relaxed);
        for outcome in tasks.join_all().await {
            outcome?;
        }
        if !well {
            return Err(Violation {
                promise: "replicas go on when etcd is back",
                what: format!("after {mishap:?} with member {victim} they did not"),
            });
        }
        Ok(())
    }

    async fn pause(&mut self, below_ms: usize) {
        let pause_ms = self.random.below(below_ms) as u64;
        sleep(Duration::from_millis(pause_ms)).await;
    }

    async fn befall(&mut self, mishap: Mishap, victim: usize) {
        match mishap {
            Mishap::Stopped => self.cluster.signal_member(victim, "-STOP"),
            Mishap::Killed => self.cluster.kill_member(victim),
            Mishap::NoMajority => {
                self.cluster.kill_member(victim);
                self.cluster.kill_member((victim + 1) % MEMBERS);
            }
            Mishap::AllStopped => {
                for n in 0..MEMBERS {
                    self.cluster.signal_member(n, "-STOP");
                }
            }
            Mishap::Reopened => {
                let at = self.random.below(self.replicas.len());
                self.replicas[at].reopen(&self.cluster).await;
            }
            Mishap::Compacted => {
                self.cluster.kill_member(victim);
                let at = self.random.below(self.replicas.len());
                let kept = self.random.below(6) as u64;
                let floor = Revision(self.recorder.reach().0.saturating_sub(kept));
                // It may be the one that is cut off.
                drop(self.replicas[at].engine.compact(floor).await);
            }
        }
    }

    fn heal(&mut self, mishap: Mishap, victim: usize) {
        match mishap {
            Mishap::Stopped => self.cluster.signal_member(victim, "-CONT"),
            Mishap::Killed | Mishap::Compacted => self.cluster.start_member(victim),
            Mishap::NoMajority => {
                self.cluster.start_member(victim);
                self.cluster.start_member((victim + 1) % MEMBERS);
            }
            Mishap::AllStopped => {
                for n in 0..MEMBERS {
                    self.cluster.signal_member(n, "-CONT");
                }
            }
            Mishap::Reopened => {}
        }
    }

    /// Waits until every replica answers and clients have made their calls.
    async fn all_is_well(&self, wanted: usize) -> bool {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let mut well = self.recorder.call_count() >= wanted;
            for replica in &self.replicas {
                well &= replica.engine.fresh().await.is_ok();
            }
            if well {
                return true;
            }
            sleep(Duration::from_millis(20)).await;
        }
        false
    }
}

// === impl Replica ===

impl Replica {
    fn open(cluster: &Cluster) -> Self {
        let engine = Arc::new(open(cluster));
        let store: Arc<dyn Store> = Arc::clone(&engine) as _;
        let clients = Arc::new(InProcess::new(store));
        Self { engine, clients }
    }

    async fn reopen(&mut self, cluster: &Cluster) {
        let (old, config) = (Arc::clone(&self.engine), config(cluster));
        let opening = tokio::task::spawn_blocking(move || {
            old.close();
            Engine::open(config).expect("the store can be opened")
        });
        self.engine = Arc::new(opening.await.expect("it only opens"));
        self.clients.replace(Arc::clone(&self.engine) as _);
    }
}

fn config(cluster: &Cluster) -> Config {
    Config {
        deadline: Duration::from_secs(2),
        open_timeout: PATIENCE,
        ..cluster.config()
    }
}

fn open(cluster: &Cluster) -> Engine {
    Engine::open(config(cluster)).expect("the store can be opened")
}

/// A client that begins anew whenever it got no answer.
async fn run(
    subject: Arc<InProcess>,
    recorder: Arc<Recorder>,
    mut random: Random,
    stop: Arc<AtomicBool>,
) -> Result<(), Violation> {
    while !stop.load(Ordering::Relaxed) {
        let workload = Workload {
            seed: random.bits(),
            calls: 20,
            keys: KEYS,
            reads: 35,
            lists: 5,
        };
        if client(&*subject, &recorder, workload, &stop).await? == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

async fn history(hub: &mut Hub, seed: u64) -> Result<(), Violation> {
    let mut followers = Followers::new();
    let after = hub.replicas[0].engine.revision();
    for (replica, restlessness) in [(0, 0), (1, 0), (0, 20), (1, 5)] {
        let subject: Arc<dyn Subject> = Arc::clone(&hub.replicas[replica].clients) as _;
        let follower = Follower {
            restlessness,
            ..Follower::of(Span::all())
        };
        followers.add(&hub.recorder, &subject, follower, after);
    }
    for n in 0..MISHAPS.len() {
        followers.look()?;
        let turn = usize::try_from(seed).unwrap_or(0) + n;
        hub.round(MISHAPS[turn % MISHAPS.len()]).await?;
    }
    let mut last = Revision(0);
    for replica in &hub.replicas {
        last = replica.engine.fresh().await.expect("all is well").max(last);
    }
    hub.replicas[0].engine.fresh().await.expect("all is well");
    followers.finish(last).await
}

fn play(seed: u64) -> Option<Checked> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime can be made");
    let mut hub = Hub::start(seed)?;
    let outcome = runtime.block_on(history(&mut hub, seed));
    R05.must(seed, outcome);
    Some(R05.prove(seed, &hub.recorder))
}

#[test]
fn r05_histories_over_etcd_are_linearizable() {
    for seed in Trial::seeds(HISTORIES) {
        let began = Instant::now();
        let Some(checked) = play(seed) else { return };
        println!(
            "R05 over etcd, seed {seed}: {:?}, {checked:?}",
            began.elapsed()
        );
        assert!(
            checked.calls >= MISHAPS.len() * CALLS_PER_ROUND,
            "every history is long"
        );
        assert!(checked.changes > MISHAPS.len(), "clients write");
    }
}
