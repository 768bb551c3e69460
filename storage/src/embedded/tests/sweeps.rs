//! Sweeps: the log stays small, and forgets nothing that is needed.

use super::*;

fn log_bytes(disk: &SimulatedDirectory) -> usize {
    let files = disk.files();
    let segments = files.iter().filter(|(name, _)| name.starts_with("log/"));
    segments.map(|(_, bytes)| bytes.len()).sum()
}

fn compact_all(engine: &Engine) {
    engine.compact(engine.revision()).wait().unwrap();
    wait_until("forgetting", || engine.statistics().history_events == 0);
}

#[test]
fn a_log_that_is_written_over_and_over_stays_small() {
    let disk = SimulatedDirectory::default();
    let engine = open(&disk);
    for round in 0..40 {
        for n in 0..25 {
            put(
                &engine,
                &format!("/{n}"),
                &format!("{round} {}", "v".repeat(800)),
            );
        }
        compact_all(&engine);
    }
    let all = contents(&engine);
    assert_eq!(all.len(), 25);
    // 25 states of some 2 KiB in frames, as much garbage, the active segment and the next one.
    assert!(log_bytes(&disk) < 200_000, "{} bytes", log_bytes(&disk));
    drop(engine);
    assert_eq!(contents(&open(&disk)), all);
}

/// Short-lived objects must not leave their deletions behind, not even beside one that lives for ever.
#[test]
fn deletions_do_not_pile_up() {
    let disk = SimulatedDirectory::default();
    let engine = open(&disk);
    for n in 0..12 {
        put(&engine, &format!("/lasting/{n}"), &"v".repeat(900));
    }
    for n in 0..1_200 {
        put(&engine, &format!("/passing/{n}"), &"v".repeat(500));
        engine
            .commit(vec![Write::delete(format!("/passing/{n}"))])
            .wait()
            .unwrap();
        if n % 40 == 0 {
            compact_all(&engine);
        }
    }
    compact_all(&engine);
    assert!(log_bytes(&disk) < 250_000, "{} bytes", log_bytes(&disk));
    drop(engine);
    assert_eq!(contents(&open(&disk)).len(), 12);
}

/// A key was put, deleted and put again; a sweep took the deletion for needless, because a later put was
/// known, and when that one was deleted in turn and gone, the first put was the latest that the log had.
#[test]
fn a_deletion_outlives_the_state_that_came_after_it() {
    let disk = SimulatedDirectory::default();
    let engine = open(&disk);
    put(&engine, "/k", "the first");
    let lasting =
        |engine: &Engine, n: usize| put(engine, &format!("/lasting/{n}"), &"v".repeat(900));
    let churn = |engine: &Engine| {
        for n in 0..120 {
            put(engine, "/churn", &format!("{n}{}", "c".repeat(700)));
        }
        compact_all(engine);
    };
    let delete = |engine: &Engine| engine.commit(vec![Write::delete("/k")]).wait().unwrap();
    for n in 0..5 {
        lasting(&engine, n);
    }
    delete(&engine);
    put(&engine, "/k", "the second");
    churn(&engine);
    delete(&engine);
    churn(&engine);
    churn(&engine);
    assert_eq!(engine.get(b"/k"), None);
    drop(engine);
    assert_eq!(open(&disk).get(b"/k"), None);
}

/// A deletion outlives the sweep of its segment while the put that it ended lies in an older one.
#[test]
fn what_is_deleted_never_rises_from_the_dead() {
    for seed in 0..20 * soak() {
        let mut random = Random::new(seed);
        let mut disk = SimulatedDirectory::default();
        let mut want = std::collections::BTreeMap::new();
        let mut engine = open(&disk);
        for _ in 0..600 {
            let key = format!("/{}", random.below(60));
            match random.below(108) {
                0..=54 => {
                    let value = random.bits().to_string().repeat(1 + random.below(30));
                    put(&engine, &key, &value);
                    want.insert(key, value);
                }
                55..=94 if want.remove(&key).is_some() => {
                    engine.commit(vec![Write::delete(key)]).wait().unwrap();
                }
                95..=97 | 100.. => compact_all(&engine),
                98 => {
                    drop(engine);
                    engine = open(&disk);
                }
                99 => {
                    disk = disk.after_crash(random.bits());
                    engine = open(&disk);
                }
                _ => {}
            }
        }
        drop(engine);
        let got: std::collections::BTreeMap<_, _> = contents(&open(&disk)).into_iter().collect();
        assert_eq!(got, want, "seed {seed}");
    }
}

#[test]
fn many_restarts_do_not_leave_many_segments() {
    let disk = SimulatedDirectory::default();
    for n in 0..60 {
        put(&open(&disk), &format!("/{n}"), "v");
    }
    let segments = disk
        .files()
        .keys()
        .filter(|name| name.starts_with("log/"))
        .count();
    assert!(segments < 12, "{segments} segments");
    assert_eq!(contents(&open(&disk)).len(), 60);
}

/// A sweep reads what the disk has, which may not be what it was given.
#[test]
fn a_sweep_that_finds_damage_ends_all_writing() {
    let disk = SimulatedDirectory::default();
    let engine = open(&disk);
    for n in 0..40 {
        put(&engine, &format!("/{}", n % 4), &"v".repeat(900));
    }
    let name = "log/0000000001.0000";
    let file = disk.open(name).unwrap();
    file.write(1_200, &[1, 2, 3]).unwrap();
    let compacted = engine.compact(engine.revision()).wait();
    assert!(compacted.is_ok(), "{compacted:?}");
    wait_until("the damage", || engine.health().is_err());
    assert!(matches!(engine.health(), Err(Error::Durability { .. })));
    assert_eq!(
        contents(&engine).len(),
        4,
        "memory is right, and reads go on"
    );
}
