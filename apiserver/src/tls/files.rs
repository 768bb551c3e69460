//! Files of keys and certificates: they appear whole, and keys are never readable by others.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use super::Error;
use crate::offline;

/// Makes a directory that its owner alone may enter; one that is there is left as it is.
pub(super) fn make_directory(path: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder
        .create(path)
        .map_err(|source| failed("make", path, source))
}

/// Reads a file; `None` where there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed("read", path, source)),
    }
}

/// Writes a file for its owner alone, beside its place first and then into it.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let beside = path.with_extension("new");
    let written = || -> io::Result<()> {
        let mut file = offline::create_own(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    written().map_err(|source| failed("write", path, source))
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File {
        action,
        path: path.display().to_string(),
        source,
    }
}
