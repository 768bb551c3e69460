//! B15: all clusters in one list and one watch.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use wheelhouse_tests::Hub;

use super::{embed, send_all};
use crate::{
    Asked,
    measure::{Cost, Series, float, percentile_ms},
    report::{Better, Report, say},
    wire::{Body, Wire},
};

const ALL: &str = "/clusters/*/api/v1/configmaps";
/// The objects that count; each cluster has others.
const SELECTED: &str = "labelSelector=app%3Dbench";
const WATCH: &str =
    "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
/// Lists and watches of a round.
const LIST_COUNT: usize = 5;
/// Changes that a watch is to deliver.
const CHANGE_COUNT: usize = 500;
/// How long an event may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures once, unless more rounds are asked for.
pub(super) async fn run(asked: &Asked, report: &mut Report) {
    let clusters = asked.spokes.unwrap_or(1000);
    let per_cluster = asked.count.unwrap_or(10);
    let total = clusters * per_cluster;
    let hub = Hub::start().await;
    let wire = super::wire(&hub).await;
    let names: Vec<String> = (0..clusters).map(|index| format!("e-{index}")).collect();
    let begin = (Instant::now(), hub.process().usage());
    embed(&wire, &names).await;
    let made = begin.0.elapsed();
    let rss = hub.process().usage().1.saturating_sub(begin.1.1);
    let each = float(rss) / 1000.0 / float(clusters as u64);
    report.row(
        "B15 RSS of an embedded cluster",
        "KB",
        each,
        none(),
        Better::Less,
    );
    let rate = float(clusters as u64) / made.as_secs_f64();
    report.row(
        "B15 clusters made until Ready",
        "1/s",
        rate,
        none(),
        Better::More,
    );
    say(&format!(
        "B15 {clusters} clusters in {made:.1?}, {each:.1} KB each"
    ));
    let requests = (0..per_cluster).flat_map(|index| {
        names.iter().map(move |name| {
            let path = format!("/clusters/{name}/api/v1/namespaces/default/configmaps");
            (path, map(index))
        })
    });
    send_all(&wire, "POST", 201, requests).await;
    reads(asked, &hub, &wire, total, report).await;
    changes(&wire, &names, report).await;
    let megabytes = float(hub.process().usage().1) / float(1 << 20);
    report.row(
        "B15 RSS of the hub at the end",
        "MB",
        megabytes,
        none(),
        Better::Less,
    );
    report.note(format!(
        "B15: {clusters} embedded clusters, {per_cluster} ConfigMaps of 1.2 KB in each, beside what each has by itself; read by one \
         client."
    ));
}

/// Reads everything, as a list and as the beginning of a watch.
async fn reads(asked: &Asked, hub: &Hub, wire: &Wire, total: usize, report: &mut Report) {
    let bare = format!("{ALL}?{SELECTED}");
    for (what, path) in [
        ("list of all", bare.clone()),
        ("initial events of a watch", format!("{bare}&{WATCH}")),
    ] {
        let (mut took, mut cpu, mut size) = (Series::default(), Series::default(), 0);
        for _ in 0..asked.rounds.unwrap_or(1) {
            for _ in 0..LIST_COUNT {
                let begin = Instant::now();
                let processes = vec![("hub", hub.process().pid())];
                let (cost, (bytes, count)) = Cost::of(&processes, 1, read(wire, &path)).await;
                took.push(begin.elapsed().as_secs_f64() * 1000.0);
                cpu.push(cost.total_cpu_us() / 1000.0);
                assert_eq!(count, total, "{path} shows all");
                size = bytes;
            }
        }
        say(&format!(
            "B15 {what}: {:.0} ms, {:.0} ms of CPU, {size} bytes",
            took.median(),
            cpu.median()
        ));
        report.row(&format!("B15 {what}"), "ms", took, none(), Better::Less);
        report.row(
            &format!("B15 {what}, CPU of the hub"),
            "ms",
            cpu,
            none(),
            Better::Less,
        );
    }
}

fn none() -> Series {
    Series::default()
}

fn map(index: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{index}"),
        "labels": {"app": "bench"}}, "data": {"payload": "x".repeat(700)}})
}

/// Reads a list, or the first events of a watch up to the bookmark that ends them; tells how many bytes and objects there were.
async fn read(wire: &Wire, path: &str) -> (usize, usize) {
    let mut body = open(wire, path).await;
    let (mut bytes, mut count) = (0, 0);
    let (mut objects, mut end) = (
        Finder::of(b"\"payload\":"),
        Finder::of(b"initial-events-end"),
    );
    while let Some(piece) = body.piece().await.expect("it goes on") {
        bytes += piece.len();
        count += objects.count(&piece);
        if end.count(&piece) > 0 {
            break;
        }
    }
    (bytes, count)
}

/// Looks for a text in pieces, also where it stands in two of them.
struct Finder {
    text: &'static [u8],
    tail: Vec<u8>,
}

impl Finder {
    fn of(text: &'static [u8]) -> Self {
        let tail = Vec::new();
        Self { text, tail }
    }

    fn count(&mut self, piece: &[u8]) -> usize {
        self.tail.extend_from_slice(piece);
        let windows = self.tail.windows(self.text.len());
        let count = windows.filter(|it| *it == self.text).count();
        let from = self.tail.len().saturating_sub(self.text.len() - 1);
        self.tail.drain(..from);
        count
    }
}

async fn open(wire: &Wire, path: &str) -> Body {
    let connection = wire.connection(0);
    let answer = connection
        .open("GET", path, super::JSON, Bytes::new())
        .await;
    let (code, body) = answer.expect("an answer");
    assert_eq!(code, 200, "{path}");
    body
}

/// How long a change takes to come out of a watch of all clusters.
async fn changes(wire: &Wire, names: &[String], report: &mut Report) {
    let (_, list) = wire
        .json("GET", &format!("{ALL}?{SELECTED}&limit=1"), &Value::Null)
        .await;
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let path = format!("{ALL}?{SELECTED}&watch=true&resourceVersion={version}");
    let mut watch = open(wire, &path).await;
    let mut latencies = Vec::new();
    for index in 0..CHANGE_COUNT {
        let name = &names[index * 7919 % names.len()];
        let path = format!("/clusters/{name}/api/v1/namespaces/default/configmaps/map-0");
        let mark = format!("change-{index}.");
        let body = json!({"data": {"mark": mark}}).to_string();
        let begin = Instant::now();
        let connection = wire.connection(1);
        let media_type = "application/merge-patch+json";
        let sent = connection.send("PATCH", &path, media_type, body.into());
        let seen = async {
            let mut text = Vec::new();
            while !text.windows(mark.len()).any(|it| it == mark.as_bytes()) {
                let piece = watch.piece().await.expect("the watch goes on");
                text.extend_from_slice(&piece.expect("the watch does not end"));
            }
            begin.elapsed()
        };
        let (answer, seen) = tokio::join!(sent, timeout(PATIENCE, seen));
        assert_eq!(answer.expect("an answer").0, 200, "{path}");
        let seen = seen.expect("the change is delivered");
        latencies.push(u64::try_from(seen.as_micros()).unwrap_or(u64::MAX));
    }
    let millis = |percent| percentile_ms(&latencies, percent);
    let (p50, p99) = (millis(50), millis(99));
    say(&format!(
        "B15 a change to the watch of all: p50 {p50:.2} ms, p99 {p99:.2} ms"
    ));
    report.row(
        "B15 change to a watch of all, p50",
        "ms",
        p50,
        none(),
        Better::Less,
    );
    report.row(
        "B15 change to a watch of all, p99",
        "ms",
        p99,
        none(),
        Better::Less,
    );
}
