//! What a store's directory says to its two readers.

use std::io;
use std::path::Path;

use storage::{
    check::{self, CheckError, Report},
    embedded,
};

use super::{Keyring, STORE_DIRECTORY};

/// What a check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What the independent reader found, and how the engine's index differs.
    pub report: Report,
    /// Whether the engine could read the directory, so that its index was compared.
    pub compared: bool,
    /// What each key of the key file still seals; the one that seals new values comes first.
    pub sealed: Vec<SealedBy>,
}

/// What a key still seals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBy {
    /// Its name in the key file; `?` for a key that is not there.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Whether it seals what is written from now on.
    pub seals: bool,
    /// How many records need it: current states, and garbage that was not swept yet.
    pub records: u64,
}

/// Checks the store of a hub that does not run. Blocks.
///
/// # Errors
/// As [`check::check`].
pub fn check(data_dir: &Path, keyring: Option<&Keyring>) -> Result<Checked, CheckError> {
    let directory = data_dir.join(STORE_DIRECTORY);
    let (mut report, states) = check::check(&directory, keyring)?;
    let index = embedded::read(&directory, keyring);
    let compared = match &index {
        Ok(entries) => {
            let entries = entries.iter().map(|entry| {
                let (modified, created) = (entry.modified(), entry.created());
                (entry.key(), modified, created, entry.tag(), entry.value())
            });
            report.findings.extend(states.compare(entries));
            true
        }
        Err(storage::OpenError::Io { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
            ) =>
        {
            let source = io::Error::from(source.kind());
            return Err(CheckError::ReadOnly { directory, source });
        }
        Err(error) => {
            // A start would be refused for the same reason.
            report.findings.push(check::Finding {
                place: "the engine".to_owned(),
                reason: error.to_string(),
            });
            false
        }
    };
    let sealed = sealed(&report, keyring);
    Ok(Checked {
        report,
        compared,
        sealed,
    })
}

fn sealed(report: &Report, keyring: Option<&Keyring>) -> Vec<SealedBy> {
    let mut counts = report.sealed.clone();
    let known = keyring.into_iter().flat_map(Keyring::keys);
    let mut sealed: Vec<SealedBy> = known
        .enumerate()
        .map(|(place, (id, name))| SealedBy {
            name: name.to_owned(),
            id: id.to_string(),
            seals: place == 0,
            records: counts.remove(&id).unwrap_or_default(),
        })
        .collect();
    sealed.extend(counts.into_iter().map(|(id, records)| SealedBy {
        name: "?".to_owned(),
        id: id.to_string(),
        seals: false,
        records,
    }));
    sealed
}
