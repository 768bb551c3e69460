//! The file `FORMAT`, and what it means together with the files beside it. It is the commit point of
//! making, upgrading, rolling back and restoring a store: what it does not name is a leftover.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::io;

use super::codec::FORMAT;
use super::disk::{Directory, read_up_to};
use super::format_one;
use super::log::{MANIFEST_FILE, NEW_SUFFIX, corrupt, has_frame, io_error, replace, segments};
use crate::error::OpenError;

pub(super) const FORMAT_FILE: &str = "FORMAT";
/// The log of format 1.
pub(super) const LOG_ONE_FILE: &str = "log.redb";

const MAGIC: &str = "wheelhouse-store";

/// `FORMAT` is some thirty bytes; what is longer is something else.
const BYTES_MAX: u64 = 4096;

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No store, or one whose making was cut off.
    Nothing,
    /// A store of format 1.
    One,
    /// A store of format 2.
    Two,
}

/// Looks at what is there, and changes nothing.
pub(super) fn find(directory: &dyn Directory) -> Result<Found, OpenError> {
    let format = read(directory)?;
    if let Some(found) = format.filter(|found| *found > FORMAT) {
        return Err(OpenError::NewerFormat {
            found,
            known: FORMAT,
        });
    }
    let names = directory.list().map_err(io_error("list the directory"))?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    match format {
        Some(FORMAT) if has(MANIFEST_FILE) => Ok(Found::Two),
        Some(FORMAT) => Err(corrupt(MANIFEST_FILE, "it is missing")),
        Some(format_one::FORMAT) if has(LOG_ONE_FILE) => Ok(Found::One),
        Some(format_one::FORMAT) if has(&format!("{LOG_ONE_FILE}{NEW_SUFFIX}")) => {
            Ok(Found::Nothing)
        }
        Some(format_one::FORMAT) => Err(corrupt(LOG_ONE_FILE, "it is missing")),
        Some(_) => Err(corrupt(FORMAT_FILE, "there is no such format")),
        None if has(LOG_ONE_FILE) => Err(corrupt(FORMAT_FILE, "it is missing beside the log")),
        None => {
            for name in segments(directory)? {
                if has_frame(directory, &name)? {
                    return Err(corrupt(FORMAT_FILE, "it is missing beside the log"));
                }
            }
            Ok(Found::Nothing)
        }
    }
}

/// Makes a format that of the directory.
pub(super) fn switch(directory: &dyn Directory, format: u32) -> Result<(), OpenError> {
    let text = format!("{MAGIC}\nformat {format}\n");
    Ok(replace(directory, FORMAT_FILE, text.as_bytes())?)
}

fn read(directory: &dyn Directory) -> Result<Option<u32>, OpenError> {
    let disk = match directory.open(FORMAT_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        disk => disk.map_err(io_error("open FORMAT"))?,
    };
    let bytes = read_up_to(&*disk, BYTES_MAX).map_err(io_error("read FORMAT"))?;
    parse(&bytes)
        .map(Some)
        .ok_or_else(|| corrupt(FORMAT_FILE, "it does not name a format"))
}

/// Later formats may add lines, so only the first two are read.
pub(super) fn parse(bytes: &[u8]) -> Option<u32> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    if lines.next()? != MAGIC {
        return None;
    }
    lines.next()?.strip_prefix("format ")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::simulated::SimulatedDirectory;

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
            assert_eq!(parse(text.as_bytes()), want, "{name}");
        }
        assert_eq!(parse(b"\xff\xfe"), None, "not text");
    }

    #[test]
    fn every_cut_off_making_of_a_store_is_told_from_a_lost_log() {
        let missing = Err("it is missing");
        let beside = Err("it is missing beside the log");
        for (name, format, files, want) in [
            ("nothing", None, &[][..], Ok(Found::Nothing)),
            ("manifest written", None, &["MANIFEST"], Ok(Found::Nothing)),
            (
                "format begun",
                None,
                &["MANIFEST", "FORMAT.new"],
                Ok(Found::Nothing),
            ),
            ("a store", Some(2), &["MANIFEST"], Ok(Found::Two)),
            (
                "upgraded but for the copy",
                Some(2),
                &["MANIFEST", "log.redb"],
                Ok(Found::Two),
            ),
            ("manifest lost", Some(2), &[], missing),
            (
                "manifest lost while it was replaced",
                Some(2),
                &["MANIFEST.new"],
                missing,
            ),
            ("format 1", Some(1), &["log.redb"], Ok(Found::One)),
            (
                "format 1 with leftovers",
                Some(1),
                &["log.redb", "MANIFEST"],
                Ok(Found::One),
            ),
            (
                "format 1 begun",
                Some(1),
                &["log.redb.new"],
                Ok(Found::Nothing),
            ),
            ("its log lost", Some(1), &["MANIFEST"], missing),
            ("its format lost", None, &["log.redb"], beside),
            (
                "no such format",
                Some(0),
                &["MANIFEST"],
                Err("there is no such format"),
            ),
        ] {
            let directory = SimulatedDirectory::default();
            for file in files {
                drop(directory.create(file).unwrap());
            }
            if let Some(format) = format {
                switch(&directory, format).unwrap();
            }
            let got = find(&directory).map_err(|error| match error {
                OpenError::Corrupt { reason, .. } => reason,
                other => other.to_string(),
            });
            assert_eq!(got, want.map_err(str::to_owned), "{name}");
        }
    }
}
