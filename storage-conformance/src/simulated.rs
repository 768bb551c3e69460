//! A directory that crashes, tears, fails, fills up and lies, by seed.
//!
//! What is written lies in a cache until it is synced. A crash keeps what was synced, and of the
//! rest an arbitrary part, in sectors: any of them may have reached the disk, in any order. So it is with
//! names: what was made, renamed or removed since the folder was synced is there or is not, each by itself.
//!
//! # Invariants
//! - [`SimulatedDirectory::after_crash`] never loses a synced byte or name, unless it was told to lie.
//! - The same seed and the same calls give the same directory.

use std::collections::BTreeMap;
use std::io::{self, Error as IoError, ErrorKind};
use std::sync::Arc;

use parking_lot::Mutex;
use storage::embedded::{Directory, Disk};

use super::Random;

/// What a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// A directory in memory. Clones are the same directory.
#[derive(Clone, Debug, Default)]
pub struct SimulatedDirectory(Arc<Mutex<World>>);

/// A file of a simulated directory, or one by itself. Clones are the same file.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    world: Arc<Mutex<World>>,
    inode: usize,
}

/// What goes wrong, and when. Calls that change something, syncs among them, are counted from 0 over
/// all files.
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
    /// From this call on nothing more fits, until [`SimulatedDirectory::set_fault`]. Half of a
    /// write that does not fit is written.
    FullAt(u64),
    /// Syncs do nothing, and say that they have: a planted bug for the checkers to find.
    Lie,
}

/// A call that changed something, or would have: what it did, and to which file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deed {
    /// `create`, `write`, `set_len`, `sync`, `rename`, `remove` or `sync names`.
    pub call: &'static str,
    /// The file's name when it was made, or the folder's.
    pub name: String,
}

#[derive(Debug, Default)]
struct World {
    files: Vec<Content>,
    /// What a reader sees, and what survives a crash for certain.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending_names: Vec<Naming>,
    fault: Fault,
    syncs: u64,
    deeds: Vec<Deed>,
    background: bool,
}

#[derive(Debug, Default)]
struct Content {
    /// The name under which it was made.
    name: String,
    /// What survives a crash for certain.
    durable: Vec<u8>,
    /// What a reader sees.
    cached: Vec<u8>,
    /// What was done since the last sync.
    pending: Vec<Pending>,
}

#[derive(Clone, Debug)]
enum Pending {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

/// A name that came to a file, or went.
#[derive(Clone, Debug)]
struct Naming {
    folder: String,
    gone: Option<String>,
    come: Option<(String, usize)>,
}

// === impl SimulatedDirectory ===

impl SimulatedDirectory {
    /// A directory with these files, all durable.
    pub fn with_files(files: BTreeMap<String, Vec<u8>>) -> Self {
        let mut world = World::default();
        for (name, bytes) in files {
            world.names.insert(name.clone(), world.files.len());
            world.files.push(Content {
                name,
                durable: bytes.clone(),
                cached: bytes,
                pending: Vec::new(),
            });
        }
        world.durable_names = world.names.clone();
        Self(Arc::new(Mutex::new(world)))
    }

    /// What happens from now on.
    pub fn set_fault(&self, fault: Fault) {
        self.0.lock().fault = fault;
    }

    /// Has segments prepared and rewritten on a thread of their own, as a real directory has. The order of
    /// calls is no longer that of the seed alone.
    pub fn set_background(&self, background: bool) {
        self.0.lock().background = background;
    }

    /// How many calls there were that change something: the places at which it can crash.
    pub fn calls(&self) -> u64 {
        self.0.lock().deeds.len() as u64
    }

    /// What those calls were.
    pub fn deeds(&self) -> Vec<Deed> {
        self.0.lock().deeds.clone()
    }

    /// How many syncs there were.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// What a reader sees.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let world = self.0.lock();
        let content = |inode: &usize| world.files.get(*inode).map(|file| file.cached.clone());
        let files = world.names.iter();
        files
            .filter_map(|(name, inode)| Some((name.clone(), content(inode)?)))
            .collect()
    }

    /// The directory as a machine finds it that lost power now.
    #[must_use]
    pub fn after_crash(&self, seed: u64) -> Self {
        let world = self.0.lock();
        let mut random = Random::new(seed);
        // Some crashes keep nearly all, some nearly nothing: those are the interesting ones.
        let kept_of_8 = random.bits() % 9;
        let mut kept = || random.bits() % 8 < kept_of_8;
        let mut names = world.durable_names.clone();
        for naming in &world.pending_names {
            if kept() {
                naming.apply(&mut names);
            }
        }
        let files = names.into_iter().filter_map(|(name, inode)| {
            let file = world.files.get(inode)?;
            Some((name, file.after_crash(&mut kept)))
        });
        Self::with_files(files.collect())
    }

    fn name(&self, call: &'static str, naming: Naming) -> io::Result<()> {
        let mut world = self.0.lock();
        let name = naming.come.as_ref().map(|(name, _)| name.clone());
        let name = name.or_else(|| naming.gone.clone()).unwrap_or_default();
        world.call(call, name)?;
        naming.apply(&mut world.names);
        world.pending_names.push(naming);
        Ok(())
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        let inode = self.0.lock().names.get(name).copied();
        inode.ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl Directory for SimulatedDirectory {
    fn open(&self, name: &str) -> io::Result<Box<dyn Disk>> {
        let inode = self.inode(name)?;
        Ok(Box::new(SimulatedDisk {
            world: Arc::clone(&self.0),
            inode,
        }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Disk>> {
        if let Ok(inode) = self.inode(name) {
            let disk = SimulatedDisk {
                world: Arc::clone(&self.0),
                inode,
            };
            disk.change("create", Pending::SetLen(0))?;
            return Ok(Box::new(disk));
        }
        let mut world = self.0.lock();
        let inode = world.files.len();
        world.files.push(Content {
            name: name.to_owned(),
            ..Content::default()
        });
        if world.is_full() {
            world.count("create", name.to_owned());
            return Err(ErrorKind::StorageFull.into());
        }
        drop(world);
        let naming = Naming {
            folder: folder_of(name),
            gone: None,
            come: Some((name.to_owned(), inode)),
        };
        self.name("create", naming)?;
        self.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.inode(from)?;
        let naming = Naming {
            folder: folder_of(to),
            gone: Some(from.to_owned()),
            come: Some((to.to_owned(), inode)),
        };
        self.name("rename", naming)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inode(name)?;
        let naming = Naming {
            folder: folder_of(name),
            gone: Some(name.to_owned()),
            come: None,
        };
        self.name("remove", naming)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().names.keys().cloned().collect())
    }

    fn sync(&self, folder: &str) -> io::Result<()> {
        let mut world = self.0.lock();
        let is_here = |naming: &Naming| naming.folder == folder;
        if let Err(error) = world.call_sync("sync names", folder.to_owned()) {
            if error.kind() != ErrorKind::NotConnected {
                world.pending_names.retain(|naming| !is_here(naming));
            }
            return Err(error);
        }
        if world.fault == Fault::Lie {
            return Ok(());
        }
        let (done, left) = std::mem::take(&mut world.pending_names)
            .into_iter()
            .partition(is_here);
        world.pending_names = left;
        let done: Vec<Naming> = done;
        for naming in done {
            naming.apply(&mut world.durable_names);
        }
        Ok(())
    }

    fn identity(&self) -> io::Result<[u8; 16]> {
        Ok(*b"a simulated disk")
    }

    fn in_background(&self) -> bool {
        self.0.lock().background
    }
}

// === impl SimulatedDisk ===

impl Default for SimulatedDisk {
    fn default() -> Self {
        let world = World {
            files: vec![Content::default()],
            ..World::default()
        };
        Self {
            world: Arc::new(Mutex::new(world)),
            inode: 0,
        }
    }
}

impl SimulatedDisk {
    fn change(&self, call: &'static str, pending: Pending) -> io::Result<()> {
        let mut world = self.world.lock();
        let full = world.is_full();
        let name = world.name_of(self.inode);
        world.call(call, name)?;
        let file = world.files.get_mut(self.inode).ok_or(ErrorKind::NotFound)?;
        let pending = match pending {
            Pending::Write(offset, mut bytes) if full => {
                bytes.truncate(bytes.len() / 2 / SECTOR_BYTES * SECTOR_BYTES);
                Pending::Write(offset, bytes)
            }
            other => other,
        };
        pending.apply(&mut file.cached);
        file.pending.push(pending);
        if full {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl Disk for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        let world = self.world.lock();
        let file = world.files.get(self.inode).ok_or(ErrorKind::NotFound)?;
        Ok(file.cached.len() as u64)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let world = self.world.lock();
        let file = world.files.get(self.inode).ok_or(ErrorKind::NotFound)?;
        let start = position(offset)?;
        let source = file.cached.get(start..start.saturating_add(bytes.len()));
        bytes.copy_from_slice(source.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change("write", Pending::Write(position(offset)?, bytes.to_vec()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change("set_len", Pending::SetLen(position(len)?))
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.world.lock();
        let name = world.name_of(self.inode);
        let synced = world.call_sync("sync", name);
        let lies = world.fault == Fault::Lie;
        let file = world.files.get_mut(self.inode).ok_or(ErrorKind::NotFound)?;
        if let Err(error) = synced {
            if error.kind() != ErrorKind::NotConnected {
                file.pending.clear();
            }
            return Err(error);
        }
        if lies {
            return Ok(());
        }
        for pending in std::mem::take(&mut file.pending) {
            pending.apply(&mut file.durable);
        }
        Ok(())
    }
}

// === impl World ===

impl World {
    /// Counts a call that changes something, and lets it fail where that is planned.
    fn call(&mut self, call: &'static str, name: String) -> io::Result<()> {
        let number = self.count(call, name);
        match self.fault {
            Fault::StopAt(at) if number >= at => Err(off()),
            _ => Ok(()),
        }
    }

    fn call_sync(&mut self, call: &'static str, name: String) -> io::Result<()> {
        let sync = self.syncs;
        self.syncs = self.syncs.saturating_add(1);
        self.call(call, name)?;
        match self.fault {
            Fault::FailSync(at) if sync >= at => Err(IoError::other("the disk could not keep it")),
            _ => Ok(()),
        }
    }

    fn count(&mut self, call: &'static str, name: String) -> u64 {
        let number = self.deeds.len() as u64;
        self.deeds.push(Deed { call, name });
        number
    }

    /// Whether the next call finds no space.
    fn is_full(&self) -> bool {
        matches!(self.fault, Fault::FullAt(at) if self.deeds.len() as u64 >= at)
    }

    fn name_of(&self, inode: usize) -> String {
        self.files
            .get(inode)
            .map(|file| file.name.clone())
            .unwrap_or_default()
    }
}

// === impl Content ===

impl Content {
    fn after_crash(&self, kept: &mut impl FnMut() -> bool) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for pending in &self.pending {
            match pending {
                Pending::SetLen(_) if kept() => pending.apply(&mut bytes),
                Pending::SetLen(_) => {}
                Pending::Write(offset, data) => {
                    for (n, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                        if kept() {
                            write_to(&mut bytes, offset.saturating_add(n * SECTOR_BYTES), sector);
                        }
                    }
                }
            }
        }
        bytes
    }
}

// === impl Pending ===

impl Pending {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, data) => write_to(bytes, *offset, data),
            Self::SetLen(len) => bytes.resize(*len, 0),
        }
    }
}

// === impl Naming ===

impl Naming {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(gone) = &self.gone {
            names.remove(gone);
        }
        if let Some((name, inode)) = &self.come {
            names.insert(name.clone(), *inode);
        }
    }
}

/// How calls fail once the machine is off: told apart from a sync that failed.
fn off() -> IoError {
    IoError::new(ErrorKind::NotConnected, "the machine is off")
}

fn folder_of(name: &str) -> String {
    name.rsplit_once('/')
        .map(|(folder, _)| folder.to_owned())
        .unwrap_or_default()
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
