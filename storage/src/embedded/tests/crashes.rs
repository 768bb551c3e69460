//! A crash at every call that reaches the disk, with every kind of loss.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::conformance::simulated::Deed;

type State = BTreeMap<String, String>;

/// Batches that a history has: enough for several segments, and for sweeps of them.
const BATCHES: usize = 72;

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
                (n % 15 < 10 || k > 0).then(|| format!("{n} {}", "x".repeat(random.below(1_500)))),
            )
        })
        .collect()
}

/// What the store holds after each number of batches.
pub(super) fn states(count: usize) -> Vec<State> {
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
pub(super) fn play(engine: &Engine, first: usize, count: usize) -> usize {
    let mut acknowledged = first;
    for first in (first..count).step_by(4) {
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
pub(super) fn check(
    disk: &SimulatedDirectory,
    states: &[State],
    acknowledged: usize,
) -> Result<(), String> {
    let engine = open_with(disk, small()).map_err(|e| format!("{e}: {e:?}"))?;
    let batches = compare(&engine, states, acknowledged)?;
    put(&engine, "/next", "");
    drop(engine);
    // What the next start finds is the same, whatever the last one has tidied up.
    let engine = open_with(disk, small()).map_err(|e| format!("the second time: {e}"))?;
    let begin = Revision::start_of_epoch(Revision::EPOCH_FIRST).unwrap();
    if engine.revision().0 - begin.0 != batches as u64 + 1 {
        return Err(format!("the second time: {}", engine.revision()));
    }
    Ok(())
}

/// Compares a store with the workload, and returns how much of it there is.
pub(super) fn compare(
    engine: &Engine,
    states: &[State],
    acknowledged: usize,
) -> Result<usize, String> {
    let begin = Revision::start_of_epoch(Revision::EPOCH_FIRST).unwrap();
    let batches = usize::try_from(engine.revision().0 - begin.0).unwrap();
    if batches < acknowledged {
        return Err(format!(
            "{acknowledged} were acknowledged, {batches} are there"
        ));
    }
    // Every revision that can be read is as it was.
    for at in engine.compaction_floor().0..=engine.revision().0 {
        let number = usize::try_from(at - begin.0).unwrap();
        let want = states
            .get(number)
            .ok_or("there are more batches than were written")?;
        let range = RangeQuery::of(KeyRange::all()).at(Revision(at));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let entries = engine.range(range).map_err(|e| e.to_string())?.entries;
        let got: State = entries
            .iter()
            .map(|entry| (text(entry.key()), text(entry.value())))
            .collect();
        if &got != want {
            return Err(format!(
                "after {number} batches: want {want:?}, got {got:?}"
            ));
        }
    }
    Ok(batches)
}

/// Kinds of calls: what is done to which kind of file.
fn kinds(deeds: &[Deed]) -> BTreeSet<String> {
    deeds.iter().map(kind).collect()
}

fn kind(deed: &Deed) -> String {
    let name = match deed.name.rsplit_once('.') {
        Some((name, "0000")) if name.starts_with("log/") => "a segment",
        Some((name, _)) if name.starts_with("log/") => "a rewritten segment",
        _ => &deed.name,
    };
    format!("{} {name}", deed.call)
}

#[test]
fn r02_no_crash_loses_an_acknowledged_write_or_halves_a_batch() {
    let states = states(BATCHES);
    let disk = SimulatedDirectory::default();
    assert_eq!(play(&open(&disk), 0, BATCHES), BATCHES);
    let deeds = disk.deeds();
    check(&disk.after_crash(0), &states, BATCHES).unwrap();
    let all = kinds(&deeds);
    for needed in [
        "create a segment",
        "write a segment",
        "sync a segment",
        "create a rewritten segment",
        "write a rewritten segment",
        "sync a rewritten segment",
        "remove a segment",
        "rename MANIFEST",
        "rename FORMAT",
        "sync names log",
        "sync names ",
    ] {
        assert!(
            all.contains(needed),
            "the workload never does: {needed}; {all:?}"
        );
    }

    let (mut midway, mut hit) = (0, BTreeSet::new());
    let mut stop_at = |number: usize| {
        let call = number as u64;
        let disk = SimulatedDirectory::default();
        disk.set_fault(Fault::StopAt(call));
        // It may stop before it is open.
        let acknowledged = open_with(&disk, small()).map_or(0, |engine| play(&engine, 0, BATCHES));
        midway += usize::from(0 < acknowledged && acknowledged < BATCHES);
        for seed in 0..2 * soak() {
            let left = disk.after_crash(call * 1_000 + seed);
            let result = check(&left, &states, acknowledged);
            let of = deeds.len();
            assert_eq!(
                result,
                Ok(()),
                "stopped at call {call} of {of}, {:?}, seed {seed}",
                deeds[number]
            );
        }
        disk.deeds().get(number).map(kind)
    };
    for number in 0..deeds.len() {
        hit.extend(stop_at(number));
    }
    // How many commits meet in a group is up to the threads, and shifts the calls: a rare kind may need another try.
    for _ in 0..20 {
        for (number, deed) in deeds.iter().enumerate() {
            if !hit.contains(&kind(deed)) {
                hit.extend(stop_at(number));
            }
        }
    }
    assert!(
        midway > 50,
        "only {midway} of {} crashes hit the workload",
        deeds.len()
    );
    assert_eq!(hit, all, "a crash has hit every kind of call");
    println!(
        "{} calls of {} kinds, each stopped at",
        deeds.len(),
        all.len()
    );
}

/// A crash while a store recovers from a crash.
#[test]
fn r02_no_second_crash_loses_what_the_first_one_left() {
    let states = states(BATCHES);
    for seed in 0..20 * soak() {
        let mut random = Random::new(seed);
        let mut disk = SimulatedDirectory::default();
        let mut acknowledged = 0;
        for crash in 0..6 {
            let at = disk.calls() + random.below(120) as u64;
            disk.set_fault(Fault::StopAt(at));
            if let Ok(engine) = open_with(&disk, small()) {
                let there = compare(&engine, &states, acknowledged);
                let there =
                    there.unwrap_or_else(|e| unreachable!("seed {seed}, crash {crash}: {e}"));
                acknowledged = play(&engine, there, BATCHES);
            }
            disk = disk.after_crash(random.bits());
        }
        assert_eq!(check(&disk, &states, acknowledged), Ok(()), "seed {seed}");
    }
}

/// With the upkeep on its own thread, as in earnest; the order of calls is chance.
#[test]
fn r02_no_crash_loses_anything_while_another_thread_sweeps() {
    let states = states(BATCHES);
    let mut random = Random::new(5);
    for seed in 0..60 * soak() {
        let disk = SimulatedDirectory::default();
        disk.set_background(true);
        disk.set_fault(Fault::StopAt(random.below(400) as u64));
        let acknowledged = open_with(&disk, small()).map_or(0, |engine| play(&engine, 0, BATCHES));
        let result = check(&disk.after_crash(seed), &states, acknowledged);
        assert_eq!(result, Ok(()), "seed {seed}");
    }
}

/// The checker must be able to fail: here is the bug that it is for.
#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    let states = states(BATCHES);
    let mut found = 0;
    for seed in 0..10 {
        let fresh = SimulatedDirectory::default();
        drop(open(&fresh));
        let disk = SimulatedDirectory::with_files(fresh.files());
        disk.set_fault(Fault::Lie);
        let engine = open(&disk);
        let acknowledged = play(&engine, 0, BATCHES);
        found += usize::from(check(&disk.after_crash(seed), &states, acknowledged).is_err());
    }
    assert!(found >= 8, "only {found} of 10 lies were noticed");
}

#[test]
fn failing_syncs_never_take_back_what_was_acknowledged() {
    let states = states(BATCHES);
    let fresh = SimulatedDirectory::default();
    drop(open(&fresh));
    let mut ended = 0;
    for sync in 0..120 {
        let disk = SimulatedDirectory::with_files(fresh.files());
        disk.set_fault(Fault::FailSync(sync));
        let acknowledged = open_with(&disk, small()).map_or(0, |engine| play(&engine, 0, BATCHES));
        ended += usize::from(acknowledged < BATCHES);
        disk.set_fault(Fault::None);
        for seed in 0..3 {
            let result = check(&disk.after_crash(seed), &states, acknowledged);
            assert_eq!(result, Ok(()), "sync {sync} failed, seed {seed}");
        }
    }
    assert!(ended > 40, "only {ended} failed syncs hit the workload");
}
