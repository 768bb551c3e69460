//! B19: how fast objects come to a hundred spokes, what an idle spoke takes, and how long a change takes to arrive.
//!
//! The spokes are fake ones in a process of their own. Each child of an instance is one apply; the mirrors of the instances,
//! which are applied too, are counted apart.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use wheelhouse_tests::Hub;

use super::{
    CHILDREN, batch, batches, define, join, send_all,
    spokes::{Priority, Spokes, stamp},
};
use crate::{
    Asked,
    measure::{Processes, Series, float, percentile_ms},
    report::{Better, Report, say},
    wire::Wire,
};

/// What the hub counts reconciles of instances by.
const RECONCILES: &str = "controller_runtime_reconcile_total{controller=\"instance\"";
/// Before idle spokes are measured: what joining began has ended by then.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the first objects may take, at the least rate that is worth a wait.
const OBJECTS_PER_SECOND_MIN: usize = 200;

/// Measures once.
pub(super) async fn run(asked: &Asked, report: &mut Report) {
    let spoke_count = asked.spokes.unwrap_or(100);
    let per_spoke = asked.count.unwrap_or(1000).div_ceil(CHILDREN);
    let seconds = asked.seconds.unwrap_or(30);
    let (hub, spokes) = tokio::join!(
        Hub::start(),
        Spokes::start("fake", spoke_count, Priority::Normal)
    );
    let wire = super::wire(&hub).await;
    idle(&hub, &spokes, &wire, report).await;
    let mut processes = Busy::of(&hub, &spokes, &wire);
    fill(&spokes, &wire, per_spoke, &mut processes, report).await;
    change(&spokes, &wire, (per_spoke, seconds), &mut processes, report).await;
    let megabytes = float(hub.process().usage().1) / float(1 << 20);
    report.row(
        "B19 RSS of the hub at the end",
        "MB",
        megabytes,
        none(),
        Better::Less,
    );
    report.note(format!(
        "B19: {spoke_count} fake spokes, {per_spoke} instances of {CHILDREN} ConfigMaps in each; then {spoke_count} changes per \
         second for {seconds} s, one for each spoke, each of which changes one ConfigMap. A change is as old as its request to \
         the hub. The fake spokes answer as fast as they can and store nothing on disk."
    ));
}

fn none() -> Series {
    Series::default()
}

/// What joined spokes take of the hub's memory.
async fn idle(hub: &Hub, spokes: &Spokes, wire: &Wire, report: &mut Report) {
    let rss = || hub.process().usage().1;
    sleep(SETTLE).await;
    let before = rss();
    join(wire, &spokes.all).await;
    sleep(SETTLE).await;
    let joined = rss();
    define(wire).await;
    sleep(SETTLE).await;
    let defined = rss();
    let count = float(spokes.all.len() as u64);
    let kilobytes = |bytes: u64| float(bytes.saturating_sub(before)) / 1000.0 / count;
    let what = "B19 RSS of an idle spoke";
    report.row(what, "KB", kilobytes(joined), none(), Better::Less);
    report.wanted(200.0);
    let what = "B19 RSS of an idle spoke, with a definition";
    report.row(what, "KB", kilobytes(defined), none(), Better::Less);
    say(&format!(
        "B19 RSS of an idle spoke: {:.0} KB, with a definition {:.0} KB; of the hub without spokes {} MiB",
        kilobytes(joined),
        kilobytes(defined),
        before >> 20
    ));
}

/// The first objects: all instances are made at once.
async fn fill(
    spokes: &Spokes,
    wire: &Wire,
    per_spoke: usize,
    busy: &mut Busy,
    report: &mut Report,
) {
    let count = spokes.all.len() * per_spoke * CHILDREN;
    let before = spokes.written().await;
    let requests = (0..per_spoke).flat_map(|index| {
        let names = spokes.all.iter();
        names.map(move |(name, _)| (batches(name), batch(index)))
    });
    busy.begin().await;
    let start = Instant::now();
    send_all(wire, "POST", 201, requests).await;
    let made = start.elapsed();
    let patience = Duration::from_secs(30 + (count / OBJECTS_PER_SECOND_MIN) as u64);
    let mut written = spokes.written().await;
    while written.objects - before.objects < count {
        let seen = written.objects - before.objects;
        assert!(start.elapsed() < patience, "{seen} of {count} objects");
        sleep(Duration::from_millis(50)).await;
        written = spokes.written().await;
    }
    let elapsed = start.elapsed();
    let rate = float(count as u64) / elapsed.as_secs_f64();
    let writes = written.writes - before.writes;
    say(&format!(
        "B19 {count} objects in {elapsed:.1?} ({rate:.0}/s), {writes} writes; the instances were made in {made:.1?}"
    ));
    report.row("B19 children applied", "1/s", rate, none(), Better::More);
    report.wanted(5000.0);
    let all = float(writes) / elapsed.as_secs_f64();
    report.row("B19 all writes to spokes", "1/s", all, none(), Better::More);
    busy.end("first objects", count, report).await;
}

/// Changes that go on: one a second for each spoke.
async fn change(
    spokes: &Spokes,
    wire: &Wire,
    (per_spoke, seconds): (usize, u64),
    busy: &mut Busy,
    report: &mut Report,
) {
    let spoke_count = spokes.all.len();
    let count = spoke_count * usize::try_from(seconds).unwrap_or(0);
    // What the first objects began has ended by then: their status is written last.
    sleep(SETTLE).await;
    spokes.latencies().await;
    busy.begin().await;
    let latencies = changes(spokes, wire, per_spoke, count).await;
    let lost = count - latencies.len().min(count);
    let millis = |percent| percentile_ms(&latencies, percent);
    let (p50, p99) = (millis(50), millis(99));
    say(&format!(
        "B19 {count} changes: p50 {p50:.1} ms, p99 {p99:.1} ms, {lost} not seen"
    ));
    assert_eq!(lost, 0, "each change arrives by itself");
    let less = Better::Less;
    report.row("B19 change, hub to spoke, p50", "ms", p50, none(), less);
    report.row("B19 change, hub to spoke, p99", "ms", p99, none(), less);
    report.wanted(100.0);
    busy.end("steady changes", count, report).await;
}

/// Changes an instance of each spoke every second, spread evenly, and returns how long each change took to arrive, in
/// microseconds. The load is open: a change is sent when it is due, whatever became of the one before.
pub(super) async fn changes(
    spokes: &Spokes,
    wire: &Wire,
    per_spoke: usize,
    count: usize,
) -> Vec<u64> {
    let spoke_count = spokes.all.len();
    let pause = Duration::from_secs(1) / u32::try_from(spoke_count).unwrap_or(u32::MAX);
    let mut due = interval(pause);
    due.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut sent = tokio::task::JoinSet::new();
    for index in 0..count {
        due.tick().await;
        let (name, _) = &spokes.all[index % spoke_count];
        let path = format!(
            "{}/batch-{}",
            batches(name),
            index / spoke_count % per_spoke
        );
        let body = json!({"spec": {"stamp": stamp()}}).to_string();
        let connection = wire.connection(index).clone();
        sent.spawn(async move {
            let media_type = "application/merge-patch+json";
            let answer = connection
                .send("PATCH", &path, media_type, body.into())
                .await;
            let (code, body) = answer.expect("an answer");
            assert_eq!(code, 200, "{path}: {}", String::from_utf8_lossy(&body));
        });
    }
    sent.join_all().await;
    let mut latencies = spokes.latencies().await;
    let end = Instant::now() + SETTLE;
    while latencies.len() < count && Instant::now() < end {
        sleep(Duration::from_millis(50)).await;
        latencies.extend(spokes.latencies().await);
    }
    latencies
}

/// Who used the processors meanwhile.
struct Busy {
    processes: Processes,
    wire: Wire,
    began: Instant,
    before: Vec<u64>,
    reconciles_before: u64,
}

impl Busy {
    fn of(hub: &Hub, spokes: &Spokes, wire: &Wire) -> Self {
        let processes = vec![
            ("hub", hub.process().pid()),
            ("fake spokes", spokes.pid()),
            ("load generator", std::process::id()),
        ];
        Self {
            processes,
            wire: wire.clone(),
            began: Instant::now(),
            before: Vec::new(),
            reconciles_before: 0,
        }
    }

    async fn begin(&mut self) {
        self.reconciles_before = self.reconciles().await;
        self.began = Instant::now();
        self.before = self.cpu_ms();
    }

    /// How often instances were reconciled, by the hub's metrics.
    async fn reconciles(&self) -> u64 {
        let metrics = self.wire.connection(0);
        let answer = metrics
            .send("GET", "/metrics", "text/plain", Bytes::new())
            .await;
        let (code, body) = answer.expect("an answer");
        assert_eq!(code, 200, "metrics");
        let text = String::from_utf8_lossy(&body);
        let counts = text
            .lines()
            .filter(|line| line.starts_with(RECONCILES))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        counts.sum()
    }

    async fn end(&self, what: &str, operations: usize, report: &mut Report) {
        let reconciles = float(self.reconciles().await - self.reconciles_before);
        let row = format!("B19 {what}, reconciles for each");
        let each = reconciles / float(operations as u64);
        report.row(&row, "", each, none(), Better::Less);
        say(&format!("B19 {what}: {each:.2} reconciles for each"));
        let elapsed_ms = self.began.elapsed().as_secs_f64() * 1000.0;
        let used = self.cpu_ms().into_iter().zip(&self.before);
        let used: Vec<u64> = used.map(|(after, before)| after - before).collect();
        let total = float(used.iter().sum());
        for ((name, _), ms) in self.processes.iter().zip(used) {
            let each = float(ms) * 1000.0 / float(operations as u64);
            let row = format!("B19 {what}, CPU of the {name}, for each");
            report.row(&row, "µs", each, none(), Better::Less);
            say(&format!(
                "B19 {what}: the {name} took {each:.0} µs for each, {:.2} processors, {:.0} % of what the three took",
                float(ms) / elapsed_ms,
                100.0 * float(ms) / total
            ));
        }
    }

    fn cpu_ms(&self) -> Vec<u64> {
        let usages = self
            .processes
            .iter()
            .map(|(_, pid)| wheelhouse_tests::process::usage(*pid));
        usages.map(|(cpu_ms, _)| cpu_ms).collect()
    }
}
