//! The log: segments of frames, one frame per group, one write and one sync per frame.
//!
//! ```text
//!   append ──► frame ──► active segment ──► sync            [ upkeep thread ]
//!                 │ no room                                  prepares the next segment
//!                 └──► manifest: seal it, take the next      rewrites sealed ones (sweep)
//! ```
//!
//! `docs/storage-format.md` draws the bytes; [`super::codec`] reads and writes them.
//!
//! # Invariants
//! - No byte of a segment is written twice. A write that failed ends its segment.
//! - Before the first frame of a segment is written, the manifest names it, and says where the one
//!   before ends.
//! - The floor is durable before the first record that it gives up is dropped.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod rewriter;
mod scan;
mod shelf;
mod sweep;
mod upkeep;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

pub(super) use self::rewriter::{Rewriter, stored_bytes};
pub(super) use self::scan::{corrupt, has_frame, io_error, segments};
pub(super) use self::shelf::{MANIFEST_FILE, Sizes, replace};

use self::shelf::{Fresh, Prepared, Shelf};
use self::upkeep::Upkeep;
use super::codec::{Facts, FrameBuilder, Kind, Manifest, Place, Sealed, Tally, to_disk};
use super::disk::{Directory, Disk, is_full, read_up_to};
use crate::clock::Clock;
use crate::entry::Entry;
use crate::error::OpenError;
use crate::keyring::{Keyring, KeyringError};
use crate::metrics::Metrics;
use crate::revision::Revision;
use crate::view::Snapshot;

/// So many new bytes of garbage are worth looking at what a sweep would do.
const GARBAGE_STEP_BYTES: u64 = 1024 * 1024;

/// The next segment is prepared when so much of the active one is used.
const PREPARE_DIVISOR: u32 = 4;

/// What a sweep asks about keys.
pub(super) trait States: Debug + Send + Sync {
    /// The revision of a key's state at a revision from the floor on; `None` where it is absent.
    fn state_at(&self, key: &[u8], at: Revision) -> Option<Revision>;
}

/// How a log is kept.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) sizes: Sizes,
    pub(super) keyring: Option<Arc<Keyring>>,
    /// What tells how long a sync took.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
}

/// The log of a store, open for one writer.
#[derive(Debug)]
pub(super) struct Log {
    /// Ends before anything else of the log does.
    upkeep: Option<Upkeep>,
    shelf: Arc<Shelf>,
    active: Active,
    builder: FrameBuilder,
    keyring: Option<Arc<Keyring>>,
    floor: Revision,
    /// Garbage that was noted since a sweep was thought of.
    noted_bytes: u64,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
}

/// The segment that is written to.
#[derive(Debug)]
struct Active {
    /// `None` once it is ended: the next frame goes to another one.
    disk: Option<Box<dyn Disk>>,
    number: u32,
    size: u32,
    tally: Tally,
    /// The bytes of the records in it that somebody may need.
    kept: u64,
}

/// Why the log could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum LogError {
    /// Nothing was kept, and nothing is wrong: it may be tried again.
    #[error("cannot {action}")]
    Full {
        action: &'static str,
        #[source]
        source: io::Error,
    },
    /// Nothing is known about what was kept. The log is not to be written again.
    #[error("cannot {action}")]
    Failed {
        action: &'static str,
        #[source]
        source: io::Error,
    },
    /// A segment is not what it was.
    #[error("a sweep found damage")]
    Rotten(#[source] Box<OpenError>),
    #[error("a value cannot be sealed")]
    Sealing(#[source] KeyringError),
}

// === impl LogError ===

impl LogError {
    /// Whether it may be tried again.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// What a failed call means, but a sync.
    fn on(action: &'static str) -> impl Fn(io::Error) -> Self + Copy {
        move |source| {
            if is_full(&source) {
                Self::Full { action, source }
            } else {
                Self::Failed { action, source }
            }
        }
    }

    /// What a failed sync means: whatever the reason, nothing is known any more.
    fn on_sync(action: &'static str) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Failed { action, source }
    }
}

// === impl Log ===

impl Log {
    /// Makes an empty log, durable in its directory: a manifest without segments.
    pub(super) fn create(directory: &dyn Directory) -> Result<(), OpenError> {
        let start = Revision::start_of_epoch(Revision::EPOCH_FIRST)
            .expect("the first epoch lies on the number line");
        let manifest = Manifest {
            store: directory.identity().map_err(io_error("name the store"))?,
            epoch: start.epoch(),
            floor: start,
            revision: start,
            sequence: 0,
            active: None,
            sealed: Vec::new(),
        };
        Ok(replace(directory, MANIFEST_FILE, &manifest.encode())?)
    }

    /// Opens a log, after a crash too: reads and proves everything.
    pub(super) fn open(
        directory: Arc<dyn Directory>,
        options: Options,
    ) -> Result<(Self, Snapshot), OpenError> {
        let manifest = read_manifest(&*directory)?;
        let scanned = scan::scan(&*directory, &manifest, options.keyring.as_deref())?;
        let leftovers = scan::leftovers(&*directory, &manifest)?;
        let (number, size) = manifest.active.unwrap_or((manifest.number(), 0));
        let shelf = Shelf::new(directory, manifest, &options);
        for name in leftovers {
            shelf.remove(&name);
        }
        let floor = scanned.snapshot.floor;
        shelf.set_floor(floor);
        let mut log = Self {
            upkeep: None,
            shelf: Arc::new(shelf),
            active: Active {
                disk: None,
                number,
                size,
                tally: scanned.active,
                kept: 0,
            },
            builder: FrameBuilder::default(),
            keyring: options.keyring,
            floor,
            noted_bytes: 0,
            clock: options.clock,
            metrics: options.metrics,
        };
        log.active.tally.revision = scanned.snapshot.revision;
        for (segment, bytes) in scanned.kept {
            if segment == number {
                log.active.kept = bytes;
            } else {
                log.shelf.bench.lock().kept.insert(segment, bytes);
            }
        }
        log.note_garbage(scanned.garbage);
        log.shelf.bench.lock().stale.extend(scanned.stale);
        // However large the last one was: nobody waits at a start until so many zeros are written.
        match log.rotate(0, 0) {
            Err(error @ LogError::Full { .. }) => {
                tracing::warn!(%error, "disk is full: the store is read-only until space is freed");
            }
            rotated => rotated?,
        }
        Ok((log, scanned.snapshot))
    }

    /// Lets segments be prepared and rewritten from now on.
    pub(super) fn start_upkeep(&mut self, states: Arc<dyn States>) {
        self.upkeep = Some(Upkeep::start(Arc::clone(&self.shelf), states));
        self.look_for_garbage();
    }

    /// The revision of the last commit.
    pub(super) fn revision(&self) -> Revision {
        self.active.tally.revision
    }

    /// The oldest revision of which the log knows everything.
    pub(super) fn floor(&self) -> Revision {
        self.floor
    }

    /// Bytes of records that somebody may need, and those that sweeps may free.
    pub(super) fn live_and_garbage_bytes(&self) -> (u64, u64) {
        let sealed =
            sweep::live_and_garbage_bytes(&self.shelf.manifest(), &self.shelf.bench.lock().kept);
        (sealed.0.saturating_add(self.active.kept), sealed.1)
    }

    /// Appends the records of a group durably.
    ///
    /// After [`LogError::Full`] nothing of it is there. After any other error nothing is known about
    /// what became durable, and the log must be dropped.
    pub(super) fn append(&mut self, entries: &[Entry]) -> Result<(), LogError> {
        let revision = entries.last().map_or(self.revision(), Entry::modified);
        self.write(entries, self.floor, revision)
    }

    /// Gives history below a revision up, durably. Only then may its records be dropped.
    pub(super) fn raise_floor(&mut self, floor: Revision) -> Result<(), LogError> {
        let floor = floor.min(self.revision());
        if floor <= self.floor {
            return Ok(());
        }
        self.write(&[], floor, self.revision())?;
        self.floor = floor;
        self.shelf.set_floor(floor);
        Ok(())
    }

    /// Notes records that nobody needs any more, by revision and size.
    pub(super) fn note_garbage(&mut self, records: impl IntoIterator<Item = (Revision, u64)>) {
        let manifest = self.shelf.manifest();
        let mut bench = self.shelf.bench.lock();
        for (revision, bytes) in records {
            let place = manifest
                .sealed
                .partition_point(|segment| segment.tally.revision < revision);
            let kept = match manifest.sealed.get(place) {
                Some(segment) => bench.kept.get_mut(&segment.number),
                None => Some(&mut self.active.kept),
            };
            if let Some(kept) = kept {
                *kept = kept.saturating_sub(bytes);
            }
            self.noted_bytes = self.noted_bytes.saturating_add(bytes);
        }
        drop(bench);
        if self.noted_bytes >= GARBAGE_STEP_BYTES {
            self.look_for_garbage();
        }
    }

    /// Does what falls due while nobody writes.
    pub(super) fn idle(&mut self) {
        if self.noted_bytes > 0 {
            self.look_for_garbage();
        }
        let full = matches!(
            self.shelf.bench.lock().prepared,
            Prepared::Failed(LogError::Full { .. })
        );
        if full {
            self.want_next();
        }
    }

    /// What went wrong behind the scenes, if something did.
    pub(super) fn failure(&self) -> Option<Arc<LogError>> {
        self.shelf.bench.lock().failed.clone()
    }

    /// Seals what was written, so that the next start need not ask where it ends. Not after a failure.
    pub(super) fn close(&mut self) -> Result<(), LogError> {
        if let Some(mut upkeep) = self.upkeep.take() {
            upkeep.close();
        }
        if self.failure().is_some() {
            return Ok(());
        }
        let active = self.active.sealed();
        self.shelf.switch(|manifest| {
            seal(manifest, active);
            manifest.active = None;
        })?;
        self.active.disk = None;
        if active.is_none() {
            self.shelf
                .remove(&super::codec::segment_name(self.active.number, 0));
        }
        let prepared = std::mem::replace(&mut self.shelf.bench.lock().prepared, Prepared::Absent);
        if let Prepared::Ready(Fresh { number, .. }) = prepared {
            self.shelf.remove(&super::codec::segment_name(number, 0));
        }
        Ok(())
    }

    fn write(
        &mut self,
        entries: &[Entry],
        floor: Revision,
        revision: Revision,
    ) -> Result<(), LogError> {
        self.builder.clear();
        for entry in entries {
            let record = to_disk(entry, self.keyring.as_deref()).map_err(LogError::Sealing)?;
            self.builder.push(&record);
        }
        let len = self.builder.len();
        if !self.active.has_room(len) {
            self.rotate(self.active.size, len)?;
        }
        let Active {
            disk,
            tally,
            number,
            ..
        } = &mut self.active;
        let place = Place {
            store: self.shelf.store,
            number: *number,
            generation: 0,
        };
        let facts = Facts {
            kind: Kind::Group,
            sequence: tally.last.saturating_add(1),
            previous: tally.last,
            floor,
            revision,
        };
        let (count, digest) = self.builder.tally();
        let body = self.builder.body() as u64;
        let position = usize::try_from(tally.end).unwrap_or(usize::MAX);
        let frame = self.builder.finish(&place, position, facts);
        let open = disk.as_ref().expect("there is room in it");
        if let Err(error) = open.write(u64::from(tally.end), frame) {
            // Whatever reached the disk lies behind the end.
            *disk = None;
            return Err(LogError::on("write the log")(error));
        }
        let began = self.clock.elapsed();
        open.sync().map_err(LogError::on_sync("sync the log"))?;
        let took = self.clock.elapsed().saturating_sub(began);
        self.metrics.sync_seconds.observe(took.as_secs_f64());
        self.metrics.written_bytes.inc_by(frame.len() as u64);
        *tally = Tally {
            end: tally
                .end
                .saturating_add(u32::try_from(frame.len()).unwrap_or(u32::MAX)),
            frames: tally.frames.saturating_add(1),
            count: tally.count.saturating_add(count),
            previous: tally.previous,
            last: facts.sequence,
            revision,
            digest: tally.digest.wrapping_add(digest),
        };
        self.active.kept = self.active.kept.saturating_add(body);
        if self.active.tally.end >= self.active.size / PREPARE_DIVISOR {
            self.want_next();
        }
        Ok(())
    }

    /// Ends the active segment, and takes the next one, with room for a frame, as it follows one of a size.
    fn rotate(&mut self, size: u32, need: usize) -> Result<(), LogError> {
        let number = self.active.number.saturating_add(1);
        let size = self.shelf.sizes.next(size, need);
        let fresh = self.shelf.take(number, size, need)?;
        let ended = self.active.sealed();
        if let Some(ended) = &ended {
            // Before a sweep can see it.
            let kept = self.active.kept;
            self.shelf.bench.lock().kept.insert(ended.number, kept);
        }
        let switched = self.shelf.switch(|manifest| {
            seal(manifest, ended);
            manifest.active = Some((fresh.number, fresh.size));
        });
        if let Err(error) = switched {
            self.shelf.put_back(fresh);
            return Err(error);
        }
        if ended.is_none() && self.active.number > 0 && self.active.size > 0 {
            self.shelf
                .remove(&super::codec::segment_name(self.active.number, 0));
        }
        let Tally { last, revision, .. } = self.active.tally;
        self.active = Active {
            number: fresh.number,
            size: fresh.size,
            disk: Some(fresh.disk),
            tally: Tally::empty(last, revision),
            kept: 0,
        };
        if ended.is_some() {
            self.look_for_garbage();
        }
        Ok(())
    }

    fn want_next(&self) {
        let size = self.shelf.sizes.next(self.active.size, 0);
        self.shelf.want(self.active.number.saturating_add(1), size);
        if let Some(upkeep) = &self.upkeep {
            upkeep.nudge();
        }
    }

    /// Asks for a sweep, where it would find something to do.
    fn look_for_garbage(&mut self) {
        let Some(upkeep) = &self.upkeep else {
            return;
        };
        self.noted_bytes = 0;
        let manifest = self.shelf.manifest();
        let mut bench = self.shelf.bench.lock();
        bench.sweep_wanted = bench.sweep_wanted || sweep::is_due(&manifest, &bench);
        drop(bench);
        self.shelf.changed.notify_all();
        upkeep.nudge();
    }
}

impl Drop for Log {
    /// The thread ends before the directory is given back.
    fn drop(&mut self) {
        self.upkeep = None;
    }
}

/// Reads everything that the manifest names, and writes nothing.
pub(super) fn read_snapshot(
    directory: &dyn Directory,
    keyring: Option<&Keyring>,
) -> Result<Snapshot, OpenError> {
    let manifest = read_manifest(directory)?;
    Ok(scan::scan(directory, &manifest, keyring)?.snapshot)
}

/// Reads the manifest of a log.
pub(super) fn read_manifest(directory: &dyn Directory) -> Result<Manifest, OpenError> {
    let disk = match directory.open(MANIFEST_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(corrupt(MANIFEST_FILE, "it is missing"));
        }
        disk => disk.map_err(io_error("open the manifest"))?,
    };
    let bytes = read_up_to(&*disk, u64::MAX).map_err(io_error("read the manifest"))?;
    Manifest::decode(&bytes).map_err(|reason| corrupt(MANIFEST_FILE, reason))
}

/// Writes the ended segment into a manifest.
fn seal(manifest: &mut Manifest, ended: Option<Sealed>) {
    let Some(ended) = ended else {
        return;
    };
    manifest.revision = manifest.revision.max(ended.tally.revision);
    manifest.sequence = ended.tally.last;
    manifest.sealed.push(ended);
}

// === impl Active ===

impl Active {
    fn has_room(&self, len: usize) -> bool {
        let end = usize::try_from(self.tally.end).unwrap_or(usize::MAX);
        let room = usize::try_from(self.size).unwrap_or(0).saturating_sub(end);
        self.disk.is_some() && len <= room
    }

    /// Its entry in the manifest, if it holds anything.
    fn sealed(&self) -> Option<Sealed> {
        (self.tally.frames > 0).then_some(Sealed {
            number: self.number,
            generation: 0,
            tally: self.tally,
            swept: Revision(0),
        })
    }
}
