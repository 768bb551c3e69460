//! R01: the hub is killed again and again while clients write and watch. R12: after each kill its store
//! is read by the independent reader.

use std::{sync::Arc, time::Duration};

use storage::Revision;
use storage_conformance::{
    Trial,
    histories::{Violation, Workload},
};
use tokio::time::Instant;
use wheelhouse_tests::{
    Hub,
    proof::{Api, Load},
};

const R01: Trial = Trial("R01");

/// Kills of the suite; a whole run has 1,000.
const ROUNDS: usize = 100;
/// Rounds between two checks of everything since the one before.
const ROUNDS_PER_CHECK: usize = 25;
const CLIENTS: usize = 6;
const FOLLOWERS: usize = 4;
/// From the start of the process to its readiness. Of a night's run; a loaded machine in a debug build
/// gets ten times as much before the test fails.
const RESTART_BAR: Duration = Duration::from_millis(500);

const WORKLOAD: Workload = Workload {
    seed: 0,
    calls: usize::MAX,
    keys: 40,
    reads: 20,
    lists: 2,
};

/// Kills, and starts again; tells how long that took until the API was ready.
async fn restart(hub: &mut Hub, api: &Api) -> Duration {
    let began = Instant::now();
    hub.spawn();
    loop {
        let kubeconfig = hub.kubeconfig();
        if kubeconfig.is_file() {
            break;
        }
        assert!(
            hub.process().runs(),
            "the hub ended:\n{}",
            hub.process().log()
        );
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "the hub is not ready"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = began.elapsed();
    api.reconnect(&hub.kubeconfig()).await;
    took
}

/// R12: the independent reader finds in the log what the engine's index says.
async fn check_store(hub: &Hub, round: usize) {
    let output = tokio::process::Command::new(wheelhouse_tests::assets::wheelhouse())
        .args(["store", "check", "--data-dir"])
        .arg(hub.data())
        .output()
        .await
        .expect("wheelhouse can be started");
    assert!(
        output.status.success(),
        "R12, round {round}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

struct Figures {
    restarts: Vec<Duration>,
    calls: usize,
    unanswered: usize,
    events: usize,
}

async fn history(seed: u64, rounds: usize) -> (Result<(), Violation>, Figures) {
    let mut hub = Hub::start().await;
    let api = Api::connect(&hub.kubeconfig()).await;
    api.prepare().await;
    let mut load = Load::new(&api, seed);
    let mut figures = Figures {
        restarts: Vec::new(),
        calls: 0,
        unanswered: 0,
        events: 0,
    };
    let mut outcome = Ok(());
    let mut left = rounds;
    while left > 0 && outcome.is_ok() {
        let count = left.min(ROUNDS_PER_CHECK);
        left -= count;
        outcome = some_rounds(&mut hub, &mut load, count, &mut figures).await;
        let checked = R01.must(seed, storage_conformance::histories::check(&load.recorder));
        figures.calls += checked.calls;
        figures.unanswered += checked.unanswered;
        figures.events += checked.events;
        load = next(&api, &mut load).await;
    }
    (outcome, figures)
}

/// A new recording that begins with what the one before has left.
async fn next(api: &Arc<Api>, load: &mut Load) -> Load {
    use storage_conformance::histories::Subject;
    let page = api.list(None, 100_000).await.expect("the hub lists");
    let next = Load::new(api, load.random.bits());
    let entries = page.entries.iter();
    next.recorder
        .base(entries.map(|(key, value, at)| (key.as_str(), value.as_str(), *at)));
    next
}

async fn some_rounds(
    hub: &mut Hub,
    load: &mut Load,
    count: usize,
    figures: &mut Figures,
) -> Result<(), Violation> {
    let after: Revision = load.revision().await;
    for follower in 0..FOLLOWERS {
        load.follow(after, [0, 0, 20, 100][follower]);
    }
    for round in 0..count {
        let running = load.clients(CLIENTS, WORKLOAD);
        let delay = 5 + load.random.below(496) as u64;
        // Not a wait for a condition: the point in time is what the test varies.
        tokio::time::sleep(Duration::from_millis(delay)).await;
        hub.kill();
        running.done().await?;
        load.recorder.death();
        check_store(hub, round).await;
        figures.restarts.push(restart(hub, &load.api).await);
    }
    load.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_a_hub_that_is_killed_loses_nothing_and_goes_back_never() {
    let rounds = ROUNDS * Trial::factor();
    let seed = Trial::seeds(1)[0];
    let (outcome, mut figures) = history(seed, rounds).await;
    R01.must(seed, outcome);
    figures.restarts.sort();
    let at = |percent: usize| figures.restarts[(figures.restarts.len() - 1) * percent / 100];
    let (p50, p99) = (at(50), at(99));
    println!(
        "R01: {rounds} kills, {} calls, {} unanswered, {} events; restart p50 {p50:?}, p99 {p99:?} \
         (bar {RESTART_BAR:?})",
        figures.calls, figures.unanswered, figures.events
    );
    assert!(figures.unanswered > rounds / 4, "kills befall calls");
    assert!(figures.events > figures.calls / 4, "watches are fed");
}
