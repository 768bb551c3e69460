//! Three replicas under a schedule of kills, hangs and cuts by seed: nothing is written by one that has lost a spoke, the
//! spokes are spread evenly, and everything converges.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use client::{
    Dynamic,
    reflector::{self, Event, RawObject, Tasks},
};
use storage_conformance::{Random, Trial};
use tokio::time::Instant;
use wheelhouse_tests::{Cable, FakeSpoke, wait::within};

use super::{
    etcd::{Etcd, Replica},
    replicas::{AGENT, Stage, calls, endpoint, shares},
};

/// In the suite; a soak has as many as the hub promises for three replicas.
const SPOKE_COUNT: usize = 9;
const SPOKE_COUNT_SOAK: usize = 30;
const REPLICA_COUNT: usize = 3;
const FAULT_COUNT: usize = 4;

/// Instances in each spoke before the first fault.
const INSTANCE_COUNT: usize = 3;
const INSTANCE_COUNT_SOAK: usize = 100;

/// Within this others have what a replica had: what the hub promises.
const HANDOVER_MAX: Duration = Duration::from_secs(10);

/// How long the work may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_mins(2);

/// What happens to a replica.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    Hang,
    Cut,
}

/// A replica and its way to etcd.
struct Place {
    replica: Replica,
    cable: Cable,
}

/// Who was given which spoke.
#[derive(Debug, Clone, Default)]
struct Terms(Arc<Mutex<Holders>>);

/// Who holds the spokes, and who held them.
#[derive(Debug, Default)]
struct Holders {
    /// Those of each spoke, in the order of commits.
    of_spoke: BTreeMap<String, Vec<String>>,
    /// The most that one ever held at a time.
    most: usize,
}

// === impl Place ===

impl Place {
    async fn start(etcd: &Etcd, name: &str) -> Self {
        let cable = Cable::to(etcd.port()).await;
        let replica = Replica::start_at(&cable.url(), name, &[]).await;
        Self { replica, cable }
    }
}

// === impl Terms ===

impl Terms {
    /// Follows the Leases from now on.
    async fn follow(root: &Dynamic, tasks: &Tasks) -> Self {
        let leases = ("coordination.k8s.io", "v1", "leases");
        let source = reflector::Config {
            client: root.client().clone(),
            endpoint: endpoint("root", leases, "kube-system"),
            label_selector: None,
            field_selector: None,
            name: "leases".to_owned(),
        };
        let mut events = reflector::start(source, tasks, tasks.child_token());
        let terms = Self::default();
        let first = events.recv().await;
        terms.take(first.expect("they can be listed"));
        let follower = terms.clone();
        tasks.spawn("terms", async move {
            while let Some(event) = events.recv().await {
                follower.take(event);
            }
        });
        terms
    }

    fn take(&self, event: Event) {
        match event {
            Event::Restarted { objects, .. } => objects.iter().for_each(|it| self.note(it)),
            Event::Applied(object) => self.note(&object),
            Event::Deleted(_) | Event::Interrupted(_) | Event::Resumed => {}
        }
    }

    fn note(&self, lease: &RawObject) {
        let Some(spoke) = lease.name.strip_prefix("wheelhouse-spoke-") else {
            return;
        };
        let value = lease.value().expect("it is an object");
        let holder = value["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let terms = seen.of_spoke.entry(spoke.to_owned()).or_default();
        if holder.is_empty() || terms.last().is_some_and(|last| last == holder) {
            return;
        }
        terms.push(holder.to_owned());
        let last = seen.of_spoke.values().filter_map(|holders| holders.last());
        let held = last.filter(|it| *it == holder).count();
        seen.most = seen.most.max(held);
    }

    /// Returns the most spokes that one replica ever held at a time.
    fn most(&self) -> usize {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.most
    }

    /// Checks that each spoke was written by its holders in their order, since it had been written so often: no writer comes
    /// back once another has written. What was sent before a term ended may still arrive (decision 9), so nothing is asked of
    /// the time until the successor's first write.
    fn prove(&self, spokes: &[FakeSpoke], before: &[usize]) -> Result<usize, String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut handover_count = 0;
        for (spoke, before) in spokes.iter().zip(before) {
            let none = Vec::new();
            let holders = seen.of_spoke.get(spoke.name()).unwrap_or(&none);
            let mut at = 0;
            let wrote = spoke.wrote().into_iter().skip(*before);
            for wrote in wrote.filter(|it| it.agent != AGENT) {
                let writer = writer_of(&wrote.agent).ok_or_else(|| format!("{wrote:?}"))?;
                let left = holders.get(at..).unwrap_or_default();
                let Some(ahead) = left.iter().position(|holder| holder == writer) else {
                    let name = spoke.name();
                    return Err(format!(
                        "{name}: {writer} wrote {} {} out of turn; holders were {holders:?}",
                        wrote.method, wrote.path
                    ));
                };
                at += ahead;
                handover_count += ahead;
            }
        }
        Ok(handover_count)
    }
}

/// Returns the replica that an agent is.
fn writer_of(agent: &str) -> Option<&str> {
    agent.split_once('(')?.1.strip_suffix(')')
}

/// Waits until so many replicas share all spokes, none with more than the mean and one, and those named not among them.
async fn spread(root: &Dynamic, (members, spokes): (usize, usize), gone: &[String]) {
    within(PATIENCE, "the spokes are spread", || async {
        let shares = shares(root).await?;
        let is_whole = shares.values().map(Vec::len).sum::<usize>() == spokes;
        let most = spokes.div_ceil(members);
        let is_even = shares.values().all(|share| share.len() <= most);
        let is_without = gone.iter().all(|name| !shares.contains_key(name));
        if shares.len() == members && is_whole && is_even && is_without {
            return Ok(());
        }
        Err(format!("{shares:?}"))
    })
    .await;
}

/// Returns who takes part from a place: the one that says so last in its log.
fn identity(place: &Place) -> String {
    let log = place.replica.process.log();
    let line = log
        .lines()
        .rfind(|line| line.contains("joined the replicas that share the work name="));
    let name = line
        .and_then(|line| line.split_once("name="))
        .map(|it| it.1);
    let name = name.expect("it takes part").split_whitespace().next();
    name.unwrap_or_default().trim_matches('"').to_owned()
}

/// Lets one fault happen to a replica, and mends it once others have what it had.
async fn suffer(
    places: &mut [Place],
    (victim, fault): (usize, Fault),
    stage: &Stage,
    round: usize,
) {
    let gone = identity(&places[victim]);
    let other = &places[(victim + 1) % REPLICA_COUNT];
    let root = calls(&other.replica).await;
    let process = &places[victim].replica.process;
    match fault {
        Fault::Kill => process.signal("KILL"),
        Fault::Hang => process.signal("STOP"),
        Fault::Cut => places[victim].cable.cut(),
    }
    let began = Instant::now();
    let names = std::slice::from_ref(&gone);
    let making = async { stage.make(&root, &format!("during-{round}")).await };
    let moving = async {
        spread(&root, (REPLICA_COUNT - 1, stage.spokes.len()), names).await;
        began.elapsed()
    };
    let ((), took) = tokio::join!(making, moving);
    assert!(
        took <= HANDOVER_MAX,
        "{fault:?} of {gone}: they moved after {took:?}"
    );
    match fault {
        Fault::Kill => places[victim] = Place::start(stage.etcd(), &format!("again-{round}")).await,
        Fault::Hang => process.signal("CONT"),
        Fault::Cut => places[victim].cable.mend(),
    }
    spread(&root, (REPLICA_COUNT, stage.spokes.len()), names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r20_spokes_are_written_by_their_replica_alone_under_kills_hangs_and_cuts() {
    let is_soak = Trial::factor() > 1;
    let (spoke_count, instance_count) = if is_soak {
        (SPOKE_COUNT_SOAK, INSTANCE_COUNT_SOAK)
    } else {
        (SPOKE_COUNT, INSTANCE_COUNT)
    };
    let fault_count = FAULT_COUNT * if is_soak { 3 } else { 1 };
    for seed in Trial::seeds(1) {
        eprintln!("{}", Trial("R20").repeat(seed));
        let mut random = Random::new(seed);
        let etcd = Etcd::start();
        let mut places = vec![Place::start(&etcd, "replica-0").await];
        let (stage, root) = Stage::join(etcd, &places[0].replica, spoke_count).await;
        for number in 1..REPLICA_COUNT {
            places.push(Place::start(stage.etcd(), &format!("replica-{number}")).await);
        }
        spread(&root, (REPLICA_COUNT, spoke_count), &[]).await;
        // Leases are followed at etcd's own end: by a replica that nothing happens to.
        let tasks = Tasks::new();
        let watcher = Replica::start_at(
            &format!("http://127.0.0.1:{}", stage.etcd().port()),
            "watcher",
            &["--no-syncer"],
        )
        .await;
        let root = calls(&watcher).await;
        let terms = Terms::follow(&root, &tasks).await;
        let written: Vec<usize> = stage.spokes.iter().map(|it| it.wrote().len()).collect();
        for number in 0..instance_count {
            stage.make(&root, &format!("before-{number}")).await;
        }
        for round in 0..fault_count {
            let fault = [Fault::Kill, Fault::Hang, Fault::Cut][(round + random.below(2)) % 3];
            let victim = random.below(REPLICA_COUNT);
            suffer(&mut places, (victim, fault), &stage, round).await;
        }
        for round in 0..fault_count {
            stage.converged(&format!("during-{round}")).await;
        }
        for number in 0..instance_count {
            stage.converged(&format!("before-{number}")).await;
        }
        let proven = terms.prove(&stage.spokes, &written);
        let handover_count = proven.unwrap_or_else(|broken| {
            panic!("{broken}\nrepeat it: {}", Trial("R20").repeat(seed));
        });
        // One replica is away at a time, and the others have what it had.
        let most = spoke_count.div_ceil(REPLICA_COUNT - 1) + 1;
        assert!(terms.most() <= most, "one had {} spokes", terms.most());
        assert!(
            handover_count > 0,
            "spokes moved, and were written by others"
        );
        eprintln!("seed {seed}: {fault_count} faults, {handover_count} handovers that wrote");
        tasks.shutdown(Duration::from_secs(5)).await;
    }
}
