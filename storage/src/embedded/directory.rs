//! A directory of the file system, which this process has for itself.
//!
//! # Invariants
//! - Until it is dropped, or the process ends in whatever way, no other process opens it.
//! - Files belong to their owner alone: 0600, folders 0700.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};

use super::codec::LOG_FOLDER;
use super::disk::{Directory, Disk, FileDisk};
use crate::error::OpenError;

const LOCK_FILE: &str = "LOCK";

/// A locked directory.
#[derive(Debug)]
pub(super) struct FileDirectory {
    path: PathBuf,
    _lock: File,
}

/// Whether an engine has a directory open.
pub fn is_in_use(path: &Path) -> bool {
    let lock = File::open(path.join(LOCK_FILE));
    lock.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

// === impl FileDirectory ===

impl FileDirectory {
    /// Takes a directory, and makes it where there is none.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        make_folder(path, true).map_err(io_error("make the directory", path))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked {
                directory: path.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(io_error("lock", &lock_path)(source)),
        }
    }

    fn list_folder(&self, folder: &str, names: &mut Vec<String>) -> io::Result<()> {
        for file in std::fs::read_dir(self.path.join(folder))? {
            let file = file?;
            let Ok(name) = file.file_name().into_string() else {
                continue;
            };
            if !file.file_type()?.is_file() || name == LOCK_FILE {
                continue;
            }
            names.push(if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            });
        }
        Ok(())
    }
}

impl Directory for FileDirectory {
    fn open(&self, name: &str) -> io::Result<Box<dyn Disk>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path.join(name))?;
        Ok(Box::new(FileDisk::new(file)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Disk>> {
        let path = self.path.join(name);
        let create = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)
        };
        let file = match (create(), path.parent()) {
            (Err(error), Some(folder)) if error.kind() == ErrorKind::NotFound => {
                make_folder(folder, false)?;
                self.sync("")?;
                create()?
            }
            (file, _) => file?,
        };
        Ok(Box::new(FileDisk::new(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        self.list_folder("", &mut names)?;
        match self.list_folder(LOG_FOLDER, &mut names) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync(&self, folder: &str) -> io::Result<()> {
        File::open(self.path.join(folder)).and_then(|folder| folder.sync_all())
    }

    fn identity(&self) -> io::Result<[u8; 16]> {
        let mut bytes = [0; 16];
        match SystemRandom::new().fill(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(ring::error::Unspecified) => Err(io::Error::other("no random bytes")),
        }
    }
}

fn make_folder(path: &Path, recursive: bool) -> io::Result<()> {
    let made = DirBuilder::new()
        .recursive(recursive)
        .mode(0o700)
        .create(path);
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn io_error(action: &str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let action = format!("{action} {}", path.display());
    move |source| OpenError::Io { action, source }
}
