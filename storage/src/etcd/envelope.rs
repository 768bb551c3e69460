//! A value as etcd keeps it: what the writer said about it, in front of its bytes.
//!
//! ```text
//!   offset 0         1       2     4              8       16
//!          +---------+-------+-----+--------------+-------+---------------------+
//!          | version | flags | 0   | stamp offset | tag   | value, or sealed    |
//!          | u8 = 1  | u8    | u16 | u32          | u64   | rest                |
//!          +---------+-------+-----+--------------+-------+---------------------+
//! ```
//!
//! Integers are little-endian. Flag 2: the value is sealed, and bound to the sixteen bytes in front of it, to the store's id and
//! to its key. Stamp offset `0xFFFF_FFFF`: there is no stamp. The
//! revision's digits are put in when a value is received: its writer cannot know them.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::borrow::Cow;
use std::sync::Arc;

use crate::keyring::{Keyring, KeyringError};
use crate::store::{STAMP_BYTES, VALUE_BYTES_MAX};

const HEADER_BYTES: usize = 16;
const VERSION: u8 = 1;
const SEALED: u8 = 2;
const NO_STAMP: u32 = u32::MAX;

/// A value, and what is known about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    pub(crate) tag: u64,
    pub(crate) stamp: Option<usize>,
    pub(crate) value: Cow<'a, [u8]>,
}

/// What values of a store are sealed with.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    pub(crate) keyring: Arc<Keyring>,
    /// The store's id.
    pub(crate) store: String,
}

/// Why bytes are not an envelope, or cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvelopeError {
    /// Nobody of us wrote it.
    #[error("{0}")]
    Malformed(&'static str),
    /// It is sealed, and there are no keys.
    #[error("it is sealed, and there is no keyring")]
    NoKeyring,
    /// It is sealed, and the keys do not open it.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
}

// === impl Envelope ===

impl<'a> Envelope<'a> {
    /// Writes a value down; seals it where the keyring covers the key.
    pub(crate) fn encode(
        &self,
        key: &[u8],
        sealing: Option<&Sealing>,
    ) -> Result<Vec<u8>, KeyringError> {
        let sealing = sealing.filter(|sealing| sealing.keyring.covers(key));
        let header = self.header(if sealing.is_some() { SEALED } else { 0 });
        let mut bytes = header.to_vec();
        match sealing {
            Some(Sealing { keyring, store }) => {
                bytes.extend(keyring.seal(&bound_to(&header, store, key), &self.value)?);
            }
            None => bytes.extend_from_slice(&self.value),
        }
        Ok(bytes)
    }

    /// Reads a value that etcd keeps for a key.
    pub(crate) fn decode(
        bytes: &'a [u8],
        key: &[u8],
        sealing: Option<&Sealing>,
    ) -> Result<Self, EnvelopeError> {
        let malformed = EnvelopeError::Malformed;
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(malformed("shorter than its header"))?;
        let [version, flags, zero @ .., _, _, _, _, _, _, _, _] = header;
        if *version != VERSION {
            return Err(malformed("its version is not known"));
        }
        if !matches!(*flags, 0 | SEALED) {
            return Err(malformed("it has unknown flags"));
        }
        let [reserved @ .., a, b, c, d] = zero;
        if reserved != &[0, 0] {
            return Err(malformed("its reserved bytes are set"));
        }
        let stamp = u32::from_le_bytes([*a, *b, *c, *d]);
        let tag = header
            .last_chunk()
            .map_or(0, |tag| u64::from_le_bytes(*tag));
        let value = if *flags == 0 {
            Cow::Borrowed(rest)
        } else {
            let Sealing { keyring, store } = sealing.ok_or(EnvelopeError::NoKeyring)?;
            Cow::Owned(keyring.open(&bound_to(header, store, key), rest)?)
        };
        if value.len() > VALUE_BYTES_MAX {
            return Err(malformed("it is longer than any value"));
        }
        let stamp = (stamp != NO_STAMP).then(|| usize::try_from(stamp).unwrap_or(usize::MAX));
        let fits = |stamp: usize| {
            stamp
                .checked_add(STAMP_BYTES)
                .is_some_and(|end| end <= value.len())
        };
        if !stamp.is_none_or(fits) {
            return Err(malformed("its stamp does not fit into it"));
        }
        Ok(Self { tag, stamp, value })
    }

    fn header(&self, flags: u8) -> [u8; HEADER_BYTES] {
        let stamp = self
            .stamp
            .map_or(NO_STAMP, |stamp| u32::try_from(stamp).unwrap_or(NO_STAMP));
        let mut header = [0; HEADER_BYTES];
        let fields = [VERSION, flags, 0, 0]
            .into_iter()
            .chain(stamp.to_le_bytes())
            .chain(self.tag.to_le_bytes());
        for (place, byte) in header.iter_mut().zip(fields) {
            *place = byte;
        }
        header
    }
}

/// What a sealed value is bound to. Not to its revision, which its writer does not know.
/// The header has a fixed length and no id has an end of line, so two that differ give other bytes.
fn bound_to(header: &[u8], store: &str, key: &[u8]) -> Vec<u8> {
    [header, store.as_bytes(), b"\n", key].concat()
}

/// Writes down the last states of keys that one transaction deletes.
pub(crate) fn encode_last(states: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in states
        .iter()
        .flat_map(|(key, envelope)| [*key, envelope.as_slice()])
    {
        let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Finds the envelope of a key's last state; `None` where there is none, or where the bytes make no sense.
pub(crate) fn last_of<'a>(mut bytes: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    while !bytes.is_empty() {
        let (name, rest) = part(bytes)?;
        let (envelope, rest) = part(rest)?;
        if name == key {
            return Some(envelope);
        }
        bytes = rest;
    }
    None
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: &str = "one:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\n";

    fn sealing(store: &str) -> Sealing {
        Sealing {
            keyring: Arc::new(Keyring::parse(KEYS).unwrap().covering("/secrets/")),
            store: store.to_owned(),
        }
    }

    fn envelope(value: &'static [u8], stamp: Option<usize>) -> Envelope<'static> {
        Envelope {
            tag: 7,
            stamp,
            value: Cow::Borrowed(value),
        }
    }

    #[test]
    fn an_envelope_reads_back_as_it_was_written() {
        let sealing = sealing("one");
        for (name, key, value, stamp) in [
            ("plain", &b"/a"[..], &b"some value"[..], None),
            ("empty", b"/a", b"", None),
            ("stamped", b"/a", b"v=................", Some(2)),
            ("sealed", b"/secrets/a", b"v=................", Some(2)),
        ] {
            let written = envelope(value, stamp);
            let bytes = written.encode(key, Some(&sealing)).unwrap();
            let read = Envelope::decode(&bytes, key, Some(&sealing)).unwrap();
            assert_eq!(read, written, "{name}");
            let shown = bytes.windows(value.len().max(1)).any(|part| part == value);
            assert_eq!(shown, name != "sealed" && !value.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_sealed_value_opens_only_under_its_key_header_and_store() {
        let here = sealing("one");
        let there = sealing("two");
        let bytes = envelope(b"hunter2", None)
            .encode(b"/secrets/a", Some(&here))
            .unwrap();
        let with = |at: usize, byte| {
            let mut bytes = bytes.clone();
            let place = bytes.get_mut(at..).and_then(<[u8]>::first_mut);
            *place.unwrap() = byte;
            bytes
        };
        let opened = Envelope::decode(&bytes, b"/secrets/a", Some(&here)).unwrap();
        assert_eq!(&*opened.value, b"hunter2");
        for (name, bytes, key, sealing) in [
            ("another key", bytes.clone(), "/secrets/b", &here),
            ("another store", bytes.clone(), "/secrets/a", &there),
            ("another tag", with(8, 8), "/secrets/a", &here),
        ] {
            let refused = Envelope::decode(&bytes, key.as_bytes(), Some(sealing));
            let is_altered = matches!(refused, Err(EnvelopeError::Keyring(_)));
            assert!(is_altered, "{name}: {refused:?}");
        }
        let unbound = with(1, 1);
        let unknown = Envelope::decode(&unbound, b"/secrets/a", Some(&here));
        assert!(matches!(unknown, Err(EnvelopeError::Malformed(_))));
        let without = Envelope::decode(&bytes, b"/secrets/a", None);
        assert!(matches!(without, Err(EnvelopeError::NoKeyring)));
    }

    #[test]
    fn last_states_are_found_by_their_keys() {
        let bytes = encode_last(&[(b"/a", b"1".to_vec()), (b"/b", Vec::new())]);
        assert_eq!(last_of(&bytes, b"/a"), Some(&b"1"[..]));
        assert_eq!(last_of(&bytes, b"/b"), Some(&b""[..]));
        assert_eq!(last_of(&bytes, b"/c"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoders_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let sealing = sealing("one");
            drop(Envelope::decode(&bytes, b"/a", Some(&sealing)));
            last_of(&bytes, b"/a");
            for flags in 0..4 {
                let mut known = vec![VERSION, flags, 0, 0];
                known.extend(&bytes);
                drop(Envelope::decode(&known, b"/a", Some(&sealing)));
            }
        }
    }
}
