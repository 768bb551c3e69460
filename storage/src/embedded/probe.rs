//! What fuzzing calls: each takes any bytes, and none may panic. Where the bytes are something, what is read is laid out
//! again and has to be the same, and the second reader of `store check` has to agree.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use super::codec::{
    self, FrameBuilder, Look, Manifest, Place, SECTOR_BYTES, Sealed, Tally, decode_any_header,
    from_disk, look, mend_frames, mend_header, mend_manifest, parse_segment_name, segment_name,
};
use super::disk::{Directory, read_up_to};
use super::format;
use super::log::{Log, MANIFEST_FILE, Options, Sizes, read_snapshot};
use crate::check;
use crate::clock::SystemClock;
use crate::error::OpenError;
use crate::key::KeyRange;
use crate::metrics::Metrics;
use crate::revision::Revision;
use crate::store::RangeQuery;
use crate::view::{Snapshot, View};

/// Reads bytes as a manifest.
pub fn manifest(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(manifest.encode(), bytes, "a manifest has one layout");
        assert!(check::reads_manifest(bytes), "the second reader reads it");
    }
}

/// Reads bytes as a segment: its header, and every frame at every sector.
pub fn segment(bytes: &[u8]) {
    let place = decode_any_header(bytes).unwrap_or(Place {
        store: [0; 16],
        number: 1,
        generation: 0,
    });
    let mut builder = FrameBuilder::default();
    for position in (0..bytes.len()).step_by(SECTOR_BYTES) {
        let Look::Frame(frame) = look(bytes, position, &place) else {
            continue;
        };
        let mut is_whole = true;
        builder.clear();
        for record in frame.records() {
            let Ok(record) = record else {
                is_whole = false;
                break;
            };
            builder.push(record);
            self::record(record);
        }
        // What a writer would lay out is what stands there.
        if is_whole && builder.tally() == (frame.count, frame.digest) {
            let again = builder.finish(&place, position, frame.facts);
            assert_eq!(
                Some(again),
                bytes.get(position..frame.end),
                "a frame has one layout"
            );
        }
    }
}

/// Reads bytes as a record.
pub fn record(bytes: &[u8]) {
    if let Ok(entry) = from_disk(bytes, None) {
        assert_eq!(entry.record(), bytes, "a record has one layout");
    }
}

/// The first record in a segment, as it lies there.
pub fn first_record(bytes: &[u8]) -> Option<Vec<u8>> {
    let place = decode_any_header(bytes)?;
    let Look::Frame(frame) = look(bytes, SECTOR_BYTES, &place) else {
        return None;
    };
    frame.records().next()?.ok().map(<[u8]>::to_vec)
}

/// Reads text as the small files and names of a directory.
pub fn text(text: &str) {
    if let Some((number, generation)) = parse_segment_name(text) {
        assert_eq!(segment_name(number, generation), text, "one name each");
    }
    format::parse(text.as_bytes());
}

/// Makes the checksums of bytes right that look like a segment, so that fuzzing gets behind them.
pub fn mend(bytes: &mut [u8]) {
    mend_header(bytes);
    mend_frames(bytes);
}

/// Makes the checksum of bytes right that look like a manifest.
pub fn mend_checksum(bytes: &mut [u8]) {
    mend_manifest(bytes);
}

/// Reads bytes as the one segment of a log: whether it is refused, and what it holds, both readers say the same. What
/// is taken is opened as a start opens it, and the next start finds the same. `directory` makes a directory of files.
pub fn log(bytes: &[u8], directory: impl FnOnce(BTreeMap<String, Vec<u8>>) -> Arc<dyn Directory>) {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES), 0);
    mend(&mut bytes);
    let Some(place) = decode_any_header(&bytes).filter(|place| place.number > 0) else {
        return;
    };
    let manifest = manifest_of(&bytes, &place).encode();
    if Manifest::decode(&manifest).is_err() {
        return;
    }
    let files = BTreeMap::from([
        (MANIFEST_FILE.to_owned(), manifest),
        (segment_name(place.number, place.generation), bytes),
    ]);
    let directory = directory(files.clone());
    let read = read_snapshot(&*directory, None);
    let checked = check::check_files(&files, None);
    let snapshot = match (read, checked) {
        (Ok(snapshot), Ok((report, states))) => {
            assert_eq!(report.findings, [], "the engine takes it");
            assert_eq!(
                (report.floor, report.revision),
                (snapshot.floor, snapshot.revision),
                "the same numbers"
            );
            let view = View::new(copy_of(&snapshot), None);
            let range = view.range(&RangeQuery::of(KeyRange::all()));
            let entries = range.expect("the latest revision is kept").entries;
            let others = entries.iter().map(|entry| {
                let (modified, created) = (entry.modified(), entry.created());
                (entry.key(), modified, created, entry.tag(), entry.value())
            });
            assert_eq!(states.compare(others), [], "the same states");
            snapshot
        }
        (Err(OpenError::Corrupt { place, reason }), Ok((report, _))) => {
            assert!(
                !report.is_sound(),
                "the engine refuses it ({place}: {reason}), the second reader finds nothing"
            );
            return;
        }
        // Sealed records, and no keys.
        (Err(_), Err(_)) => return,
        (read, checked) => {
            let (read, checked) = (read.map(|_| ()), checked.map(|(report, _)| report));
            unreachable!("the engine says {read:?}, the second reader {checked:?}")
        }
    };
    open_twice(&directory, &snapshot);
}

fn open_twice(directory: &Arc<dyn Directory>, snapshot: &Snapshot) {
    let options = Options {
        sizes: Sizes {
            first: 4096,
            max: 4096,
        },
        keyring: None,
        clock: Arc::new(SystemClock::default()),
        metrics: Metrics::default(),
    };
    for closed in [false, true] {
        let opened = Log::open(Arc::clone(directory), options.clone());
        let (mut log, found) = match opened {
            Ok(opened) => opened,
            // The numbers of segments and sequences have an end, which no store lives to see.
            Err(OpenError::Corrupt { .. }) if !closed => return,
            Err(error) => unreachable!("it could be read, and cannot be opened: {error}"),
        };
        assert_eq!(found.base, snapshot.base, "the states at the floor");
        assert_eq!(found.changes, snapshot.changes, "the history");
        let numbers = |snapshot: &Snapshot| (snapshot.floor, snapshot.revision);
        assert_eq!(numbers(&found), numbers(snapshot), "floor and revision");
        if closed {
            log.close().expect("nothing fails here");
        }
    }
}

/// A manifest under which a segment is a log: the active segment, or a sealed one where it was rewritten.
fn manifest_of(bytes: &[u8], place: &Place) -> Manifest {
    let mut tally = Tally::empty(0, Revision(0));
    let mut floor = Revision(0);
    let mut position = SECTOR_BYTES;
    while let Look::Frame(frame) = look(bytes, position, place) {
        if tally.frames == 0 {
            floor = frame.facts.floor;
            tally = Tally::empty(frame.facts.previous, Revision(0));
        }
        tally.end = u32::try_from(frame.end).unwrap_or(u32::MAX);
        tally.frames = tally.frames.saturating_add(1);
        tally.count = tally.count.saturating_add(frame.count);
        tally.last = frame.facts.sequence;
        tally.revision = frame.facts.revision;
        tally.digest = tally.digest.wrapping_add(frame.digest);
        position = frame.end;
    }
    let is_sealed = place.generation > 0 && tally.frames > 0;
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let start = Revision::start_of_epoch(Revision::EPOCH_FIRST).unwrap_or_default();
    let revision = if is_sealed {
        tally.revision
    } else {
        floor.max(start)
    };
    Manifest {
        store: place.store,
        epoch: revision.epoch(),
        floor: floor.min(revision),
        revision,
        sequence: if is_sealed {
            tally.last
        } else {
            tally.previous
        },
        active: (!is_sealed).then_some((place.number, size)),
        sealed: is_sealed
            .then_some(Sealed {
                number: place.number,
                generation: place.generation,
                tally,
                swept: Revision(0),
            })
            .into_iter()
            .collect(),
    }
}

fn copy_of(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        base: snapshot.base.clone(),
        changes: snapshot.changes.clone(),
        floor: snapshot.floor,
        revision: snapshot.revision,
    }
}

/// Inputs for these: every segment and manifest of a small store in an empty directory, swept ones among them.
pub fn files(directory: &Arc<dyn Directory>) -> Vec<(String, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let config = || super::Config {
        segment_bytes_first: 4096,
        segment_bytes_max: 4096,
        ..super::Config::default()
    };
    for round in 0..3_u8 {
        let opened = super::Engine::open_on(Arc::clone(directory), config());
        let engine = opened.expect("the directory works");
        seed(&engine, round);
        found.extend(contents(&**directory));
        drop(engine);
        found.extend(contents(&**directory));
    }
    let mut files: Vec<_> = found.into_iter().collect();
    for (name, bytes) in &mut files {
        if codec::is_in_log(name) {
            // Zeros behind the frames teach nothing.
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
            bytes.truncate(end.saturating_add(1).next_multiple_of(SECTOR_BYTES));
        }
    }
    files
}

fn contents(directory: &dyn Directory) -> Vec<(String, Vec<u8>)> {
    let names = directory.list().expect("the directory works");
    let read = |name: String| {
        let opened = directory.open(&name);
        let is_gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        if opened.as_ref().is_err_and(is_gone) {
            return None; // the engine's upkeep has taken it away since it was listed
        }
        let disk = opened.expect("it is listed");
        let bytes = read_up_to(&*disk, u64::MAX).expect("the directory works");
        Some((name, bytes))
    };
    names.into_iter().filter_map(read).collect()
}

fn seed(engine: &super::Engine, round: u8) {
    use crate::store::{Store as _, Write};

    let commit = |writes| {
        let done = engine.commit(writes).wait();
        done.expect("nothing refuses it");
    };
    for n in 0..4_u8 {
        commit(vec![Write::put(format!("/{n}"), format!("{round} {n}"))]);
    }
    let pair = vec![
        Write::put("/pair/a", "a"),
        Write::put("/pair/b", "b".repeat(700)),
    ];
    commit(pair);
    commit(vec![Write::delete("/1")]);
    let compacted = engine.compact(engine.revision()).wait();
    compacted.expect("the floor rises");
}
