//! B02 and B03: durable creates, by one client and by many at once.

use futures::{StreamExt, stream};
use tokio::time::Instant;

use super::sides;
use crate::{
    Asked, etcd,
    measure::{Cost, Series, disk, float, percentile_ms, rss},
    report::{Better, Report, say},
    side::{Etcd, PATH, Server, bodies, widget},
    wire::Wire,
};

/// Connections that requests are spread over.
const CONNECTION_COUNT: usize = 4;

/// Creates before those that count: connections, caches and code are warm then.
const WARM_COUNT: usize = 50;

/// Clients of the storm.
const WIDTHS: [usize; 2] = [32, 256];

/// What the rounds of one side said.
#[derive(Default)]
struct Found {
    p50_ms: Series,
    p99_ms: Series,
    rate: Series,
    cpu_us: Series,
    /// CPU of each process, for a note.
    parts: Vec<(&'static str, Series)>,
    rss_mb: Series,
    disk_mb: Series,
}

/// B02: one client, one create after the other.
pub(crate) async fn lone(asked: &Asked, report: &mut Report) {
    let count = asked.count.unwrap_or(500);
    let found = rounds(asked, count, 1).await;
    let [ours, peer, etcd] = &found;
    let (p50, p99) = ("B02 lone durable create, p50", "p99");
    report.row(
        p50,
        "ms",
        ours.p50_ms.clone(),
        peer.p50_ms.clone(),
        Better::Less,
    );
    report.wanted(0.45);
    report.row(
        p99,
        "ms",
        ours.p99_ms.clone(),
        peer.p99_ms.clone(),
        Better::Less,
    );
    rows(report, ours, peer);
    let what = "B02 p50, beside etcd alone";
    report.row(
        what,
        "ms",
        ours.p50_ms.clone(),
        etcd.p50_ms.clone(),
        Better::Less,
    );
    report.note(format!(
        "B02: {count} creates by one client over one connection.{}",
        parts(&found)
    ));
}

/// B03: many clients.
pub(crate) async fn storm(asked: &Asked, report: &mut Report) {
    let count = asked.count.unwrap_or(10_000);
    for width in WIDTHS {
        let found = rounds(asked, count, width).await;
        let [ours, peer, etcd] = &found;
        let what = format!("B03 durable creates, {width} clients");
        report.row(
            &what,
            "1/s",
            ours.rate.clone(),
            peer.rate.clone(),
            Better::More,
        );
        report.wanted(10_000.0);
        let pairs = [
            ("p50", &ours.p50_ms, &peer.p50_ms),
            ("p99", &ours.p99_ms, &peer.p99_ms),
        ];
        for (what, ours, peer) in pairs {
            report.row(what, "ms", ours.clone(), peer.clone(), Better::Less);
        }
        rows(report, ours, peer);
        let what = format!("B03 {width} clients, beside etcd alone");
        report.row(
            &what,
            "1/s",
            ours.rate.clone(),
            etcd.rate.clone(),
            Better::More,
        );
        report.note(format!(
            "B03: {count} creates by {width} clients over {CONNECTION_COUNT} connections.{}",
            parts(&found)
        ));
    }
}

fn rows(report: &mut Report, ours: &Found, peer: &Found) {
    let pairs = [
        ("server CPU", "µs", &ours.cpu_us, &peer.cpu_us),
        ("RSS after it", "MB", &ours.rss_mb, &peer.rss_mb),
        ("on disk after it", "MB", &ours.disk_mb, &peer.disk_mb),
    ];
    for (what, unit, ours, peer) in pairs {
        report.row(what, unit, ours.clone(), peer.clone(), Better::Less);
    }
}

/// CPU of each process, as a sentence.
fn parts(found: &[Found]) -> String {
    let mut parts = Vec::new();
    for (side, found) in ["ours", "peer", "etcd alone"].into_iter().zip(found) {
        for (process, cpu) in &found.parts {
            parts.push(format!("{side} {process} {:.0}", cpu.median()));
        }
    }
    format!(" CPU of each process in µs: {}.", parts.join(", "))
}

/// All rounds: ours, the peer, etcd alone, in turns.
async fn rounds(asked: &Asked, count: usize, width: usize) -> [Found; 3] {
    let mut found = [(); 3].map(|()| Found::default());
    for _ in 0..asked.rounds.unwrap_or(5) {
        for (found, ours) in found.iter_mut().zip(sides(asked)) {
            of_server(*ours, count, width, found).await;
        }
        if !asked.alone {
            of_etcd(count, width, &mut found[2]).await;
        }
    }
    found
}

async fn of_server(ours: bool, count: usize, width: usize, found: &mut Found) {
    let server = Server::start(ours).await;
    let wire = server.wire(CONNECTION_COUNT.min(width)).await;
    wire.create(PATH, bodies("warm", WARM_COUNT), width.min(8))
        .await;
    let processes = server.processes();
    let work = wire.create(PATH, bodies("w", count), width);
    let (cost, latencies) = Cost::of(&processes, count, work).await;
    found.add(&cost, &latencies);
    found.rss_mb.push(float(rss(&processes)) / 1e6);
    found.disk_mb.push(float(disk(&server.data())) / 1e6);
    tell(server.name(), width, &cost, &latencies);
}

async fn of_etcd(count: usize, width: usize, found: &mut Found) {
    let server = Etcd::start().await;
    let wire = server.wire(CONNECTION_COUNT.min(width)).await;
    etcd_creates(&wire, "warm", WARM_COUNT, width.min(8)).await;
    let work = etcd_creates(&wire, "w", count, width);
    let (cost, latencies) = Cost::of(&server.processes(), count, work).await;
    found.add(&cost, &latencies);
    tell("etcd alone", width, &cost, &latencies);
}

/// The transaction that kube-apiserver makes of a create, with a value of the same size.
async fn etcd_creates(wire: &Wire, prefix: &str, count: usize, width: usize) -> Vec<u64> {
    let mut value = widget("default", "w", 0).to_string().into_bytes();
    value.resize(1200, b' ');
    let value = &value;
    stream::iter(0..count)
        .map(|index| async move {
            let key = format!("/registry/bench.example.com/widgets/default/{prefix}-{index}");
            let start = Instant::now();
            let created = etcd::create(wire.connection(index), key.as_bytes(), value).await;
            assert!(created.expect("an answer"), "{key} is new");
            u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
        })
        .buffer_unordered(width)
        .collect()
        .await
}

fn tell(side: &str, width: usize, cost: &Cost, latencies: &[u64]) {
    say(&format!(
        "{width} clients, {side}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms, CPU {:.0} µs",
        cost.rate,
        percentile_ms(latencies, 50),
        percentile_ms(latencies, 99),
        cost.total_cpu_us()
    ));
}

// === impl Found ===

impl Found {
    fn add(&mut self, cost: &Cost, latencies: &[u64]) {
        self.p50_ms.push(percentile_ms(latencies, 50));
        self.p99_ms.push(percentile_ms(latencies, 99));
        self.rate.push(cost.rate);
        self.cpu_us.push(cost.total_cpu_us());
        if self.parts.is_empty() {
            let names = cost.cpu_us.iter().map(|(name, _)| *name);
            self.parts = names.map(|name| (name, Series::default())).collect();
        }
        for ((_, series), (_, cpu)) in self.parts.iter_mut().zip(&cost.cpu_us) {
            series.push(*cpu);
        }
    }
}
