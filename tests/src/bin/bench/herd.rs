//! B21: many watchers, each on a TLS connection of its own, are cut at once and come back together.

use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};

use super::{
    sides,
    watcher::{Back, Cut, Watcher},
};
use crate::{
    Asked,
    measure::{Cost, Series, float, rss},
    report::{Better, Report, say},
    side::{ALL, PATH, Server, bodies},
    wire::Wire,
};

/// Watchers while they first connect: nobody measures that.
const CALM_WIDTH: usize = 64;

/// Events before the cut, and during it.
const EVENT_COUNT: usize = 5;

/// Between two tries of one watcher.
const RETRY: Duration = Duration::from_millis(100);

/// What a round said.
struct Round {
    live_ms: f64,
    caught_up_ms: f64,
    relists: usize,
    retries: usize,
    cpu_us: f64,
    watcher_kb: f64,
}

/// Runs both sides in turns.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    let count = asked.count.unwrap_or(5000);
    let mut found: [Vec<Round>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..asked.rounds.unwrap_or(3) {
        for (rounds, ours) in found.iter_mut().zip(sides(asked)) {
            rounds.push(round(*ours, count).await);
        }
    }
    let [ours, peer] = found;
    let mut row = |what: &str, unit, read: fn(&Round) -> f64, wanted: Option<f64>| {
        let series = |rounds: &[Round]| rounds.iter().map(read).collect::<Series>();
        report.row(what, unit, series(&ours), series(&peer), Better::Less);
        if let Some(wanted) = wanted {
            report.wanted(wanted);
        }
    };
    let what = format!("B21 {count} watchers cut at once, until all watch again");
    row(&what, "s", |round| round.live_ms / 1000.0, Some(3.0));
    row(
        "until all have every event",
        "s",
        |round| round.caught_up_ms / 1000.0,
        Some(3.0),
    );
    row(
        "relists",
        "",
        |round| float(round.relists as u64),
        Some(0.0),
    );
    row(
        "tries that failed",
        "",
        |round| float(round.retries as u64),
        None,
    );
    row("server CPU of a watcher", "µs", |round| round.cpu_us, None);
    row(
        "RSS of a watcher at rest",
        "KB",
        |round| round.watcher_kb,
        None,
    );
    report.note(format!(
        "B21: {count} connections with client certificates and whole handshakes (no tickets), one watch each; \
         {EVENT_COUNT} objects are created while they are away, and each watcher must see exactly those."
    ));
}

async fn round(ours: bool, count: usize) -> Round {
    let server = Server::start(ours).await;
    let wire = server.wire(1).await;
    let processes = server.processes();
    let (code, list) = wire.json("GET", ALL, &Value::Null).await;
    assert_eq!(code, 200, "{list}");
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("");
    let before = rss(&processes);
    let cut = settle(&server, count, version);
    let watchers = connect(&cut).await;
    let watcher_kb = float(rss(&processes).saturating_sub(before)) / float(count as u64) / 1000.0;
    let versions = see(watchers, &wire).await;
    // Every connection is cut by now. What happens meanwhile must reach all.
    wire.create(PATH, bodies("meanwhile", EVENT_COUNT), EVENT_COUNT)
        .await;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (mut cut, version) in cut.into_iter().zip(versions) {
        cut.version = version;
        tasks.spawn(cut.come_back(EVENT_COUNT, start));
    }
    let (cost, back) = Cost::of(&processes, count, tasks.join_all()).await;
    let last = |read: fn(&Back) -> Duration| {
        let last = back.iter().map(read).max().unwrap_or_default();
        last.as_secs_f64() * 1000.0
    };
    let round = Round {
        live_ms: last(|back| back.live),
        caught_up_ms: last(|back| back.caught_up),
        relists: back.iter().map(|back| back.relists).sum(),
        retries: back.iter().map(|back| back.retries).sum(),
        cpu_us: cost.total_cpu_us(),
        watcher_kb,
    };
    round.tell(server.name());
    round
}

/// Those who will watch.
fn settle(server: &Server, count: usize, version: &str) -> Vec<Cut> {
    let target = server.target();
    (0..count)
        .map(|index| Cut {
            target: target.clone(),
            index,
            path: ALL,
            version: version.to_owned(),
            retry: RETRY,
        })
        .collect()
}

/// Connects all watchers, in peace, and in order.
async fn connect(all: &[Cut]) -> Vec<Watcher> {
    stream::iter(all)
        .map(Cut::watch)
        .buffered(CALM_WIDTH)
        .collect()
        .await
}

/// Lets all see the first events, and cuts them. Tells from where each goes on.
async fn see(watchers: Vec<Watcher>, wire: &Wire) -> Vec<String> {
    let mut tasks = JoinSet::new();
    for mut watcher in watchers {
        tasks.spawn(async move {
            watcher.until(EVENT_COUNT).await.expect("the watch goes on");
            watcher
        });
    }
    wire.create(PATH, bodies("first", EVENT_COUNT), EVENT_COUNT)
        .await;
    let watchers = tasks.join_all().await;
    watchers
        .into_iter()
        .map(|watcher| watcher.version)
        .collect()
}

// === impl Round ===

impl Round {
    fn tell(&self, side: &str) {
        let Self {
            live_ms,
            caught_up_ms,
            relists,
            retries,
            cpu_us,
            watcher_kb,
        } = self;
        say(&format!(
            "B21 {side}: all watch after {live_ms:.0} ms, all events after {caught_up_ms:.0} ms, {relists} relists, \
             {retries} retries, CPU {cpu_us:.0} µs each, {watcher_kb:.1} KB each"
        ));
    }
}
