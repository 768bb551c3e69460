//! Reads a directory of format 2 from its first byte to its last, and says what is not as it has to be.

use std::collections::BTreeMap;

use super::files::Files;
use super::layout::{FrameHead, LogRecord, Manifest, Place, SECTOR, Sealed, SegmentHead};
use super::{CheckError, Finding};
use crate::keyring::{KeyId, Keyring};

/// What a walk has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) findings: Vec<Finding>,
    pub(super) store: [u8; 16],
    pub(super) epoch: u64,
    pub(super) floor: u64,
    pub(super) revision: u64,
    pub(super) segments: u64,
    pub(super) frames: u64,
    pub(super) records: u64,
    pub(super) sealed: BTreeMap<KeyId, u64>,
    /// Revision, index and count of every record, in the order of the log.
    order: Vec<(u64, u32, u32)>,
    /// Of each key the latest put that a sweep has kept: its revision, and up to where the sweep went.
    kept: BTreeMap<Vec<u8>, (u64, u64)>,
}

/// One record, opened.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    pub(super) record: LogRecord<'a>,
    pub(super) value: Vec<u8>,
}

/// A segment under the walk.
struct Segment<'a> {
    name: String,
    number: u32,
    generation: u32,
    entry: Option<&'a Sealed>,
    position: usize,
    frames: u32,
    count: u32,
    digest: u64,
    last: u64,
    revision: u64,
}

/// Walks through a directory, and hands every record on.
pub(super) struct Walk<'a> {
    files: &'a dyn Files,
    keyring: Option<&'a Keyring>,
    sink: &'a mut dyn FnMut(Opened<'_>),
    seen: Seen,
    sequence: u64,
}

// === impl Walk ===

impl<'a> Walk<'a> {
    pub(super) fn new(
        files: &'a dyn Files,
        keyring: Option<&'a Keyring>,
        sink: &'a mut dyn FnMut(Opened<'_>),
    ) -> Self {
        Self {
            files,
            keyring,
            sink,
            seen: Seen::default(),
            sequence: 0,
        }
    }

    pub(super) fn run(mut self) -> Result<Seen, CheckError> {
        let bytes = self.files.read("MANIFEST")?;
        let manifest = match Manifest::parse(&bytes) {
            Ok(manifest) => manifest,
            Err(reason) => {
                self.find("MANIFEST", reason);
                return Ok(self.seen);
            }
        };
        self.seen.store = manifest.store;
        self.seen.epoch = manifest.epoch;
        self.seen.floor = manifest.floor;
        self.seen.revision = manifest.revision;
        let mut number = 0;
        for entry in &manifest.sealed {
            if entry.number <= number {
                self.find("MANIFEST", "its segments are not in order");
            }
            number = entry.number;
            if entry.previous < self.sequence {
                self.find("MANIFEST", "a segment begins before the one before it ends");
            }
            self.sequence = entry.previous;
            self.segment(&manifest, entry.number, entry.generation, Some(entry))?;
        }
        if manifest.sequence < self.sequence {
            self.find("MANIFEST", "its sequence is behind its segments");
        }
        // Segments that a sweep has left nothing of may have been the last ones.
        self.sequence = manifest.sequence;
        if manifest.active != 0 {
            if manifest.active <= number {
                self.find("MANIFEST", "the active segment is not the last one");
            }
            self.segment(&manifest, manifest.active, 0, None)?;
        }
        let floor = self.seen.floor;
        if manifest.sealed.iter().any(|entry| entry.swept > floor) {
            self.find("MANIFEST", "a segment was swept above the floor");
        }
        self.leftovers(&manifest)?;
        self.number_line();
        Ok(self.seen)
    }

    fn find(&mut self, place: impl Into<String>, reason: impl Into<String>) {
        self.seen.findings.push(Finding {
            place: place.into(),
            reason: reason.into(),
        });
    }

    fn segment(
        &mut self,
        manifest: &Manifest,
        number: u32,
        generation: u32,
        entry: Option<&Sealed>,
    ) -> Result<(), CheckError> {
        let name = format!("log/{number:010}.{generation:04}");
        if !self.files.has(&name) {
            self.find(name, "the manifest names it, and it is not there");
            return Ok(());
        }
        let file = self.files.read(&name)?;
        self.seen.segments = self.seen.segments.saturating_add(1);
        let want = SegmentHead {
            store: manifest.store,
            number,
            generation,
            size: u32::try_from(file.len()).unwrap_or(u32::MAX),
        };
        match SegmentHead::parse(&file) {
            Err(reason) => {
                self.find(name, reason);
                return Ok(());
            }
            Ok(head) if head != want => self.find(
                &name,
                "its header names another store, number or length than it has",
            ),
            Ok(_) => {}
        }
        if entry.is_none() && want.size != manifest.size {
            self.find(&name, "it is not as long as the manifest says");
        }
        let mut segment = Segment {
            name,
            number,
            generation,
            entry,
            position: SECTOR,
            frames: 0,
            count: 0,
            digest: 0,
            last: self.sequence,
            revision: 0,
        };
        let is_sound = self.frames(&mut segment, &file, &manifest.store);
        match segment.entry {
            Some(entry) if is_sound => self.compare(&segment, entry),
            Some(_) => self.sequence = entry.map_or(self.sequence, |entry| entry.last),
            None => {
                self.sequence = segment.last;
                self.behind_the_end(&segment, &file, &manifest.store);
            }
        }
        Ok(())
    }

    /// Reads frames to the segment's end. Returns whether all of them check.
    fn frames(&mut self, segment: &mut Segment<'_>, file: &[u8], store: &[u8; 16]) -> bool {
        let end = segment.entry.map_or(file.len(), |entry| entry.end as usize);
        if end > file.len() {
            self.find(&segment.name, "it is shorter than the manifest says");
        }
        while segment.position < end {
            let place = format!("{} at byte {}", segment.name, segment.position);
            let frame = match Place::of(file, segment.position) {
                Place::Frame(frame) => frame,
                Place::Empty | Place::Torn if segment.entry.is_none() => return true,
                Place::Empty => {
                    self.find(place, "zeros in a sealed segment");
                    return false;
                }
                Place::Torn => {
                    self.find(place, "a torn frame in a sealed segment");
                    return false;
                }
                Place::Rotten(reason) => {
                    self.find(place, reason);
                    return false;
                }
            };
            if let Err(reason) = proper(&frame.head, segment, store) {
                self.find(place, reason);
                return false;
            }
            match frame.records() {
                Ok(records) => {
                    if let Err(reason) = self.records(segment, &frame.head, &records) {
                        self.find(place, reason);
                        return false;
                    }
                }
                Err(reason) => {
                    self.find(place, reason);
                    return false;
                }
            }
            self.seen.frames = self.seen.frames.saturating_add(1);
            self.seen.floor = self.seen.floor.max(frame.head.floor);
            self.seen.revision = self.seen.revision.max(frame.head.revision);
            segment.frames = segment.frames.saturating_add(1);
            segment.last = frame.head.sequence;
            segment.revision = frame.head.revision;
            segment.position = segment.position.saturating_add(frame.bytes);
        }
        true
    }

    fn records(
        &mut self,
        segment: &mut Segment<'_>,
        head: &FrameHead,
        records: &[LogRecord<'_>],
    ) -> Result<(), &'static str> {
        if u32::try_from(records.len()) != Ok(head.count) {
            return Err("a frame with another number of records than it says");
        }
        let sum = |sum: u64, record: &LogRecord<'_>| sum.wrapping_add(record.digest());
        let digest = records.iter().fold(0, sum);
        if digest != head.digest {
            return Err("the digest of a frame is not that of its records");
        }
        if head.kind == 1
            && let Some(last) = records.last()
            && (last.revision != head.revision || last.index.saturating_add(1) != last.count)
        {
            return Err("a frame that does not end with its last batch");
        }
        if records.iter().any(|record| record.revision > head.revision) {
            return Err("a record that is later than its frame");
        }
        segment.digest = segment.digest.wrapping_add(digest);
        segment.count = segment.count.saturating_add(head.count);
        for record in records {
            self.swept(segment, record);
            self.record(*record)?;
        }
        Ok(())
    }

    /// What a sweep has kept up to a revision is not superseded up to there: deletions were dropped on that account.
    fn swept(&mut self, segment: &Segment<'_>, record: &LogRecord<'_>) {
        let kept = self.seen.kept.remove(record.key);
        if let Some((put, swept)) = kept.filter(|(_, swept)| record.revision <= *swept) {
            let place = format!("{} at revision {put}", shown(record.key));
            let reason = format!(
                "revision {} supersedes it, and its segment was swept up to {swept}",
                record.revision
            );
            self.find(place, reason);
        }
        let swept = segment.entry.map_or(0, |entry| entry.swept);
        if !record.is_deletion && record.revision <= swept {
            let kept = (record.revision, swept);
            self.seen.kept.insert(record.key.to_vec(), kept);
        }
    }

    fn record(&mut self, record: LogRecord<'_>) -> Result<(), &'static str> {
        let (revision, index) = (record.revision, record.index);
        let before = self.seen.order.last();
        if before.is_some_and(|(known, place, _)| (*known, *place) >= (revision, index)) {
            return Err("a record that is not behind the one before it");
        }
        self.seen.order.push((revision, index, record.count));
        self.seen.records = self.seen.records.saturating_add(1);
        let mut value = record.value.to_vec();
        if record.is_sealed {
            let id = KeyId::of_sealed(record.value).ok_or("a sealed value that is none")?;
            let count = self.seen.sealed.entry(id).or_default();
            *count = count.saturating_add(1);
            if let Some(keyring) = self.keyring {
                match keyring.open(record.names, record.value) {
                    Ok(plain) => value = plain,
                    Err(error) => {
                        let place = format!("{} at revision {revision}", shown(record.key));
                        self.find(place, error.to_string());
                    }
                }
            }
        }
        (self.sink)(Opened { record, value });
        Ok(())
    }

    /// Compares a sealed segment with what the manifest says of it.
    fn compare(&mut self, segment: &Segment<'_>, entry: &Sealed) {
        let pairs = [
            ("end", segment.position as u64, u64::from(entry.end)),
            ("frames", u64::from(segment.frames), u64::from(entry.frames)),
            ("records", u64::from(segment.count), u64::from(entry.count)),
            ("digest", segment.digest, entry.digest),
            ("last frame", segment.last, entry.last),
        ];
        for (what, found, wanted) in pairs {
            if found != wanted {
                let reason = format!("its {what} is {found}, the manifest says {wanted}");
                self.find(&segment.name, reason);
            }
        }
        if segment.frames > 0 && segment.revision != entry.revision {
            self.find(
                &segment.name,
                "it ends with another revision than the manifest says",
            );
        }
        self.sequence = entry.last;
    }

    /// No whole frame stands behind the end of the active segment: it would have been acknowledged.
    fn behind_the_end(&mut self, segment: &Segment<'_>, file: &[u8], store: &[u8; 16]) {
        let mut position = segment.position.saturating_add(SECTOR);
        while position < file.len() {
            if let Place::Frame(frame) = Place::of(file, position)
                && is_of(&frame.head, segment, store, position)
            {
                let place = format!("{} at byte {position}", segment.name);
                let reason = format!(
                    "a whole frame behind the end at byte {}: what lies between was damaged later",
                    segment.position
                );
                return self.find(place, reason);
            }
            position = position.saturating_add(SECTOR);
        }
    }

    /// Files that the manifest does not name are leftovers, unless they are behind everything that it names and hold
    /// frames: then the manifest is older than the log.
    fn leftovers(&mut self, manifest: &Manifest) -> Result<(), CheckError> {
        let newest = manifest
            .sealed
            .iter()
            .map(|entry| entry.number)
            .chain([manifest.active])
            .max()
            .unwrap_or_default();
        for name in self.files.segments()? {
            let number = name.split('.').next().and_then(|it| it.parse::<u32>().ok());
            let name = format!("log/{name}");
            if number.is_some_and(|number| number > newest)
                && let Place::Frame(_) = Place::of(&self.files.read(&name)?, SECTOR)
            {
                self.find(
                    name,
                    "it holds frames, and the manifest does not know of it",
                );
            }
        }
        Ok(())
    }

    /// Above the floor there is every revision, and every write of its batch.
    fn number_line(&mut self) {
        let floor = self.seen.floor;
        let mut next = (floor.saturating_add(1), 0);
        let order = std::mem::take(&mut self.seen.order);
        let above = order.iter().filter(|(revision, ..)| *revision > floor);
        for (revision, index, count) in above {
            if (*revision, *index) != next {
                let reason = format!(
                    "revision {revision} (write {index}) follows, where {} (write {}) has to be",
                    next.0, next.1
                );
                return self.find("the log", reason);
            }
            next = if index.saturating_add(1) == *count {
                (revision.saturating_add(1), 0)
            } else {
                (*revision, index.saturating_add(1))
            };
        }
        if next != (self.seen.revision.saturating_add(1), 0) {
            let reason = format!(
                "it ends before revision {}, which it says it has",
                self.seen.revision
            );
            self.find("the log", reason);
        }
    }
}

/// Whether a frame is where it says it belongs, and follows the one before.
fn proper(head: &FrameHead, segment: &Segment<'_>, store: &[u8; 16]) -> Result<(), &'static str> {
    if !is_of(head, segment, store, segment.position) {
        return Err("a frame of another place or store");
    }
    if head.previous != segment.last || head.sequence <= head.previous {
        return Err("a frame that does not follow the one before it");
    }
    if head.revision < segment.revision || head.kind == 1 && head.floor > head.revision {
        return Err("a frame whose revisions cannot be");
    }
    match head.kind {
        1 if head.sequence != head.previous.saturating_add(1) => {
            Err("a frame that skips a number in sequence")
        }
        1 | 2 => Ok(()),
        _ => Err("a frame of an unknown kind"),
    }
}

fn is_of(head: &FrameHead, segment: &Segment<'_>, store: &[u8; 16], position: usize) -> bool {
    head.number == segment.number
        && head.generation == segment.generation
        && usize::try_from(head.position) == Ok(position)
        && store.starts_with(&head.store)
}

/// A key as it is shown in a finding.
pub(super) fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}
