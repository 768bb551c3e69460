//! Stores that are created from given states, whole or not at all.

use super::*;
use crate::embedded::format::FORMAT_FILE;

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
    import::import_into(&disk, import, None).unwrap();
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
        assert!(import::import_into(&disk, import, None).is_err(), "{name}");
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
        import::import_into(&disk, import, None).is_err(),
        "over a store"
    );
}

#[test]
fn r02_a_crash_at_any_call_of_an_import_leaves_the_whole_store_or_none() {
    let start = Revision::in_epoch(101, 7_000_000).unwrap();
    let import = |disk: &SimulatedDirectory| {
        let import = Import {
            start,
            store_id: None,
            entries: (1..=40).map(|n| imported(&format!("/{n}"), n)).collect(),
        };
        import::import_into(disk, import, None)
    };
    let whole = SimulatedDirectory::default();
    import(&whole).unwrap();
    let calls = whole.calls();
    assert!(calls > 8, "{calls} calls");
    let (mut stores, mut refused) = (0, 0);
    for call in 0..=calls {
        let disk = SimulatedDirectory::default();
        disk.set_fault(Fault::StopAt(call));
        let done = import(&disk);
        for seed in 0..10 * soak() {
            let left = disk.after_crash(call * 1_000 + seed);
            let named = left.files().contains_key(FORMAT_FILE);
            match open_with(&left, small()) {
                Ok(engine) if engine.revision() == start => {
                    assert_eq!(
                        contents(&engine).len(),
                        40,
                        "stopped at {call}, seed {seed}"
                    );
                    stores += 1;
                }
                Ok(engine) => {
                    assert!(!named && done.is_err(), "stopped at {call}, seed {seed}");
                    assert!(
                        contents(&engine).is_empty(),
                        "stopped at {call}, seed {seed}"
                    );
                }
                Err(error) => {
                    assert!(
                        !named && done.is_err(),
                        "stopped at {call}, seed {seed}: {error}"
                    );
                    refused += 1;
                }
            }
        }
    }
    assert!(
        stores > 0 && refused > 0,
        "{stores} whole, {refused} refused"
    );
}
