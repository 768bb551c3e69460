//! P1: what the other spokes notice of 30 % that hang, flood or lie.
//!
//! The healthy and the hostile ones are fake spokes in two processes, and the hostile one gets a processor only when nobody else
//! wants it. Turns in which all are honest alternate with turns in which they are not, so that a machine that slows down for a
//! while slows down both.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use wheelhouse_tests::Hub;

use super::{
    batch, batches, define, join, send_all,
    spokes::{MODES, Priority, Spokes},
    sync,
};
use crate::{
    Asked,
    measure::{Series, float, percentile_ms},
    report::{Better, Report, say},
    wire::Wire,
};

/// How long a turn lasts.
const TURN_SECONDS: u64 = 3;
/// Turns before anything counts.
const WARM_UP_TURNS: usize = 2;
/// After each change of mode, until its first storm is part of no turn.
const SETTLE: Duration = Duration::from_millis(500);
/// Between two gets: what is measured is the wait, not how many fit.
const INTERVAL: Duration = Duration::from_millis(4);
/// Instances of each spoke.
const PER_SPOKE: usize = 5;
/// The rise that is accepted, in percent.
const RISE_MAX: f64 = 5.0;

/// What the healthy spokes gave while the others were in one mode.
#[derive(Default)]
struct Found {
    /// Of gets through the hub, in microseconds.
    gets: Vec<u64>,
    /// Of changes from the hub to the spoke, in microseconds.
    changes: Vec<u64>,
    hub_ms: u64,
}

/// Measures the modes, one after the other, and then a third of the hostile spokes in each.
pub(super) async fn run(asked: &Asked, report: &mut Report) {
    let count = asked.spokes.unwrap_or(100);
    let hostile = (count * 3).div_ceil(10);
    let seconds = asked.seconds.unwrap_or(12);
    let (hub, healthy, others) = tokio::join!(
        Hub::start(),
        Spokes::start("healthy", count - hostile, Priority::Normal),
        Spokes::start("hostile", hostile, Priority::Idle),
    );
    let wire = super::wire(&hub).await;
    let all = [healthy.all.clone(), others.all.clone()].concat();
    join(&wire, &all).await;
    define(&wire).await;
    let requests = (0..PER_SPOKE).flat_map(|index| {
        all.iter()
            .map(move |(name, _)| (batches(name), batch(index)))
    });
    send_all(&wire, "POST", 201, requests).await;
    super::settled(&healthy).await;
    // Caches and connections are warm before anything counts.
    for _ in 0..WARM_UP_TURNS {
        drop(measure(&hub, &healthy, &wire).await);
    }
    // `honest` compares the honest spokes with themselves: that is the noise.
    for mode in ["honest"].into_iter().chain(MODES).chain(["hostile"]) {
        let (mut base, mut found) = (Found::default(), Found::default());
        for _ in 0..seconds.div_ceil(TURN_SECONDS) {
            for (mode, into) in [("honest", &mut base), (mode, &mut found)] {
                others.set(mode).await;
                sleep(SETTLE).await;
                into.add(measure(&hub, &healthy, &wire).await);
            }
        }
        others.set("honest").await;
        tell(mode, &base, &found, report);
    }
    let megabytes = float(hub.process().usage().1) / float(1 << 20);
    report.row(
        "P1 RSS of the hub at the end",
        "MB",
        megabytes,
        none(),
        Better::Less,
    );
    report.wanted(300.0);
    report.note(format!(
        "P1: {count} fake spokes, {hostile} of which misbehave; gets through the hub and changes of instances at the others, in turns \
         of {TURN_SECONDS} s with the same while all are honest, {seconds} s for each side. `honest` is the noise of the machine; the \
         peer of a row is the time while all are honest."
    ));
}

fn none() -> Series {
    Series::default()
}

/// One turn at the healthy spokes.
async fn measure(hub: &Hub, healthy: &Spokes, wire: &Wire) -> Found {
    let before = hub.process().usage().0;
    let count = healthy.all.len() * usize::try_from(TURN_SECONDS).unwrap_or(0);
    healthy.latencies().await;
    let changes = sync::changes(healthy, wire, PER_SPOKE, count);
    let (gets, changes) = tokio::join!(gets(healthy, wire), changes);
    Found {
        gets,
        changes,
        hub_ms: hub.process().usage().0 - before,
    }
}

async fn gets(healthy: &Spokes, wire: &Wire) -> Vec<u64> {
    let (begin, mut latencies) = (Instant::now(), Vec::new());
    while begin.elapsed() < Duration::from_secs(TURN_SECONDS) {
        let index = latencies.len();
        let (name, _) = &healthy.all[index % healthy.all.len()];
        let path = format!("/clusters/{name}/api/v1/namespaces/default/configmaps/batch-0-1");
        let sent = Instant::now();
        let connection = wire.connection(index);
        let answer = connection
            .send("GET", &path, super::JSON, Bytes::new())
            .await;
        let (code, body) = answer.expect("an answer");
        assert_eq!(code, 200, "{path}: {}", String::from_utf8_lossy(&body));
        latencies.push(u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX));
        sleep(INTERVAL).await;
    }
    latencies
}

fn tell(mode: &str, base: &Found, found: &Found, report: &mut Report) {
    for (what, before, after) in [
        ("get", &base.gets, &found.gets),
        ("change, hub to spoke", &base.changes, &found.changes),
    ] {
        let p99 = |values: &[u64]| percentile_ms(values, 99);
        let rise = 100.0 * (p99(after) / p99(before) - 1.0);
        say(&format!(
            "P1 30 % {mode}, {what}: p50 {:.2} and {:.2} ms, p99 {:.2} and {:.2} ms ({rise:+.0} %), {} and {} of them; hub {} and {} ms \
             of CPU",
            percentile_ms(before, 50),
            percentile_ms(after, 50),
            p99(before),
            p99(after),
            before.len(),
            after.len(),
            base.hub_ms,
            found.hub_ms,
        ));
        let row = format!("P1 30 % {mode}: {what}, p99");
        report.row(&row, "ms", p99(after), p99(before), Better::Less);
        let row = format!("P1 30 % {mode}: {what}, rise of the p99");
        report.row(&row, "%", rise, none(), Better::Less);
        report.wanted(RISE_MAX);
    }
}

impl Found {
    fn add(&mut self, other: Self) {
        self.gets.extend(other.gets);
        self.changes.extend(other.changes);
        self.hub_ms += other.hub_ms;
    }
}
