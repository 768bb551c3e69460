//! B01: from exec to the first 200 of `/readyz`, on an empty data folder, and what is resident then.

use std::{process::Command, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;
use wheelhouse_tests::{
    Spoke, assets,
    process::{Process, Scratch, free_port, usage},
};

use crate::{
    Asked,
    measure::{Series, float},
    report::{Better, Report, say},
    side::{Etcd, OPTIONS},
    wire::Target,
};

/// Between two looks at readiness.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// How long a start may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is resident at rest is read this long after the start.
const REST: Duration = Duration::from_millis(500);

/// Starts each server `rounds` times.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    let rounds = asked.rounds.unwrap_or(5);
    let [
        mut ours_ms,
        mut ours_mb,
        mut peer_ms,
        mut peer_mb,
        mut etcd_ms,
        mut etcd_mb,
    ] = [(); 6].map(|()| Series::default());
    for _ in 0..rounds {
        let (ms, mb) = ours().await;
        ours_ms.push(ms);
        ours_mb.push(mb);
        if asked.alone {
            continue;
        }
        let (ms, mb) = peer().await;
        peer_ms.push(ms);
        peer_mb.push(mb);
        let start = Instant::now();
        let etcd = Etcd::start().await;
        etcd_ms.push(start.elapsed().as_secs_f64() * 1000.0);
        tokio::time::sleep(REST).await;
        etcd_mb.push(megabytes(usage(etcd.processes()[0].1).1));
    }
    let what = "B01 cold start, exec to readyz";
    report.row(what, "ms", ours_ms.clone(), peer_ms, Better::Less);
    report.wanted(30.0);
    let what = "B01 RSS at rest after it";
    report.row(what, "MB", ours_mb.clone(), peer_mb, Better::Less);
    report.wanted(15.0);
    let what = "B01 cold start, beside etcd alone";
    report.row(what, "ms", ours_ms, etcd_ms, Better::Less);
    let what = "B01 RSS, beside etcd alone";
    report.row(what, "MB", ours_mb, etcd_mb, Better::Less);
    report.note(
        "B01: with the start of a shell (1 to 2 ms); the peers are looked at every 50 ms, so that theirs is that much \
         too long at most. MB are 10^6 bytes, of RSS as `ps` tells it, with the pages of the program itself.",
    );
}

/// One start of ours: milliseconds, megabytes.
async fn ours() -> (f64, f64) {
    let scratch = Scratch::new("cold");
    let data = scratch.file("data");
    let port = free_port();
    let mut command = Command::new(assets::wheelhouse());
    command.args([
        "serve",
        "--audit-log-path=",
        "--listen",
        &format!("127.0.0.1:{port}"),
    ]);
    command.arg("--data-dir").arg(&data);
    command.arg("--kubeconfig-out").arg(scratch.file("admin"));
    let start = Instant::now();
    let process = Process::start(&command, &scratch.file("hub.log"));
    ready(&scratch, &process, start).await;
    let ready_ms = start.elapsed().as_secs_f64() * 1000.0;
    tokio::time::sleep(REST).await;
    let mb = megabytes(process.usage().1);
    say(&format!("B01 ours: {ready_ms:.1} ms, {mb:.1} MB"));
    (ready_ms, mb)
}

/// Waits for the administrator's kubeconfig, which holds the authority to trust, and then for readiness.
async fn ready(scratch: &Scratch, process: &Process, start: Instant) {
    let mut connection = None;
    loop {
        assert!(
            process.runs() && start.elapsed() < PATIENCE,
            "{}",
            process.log()
        );
        if connection.is_none() && scratch.file("admin").is_file() {
            let target = Target::of_kubeconfig(&scratch.file("admin"));
            connection = target.connect(0).await.ok();
        }
        if let Some(connection) = &connection {
            let answer = connection.send("GET", "/readyz", "", Bytes::new()).await;
            if answer.is_ok_and(|(code, _)| code == 200) {
                return;
            }
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

async fn peer() -> (f64, f64) {
    let start = Instant::now();
    let spoke = Spoke::start_with("peer", OPTIONS).await;
    let ready_ms = start.elapsed().as_secs_f64() * 1000.0;
    tokio::time::sleep(REST).await;
    let mb = megabytes(spoke.api().usage().1 + spoke.etcd().usage().1);
    say(&format!("B01 peer: {ready_ms:.0} ms, {mb:.0} MB"));
    (ready_ms, mb)
}

fn megabytes(bytes: u64) -> f64 {
    float(bytes) / 1e6
}
