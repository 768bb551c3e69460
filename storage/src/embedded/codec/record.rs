//! A record on disk: that of memory, or one whose value is sealed.

use std::borrow::Cow;

use super::{crc_of, field, put, u32_at, u64_at};
use crate::entry::{Entry, HEADER_BYTES, NotARecord};
use crate::keyring::{KeyId, Keyring, KeyringError};
use crate::revision::Revision;

const CRC: usize = 0;
const CHECKED: usize = 4;
const OP: usize = 4;
const SEALED: usize = 5;
const KEY_LEN: usize = 6;
const INDEX: usize = 8;
const REVISION: usize = 16;
const CREATED: usize = 24;

const OP_DELETE: u8 = 2;

/// What can be said of a record without opening it. Not proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct RecordHead<'a> {
    pub(in crate::embedded) revision: Revision,
    pub(in crate::embedded) created: Revision,
    pub(in crate::embedded) is_deletion: bool,
    pub(in crate::embedded) key: &'a [u8],
    index: u32,
    crc: u32,
}

/// Why a record is none, or stays shut.
#[derive(Debug)]
pub(in crate::embedded) enum NotOpened {
    /// It is not what was written.
    Rotten(&'static str),
    /// There is no keyring.
    NoKeyring,
    /// The keyring does not open it.
    Keyring(KeyringError),
}

// === impl RecordHead ===

impl<'a> RecordHead<'a> {
    /// Reads the head of a record.
    pub(in crate::embedded) fn read(record: &'a [u8]) -> Option<Self> {
        let key_len = u16::from_le_bytes(field(record, KEY_LEN)?);
        let end = HEADER_BYTES.checked_add(usize::from(key_len))?;
        Some(Self {
            revision: Revision(u64_at(record, REVISION)?),
            created: Revision(u64_at(record, CREATED)?),
            is_deletion: field(record, OP) == Some([OP_DELETE]),
            key: record.get(HEADER_BYTES..end)?,
            index: u32_at(record, INDEX)?,
            crc: u32_at(record, CRC)?,
        })
    }

    /// What it adds to the digest of its frame: a sum, so that records come and go in any order.
    pub(in crate::embedded) fn digest(&self) -> u64 {
        mix(mix(self.revision.0) ^ (u64::from(self.index) << 32) ^ u64::from(self.crc))
    }
}

/// The finaliser of splitmix64: every bit of the input moves half the bits of the output.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The record as it goes to disk: sealed where the keyring covers its key.
pub(in crate::embedded) fn to_disk<'a>(
    entry: &'a Entry,
    keyring: Option<&Keyring>,
) -> Result<Cow<'a, [u8]>, KeyringError> {
    let Some(keyring) = keyring.filter(|keyring| keyring.covers(entry.key())) else {
        return Ok(Cow::Borrowed(entry.record()));
    };
    seal(entry, keyring).map(Cow::Owned)
}

/// Whether the keyring would write a record otherwise than it stands there: it is plain, and its key is covered, or
/// another key than the first one has sealed it.
pub(in crate::embedded) fn is_stale(record: &[u8], keyring: &Keyring) -> bool {
    let Some(head) = RecordHead::read(record) else {
        return false;
    };
    if field(record, SEALED) != Some([1]) {
        return keyring.covers(head.key);
    }
    let value = HEADER_BYTES.saturating_add(head.key.len());
    KeyId::of_sealed(record.get(value..).unwrap_or_default()) != Some(keyring.sealing_key())
}

/// The record as the keyring would write it now. What is sealed stays sealed, be its key covered or not.
pub(in crate::embedded) fn renewed<'a>(
    record: &'a [u8],
    keyring: Option<&Keyring>,
) -> Result<Cow<'a, [u8]>, NotOpened> {
    match keyring.filter(|keyring| is_stale(record, keyring)) {
        None => Ok(Cow::Borrowed(record)),
        Some(keyring) => {
            let entry = from_disk(record, Some(keyring))?;
            let sealed = seal(&entry, keyring).map_err(NotOpened::Keyring)?;
            Ok(Cow::Owned(sealed))
        }
    }
}

fn seal(entry: &Entry, keyring: &Keyring) -> Result<Vec<u8>, KeyringError> {
    let head_len = HEADER_BYTES.saturating_add(entry.key().len());
    let mut record = entry.record().get(..head_len).unwrap_or_default().to_vec();
    put(&mut record, SEALED, [1]);
    let value = keyring.seal(record.get(CHECKED..).unwrap_or_default(), entry.value())?;
    record.extend_from_slice(&value);
    let crc = crc_of(&record, CHECKED..);
    put(&mut record, CRC, crc.to_le_bytes());
    Ok(record)
}

/// Reads a record from disk, and opens it where it is sealed.
pub(in crate::embedded) fn from_disk(
    record: &[u8],
    keyring: Option<&Keyring>,
) -> Result<Entry, NotOpened> {
    let decode = |record: &[u8]| {
        Entry::decode(record).map_err(|NotARecord(reason)| NotOpened::Rotten(reason))
    };
    if field(record, SEALED) != Some([1]) {
        return decode(record);
    }
    if u32_at(record, CRC) != Some(crc_of(record, CHECKED..)) {
        return Err(NotOpened::Rotten("checksum does not match"));
    }
    let key_len = field(record, KEY_LEN).map_or(0, u16::from_le_bytes);
    let head_len = HEADER_BYTES.saturating_add(usize::from(key_len));
    let (head, value) = record
        .split_at_checked(head_len)
        .ok_or(NotOpened::Rotten("key does not fit"))?;
    let keyring = keyring.ok_or(NotOpened::NoKeyring)?;
    let aad = head.get(CHECKED..).unwrap_or_default();
    let value = keyring.open(aad, value).map_err(NotOpened::Keyring)?;
    let mut plain = [head, &value].concat();
    put(&mut plain, SEALED, [0]);
    let crc = crc_of(&plain, CHECKED..);
    put(&mut plain, CRC, crc.to_le_bytes());
    decode(&plain)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::entry::{Draft, Op, Seal};

    const KEYS: &str = "first:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn entry(key: &[u8], value: &[u8]) -> Entry {
        let revision = Revision(1_000_000_000_000_009);
        Draft::new(Op::Put, key, value, None).seal(Seal {
            revision,
            created: revision,
            tag: 7,
            index: 1,
            count: 3,
        })
    }

    #[test]
    fn only_covered_values_are_sealed_and_all_read_back() {
        let keyring = Keyring::parse(KEYS).unwrap().covering("/secrets/");
        for (name, key, sealed) in [("covered", "/secrets/a", true), ("not", "/maps/a", false)] {
            let entry = entry(key.as_bytes(), b"hunter2");
            let record = to_disk(&entry, Some(&keyring)).unwrap();
            let shown = record.windows(7).any(|window| window == b"hunter2");
            assert_eq!(shown, !sealed, "{name}");
            assert_eq!(from_disk(&record, Some(&keyring)).unwrap(), entry, "{name}");
            let shut = from_disk(&record, None);
            assert_eq!(matches!(shut, Err(NotOpened::NoKeyring)), sealed, "{name}");
        }
    }

    #[test]
    fn a_sealed_record_notices_every_bit_and_cut() {
        let keyring = Keyring::parse(KEYS).unwrap().covering("");
        let record = to_disk(&entry(b"/a", b"value"), Some(&keyring))
            .unwrap()
            .into_owned();
        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(from_disk(&flipped, Some(&keyring)).is_err(), "bit {bit}");
        }
        for len in 0..record.len() {
            assert!(
                from_disk(&record[..len], Some(&keyring)).is_err(),
                "{len} bytes"
            );
        }
    }

    /// A value that is moved to another record with a right checksum, as an attacker would.
    #[test]
    fn a_sealed_value_opens_in_its_own_record_alone() {
        let keyring = Keyring::parse(KEYS).unwrap().covering("");
        let mut record = to_disk(&entry(b"/a", b"value"), Some(&keyring))
            .unwrap()
            .into_owned();
        record[HEADER_BYTES + 1] = b'b';
        let crc = crc_of(&record, CHECKED..);
        put(&mut record, CRC, crc.to_le_bytes());
        let moved = from_disk(&record, Some(&keyring));
        assert!(matches!(moved, Err(NotOpened::Keyring(_))), "{moved:?}");
    }
}
