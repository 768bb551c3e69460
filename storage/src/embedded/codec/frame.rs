//! A frame: one group of records, and what tells a torn one from a rotten one.
//!
//! # Invariants
//! - A frame that was laid out is whole sectors, none of which is needed by another frame.
//! - [`look`] says [`Look::Frame`] only where every sector, the table and the head check, and the frame
//!   lies where it says.
//! - It says [`Look::Torn`] only for what a cut-off write can leave: a failing sector of zeros, or an end of zeros.

use super::record::RecordHead;
use super::segment::Place;
use super::{SECTOR_BYTES, crc_of, field, is_zero, put, u32_at, u64_at};
use crate::revision::Revision;

/// The most that one frame holds: the largest group with what sealing adds, twice.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

const MAGIC: [u8; 4] = *b"WHF2";
const HEAD_MARK: [u8; 4] = *b"HEAD";
const END_MARK: [u8; 4] = *b"END2";

const CRC: usize = 4;
const KIND: usize = 8;
const NUMBER: usize = 12;
const STORE: usize = 16;
const GENERATION: usize = 24;
const POSITION: usize = 28;
const SEQUENCE: usize = 32;
const PREVIOUS: usize = 40;
const FLOOR: usize = 48;
const REVISION: usize = 56;
const BODY: usize = 64;
const COUNT: usize = 68;
const TABLE_CRC: usize = 72;
const ZERO: usize = 76;
const DIGEST: usize = 80;
const TABLE: usize = 88;
const MARK: usize = 508;

const CRC_BYTES: usize = 4;

/// Sectors of a body whose checksums fit into the first sector.
const INLINE_MAX: usize = (MARK - TABLE) / CRC_BYTES;

/// Room for the longest head, in front of the body.
const HEAD_ROOM: usize =
    SECTOR_BYTES + ((BODY_BYTES_MAX / SECTOR_BYTES + 1) * CRC_BYTES).next_multiple_of(SECTOR_BYTES);

/// A buffer that grew beyond this for one group is given back.
const BUFFER_BYTES_KEPT: usize = 2 * 1024 * 1024;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Kind {
    /// A group as it was committed.
    Group,
    /// What a rewriting kept.
    Kept,
}

/// What the log decides about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Facts {
    pub(in crate::embedded) kind: Kind,
    pub(in crate::embedded) sequence: u64,
    pub(in crate::embedded) previous: u64,
    pub(in crate::embedded) floor: Revision,
    pub(in crate::embedded) revision: Revision,
}

/// Lays frames out, one after the other, in one buffer: room for the head, then the body.
#[derive(Debug)]
pub(in crate::embedded) struct FrameBuilder {
    bytes: Vec<u8>,
    count: u32,
    digest: u64,
}

/// A frame that checks.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) struct Frame<'a> {
    pub(in crate::embedded) facts: Facts,
    pub(in crate::embedded) count: u32,
    pub(in crate::embedded) digest: u64,
    /// Where the next frame would be.
    pub(in crate::embedded) end: usize,
    body: &'a [u8],
}

/// The records of a frame.
#[derive(Clone, Debug)]
pub(in crate::embedded) struct Records<'a>(&'a [u8]);

/// What there is at a place of a segment.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) enum Look<'a> {
    /// A sector of zeros, or the end of the file.
    End,
    /// A frame that was never acknowledged.
    Torn,
    /// Something that was whole once.
    Rotten(&'static str),
    /// A frame.
    Frame(Frame<'a>),
}

/// Looks at the place of a segment where a frame may begin.
pub(in crate::embedded) fn look<'a>(segment: &'a [u8], position: usize, place: &Place) -> Look<'a> {
    let Some(rest) = segment.get(position..) else {
        return Look::End;
    };
    let Some(first) = rest.get(..SECTOR_BYTES) else {
        return Look::End;
    };
    if is_zero(first) {
        return Look::End;
    }
    let Some(kind) = checked_kind(first) else {
        return if is_cut(field(first, MARK), HEAD_MARK) {
            Look::Torn
        } else {
            Look::Rotten("the head of a frame does not check")
        };
    };
    let Some(head) = Head::read(first, kind) else {
        return Look::Rotten("the head of a frame is cut");
    };
    if !head.is_at(place, position) {
        return Look::Rotten("a frame lies where another one belongs");
    }
    head.look_behind(rest, position)
}

/// Finds a frame behind a place, wherever a sector begins.
pub(in crate::embedded) fn find_frame(segment: &[u8], from: usize, place: &Place) -> Option<usize> {
    let mut position = from;
    while let Some(magic) = field::<4>(segment, position) {
        if magic == MAGIC && matches!(look(segment, position, place), Look::Frame(_)) {
            return Some(position);
        }
        position = position.checked_add(SECTOR_BYTES)?;
    }
    None
}

/// What a head says, once it checks.
struct Head {
    facts: Facts,
    number: u32,
    store: [u8; 8],
    generation: u32,
    position: u32,
    body: usize,
    count: u32,
    table_crc: u32,
    digest: u64,
    /// The table, where it lies in the first sector.
    inline: [u8; MARK - TABLE],
}

/// The kind of a frame whose first sector checks.
fn checked_kind(first: &[u8]) -> Option<Kind> {
    let checks = field(first, 0) == Some(MAGIC)
        && field(first, MARK) == Some(HEAD_MARK)
        && u32_at(first, CRC) == Some(crc_of(first, KIND..MARK))
        && u32_at(first, ZERO) == Some(0);
    let [code, zeros @ ..] = field::<4>(first, KIND)?;
    (checks && zeros == [0; 3])
        .then(|| Kind::of(code))
        .flatten()
}

/// Whether a mark is what a cut-off write leaves of it: a beginning, or nothing, then zeros.
fn is_cut(found: Option<[u8; 4]>, whole: [u8; 4]) -> bool {
    let Some(found) = found else {
        return false;
    };
    let beginning = found
        .iter()
        .zip(whole)
        .take_while(|(a, b)| **a == *b)
        .count();
    let rest = found.get(beginning..).unwrap_or_default();
    !rest.is_empty() && is_zero(rest)
}

/// How many sectors a body has, and how many the table has behind the first one.
fn sectors_of(body: usize) -> (usize, usize) {
    if body == 0 {
        return (0, 0);
    }
    let sectors = body.saturating_add(END_MARK.len()).div_ceil(SECTOR_BYTES);
    let table = if sectors <= INLINE_MAX {
        0
    } else {
        sectors.saturating_mul(CRC_BYTES).div_ceil(SECTOR_BYTES)
    };
    (sectors, table)
}

// === impl Kind ===

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Group => 1,
            Self::Kept => 2,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Group),
            2 => Some(Self::Kept),
            _ => None,
        }
    }
}

// === impl Head ===

impl Head {
    fn read(first: &[u8], kind: Kind) -> Option<Self> {
        let facts = Facts {
            kind,
            sequence: u64_at(first, SEQUENCE)?,
            previous: u64_at(first, PREVIOUS)?,
            floor: Revision(u64_at(first, FLOOR)?),
            revision: Revision(u64_at(first, REVISION)?),
        };
        Some(Self {
            facts,
            number: u32_at(first, NUMBER)?,
            store: field(first, STORE)?,
            generation: u32_at(first, GENERATION)?,
            position: u32_at(first, POSITION)?,
            body: usize::try_from(u32_at(first, BODY)?).ok()?,
            count: u32_at(first, COUNT)?,
            table_crc: u32_at(first, TABLE_CRC)?,
            digest: u64_at(first, DIGEST)?,
            inline: field(first, TABLE)?,
        })
    }

    fn is_at(&self, place: &Place, position: usize) -> bool {
        self.number == place.number
            && self.generation == place.generation
            && Some(self.store) == field(&place.store, 0)
            && usize::try_from(self.position) == Ok(position)
    }

    /// Checks table and body.
    fn look_behind<'a>(&self, rest: &'a [u8], position: usize) -> Look<'a> {
        const BEYOND: Look<'static> = Look::Rotten("a frame reaches beyond its segment");
        if self.body > BODY_BYTES_MAX {
            return BEYOND;
        }
        let (sectors, table_sectors) = sectors_of(self.body);
        let body_start = table_sectors.saturating_add(1).saturating_mul(SECTOR_BYTES);
        let len = body_start.saturating_add(sectors.saturating_mul(SECTOR_BYTES));
        let (Some(table), Some(body)) = (
            rest.get(SECTOR_BYTES..body_start),
            rest.get(body_start..len),
        ) else {
            return BEYOND;
        };
        // The end of the body, or nothing where there is none.
        let cut = is_cut(body.last_chunk().copied(), END_MARK);
        let broken = |torn: bool, reason| {
            if torn || cut {
                Look::Torn
            } else {
                Look::Rotten(reason)
            }
        };
        if table_sectors == 0 && self.table_crc != 0 {
            return Look::Rotten("a frame has two tables");
        }
        if table_sectors > 0 && self.table_crc != crc32fast::hash(table) {
            let torn = table
                .as_chunks::<SECTOR_BYTES>()
                .0
                .iter()
                .any(|s| is_zero(s));
            return broken(torn, "the table of a frame does not check");
        }
        let crcs = if table_sectors == 0 {
            &self.inline[..]
        } else {
            table
        };
        let failing = || {
            let sums = crcs.as_chunks::<CRC_BYTES>().0;
            let sectors = body.as_chunks::<SECTOR_BYTES>().0;
            sectors
                .iter()
                .zip(sums)
                .filter(|(sector, sum)| crc32fast::hash(*sector) != u32::from_le_bytes(**sum))
        };
        if failing().next().is_some() {
            let torn = failing().any(|(sector, _)| is_zero(sector));
            return broken(torn, "a sector of a frame does not check");
        }
        let ends = body.is_empty() || body.last_chunk() == Some(&END_MARK);
        let Some(records) = body.get(..self.body).filter(|_| ends) else {
            return Look::Rotten("a frame has no end");
        };
        let sums = sectors.saturating_mul(CRC_BYTES);
        let unused = [
            self.inline.get(if table.is_empty() { sums } else { 0 }..),
            table.get(sums..),
            body.get(self.body..body.len().saturating_sub(END_MARK.len())),
        ];
        if !unused.into_iter().flatten().all(is_zero) {
            return Look::Rotten("something stands where a frame has zeros");
        }
        Look::Frame(Frame {
            facts: self.facts,
            count: self.count,
            digest: self.digest,
            end: position.saturating_add(len),
            body: records,
        })
    }
}

// === impl Frame ===

impl<'a> Frame<'a> {
    /// Its records, whose lengths are not to be trusted before they were asked for.
    pub(in crate::embedded) fn records(&self) -> Records<'a> {
        Records(self.body)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<&'a [u8], &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let body = std::mem::take(&mut self.0);
        let record = body.split_first_chunk().and_then(|(len, rest)| {
            let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
            rest.split_at_checked(len)
        });
        let Some((record, rest)) = record else {
            return Some(Err("a record reaches beyond its frame"));
        };
        self.0 = rest;
        Some(Ok(record))
    }
}

// === impl FrameBuilder ===

impl Default for FrameBuilder {
    fn default() -> Self {
        Self {
            bytes: vec![0; HEAD_ROOM],
            count: 0,
            digest: 0,
        }
    }
}

impl FrameBuilder {
    /// Adds a record, as it is to be on disk.
    pub(in crate::embedded) fn push(&mut self, record: &[u8]) {
        let len = u32::try_from(record.len()).expect("values are bounded when they are proposed");
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(record);
        self.count = self.count.saturating_add(1);
        let digest = RecordHead::read(record).map_or(0, |head| head.digest());
        self.digest = self.digest.wrapping_add(digest);
    }

    /// The bytes of the records so far.
    pub(in crate::embedded) fn body(&self) -> usize {
        self.bytes.len().saturating_sub(HEAD_ROOM)
    }

    /// How many records there are so far, and the sum of their digests.
    pub(in crate::embedded) fn tally(&self) -> (u32, u64) {
        (self.count, self.digest)
    }

    /// How long the frame will be.
    pub(in crate::embedded) fn len(&self) -> usize {
        let (sectors, table) = sectors_of(self.body());
        let whole = sectors.saturating_add(table).saturating_add(1);
        whole.saturating_mul(SECTOR_BYTES)
    }

    /// Closes the frame, for its place.
    pub(in crate::embedded) fn finish(
        &mut self,
        place: &Place,
        position: usize,
        facts: Facts,
    ) -> &[u8] {
        let body = self.body();
        assert!(
            body <= BODY_BYTES_MAX,
            "groups are bounded when they are taken"
        );
        let (sectors, table_sectors) = sectors_of(body);
        if let Some(zeros) = sectors
            .saturating_mul(SECTOR_BYTES)
            .saturating_add(HEAD_ROOM)
            .checked_sub(END_MARK.len())
            .filter(|_| sectors > 0)
        {
            self.bytes.resize(zeros, 0);
            self.bytes.extend_from_slice(&END_MARK);
        }
        let (count, digest) = self.tally();
        let (room, body_sectors) = self
            .bytes
            .split_at_mut_checked(HEAD_ROOM)
            .expect("the room is there from the beginning");
        let head_len = table_sectors.saturating_add(1).saturating_mul(SECTOR_BYTES);
        let start = HEAD_ROOM.saturating_sub(head_len);
        let head = room.get_mut(start..).expect("the room holds every head");
        head.fill(0);
        let (first, table) = head
            .split_at_mut_checked(SECTOR_BYTES)
            .expect("a head has a sector");
        let target = if table.is_empty() {
            first.get_mut(TABLE..MARK).expect("it lies in the sector")
        } else {
            &mut *table
        };
        let sums = target.as_chunks_mut::<CRC_BYTES>().0;
        for (sum, sector) in sums
            .iter_mut()
            .zip(body_sectors.as_chunks::<SECTOR_BYTES>().0)
        {
            *sum = crc32fast::hash(sector).to_le_bytes();
        }
        let table_crc = if table.is_empty() {
            0
        } else {
            crc32fast::hash(table)
        };
        let body = u32::try_from(body).expect("it was just bounded");
        let position = u32::try_from(position).expect("segments are bounded");
        put(first, 0, MAGIC);
        put(first, KIND, [facts.kind.code(), 0, 0, 0]);
        put(first, NUMBER, place.number.to_le_bytes());
        put(
            first,
            STORE,
            field::<8>(&place.store, 0).expect("it has sixteen"),
        );
        put(first, GENERATION, place.generation.to_le_bytes());
        put(first, POSITION, position.to_le_bytes());
        put(first, SEQUENCE, facts.sequence.to_le_bytes());
        put(first, PREVIOUS, facts.previous.to_le_bytes());
        put(first, FLOOR, facts.floor.0.to_le_bytes());
        put(first, REVISION, facts.revision.0.to_le_bytes());
        put(first, BODY, body.to_le_bytes());
        put(first, COUNT, count.to_le_bytes());
        put(first, TABLE_CRC, table_crc.to_le_bytes());
        put(first, DIGEST, digest.to_le_bytes());
        put(first, MARK, HEAD_MARK);
        let crc = crc_of(first, KIND..MARK);
        put(first, CRC, crc.to_le_bytes());
        self.bytes.get(start..).unwrap_or_default()
    }

    /// Begins the next frame.
    pub(in crate::embedded) fn clear(&mut self) {
        self.bytes.truncate(HEAD_ROOM);
        self.bytes.shrink_to(BUFFER_BYTES_KEPT);
        (self.count, self.digest) = (0, 0);
    }
}

/// Makes the checksums of everything right that begins like a frame.
#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::embedded) fn mend(segment: &mut [u8]) {
    for position in (0..segment.len()).step_by(SECTOR_BYTES) {
        let Some((_, rest)) = segment.split_at_mut_checked(position) else {
            return;
        };
        if field(rest, 0) != Some(MAGIC) || rest.len() < SECTOR_BYTES {
            continue;
        }
        let body = u32_at(rest, BODY).and_then(|body| usize::try_from(body).ok());
        let (sectors, table_sectors) = sectors_of(body.unwrap_or(0).min(BODY_BYTES_MAX));
        let body_start = table_sectors.saturating_add(1).saturating_mul(SECTOR_BYTES);
        if let Some((head, bytes)) = rest.split_at_mut_checked(body_start)
            && let Some(records) = bytes.get_mut(..body.unwrap_or(0))
        {
            let (count, digest) = mend_records(records);
            put(head, COUNT, count.to_le_bytes());
            put(head, DIGEST, digest.to_le_bytes());
        }
        if let Some((head, body)) = rest.split_at_mut_checked(body_start) {
            let table = if table_sectors == 0 {
                TABLE
            } else {
                SECTOR_BYTES
            };
            for (n, sector) in body
                .as_chunks::<SECTOR_BYTES>()
                .0
                .iter()
                .take(sectors)
                .enumerate()
            {
                let at = table.saturating_add(n.saturating_mul(CRC_BYTES));
                put(head, at, crc32fast::hash(sector).to_le_bytes());
            }
            if let Some(table) = head.get(SECTOR_BYTES..).filter(|table| !table.is_empty()) {
                let crc = crc32fast::hash(table);
                put(head, TABLE_CRC, crc.to_le_bytes());
            }
        }
        put(rest, MARK, HEAD_MARK);
        let crc = crc_of(rest, KIND..MARK);
        put(rest, CRC, crc.to_le_bytes());
    }
}

/// Makes the checksums of records right, and returns their count and digest.
#[cfg(any(test, feature = "fuzzing"))]
fn mend_records(mut body: &mut [u8]) -> (u32, u64) {
    let (mut count, mut digest) = (0_u32, 0_u64);
    while let Some((len, rest)) = body.split_first_chunk_mut::<4>() {
        let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
        let Some((record, behind)) = rest.split_at_mut_checked(len) else {
            break;
        };
        let crc = crc_of(record, CRC_BYTES..);
        if let Some(place) = record.first_chunk_mut() {
            *place = crc.to_le_bytes();
        }
        count = count.saturating_add(1);
        digest = digest.wrapping_add(RecordHead::read(record).map_or(0, |head| head.digest()));
        body = behind;
    }
    (count, digest)
}

#[cfg(test)]
mod tests;
