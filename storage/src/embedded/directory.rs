//! The directory of a store: who may open it, and whether this version can read it.
//!
//! ```text
//!   LOCK          locked while a process has the store open; empty
//!   FORMAT        "wheelhouse-store\nformat 1\n"; read before anything else is opened
//!   log.redb      the log
//!   log.redb.new  a log in the making; it holds nothing that was acknowledged
//! ```
//!
//! A store is made in this order, each step durable before the next: `log.redb.new` with its first
//! commit, `FORMAT`, the rename to `log.redb`. So of the states that a crash can leave, one without
//! `log.redb` but with `log.redb.new` begins anew, and one with `FORMAT` alone has lost its log: it
//! is refused, because an empty store would mean that everything was deleted.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::log::FORMAT;
use crate::error::OpenError;

const LOCK_FILE: &str = "LOCK";
const FORMAT_FILE: &str = "FORMAT";
const LOG_FILE: &str = "log.redb";
const NEW_SUFFIX: &str = ".new";
const FORMAT_MAGIC: &str = "wheelhouse-store";

/// `FORMAT` is some thirty bytes; what is longer is something else.
const FORMAT_BYTES_MAX: u64 = 4096;

/// A directory that this process has for itself.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Keeps others out until it is dropped, or the process ends in whatever way.
    _lock: File,
}

/// What a directory holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No store, or one whose making was cut off.
    Nothing,
    /// A store of a format that is known here.
    Store,
}

// === impl Directory ===

impl Directory {
    /// Takes a directory, and makes it where there is none.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(io_error("make the directory", path))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = private_file(&lock_path).map_err(io_error("open", &lock_path))?;
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

    /// Looks at what is there, and changes nothing.
    pub(crate) fn find(&self) -> Result<Found, OpenError> {
        let format = self.read_format()?;
        let log = self.exists(LOG_FILE)?;
        match (format, log) {
            (Some(found), _) if found > FORMAT => Err(OpenError::NewerFormat {
                found,
                known: FORMAT,
            }),
            (Some(_), true) => Ok(Found::Store),
            (None, true) => Err(self.corrupt(FORMAT_FILE, "it is missing beside the log")),
            (None, false) => Ok(Found::Nothing),
            (Some(_), false) => {
                if self.exists(&new_name(LOG_FILE))? {
                    Ok(Found::Nothing)
                } else {
                    Err(self.corrupt(LOG_FILE, "it is missing"))
                }
            }
        }
    }

    /// Opens an empty file for a log in the making.
    pub(crate) fn begin_log(&self) -> Result<File, OpenError> {
        let path = self.path.join(new_name(LOG_FILE));
        let file = private_file(&path).map_err(io_error("open", &path))?;
        file.set_len(0).map_err(io_error("empty", &path))?;
        Ok(file)
    }

    /// Makes the log that was begun, and that holds its first commit, the store of the directory.
    pub(crate) fn finish_log(&self) -> Result<(), OpenError> {
        self.sync()?;
        let text = format!("{FORMAT_MAGIC}\nformat {FORMAT}\n");
        let new = self.path.join(new_name(FORMAT_FILE));
        let mut file = private_file(&new).map_err(io_error("open", &new))?;
        file.set_len(0)
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| file.sync_all())
            .map_err(io_error("write", &new))?;
        self.rename(FORMAT_FILE)?;
        self.rename(LOG_FILE)
    }

    /// Opens the log.
    pub(crate) fn log(&self) -> Result<File, OpenError> {
        let path = self.path.join(LOG_FILE);
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(io_error("open", &path))
    }

    fn read_format(&self) -> Result<Option<u32>, OpenError> {
        let path = self.path.join(FORMAT_FILE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("open", &path)(error)),
        };
        let mut bytes = Vec::new();
        file.take(FORMAT_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(io_error("read", &path))?;
        parse_format(&bytes)
            .map(Some)
            .ok_or_else(|| self.corrupt(FORMAT_FILE, "it does not name a format"))
    }

    fn rename(&self, name: &str) -> Result<(), OpenError> {
        let target = self.path.join(name);
        std::fs::rename(self.path.join(new_name(name)), &target)
            .map_err(io_error("rename to", &target))?;
        self.sync()
    }

    /// Makes the names in the directory durable.
    fn sync(&self) -> Result<(), OpenError> {
        File::open(&self.path)
            .and_then(|directory| directory.sync_all())
            .map_err(io_error("sync", &self.path))
    }

    fn exists(&self, name: &str) -> Result<bool, OpenError> {
        let path = self.path.join(name);
        path.try_exists().map_err(io_error("look for", &path))
    }

    fn corrupt(&self, name: &str, reason: &str) -> OpenError {
        let place = self.path.join(name).display().to_string();
        OpenError::Corrupt {
            place,
            reason: reason.to_owned(),
        }
    }
}

/// Later formats may add lines, so only the first two are read.
fn parse_format(bytes: &[u8]) -> Option<u32> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    if lines.next()? != FORMAT_MAGIC {
        return None;
    }
    lines.next()?.strip_prefix("format ")?.parse().ok()
}

fn new_name(name: &str) -> String {
    format!("{name}{NEW_SUFFIX}")
}

/// Opens or makes a file that only its owner can read: the store holds Secrets.
fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn io_error(action: &str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let action = format!("{action} {}", path.display());
    move |source| OpenError::Io { action, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_file_names_its_format_in_the_second_line() {
        for (name, text, want) in [
            ("ours", "wheelhouse-store\nformat 1\n", Some(1)),
            (
                "newer with more lines",
                "wheelhouse-store\nformat 12\nsealed yes\n",
                Some(12),
            ),
            ("cut", "wheelhouse-store\n", None),
            ("other software", "something\nformat 1\n", None),
            ("no number", "wheelhouse-store\nformat one\n", None),
            ("empty", "", None),
        ] {
            assert_eq!(parse_format(text.as_bytes()), want, "{name}");
        }
        assert_eq!(parse_format(b"\xff\xfe"), None, "not text");
    }

    #[test]
    fn every_cut_off_making_of_a_store_is_told_from_a_lost_log() {
        for (name, files, want) in [
            ("nothing", &[][..], Ok(Found::Nothing)),
            ("log begun", &["log.redb.new"], Ok(Found::Nothing)),
            (
                "format begun",
                &["log.redb.new", "FORMAT.new"],
                Ok(Found::Nothing),
            ),
            (
                "format written",
                &["log.redb.new", "FORMAT"],
                Ok(Found::Nothing),
            ),
            ("done", &["log.redb", "FORMAT"], Ok(Found::Store)),
            ("log lost", &["FORMAT"], Err("it is missing")),
            (
                "format lost",
                &["log.redb"],
                Err("it is missing beside the log"),
            ),
        ] {
            let temporary = tempfile::tempdir().unwrap();
            for file in files {
                std::fs::write(temporary.path().join(file), "wheelhouse-store\nformat 1\n")
                    .unwrap();
            }
            let directory = Directory::open(temporary.path()).unwrap();
            let got = directory.find().map_err(|error| match error {
                OpenError::Corrupt { reason, .. } => reason,
                other => other.to_string(),
            });
            assert_eq!(got, want.map_err(str::to_owned), "{name}");
        }
    }
}
