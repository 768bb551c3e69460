//! What fuzz targets need of the decoders of this crate: see `hack/fuzz-targets`.

use crate::backup::{BackupError, Frame, Reader, records_of_page};
use crate::entry::Entry;

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
    }
}

/// Reads a backup, and a page of one.
pub fn backup(data: &[u8]) {
    drop(records_of_page(data));
    let mut last: Option<Vec<u8>> = None;
    drop(read_backup(data, |key| {
        assert!(last.as_deref() < Some(key), "keys rise");
        last = Some(key.to_vec());
    }));
}

fn read_backup(data: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), BackupError> {
    let (mut reader, _header) = Reader::begin(data, None)?;
    loop {
        match reader.next()? {
            Frame::Header(_) => {}
            Frame::Record(record) => each(&record.key),
            Frame::Footer { .. } => return Ok(()),
        }
    }
}
