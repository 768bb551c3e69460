//! A backup of the data directory of a hub that does not run.

use std::{fs::File, io::BufWriter, path::Path};

use storage::{
    backup::{BackupError, Writer},
    check::{self, CheckError, Finding},
};

use super::{HUB_ID_FILE, Header, Keyring, STORE_DIRECTORY};

/// Why there is no backup of a directory.
#[derive(Debug, thiserror::Error)]
pub enum ClosedBackupError {
    /// It is not known which hub it is of.
    #[error("the directory has no file {HUB_ID_FILE}")]
    HubId(#[source] std::io::Error),
    /// It cannot be read.
    #[error("the store cannot be read")]
    Check(#[from] CheckError),
    /// It is not sound.
    #[error("the store is not sound: {}: {}; look at `store check`", .0.place, .0.reason)]
    NotSound(Finding),
    /// The backup cannot be written.
    #[error("the backup cannot be written")]
    Backup(#[from] BackupError),
}

/// Writes a backup of the current states, and returns what it says of itself and how many records it has. Blocks.
///
/// # Errors
/// [`ClosedBackupError::NotSound`] for a store with findings: a backup of it would pass for a good one.
pub fn backup_closed(
    data_dir: &Path,
    file: File,
    keyring: Option<&Keyring>,
) -> Result<(Header, u64), ClosedBackupError> {
    let hub_id = std::fs::read_to_string(data_dir.join(HUB_ID_FILE));
    let hub_id = hub_id.map_err(ClosedBackupError::HubId)?.trim().to_owned();
    let (report, records) = check::records(&data_dir.join(STORE_DIRECTORY), keyring)?;
    if let Some(finding) = report.findings.into_iter().next() {
        return Err(ClosedBackupError::NotSound(finding));
    }
    let header = Header::now(hub_id, report.revision.0);
    let mut writer = Writer::begin(BufWriter::new(file), keyring, &header.to_json())?;
    for record in &records {
        writer.record(record)?;
    }
    let (file, count) = writer.finish()?;
    let file = file
        .into_inner()
        .map_err(|error| BackupError::Io(error.into_error()))?;
    file.sync_all().map_err(BackupError::Io)?;
    Ok((header, count))
}
