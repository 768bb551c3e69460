//! The checker must be able to fail: stores that misbehave are found out, each by the promise that it
//! breaks. `hack/planted-bugs` does the same with bugs in the engine itself.

use std::sync::Arc;

use storage::Store as _;
use wheelhouse_storage_conformance::histories::{
    Follower, Span, Subject, Violation, Workload, check,
};

use super::machine::{Machine, Mishap};
use super::misbehaving::{Bug, Misbehaving};

async fn history(machine: &mut Machine, bug: Bug) -> Result<(), Violation> {
    let subject: Arc<dyn Subject> = Arc::new(Misbehaving::new(Arc::clone(&machine.clients), bug));
    let mut followers = machine.followers(&subject);
    let after = machine.engine().revision();
    for restlessness in [0, 3, 5] {
        let follower = Follower {
            restlessness,
            ..Follower::of(Span::all())
        };
        followers.add(&machine.recorder, &subject, follower, after);
    }
    let workload = Workload {
        seed: 0,
        calls: 200,
        keys: 8,
        reads: 25,
        lists: 10,
    };
    for _ in 0..2 {
        machine.run(&subject, 4, workload, Mishap::None).await?;
        machine.reopen();
    }
    followers.finish(machine.engine().revision()).await
}

/// How the checker finds a bug within a few seeds.
fn found(bug: Bug) -> Option<Violation> {
    (1..=5).find_map(|seed| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .expect("a runtime can be made");
        let mut machine = Machine::new(seed);
        let outcome = runtime.block_on(history(&mut machine, bug));
        outcome.and_then(|()| check(&machine.recorder)).err()
    })
}

#[test]
fn every_misbehaving_store_is_found_out() {
    const ORDER: &str = "one order of revisions";
    const LINEAR: &str = "calls on a key are linearizable";
    const LIST: &str = "a list is one state";
    const RELIABLE: &str = "watches are reliable";
    let cases: &[(Bug, &[&str])] = &[
        (
            Bug::LosesAcknowledged,
            &[
                ORDER,
                "no acknowledged write is lost",
                RELIABLE,
                LINEAR,
                "a batch is all or nothing",
                "nothing is invented",
                "watches are resumable",
                "watches are atomic",
                "reads are fresh",
            ],
        ),
        (Bug::RefusesAndWrites, &["nothing is invented", LINEAR]),
        (Bug::ReusesRevision, &[ORDER]),
        (
            Bug::HalvesBatch,
            &[
                "a batch is all or nothing",
                "no acknowledged write is lost",
                "watches are atomic",
                RELIABLE,
            ],
        ),
        (Bug::IgnoresExpectation, &[LINEAR]),
        (Bug::ReadsStale, &[LINEAR]),
        (Bug::ListsStale, &["reads are fresh"]),
        (Bug::ListsInPart, &[LIST]),
        (Bug::PagesMove, &[LIST]),
        (
            Bug::DropsEvent,
            &[RELIABLE, "watches are atomic", "watches are resumable"],
        ),
        (Bug::RepeatsEvent, &["watches are unique"]),
        (Bug::SwapsEvents, &["watches are ordered"]),
        (
            Bug::ResumesLate,
            &["watches are resumable", "watches are atomic", RELIABLE],
        ),
        (Bug::SplitsRevision, &["watches are atomic"]),
        (
            Bug::PromisesEarly,
            &["watches are bookmarkable", "reads are fresh", ORDER],
        ),
        (Bug::TellsWrongKind, &["events are true"]),
    ];
    for (bug, promises) in cases {
        let began = tokio::time::Instant::now();
        let violation = found(*bug);
        println!("{:?} {bug:?}: {violation:?}", began.elapsed());
        let violation = violation.unwrap_or_else(|| unreachable!("{bug:?} is not found"));
        assert!(
            promises.contains(&violation.promise),
            "{bug:?}: {violation}"
        );
    }
}
