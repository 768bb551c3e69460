//! Restoring: the data directory of a new hub out of a backup.
//!
//! A restored hub knows an older state than its spokes do. So a restore begins a new epoch of revisions, which ends
//! every watch with 410, and puts the ConfigMap `kube-system/wheelhouse-restore` into root: while it is
//! there, the syncer deletes nothing in a spoke that was not confirmed.
//!
//! # Invariants
//! - A store is restored as a whole or not at all, and never over another one.
//! - A backup is read to its end, and proved, before anything is written.

use std::{
    fs::{self, File},
    io::{self, BufReader, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use api::{cluster::LogicalCluster, group::GroupResource, wheelhouse::keys};
use serde_json::json;
use storage::{
    Revision,
    backup::{Frame, Reader, Record},
    embedded::{self, Config, Import, Imported},
};

use super::{HUB_ID_FILE, Header, Keyring, STORE_DIRECTORY, backup};
use crate::objects::{self, ResourcePrefix, RevisionSlot};

/// What is to be restored, and where to.
#[derive(Debug)]
pub struct Restore<'a> {
    /// The backup.
    pub from: &'a Path,
    /// The data directory of the new hub. It has no store yet.
    pub data_dir: &'a Path,
    /// Opens the backup's sealed values, and seals those of the new store.
    pub keyring: Option<Keyring>,
    /// The epoch of the new store's revisions; by default the one after the backup's.
    pub epoch: Option<u64>,
}

/// What was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    /// What the backup said of itself.
    pub header: Header,
    /// How many records it had.
    pub count: u64,
    /// The revision that the new store begins at.
    pub revision: Revision,
}

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup cannot be used.
    #[error("the backup {} cannot be restored", path.display())]
    Backup {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: backup::BackupError,
    },
    /// A later version of this software wrote the backup, or another one.
    #[error("the backup {} has a header that this version does not know", path.display())]
    Header {
        /// Which file.
        path: PathBuf,
    },
    /// There is a store already.
    #[error("{} exists: a store is never restored over another one", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// The directory belongs to another hub.
    #[error("{} is the data directory of hub {found}, the backup is of hub {wanted}", path.display())]
    OtherHub {
        /// Which directory.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose the backup is.
        wanted: String,
    },
    /// The number line has no room for the epoch.
    #[error(
        "revisions of epoch {epoch} cannot follow those of the backup, which are of epoch {backup} (the last is {})",
        Revision::EPOCH_LAST
    )]
    Epoch {
        /// The epoch asked for.
        epoch: u64,
        /// The backup's.
        backup: u64,
    },
    /// The operating system refused.
    #[error("cannot write {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// The store cannot be made.
    #[error("the store cannot be made")]
    Store(#[from] storage::OpenError),
}

/// Makes a new store out of a backup. Blocks.
///
/// # Errors
/// One variant for each reason; nothing was restored then.
pub fn restore(request: Restore<'_>) -> Result<Restored, RestoreError> {
    let path = request.from.to_owned();
    let failed = |source| RestoreError::Backup {
        path: path.clone(),
        source,
    };
    let keyring = request.keyring.as_ref();
    let (header, count) = verify(request.from, keyring)?;
    let store = request.data_dir.join(STORE_DIRECTORY);
    if store.exists() {
        return Err(RestoreError::Exists { path: store });
    }
    let of_backup = Revision(header.revision).epoch();
    let epoch = request.epoch.unwrap_or(of_backup.saturating_add(1));
    let start = Revision::start_of_epoch(epoch)
        .filter(|_| epoch > of_backup)
        .ok_or(RestoreError::Epoch {
            epoch,
            backup: of_backup,
        })?;
    name_hub(request.data_dir, &header.hub_id)?;
    let marker = marker(&header, start);
    let mut records = Vec::new();
    let (mut reader, _header) = open(request.from, keyring).map_err(failed)?;
    while let Frame::Record(record) = reader.next().map_err(failed)? {
        if record.key != marker.key {
            records.push(record);
        }
    }
    records.push(marker);
    import(&store, start, records, request.keyring)?;
    Ok(Restored {
        header,
        count,
        revision: start,
    })
}

/// Reads a backup to its end.
fn verify(file: &Path, keyring: Option<&Keyring>) -> Result<(Header, u64), RestoreError> {
    let failed = |source| RestoreError::Backup {
        path: file.to_owned(),
        source,
    };
    let (mut reader, header) = open(file, keyring).map_err(failed)?;
    let header = Header::parse(&header).ok_or_else(|| RestoreError::Header {
        path: file.to_owned(),
    })?;
    loop {
        match reader.next().map_err(failed)? {
            Frame::Footer { count } => return Ok((header, count)),
            Frame::Record(_) | Frame::Header(_) => {}
        }
    }
}

type FileReader<'k> = Reader<'k, BufReader<File>>;

fn open<'k>(
    file: &Path,
    keyring: Option<&'k Keyring>,
) -> Result<(FileReader<'k>, Vec<u8>), backup::BackupError> {
    Reader::begin(BufReader::new(File::open(file)?), keyring)
}

/// Gives the new data directory the name of the hub that the backup is of: its spokes know it by that.
fn name_hub(data_dir: &Path, hub_id: &str) -> Result<(), RestoreError> {
    let path = data_dir.join(HUB_ID_FILE);
    match fs::read_to_string(&path) {
        Ok(found) if found.trim() == hub_id => return Ok(()),
        Ok(found) => {
            return Err(RestoreError::OtherHub {
                path: data_dir.to_owned(),
                found: found.trim().to_owned(),
                wanted: hub_id.to_owned(),
            });
        }
        Err(_absent) => {}
    }
    let write = || {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(data_dir)?;
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&path)?;
        file.write_all(hub_id.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|source| RestoreError::Io { path, source })
}

/// The ConfigMap that makes the syncer hold back, as the new store's first revision would have written it.
fn marker(header: &Header, start: Revision) -> Record {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": keys::RESTORE_CONFIG_MAP,
            "namespace": keys::RESTORE_NAMESPACE,
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": api::meta::time_now_text(jiff::Timestamp::now()),
            "resourceVersion": start.to_string(),
        },
        "data": {
            keys::RESTORE_KEY_ID: start.epoch().to_string(),
            keys::RESTORE_KEY_TAKEN_AT: header.taken_at,
            "backupRevision": header.revision.to_string(),
        },
    });
    let resource = GroupResource {
        group: String::new(),
        resource: "configmaps".to_owned(),
    };
    let key = ResourcePrefix::new(&resource).key(
        &LogicalCluster::root(),
        keys::RESTORE_NAMESPACE,
        keys::RESTORE_CONFIG_MAP,
    );
    Record {
        key: key.to_vec(),
        value: objects::encode(&object, RevisionSlot::Keep).bytes,
        created: start,
        modified: start,
        tag: 0,
    }
}

/// Makes a store that begins at a revision and holds these records.
fn import(
    directory: &Path,
    start: Revision,
    records: Vec<Record>,
    keyring: Option<Keyring>,
) -> Result<(), RestoreError> {
    let entries = records.into_iter().map(|record| Imported {
        key: record.key,
        value: record.value,
        created: record.created,
        modified: record.modified,
        tag: record.tag,
    });
    let import = Import {
        epoch: start.epoch(),
        store_id: None,
        entries: entries.collect(),
    };
    let config = Config {
        keyring: keyring.map(Arc::new),
        ..Config::default()
    };
    Ok(embedded::import(directory, import, &config)?)
}
