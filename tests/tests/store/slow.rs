//! R09: watchers that stop to read cost little memory, hold nobody up, and miss nothing when they read on.

use std::time::Duration;

use http_body_util::BodyExt;
use storage::{Expect, Revision};
use storage_conformance::{
    Trial,
    histories::{Subject, Verdict, Wish},
};
use tokio::time::Instant;
use wheelhouse_tests::{
    Hub,
    proof::{Api, Load},
};

const R09: Trial = Trial("R09");

/// Connections that stop reading; a whole run has 1,000.
const SLOW: usize = 100;
/// Writes until they are stuck: far more than a mailbox of 256 events and the 2 MB that a connection has under way.
const WRITES_FILLING: usize = 2_000;
/// Writes beside them.
const WRITES: usize = 4_000;
/// What makes events large, so that fewer of them are under way.
const FILLER: usize = 4_000;
/// Writes of the phases before, which only measure.
const WRITES_ALONE: usize = 2_000;
const WRITERS: usize = 8;
/// What one may take, with its connection. The goal is 64 KiB; docs/benchmarks.md tells what is seen.
const MEMORY_EACH: u64 = 128 * 1024;
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
    let share = u64::try_from((WRITES_FILLING + WRITES) / WRITES_ALONE).expect("it is small");
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
    phase(&load, "filling", WRITES_FILLING).await;
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

    // They read on where they stopped, and miss nothing.
    for (_own, mut body) in slow.into_iter().take(3) {
        must_see(&mut body, WRITES_FILLING + WRITES).await;
    }
    R09.must(seed, load.finish().await);
    let checked = R09.prove(seed, &load.recorder);
    println!("R09: {checked:?}");
}

/// Reads so many events, each later than the one before.
async fn must_see(body: &mut kube::client::Body, wanted: usize) {
    let (mut rest, mut last, mut count) = (Vec::new(), Revision::default(), 0);
    while count < wanted {
        let frame = tokio::time::timeout(Duration::from_mins(1), body.frame()).await;
        let frame = frame.expect("the watch goes on").expect("it does not end");
        rest.extend_from_slice(&frame.expect("a frame").into_data().unwrap_or_default());
        let end = rest.iter().rposition(|byte| *byte == b'\n');
        let whole: Vec<u8> = rest.drain(..end.map_or(0, |end| end + 1)).collect();
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            let event: serde_json::Value = serde_json::from_slice(line).expect("JSON");
            let revision = wheelhouse_tests::proof::api::revision(&event["object"]);
            let revision = revision.expect("an event has a revision");
            assert!(
                revision > last,
                "a watch goes forward: {revision} after {last}"
            );
            last = revision;
            count += 1;
        }
    }
    assert_eq!(count, wanted, "each write is one event");
}
