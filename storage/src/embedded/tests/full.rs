//! A disk that fills up: writes are refused and nothing of them is kept, reads go on, and it recovers
//! without a restart.

use super::*;

fn refused(engine: &Engine, key: &str) -> bool {
    match engine.commit(vec![Write::put(key, vec![7; 3_000])]).wait() {
        Ok(_) => false,
        Err(Error::StorageFull { .. }) => true,
        Err(other) => unreachable!("{other:?}"),
    }
}

#[test]
fn a_full_disk_refuses_writes_keeps_nothing_of_them_and_recovers() {
    // Calls from 0 on: in the middle of a write, of a segment's preparation, of a manifest's replacement.
    for call in 0..40 {
        for background in [false, true] {
            let disk = SimulatedDirectory::default();
            disk.set_background(background);
            let engine = open(&disk);
            put(&engine, "/a", "kept");
            disk.set_fault(Fault::FullAt(disk.calls() + call));
            let mut accepted = vec!["/a".to_owned()];
            let mut number = 0;
            while number < 200 {
                number += 1;
                let key = format!("/{number}");
                if refused(&engine, &key) {
                    break;
                }
                accepted.push(key);
            }
            assert!(number < 200, "call {call}: the disk is never full");
            let keys = |engine: &Engine| {
                let mut keys: Vec<_> = contents(engine).into_iter().map(|(key, _)| key).collect();
                keys.sort();
                keys
            };
            accepted.sort();
            let revision = engine.revision();
            for _ in 0..3 {
                assert!(
                    refused(&engine, "/refused"),
                    "call {call}: it is full still"
                );
            }
            assert_eq!(keys(&engine), accepted, "call {call}: reads go on");
            assert!(
                engine.health().is_ok(),
                "call {call}: nothing is wrong with it"
            );
            assert_eq!(
                engine.revision(),
                revision,
                "call {call}: no revision was used"
            );
            // A crash now finds nothing of what was refused.
            let left = open_with(&disk.after_crash(call), small()).unwrap();
            assert_eq!(keys(&left), accepted, "call {call}: after a crash");
            drop(left);
            // And neither does one after space has come.
            disk.set_fault(Fault::None);
            assert!(!refused(&engine, "/next"), "call {call}: it recovers");
            accepted.push("/next".to_owned());
            accepted.sort();
            assert_eq!(
                keys(&engine),
                accepted,
                "call {call}: after it has recovered"
            );
            let left = open_with(&disk.after_crash(call), small()).unwrap();
            assert_eq!(keys(&left), accepted, "call {call}: after another crash");
        }
    }
}

#[test]
fn a_store_opens_on_a_full_disk_and_is_read_only() {
    let disk = SimulatedDirectory::default();
    let engine = open(&disk);
    put(&engine, "/a", "kept");
    drop(engine);
    disk.set_fault(Fault::FullAt(0));
    let engine = open(&disk);
    assert_eq!(contents(&engine).len(), 1);
    assert!(refused(&engine, "/b"));
    assert!(matches!(
        engine.compact(engine.revision()).wait(),
        Err(Error::StorageFull { .. })
    ));
    disk.set_fault(Fault::None);
    assert!(!refused(&engine, "/b"));
    engine.compact(engine.revision()).wait().unwrap();
}
