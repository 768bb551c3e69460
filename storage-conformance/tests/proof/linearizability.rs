//! R05: clients on hot keys, over power losses, failing syncs and full disks, see one order of everything.

use std::sync::Arc;

use storage::Store as _;
use wheelhouse_storage_conformance::Trial;
use wheelhouse_storage_conformance::histories::{Follower, Span, Subject, Violation, Workload};

use super::machine::{Machine, Mishap, play};

const R05: Trial = Trial("R05");

const HISTORIES: usize = 50;
const CALLS: usize = 10_000;
const CLIENTS: usize = 8;
/// Few enough that every key is always fought over.
const KEYS: usize = 10;

async fn history(machine: &mut Machine) -> Result<(), Violation> {
    let subject: Arc<dyn Subject> = Arc::clone(&machine.clients) as _;
    let mut followers = machine.followers(&subject);
    let after = machine.engine().revision();
    for (restlessness, laziness) in [(20, 0), (0, 20)] {
        let follower = Follower {
            restlessness,
            laziness,
            ..Follower::of(Span::all())
        };
        followers.add(&machine.recorder, &subject, follower, after);
    }
    let mut left = CALLS;
    while left > 0 {
        followers.look()?;
        let workload = Workload {
            seed: 0,
            calls: (left / 2).div_ceil(CLIENTS) + 10,
            keys: KEYS,
            reads: 25,
            lists: 3,
        };
        let mishap = match machine.random.below(5) {
            0 => Mishap::None,
            // Refused calls are quick, so it shall not end a history.
            2 if left > CALLS / 2 => Mishap::FullDisk { within_calls: 1000 },
            1 => Mishap::FailedSync { within_syncs: 600 },
            _ => Mishap::PowerLoss { within_calls: 3000 },
        };
        let calls = machine.run(&subject, CLIENTS, workload, mishap).await?;
        left = left.saturating_sub(calls.max(1));
        match mishap {
            Mishap::None => machine.reopen(),
            Mishap::FullDisk { .. } => machine.free(),
            _ => machine.power_cycle(),
        }
    }
    followers.finish(machine.engine().revision()).await
}

#[test]
fn r05_histories_over_crashes_are_linearizable() {
    let (mut calls, mut unanswered) = (0, 0);
    let seeds = Trial::seeds(HISTORIES);
    for seed in &seeds {
        let checked = play(R05, *seed, history);
        calls += checked.calls;
        unanswered += checked.unanswered;
    }
    println!(
        "R05: {} histories, {calls} calls, {unanswered} of them unanswered",
        seeds.len()
    );
    assert!(calls >= seeds.len() * CALLS, "every history is long");
    assert!(
        unanswered > seeds.len(),
        "crashes befall calls: {unanswered}"
    );
}
