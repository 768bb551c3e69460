//! The bytes of format 2, as `docs/storage-format.md` draws them. Pure: bytes in, values out.
//!
//! Everything here may be fed anything, and never panics.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod frame;
mod manifest;
mod record;
mod segment;

pub(super) use self::frame::{Facts, Frame, FrameBuilder, Kind, Look, find_frame, look};
pub(super) use self::manifest::{Manifest, Sealed, Tally, is_in_log};
pub(super) use self::record::{NotOpened, RecordHead, from_disk, to_disk};
pub(super) use self::segment::{
    LOG_FOLDER, Place, decode_any_header, decode_header, encode_header, parse_segment_name,
    segment_name,
};

/// What a disk writes as a whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

/// Names a store, in all of its files.
pub(super) type StoreId = [u8; 16];

/// The format that this version writes.
pub(super) const FORMAT: u32 = 2;

/// Reads a field.
fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    field(bytes, offset).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    field(bytes, offset).map(u64::from_le_bytes)
}

/// Writes a field into a buffer that the caller has made large enough.
fn put<const N: usize>(bytes: &mut [u8], offset: usize, value: [u8; N]) {
    let place = bytes.get_mut(offset..).and_then(<[u8]>::first_chunk_mut);
    *place.expect("the buffer holds the whole layout") = value;
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn crc_of(bytes: &[u8], range: impl std::slice::SliceIndex<[u8], Output = [u8]>) -> u32 {
    crc32fast::hash(bytes.get(range).unwrap_or_default())
}

/// What fuzzing calls: each takes any bytes, and none may panic. Where the bytes are something, what is
/// read is laid out again, and has to be the same.
#[cfg(any(test, feature = "conformance"))]
pub mod probe {
    use super::{FrameBuilder, Look, Manifest, Place};

    /// Reads bytes as a manifest.
    pub fn manifest(bytes: &[u8]) {
        if let Ok(manifest) = Manifest::decode(bytes) {
            assert_eq!(manifest.encode(), bytes, "a manifest has one layout");
        }
    }

    /// Reads bytes as a segment: its header, and every frame at every sector.
    pub fn segment(bytes: &[u8]) {
        let place = super::segment::decode_any_header(bytes).unwrap_or(Place {
            store: [0; 16],
            number: 1,
            generation: 0,
        });
        for position in (0..bytes.len()).step_by(super::SECTOR_BYTES) {
            let Look::Frame(frame) = super::look(bytes, position, &place) else {
                continue;
            };
            let mut builder = FrameBuilder::default();
            for record in frame.records() {
                let Ok(record) = record else { return };
                builder.push(record);
                self::record(record);
            }
            let again = builder.finish(&place, position, frame.facts);
            assert!(again.len() >= super::SECTOR_BYTES, "a frame has a head");
        }
    }

    /// Reads bytes as a record.
    pub fn record(bytes: &[u8]) {
        if let Ok(entry) = super::from_disk(bytes, None) {
            assert_eq!(entry.record(), bytes, "a record has one layout");
        }
    }

    /// Makes the checksums of bytes right that look like a segment, so that fuzzing gets behind them.
    pub fn mend(bytes: &mut [u8]) {
        super::frame::mend(bytes);
    }
}
