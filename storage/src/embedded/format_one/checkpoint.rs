//! What the log says about itself, so that a row that vanished is noticed.
//!
//! ```text
//!   offset 0       4       8          16      24      32       40
//!          +-------+-------+----------+-------+-------+--------+
//!          | crc32 | 0     | revision | floor | count | digest |
//!          | u32   | u32   | u64      | u64   | u64   | u64    |    little-endian
//!          +-------+-------+----------+-------+-------+--------+
//! ```
//!
//! `count` and `digest` are over all rows up to `revision`. The digest is a sum over rows, so that rows
//! can come and go in any order.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use crate::entry::Entry;
use crate::revision::Revision;

/// A row's key: its revision and its place in the batch, both big-endian, so in order.
pub(super) const ROW_KEY_BYTES: usize = 12;

pub(super) const CHECKPOINT_BYTES: usize = 40;

/// What is known about the whole log as of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) revision: Revision,
    pub(super) floor: Revision,
    pub(super) count: u64,
    pub(super) digest: u64,
}

/// A row, with what its deletion takes from the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) revision: Revision,
    index: u32,
    crc: u32,
}

// === impl Row ===

impl Row {
    /// The row of a record.
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            revision: entry.modified(),
            index: entry.index(),
            crc: entry.crc(),
        }
    }

    /// The row's key.
    pub(super) fn key(self) -> [u8; ROW_KEY_BYTES] {
        let number = (u128::from(self.revision.0) << u32::BITS) | u128::from(self.index);
        *number
            .to_be_bytes()
            .last_chunk()
            .expect("twelve is less than sixteen")
    }

    /// What the row adds to the digest.
    fn digest(self) -> u64 {
        mix(mix(self.revision.0) ^ (u64::from(self.index) << 32) ^ u64::from(self.crc))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}/{}", self.revision, self.index)
    }
}

/// The finaliser of splitmix64: every bit of the input moves half the bits of the output.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

// === impl Checkpoint ===

impl Checkpoint {
    pub(super) fn add(&mut self, row: Row) {
        self.count = self.count.saturating_add(1);
        self.digest = self.digest.wrapping_add(row.digest());
    }

    pub(super) fn encode(self) -> [u8; CHECKPOINT_BYTES] {
        let fields = [self.revision.0, self.floor.0, self.count, self.digest];
        let mut body = Vec::with_capacity(CHECKPOINT_BYTES);
        body.extend_from_slice(&[0; 8]);
        body.extend(fields.into_iter().flat_map(u64::to_le_bytes));
        let crc = checkpoint_crc(&body);
        let mut bytes = [0; CHECKPOINT_BYTES];
        for (byte, source) in bytes.iter_mut().zip(
            crc.to_le_bytes()
                .into_iter()
                .chain(body.into_iter().skip(4)),
        ) {
            *byte = source;
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; CHECKPOINT_BYTES] = bytes.try_into().ok()?;
        let (crc, _) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*crc) != checkpoint_crc(bytes) {
            return None;
        }
        let mut fields = bytes
            .get(8..)?
            .as_chunks::<8>()
            .0
            .iter()
            .map(|f| u64::from_le_bytes(*f));
        let mut field = || fields.next();
        let checkpoint = Self {
            revision: Revision(field()?),
            floor: Revision(field()?),
            count: field()?,
            digest: field()?,
        };
        (checkpoint.floor <= checkpoint.revision && checkpoint.revision.is_of_a_hub())
            .then_some(checkpoint)
    }
}

fn checkpoint_crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes.get(4..).unwrap_or_default())
}
