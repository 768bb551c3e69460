//! Files as a seam: a directory in earnest, a simulation that crashes in tests.

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

/// The files of a store, by their names. Names have one folder at most: `MANIFEST`,
/// `log/0000000001.0000`. What is done to names survives from [`Directory::sync`] on.
pub trait Directory: Debug + Send + Sync + 'static {
    /// Opens a file that there is.
    ///
    /// # Errors
    /// Those of the device; [`io::ErrorKind::NotFound`].
    fn open(&self, name: &str) -> io::Result<Box<dyn Disk>>;

    /// Makes a file, or empties the one that there is. Makes its folder too.
    ///
    /// # Errors
    /// Those of the device.
    fn create(&self, name: &str) -> io::Result<Box<dyn Disk>>;

    /// Gives a file another name, in place of the file that has it.
    ///
    /// # Errors
    /// Those of the device.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Those of the device; [`io::ErrorKind::NotFound`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// All files with their folders, in order.
    ///
    /// # Errors
    /// Those of the device.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Returns when the names in a folder will survive; the store's own directory is `""`.
    ///
    /// # Errors
    /// Those of the device.
    fn sync(&self, folder: &str) -> io::Result<()>;

    /// Random bytes, for the identity of a store that is being made.
    ///
    /// # Errors
    /// Those of the device.
    fn identity(&self) -> io::Result<[u8; 16]>;

    /// Whether segments are prepared and rewritten on a thread of their own. A simulation says no,
    /// so that the same seed gives the same calls.
    fn in_background(&self) -> bool {
        true
    }
}

/// A file. The directory's lock keeps others away, so none is taken here.
#[derive(Debug)]
pub(super) struct FileDisk(File);

/// Whether a disk has no space: nothing is wrong with it.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Reads a file from its beginning, to the end or to a limit.
pub(super) fn read_up_to(disk: &dyn Disk, limit: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(disk.len()?.min(limit)).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    disk.read(0, &mut bytes)?;
    Ok(bytes)
}

// === impl FileDisk ===

impl FileDisk {
    pub(super) fn new(file: File) -> Self {
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
