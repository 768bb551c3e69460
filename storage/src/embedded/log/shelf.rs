//! What the commit thread and the upkeep thread share: the manifest, the segment in preparation, and
//! what is known of garbage.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::{LogError, Options};
use crate::embedded::codec::{
    LOG_FOLDER, Manifest, Place, SECTOR_BYTES, StoreId, encode_header, segment_name,
};
use crate::embedded::disk::{Directory, Disk};
use crate::keyring::Keyring;
use crate::metrics::Metrics;
use crate::revision::Revision;

pub(in crate::embedded) const MANIFEST_FILE: &str = "MANIFEST";
const NEW_SUFFIX: &str = ".new";

/// Zeros that are written at once.
const FILL_BYTES: usize = 1024 * 1024;

/// Each segment is so many times as large as the one before, up to the largest.
const GROWTH: u32 = 4;

/// How large segments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Sizes {
    pub(in crate::embedded) first: u32,
    pub(in crate::embedded) max: u32,
}

/// A segment that was prepared, and that nothing was written to.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) disk: Box<dyn Disk>,
    pub(super) number: u32,
    pub(super) size: u32,
}

/// The next segment.
#[derive(Debug)]
pub(super) enum Prepared {
    /// Nobody has asked for it.
    Absent,
    /// Somebody is to make it: number and size.
    Wanted(u32, u32),
    /// Somebody is making it.
    InWork,
    Ready(Fresh),
    Failed(LogError),
}

/// What is shared. Locks, in their order: `switching`, `manifest`, `bench`.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) directory: Arc<dyn Directory>,
    pub(super) store: StoreId,
    pub(super) sizes: Sizes,
    /// Its first key seals what a sweep copies.
    pub(super) keyring: Option<Arc<Keyring>>,
    /// Held by whoever replaces the manifest, file and all.
    switching: Mutex<()>,
    /// The manifest as it is on disk; held for moments.
    manifest: Mutex<Arc<Manifest>>,
    pub(super) bench: Mutex<Bench>,
    pub(super) changed: Condvar,
    /// The durable floor.
    floor: AtomicU64,
    pub(super) metrics: Metrics,
}

/// What waits to be done, and what was done.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) prepared: Prepared,
    pub(super) sweep_wanted: bool,
    pub(super) closing: bool,
    /// There is nobody who does what is wanted.
    pub(super) deserted: bool,
    /// Bytes of records that somebody may need, by the number of their sealed segment. One that is not
    /// here is needed as a whole.
    pub(super) kept: BTreeMap<u32, u64>,
    /// Numbers of sealed segments with records that the first key of the keyring has not sealed, and should have.
    pub(super) stale: BTreeSet<u32>,
    pub(super) failed: Option<Arc<LogError>>,
}

/// Replaces a file as a whole, durably.
pub(in crate::embedded) fn replace(
    directory: &dyn Directory,
    name: &str,
    bytes: &[u8],
) -> Result<(), LogError> {
    let new = format!("{name}{NEW_SUFFIX}");
    let disk = directory
        .create(&new)
        .map_err(LogError::on("make a file"))?;
    disk.write(0, bytes).map_err(LogError::on("write a file"))?;
    disk.sync().map_err(LogError::on_sync("sync a file"))?;
    let renamed = directory.rename(&new, name);
    renamed.map_err(LogError::on("rename a file"))?;
    directory
        .sync("")
        .map_err(LogError::on_sync("sync the directory"))
}

// === impl Sizes ===

impl Sizes {
    /// The size of the segment behind one of a size, with room for a frame.
    pub(super) fn next(self, size: u32, need: usize) -> u32 {
        let grown = size.saturating_mul(GROWTH).clamp(self.first, self.max);
        grown.max(self.least(need))
    }

    /// The size of the smallest segment with room for a frame.
    fn least(self, need: usize) -> u32 {
        let need = need.saturating_add(SECTOR_BYTES);
        let need = u32::try_from(need).expect("frames are bounded");
        need.max(self.first)
    }
}

fn bytes_of(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

// === impl Shelf ===

impl Shelf {
    pub(super) fn new(
        directory: Arc<dyn Directory>,
        manifest: Manifest,
        options: &Options,
    ) -> Self {
        Self {
            directory,
            store: manifest.store,
            sizes: options.sizes,
            keyring: options.keyring.clone(),
            switching: Mutex::default(),
            floor: AtomicU64::new(manifest.floor.0),
            metrics: options.metrics.clone(),
            manifest: Mutex::new(Arc::new(manifest)),
            bench: Mutex::new(Bench {
                prepared: Prepared::Absent,
                sweep_wanted: false,
                closing: false,
                deserted: true,
                kept: BTreeMap::new(),
                stale: BTreeSet::new(),
                failed: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// The manifest that is in force.
    pub(super) fn manifest(&self) -> Arc<Manifest> {
        Arc::clone(&self.manifest.lock())
    }

    /// The floor that is durable.
    pub(super) fn floor(&self) -> Revision {
        Revision(self.floor.load(Ordering::Acquire))
    }

    /// Notes that a floor has become durable.
    pub(super) fn set_floor(&self, floor: Revision) {
        self.floor.fetch_max(floor.0, Ordering::AcqRel);
    }

    /// Replaces the manifest. After [`LogError::Full`] the old one is in force.
    pub(super) fn switch(&self, change: impl FnOnce(&mut Manifest)) -> Result<(), LogError> {
        let switching = self.switching.lock();
        let mut manifest = Manifest::clone(&self.manifest());
        change(&mut manifest);
        // What the active segment holds is not the manifest's to say.
        manifest.floor = manifest.floor.max(self.floor().min(manifest.revision));
        replace(&*self.directory, MANIFEST_FILE, &manifest.encode())?;
        *self.manifest.lock() = Arc::new(manifest);
        drop(switching);
        Ok(())
    }

    /// Prepares the next segment if it is wanted, and returns whether it was. A sweep calls this too: commits may wait
    /// for it.
    pub(super) fn prepare_wanted(&self) -> bool {
        let mut bench = self.bench.lock();
        let Prepared::Wanted(number, size) = bench.prepared else {
            return false;
        };
        bench.prepared = Prepared::InWork;
        drop(bench);
        let made = self.prepare(number, size, 0);
        let mut bench = self.bench.lock();
        bench.prepared = match made {
            Ok(fresh) => Prepared::Ready(fresh),
            Err(error) => Prepared::Failed(error),
        };
        drop(bench);
        self.changed.notify_all();
        true
    }

    /// Makes a segment of zeros, durable on its disk. Where there is no space for it, a smaller one, with
    /// room for a frame.
    pub(super) fn prepare(&self, number: u32, size: u32, need: usize) -> Result<Fresh, LogError> {
        let name = segment_name(number, 0);
        let least = self.sizes.least(need).min(size);
        let mut size = size;
        loop {
            let made = self.fill(&name, number, size);
            let Err(error) = made else {
                return made;
            };
            // What is left of it takes space that is wanted, and is made anew.
            self.remove(&name);
            if !error.is_full() || size == least {
                return Err(error);
            }
            size = (size / GROWTH).max(least);
        }
    }

    /// Asks for the next segment, if nobody has.
    pub(super) fn want(&self, number: u32, size: u32) {
        let mut bench = self.bench.lock();
        if matches!(
            bench.prepared,
            Prepared::Absent | Prepared::Failed(LogError::Full { .. })
        ) {
            bench.prepared = Prepared::Wanted(number, size);
            self.changed.notify_all();
        }
    }

    /// The next segment, with room for a frame; made here where it is not there yet.
    pub(super) fn take(&self, number: u32, size: u32, need: usize) -> Result<Fresh, LogError> {
        let mut bench = self.bench.lock();
        self.changed.wait_while(&mut bench, |bench| {
            matches!(bench.prepared, Prepared::Wanted(..) | Prepared::InWork) && !bench.deserted
        });
        let prepared = std::mem::replace(&mut bench.prepared, Prepared::Absent);
        drop(bench);
        match prepared {
            Prepared::Ready(fresh) if fresh.number == number && fresh.has_room(need) => Ok(fresh),
            Prepared::Failed(error) if !error.is_full() => Err(error),
            _ => self.prepare(number, size, need),
        }
    }

    /// Puts a segment back that was not needed after all.
    pub(super) fn put_back(&self, fresh: Fresh) {
        self.bench.lock().prepared = Prepared::Ready(fresh);
    }

    /// Removes a file that nobody needs. Should it stay, the next start removes it.
    pub(super) fn remove(&self, name: &str) {
        match self.directory.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::debug!(%error, "cannot remove an unused file");
            }
            _ => {}
        }
    }

    fn fill(&self, name: &str, number: u32, size: u32) -> Result<Fresh, LogError> {
        let on = LogError::on("prepare a segment");
        let place = Place {
            store: self.store,
            number,
            generation: 0,
        };
        let disk = self.directory.create(name).map_err(on)?;
        let len = bytes_of(size);
        let mut bytes = vec![0; FILL_BYTES.min(len)];
        let mut at = 0_usize;
        while at < len {
            let piece = bytes.len().min(len.saturating_sub(at));
            if let Some(first) = bytes.first_chunk_mut::<SECTOR_BYTES>() {
                *first = if at == 0 {
                    encode_header(&place, size)
                } else {
                    [0; SECTOR_BYTES]
                };
            }
            let written = disk.write(at as u64, bytes.get(..piece).unwrap_or_default());
            written.map_err(on)?;
            at = at.saturating_add(piece);
        }
        let synced = disk.sync().and_then(|()| self.directory.sync(LOG_FOLDER));
        synced.map_err(LogError::on_sync("sync a prepared segment"))?;
        Ok(Fresh { disk, number, size })
    }
}

// === impl Fresh ===

impl Fresh {
    fn has_room(&self, need: usize) -> bool {
        need.saturating_add(SECTOR_BYTES) <= bytes_of(self.size)
    }
}
