//! What is done with the store of a hub from outside of it: the files that the command line writes and reads.

mod check;
mod closed;
mod restore;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use storage::{Keyring, KeyringError, backup};

pub use self::check::{Checked, SealedBy, check};
pub use self::closed::{ClosedBackupError, backup_closed, rollback};
pub use self::restore::{Restore, RestoreError, Restored, Spokes, restore};

use crate::objects;

/// Directory of the store, below the data directory.
pub const STORE_DIRECTORY: &str = "store";
/// Directory in which a store is restored until it is whole, below the data directory.
pub const RESTORING_DIRECTORY: &str = "store.restoring";
/// Directory of a hub's keys and certificates, below the data directory.
pub const KEYS_DIRECTORY: &str = "pki";
/// File of the hub's name for itself, in the data directory.
pub const HUB_ID_FILE: &str = "hub-id";
/// The version of what a backup's header says.
const HEADER_VERSION: u32 = 1;

/// What a backup says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of this header.
    pub version: u32,
    /// The hub that it is of.
    pub hub_id: String,
    /// The revision that it is of.
    pub revision: u64,
    /// When it was begun (RFC 3339).
    pub taken_at: String,
}

// === impl Header ===

impl Header {
    /// Describes a backup that is begun now.
    pub fn now(hub_id: String, revision: u64) -> Self {
        let now = jiff::Timestamp::now();
        Self {
            version: HEADER_VERSION,
            hub_id,
            revision,
            taken_at: api::meta::time_now_text(now),
        }
    }

    /// Reads a header; `None` for one of another version.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header: Self = serde_json::from_slice(bytes).ok()?;
        (header.version == HEADER_VERSION).then_some(header)
    }

    /// Writes it as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a header is made of text and numbers")
    }
}

/// Gives a data directory the name of its hub: the file is there with its text or not at all, whatever ends this process
/// or its machine.
///
/// # Errors
/// Whatever the file system says.
pub fn write_hub_id(data_dir: &Path, id: &str) -> io::Result<()> {
    let file = data_dir.join(HUB_ID_FILE);
    let new = file.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut made = options.open(&new)?;
    made.write_all(id.as_bytes())?;
    made.sync_all()?;
    fs::rename(&new, file)?;
    File::open(data_dir)?.sync_all()
}

/// Reads the keys that a hub's Secrets are sealed with.
///
/// # Errors
/// As [`Keyring::read`].
pub fn read_keyring(file: &Path) -> Result<Keyring, KeyringError> {
    Ok(Keyring::read(file)?.covering(objects::prefix("", "secrets")))
}

#[cfg(test)]
mod tests;
