//! What the bytes of format 2 mean, as `docs/storage-format.md` draws them.

/// What a disk writes as a whole or not at all.
pub(super) const SECTOR: usize = 512;
/// Sums that fit into a frame's first sector.
const TABLE_INLINE_COUNT: usize = 105;
/// Where a frame's first sector has its mark.
const MARK: usize = 508;
const MANIFEST_HEAD_BYTES: usize = 80;
const MANIFEST_ENTRY_BYTES: usize = 64;
const RECORD_HEAD_BYTES: usize = 40;
/// The longest body of a frame.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
const KEY_BYTES_MAX: usize = 1024;

/// `MANIFEST`.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) store: [u8; 16],
    pub(super) epoch: u64,
    pub(super) floor: u64,
    pub(super) revision: u64,
    pub(super) sequence: u64,
    pub(super) active: u32,
    pub(super) size: u32,
    pub(super) sealed: Vec<Sealed>,
}

/// What the manifest says of a sealed segment.
#[derive(Clone, Debug)]
pub(super) struct Sealed {
    pub(super) number: u32,
    pub(super) generation: u32,
    pub(super) end: u32,
    pub(super) frames: u32,
    pub(super) previous: u64,
    pub(super) last: u64,
    pub(super) revision: u64,
    /// Up to here no put of the segment is superseded by anything up to here.
    pub(super) swept: u64,
    pub(super) digest: u64,
    pub(super) count: u32,
}

/// The first sector of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHead {
    pub(super) store: [u8; 16],
    pub(super) number: u32,
    pub(super) generation: u32,
    pub(super) size: u32,
}

/// The first sector of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHead {
    pub(super) kind: u8,
    pub(super) number: u32,
    pub(super) store: [u8; 8],
    pub(super) generation: u32,
    pub(super) position: u32,
    pub(super) sequence: u64,
    pub(super) previous: u64,
    pub(super) floor: u64,
    pub(super) revision: u64,
    pub(super) body: u32,
    pub(super) count: u32,
    pub(super) table_crc: u32,
    pub(super) digest: u64,
}

/// A whole frame.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) head: FrameHead,
    pub(super) body: &'a [u8],
    /// How long it is, with all its sectors.
    pub(super) bytes: usize,
}

/// A record, sealed or plain.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRecord<'a> {
    pub(super) crc: u32,
    pub(super) is_deletion: bool,
    pub(super) is_sealed: bool,
    pub(super) index: u32,
    pub(super) count: u32,
    pub(super) revision: u64,
    pub(super) created: u64,
    pub(super) tag: u64,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    /// What a sealed value is bound to: bytes 4 to 40, and the key.
    pub(super) names: &'a [u8],
}

/// What stands where a frame is to be.
#[derive(Debug)]
pub(super) enum Place<'a> {
    Frame(Frame<'a>),
    /// Zeros: nothing was written here.
    Empty,
    /// What a crash leaves of the last write.
    Torn,
    /// Bytes that no crash leaves.
    Rotten(&'static str),
}

// === impl Manifest ===

impl Manifest {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.get(..8) != Some(b"WHMANIF\n".as_slice()) {
            return Err("it does not begin as a manifest");
        }
        let behind = bytes.get(12..).unwrap_or_default();
        if crc32fast::hash(behind) != u32_at(bytes, 8) {
            return Err("its checksum does not match");
        }
        if u32_at(bytes, 12) != 2 {
            return Err("it is of another format");
        }
        let count = u32_at(bytes, 72) as usize;
        let entries = bytes.get(MANIFEST_HEAD_BYTES..).unwrap_or_default();
        if entries.len() != count.saturating_mul(MANIFEST_ENTRY_BYTES) {
            return Err("it is longer or shorter than it says");
        }
        Ok(Self {
            store: array_at(bytes, 16),
            epoch: u64_at(bytes, 32),
            floor: u64_at(bytes, 40),
            revision: u64_at(bytes, 48),
            sequence: u64_at(bytes, 56),
            active: u32_at(bytes, 64),
            size: u32_at(bytes, 68),
            sealed: entries
                .chunks_exact(MANIFEST_ENTRY_BYTES)
                .map(Sealed::parse)
                .collect(),
        })
    }
}

// === impl Sealed ===

impl Sealed {
    fn parse(bytes: &[u8]) -> Self {
        Self {
            number: u32_at(bytes, 0),
            generation: u32_at(bytes, 4),
            end: u32_at(bytes, 8),
            frames: u32_at(bytes, 12),
            previous: u64_at(bytes, 16),
            last: u64_at(bytes, 24),
            revision: u64_at(bytes, 32),
            swept: u64_at(bytes, 40),
            digest: u64_at(bytes, 48),
            count: u32_at(bytes, 56),
        }
    }
}

// === impl SegmentHead ===

impl SegmentHead {
    pub(super) fn parse(file: &[u8]) -> Result<Self, &'static str> {
        let sector = file
            .get(..SECTOR)
            .ok_or("it is shorter than a segment's header")?;
        if sector.get(..8) != Some(b"WHSEGMT\n".as_slice()) {
            return Err("it does not begin as a segment");
        }
        let behind = sector.get(12..).unwrap_or_default();
        if crc32fast::hash(behind) != u32_at(sector, 8) {
            return Err("the checksum of its header does not match");
        }
        if u32_at(sector, 12) != 2 {
            return Err("it is of another format");
        }
        Ok(Self {
            store: array_at(sector, 16),
            number: u32_at(sector, 32),
            generation: u32_at(sector, 36),
            size: u32_at(sector, 40),
        })
    }
}

// === impl FrameHead ===

impl FrameHead {
    fn parse(sector: &[u8]) -> Option<Self> {
        let is_marked = sector.get(..4) == Some(b"WHF2".as_slice())
            && sector.get(MARK..SECTOR) == Some(b"HEAD".as_slice());
        let checked = sector.get(8..MARK)?;
        let zeros = [sector.get(9..12)?, sector.get(76..80)?];
        let is_zeroed = zeros.into_iter().all(is_zero);
        if !is_marked || !is_zeroed || crc32fast::hash(checked) != u32_at(sector, 4) {
            return None;
        }
        Some(Self {
            kind: sector.get(8).copied().unwrap_or_default(),
            number: u32_at(sector, 12),
            store: array_at(sector, 16),
            generation: u32_at(sector, 24),
            position: u32_at(sector, 28),
            sequence: u64_at(sector, 32),
            previous: u64_at(sector, 40),
            floor: u64_at(sector, 48),
            revision: u64_at(sector, 56),
            body: u32_at(sector, 64),
            count: u32_at(sector, 68),
            table_crc: u32_at(sector, 72),
            digest: u64_at(sector, 80),
        })
    }

    /// How many sectors the body has.
    fn body_sectors(&self) -> usize {
        let body = self.body as usize;
        if body == 0 {
            0
        } else {
            body.saturating_add(4).div_ceil(SECTOR)
        }
    }

    /// How many sectors the table has beside the first one.
    fn table_sectors(&self) -> usize {
        let count = self.body_sectors();
        if count <= TABLE_INLINE_COUNT {
            0
        } else {
            count.saturating_mul(4).div_ceil(SECTOR)
        }
    }
}

// === impl Place ===

impl<'a> Place<'a> {
    /// Looks at what stands at a place of a segment.
    pub(super) fn of(file: &'a [u8], position: usize) -> Self {
        let Some(sector) = file.get(position..position.saturating_add(SECTOR)) else {
            return Self::Empty;
        };
        if is_zero(sector) {
            return Self::Empty;
        }
        let Some(head) = FrameHead::parse(sector) else {
            return if is_cut(sector, *b"HEAD") {
                Self::Torn
            } else {
                Self::Rotten("the first sector of a frame does not check")
            };
        };
        if head.body as usize > BODY_BYTES_MAX {
            return Self::Rotten("a frame that is longer than any");
        }
        Self::rest(file, position, sector, head)
    }

    fn rest(file: &'a [u8], position: usize, sector: &'a [u8], head: FrameHead) -> Self {
        let table_start = position.saturating_add(SECTOR);
        let table_bytes = head.table_sectors().saturating_mul(SECTOR);
        let body_start = table_start.saturating_add(table_bytes);
        let body_bytes = head.body_sectors().saturating_mul(SECTOR);
        let end = body_start.saturating_add(body_bytes);
        let (Some(outer), Some(body)) =
            (file.get(table_start..body_start), file.get(body_start..end))
        else {
            return Self::Rotten("a frame that does not fit into its segment");
        };
        let table = if outer.is_empty() {
            sector.get(88..MARK).unwrap_or_default()
        } else {
            outer
        };
        if !outer.is_empty() && crc32fast::hash(outer) != head.table_crc {
            let is_torn = outer.chunks(SECTOR).any(is_zero) || is_cut(body, *b"END2");
            return Self::torn_or(is_torn, "the table of a frame does not check");
        }
        let sectors = body.chunks_exact(SECTOR).zip(table.chunks_exact(4));
        let mut failing = sectors
            .filter(|(sector, sum)| crc32fast::hash(sector) != u32_at(sum, 0))
            .map(|(sector, _)| sector)
            .peekable();
        if failing.peek().is_some() {
            let is_torn = failing.any(is_zero) || is_cut(body, *b"END2");
            return Self::torn_or(is_torn, "a sector of a frame's body does not check");
        }
        let mark = body.len().saturating_sub(4);
        if !body.is_empty() && body.get(mark..) != Some(b"END2".as_slice()) {
            return Self::Rotten("a frame without its end mark");
        }
        let sums = head.body_sectors().saturating_mul(4);
        let inline = sector.get(88..MARK).unwrap_or_default();
        let beside = [inline, outer].map(|table| table.get(sums..).unwrap_or_default());
        let needless = !outer.is_empty() && !is_zero(inline);
        if needless || !beside.into_iter().all(is_zero) || outer.is_empty() && head.table_crc != 0 {
            return Self::Rotten("something stands where a frame's table has zeros");
        }
        let Some((body, rest)) = body.split_at_checked(head.body as usize) else {
            return Self::Rotten("a frame that is shorter than its body");
        };
        if !rest.get(..rest.len().saturating_sub(4)).is_none_or(is_zero) {
            return Self::Rotten("something stands between a frame's records and its end mark");
        }
        Self::Frame(Frame {
            head,
            body,
            bytes: end.saturating_sub(position),
        })
    }

    const fn torn_or(is_torn: bool, reason: &'static str) -> Self {
        if is_torn {
            Self::Torn
        } else {
            Self::Rotten(reason)
        }
    }
}

// === impl Frame ===

impl<'a> Frame<'a> {
    /// Takes the records out of the body.
    pub(super) fn records(&self) -> Result<Vec<LogRecord<'a>>, &'static str> {
        let mut records = Vec::new();
        let mut rest = self.body;
        while !rest.is_empty() {
            let (len, behind) = rest
                .split_first_chunk::<4>()
                .ok_or("a record without its length")?;
            let len = u32::from_le_bytes(*len) as usize;
            let (record, behind) = behind
                .split_at_checked(len)
                .ok_or("a record that is longer than its frame")?;
            records.push(LogRecord::parse(record)?);
            rest = behind;
        }
        Ok(records)
    }
}

// === impl LogRecord ===

impl<'a> LogRecord<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let checked = bytes.get(4..).ok_or("a record without its header")?;
        let (Some(&op), Some(&sealed)) = (bytes.get(4), bytes.get(5)) else {
            return Err("a record without its header");
        };
        if bytes.len() < RECORD_HEAD_BYTES || crc32fast::hash(checked) != u32_at(bytes, 0) {
            return Err("the checksum of a record does not match");
        }
        let key_len = usize::from(u16::from_le_bytes(array_at(bytes, 6)));
        let key_end = RECORD_HEAD_BYTES.saturating_add(key_len);
        let (Some(key), Some(value)) =
            (bytes.get(RECORD_HEAD_BYTES..key_end), bytes.get(key_end..))
        else {
            return Err("the key of a record does not fit");
        };
        let record = Self {
            crc: u32_at(bytes, 0),
            is_deletion: op == 2,
            is_sealed: sealed == 1,
            index: u32_at(bytes, 8),
            count: u32_at(bytes, 12),
            revision: u64_at(bytes, 16),
            created: u64_at(bytes, 24),
            tag: u64_at(bytes, 32),
            key,
            value,
            names: bytes.get(4..key_end).unwrap_or_default(),
        };
        if !matches!(op, 1 | 2) || sealed > 1 || key_len > KEY_BYTES_MAX {
            return Err("a record of an unknown kind");
        }
        if record.index >= record.count || record.created > record.revision {
            return Err("a record whose numbers cannot be");
        }
        Ok(record)
    }

    /// What a record adds to the digest of its frame.
    pub(super) fn digest(&self) -> u64 {
        let index = u64::from(self.index).wrapping_shl(32);
        mix(mix(self.revision) ^ index ^ u64::from(self.crc))
    }
}

/// The finaliser of splitmix64.
fn mix(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Whether the mark at the end of bytes is a beginning of what it should be, or nothing of it, and zeros in place of the
/// rest.
fn is_cut(bytes: &[u8], mark: [u8; 4]) -> bool {
    let found = bytes.last_chunk::<4>();
    found.is_some_and(|found| {
        (0..mark.len()).any(|whole| {
            let (beginning, rest) = found.split_at(whole);
            mark.starts_with(beginning) && is_zero(rest)
        })
    })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let field = bytes.get(offset..).and_then(<[u8]>::first_chunk);
    field.copied().unwrap_or([0; N])
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, offset))
}
