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
fn a_checkpoint_reads_back_and_notices_every_bit() {
    let checkpoint = Checkpoint {
        revision: Revision(start() + 9),
        floor: Revision(start()),
        count: 3,
        digest: 7,
    };
    let bytes = checkpoint.encode();
    assert_eq!(Checkpoint::decode(&bytes), Some(checkpoint));
    for bit in 0..checkpoint::CHECKPOINT_BYTES * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Checkpoint::decode(&flipped), None, "bit {bit}");
    }
    assert_eq!(Checkpoint::decode(&bytes[1..]), None, "too short");
}

/// A log of these rows, with a checkpoint over the first `covered` revisions.
fn log_of(rows: &[Entry], floor: u64, covered: u64) -> (SimulatedDisk, Log) {
    let disk = SimulatedDisk::default();
    let mut log = Log::create(Box::new(disk.clone()), Revision::EPOCH_FIRST).unwrap();
    let at = |number| Revision(start() + number);
    let (before, behind) = rows.split_at(rows.partition_point(|row| row.modified() <= at(covered)));
    log.append(before).unwrap();
    log.finish(at(floor.min(covered)), at(covered)).unwrap();
    for row in behind.chunk_by(|a, b| a.modified() == b.modified()) {
        log.append(row).unwrap();
    }
    (disk, log)
}

#[test]
fn a_log_reads_back_what_was_appended() {
    let rows = [
        one(Op::Put, "a", 1),
        one(Op::Put, "b", 2),
        entry(Op::Put, "a", 3, (0, 2)),
        entry(Op::Delete, "b", 3, (1, 2)),
    ];
    for covered in 0..=3 {
        let (disk, log) = log_of(&rows, 0, covered);
        drop(log);
        let snapshot = read(Box::new(disk)).unwrap();
        assert_eq!(keys(&snapshot.changes), ["a", "b", "a", "b"]);
        assert_eq!(snapshot.base.len(), 0);
        assert_eq!(snapshot.revision, Revision(start() + 3));
    }
}

/// A crash between the floor and the deletion of its rows has left some that nobody remembers.
#[test]
fn garbage_below_the_floor_is_found_again() {
    let rows = [
        one(Op::Put, "a", 1),
        one(Op::Put, "a", 2),
        one(Op::Put, "gone", 3),
        one(Op::Delete, "gone", 4),
        one(Op::Put, "b", 5),
        one(Op::Put, "b", 6),
    ];
    let (disk, log) = log_of(&rows, 5, 6);
    drop(log);
    let (snapshot, mut garbage) = Log::open(Box::new(disk)).unwrap().scan().unwrap();
    assert_eq!(keys(&snapshot.base), ["a", "b"]);
    assert_eq!(keys(&snapshot.changes), ["b"]);
    garbage.sort_by_key(|row| row.revision);
    let needless = [Row::of(&rows[0]), Row::of(&rows[2]), Row::of(&rows[3])];
    assert_eq!(garbage, needless);
}

#[test]
fn what_is_written_is_what_is_read() {
    let rows = [
        one(Op::Put, "z", 1),
        one(Op::Put, "a", 2),
        one(Op::Delete, "z", 3),
    ];
    for floor in 0..=3 {
        let (disk, log) = log_of(&rows, floor, 3);
        drop(log);
        let snapshot = read(Box::new(disk)).unwrap();
        let copy = SimulatedDisk::default();
        write(Box::new(copy.clone()), &snapshot).unwrap();
        let again = read(Box::new(copy)).unwrap();
        assert_eq!(again.base, snapshot.base, "floor {floor}");
        assert_eq!(again.changes, snapshot.changes, "floor {floor}");
        assert_eq!(
            (again.floor, again.revision),
            (snapshot.floor, snapshot.revision)
        );
    }
}

type Rows<'txn> = redb::Table<'txn, &'static [u8; ROW_KEY_BYTES], &'static [u8]>;

fn remove(rows: &mut Rows<'_>, entry: &Entry) {
    rows.remove(&Row::of(entry).key()).unwrap();
}

fn insert(rows: &mut Rows<'_>, at: &Entry, entry: &Entry) {
    rows.insert(&Row::of(at).key(), entry.record()).unwrap();
}

type Plant = fn(&mut Rows<'_>, &[Entry]);

/// What a scan says of a log with four rows, of which the checkpoint covers the first `covered`
/// revisions, after something was done to its rows.
fn scanned_after(plant: Plant, covered: u64) -> Result<Vec<String>, OpenError> {
    let all = [
        one(Op::Put, "a", 1),
        one(Op::Put, "b", 2),
        entry(Op::Put, "c", 3, (0, 2)),
        entry(Op::Put, "d", 3, (1, 2)),
    ];
    let (disk, log) = log_of(&all, 1, covered);
    let transaction = log.database.begin_write().unwrap();
    plant(&mut transaction.open_table(LOG).unwrap(), &all);
    transaction.commit().unwrap();
    drop(log);
    let (snapshot, _) = Log::open(Box::new(disk)).and_then(|mut log| log.scan())?;
    Ok([keys(&snapshot.base), keys(&snapshot.changes)].concat())
}

#[test]
fn rows_that_do_not_belong_together_are_noticed() {
    let cases: [(&str, Plant); 6] = [
        ("the first row is gone", |rows, all| remove(rows, &all[0])),
        ("a row in between is gone", |rows, all| {
            remove(rows, &all[1]);
        }),
        ("a batch is halved", |rows, all| remove(rows, &all[3])),
        ("a row has another's record", |rows, all| {
            insert(rows, &all[0], &all[1]);
        }),
        ("a row too many", |rows, _| {
            let extra = entry(Op::Put, "e", 2, (1, 2));
            insert(rows, &extra, &extra);
        }),
        ("a record that is cut", |rows, all| {
            let row = Row::of(&all[0]).key();
            rows.insert(&row, &all[0].record()[..30]).unwrap();
        }),
    ];
    for covered in 0..=3 {
        let whole = scanned_after(|_, _| {}, covered).unwrap();
        assert_eq!(whole, ["a", "b", "c", "d"], "covered up to {covered}");
        for (name, plant) in cases {
            let result = scanned_after(plant, covered);
            let noticed = matches!(result, Err(OpenError::Corrupt { .. }));
            assert!(noticed, "{name}, covered up to {covered}: {result:?}");
        }
    }
}

/// Rows behind the checkpoint are held together by their numbers alone.
#[test]
fn what_a_checkpoint_covers_cannot_be_exchanged() {
    let plant: Plant = |rows, all| insert(rows, &all[1], &one(Op::Put, "other", 2));
    for covered in 2..=3 {
        let result = scanned_after(plant, covered);
        assert!(
            matches!(result, Err(OpenError::Corrupt { .. })),
            "{covered}: {result:?}"
        );
    }
}

#[test]
fn a_lost_checkpoint_is_noticed() {
    let disk = SimulatedDisk::default();
    let log = Log::create(Box::new(disk.clone()), Revision::EPOCH_FIRST).unwrap();
    let transaction = log.database.begin_write().unwrap();
    transaction
        .open_table(META)
        .unwrap()
        .remove(CHECKPOINT_KEY)
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
    let log = Log::create(Box::new(disk.clone()), Revision::EPOCH_FIRST).unwrap();
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
