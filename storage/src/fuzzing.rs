//! What fuzz targets need of the decoders of this crate: see `hack/fuzz-targets`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backup::{self, BackupError, Frame, Reader, Writer, records_of_page};
use crate::embedded::{Directory, probe};
use crate::entry::Entry;
use crate::etcd;
use crate::etcd::fuzzed::{Envelope, Sealing, encode_last, last_of};
use crate::keyring::Keyring;
use crate::revision::Revision;

const KEYS: &str = "a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";

fn keyring() -> Keyring {
    let keyring = Keyring::parse(KEYS).expect("this is a key");
    keyring.covering("/secrets/")
}

/// Reads a record as it stands, and once more with the checksum that it should have, so that what is behind the
/// checksum is tried too.
pub fn record(data: &[u8]) {
    let mut corrected = data.to_vec();
    if let (Some(checked), Some(_)) = (data.get(4..), corrected.first_chunk::<4>()) {
        let crc = crc32fast::hash(checked);
        if let Some(place) = corrected.first_chunk_mut() {
            *place = crc.to_le_bytes();
        }
    }
    for bytes in [data, &corrected] {
        if let Ok(entry) = Entry::decode(bytes) {
            assert_eq!(entry.record(), bytes, "a record is its bytes");
            let length = entry.key().len().saturating_add(entry.value().len());
            assert!(length <= bytes.len(), "key and value lie in the record");
            assert!(
                entry.created() <= entry.modified(),
                "nothing is older than itself"
            );
        }
        probe::record(bytes);
    }
}

/// Records of a small store, which is made in an empty directory.
pub fn records(directory: &Arc<dyn Directory>) -> Vec<Vec<u8>> {
    segments(directory)
        .iter()
        .filter_map(|segment| probe::first_record(segment))
        .collect()
}

/// Reads a manifest as it stands, and once more with the checksum that it should have.
pub fn manifest(data: &[u8]) {
    probe::manifest(data);
    let mut corrected = data.to_vec();
    probe::mend_checksum(&mut corrected);
    probe::manifest(&corrected);
}

/// Manifests of a small store, which is made in an empty directory.
pub fn manifests(directory: &Arc<dyn Directory>) -> Vec<Vec<u8>> {
    files_where(directory, |name| name == "MANIFEST")
}

/// Reads a segment as it stands, and once more with the checksums that it should have.
pub fn segment(data: &[u8]) {
    probe::segment(data);
    let mut corrected = data.to_vec();
    probe::mend(&mut corrected);
    probe::segment(&corrected);
}

/// Segments of a small store, which is made in an empty directory.
pub fn segments(directory: &Arc<dyn Directory>) -> Vec<Vec<u8>> {
    files_where(directory, |name| name.starts_with("log/"))
}

/// Reads a segment as a log, by both readers. `directory` makes a directory of files.
pub fn log(data: &[u8], directory: impl FnOnce(BTreeMap<String, Vec<u8>>) -> Arc<dyn Directory>) {
    probe::log(data, directory);
}

fn files_where(directory: &Arc<dyn Directory>, wanted: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let files = probe::files(directory).into_iter();
    files
        .filter(|(name, _)| wanted(name))
        .map(|(_, bytes)| bytes)
        .collect()
}

/// Reads a value of etcd, under a key that is covered and under one that is not, and the last states of deleted keys.
pub fn envelope(data: &[u8]) {
    let sealing = sealing();
    for key in [&b"/maps/a"[..], b"/secrets/a"] {
        let Ok(envelope) = Envelope::decode(data, key, Some(&sealing)) else {
            continue;
        };
        let again = envelope.encode(key, Some(&sealing));
        let again = again.expect("what was read can be sealed");
        let read = Envelope::decode(&again, key, Some(&sealing));
        assert!(
            read.is_ok_and(|read| read == envelope),
            "an envelope reads back"
        );
    }
    if let Some(last) = last_of(data, b"/a") {
        assert!(last.len() <= data.len(), "it is a part of what was read");
    }
}

/// Values of etcd.
pub fn envelopes() -> Vec<Vec<u8>> {
    let sealing = sealing();
    let envelope = Envelope {
        tag: 7,
        stamp: Some(2),
        value: Cow::Borrowed(b"v=................"),
    };
    let encode = |key: &[u8]| envelope.encode(key, Some(&sealing));
    let states = [encode(b"/maps/a"), encode(b"/secrets/a")];
    let states = states.map(|state| state.expect("it can be sealed"));
    let [plain, sealed] = &states;
    let last = encode_last(&[(b"/a", plain.clone()), (b"/b", sealed.clone())]);
    states.into_iter().chain([last]).collect()
}

fn sealing() -> Sealing {
    Sealing {
        keyring: Arc::new(keyring()),
        store: "8f14e45fceea167a5a36dedd4bea2543".to_owned(),
    }
}

/// Reads text as each of the small texts that a store has.
pub fn texts(text: &str) {
    probe::text(text);
    etcd::fuzzed::texts(text);
}

/// Reads a backup and a page; as they stand, and with the checksums that their
/// frames should have.
pub fn backup(data: &[u8]) {
    let mut corrected = data.to_vec();
    mend_frames(&mut corrected, backup::MAGIC.len());
    let mut page = data.to_vec();
    mend_frames(&mut page, 0);
    for page in [data, &page] {
        drop(records_of_page(page));
    }
    for file in [data, &corrected] {
        whole(file);
    }
}

/// Backups: whole ones, plain and sealed, an incomplete one, and a page of a small store in an empty directory.
pub fn backups(directory: &Arc<dyn Directory>) -> Vec<Vec<u8>> {
    let keyring = keyring();
    let mut made = Vec::new();
    let mut page = Vec::new();
    for keyring in [None, Some(&keyring)] {
        let written = || -> Result<Vec<u8>, BackupError> {
            let mut writer = Writer::begin(Vec::new(), keyring, br#"{"version":1}"#)?;
            for key in ["/maps/a", "/secrets/a"] {
                writer.record(&backup::Record {
                    key: key.into(),
                    value: b"value".to_vec(),
                    created: Revision(1),
                    modified: Revision(2),
                    tag: 3,
                })?;
            }
            Ok(writer.finish()?.0)
        };
        made.push(written().expect("memory takes it"));
    }
    for segment in segments(directory) {
        let entry = probe::first_record(&segment).and_then(|record| Entry::decode(&record).ok());
        if let Some(entry) = entry {
            backup::Record::append_entry(&mut page, &entry).expect("a store holds it");
        }
    }
    let incomplete = made
        .first()
        .and_then(|whole| whole.get(..90))
        .map(<[u8]>::to_vec);
    made.extend(incomplete);
    made.push(page);
    made
}

/// Gives every frame from a place on the checksum that it should have.
fn mend_frames(bytes: &mut [u8], from: usize) {
    let mut rest = bytes.get_mut(from..).unwrap_or_default();
    while let Some((head, behind)) = rest.split_first_chunk_mut::<8>() {
        let [a, b, c, d, crc @ ..] = head;
        let len = usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).unwrap_or(usize::MAX);
        let Some((payload, next)) = behind.split_at_mut_checked(len) else {
            return;
        };
        *crc = crc32fast::hash(payload).to_le_bytes();
        rest = next;
    }
}

fn whole(data: &[u8]) {
    let keyring = keyring();
    let mut last: Option<Vec<u8>> = None;
    drop(read_backup(data, Some(&keyring), |key| {
        assert!(last.as_deref() < Some(key), "keys rise");
        last = Some(key.to_vec());
    }));
}

fn read_backup(
    data: &[u8],
    keyring: Option<&Keyring>,
    mut each: impl FnMut(&[u8]),
) -> Result<(), BackupError> {
    let (mut reader, _header) = Reader::begin(data, keyring)?;
    loop {
        match reader.next()? {
            Frame::Header(_) => {}
            Frame::Record(record) => each(&record.key),
            Frame::Footer { .. } => return Ok(()),
        }
    }
}
