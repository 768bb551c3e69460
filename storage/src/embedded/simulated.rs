//! A disk that crashes, tears, fails and lies, by seed.
//!
//! What is written lies in a cache until it is synced. A crash keeps what was synced, and of the
//! rest an arbitrary part, in sectors: any of them may have reached the disk, in any order.
//!
//! # Invariants
//! - [`SimulatedDisk::after_crash`] never loses a synced byte, unless the disk was told to lie.
//! - The same seed and the same calls give the same disk.

use std::io::{self, Error as IoError};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Disk;
use crate::conformance::Random;

/// What a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

/// What goes wrong, and when. Calls of `write`, `set_len` and `sync` are counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// From this call on nothing reaches the disk any more, and all calls fail: the crash.
    StopAt(u64),
    /// From this sync on (counted alone) syncs fail, and drop what they should have kept, as
    /// Linux does; the next one would succeed.
    FailSync(u64),
    /// From this call on writes fail for want of space, until [`SimulatedDisk::set_fault`].
    FullAt(u64),
    /// Syncs do nothing, and say that they have: a planted bug for the checkers to find.
    Lie,
}

#[derive(Debug, Default)]
struct State {
    /// What survives a crash for certain.
    durable: Vec<u8>,
    /// What a reader sees.
    cached: Vec<u8>,
    /// What was done since the last sync.
    pending: Vec<Pending>,
    fault: Fault,
    calls: u64,
    syncs: u64,
}

#[derive(Clone, Debug)]
enum Pending {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

// === impl SimulatedDisk ===

impl SimulatedDisk {
    /// A disk with these bytes on it.
    pub fn with_bytes(bytes: Vec<u8>) -> Self {
        let state = State {
            durable: bytes.clone(),
            cached: bytes,
            ..State::default()
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// What happens from now on.
    pub fn set_fault(&self, fault: Fault) {
        self.0.lock().fault = fault;
    }

    /// How many calls there were that change something: the places at which it can crash.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// How many syncs there were.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// What a reader sees.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().cached.clone()
    }

    /// The disk as a machine finds it that lost power now.
    #[must_use]
    pub fn after_crash(&self, seed: u64) -> Self {
        let state = self.0.lock();
        let mut random = Random::new(seed);
        // Some crashes keep nearly all, some nearly nothing: those are the interesting ones.
        let kept_of_8 = random.bits() % 9;
        let mut bytes = state.durable.clone();
        for pending in &state.pending {
            match pending {
                Pending::SetLen(len) if random.bits() % 8 < kept_of_8 => bytes.resize(*len, 0),
                Pending::SetLen(_) => {}
                Pending::Write(offset, data) => {
                    for (n, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                        if random.bits() % 8 < kept_of_8 {
                            write_to(&mut bytes, offset.saturating_add(n * SECTOR_BYTES), sector);
                        }
                    }
                }
            }
        }
        Self::with_bytes(bytes)
    }
}

impl Disk for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().cached.len() as u64)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        let start = position(offset)?;
        let source = state.cached.get(start..start.saturating_add(bytes.len()));
        bytes.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        state.call()?;
        let start = position(offset)?;
        write_to(&mut state.cached, start, bytes);
        state.pending.push(Pending::Write(start, bytes.to_vec()));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        state.call()?;
        let len = position(len)?;
        state.cached.resize(len, 0);
        state.pending.push(Pending::SetLen(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.call_sync()?;
        if state.fault == Fault::Lie {
            return Ok(());
        }
        for pending in std::mem::take(&mut state.pending) {
            match pending {
                Pending::Write(offset, bytes) => write_to(&mut state.durable, offset, &bytes),
                Pending::SetLen(len) => state.durable.resize(len, 0),
            }
        }
        Ok(())
    }
}

// === impl State ===

impl State {
    /// Counts a call that changes something, and lets it fail where that is planned.
    fn call(&mut self) -> io::Result<()> {
        let call = self.count();
        match self.fault {
            Fault::StopAt(at) if call >= at => Err(IoError::other("the machine is off")),
            Fault::FullAt(at) if call >= at => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn call_sync(&mut self) -> io::Result<()> {
        let call = self.count();
        let sync = self.syncs;
        self.syncs = self.syncs.saturating_add(1);
        match self.fault {
            Fault::StopAt(at) if call >= at => Err(IoError::other("the machine is off")),
            Fault::FailSync(at) if sync >= at => {
                self.pending.clear();
                Err(IoError::other("the disk could not keep it"))
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self) -> u64 {
        let call = self.calls;
        self.calls = self.calls.saturating_add(1);
        call
    }
}

fn position(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(IoError::other)
}

fn write_to(target: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset.saturating_add(bytes.len());
    if target.len() < end {
        target.resize(end, 0);
    }
    if let Some(place) = target.get_mut(offset..end) {
        place.copy_from_slice(bytes);
    }
}
