//! The disk as a seam: a file in earnest, a simulation that crashes in tests.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A growable array of bytes of which only what was synced survives.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Its length in bytes.
    ///
    /// # Errors
    /// Those of the device.
    fn len(&self) -> io::Result<u64>;

    /// Whether nothing was ever written to it.
    ///
    /// # Errors
    /// Those of the device.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Fills `bytes` from an offset.
    ///
    /// # Errors
    /// Those of the device; bytes behind the end are one.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at an offset.
    ///
    /// # Errors
    /// Those of the device.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes it longer, with zeros, or shorter.
    ///
    /// # Errors
    /// Those of the device.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns when everything written before will survive.
    ///
    /// # Errors
    /// Those of the device. What was written before the failed call may be lost although a later
    /// call succeeds.
    fn sync(&self) -> io::Result<()>;
}

/// A file. The directory's lock keeps others away, so none is taken here.
#[derive(Debug)]
pub(crate) struct FileDisk(File);

/// A disk as redb wants it.
#[derive(Debug)]
pub(crate) struct Backend(Box<dyn Disk>);

// === impl FileDisk ===

impl FileDisk {
    pub(crate) fn new(file: File) -> Self {
        Self(file)
    }
}

impl Disk for FileDisk {
    fn len(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        // A changed length is synced with the data: it is needed to read them.
        self.0.sync_data()
    }
}

// === impl Backend ===

impl Backend {
    pub(crate) fn new(disk: Box<dyn Disk>) -> Self {
        Self(disk)
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}
