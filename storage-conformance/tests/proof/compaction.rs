//! R08: history is compacted at every revision around deletions, while watches are open and begin, and
//! lists are read page by page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use storage::{Revision, Store as _};
use wheelhouse_storage_conformance::histories::{Follower, Span, Subject, Violation, Workload};
use wheelhouse_storage_conformance::{Random, Trial};

use super::machine::{Machine, Mishap, play};

const R08: Trial = Trial("R08");

const ROUNDS: usize = 20;
const CLIENTS: usize = 4;

static COMPACTIONS: AtomicUsize = AtomicUsize::new(0);

async fn history(machine: &mut Machine) -> Result<(), Violation> {
    let subject: Arc<dyn Subject> = Arc::clone(&machine.clients) as _;
    let mut followers = machine.followers(&subject);
    let after = machine.engine().revision();
    for restlessness in [0, 2, 3, 5, 9] {
        let follower = Follower {
            restlessness,
            ..Follower::of(Span::all())
        };
        followers.add(&machine.recorder, &subject, follower, after);
    }
    for round in 0..4 {
        followers.look()?;
        let stop = Arc::new(AtomicBool::new(false));
        let compactor = std::thread::spawn({
            let (engine, recorder) = (machine.engine(), Arc::clone(&machine.recorder));
            let (stop, mut random) = (Arc::clone(&stop), Random::new(machine.random.bits()));
            move || {
                let mut floor = Revision(0);
                while !stop.load(Ordering::Relaxed) {
                    // Up to the very latest that some watch has seen, or a little less: then pages of
                    // lists and watches that resume are right at the floor.
                    let kept = random.below(6) as u64;
                    let next = Revision(
                        engine
                            .revision()
                            .min(recorder.reach())
                            .0
                            .saturating_sub(kept),
                    );
                    if next <= floor {
                        std::thread::yield_now();
                        continue;
                    }
                    if engine.compact(next).wait().is_err() {
                        return;
                    }
                    floor = next;
                    COMPACTIONS.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // Two keys in three are deleted before they are read again; lists have a page per key.
        let workload = Workload {
            seed: 0,
            calls: 150,
            keys: 6,
            reads: 10,
            lists: 25,
        };
        let mishap = match round {
            1 => Mishap::PowerLoss { within_calls: 1500 },
            _ => Mishap::None,
        };
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

#[test]
fn r08_compaction_hides_no_deletion_and_refuses_nothing_that_is_kept() {
    let (mut events, mut calls) = (0, 0);
    let seeds = Trial::seeds(ROUNDS);
    for seed in &seeds {
        let checked = play(R08, *seed, history);
        events += checked.events;
        calls += checked.calls;
    }
    let compactions = COMPACTIONS.load(Ordering::Relaxed);
    println!("R08: {compactions} compactions, {calls} calls, {events} events");
    assert!(compactions > seeds.len() * 100, "{compactions} compactions");
    // A relist costs a list and a watch; endless relisting would show as more calls than these.
    assert!(calls < seeds.len() * 100_000, "{calls} calls");
}
