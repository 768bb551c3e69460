//! A crash at every call that reaches the disk, with every kind of loss.

use std::collections::BTreeMap;

use super::*;

type State = BTreeMap<String, String>;

/// Batch `n` of the workload: one to three keys, so that a half batch would show.
fn batch(n: usize) -> Vec<(String, Option<String>)> {
    let mut random = Random::new(n as u64);
    let size = 1 + random.below(3);
    let key = |k| format!("/{}/{k}", n % 5);
    (0..size)
        // The third batch on a prefix takes away what the first has put there.
        .map(|k| {
            (
                key(k),
                (n % 15 < 10 || k > 0).then(|| format!("{n} {}", "x".repeat(random.below(600)))),
            )
        })
        .collect()
}

/// What the store holds after each number of batches.
fn states(count: usize) -> Vec<State> {
    let mut states = vec![State::new()];
    for n in 0..count {
        let mut state = states[n].clone();
        for (key, value) in batch(n) {
            match value {
                Some(value) => state.insert(key, value),
                None => state.remove(&key),
            };
        }
        states.push(state);
    }
    states
}

/// Hands the workload over, a few batches at a time, and counts the acknowledged ones.
fn play(engine: &Engine, count: usize) -> usize {
    let mut acknowledged = 0;
    for first in (0..count).step_by(4) {
        let answers: Vec<_> = (first..count.min(first + 4))
            .map(|n| {
                let write = |(key, value): (String, Option<String>)| match value {
                    Some(value) => Write::put(key, value),
                    None => Write::delete(key),
                };
                engine.commit(batch(n).into_iter().map(write).collect())
            })
            .collect();
        for answer in answers {
            match answer.wait() {
                Ok(_) => acknowledged += 1,
                Err(Error::Durability { .. }) => return acknowledged,
                Err(other) => unreachable!("{other:?}"),
            }
        }
        if first % 16 == 8
            && engine
                .compact(Revision(engine.revision().0 - 3))
                .wait()
                .is_err()
        {
            return acknowledged;
        }
    }
    acknowledged
}

/// Opens what a crash left, and compares it with the workload. Returns the violation.
fn check(disk: &SimulatedDisk, states: &[State], acknowledged: usize) -> Result<(), String> {
    let config = Config::default();
    let engine = Engine::open_on(Box::new(disk.clone()), config).map_err(|e| e.to_string())?;
    let begin = Revision::start_of_epoch(Revision::EPOCH_FIRST).unwrap();
    let batches = usize::try_from(engine.revision().0 - begin.0).unwrap();
    if batches < acknowledged {
        return Err(format!(
            "{acknowledged} were acknowledged, {batches} are there"
        ));
    }
    let want = states
        .get(batches)
        .ok_or("there are more batches than were written")?;
    let got: State = contents(&engine).into_iter().collect();
    if &got != want {
        return Err(format!(
            "after {batches} batches: want {want:?}, got {got:?}"
        ));
    }
    put(&engine, "/next", "");
    Ok(())
}

#[test]
fn no_crash_loses_an_acknowledged_write_or_halves_a_batch() {
    const BATCHES: usize = 40;
    let states = states(BATCHES);
    let fresh = SimulatedDisk::default();
    drop(open(&fresh));
    let image = fresh.bytes();

    let disk = SimulatedDisk::with_bytes(image.clone());
    assert_eq!(play(&open(&disk), BATCHES), BATCHES);
    let calls = disk.calls();
    check(&disk.after_crash(0), &states, BATCHES).unwrap();

    let mut midway = 0;
    for call in 0..calls {
        let disk = SimulatedDisk::with_bytes(image.clone());
        disk.set_fault(Fault::StopAt(call));
        // It may stop before it is open.
        let acknowledged = Engine::open_on(Box::new(disk.clone()), Config::default())
            .map_or(0, |engine| play(&engine, BATCHES));
        midway += usize::from(0 < acknowledged && acknowledged < BATCHES);
        for seed in 0..3 {
            let left = disk.after_crash(call * 3 + seed);
            let result = check(&left, &states, acknowledged);
            assert_eq!(
                result,
                Ok(()),
                "stopped at call {call} of {calls}, seed {seed}"
            );
        }
    }
    assert!(
        midway > 50,
        "only {midway} of {calls} crashes hit the workload"
    );
}

/// The checker must be able to fail: here is the bug that it is for.
#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    const BATCHES: usize = 40;
    let states = states(BATCHES);
    let mut found = 0;
    for seed in 0..10 {
        let fresh = SimulatedDisk::default();
        drop(open(&fresh));
        let disk = SimulatedDisk::with_bytes(fresh.bytes());
        disk.set_fault(Fault::Lie);
        let engine = open(&disk);
        let acknowledged = play(&engine, BATCHES);
        found += usize::from(check(&disk.after_crash(seed), &states, acknowledged).is_err());
    }
    assert!(found >= 8, "only {found} of 10 lies were noticed");
}

#[test]
fn failing_syncs_never_take_back_what_was_acknowledged() {
    const BATCHES: usize = 24;
    let states = states(BATCHES);
    let fresh = SimulatedDisk::default();
    drop(open(&fresh));
    for sync in 0..30 {
        let disk = SimulatedDisk::with_bytes(fresh.bytes());
        let engine = open(&disk);
        disk.set_fault(Fault::FailSync(sync));
        let acknowledged = play(&engine, BATCHES);
        disk.set_fault(Fault::None);
        drop(engine);
        for seed in 0..3 {
            let result = check(&disk.after_crash(seed), &states, acknowledged);
            assert_eq!(result, Ok(()), "sync {sync} failed, seed {seed}");
        }
    }
}
