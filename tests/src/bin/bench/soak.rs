//! B22: a steady mix of gets, lists and writes with many watches, and what becomes of latencies and memory.
//!
//! The load is open: requests begin when their time has come, whether or not others have ended, and a latency counts
//! from then.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};

use super::{
    sides,
    watcher::{Watcher, newest},
};
use crate::{
    Asked,
    measure::{Cost, Series, float, percentile_ms, rss},
    report::{Better, Report, say},
    side::{PATH, Server, widget},
    wire::Wire,
};

/// Namespaces stand for logical clusters: the peer has no others.
const NAMESPACE_COUNT: usize = 1000;
const OBJECT_COUNT: usize = 10;
const WATCH_COUNT: usize = 2;

/// Watches of one connection; kube-apiserver's recommended limit of streams is 100.
const STREAM_COUNT: usize = 100;

/// Requests in a second.
const RATE: u32 = 500;

/// Memory is looked at this often.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// How long events may be under way at the end.
const PATIENCE: Duration = Duration::from_mins(1);

const VERBS: [&str; 3] = ["get", "list", "write"];

/// What a side's run said.
#[derive(Default)]
struct Found {
    latencies: [Vec<u64>; 3],
    cpu_us: Series,
    rss_mb: Series,
    slope: Series,
}

/// Runs both sides one after the other.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    let length = Duration::from_secs(asked.seconds.unwrap_or(600));
    let mut found = [(); 2].map(|()| Found::default());
    for (found, ours) in found.iter_mut().zip(sides(asked)) {
        *found = side(*ours, length).await;
    }
    let [ours, peer] = found;
    let series = |found: &Found, verb: usize, percent| match &found.latencies[verb][..] {
        [] => Series::default(),
        latencies => percentile_ms(latencies, percent).into(),
    };
    for (verb, wanted) in [50.0, 1500.0, 50.0].into_iter().enumerate() {
        for (percent, wanted) in [(50, None), (99, Some(wanted))] {
            let what = format!("B22 {} in the soak, p{percent}", VERBS[verb]);
            let (ours, peer) = (series(&ours, verb, percent), series(&peer, verb, percent));
            report.row(&what, "ms", ours, peer, Better::Less);
            if let Some(wanted) = wanted {
                report.wanted(wanted);
            }
        }
    }
    report.row(
        "server CPU",
        "µs/request",
        ours.cpu_us,
        peer.cpu_us,
        Better::Less,
    );
    report.row(
        "RSS at its end",
        "MB",
        ours.rss_mb,
        peer.rss_mb,
        Better::Less,
    );
    let what = "RSS slope of its second half";
    report.row(what, "%/min", ours.slope, peer.slope, Better::Less);
    report.note(format!(
        "B22: {} s of {RATE} requests/s (70 % get, 15 % list of {OBJECT_COUNT}, 15 % merge patch), {} watches; one \
         logical cluster with {NAMESPACE_COUNT} namespaces, in place of as many clusters, of which the peer has none. \
         Every event of every watch arrived.",
        length.as_secs(),
        NAMESPACE_COUNT * WATCH_COUNT
    ));
}

async fn side(ours: bool, length: Duration) -> Found {
    let server = Server::start(ours).await;
    let wire = server.wire(4).await;
    fill(&wire).await;
    let (total, seen) = watch::channel(0);
    let mut watches = JoinSet::new();
    for watcher in watch_all(&server).await {
        let total = total.clone();
        watches.spawn(count(watcher, total));
    }
    let processes = server.processes();
    let mut samples = Vec::new();
    let load = load(&wire, length);
    let sampled = async {
        tokio::pin!(load);
        let mut clock = tokio::time::interval(SAMPLE_INTERVAL);
        loop {
            tokio::select! {
                biased;
                done = &mut load => break done,
                _ = clock.tick() => samples.push(float(rss(&processes)) / 1e6),
            }
        }
    };
    let operations = usize::try_from(length.as_secs()).expect("a run is short") * RATE as usize;
    let (cost, latencies) = Cost::of(&processes, operations, sampled).await;
    let wanted = latencies[2].len() * WATCH_COUNT;
    delivered(seen, wanted).await;
    let slope = slope_per_minute(&samples[samples.len() / 2..]);
    let rss_mb = samples.last().copied().unwrap_or(f64::NAN);
    let found = Found {
        cpu_us: cost.total_cpu_us().into(),
        rss_mb: rss_mb.into(),
        slope: (slope / rss_mb * 100.0).into(),
        latencies,
    };
    for (verb, latencies) in VERBS.iter().zip(&found.latencies) {
        say(&format!(
            "B22 {}: {verb} {} times, p50 {:.2} ms, p99 {:.2} ms",
            server.name(),
            latencies.len(),
            percentile_ms(latencies, 50),
            percentile_ms(latencies, 99)
        ));
    }
    say(&format!(
        "B22 {}: CPU {:.0} µs each, RSS {rss_mb:.1} MB, {slope:.2} MB/min",
        server.name(),
        cost.total_cpu_us()
    ));
    found
}

fn namespace(index: usize) -> String {
    format!("soak-{index}")
}

fn collection(index: usize) -> String {
    PATH.replace("/default/", &format!("/{}/", namespace(index)))
}

async fn fill(wire: &Wire) {
    let namespaces = (0..NAMESPACE_COUNT).map(|index| {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(index)},
        });
        Bytes::from(namespace.to_string())
    });
    wire.create("/api/v1/namespaces", namespaces, 32).await;
    stream::iter(0..NAMESPACE_COUNT)
        .for_each_concurrent(16, |index| async move {
            let bodies = (0..OBJECT_COUNT).map(|object| {
                let widget = widget(&namespace(index), &format!("w-{object}"), object);
                Bytes::from(widget.to_string())
            });
            wire.create(&collection(index), bodies, 2).await;
        })
        .await;
}

/// Opens all watches, some on each connection.
async fn watch_all(server: &Server) -> Vec<Watcher> {
    let paths: Vec<String> = (0..NAMESPACE_COUNT * WATCH_COUNT)
        .map(|index| collection(index % NAMESPACE_COUNT))
        .collect();
    let version = newest(&server.target(), PATH).await;
    let mut watchers = Vec::new();
    for (index, paths) in paths.chunks(STREAM_COUNT).enumerate() {
        let connection = server.target().connect(index).await;
        let connection = connection.expect("the server accepts");
        for path in paths {
            watchers.push(Watcher::begin(connection.clone(), path, &version).await);
        }
    }
    watchers
}

/// Counts what a watch tells.
async fn count(mut watcher: Watcher, total: watch::Sender<usize>) {
    // One that ends too early is missed in the count.
    while let Ok(count) = watcher.next().await {
        total.send_modify(|total| *total += count);
    }
}

/// Waits until every event has arrived.
async fn delivered(mut seen: watch::Receiver<usize>, wanted: usize) {
    let all = seen.wait_for(|seen| *seen >= wanted);
    let in_time = tokio::time::timeout(PATIENCE, all).await.is_ok();
    let seen = *seen.borrow();
    assert!(in_time && seen == wanted, "{seen} of {wanted} events");
}

/// Sends requests at their times; tells the latencies of each verb.
async fn load(wire: &Wire, length: Duration) -> [Vec<u64>; 3] {
    let mut random = StdRng::seed_from_u64(22);
    let mut requests = JoinSet::new();
    let mut latencies = [(); 3].map(|()| Vec::new());
    let mut clock = tokio::time::interval(Duration::from_secs(1) / RATE);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let end = Instant::now() + length;
    loop {
        let due = clock.tick().await;
        if due >= end {
            break;
        }
        let verb = match random.random_range(0..100) {
            0..70 => 0,
            70..85 => 1,
            _ => 2,
        };
        let namespace = random.random_range(0..NAMESPACE_COUNT);
        let object = random.random_range(0..OBJECT_COUNT);
        let index = random.random_range(0..1_000_000);
        let wire = wire.clone();
        requests.spawn(async move {
            request(&wire, verb, &collection(namespace), object, index).await;
            (verb, due.elapsed())
        });
        while let Some(done) = requests.try_join_next() {
            note(&mut latencies, done.expect("a request is answered"));
        }
    }
    while let Some(done) = requests.join_next().await {
        note(&mut latencies, done.expect("a request is answered"));
    }
    latencies
}

fn note(latencies: &mut [Vec<u64>; 3], (verb, latency): (usize, Duration)) {
    latencies[verb].push(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
}

async fn request(wire: &Wire, verb: usize, collection: &str, object: usize, index: usize) {
    let item = format!("{collection}/w-{object}");
    let (method, path, kind, body) = match verb {
        0 => ("GET", item.as_str(), "", Bytes::new()),
        1 => ("GET", collection, "", Bytes::new()),
        _ => {
            let patch = json!({"spec": {"size": index}}).to_string();
            (
                "PATCH",
                item.as_str(),
                "application/merge-patch+json",
                patch.into(),
            )
        }
    };
    let answer = wire.connection(index).send(method, path, kind, body).await;
    let (code, body) = answer.expect("an answer");
    assert_eq!(code, 200, "{}", String::from_utf8_lossy(&body));
}

/// By how much the samples rise, by least squares; they are a second apart.
fn slope_per_minute(samples: &[f64]) -> f64 {
    let count = float(samples.len() as u64);
    let middle = (count - 1.0) / 2.0;
    let mean = samples.iter().sum::<f64>() / count;
    let (mut along, mut square) = (0.0, 0.0);
    for (index, sample) in samples.iter().enumerate() {
        let offset = float(index as u64) - middle;
        along += offset * (sample - mean);
        square += offset * offset;
    }
    along / square * 60.0
}
