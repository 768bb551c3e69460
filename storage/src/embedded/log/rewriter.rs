//! Writes a sealed segment from records: for sweeps, and for stores that are made from other records.

use super::LogError;
use crate::embedded::codec::{
    Facts, FrameBuilder, Kind, LOG_FOLDER, Place, Sealed, Tally, encode_header, segment_name,
};
use crate::embedded::disk::{Directory, Disk};
use crate::revision::Revision;

/// Records that make a frame, in bytes.
pub(in crate::embedded) const FRAME_BYTES: usize = 1024 * 1024;

/// A segment on its way.
#[derive(Debug)]
pub(in crate::embedded) struct Rewriter<'a> {
    directory: &'a dyn Directory,
    disk: Box<dyn Disk>,
    place: Place,
    tally: Tally,
    builder: FrameBuilder,
    floor: Revision,
    kept: u64,
}

/// What a record takes in a segment: itself, and its length before it.
pub(in crate::embedded) fn stored_bytes(record: &[u8]) -> u64 {
    (record.len() as u64).saturating_add(4)
}

// === impl Rewriter ===

impl<'a> Rewriter<'a> {
    /// Begins a segment behind a sequence.
    pub(in crate::embedded) fn begin(
        directory: &'a dyn Directory,
        place: Place,
        previous: u64,
        floor: Revision,
    ) -> Result<Self, LogError> {
        let name = segment_name(place.number, place.generation);
        let disk = directory.create(&name);
        Ok(Self {
            directory,
            disk: disk.map_err(LogError::on("make a segment"))?,
            place,
            tally: Tally::empty(previous, Revision(0)),
            builder: FrameBuilder::default(),
            floor,
            kept: 0,
        })
    }

    /// Adds a record, as it is on disk.
    pub(in crate::embedded) fn push(&mut self, record: &[u8]) {
        self.builder.push(record);
        self.kept = self.kept.saturating_add(stored_bytes(record));
    }

    /// The bytes of the records so far.
    pub(in crate::embedded) fn kept(&self) -> u64 {
        self.kept
    }

    /// Whether there is enough for a frame.
    pub(in crate::embedded) fn is_filled(&self) -> bool {
        self.builder.body() >= FRAME_BYTES
    }

    /// Where the segment ends so far.
    pub(in crate::embedded) fn end(&self) -> u32 {
        self.tally.end
    }

    /// The sequence of the last frame so far.
    pub(in crate::embedded) fn last(&self) -> u64 {
        self.tally.last
    }

    /// Writes what there is as a frame with this sequence and revision.
    pub(in crate::embedded) fn flush(
        &mut self,
        sequence: u64,
        revision: Revision,
    ) -> Result<(), LogError> {
        let (count, digest) = self.builder.tally();
        if count == 0 {
            return Ok(());
        }
        let position = usize::try_from(self.tally.end).unwrap_or(usize::MAX);
        let facts = Facts {
            kind: Kind::Kept,
            sequence,
            previous: self.tally.last,
            floor: self.floor,
            revision,
        };
        let frame = self.builder.finish(&self.place, position, facts);
        self.disk
            .write(u64::from(self.tally.end), frame)
            .map_err(LogError::on("rewrite a segment"))?;
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        self.tally = Tally {
            end: self.tally.end.saturating_add(len),
            frames: self.tally.frames.saturating_add(1),
            count: self.tally.count.saturating_add(count),
            previous: self.tally.previous,
            last: sequence,
            revision,
            digest: self.tally.digest.wrapping_add(digest),
        };
        self.builder.clear();
        Ok(())
    }

    /// Makes the segment durable. `None` where it holds nothing, and there is no file.
    pub(in crate::embedded) fn finish(self, swept: Revision) -> Result<Option<Sealed>, LogError> {
        if self.tally.frames == 0 {
            self.abandon();
            return Ok(None);
        }
        let header = encode_header(&self.place, self.tally.end);
        let written = self.disk.write(0, &header);
        written.map_err(LogError::on("rewrite a segment"))?;
        let synced = self
            .disk
            .sync()
            .and_then(|()| self.directory.sync(LOG_FOLDER));
        synced.map_err(LogError::on_sync("sync a rewritten segment"))?;
        Ok(Some(Sealed {
            number: self.place.number,
            generation: self.place.generation,
            tally: self.tally,
            swept,
        }))
    }

    /// Leaves nothing of it. Should the file stay, the next start removes it.
    pub(in crate::embedded) fn abandon(self) {
        let name = segment_name(self.place.number, self.place.generation);
        drop(self.disk);
        if let Err(error) = self.directory.remove(&name) {
            tracing::debug!(%error, "cannot remove an unused file");
        }
    }
}
