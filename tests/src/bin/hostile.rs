//! Next to a hostile spoke: what the requests of another spoke cost, in each way of being hostile. Prints a table; judging
//! it is for who reads it, because a busy machine says little.
//!
//! `--seconds N` is how long each way is tried, 10 by default, in turns with an honest spoke; `--only NAME` (repeated) tries
//! the named ways alone. The first row, `Honest`, compares the honest spoke with itself: what it differs by is the noise of
//! the machine. The other spoke is a real kube-apiserver. The hostile one has threads of its own, which the scheduler runs only when a processor is idle: on a
//! machine that it shares with the hub, what it computes itself is not to count.

use std::{ffi::OsStr, io, process::Command, time::Duration};

use anyhow::{Context as _, Result};
use client::{Dynamic, Endpoint};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use wheelhouse_tests::{FakeSpoke, Hub, Spoke, fake_spoke::Mode, process};

/// Between two requests: what is measured is the wait, not how many fit.
const INTERVAL: Duration = Duration::from_millis(5);
/// How long one turn lasts at most: a machine that slows down for a while must slow down both.
const TURN: Duration = Duration::from_secs(2);
/// After each change, until its first storm is part of the measurement no more than of the next one.
const SETTLE: Duration = Duration::from_millis(300);

/// What the requests of one way cost.
#[derive(Default)]
struct Costs {
    /// How long each took.
    latencies: Vec<Duration>,
    /// How long was measured.
    measured: Duration,
    /// Processor time of the hub.
    cpu_ms: u64,
    /// Resident memory of the hub at the end.
    rss_bytes: u64,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let values = |flag: &str| -> Vec<String> {
        let pairs = arguments.windows(2).filter(|pair| pair[0] == flag);
        pairs.map(|pair| pair[1].clone()).collect()
    };
    let seconds = values("--seconds").pop();
    let seconds = seconds.map_or(Ok(10), |text| text.parse())?;
    let (only, duration) = (values("--only"), Duration::from_secs(seconds));
    let theirs = Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(|| {
            // `PID/task/TID`.
            let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
            let thread = thread.file_name().unwrap_or_default();
            let chrt: [&OsStr; 4] = ["--idle".as_ref(), "--pid".as_ref(), "0".as_ref(), thread];
            let set = Command::new("chrt").args(chrt).status();
            assert!(
                set.is_ok_and(|it| it.success()),
                "chrt (util-linux) sets the policy"
            );
        })
        .build()?;
    let measured = Runtime::new()?.block_on(measure_all(&theirs, &only, duration));
    theirs.shutdown_background();
    measured
}

async fn measure_all(theirs: &Runtime, only: &[String], duration: Duration) -> Result<()> {
    let (hub, good, mallory, elsewhere) = tokio::join!(
        Hub::start(),
        Spoke::start("good"),
        theirs.spawn(FakeSpoke::start("mallory")),
        theirs.spawn(FakeSpoke::start("elsewhere")),
    );
    let (mallory, elsewhere) = (mallory?, elsewhere?);
    hub.join(&good).await;
    let from = mallory.kubeconfig().display().to_string();
    let added = hub
        .wheelhouse(&["spoke", "add", "mallory", "--from", &from])
        .await;
    added.succeeded("spoke add");
    let kubeconfig = std::fs::read_to_string(hub.kubeconfig())?;
    let connection = client::connect(&kubeconfig, None, &client::Options::default()).await?;
    let calls = Dynamic::new(connection.client());
    let mut out = io::stdout().lock();
    // Caches fill first.
    let mut warm = Costs::default();
    measure(&hub, &calls, duration, &mut warm).await?;
    let redirect = format!("https://{}/", elsewhere.address());
    let turns = duration.div_duration_f64(TURN).ceil().max(1.0);
    let turn = duration.div_f64(turns);
    let modes = Mode::all(&redirect, "uid-of-nobody");
    let modes = std::iter::once(Mode::Honest).chain(modes);
    let wanted = |mode: &Mode| {
        let name = format!("{mode:?}");
        only.is_empty() || only.iter().any(|it| name.starts_with(it.as_str()))
    };
    for mode in modes.filter(wanted) {
        let (mut base, mut costs) = (Costs::default(), Costs::default());
        while base.measured < duration {
            mallory.set(Mode::Honest);
            tokio::time::sleep(SETTLE).await;
            measure(&hub, &calls, turn, &mut base).await?;
            mallory.set(mode.clone());
            tokio::time::sleep(SETTLE).await;
            measure(&hub, &calls, turn, &mut costs).await?;
        }
        write_row(&mut out, &format!("{mode:?}"), &mut costs, &mut base)?;
    }
    Ok(())
}

/// Sends requests to the good spoke for a while, reads and writes in turns.
async fn measure(hub: &Hub, calls: &Dynamic, duration: Duration, costs: &mut Costs) -> Result<()> {
    let endpoint = Endpoint {
        scope: Some("good".parse().context("a cluster's name")?),
        gvr: api::GroupVersionResource::new("", "v1", "configmaps"),
        namespace: Some("default".to_owned()),
    };
    let (cpu_before, _) = process::usage(hub.process().pid());
    let began = Instant::now();
    while began.elapsed() < duration {
        let name = format!("m-{}", rand::random::<u64>());
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let sent = Instant::now();
        calls.create(&endpoint, &object).await.context("create")?;
        costs.latencies.push(sent.elapsed());
        let sent = Instant::now();
        calls.get(&endpoint, &name).await.context("get")?;
        costs.latencies.push(sent.elapsed());
        tokio::time::sleep(INTERVAL).await;
    }
    costs.measured += duration;
    let (cpu_after, rss_bytes) = process::usage(hub.process().pid());
    costs.cpu_ms += cpu_after.saturating_sub(cpu_before);
    costs.rss_bytes = rss_bytes;
    Ok(())
}

fn write_row(
    out: &mut impl io::Write,
    name: &str,
    costs: &mut Costs,
    base: &mut Costs,
) -> Result<()> {
    costs.latencies.sort_unstable();
    base.latencies.sort_unstable();
    let millis = |costs: &Costs, percent| costs.quantile(percent).as_secs_f64() * 1000.0;
    let rise = (millis(costs, 99) / millis(base, 99) - 1.0) * 100.0;
    writeln!(
        out,
        "{name:<40} p50 {:>6.2} {:>6.2} ms  p99 {:>6.2} {:>6.2} ms ({rise:+.0} %)  hub {:>5} {:>5} ms of CPU, {:>4} MiB, {} requests",
        millis(base, 50),
        millis(costs, 50),
        millis(base, 99),
        millis(costs, 99),
        base.cpu_ms,
        costs.cpu_ms,
        costs.rss_bytes >> 20,
        costs.latencies.len(),
    )?;
    out.flush()?;
    Ok(())
}

impl Costs {
    fn quantile(&self, percent: usize) -> Duration {
        let index = self.latencies.len().saturating_sub(1) * percent / 100;
        self.latencies.get(index).copied().unwrap_or_default()
    }
}
