//! Backups through their public surface: whole, cut, altered.

#![expect(
    clippy::indexing_slicing,
    reason = "the tests cut and flip what they made"
)]

use super::*;

fn record(name: &str, value: &[u8]) -> Record {
    Record {
        key: name.as_bytes().to_vec(),
        value: value.to_vec(),
        created: Revision(1_000_000_000_000_001),
        modified: Revision(1_000_000_000_000_007),
        tag: 5,
    }
}

fn records() -> Vec<Record> {
    vec![
        record("/core/configmaps/root/default/a", b"one"),
        record("/core/configmaps/root/default/b", b""),
        record("/core/secrets/root/default/s", b"hunter2"),
    ]
}

fn keyring() -> Keyring {
    Keyring::parse("k:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")
        .expect("a keyring")
        .covering("/core/secrets/")
}

fn written(keyring: Option<&Keyring>) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), keyring, b"{}").expect("begun");
    for record in records() {
        writer.record(&record).expect("written");
    }
    let (bytes, count) = writer.finish().expect("finished");
    assert_eq!(count, 3, "records");
    bytes
}

fn read(bytes: &[u8], keyring: Option<&Keyring>) -> Result<Vec<Record>, BackupError> {
    let (mut reader, header) = Reader::begin(bytes, keyring)?;
    assert_eq!(header, b"{}");
    let mut records = Vec::new();
    loop {
        match reader.next()? {
            Frame::Record(record) => records.push(record),
            Frame::Footer { .. } => return Ok(records),
            Frame::Header(_) => panic!("a second header"),
        }
    }
}

#[test]
fn what_was_written_is_read() {
    assert_eq!(read(&written(None), None).expect("read"), records());
}

#[test]
fn covered_values_are_sealed_and_others_are_not() {
    let keyring = keyring();
    let bytes = written(Some(&keyring));
    assert!(!bytes.windows(7).any(|window| window == b"hunter2"));
    assert!(bytes.windows(3).any(|window| window == b"one"));
    assert_eq!(read(&bytes, Some(&keyring)).expect("read"), records());
    let error = read(&bytes, None).expect_err("no key");
    assert!(matches!(error, BackupError::NoKeyring { .. }), "{error:?}");
}

#[test]
fn every_flipped_byte_is_noticed() {
    let bytes = written(None);
    for place in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[place] ^= 0x40;
        let outcome = std::panic::catch_unwind(|| read(&flipped, None));
        // A header that was altered shows in the checksum too; the helper's assertion is not reached.
        assert!(outcome.is_ok_and(|read| read.is_err()), "byte {place}");
    }
}

#[test]
fn an_incomplete_file_is_never_whole_and_says_how_far_it_is() {
    let bytes = written(None);
    for len in 0..bytes.len() {
        let error = read(&bytes[..len], None).expect_err("incomplete");
        match error {
            BackupError::NotABackup => assert!(len < 8, "{len} bytes"),
            BackupError::Incomplete { whole_bytes } => {
                assert!(whole_bytes <= len as u64, "{len} bytes");
            }
            other => panic!("{len} bytes: {other:?}"),
        }
    }
}

#[test]
fn keys_must_rise() {
    let mut writer = Writer::begin(Vec::new(), None, b"{}").expect("begun");
    writer.record(&record("/b", b"")).expect("the first");
    for key in ["/b", "/a"] {
        assert!(writer.record(&record(key, b"")).is_err(), "{key} after /b");
    }
}

#[test]
fn a_page_is_taken_apart_and_a_cut_one_is_refused() {
    let mut page = Vec::new();
    for record in records() {
        frame(&mut page, &record.payload(None).expect("a payload")).expect("framed");
    }
    assert_eq!(records_of_page(&page).expect("a page"), records());
    assert_eq!(records_of_page(&[]).expect("an empty page"), []);
    assert!(records_of_page(&page[..page.len() - 1]).is_err(), "cut off");
}
