//! The file `FORMAT`, and what it means together with the files beside it. It is the commit point of
//! creating and restoring a store: without it, what is there is a leftover.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::io;

use super::codec::FORMAT;
use super::disk::{Directory, read_up_to};
use super::log::{MANIFEST_FILE, corrupt, has_frame, io_error, replace, segments};
use crate::error::OpenError;

pub(super) const FORMAT_FILE: &str = "FORMAT";

const MAGIC: &str = "wheelhouse-store";

/// `FORMAT` is some thirty bytes; what is longer is something else.
const BYTES_MAX: u64 = 4096;

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No store, or one whose making was cut off.
    Nothing,
    /// A store of this version's format.
    Store,
}

/// Looks at what is there, and changes nothing.
pub(super) fn find(directory: &dyn Directory) -> Result<Found, OpenError> {
    match read(directory)? {
        Some(FORMAT) => {
            let names = directory.list().map_err(io_error("list the directory"))?;
            if names.iter().any(|name| name == MANIFEST_FILE) {
                Ok(Found::Store)
            } else {
                Err(corrupt(MANIFEST_FILE, "it is missing"))
            }
        }
        Some(found) => Err(OpenError::UnknownFormat {
            found,
            known: FORMAT,
        }),
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

/// Writes `FORMAT`, durably.
pub(super) fn write(directory: &dyn Directory) -> Result<(), OpenError> {
    let text = format!("{MAGIC}\nformat {FORMAT}\n");
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
    use crate::conformance::simulated::SimulatedDirectory;

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
    fn every_cut_off_creation_of_a_store_is_told_from_a_lost_log() {
        let missing = Err("MANIFEST is corrupt: it is missing");
        let unknown = Err(
            "the store has format 3, and this version reads format 2 alone: use the version that wrote it",
        );
        for (name, format, files, want) in [
            ("nothing", None, &[][..], Ok(Found::Nothing)),
            ("manifest written", None, &["MANIFEST"], Ok(Found::Nothing)),
            (
                "format begun",
                None,
                &["MANIFEST", "FORMAT.new"],
                Ok(Found::Nothing),
            ),
            ("a store", Some(2), &["MANIFEST"], Ok(Found::Store)),
            ("manifest lost", Some(2), &[], missing),
            (
                "manifest lost while it was replaced",
                Some(2),
                &["MANIFEST.new"],
                missing,
            ),
            ("a newer format", Some(3), &["MANIFEST"], unknown),
        ] {
            let directory = SimulatedDirectory::default();
            for file in files {
                drop(directory.create(file).unwrap());
            }
            if let Some(format) = format {
                let text = format!("{MAGIC}\nformat {format}\n");
                replace(&directory, FORMAT_FILE, text.as_bytes()).unwrap();
            }
            let got = find(&directory).map_err(|error| error.to_string());
            assert_eq!(got, want.map_err(str::to_owned), "{name}");
        }
    }
}
