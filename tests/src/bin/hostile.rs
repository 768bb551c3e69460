//! Beside a hostile spoke: what the requests of another spoke cost, in each way of being hostile. Prints a table; judging
//! it is for who reads it, because a busy machine says little.
//!
//! `--seconds N` is how long each way is tried, 10 by default. The other spoke is a real kube-apiserver.

use std::{io, time::Duration};

use anyhow::{Context as _, Result};
use client::{Dynamic, Endpoint};
use serde_json::json;
use tokio::time::Instant;
use wheelhouse_tests::{FakeSpoke, Hub, Spoke, fake_spoke::Mode, process};

/// Between two requests: what is measured is the wait, not how many fit.
const INTERVAL: Duration = Duration::from_millis(10);

/// What the requests of one way cost.
struct Costs {
    /// How long each took, sorted.
    latencies: Vec<Duration>,
    /// Processor time of the hub.
    cpu_ms: u64,
    /// Resident memory of the hub at the end.
    rss_bytes: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip_while(|it| it != "--seconds");
    let seconds = arguments.nth(1).map_or(Ok(10), |text| text.parse())?;
    let duration = Duration::from_secs(seconds);
    let (hub, good, mallory, elsewhere) = tokio::join!(
        Hub::start(),
        Spoke::start("good"),
        FakeSpoke::start("mallory"),
        FakeSpoke::start("elsewhere"),
    );
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
    let base = measure(&hub, &calls, duration).await?;
    write_row(&mut out, "honest", &base, &base)?;
    let redirect = format!("https://{}/", elsewhere.address());
    for mode in Mode::all(&redirect, "uid-of-nobody") {
        mallory.set(mode.clone());
        let costs = measure(&hub, &calls, duration).await?;
        write_row(&mut out, &format!("{mode:?}"), &costs, &base)?;
    }
    mallory.set(Mode::Honest);
    let again = measure(&hub, &calls, duration).await?;
    write_row(&mut out, "honest again", &again, &base)
}

/// Sends requests to the good spoke for a while, reads and writes in turns.
async fn measure(hub: &Hub, calls: &Dynamic, duration: Duration) -> Result<Costs> {
    let endpoint = Endpoint {
        scope: Some("good".parse().context("a cluster's name")?),
        gvr: api::GroupVersionResource::new("", "v1", "configmaps"),
        namespace: Some("default".to_owned()),
    };
    let (cpu_before, _) = process::usage(hub.process().pid());
    let mut latencies = Vec::new();
    let began = Instant::now();
    while began.elapsed() < duration {
        let name = format!("m-{}", rand::random::<u64>());
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let sent = Instant::now();
        calls.create(&endpoint, &object).await.context("create")?;
        latencies.push(sent.elapsed());
        let sent = Instant::now();
        calls.get(&endpoint, &name).await.context("get")?;
        latencies.push(sent.elapsed());
        tokio::time::sleep(INTERVAL).await;
    }
    latencies.sort_unstable();
    let (cpu_after, rss_bytes) = process::usage(hub.process().pid());
    Ok(Costs {
        latencies,
        cpu_ms: cpu_after.saturating_sub(cpu_before),
        rss_bytes,
    })
}

fn write_row(out: &mut impl io::Write, name: &str, costs: &Costs, base: &Costs) -> Result<()> {
    let (median, p99) = (costs.quantile(50), costs.quantile(99));
    let rise = (p99.as_secs_f64() / base.quantile(99).as_secs_f64() - 1.0) * 100.0;
    writeln!(
        out,
        "{name:<40} median {:>7.2} ms  p99 {:>7.2} ms ({rise:+.0} %)  hub {:>6} ms of CPU, {:>4} MiB",
        median.as_secs_f64() * 1000.0,
        p99.as_secs_f64() * 1000.0,
        costs.cpu_ms,
        costs.rss_bytes >> 20
    )?;
    Ok(())
}

impl Costs {
    fn quantile(&self, percent: usize) -> Duration {
        let index = self.latencies.len().saturating_sub(1) * percent / 100;
        self.latencies.get(index).copied().unwrap_or_default()
    }
}
