//! Values that are sealed on disk and plain in memory.

use super::*;
use crate::check::check_files;
use crate::keyring::KeyId;

const OLD: &str = "old:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
const NEW: &str = "new:ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n";

fn sealing(keys: &str) -> Config {
    let keyring = Keyring::parse(keys).unwrap().covering("/secrets/");
    Config {
        keyring: Some(Arc::new(keyring)),
        ..small()
    }
}

fn shows(disk: &SimulatedDirectory, text: &str) -> bool {
    let shown = |bytes: &Vec<u8>| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    disk.files().values().any(shown)
}

#[test]
fn covered_values_are_plain_in_memory_alone() {
    let disk = SimulatedDirectory::default();
    let engine = open_with(&disk, sealing(OLD)).unwrap();
    put(&engine, "/secrets/a", "hunter2hunter2");
    put(&engine, "/maps/a", "anybody's");
    for n in 0..60 {
        put(&engine, &format!("/maps/{}", n % 3), &"v".repeat(700));
    }
    engine.compact(engine.revision()).wait().unwrap();
    let all = contents(&engine);
    wait_until("sweeping", || {
        disk.files().keys().any(|name| name.ends_with(".0001"))
    });
    drop(engine);
    assert!(
        !shows(&disk, "hunter2"),
        "it is sealed, in swept segments too"
    );
    assert!(shows(&disk, "/secrets/a"), "keys are not");
    assert_eq!(contents(&open_with(&disk, sealing(OLD)).unwrap()), all);
    for (name, config) in [
        ("without keys", small()),
        ("with another key", sealing(NEW)),
    ] {
        let refused = open_with(&disk, config);
        assert!(
            matches!(refused, Err(OpenError::Sealed { .. })),
            "{name}: {refused:?}"
        );
    }
}

/// Which keys have sealed something that lies on the disk, by the second reader, who has these keys.
fn sealed_by(disk: &SimulatedDirectory, keys: &str) -> Vec<KeyId> {
    let keyring = Keyring::parse(keys).unwrap();
    let (report, _) = check_files(&disk.files(), Some(&keyring)).unwrap();
    assert_eq!(report.findings, []);
    report.sealed.into_keys().collect()
}

fn id_of(keys: &str) -> KeyId {
    Keyring::parse(keys).unwrap().sealing_key()
}

/// Secrets that are current, superseded, deleted, and in history, over several segments.
fn store_of_secrets(keys: &str) -> (SimulatedDirectory, Vec<(String, String)>) {
    let disk = SimulatedDirectory::default();
    let engine = open_with(&disk, sealing(keys)).unwrap();
    for n in 0..40 {
        put(
            &engine,
            &format!("/secrets/{}", n % 9),
            &format!("hunter2 {n}"),
        );
        put(&engine, &format!("/maps/{n}"), &"v".repeat(500));
    }
    engine
        .commit(vec![Write::delete("/secrets/3")])
        .wait()
        .unwrap();
    engine
        .compact(Revision(engine.revision().0 - 30))
        .wait()
        .unwrap();
    let all = contents(&engine);
    drop(engine);
    (disk, all)
}

/// An old key was needed until everything that it had sealed happened to be rewritten: a sweep copied what it
/// kept as it was.
#[test]
fn the_next_start_seals_everything_with_the_first_key() {
    let (disk, all) = store_of_secrets(OLD);
    assert_eq!(sealed_by(&disk, OLD), [id_of(OLD)]);
    let both = format!("{NEW}{OLD}");
    let engine = open_with(&disk, sealing(&both)).unwrap();
    assert_eq!(contents(&engine), all);
    let (floor, revision) = (engine.compaction_floor(), engine.revision());
    // Upkeep is done within the calls of the simulated disk.
    drop(engine);
    assert_eq!(
        sealed_by(&disk, NEW),
        [id_of(NEW)],
        "the old key opens nothing"
    );
    let engine = open_with(&disk, sealing(NEW)).unwrap();
    assert_eq!(contents(&engine), all);
    assert_eq!(engine.compaction_floor(), floor);
    for at in floor.0..=revision.0 {
        let range = engine.range(RangeQuery::of(KeyRange::all()).at(Revision(at)));
        assert!(range.is_ok(), "history is kept: {range:?}");
    }
}

#[test]
fn a_store_that_was_plain_is_sealed_by_the_next_start() {
    let disk = SimulatedDirectory::default();
    let engine = open(&disk);
    for n in 0..30 {
        put(
            &engine,
            &format!("/secrets/{}", n % 4),
            &format!("hunter2 {n}"),
        );
        put(&engine, &format!("/maps/{n}"), &"v".repeat(500));
    }
    let all = contents(&engine);
    drop(engine);
    assert!(shows(&disk, "hunter2"));
    let engine = open_with(&disk, sealing(NEW)).unwrap();
    assert_eq!(contents(&engine), all);
    drop(engine);
    assert!(!shows(&disk, "hunter2"), "nothing of it is plain");
    let count = disk.calls();
    drop(open_with(&disk, sealing(NEW)).unwrap());
    let rewritten = disk.deeds().split_off(usize::try_from(count).unwrap());
    let rewritten = rewritten.iter().filter(|deed| {
        deed.name.starts_with("log/") && !deed.name.ends_with(".0000") && deed.call == "create"
    });
    assert_eq!(rewritten.count(), 0, "once is enough");
}

#[test]
fn r02_no_crash_while_a_key_is_replaced_loses_anything() {
    let (sealed, all) = store_of_secrets(OLD);
    let both = format!("{NEW}{OLD}");
    let trial = SimulatedDirectory::with_files(sealed.files());
    drop(open_with(&trial, sealing(&both)).unwrap());
    for call in 0..trial.calls() {
        let disk = SimulatedDirectory::with_files(sealed.files());
        disk.set_fault(Fault::StopAt(call));
        drop(open_with(&disk, sealing(&both)));
        let left = disk.after_crash(call);
        let engine = open_with(&left, sealing(&both)).unwrap();
        assert_eq!(contents(&engine), all, "stopped at call {call}");
        drop(engine);
        assert_eq!(
            sealed_by(&left, NEW),
            [id_of(NEW)],
            "stopped at call {call}"
        );
    }
}

#[test]
fn a_store_that_was_plain_is_sealed_by_writing() {
    let disk = SimulatedDirectory::default();
    put(&open(&disk), "/secrets/a", "hunter2");
    let engine = open_with(&disk, sealing(OLD)).unwrap();
    assert_eq!(contents(&engine)[0].1, "hunter2");
    put(&engine, "/secrets/a", "hunter3");
    assert!(!shows(&disk, "hunter3"));
    drop(engine);
    assert_eq!(
        contents(&open_with(&disk, sealing(OLD)).unwrap())[0].1,
        "hunter3"
    );
}
