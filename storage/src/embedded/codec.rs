//! The bytes of format 2, as `docs/storage-format.md` draws them. Pure: bytes in, values out.
//!
//! Everything here may be fed anything, and never panics.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod frame;
mod manifest;
mod record;
mod segment;

#[cfg(any(test, feature = "fuzzing"))]
pub(super) use self::frame::mend as mend_frames;
pub(super) use self::frame::{Facts, Frame, FrameBuilder, Kind, Look, find_frame, look};
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use self::manifest::mend as mend_manifest;
pub(super) use self::manifest::{Manifest, Sealed, Tally, is_in_log};
pub(super) use self::record::{NotOpened, RecordHead, from_disk, is_stale, renewed, to_disk};
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use self::segment::mend as mend_header;
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
