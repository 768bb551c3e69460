#![expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test may panic"
)]

use super::*;
use crate::embedded::simulated::SimulatedDisk;
use crate::entry::{Draft, Op, Seal};

fn start() -> u64 {
    Revision::start_of_epoch(Revision::EPOCH_FIRST).unwrap().0
}

fn entry(op: Op, key: &str, number: u64, (index, count): (u32, u32)) -> Entry {
    let revision = Revision(start() + number);
    let draft = Draft::new(op, key.as_bytes(), b"value", None);
    draft.seal(Seal {
        revision,
        created: revision,
        tag: 0,
        index,
        count,
    })
}

fn one(op: Op, key: &str, number: u64) -> Entry {
    entry(op, key, number, (0, 1))
}

fn keys(entries: &[Entry]) -> Vec<String> {
    let text = |entry: &Entry| String::from_utf8_lossy(entry.key()).into_owned();
    entries.iter().map(text).collect()
}

#[test]
fn a_tail_reads_back_and_notices_every_bit() {
    let tail = Tail {
        revision: Revision(start() + 9),
        floor: Revision(start()),
        count: 3,
        digest: 7,
    };
    let bytes = tail.encode();
    assert_eq!(Tail::decode(&bytes), Some(tail));
    for bit in 0..TAIL_BYTES * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Tail::decode(&flipped), None, "bit {bit}");
    }
    assert_eq!(Tail::decode(&bytes[1..]), None, "too short");
}

#[test]
fn a_log_reads_back_what_was_appended() {
    let disk = SimulatedDisk::default();
    let mut log = Log::create(Box::new(disk.clone())).unwrap();
    log.append(&[one(Op::Put, "a", 1), one(Op::Put, "b", 2)], &[])
        .unwrap();
    log.append(
        &[
            entry(Op::Put, "a", 3, (0, 2)),
            entry(Op::Delete, "b", 3, (1, 2)),
        ],
        &[],
    )
    .unwrap();
    drop(log);
    let (snapshot, garbage) = Log::open(Box::new(disk)).unwrap().scan().unwrap();
    assert_eq!(keys(&snapshot.changes), ["a", "b", "a", "b"]);
    assert_eq!((snapshot.base.len(), garbage.len()), (0, 0));
    assert_eq!(snapshot.revision, Revision(start() + 3));
}

/// A crash between the floor and the sweep leaves rows that nobody remembers.
#[test]
fn garbage_below_the_floor_is_found_again() {
    let disk = SimulatedDisk::default();
    let mut log = Log::create(Box::new(disk.clone())).unwrap();
    let rows = [
        one(Op::Put, "a", 1),
        one(Op::Put, "a", 2),
        one(Op::Put, "gone", 3),
        one(Op::Delete, "gone", 4),
        one(Op::Put, "b", 5),
        one(Op::Put, "b", 6),
    ];
    log.append(&rows, &[]).unwrap();
    log.raise_floor(Revision(start() + 5)).unwrap();
    drop(log);
    let mut log = Log::open(Box::new(disk.clone())).unwrap();
    let (snapshot, mut garbage) = log.scan().unwrap();
    assert_eq!(keys(&snapshot.base), ["a", "b"]);
    assert_eq!(keys(&snapshot.changes), ["b"]);
    garbage.sort_by_key(|row| row.revision);
    assert_eq!(
        garbage,
        [Row::of(&rows[0]), Row::of(&rows[2]), Row::of(&rows[3])]
    );
    log.append(&[], &garbage).unwrap();
    drop(log);
    let (swept, none) = Log::open(Box::new(disk)).unwrap().scan().unwrap();
    assert_eq!(
        (keys(&swept.base), none),
        (keys(&snapshot.base), Vec::new())
    );
}

type Rows<'txn> = redb::Table<'txn, &'static [u8; ROW_KEY_BYTES], &'static [u8]>;

fn remove(rows: &mut Rows<'_>, entry: &Entry) {
    rows.remove(&Row::of(entry).key()).unwrap();
}

fn insert(rows: &mut Rows<'_>, at: &Entry, entry: &Entry) {
    rows.insert(&Row::of(at).key(), entry.record()).unwrap();
}

#[test]
fn rows_that_do_not_belong_together_are_noticed() {
    type Plant = fn(&mut Rows<'_>, &[Entry]);
    let cases: [(&str, Plant); 6] = [
        ("a row is gone", |rows, all| remove(rows, &all[0])),
        ("a batch is halved", |rows, all| remove(rows, &all[3])),
        ("a row has another's record", |rows, all| {
            insert(rows, &all[0], &all[1]);
        }),
        ("a row too many", |rows, _| {
            let extra = one(Op::Put, "e", 4);
            insert(rows, &extra, &extra);
        }),
        ("another state in the place of one", |rows, all| {
            let other = one(Op::Put, "a, but another", 1);
            insert(rows, &all[0], &other);
        }),
        ("a record that is cut", |rows, all| {
            rows.insert(&Row::of(&all[0]).key(), &all[0].record()[..30])
                .unwrap();
        }),
    ];
    let all = [
        one(Op::Put, "a", 1),
        one(Op::Put, "b", 2),
        entry(Op::Put, "c", 3, (0, 2)),
        entry(Op::Put, "d", 3, (1, 2)),
    ];
    for (name, plant) in cases {
        let disk = SimulatedDisk::default();
        let mut log = Log::create(Box::new(disk.clone())).unwrap();
        log.append(&all, &[]).unwrap();
        let transaction = log.database.begin_write().unwrap();
        plant(&mut transaction.open_table(LOG).unwrap(), &all);
        transaction.commit().unwrap();
        drop(log);
        let result = Log::open(Box::new(disk)).and_then(|log| log.scan());
        assert!(
            matches!(result, Err(OpenError::Corrupt { .. })),
            "{name}: {result:?}"
        );
    }
}

#[test]
fn a_lost_tail_is_noticed() {
    let disk = SimulatedDisk::default();
    let log = Log::create(Box::new(disk.clone())).unwrap();
    let transaction = log.database.begin_write().unwrap();
    transaction
        .open_table(META)
        .unwrap()
        .remove(TAIL_KEY)
        .unwrap();
    transaction.commit().unwrap();
    drop(log);
    let result = Log::open(Box::new(disk));
    assert!(
        matches!(result, Err(OpenError::Corrupt { .. })),
        "{result:?}"
    );
}

#[test]
fn a_format_of_the_future_inside_the_log_is_refused_too() {
    let disk = SimulatedDisk::default();
    let log = Log::create(Box::new(disk.clone())).unwrap();
    let transaction = log.database.begin_write().unwrap();
    let newer = (FORMAT + 1).to_le_bytes();
    transaction
        .open_table(META)
        .unwrap()
        .insert(FORMAT_KEY, newer.as_slice())
        .unwrap();
    transaction.commit().unwrap();
    drop(log);
    let result = Log::open(Box::new(disk));
    assert!(
        matches!(result, Err(OpenError::NewerFormat { .. })),
        "{result:?}"
    );
}
