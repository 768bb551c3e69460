//! The manifest: which segments there are, and what each sealed one holds.

use super::segment::LOG_FOLDER;
use super::{FORMAT, SECTOR_BYTES, StoreId, crc_of, field, put, segment_name, u32_at, u64_at};
use crate::revision::Revision;

const MAGIC: [u8; 8] = *b"WHMANIF\n";
const CRC: usize = 8;
const CHECKED: usize = 12;
const HEAD_BYTES: usize = 80;
const ENTRY_BYTES: usize = 64;

/// What the log is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Manifest {
    pub(in crate::embedded) store: StoreId,
    pub(in crate::embedded) epoch: u64,
    pub(in crate::embedded) floor: Revision,
    pub(in crate::embedded) revision: Revision,
    /// That of the last sealed frame.
    pub(in crate::embedded) sequence: u64,
    /// Number and size; `None` where everything is sealed.
    pub(in crate::embedded) active: Option<(u32, u32)>,
    /// In the order of the log.
    pub(in crate::embedded) sealed: Vec<Sealed>,
}

/// A segment that is not written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Sealed {
    pub(in crate::embedded) number: u32,
    pub(in crate::embedded) generation: u32,
    pub(in crate::embedded) tally: Tally,
    /// Up to here nothing in it is superseded by anything up to here.
    pub(in crate::embedded) swept: Revision,
}

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Tally {
    /// Where the next frame would be.
    pub(in crate::embedded) end: u32,
    pub(in crate::embedded) frames: u32,
    pub(in crate::embedded) count: u32,
    /// The sequence before the first frame, and that of the last one.
    pub(in crate::embedded) previous: u64,
    pub(in crate::embedded) last: u64,
    /// The latest revision as of the last frame.
    pub(in crate::embedded) revision: Revision,
    pub(in crate::embedded) digest: u64,
}

// === impl Manifest ===

impl Manifest {
    /// Lays it out.
    pub(in crate::embedded) fn encode(&self) -> Vec<u8> {
        let size = HEAD_BYTES.saturating_add(self.sealed.len().saturating_mul(ENTRY_BYTES));
        let mut bytes = vec![0; HEAD_BYTES];
        bytes.reserve_exact(size.saturating_sub(HEAD_BYTES));
        let (active, active_size) = self.active.unwrap_or_default();
        let count = u32::try_from(self.sealed.len()).expect("segments are numbered with 32 bits");
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, CHECKED, FORMAT.to_le_bytes());
        put(&mut bytes, 16, self.store);
        put(&mut bytes, 32, self.epoch.to_le_bytes());
        put(&mut bytes, 40, self.floor.0.to_le_bytes());
        put(&mut bytes, 48, self.revision.0.to_le_bytes());
        put(&mut bytes, 56, self.sequence.to_le_bytes());
        put(&mut bytes, 64, active.to_le_bytes());
        put(&mut bytes, 68, active_size.to_le_bytes());
        put(&mut bytes, 72, count.to_le_bytes());
        for sealed in &self.sealed {
            bytes.extend_from_slice(&sealed.encode());
        }
        let crc = crc_of(&bytes, CHECKED..);
        put(&mut bytes, CRC, crc.to_le_bytes());
        bytes
    }

    /// Reads one, and proves what it says of itself.
    pub(in crate::embedded) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        const CUT: &str = "it is cut";
        if field(bytes, 0) != Some(MAGIC) {
            return Err("it is no manifest");
        }
        if u32_at(bytes, CRC) != Some(crc_of(bytes, CHECKED..)) {
            return Err("checksum does not match");
        }
        if u32_at(bytes, CHECKED) != Some(FORMAT) {
            return Err("it is of another format");
        }
        if u32_at(bytes, 76) != Some(0) {
            return Err("reserved bytes are set");
        }
        let head = |offset| u64_at(bytes, offset).ok_or(CUT);
        let active = (u32_at(bytes, 64).ok_or(CUT)?, u32_at(bytes, 68).ok_or(CUT)?);
        let count = u32_at(bytes, 72).ok_or(CUT)?;
        let (entries, rest) = bytes
            .get(HEAD_BYTES..)
            .ok_or(CUT)?
            .as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() || u32::try_from(entries.len()) != Ok(count) {
            return Err("its length is another than it says");
        }
        let manifest = Self {
            store: field(bytes, 16).ok_or(CUT)?,
            epoch: head(32)?,
            floor: Revision(head(40)?),
            revision: Revision(head(48)?),
            sequence: head(56)?,
            active: (active != (0, 0)).then_some(active),
            sealed: entries
                .iter()
                .map(|entry| Sealed::decode(entry))
                .collect::<Option<_>>()
                .ok_or("an entry makes no sense")?,
        };
        manifest.prove()?;
        Ok(manifest)
    }

    /// The names of the segments that it knows.
    pub(in crate::embedded) fn names(&self) -> impl Iterator<Item = String> {
        let sealed = self.sealed.iter().map(Sealed::name);
        let active = self.active.map(|(number, _)| segment_name(number, 0));
        sealed.chain(active)
    }

    /// The greatest number of a segment.
    pub(in crate::embedded) fn number(&self) -> u32 {
        let sealed = self.sealed.last().map_or(0, |sealed| sealed.number);
        self.active.map_or(sealed, |(number, _)| number)
    }

    fn prove(&self) -> Result<(), &'static str> {
        let mut before = (0, 0, Revision(0));
        for sealed in &self.sealed {
            let Tally {
                previous,
                last,
                revision,
                ..
            } = sealed.tally;
            let follows = sealed.number > before.0 && previous >= before.1 && revision >= before.2;
            if !follows || last <= previous || revision > self.revision {
                return Err("its entries are not in order");
            }
            before = (sealed.number, last, revision);
        }
        if self.sequence < before.1 {
            return Err("its sequence is behind its segments");
        }
        if self.active.is_some_and(|(number, _)| number <= before.0) {
            return Err("its active segment is behind the sealed ones");
        }
        if self.floor > self.revision || self.revision.epoch() != self.epoch {
            return Err("its revisions make no sense");
        }
        if !self.revision.is_of_a_hub() {
            return Err("its epoch lies outside the number line");
        }
        Ok(())
    }
}

// === impl Sealed ===

impl Sealed {
    /// The name of its file.
    pub(in crate::embedded) fn name(&self) -> String {
        segment_name(self.number, self.generation)
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let tally = &self.tally;
        put(&mut bytes, 0, self.number.to_le_bytes());
        put(&mut bytes, 4, self.generation.to_le_bytes());
        put(&mut bytes, 8, tally.end.to_le_bytes());
        put(&mut bytes, 12, tally.frames.to_le_bytes());
        put(&mut bytes, 16, tally.previous.to_le_bytes());
        put(&mut bytes, 24, tally.last.to_le_bytes());
        put(&mut bytes, 32, tally.revision.0.to_le_bytes());
        put(&mut bytes, 40, self.swept.0.to_le_bytes());
        put(&mut bytes, 48, tally.digest.to_le_bytes());
        put(&mut bytes, 56, tally.count.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let tally = Tally {
            end: u32_at(bytes, 8)?,
            frames: u32_at(bytes, 12)?,
            previous: u64_at(bytes, 16)?,
            last: u64_at(bytes, 24)?,
            revision: Revision(u64_at(bytes, 32)?),
            digest: u64_at(bytes, 48)?,
            count: u32_at(bytes, 56)?,
        };
        let sealed = Self {
            number: u32_at(bytes, 0)?,
            generation: u32_at(bytes, 4)?,
            tally,
            swept: Revision(u64_at(bytes, 40)?),
        };
        let whole = usize::try_from(tally.end)
            .ok()?
            .is_multiple_of(SECTOR_BYTES);
        (whole && tally.end > 0 && u32_at(bytes, 60) == Some(0)).then_some(sealed)
    }
}

// === impl Tally ===

impl Tally {
    /// That of a segment without frames, behind a frame.
    pub(in crate::embedded) fn empty(sequence: u64, revision: Revision) -> Self {
        Self {
            end: u32::try_from(SECTOR_BYTES).expect("a sector is small"),
            frames: 0,
            count: 0,
            previous: sequence,
            last: sequence,
            revision,
            digest: 0,
        }
    }
}

/// Whether a file lies where the segments do.
pub(in crate::embedded) fn is_in_log(name: &str) -> bool {
    name.strip_prefix(LOG_FOLDER)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Makes the checksum right of what begins like a manifest.
#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::embedded) fn mend(bytes: &mut [u8]) {
    let crc = crc_of(bytes, CHECKED..);
    if bytes.len() >= CHECKED {
        put(bytes, CRC, crc.to_le_bytes());
    }
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test may panic"
)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let start = Revision::start_of_epoch(Revision::EPOCH_FIRST).unwrap();
        let tally = |previous, last| Tally {
            end: 4096,
            frames: 3,
            count: 9,
            previous,
            last,
            revision: Revision(start.0 + last),
            digest: 99,
        };
        let sealed = |number, generation, tally| Sealed {
            number,
            generation,
            tally,
            swept: start,
        };
        Manifest {
            store: *b"0123456789abcdef",
            epoch: Revision::EPOCH_FIRST,
            floor: start,
            revision: Revision(start.0 + 9),
            sequence: 8,
            active: Some((5, 1 << 20)),
            sealed: vec![sealed(1, 0, tally(0, 3)), sealed(4, 2, tally(4, 8))],
        }
    }

    #[test]
    fn a_manifest_reads_back_and_notices_every_bit_and_cut() {
        let bytes = manifest().encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&flipped).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_manifest_that_contradicts_itself_is_none() {
        type Change = fn(&mut Manifest);
        let cases: [(&str, Change); 7] = [
            ("segments out of order", |m| m.sealed.swap(0, 1)),
            ("an active one among the sealed", |m| {
                m.active = Some((4, 1 << 20));
            }),
            ("a sequence of the past", |m| m.sequence = 7),
            ("a floor of the future", |m| {
                m.floor = Revision(m.revision.0 + 1);
            }),
            ("another epoch", |m| m.epoch += 1),
            ("no hub's revision", |m| {
                (m.epoch, m.floor, m.revision) = (0, Revision(1), Revision(1));
                m.sealed.clear();
            }),
            ("frames out of order", |m| m.sealed[1].tally.previous = 2),
        ];
        for (name, change) in cases {
            let mut changed = manifest();
            change(&mut changed);
            assert!(Manifest::decode(&changed.encode()).is_err(), "{name}");
        }
    }
}
