//! R06: fifty watchers that resume at random revisions, while clients write, history is compacted and
//! the machine loses power, all see the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use storage::embedded::Engine;
use storage::{Revision, Store as _};
use wheelhouse_storage_conformance::histories::{
    Follower, Recorder, Span, Subject, Violation, Workload,
};
use wheelhouse_storage_conformance::{Random, Trial};

use super::machine::{Machine, Mishap, play};

const R06: Trial = Trial("R06");

const ROUNDS: usize = 10;
const EVENTS_PER_ROUND: usize = 500_000;
const WATCHERS: usize = 50;
const CLIENTS: usize = 6;

async fn history(machine: &mut Machine) -> Result<(), Violation> {
    let subject: Arc<dyn Subject> = Arc::clone(&machine.clients) as _;
    let mut followers = machine.followers(&subject);
    let after = machine.engine().revision();
    for n in 1..WATCHERS {
        // Most watch everything; some a part. Some never let go, some all the time.
        let span = match n % 5 {
            0 => Span {
                start: "k0010".to_owned(),
                end: Some("k0030".to_owned()),
            },
            _ => Span::all(),
        };
        // Some let more pass than waits for them, and read it from history.
        let follower = Follower {
            restlessness: [0, 60, 200][n % 3],
            laziness: [0, 0, 0, 50][n % 4],
            ..Follower::of(span)
        };
        followers.add(&machine.recorder, &subject, follower, after);
    }
    while machine.recorder.event_count() < EVENTS_PER_ROUND {
        followers.look()?;
        let workload = Workload {
            seed: 0,
            calls: 500,
            keys: 50,
            reads: 5,
            lists: 1,
        };
        let mishap = match machine.random.below(3) {
            0 => Mishap::None,
            _ => Mishap::PowerLoss { within_calls: 6000 },
        };
        let stop = Arc::new(AtomicBool::new(false));
        let compactor = std::thread::spawn({
            let (engine, recorder) = (machine.engine(), Arc::clone(&machine.recorder));
            let (stop, random) = (Arc::clone(&stop), Random::new(machine.random.bits()));
            move || compact(&engine, &recorder, random, &stop)
        });
        let outcome = machine.run(&subject, CLIENTS, workload, mishap).await;
        stop.store(true, Ordering::Relaxed);
        compactor.join().expect("it only compacts");
        outcome?;
        match mishap {
            Mishap::None => machine.reopen(),
            _ => machine.power_cycle(),
        }
    }
    followers.finish(machine.engine().revision()).await
}

/// Forgets all but some of the latest revisions, and never what no watch has seen yet.
fn compact(engine: &Engine, recorder: &Recorder, mut random: Random, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let kept = random.below(1500) as u64;
        let floor = Revision(engine.revision().0.saturating_sub(kept));
        // The answer is an error once the power is gone, which ends the round.
        let done = engine.compact(floor.min(recorder.reach())).wait();
        if done.is_err() {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}

#[test]
fn r06_watchers_that_resume_anywhere_see_the_same() {
    let (mut events, mut watches) = (0, 0);
    let seeds = Trial::seeds(ROUNDS);
    for seed in &seeds {
        let checked = play(R06, *seed, history);
        events += checked.events;
        watches += checked.watches;
    }
    println!("R06: {events} events of {watches} watches checked");
    assert!(events >= seeds.len() * EVENTS_PER_ROUND, "{events} events");
    assert!(
        watches > seeds.len() * WATCHERS * 2,
        "watches resume: {watches}"
    );
}
