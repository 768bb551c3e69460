//! A backup: the state of a store at one revision, in one file.
//!
//! ```text
//!   file    | magic 8 "WHBACKUP" | header frame | record frames, by key | footer frame |
//!
//!   frame   offset 0       4       8          one format for the file and for a page over HTTP
//!                  +-------+-------+---------+
//!                  | len   | crc32 | payload |  crc32 (IEEE) over the payload
//!                  +-------+-------+---------+
//!
//!   payload of the header   | 1 | JSON: version, storeId, revision, takenAt, sealed |
//!           of a record     | 2 | flags u8 | key len u16 | created u64 | modified u64 | tag u64 | key | value |
//!           of the footer   | 3 | count u64 | SHA-256 over the payloads before it |
//! ```
//!
//! Integers are little-endian. Flag 1 says that the value is sealed by a [`Keyring`]; what names the record is the
//! payload's bytes from the flags to the end of the key.
//!
//! # Invariants
//! - Keys rise strictly: the next page of a running hub begins behind the last one.
//! - A file without its footer is incomplete, and is never restored.
//! - All records are of one revision: it stands in the header, and no record is newer.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;
use std::io::{self, Read, Write};

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};

use crate::entry::Entry;
use crate::key::KEY_BYTES_MAX;
use crate::keyring::{Keyring, KeyringError};
use crate::revision::Revision;
use crate::store::VALUE_BYTES_MAX;

/// What a file begins with.
pub const MAGIC: &[u8; 8] = b"WHBACKUP";

/// Bytes in front of a payload.
const FRAME_HEAD_BYTES: usize = 8;
/// Bytes of a record's payload in front of its key.
const RECORD_HEAD_BYTES: usize = 28;
/// The longest payload: a record of the largest size, sealed.
const PAYLOAD_BYTES_MAX: usize = VALUE_BYTES_MAX + KEY_BYTES_MAX + 1024;
/// The longest header that is read.
const HEADER_BYTES_MAX: usize = 64 * 1024;

const KIND_HEADER: u8 = 1;
const KIND_RECORD: u8 = 2;
const KIND_FOOTER: u8 = 3;
const FLAG_SEALED: u8 = 1;

/// The state of one key in a backup.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Vec<u8>,
    /// The value, as stored.
    pub value: Vec<u8>,
    /// The revision in which the key came to be.
    pub created: Revision,
    /// The revision of this state.
    pub modified: Revision,
    /// What the writer attached.
    pub tag: u64,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// What the caller wrote at the beginning: JSON.
    Header(Vec<u8>),
    /// A record, opened where it was sealed.
    Record(Record),
    /// The end.
    Footer {
        /// How many records there are.
        count: u64,
    },
}

/// Why bytes are not a backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file cannot be read or written.
    #[error("cannot use the file")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it is no backup of a store")]
    NotABackup,
    /// It ends before its footer.
    #[error(
        "it is incomplete: its end is missing behind byte {whole_bytes}; take the backup again"
    )]
    Incomplete {
        /// How far it is whole.
        whole_bytes: u64,
    },
    /// Its bytes are not what was written.
    #[error("byte {offset} and what follows is corrupt: {reason}")]
    Corrupt {
        /// Where the frame begins.
        offset: u64,
        /// How it was noticed.
        reason: &'static str,
    },
    /// A value cannot be sealed or opened.
    #[error("the value of {key}")]
    Keyring {
        /// The record's key.
        key: String,
        /// Why not.
        #[source]
        source: KeyringError,
    },
    /// A value is sealed, and there is no keyring.
    #[error("the value of {key} is sealed; pass the key file")]
    NoKeyring {
        /// The record's key.
        key: String,
    },
}

/// Writes a backup.
#[derive(Debug)]
pub struct Writer<'k, W> {
    file: W,
    keyring: Option<&'k Keyring>,
    digest: Digest,
    count: u64,
    last: Option<Vec<u8>>,
}

/// Reads a backup.
#[derive(Debug)]
pub struct Reader<'k, R> {
    file: R,
    keyring: Option<&'k Keyring>,
    digest: Digest,
    count: u64,
    offset: u64,
    last: Option<Vec<u8>>,
}

/// The hash over all payloads, which `Debug` does not show.
#[derive(Clone)]
struct Digest(Context);

// === impl Record ===

impl Record {
    /// Appends the frame of a store's entry to a page, in plain.
    ///
    /// # Errors
    /// Never for what a store holds: [`BackupError::Corrupt`] for a key that is too long.
    pub fn append_entry(page: &mut Vec<u8>, entry: &Entry) -> Result<(), BackupError> {
        let payload = payload(
            entry.key(),
            entry.value(),
            [entry.created().0, entry.modified().0, entry.tag()],
            0,
        )?;
        frame(page, &payload)
    }

    fn payload(&self, keyring: Option<&Keyring>) -> Result<Vec<u8>, BackupError> {
        let numbers = [self.created.0, self.modified.0, self.tag];
        let Some(keyring) = keyring.filter(|keyring| keyring.covers(&self.key)) else {
            return payload(&self.key, &self.value, numbers, 0);
        };
        let names = payload(&self.key, &[], numbers, FLAG_SEALED)?;
        let aad = names.get(1..).unwrap_or_default();
        let sealed = keyring
            .seal(aad, &self.value)
            .map_err(|source| self.keyring_error(source))?;
        payload(&self.key, &sealed, numbers, FLAG_SEALED)
    }

    fn decode(payload: &[u8], keyring: Option<&Keyring>) -> Result<Self, Undecodable> {
        let mut rest = payload.get(1..).unwrap_or_default();
        let [flags] = take(&mut rest)?;
        let key_len = usize::from(u16::from_le_bytes(take(&mut rest)?));
        let created = Revision(u64::from_le_bytes(take(&mut rest)?));
        let modified = Revision(u64::from_le_bytes(take(&mut rest)?));
        let tag = u64::from_le_bytes(take(&mut rest)?);
        if flags & !FLAG_SEALED != 0 {
            return Err(Undecodable::Reason("unknown flags of a record"));
        }
        let (key, value) = rest
            .split_at_checked(key_len)
            .ok_or(Undecodable::Reason("a key longer than its record"))?;
        if key.len() > KEY_BYTES_MAX || created > modified {
            return Err(Undecodable::Reason("a record that no store holds"));
        }
        let mut record = Self {
            key: key.to_vec(),
            value: Vec::new(),
            created,
            modified,
            tag,
        };
        record.value = if flags & FLAG_SEALED == 0 {
            value.to_vec()
        } else {
            let names = payload.len().saturating_sub(value.len());
            let aad = payload.get(1..names).unwrap_or_default();
            let keyring = keyring.ok_or_else(|| BackupError::NoKeyring {
                key: record.shown(),
            })?;
            keyring
                .open(aad, value)
                .map_err(|source| record.keyring_error(source))?
        };
        Ok(record)
    }

    fn keyring_error(&self, source: KeyringError) -> BackupError {
        BackupError::Keyring {
            key: self.shown(),
            source,
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }
}

impl fmt::Debug for Record {
    /// Leaves the value out: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("key", &self.shown())
            .field("modified", &self.modified)
            .field("value_bytes", &self.value.len())
            .finish_non_exhaustive()
    }
}

/// Why a payload is no record: the reader knows the place.
enum Undecodable {
    Reason(&'static str),
    Error(BackupError),
}

impl From<BackupError> for Undecodable {
    fn from(error: BackupError) -> Self {
        Self::Error(error)
    }
}

// === impl Writer ===

impl<'k, W: Write> Writer<'k, W> {
    /// Begins a backup. `header` is JSON that says of which store and revision it is.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn begin(
        mut file: W,
        keyring: Option<&'k Keyring>,
        header: &[u8],
    ) -> Result<Self, BackupError> {
        file.write_all(MAGIC)?;
        let mut writer = Self {
            file,
            keyring,
            digest: Digest::new(),
            count: 0,
            last: None,
        };
        let mut payload = vec![KIND_HEADER];
        payload.extend_from_slice(header);
        writer.write(&payload)?;
        Ok(writer)
    }

    /// Writes a record; its value is sealed where the keyring covers its key.
    ///
    /// # Errors
    /// [`BackupError::Corrupt`] for a key that does not rise, and what the file or the keyring refuses.
    pub fn record(&mut self, record: &Record) -> Result<(), BackupError> {
        if self.last.as_ref().is_some_and(|last| *last >= record.key) {
            return Err(BackupError::Corrupt {
                offset: 0,
                reason: "the records do not come in the order of their keys",
            });
        }
        let payload = record.payload(self.keyring)?;
        self.write(&payload)?;
        self.count = self.count.saturating_add(1);
        self.last = Some(record.key.clone());
        Ok(())
    }

    /// The key of the last record.
    pub fn last(&self) -> Option<&[u8]> {
        self.last.as_deref()
    }

    /// Writes the footer, and gives the file back: it is whole once it is synced.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn finish(mut self) -> Result<(W, u64), BackupError> {
        let mut payload = vec![KIND_FOOTER];
        payload.extend_from_slice(&self.count.to_le_bytes());
        payload.extend_from_slice(&self.digest.value());
        self.write(&payload)?;
        self.file.flush()?;
        Ok((self.file, self.count))
    }

    fn write(&mut self, payload: &[u8]) -> Result<(), BackupError> {
        let mut bytes = Vec::with_capacity(payload.len().saturating_add(FRAME_HEAD_BYTES));
        frame(&mut bytes, payload)?;
        self.file.write_all(&bytes)?;
        self.digest.add(payload);
        Ok(())
    }
}

// === impl Reader ===

impl<'k, R: Read> Reader<'k, R> {
    /// Reads the beginning of a backup, and returns its header's JSON.
    ///
    /// # Errors
    /// [`BackupError::NotABackup`] for another file, and as [`Reader::next`].
    pub fn begin(
        mut file: R,
        keyring: Option<&'k Keyring>,
    ) -> Result<(Self, Vec<u8>), BackupError> {
        let mut magic = [0; MAGIC.len()];
        match file.read_exact(&mut magic) {
            Ok(()) if magic == *MAGIC => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
            _ => return Err(BackupError::NotABackup),
        }
        let mut reader = Self {
            file,
            keyring,
            digest: Digest::new(),
            count: 0,
            offset: MAGIC.len() as u64,
            last: None,
        };
        match reader.next()? {
            Frame::Header(header) => Ok((reader, header)),
            _ => Err(BackupError::NotABackup),
        }
    }

    /// Reads the next frame, and checks it against all before it. Nothing follows a footer.
    ///
    /// # Errors
    /// [`BackupError::Incomplete`] at the end of a file without a footer; [`BackupError::Corrupt`] with the place.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator cannot end with an error that ends it"
    )]
    pub fn next(&mut self) -> Result<Frame, BackupError> {
        let offset = self.offset;
        let corrupt = |reason| BackupError::Corrupt { offset, reason };
        let payload = self.payload()?;
        let frame = match payload.first() {
            Some(&KIND_HEADER) if self.last.is_none() => {
                Frame::Header(payload.get(1..).unwrap_or_default().to_vec())
            }
            Some(&KIND_RECORD) => {
                let record =
                    Record::decode(&payload, self.keyring).map_err(|error| match error {
                        Undecodable::Reason(reason) => corrupt(reason),
                        Undecodable::Error(error) => error,
                    })?;
                if self.last.as_ref().is_some_and(|last| *last >= record.key) {
                    return Err(corrupt("a key that does not rise"));
                }
                self.last = Some(record.key.clone());
                self.count = self.count.saturating_add(1);
                Frame::Record(record)
            }
            Some(&KIND_FOOTER) => Frame::Footer {
                count: self.footer(&payload).map_err(corrupt)?,
            },
            _ => return Err(corrupt("a frame of an unknown kind")),
        };
        self.digest.add(&payload);
        let bytes = payload.len().saturating_add(FRAME_HEAD_BYTES);
        self.offset = self.offset.saturating_add(bytes as u64);
        Ok(frame)
    }

    /// Reads a frame's payload; the file is incomplete where its end cuts a frame off.
    fn payload(&mut self) -> Result<Vec<u8>, BackupError> {
        let offset = self.offset;
        let incomplete = BackupError::Incomplete {
            whole_bytes: offset,
        };
        let mut head = [0; FRAME_HEAD_BYTES];
        if !fill(&mut self.file, &mut head)? {
            return Err(incomplete);
        }
        let mut rest = head.as_slice();
        let len = u32::from_le_bytes(take(&mut rest).unwrap_or([0; 4]));
        let crc = u32::from_le_bytes(take(&mut rest).unwrap_or([0; 4]));
        let limit = if self.count == 0 && self.last.is_none() {
            PAYLOAD_BYTES_MAX.max(HEADER_BYTES_MAX)
        } else {
            PAYLOAD_BYTES_MAX
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let corrupt = |reason| BackupError::Corrupt { offset, reason };
        if len > limit {
            return Err(corrupt("a frame of an impossible length"));
        }
        let mut payload = vec![0; len];
        if !fill(&mut self.file, &mut payload)? {
            return Err(incomplete);
        }
        if crc32fast::hash(&payload) != crc {
            return Err(corrupt("the checksum does not match"));
        }
        Ok(payload)
    }

    fn footer(&mut self, payload: &[u8]) -> Result<u64, &'static str> {
        let mut rest = payload.get(1..).unwrap_or_default();
        let count = take(&mut rest)
            .map(u64::from_le_bytes)
            .map_err(|_short| "a footer cut short")?;
        if count != self.count {
            return Err("the footer counts other records than there are");
        }
        if rest != self.digest.value().as_slice() {
            return Err("the records are not those that the footer was written for");
        }
        let mut behind = [0];
        match fill(&mut self.file, &mut behind) {
            Ok(false) => Ok(count),
            Ok(true) => Err("something follows the footer"),
            Err(_unreadable) => Err("what follows the footer cannot be read"),
        }
    }
}

// === impl Digest ===

impl Digest {
    fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    fn add(&mut self, payload: &[u8]) {
        self.0.update(payload);
    }

    fn value(&self) -> [u8; SHA256_OUTPUT_LEN] {
        let digest = self.0.clone().finish();
        digest
            .as_ref()
            .first_chunk()
            .copied()
            .unwrap_or([0; SHA256_OUTPUT_LEN])
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

/// Takes the records of a page apart, as [`Record::append_entry`] put them there.
///
/// # Errors
/// [`BackupError::Corrupt`], for a page that was cut off too.
pub fn records_of_page(page: &[u8]) -> Result<Vec<Record>, BackupError> {
    let mut reader = Reader {
        file: page,
        keyring: None,
        digest: Digest::new(),
        count: 0,
        offset: 0,
        last: None,
    };
    let mut records = Vec::new();
    while reader.offset < page.len() as u64 {
        match reader.next() {
            Ok(Frame::Record(record)) => records.push(record),
            Ok(_) => {
                return Err(BackupError::Corrupt {
                    offset: reader.offset,
                    reason: "a page with something else than records",
                });
            }
            Err(BackupError::Incomplete { whole_bytes }) => {
                return Err(BackupError::Corrupt {
                    offset: whole_bytes,
                    reason: "the page was cut off",
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(records)
}

fn payload(key: &[u8], value: &[u8], numbers: [u64; 3], flags: u8) -> Result<Vec<u8>, BackupError> {
    let key_len = u16::try_from(key.len()).map_err(|_too_long| BackupError::Corrupt {
        offset: 0,
        reason: "a key longer than any store takes",
    })?;
    let len = RECORD_HEAD_BYTES
        .saturating_add(key.len())
        .saturating_add(value.len());
    let mut payload = Vec::with_capacity(len);
    payload.extend_from_slice(&[KIND_RECORD, flags]);
    payload.extend_from_slice(&key_len.to_le_bytes());
    for number in numbers {
        payload.extend_from_slice(&number.to_le_bytes());
    }
    payload.extend_from_slice(key);
    payload.extend_from_slice(value);
    Ok(payload)
}

fn frame(bytes: &mut Vec<u8>, payload: &[u8]) -> Result<(), BackupError> {
    let len = u32::try_from(payload.len()).map_err(|_too_long| BackupError::Corrupt {
        offset: 0,
        reason: "a record longer than any store takes",
    })?;
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    bytes.extend_from_slice(payload);
    Ok(())
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Undecodable> {
    let (taken, left) = rest
        .split_first_chunk()
        .ok_or(Undecodable::Reason("a record cut short"))?;
    *rest = left;
    Ok(*taken)
}

/// Fills a buffer; `false` where the file ends before.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
