//! Puts per second, latency and processor time of durable puts, for 1 and for 32 writers.
//!
//! `cargo run --release -p wheelhouse-storage --example commit_bench -- [directory] [seconds] [objects]`
//!
//! With a number of objects, a store of so many is opened too: once with all of them in history, once
//! with none.
//!
//! The processor time is that of the whole process: writers, commit thread and kernel. A raw
//! append-and-sync of the same size runs first, as the measure of the disk at that moment.

#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use wheelhouse_storage::embedded::{Config, Engine};
use wheelhouse_storage::{Change, Expect, KeyRange, RangeQuery, STAMP_BYTES, Store, Write};

/// A custom resource of the size that the peers were measured with.
const VALUE_BYTES: usize = 1200;

/// Linux reports processor time in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments
        .next()
        .map_or_else(default_directory, PathBuf::from);
    let seconds = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(3.0);
    let span = Duration::from_secs_f64(seconds);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    std::fs::create_dir_all(&directory)?;
    say(&format!(
        "raw append + fdatasync: {:.0}/s",
        raw(&directory, span)?
    ))?;
    if let Some(objects) = arguments.next().and_then(|text| text.parse().ok()) {
        starts(&directory, objects)?;
    }
    for writers in [1, 2, 8, 32, 256] {
        let place = directory.join(format!("writers-{writers}"));
        let store = Arc::new(Engine::open(&place, Config::default())?);
        runtime.block_on(run(Arc::clone(&store), writers, span))?;
        reads(&store)?;
        drop(store);
        let before = Instant::now();
        let store = Engine::open(&place, Config::default())?;
        let keys = store.statistics().keys;
        say(&format!(
            "  reopened with {keys} keys in {:.0} ms",
            millis(before.elapsed())
        ))?;
        drop(store);
        std::fs::remove_dir_all(&place)?;
    }
    Ok(())
}

/// Makes a store of so many objects, and opens it.
fn starts(directory: &Path, objects: u64) -> Result<(), Failure> {
    let place = directory.join("start");
    let store = Engine::open(&place, Config::default())?;
    for first in (0..objects).step_by(1_000) {
        let writes = first..objects.min(first.saturating_add(1_000));
        // Each one is another's name: every tenth of `put` is an update.
        store.commit(writes.map(|n| put(n * 10)).collect()).wait()?;
    }
    drop(store);
    for history in ["all of it is history", "none of it is history"] {
        let (before, began) = (resident_bytes()?, Instant::now());
        let store = Engine::open(&place, Config::default())?;
        let took = began.elapsed();
        let grown = resident_bytes()?.saturating_sub(before) as f64;
        say(&format!(
            "{objects} objects, {history}: open in {:.0} ms, {:.0} bytes of memory for each",
            millis(took),
            grown / objects as f64
        ))?;
        store.compact(store.revision()).wait()?;
    }
    Ok(std::fs::remove_dir_all(&place)?)
}

/// Field 2 of `statm`, in pages.
fn resident_bytes() -> Result<u64, Failure> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).ok_or("statm is cut")?.parse()?;
    Ok(pages * 4096)
}

async fn run(store: Arc<Engine>, writers: u64, span: Duration) -> Result<(), Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let (cpu, began) = (processor_seconds()?, Instant::now());
    let mut tasks = JoinSet::new();
    for _ in 0..writers {
        let (store, next) = (Arc::clone(&store), Arc::clone(&next));
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while began.elapsed() < span {
                let asked = Instant::now();
                store
                    .commit(vec![put(next.fetch_add(1, Ordering::Relaxed))])
                    .await?;
                latencies.push(asked.elapsed());
            }
            Ok::<_, wheelhouse_storage::Error>(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    let (cpu, wall) = (processor_seconds()? - cpu, began.elapsed().as_secs_f64());
    latencies.sort_unstable();
    let at = |share: usize| {
        let place = latencies.len().saturating_mul(share) / 100;
        latencies.get(place).map_or(0.0, |latency| millis(*latency))
    };
    let metrics = store.metrics();
    let puts = latencies.len() as f64;
    say(&format!(
        "{writers:>3} writers: {:>6.0} puts/s, p50 {:.2} ms, p99 {:.2} ms, {:.1} us CPU per put, {:.1} puts per sync",
        puts / wall,
        at(50),
        at(99),
        cpu * 1e6 / puts,
        metrics.writes.get() as f64 / metrics.groups.get() as f64,
    ))
}

/// Nine creations to one update.
fn put(n: u64) -> Write {
    let name = if n % 10 == 9 { n / 20 } else { n };
    // Names that do not arrive in their order, as real ones do not.
    let shuffled = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let key = format!(
        "/wheelhouse.dev/widgets/spoke-{}/default/{shuffled:016x}",
        name % 20
    );
    let mut value = format!(
        "{{\"metadata\":{{\"resourceVersion\":\"{}\",\"name\":\"",
        "0".repeat(STAMP_BYTES)
    );
    let stamp = value.find("000").unwrap_or(0);
    value.push_str(&"x".repeat(VALUE_BYTES - value.len()));
    let change = Change::Put {
        value: value.into_bytes(),
        stamp: Some(stamp),
        tag: 0,
    };
    Write {
        key: key.into(),
        change,
        expect: Expect::Any,
    }
}

fn reads(store: &Engine) -> Result<(), Failure> {
    let before = Instant::now();
    let list = store.range(RangeQuery::of(KeyRange::all()).limit(11_000))?;
    let listed = before.elapsed();
    let mut bytes = 0;
    for entry in &list.entries {
        bytes += store
            .get(entry.key())
            .map_or(0, |entry| entry.value().len());
    }
    let count = list.entries.len() as f64;
    let got = before.elapsed().saturating_sub(listed);
    say(&format!(
        "  range of {count}: {:.2} ms; get: {:.2} us ({bytes} bytes)",
        millis(listed),
        got.as_secs_f64() * 1e6 / count
    ))
}

fn raw(directory: &Path, span: Duration) -> Result<f64, Failure> {
    let path = directory.join("raw");
    let file = std::fs::File::create(&path)?;
    let (mut count, began) = (0_u64, Instant::now());
    while began.elapsed() < span {
        file.write_all_at(&[1; VALUE_BYTES], count * VALUE_BYTES as u64)?;
        file.sync_data()?;
        count += 1;
    }
    std::fs::remove_file(&path)?;
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

/// Fields 14 and 15 of `stat`, counted behind the name in parentheses.
fn processor_seconds() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, rest) = stat.rsplit_once(')').ok_or("no name in stat")?;
    let ticks: f64 = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .flat_map(str::parse::<f64>)
        .sum();
    Ok(ticks / TICKS_PER_SECOND)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn default_directory() -> PathBuf {
    std::env::temp_dir().join(format!("commit-bench-{}", std::process::id()))
}

fn say(line: &str) -> Result<(), Failure> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}
