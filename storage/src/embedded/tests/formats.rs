//! Upgrade from format 1, the way back with what was written since, and the second upgrade: nothing is
//! lost, whatever call a crash stops at.

use super::crashes::{compare, play, states};
use super::*;
use crate::embedded::format::{FORMAT_FILE, LOG_ONE_FILE};
use crate::view::Snapshot;

const BATCHES: usize = 48;

fn as_dyn(disk: &SimulatedDirectory) -> Arc<dyn Directory> {
    Arc::new(disk.clone())
}

/// A store of format 1 with the first batches of the workload, as the version before has left it.
fn first_format(batches: usize) -> SimulatedDirectory {
    let disk = SimulatedDirectory::default();
    let engine = open(&disk);
    assert_eq!(play(&engine, 0, batches), batches);
    drop(engine);
    convert::roll_back_on(&as_dyn(&disk), &small()).unwrap();
    assert_eq!(disk.files()[FORMAT_FILE], b"wheelhouse-store\nformat 1\n");
    let files: Vec<_> = disk.files().into_keys().collect();
    assert_eq!(files, [FORMAT_FILE, LOG_ONE_FILE], "nothing else is left");
    SimulatedDirectory::with_files(disk.files())
}

#[test]
fn what_is_written_between_two_upgrades_is_kept() {
    let states = states(BATCHES);
    let disk = first_format(16);
    let engine = open(&disk);
    compare(&engine, &states, 16).unwrap();
    let (floor, revision) = (engine.compaction_floor(), engine.revision());
    assert!(floor < revision, "history came along");
    assert_eq!(play(&engine, 16, 32), 32);
    drop(engine);
    convert::roll_back_on(&as_dyn(&disk), &small()).unwrap();
    let one: Snapshot = format_one::read(disk.open(LOG_ONE_FILE).unwrap()).unwrap();
    assert_eq!(
        one.revision.0,
        revision.0 + 16,
        "what was written since is in format 1"
    );
    let engine = open(&disk);
    compare(&engine, &states, 32).unwrap();
    assert_eq!(play(&engine, 32, BATCHES), BATCHES);
    compare(&engine, &states, BATCHES).unwrap();
}

#[test]
fn the_log_of_format_1_is_kept_until_the_first_sweep() {
    let disk = first_format(16);
    let engine = open(&disk);
    let has = |name: &str| disk.files().contains_key(name);
    assert!(has("log.redb.format-1") && !has(LOG_ONE_FILE));
    assert_eq!(play(&engine, 16, BATCHES), BATCHES);
    engine.compact(engine.revision()).wait().unwrap();
    wait_until("a sweep", || !has("log.redb.format-1"));
}

/// Stops at each call of what is done to a directory, and at each compares what is left.
fn stop_at_every_call(
    begin: &SimulatedDirectory,
    act: impl Fn(&SimulatedDirectory) -> bool,
    acknowledged: usize,
) -> usize {
    let states = states(BATCHES);
    let whole = SimulatedDirectory::with_files(begin.files());
    assert!(act(&whole), "it works undisturbed");
    let calls = whole.calls();
    for call in 0..calls {
        let disk = SimulatedDirectory::with_files(begin.files());
        disk.set_fault(Fault::StopAt(call));
        act(&disk);
        for seed in 0..3 * soak() {
            let left = disk.after_crash(call * 1_000 + seed);
            let again = SimulatedDirectory::with_files(left.files());
            // The next start goes forward.
            let engine = open_with(&left, small())
                .unwrap_or_else(|e| unreachable!("stopped at {call}, seed {seed}: {e}: {e:?}"));
            let result = compare(&engine, &states, acknowledged);
            assert_eq!(result, Ok(acknowledged), "stopped at {call}, seed {seed}");
            assert_eq!(
                play(&engine, acknowledged, acknowledged + 4),
                acknowledged + 4
            );
            drop(engine);
            // Or the way back is tried again.
            convert::roll_back_on(&as_dyn(&again), &small())
                .unwrap_or_else(|e| unreachable!("back from {call}, seed {seed}: {e}"));
            let engine = open(&again);
            let result = compare(&engine, &states, acknowledged);
            assert_eq!(result, Ok(acknowledged), "back from {call}, seed {seed}");
        }
    }
    usize::try_from(calls).unwrap()
}

#[test]
fn r02_a_crash_at_any_call_of_an_upgrade_loses_nothing() {
    let begin = first_format(20);
    let upgrade = |disk: &SimulatedDirectory| open_with(disk, small()).is_ok();
    let calls = stop_at_every_call(&begin, upgrade, 20);
    assert!(calls > 20, "{calls} calls");
}

#[test]
fn r02_a_crash_at_any_call_of_the_way_back_loses_nothing() {
    let begin = SimulatedDirectory::default();
    assert_eq!(play(&open(&begin), 0, 20), 20);
    let begin = SimulatedDirectory::with_files(begin.files());
    let back = |disk: &SimulatedDirectory| convert::roll_back_on(&as_dyn(disk), &small()).is_ok();
    let calls = stop_at_every_call(&begin, back, 20);
    assert!(calls > 30, "{calls} calls");
}

#[test]
fn a_directory_of_the_file_system_goes_forward_and_back_too() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Engine::open(directory.path(), Config::default()).unwrap();
    put(&open(), "/a", "1");
    for round in 0..3 {
        rollback(directory.path(), &Config::default()).unwrap();
        assert!(directory.path().join(LOG_ONE_FILE).exists());
        let engine = open();
        assert_eq!(contents(&engine).len(), 1 + round);
        put(&engine, &format!("/{round}"), "");
        let locked = rollback(directory.path(), &Config::default());
        assert!(
            matches!(locked, Err(OpenError::Locked { .. })),
            "{locked:?}"
        );
    }
}

fn imported(key: &str, modified: u64) -> Imported {
    let start = Revision::start_of_epoch(100).unwrap();
    Imported {
        key: key.into(),
        value: format!("value of {key}").into(),
        created: Revision(start.0 + 1),
        modified: Revision(start.0 + modified),
        tag: modified,
    }
}

#[test]
fn an_import_is_a_store_that_begins_where_it_was_told_to() {
    let disk = SimulatedDirectory::default();
    let start = Revision::in_epoch(101, 7_000_000).unwrap();
    let import = Import {
        start,
        store_id: None,
        entries: vec![imported("/b", 9), imported("/a", 9), imported("/c", 4)],
    };
    convert::import_into(&disk, import, None).unwrap();
    let engine = open(&disk);
    assert_eq!(
        (engine.revision(), engine.compaction_floor()),
        (start, start)
    );
    let entry = engine.get(b"/a").unwrap();
    assert_eq!((entry.value(), entry.tag()), (b"value of /a".as_slice(), 9));
    assert_eq!(entry.modified().number(), 9);
    assert_eq!(contents(&engine).len(), 3);
    assert_eq!(put(&engine, "/a", "new"), start.next());
    engine.compact(engine.revision()).wait().unwrap();
    drop(engine);
    assert_eq!(contents(&open(&disk))[0].1, "new");
}

#[test]
fn an_import_that_makes_no_sense_makes_no_store() {
    for (name, epoch, entries) in [
        (
            "a key twice",
            101,
            vec![imported("/a", 1), imported("/a", 2)],
        ),
        ("a revision of the future", 100, vec![imported("/a", 1)]),
        ("no epoch", 5, Vec::new()),
    ] {
        let disk = SimulatedDirectory::default();
        let import = Import {
            start: Revision(epoch * 10_000_000_000_000),
            store_id: None,
            entries,
        };
        assert!(convert::import_into(&disk, import, None).is_err(), "{name}");
        assert!(!disk.files().contains_key(FORMAT_FILE), "{name}");
    }
    let disk = SimulatedDirectory::default();
    drop(open(&disk));
    let import = Import {
        start: Revision::start_of_epoch(101).unwrap(),
        store_id: None,
        entries: Vec::new(),
    };
    assert!(
        convert::import_into(&disk, import, None).is_err(),
        "over a store"
    );
}
