//! The checker on directories that are written here, byte by byte as the page draws them: sound ones, and each with
//! one thing wrong.

#![expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "the tests lay bytes out and damage them"
)]

use super::*;

const STORE: [u8; 16] = *b"0123456789abcdef";
const START: u64 = 1_000_000_000_000_000;

/// A write as a test names it: key, value or nothing for a deletion.
type Put = (&'static str, Option<&'static str>);

struct Segment {
    number: u32,
    bytes: Vec<u8>,
    frames: u32,
    previous: u64,
    last: u64,
    revision: u64,
    digest: u64,
    count: u32,
    swept: u64,
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

fn record(
    revision: u64,
    (index, count): (u32, u32),
    (key, value): Put,
    keyring: Option<&Keyring>,
) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    bytes[4] = if value.is_some() { 1 } else { 2 };
    bytes[5] = u8::from(keyring.is_some());
    put(
        &mut bytes,
        6,
        &u16::try_from(key.len()).unwrap().to_le_bytes(),
    );
    put(&mut bytes, 8, &index.to_le_bytes());
    put(&mut bytes, 12, &count.to_le_bytes());
    put(&mut bytes, 16, &revision.to_le_bytes());
    put(&mut bytes, 24, &(START + 1).to_le_bytes());
    bytes.extend_from_slice(key.as_bytes());
    let value = value.unwrap_or_default().as_bytes();
    let value = match keyring {
        Some(keyring) => keyring.seal(&bytes[4..], value).unwrap(),
        None => value.to_vec(),
    };
    bytes.extend_from_slice(&value);
    let crc = crc32fast::hash(&bytes[4..]);
    put(&mut bytes, 0, &crc.to_le_bytes());
    bytes
}

fn digest_of(revision: u64, index: u32, record: &[u8]) -> u64 {
    let mix = |mut x: u64| {
        x ^= x >> 30;
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^= x >> 27;
        x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    let crc = u32::from_le_bytes(record[..4].try_into().unwrap());
    mix(mix(revision) ^ (u64::from(index) << 32) ^ u64::from(crc))
}

impl Segment {
    fn new(number: u32, previous: u64) -> Self {
        let mut bytes = vec![0; 64 * 1024];
        put(&mut bytes, 0, b"WHSEGMT\n");
        put(&mut bytes, 12, &2_u32.to_le_bytes());
        put(&mut bytes, 16, &STORE);
        put(&mut bytes, 32, &number.to_le_bytes());
        put(&mut bytes, 40, &(64 * 1024_u32).to_le_bytes());
        let crc = crc32fast::hash(&bytes[12..512]);
        put(&mut bytes, 8, &crc.to_le_bytes());
        Self {
            number,
            bytes,
            frames: 0,
            previous,
            last: previous,
            revision: START,
            digest: 0,
            count: 0,
            swept: 0,
        }
    }

    fn end(&self) -> usize {
        let mut end = 512;
        while let layout::Place::Frame(frame) = layout::Place::of(&self.bytes, end) {
            end += frame.bytes;
        }
        end
    }

    fn frame(&mut self, revision: u64, puts: &[Put], keyring: Option<&Keyring>) {
        let position = self.end();
        let mut body = Vec::new();
        let mut digest = 0_u64;
        let count = u32::try_from(puts.len()).unwrap();
        for (index, put) in (0_u32..).zip(puts) {
            let record = record(revision, (index, count), *put, keyring);
            digest = digest.wrapping_add(digest_of(revision, index, &record));
            body.extend_from_slice(&u32::try_from(record.len()).unwrap().to_le_bytes());
            body.extend_from_slice(&record);
        }
        let len = body.len();
        let sectors = (len + 4).div_ceil(512);
        body.resize(sectors * 512, 0);
        put(&mut body, sectors * 512 - 4, b"END2");
        let table: Vec<u8> = body
            .chunks(512)
            .flat_map(|sector| crc32fast::hash(sector).to_le_bytes())
            .collect();
        let mut head = vec![0; 512];
        put(&mut head, 0, b"WHF2");
        head[8] = 1;
        put(&mut head, 12, &self.number.to_le_bytes());
        put(&mut head, 16, &STORE[..8]);
        put(
            &mut head,
            28,
            &u32::try_from(position).unwrap().to_le_bytes(),
        );
        put(&mut head, 32, &(self.last + 1).to_le_bytes());
        put(&mut head, 40, &self.last.to_le_bytes());
        put(&mut head, 48, &START.to_le_bytes());
        put(&mut head, 56, &revision.to_le_bytes());
        put(&mut head, 64, &u32::try_from(len).unwrap().to_le_bytes());
        put(&mut head, 68, &count.to_le_bytes());
        put(&mut head, 80, &digest.to_le_bytes());
        if sectors <= 105 {
            put(&mut head, 88, &table);
            put(&mut head, 508, b"HEAD");
        } else {
            let mut outer = table;
            outer.resize(outer.len().div_ceil(512) * 512, 0);
            put(&mut head, 72, &crc32fast::hash(&outer).to_le_bytes());
            put(&mut head, 508, b"HEAD");
            head.extend_from_slice(&outer);
        }
        let crc = crc32fast::hash(&head[8..508]);
        put(&mut head, 4, &crc.to_le_bytes());
        put(&mut self.bytes, position, &head);
        put(&mut self.bytes, position + head.len(), &body);
        self.frames += 1;
        self.last += 1;
        self.revision = revision;
        self.digest = self.digest.wrapping_add(digest);
        self.count += count;
    }

    fn entry(&self) -> Vec<u8> {
        let mut entry = vec![0; 64];
        put(&mut entry, 0, &self.number.to_le_bytes());
        put(
            &mut entry,
            8,
            &u32::try_from(self.end()).unwrap().to_le_bytes(),
        );
        put(&mut entry, 12, &self.frames.to_le_bytes());
        put(&mut entry, 16, &self.previous.to_le_bytes());
        put(&mut entry, 24, &self.last.to_le_bytes());
        put(&mut entry, 32, &self.revision.to_le_bytes());
        put(&mut entry, 40, &self.swept.to_le_bytes());
        put(&mut entry, 48, &self.digest.to_le_bytes());
        put(&mut entry, 56, &self.count.to_le_bytes());
        entry
    }
}

/// A store with a sealed segment and an active one.
struct Laid {
    directory: tempfile::TempDir,
    active: PathBuf,
}

fn lay(sealed: &Segment, active: &Segment) -> Laid {
    lay_at(sealed, active, START)
}

fn lay_at(sealed: &Segment, active: &Segment, floor: u64) -> Laid {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::create_dir(root.join("log")).unwrap();
    fs::write(root.join("LOCK"), "").unwrap();
    fs::write(root.join("FORMAT"), "wheelhouse-store\nformat 2\n").unwrap();
    let mut manifest = vec![0; 80];
    put(&mut manifest, 0, b"WHMANIF\n");
    put(&mut manifest, 12, &2_u32.to_le_bytes());
    put(&mut manifest, 16, &STORE);
    put(&mut manifest, 32, &100_u64.to_le_bytes());
    put(&mut manifest, 40, &floor.to_le_bytes());
    put(&mut manifest, 48, &sealed.revision.to_le_bytes());
    put(&mut manifest, 56, &sealed.last.to_le_bytes());
    put(&mut manifest, 64, &active.number.to_le_bytes());
    put(&mut manifest, 68, &(64 * 1024_u32).to_le_bytes());
    put(&mut manifest, 72, &1_u32.to_le_bytes());
    manifest.extend_from_slice(&sealed.entry());
    let crc = crc32fast::hash(&manifest[12..]);
    put(&mut manifest, 8, &crc.to_le_bytes());
    fs::write(root.join("MANIFEST"), manifest).unwrap();
    let path = |segment: &Segment| root.join(format!("log/{:010}.0000", segment.number));
    fs::write(path(sealed), &sealed.bytes[..sealed.bytes.len()]).unwrap();
    let active_path = path(active);
    fs::write(&active_path, &active.bytes).unwrap();
    Laid {
        active: active_path,
        directory,
    }
}

/// Three batches in the sealed segment, two in the active one.
fn segments(keyring: Option<&Keyring>) -> (Segment, Segment) {
    let mut sealed = Segment::new(1, 0);
    sealed.frame(START + 1, &[("/a", Some("one"))], keyring);
    sealed.frame(
        START + 2,
        &[("/b", Some("two")), ("/c", Some("three"))],
        keyring,
    );
    sealed.frame(START + 3, &[("/a", None)], keyring);
    let mut active = Segment::new(2, sealed.last);
    active.frame(START + 4, &[("/b", Some("four"))], keyring);
    active.frame(START + 5, &[("/d", Some("five"))], keyring);
    (sealed, active)
}

fn sound() -> Laid {
    let (sealed, active) = segments(None);
    lay(&sealed, &active)
}

impl Laid {
    fn check(&self) -> (Report, States) {
        check(self.directory.path(), None).expect("a check")
    }

    fn damage(&self, name: &str, damage: impl FnOnce(&mut Vec<u8>)) {
        let path = self.directory.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        fs::write(&path, bytes).unwrap();
    }
}

fn states() -> Vec<(&'static [u8], Revision, &'static [u8])> {
    vec![
        (b"/b", Revision(START + 4), b"four"),
        (b"/c", Revision(START + 2), b"three"),
        (b"/d", Revision(START + 5), b"five"),
    ]
}

fn as_index<'a>(
    states: &[(&'a [u8], Revision, &'a [u8])],
) -> Vec<(&'a [u8], Revision, Revision, u64, &'a [u8])> {
    let created = Revision(START + 1);
    let state = |(key, revision, value): &(&'a [u8], Revision, &'a [u8])| {
        (*key, *revision, created, 0, *value)
    };
    states.iter().map(state).collect()
}

#[test]
fn a_sound_store_has_no_findings() {
    let (report, found) = sound().check();
    assert_eq!(report.findings, []);
    let counts = (report.segments, report.frames, report.records, report.keys);
    assert_eq!(counts, (2, 5, 6, 3), "segments, frames, records, keys");
    assert_eq!(report.revision, Revision(START + 5));
    assert_eq!(found.compare(as_index(&states())), []);
}

#[test]
fn a_frame_with_a_table_of_its_own_is_read() {
    let large: &'static str = Box::leak("x".repeat(60_000).into_boxed_str());
    let (sealed, _) = segments(None);
    let mut active = Segment::new(2, sealed.last);
    active.bytes.resize(128 * 1024, 0);
    active.frame(START + 4, &[("/large", Some(large))], None);
    active.bytes.truncate(64 * 1024);
    let laid = lay(&sealed, &active);
    let (report, _) = laid.check();
    assert_eq!(report.findings, []);
    // The last sector of the table's own begins at 1024: everything of it is proved.
    laid.damage("log/0000000002.0000", |bytes| bytes[512 + 600] ^= 1);
    assert!(!laid.check().0.is_sound(), "a flip in the table");
}

#[test]
fn the_hashes_follow_what_is_stored() {
    let (one, _) = sound().check();
    let (same, _) = sound().check();
    assert_eq!(one.state_hash, same.state_hash);
    assert_eq!(one.log_hash, same.log_hash);
    let (sealed, _) = segments(None);
    let mut active = Segment::new(2, sealed.last);
    active.frame(START + 4, &[("/b", Some("four"))], None);
    active.frame(START + 5, &[("/d", Some("fivE"))], None);
    let (other, _) = lay(&sealed, &active).check();
    assert!(other.is_sound());
    assert_ne!(one.state_hash, other.state_hash);
    assert_ne!(one.log_hash, other.log_hash);
}

#[test]
fn every_flip_in_what_was_written_is_found() {
    let laid = sound();
    let (sealed, active) = segments(None);
    for (name, end) in [
        ("MANIFEST", 144),
        ("log/0000000001.0000", sealed.end()),
        ("log/0000000002.0000", active.end()),
    ] {
        for place in (0..end).step_by(5) {
            laid.damage(name, |bytes| bytes[place] ^= 0x10);
            let (report, _) = laid.check();
            assert!(!report.is_sound(), "{name} at {place}");
            laid.damage(name, |bytes| bytes[place] ^= 0x10);
        }
    }
    assert!(laid.check().0.is_sound(), "all of it was put right");
}

#[test]
fn a_torn_end_is_no_finding_and_a_hole_before_a_whole_frame_is() {
    let laid = sound();
    let (_, active) = segments(None);
    let last = active.end() - 1024;
    laid.damage("log/0000000002.0000", |bytes| {
        bytes[last + 512..last + 1024].fill(0);
    });
    let (report, _) = laid.check();
    assert_eq!(report.findings, [], "the body of the last write was lost");
    assert_eq!(report.revision, Revision(START + 4));

    let laid = sound();
    laid.damage("log/0000000002.0000", |bytes| bytes[512..1024].fill(0));
    let (report, _) = laid.check();
    let found = &report.findings[0];
    assert!(
        found.place.contains("0000000002.0000 at byte 1536"),
        "{found:?}"
    );
    assert!(found.reason.contains("behind the end"), "{found:?}");
}

#[test]
fn what_is_missing_or_too_much_is_found() {
    for (name, file, damage) in [
        ("a sealed segment that is gone", "log/0000000001.0000", None),
        ("the active one that is gone", "log/0000000002.0000", None),
        ("one that was cut", "log/0000000001.0000", Some(1024)),
        (
            "an active one that was cut",
            "log/0000000002.0000",
            Some(2048),
        ),
    ] {
        let laid = sound();
        let path = laid.directory.path().join(file);
        match damage {
            None => fs::remove_file(path).unwrap(),
            Some(len) => laid.damage(file, |bytes| bytes.truncate(len)),
        }
        assert!(!laid.check().0.is_sound(), "{name}");
    }
    let laid = sound();
    let (_, active) = segments(None);
    let mut newer = Segment::new(3, active.last);
    newer.frame(START + 6, &[("/e", Some("six"))], None);
    fs::write(laid.active.with_file_name("0000000003.0000"), newer.bytes).unwrap();
    let (report, _) = laid.check();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert!(report.findings[0].place.contains("0000000003.0000"));
}

#[test]
fn a_difference_between_the_index_and_the_log_is_found() {
    type Damage = fn(&mut Vec<(&[u8], Revision, &[u8])>);
    let differing: [(&str, &str, Damage); 5] = [
        ("a value", "/b", |states| states[0].2 = b"fouR"),
        ("a revision", "/c", |states| {
            states[1].1 = Revision(START + 1);
        }),
        ("a key that the log has not", "/x", |states| {
            states.push((b"/x", Revision(START + 5), b""));
        }),
        ("a key that was deleted", "/a", |states| {
            states.push((b"/a", Revision(START + 1), b"one"));
        }),
        ("a key that is missing", "/d", |states| {
            states.pop();
        }),
    ];
    for (name, key, damage) in differing {
        let (_, found) = sound().check();
        let mut states = states();
        damage(&mut states);
        let findings = found.compare(as_index(&states));
        assert_eq!(findings.len(), 1, "{name}: {findings:?}");
        assert_eq!(findings[0].place, key, "{name}");
    }
}

#[test]
fn sealed_values_are_opened_and_counted_by_key() {
    let old = "old:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let new = "new:AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
    let ring = |text: &str| Keyring::parse(text).unwrap().covering("/");
    let keyring = ring(old);
    let (sealed, _) = segments(Some(&keyring));
    let both = ring(&format!("{new}\n{old}"));
    let mut active = Segment::new(2, sealed.last);
    active.frame(START + 4, &[("/b", Some("four"))], Some(&both));
    active.frame(START + 5, &[("/d", Some("five"))], Some(&both));
    let laid = lay(&sealed, &active);
    let directory = laid.directory.path();

    let without = check(directory, None).expect_err("no keys");
    assert!(matches!(without, CheckError::NoKeyring { count: 6 }));
    let (report, found) = check(directory, Some(&both)).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(report.sealed[&keyring.sealing_key()], 4);
    assert_eq!(report.sealed[&both.sealing_key()], 2);
    assert_eq!(found.compare(as_index(&states())), [], "opened");
    let (plain, _) = sound().check();
    assert_eq!(
        report.state_hash, plain.state_hash,
        "of what is stored, sealed or not"
    );
    let too_early = check(directory, Some(&ring(new))).expect_err("the old key is still needed");
    let old = keyring.sealing_key().to_string();
    assert!(matches!(too_early, CheckError::MissingKeys { keys } if keys == [old]));
}

#[test]
fn what_cannot_be_checked_is_an_error_and_no_finding() {
    let laid = sound();
    let directory = laid.directory.path();
    let held = File::open(directory.join("LOCK")).unwrap();
    held.lock().unwrap();
    assert!(matches!(
        check(directory, None),
        Err(CheckError::InUse { .. })
    ));
    drop(held);
    fs::write(directory.join("FORMAT"), "wheelhouse-store\nformat 3\n").unwrap();
    assert!(matches!(
        check(directory, None),
        Err(CheckError::Format { .. })
    ));
    let absent = directory.join("absent");
    assert!(matches!(check(&absent, None), Err(CheckError::Io { .. })));
}

#[test]
fn the_current_states_are_given_for_a_backup() {
    let laid = sound();
    let (report, records) = records(laid.directory.path(), None).unwrap();
    assert!(report.is_sound());
    let keys: Vec<_> = records.iter().map(|record| shown(&record.key)).collect();
    assert_eq!(keys, ["/b", "/c", "/d"]);
    assert_eq!(records[0].value, b"four");
    assert_eq!(records[0].modified, Revision(START + 4));
}

/// A segment that says it was swept further than it was: a deletion in a later one may be gone already.
#[test]
fn what_a_segment_says_of_its_sweep_is_proved() {
    for (name, swept, floor, want) in [
        ("never swept", 0, 3, None),
        ("swept before anything was superseded", START + 2, 3, None),
        (
            "a put that is superseded within the sweep",
            START + 3,
            3,
            Some("/a at revision 1000000000000001"),
        ),
        ("swept above the floor", START + 2, 1, Some("MANIFEST")),
    ] {
        let (mut sealed, active) = segments(None);
        sealed.swept = swept;
        let laid = lay_at(&sealed, &active, START + floor);
        let (report, _) = laid.check();
        let places: Vec<_> = report.findings.iter().map(|it| it.place.as_str()).collect();
        assert_eq!(
            places,
            want.into_iter().collect::<Vec<_>>(),
            "{name}: {report:?}"
        );
    }
}

/// A crash leaves a beginning of a mark, or nothing of it; no other end.
#[test]
fn a_head_is_torn_only_where_its_mark_is_cut() {
    let (sealed, active) = segments(None);
    let end = active.end();
    for (name, mark, want) in [
        ("nothing", *b"\0\0\0\0", true),
        ("a beginning", *b"HE\0\0", true),
        ("all of it", *b"HEAD", false),
        ("something else", *b"XE\0\0", false),
        ("an end", *b"\0\0AD", false),
    ] {
        let laid = lay(&sealed, &active);
        laid.damage("log/0000000002.0000", |bytes| {
            put(bytes, end, b"WHF2 and what does not check");
            put(bytes, end + 508, &mark);
        });
        assert_eq!(laid.check().0.is_sound(), want, "{name}");
    }
}

/// A sweep leaves nothing of the last sealed segments where all of it is garbage: the active one goes on behind them.
#[test]
fn a_log_goes_on_behind_segments_that_are_gone() {
    let (sealed, _) = segments(None);
    for (name, last, want) in [
        ("right behind", sealed.last, true),
        ("behind a gap", sealed.last + 7, true),
        ("before the end of the one before", sealed.last - 1, false),
    ] {
        let mut active = Segment::new(9, last);
        active.frame(START + 4, &[("/b", Some("four"))], None);
        let laid = lay(&sealed, &active);
        laid.damage("MANIFEST", |bytes| {
            put(bytes, 56, &last.to_le_bytes());
            let crc = crc32fast::hash(&bytes[12..]);
            put(bytes, 8, &crc.to_le_bytes());
        });
        let (report, _) = laid.check();
        assert_eq!(report.is_sound(), want, "{name}: {report:?}");
    }
}
