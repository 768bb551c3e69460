//! Reads the whole log at a start, on all processors, and proves it.

use std::io;

use super::LogError;
use super::rewriter::stored_bytes;
use crate::embedded::codec::{
    Frame, Kind, Look, Manifest, NotOpened, Place, RecordHead, SECTOR_BYTES, Sealed, Tally,
    decode_header, find_frame, from_disk, is_stale, look, parse_segment_name,
};
use crate::embedded::disk::{Directory, read_up_to};
use crate::entry::Entry;
use crate::error::OpenError;
use crate::index::parallel;
use crate::keyring::Keyring;
use crate::revision::Revision;
use crate::view::Snapshot;

/// The headers of a segment and of its first frame.
const HEADERS_BYTES: u64 = 2 * SECTOR_BYTES as u64;

/// What was found.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) snapshot: Snapshot,
    /// Revision and size of each record that nobody needs.
    pub(super) garbage: Vec<(Revision, u64)>,
    /// What the active segment holds.
    pub(super) active: Tally,
    /// The bytes of the records of each segment, by its number.
    pub(super) kept: Vec<(u32, u64)>,
    /// Numbers of segments with records that the first key of the keyring has not sealed, and should have.
    pub(super) stale: Vec<u32>,
}

/// A segment to be read.
#[derive(Debug)]
struct Piece {
    place: Place,
    /// How much of the file there has to be.
    len: u32,
    /// The sequence before it.
    previous: u64,
    sealed: Option<Sealed>,
}

/// What a segment holds.
#[derive(Debug)]
struct Part {
    entries: Vec<Entry>,
    tally: Tally,
    floor: Revision,
    is_stale: bool,
}

/// Why a place of a segment is refused.
enum Refusal {
    Rotten(usize, &'static str),
    Shut(usize, Box<dyn std::error::Error + Send + Sync>),
}

/// Reports that a sealed record cannot be opened, because there is no key.
#[derive(Debug, thiserror::Error)]
#[error("it is sealed, and there is no key file")]
struct NoKeyring;

/// Reads everything that a manifest names.
pub(super) fn scan(
    directory: &dyn Directory,
    manifest: &Manifest,
    keyring: Option<&Keyring>,
) -> Result<Scanned, OpenError> {
    refuse_stray_frames(directory, manifest)?;
    let pieces = pieces_of(manifest);
    let parts = parallel::each(pieces.len(), |n| {
        let piece = pieces.get(n).expect("there are so many");
        read_piece(directory, piece, keyring)
    });
    let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
    let floor = parts
        .iter()
        .map(|part| part.floor)
        .max()
        .unwrap_or_default();
    let floor = floor.max(manifest.floor);
    let revision = parts.iter().map(|part| part.tally.revision).max();
    let revision = revision.unwrap_or_default().max(manifest.revision);
    let active = match (manifest.active, parts.last()) {
        (Some(_), Some(part)) => part.tally,
        _ => Tally::empty(manifest.sequence, manifest.revision),
    };
    let kept = parts.iter().zip(&pieces).map(|(part, piece)| {
        let bytes = part
            .entries
            .iter()
            .map(|entry| stored_bytes(entry.record()));
        (piece.place.number, bytes.sum())
    });
    let kept = kept.collect();
    let stale = parts.iter().zip(&pieces).filter(|(part, _)| part.is_stale);
    let stale = stale.map(|(_, piece)| piece.place.number).collect();
    let mut entries = Vec::with_capacity(parts.iter().map(|part| part.entries.len()).sum());
    for (part, piece) in parts.into_iter().zip(&pieces) {
        if let (Some(last), Some(first)) = (entries.last(), part.entries.first())
            && order_of(last) >= order_of(first)
        {
            let name = piece.name();
            return Err(corrupt_at(
                &name,
                SECTOR_BYTES,
                "it begins before the end of the one before",
            ));
        }
        entries.extend(part.entries);
    }
    let behind = entries.partition_point(|entry: &Entry| entry.modified() <= floor);
    let changes = entries.split_off(behind);
    prove_history(&changes, floor, revision)?;
    let garbage = settle(&mut entries, &manifest.sealed);
    Ok(Scanned {
        snapshot: Snapshot {
            base: entries,
            changes,
            floor,
            revision,
        },
        garbage,
        active,
        kept,
        stale,
    })
}

/// Files that nobody names, and that are to be removed.
pub(super) fn leftovers(
    directory: &dyn Directory,
    manifest: &Manifest,
) -> Result<Vec<String>, OpenError> {
    let mut names = segments(directory)?;
    let known: Vec<_> = manifest.names().collect();
    names.retain(|name| !known.contains(name));
    Ok(names)
}

/// The segments that there are, whoever names them.
pub(in crate::embedded) fn segments(directory: &dyn Directory) -> Result<Vec<String>, OpenError> {
    let mut names = directory.list().map_err(io_error("list the log"))?;
    names.retain(|name| parse_segment_name(name).is_some());
    Ok(names)
}

/// Whether a segment's first frame is whole.
pub(in crate::embedded) fn has_frame(
    directory: &dyn Directory,
    name: &str,
) -> Result<bool, OpenError> {
    let failed = || io_error("read a segment");
    let disk = directory.open(name).map_err(failed())?;
    let beginning = read_up_to(&*disk, HEADERS_BYTES).map_err(failed())?;
    let Some(place) = crate::embedded::codec::decode_any_header(&beginning) else {
        return Ok(false);
    };
    if matches!(
        look(&beginning, SECTOR_BYTES, &place),
        Look::End | Look::Torn
    ) {
        return Ok(false);
    }
    let bytes = read_up_to(&*disk, u64::MAX).map_err(failed())?;
    Ok(matches!(look(&bytes, SECTOR_BYTES, &place), Look::Frame(_)))
}

/// Reads a segment that is known to be so long, and checks whose it is.
pub(super) fn read_segment(
    directory: &dyn Directory,
    place: &Place,
    len: u32,
) -> Result<Vec<u8>, OpenError> {
    let name = crate::embedded::codec::segment_name(place.number, place.generation);
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => corrupt(&name, "it is missing"),
        _ => io_error("read a segment")(source),
    };
    let disk = directory.open(&name).map_err(failed)?;
    let bytes = read_up_to(&*disk, u64::from(len)).map_err(failed)?;
    if u32::try_from(bytes.len()) != Ok(len) {
        return Err(corrupt(&name, "it is shorter than it was"));
    }
    decode_header(&bytes, place).map_err(|reason| corrupt(&name, reason))?;
    Ok(bytes)
}

/// Checks that a frame follows what was read before it.
pub(super) fn chain_checks(frame: &Frame<'_>, before: &Tally) -> Result<(), &'static str> {
    let facts = &frame.facts;
    let next = match facts.kind {
        Kind::Group => Some(facts.sequence) == facts.previous.checked_add(1),
        Kind::Kept => facts.sequence > facts.previous,
    };
    if facts.previous != before.last || !next {
        return Err("a frame before it is missing");
    }
    if facts.revision < before.revision || facts.floor > facts.revision && facts.kind == Kind::Group
    {
        return Err("its revisions make no sense");
    }
    Ok(())
}

pub(super) fn corrupt_at(name: &str, position: usize, reason: &str) -> OpenError {
    corrupt(&format!("{name}, byte {position}"), reason)
}

pub(in crate::embedded) fn corrupt(place: &str, reason: &str) -> OpenError {
    OpenError::Corrupt {
        place: place.to_owned(),
        reason: reason.to_owned(),
    }
}

pub(in crate::embedded) fn io_error(action: &'static str) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::Io {
        action: action.to_owned(),
        source,
    }
}

fn order_of(entry: &Entry) -> (Revision, u32) {
    (entry.modified(), entry.index())
}

/// A manifest that does not know of frames is older than the log.
fn refuse_stray_frames(directory: &dyn Directory, manifest: &Manifest) -> Result<(), OpenError> {
    for name in segments(directory)? {
        let number = parse_segment_name(&name).map_or(0, |(number, _)| number);
        if number > manifest.number() && has_frame(directory, &name)? {
            return Err(corrupt(
                &name,
                "it holds writes, and the manifest does not know it",
            ));
        }
    }
    Ok(())
}

fn pieces_of(manifest: &Manifest) -> Vec<Piece> {
    let place = |number, generation| Place {
        store: manifest.store,
        number,
        generation,
    };
    let sealed = manifest.sealed.iter().map(|sealed| Piece {
        place: place(sealed.number, sealed.generation),
        len: sealed.tally.end,
        previous: sealed.tally.previous,
        sealed: Some(*sealed),
    });
    let active = manifest.active.map(|(number, size)| Piece {
        place: place(number, 0),
        len: size,
        previous: manifest.sequence,
        sealed: None,
    });
    sealed.chain(active).collect()
}

fn read_piece(
    directory: &dyn Directory,
    piece: &Piece,
    keyring: Option<&Keyring>,
) -> Result<Part, OpenError> {
    let bytes = read_segment(directory, &piece.place, piece.len)?;
    let part = piece
        .walk(&bytes, keyring)
        .map_err(|refusal| match refusal {
            Refusal::Rotten(position, reason) => corrupt_at(&piece.name(), position, reason),
            Refusal::Shut(position, source) => OpenError::Sealed {
                place: format!("{}, byte {position}", piece.name()),
                source,
            },
        })?;
    if piece
        .sealed
        .is_some_and(|sealed| sealed.tally != part.tally)
    {
        return Err(corrupt(
            &piece.name(),
            "it holds something else than the manifest says",
        ));
    }
    Ok(part)
}

/// Above the floor there is every revision, up to the latest one, and every batch is whole.
fn prove_history(changes: &[Entry], floor: Revision, revision: Revision) -> Result<(), OpenError> {
    let mut last = floor;
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let count = usize::try_from(first.count()).unwrap_or(usize::MAX);
        let whole = rest.get(..count).filter(|batch| {
            (0_u32..).zip(*batch).all(|(index, entry)| {
                entry.modified() == first.modified()
                    && entry.index() == index
                    && entry.count() == first.count()
            })
        });
        if whole.is_none() || first.modified() != last.next() {
            let place = format!("the log, behind revision {last}");
            return Err(corrupt(&place, "records are missing"));
        }
        last = first.modified();
        rest = rest.get(count..).unwrap_or_default();
    }
    if last != revision {
        return Err(corrupt("the log", "its last records are missing"));
    }
    Ok(())
}

/// Reduces the records up to the floor to the latest of each key that is no deletion, in the order of
/// keys, and returns what nobody needs of the others.
fn settle(base: &mut Vec<Entry>, sealed: &[Sealed]) -> Vec<(Revision, u64)> {
    let order = parallel::order_of_keys(base);
    let mut garbage = Vec::new();
    let mut note = |entry: &Entry| garbage.push((entry.modified(), stored_bytes(entry.record())));
    let mut latest = Vec::with_capacity(base.len());
    let mut order = order
        .iter()
        .filter_map(|place| base.get(*place as usize))
        .peekable();
    while let Some(entry) = order.next() {
        if order.peek().is_some_and(|next| next.key() == entry.key()) {
            note(entry);
        } else if !entry.is_deletion() {
            latest.push(entry.clone());
        } else if !is_guard(entry, sealed) {
            note(entry);
        }
    }
    *base = latest;
    garbage
}

fn is_guard(deletion: &Entry, sealed: &[Sealed]) -> bool {
    let own = sealed.partition_point(|segment| segment.tally.revision < deletion.modified());
    let older = sealed.get(..own).unwrap_or_default();
    RecordHead::read(deletion.record()).is_some_and(|head| guards(&head, older))
}

/// Whether a deletion may still have to end a put that lies in one of these segments.
pub(super) fn guards(deletion: &RecordHead<'_>, older: &[Sealed]) -> bool {
    let from = older.partition_point(|segment| segment.tally.revision < deletion.created);
    let holding = older.get(from..).unwrap_or_default();
    holding
        .iter()
        .any(|segment| segment.swept < deletion.revision)
}

// === impl Piece ===

impl Piece {
    fn name(&self) -> String {
        crate::embedded::codec::segment_name(self.place.number, self.place.generation)
    }

    /// Goes from frame to frame, and decodes all records.
    fn walk(&self, bytes: &[u8], keyring: Option<&Keyring>) -> Result<Part, Refusal> {
        let mut part = Part {
            entries: Vec::with_capacity(self.sealed.map_or(0, |s| s.tally.count as usize)),
            tally: Tally::empty(self.previous, Revision(0)),
            floor: Revision(0),
            is_stale: false,
        };
        let mut position = SECTOR_BYTES;
        loop {
            let rotten = |reason| Refusal::Rotten(position, reason);
            match look(bytes, position, &self.place) {
                Look::Frame(frame) => {
                    chain_checks(&frame, &part.tally).map_err(rotten)?;
                    part.take(&frame, position, keyring)?;
                    position = frame.end;
                }
                Look::Rotten(reason) => return Err(rotten(reason)),
                Look::End if self.sealed.is_some() && position == bytes.len() => return Ok(part),
                Look::End | Look::Torn if self.sealed.is_some() => {
                    return Err(rotten("a frame is missing"));
                }
                Look::End | Look::Torn => {
                    let behind = position.saturating_add(SECTOR_BYTES);
                    return match find_frame(bytes, behind, &self.place) {
                        Some(_) => Err(rotten("a frame is missing, and another one follows")),
                        None => Ok(part),
                    };
                }
            }
        }
    }
}

// === impl Part ===

impl Part {
    fn take(
        &mut self,
        frame: &Frame<'_>,
        position: usize,
        keyring: Option<&Keyring>,
    ) -> Result<(), Refusal> {
        let rotten = |reason| Refusal::Rotten(position, reason);
        let (mut count, mut digest) = (0_u32, 0_u64);
        for record in frame.records() {
            let record = record.map_err(rotten)?;
            let entry = from_disk(record, keyring).map_err(|error| match error {
                NotOpened::Rotten(reason) => rotten(reason),
                NotOpened::NoKeyring => Refusal::Shut(position, Box::new(NoKeyring)),
                NotOpened::Keyring(error) => Refusal::Shut(position, Box::new(error)),
            })?;
            let before = self.entries.last();
            if before.is_some_and(|before| order_of(before) >= order_of(&entry)) {
                return Err(rotten("records are not in order"));
            }
            if entry.modified() > frame.facts.revision {
                return Err(rotten("a record is later than its frame"));
            }
            count = count.saturating_add(1);
            self.is_stale |= keyring.is_some_and(|keyring| is_stale(record, keyring));
            let head = RecordHead::read(record).ok_or_else(|| rotten("a record is cut"))?;
            digest = digest.wrapping_add(head.digest());
            self.entries.push(entry);
        }
        if (count, digest) != (frame.count, frame.digest) {
            return Err(rotten("a frame counts other records"));
        }
        self.floor = self.floor.max(frame.facts.floor);
        let tally = &mut self.tally;
        *tally = Tally {
            end: u32::try_from(frame.end).map_err(|_too_long| rotten("it is too long"))?,
            frames: tally.frames.saturating_add(1),
            count: tally.count.saturating_add(count),
            previous: tally.previous,
            last: frame.facts.sequence,
            revision: frame.facts.revision,
            digest: tally.digest.wrapping_add(digest),
        };
        Ok(())
    }
}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Full { action, source } | LogError::Failed { action, source } => Self::Io {
                action: action.to_owned(),
                source,
            },
            LogError::Rotten(error) => *error,
            LogError::Sealing(source) => Self::Engine {
                action: "seal a value",
                source: Box::new(source),
            },
        }
    }
}
