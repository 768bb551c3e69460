//! The files of a store, wherever they are: a directory, or memory under test.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::CheckError;

/// Reads files by their names in the store's directory.
pub(crate) trait Files {
    /// A file as a whole.
    fn read(&self, name: &str) -> Result<Vec<u8>, CheckError>;

    /// Whether there is such a file.
    fn has(&self, name: &str) -> bool;

    /// The names in `log/`.
    fn segments(&self) -> Result<Vec<String>, CheckError>;
}

fn failed(path: PathBuf) -> impl FnOnce(io::Error) -> CheckError {
    |source| CheckError::Io { path, source }
}

impl Files for &Path {
    fn read(&self, name: &str) -> Result<Vec<u8>, CheckError> {
        let path = self.join(name);
        fs::read(&path).map_err(failed(path))
    }

    fn has(&self, name: &str) -> bool {
        self.join(name).exists()
    }

    fn segments(&self) -> Result<Vec<String>, CheckError> {
        let log = self.join("log");
        let entries = fs::read_dir(&log).map_err(failed(log.clone()))?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<_>>().map_err(failed(log))
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Files for std::collections::BTreeMap<String, Vec<u8>> {
    fn read(&self, name: &str) -> Result<Vec<u8>, CheckError> {
        let missing = || failed(PathBuf::from(name))(io::ErrorKind::NotFound.into());
        self.get(name).cloned().ok_or_else(missing)
    }

    fn has(&self, name: &str) -> bool {
        self.contains_key(name)
    }

    fn segments(&self) -> Result<Vec<String>, CheckError> {
        let names = self.keys().filter_map(|name| name.strip_prefix("log/"));
        Ok(names.map(ToOwned::to_owned).collect())
    }
}
