//! One state of one key, as one block of bytes: the same on disk and in memory.
//!
//! ```text
//!   offset 0        4    5    6         8       12      16        24        32    40
//!          +--------+----+----+---------+-------+-------+---------+---------+-----+-----+-------+
//!          | crc32  | op | 0  | key len | index | count | revision| created | tag | key | value |
//!          | u32    | u8 | u8 | u16     | u32   | u32   | u64     | u64     | u64 |     | rest  |
//!          +--------+----+----+---------+-------+-------+---------+---------+-----+-----+-------+
//! ```
//!
//! Integers are little-endian; the checksum is CRC-32 (IEEE) over everything behind it. `index` and
//! `count` are the write's place in its batch and the size of that batch, so that a reader of the log can
//! prove that a batch is whole.
//!
//! # Invariants
//! - An [`Entry`] is sealed: header, stamp and checksum are final. Only [`Draft::seal`] (also for
//!   [`Entry::in_form`]) and [`Entry::decode`] make one, and `decode` checks everything it did not write itself.
//! - One allocation per state; an entry in memory costs its bytes, 40 of header and 16 of counts.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::key::{KEY_BYTES_MAX, Key};
use crate::revision::Revision;

/// Bytes in front of the key.
pub(crate) const HEADER_BYTES: usize = 40;

const CRC: usize = 0;
const OP: usize = 4;
const ZERO: usize = 5;
const KEY_LEN: usize = 6;
const INDEX: usize = 8;
const COUNT: usize = 12;
const REVISION: usize = 16;
const CREATED: usize = 24;
const TAG: usize = 32;

/// The state of a key at a revision. Clones share the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry(Arc<[u8]>);

/// What a record does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Gives it a value.
    Put,
    /// Takes it away; the value is its last state, for watchers.
    Delete,
}

/// A record that has no revision yet. The caller of a commit lays it out, so that the one commit
/// thread only patches the header.
#[derive(Debug)]
pub(crate) struct Draft {
    bytes: Vec<u8>,
    /// Where, in the record, the revision's digits go.
    stamp: Option<usize>,
    op: Op,
}

/// What the commit order decides about a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seal {
    pub(crate) revision: Revision,
    pub(crate) created: Revision,
    pub(crate) tag: u64,
    pub(crate) index: u32,
    pub(crate) count: u32,
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotARecord(pub(crate) &'static str);

/// The value of an entry as an owner of bytes, for [`Entry::bytes`].
struct ValueOwner(Entry);

// === impl Entry ===

impl Entry {
    /// The key.
    pub fn key(&self) -> &[u8] {
        self.0
            .get(HEADER_BYTES..self.value_start())
            .unwrap_or_default()
    }

    /// The key as a value of its own; copies it.
    pub fn to_key(&self) -> Key {
        Key::copy_of(self.key())
    }

    /// The stored bytes. For the entry of a deletion: the last state, as the deleter gave it.
    pub fn value(&self) -> &[u8] {
        self.0.get(self.value_start()..).unwrap_or_default()
    }

    /// The stored bytes as a shared buffer that keeps the entry alive; copies nothing.
    pub fn bytes(&self) -> Bytes {
        Bytes::from_owner(ValueOwner(self.clone()))
    }

    /// What the writer attached; the store does not look at it.
    pub fn tag(&self) -> u64 {
        u64::from_le_bytes(self.field(TAG))
    }

    /// The revision in which the key came to be.
    pub fn created(&self) -> Revision {
        Revision(u64::from_le_bytes(self.field(CREATED)))
    }

    /// The revision of this state. For the entry of a deletion: of the deletion.
    pub fn modified(&self) -> Revision {
        Revision(u64::from_le_bytes(self.field(REVISION)))
    }

    /// Returns the same state in another form: as if these bytes had been stored in it, with this tag. It is for readers
    /// alone: no store takes an entry back.
    #[must_use]
    pub fn in_form(&self, value: &[u8], tag: u64) -> Self {
        let draft = Draft::new(self.op(), self.key(), value, None);
        draft.seal(Seal {
            revision: self.modified(),
            created: self.created(),
            tag,
            index: self.index(),
            count: self.count(),
        })
    }

    /// Reads a record from disk.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NotARecord> {
        if bytes.len() < HEADER_BYTES {
            return Err(NotARecord("shorter than its header"));
        }
        let entry = Self(Arc::from(bytes));
        if crc_of(bytes) != u32::from_le_bytes(entry.field(CRC)) {
            return Err(NotARecord("checksum does not match"));
        }
        if entry.raw_op() != Op::Put.code() && entry.raw_op() != Op::Delete.code() {
            return Err(NotARecord("unknown operation"));
        }
        if entry.field(ZERO) != [0] {
            return Err(NotARecord("reserved byte is set"));
        }
        if entry.key_len() > KEY_BYTES_MAX || entry.value_start() > bytes.len() {
            return Err(NotARecord("key does not fit"));
        }
        if entry.index() >= entry.count() {
            return Err(NotARecord("place behind the end of its batch"));
        }
        if entry.created() > entry.modified() {
            return Err(NotARecord("created after it was modified"));
        }
        Ok(entry)
    }

    pub(crate) fn op(&self) -> Op {
        if self.raw_op() == Op::Put.code() {
            Op::Put
        } else {
            Op::Delete
        }
    }

    pub(crate) fn is_deletion(&self) -> bool {
        self.op() == Op::Delete
    }

    pub(crate) fn index(&self) -> u32 {
        u32::from_le_bytes(self.field(INDEX))
    }

    pub(crate) fn count(&self) -> u32 {
        u32::from_le_bytes(self.field(COUNT))
    }

    /// The record as it stands on disk.
    pub(crate) fn record(&self) -> &[u8] {
        &self.0
    }

    fn raw_op(&self) -> u8 {
        let [op] = self.field(OP);
        op
    }

    fn key_len(&self) -> usize {
        usize::from(u16::from_le_bytes(self.field(KEY_LEN)))
    }

    fn value_start(&self) -> usize {
        HEADER_BYTES.saturating_add(self.key_len())
    }

    fn field<const N: usize>(&self, offset: usize) -> [u8; N] {
        let field = self.0.get(offset..).and_then(<[u8]>::first_chunk);
        *field.expect("a record is at least as long as its header")
    }
}

impl fmt::Debug for Entry {
    /// Leaves the value out: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("op", &self.op())
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("modified", &self.modified())
            .field("created", &self.created())
            .field("tag", &self.tag())
            .field("value_bytes", &self.value().len())
            .finish()
    }
}

impl AsRef<[u8]> for ValueOwner {
    fn as_ref(&self) -> &[u8] {
        self.0.value()
    }
}

// === impl Op ===

impl Op {
    const fn code(self) -> u8 {
        match self {
            Self::Put => 1,
            Self::Delete => 2,
        }
    }
}

// === impl Draft ===

impl Draft {
    /// Lays out a record. `stamp` is an offset in `value`, and the caller has checked the bounds
    /// of key, value and stamp.
    pub(crate) fn new(op: Op, key: &[u8], value: &[u8], stamp: Option<usize>) -> Self {
        let key_len = u16::try_from(key.len()).expect("the caller has bounded the key");
        let size = HEADER_BYTES
            .saturating_add(key.len())
            .saturating_add(value.len());
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(&[0; HEADER_BYTES]);
        bytes.extend_from_slice(key);
        let value_start = bytes.len();
        bytes.extend_from_slice(value);
        put(&mut bytes, OP, [op.code()]);
        put(&mut bytes, KEY_LEN, key_len.to_le_bytes());
        let stamp = stamp.map(|offset| value_start.saturating_add(offset));
        Self { bytes, stamp, op }
    }

    pub(crate) fn op(&self) -> Op {
        self.op
    }

    pub(crate) fn key(&self) -> &[u8] {
        let len = self
            .bytes
            .get(KEY_LEN..)
            .and_then(<[u8]>::first_chunk)
            .map_or(0, |len| usize::from(u16::from_le_bytes(*len)));
        self.bytes
            .get(HEADER_BYTES..HEADER_BYTES.saturating_add(len))
            .unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Fills in what the commit order decided, stamps the value, and closes the record.
    pub(crate) fn seal(mut self, seal: Seal) -> Entry {
        put(&mut self.bytes, INDEX, seal.index.to_le_bytes());
        put(&mut self.bytes, COUNT, seal.count.to_le_bytes());
        put(&mut self.bytes, REVISION, seal.revision.0.to_le_bytes());
        put(&mut self.bytes, CREATED, seal.created.0.to_le_bytes());
        put(&mut self.bytes, TAG, seal.tag.to_le_bytes());
        if let Some(stamp) = self.stamp {
            put(&mut self.bytes, stamp, seal.revision.digits());
        }
        let crc = crc_of(&self.bytes);
        put(&mut self.bytes, CRC, crc.to_le_bytes());
        Entry(Arc::from(self.bytes))
    }
}

fn put<const N: usize>(bytes: &mut [u8], offset: usize, field: [u8; N]) {
    let place = bytes.get_mut(offset..).and_then(<[u8]>::first_chunk_mut);
    *place.expect("a draft is longer than its fields") = field;
}

fn crc_of(record: &[u8]) -> u32 {
    crc32fast::hash(record.get(OP..).unwrap_or_default())
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test may panic"
)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(op: Op, key: &[u8], value: &[u8], stamp: Option<usize>) -> Entry {
        let revision = Revision(1_000_000_000_000_009);
        let created = Revision(1_000_000_000_000_003);
        Draft::new(op, key, value, stamp).seal(Seal {
            revision,
            created,
            tag: 7,
            index: 1,
            count: 3,
        })
    }

    #[test]
    fn a_record_reads_back_as_it_was_sealed() {
        let entry = sealed(Op::Delete, b"/a", b"{\"rv\":\"................\"}", Some(7));
        let read = Entry::decode(entry.record()).unwrap();
        assert_eq!(read, entry);
        assert_eq!(read.key(), b"/a");
        assert_eq!(read.value(), b"{\"rv\":\"1000000000000009\"}");
        assert_eq!(read.bytes(), read.value());
        assert_eq!(
            (read.index(), read.count(), read.tag(), read.op()),
            (1, 3, 7, Op::Delete)
        );
        assert_eq!(read.created().0 + 6, read.modified().0);
    }

    #[test]
    fn another_form_of_a_state_is_the_same_state() {
        let entry = sealed(Op::Delete, b"/a", b"old", None);
        let other = entry.in_form(b"{\"longer\":1}", 8);
        assert_eq!(
            (other.key(), other.value(), other.tag()),
            (entry.key(), &b"{\"longer\":1}"[..], 8)
        );
        assert_eq!(
            (other.modified(), other.created()),
            (entry.modified(), entry.created())
        );
        assert_eq!(other.op(), Op::Delete);
        assert_eq!(Entry::decode(other.record()).unwrap(), other);
    }

    #[test]
    fn an_empty_key_and_value_are_a_record() {
        let entry = sealed(Op::Put, b"", b"", None);
        assert_eq!(Entry::decode(entry.record()).unwrap().value(), b"");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let entry = sealed(Op::Put, b"/key", b"some value", None);
        for bit in 0..entry.record().len() * 8 {
            let mut bytes = entry.record().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_record_is_noticed() {
        let entry = sealed(Op::Put, b"/key", b"some value", None);
        for len in 0..entry.record().len() {
            assert!(
                Entry::decode(&entry.record()[..len]).is_err(),
                "{len} bytes"
            );
        }
    }

    #[test]
    fn a_value_is_not_shown_by_debug() {
        let shown = format!("{:?}", sealed(Op::Put, b"/secret", b"hunter2", None));
        assert!(
            shown.contains("/secret") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    proptest! {
        /// With a right checksum too: whoever can write the file can make one.
        #[test]
        fn no_bytes_make_the_decoder_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if bytes.len() >= HEADER_BYTES {
                let crc = crc_of(&bytes);
                put(&mut bytes, CRC, crc.to_le_bytes());
            }
            if let Ok(entry) = Entry::decode(&bytes) {
                prop_assert_eq!(entry.key().len() + entry.value().len() + HEADER_BYTES, bytes.len());
            }
        }
    }
}
