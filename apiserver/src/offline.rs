//! What is done with the store of a hub from outside of it: the files that the command line writes and reads.

mod check;
mod closed;
mod restore;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use storage::{Keyring, KeyringError, backup};

pub use self::check::{Checked, SealedBy, check};
pub use self::closed::{ClosedBackupError, backup_closed};
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
    let mut made = create_own(&new)?;
    made.write_all(id.as_bytes())?;
    made.sync_all()?;
    fs::rename(&new, file)?;
    File::open(data_dir)?.sync_all()
}

/// Creates a file that its owner alone may read, in the place of one that a process of before has left. Whatever else is there, a link for
/// example, is taken away and not followed.
///
/// # Errors
/// Whatever the file system says.
pub fn create_own(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // It is made here or not at all: `create_new` follows no link.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file that this user may go on with, or creates it for its owner alone. What stands there already keeps what it holds.
///
/// # Errors
/// What the file system says; also for anything that is not this user's own file of this one name: a link, a file with a second
/// name, another user's. Nothing has been changed then.
pub fn open_own(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    let refused = |what: &str| io::Error::other(format!("{what}: remove it, or name another file"));
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(refused("it is no file, but a link or something else"));
    }
    let file = options.open(path)?;
    // What was opened, whatever has been put there since: no link was followed, and it is the file that is looked at.
    let opened = file.metadata()?;
    if (opened.dev(), opened.ino()) != (found.dev(), found.ino()) {
        return Err(refused("it was replaced while it was opened"));
    }
    if opened.nlink() != 1 {
        return Err(refused("the file has a second name"));
    }
    if opened.uid() != fs::metadata("/proc/self").map_or(opened.uid(), |own| own.uid()) {
        return Err(refused("the file is another user's"));
    }
    Ok(file)
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
