//! Restoring: the data directory of a new hub out of a backup.
//!
//! A restored hub knows an older state than its spokes do. So a restore begins a new epoch of revisions, which ends
//! every watch with 410, and puts the ConfigMap `kube-system/wheelhouse-restore` into root: while it is
//! there, the syncer deletes nothing in a spoke that was not confirmed.
//!
//! # Invariants
//! - A store is restored as a whole or not at all, and never over another one: until it is whole it lies in
//!   `store.restoring`, beside which no hub starts.
//! - A backup is read to its end, and proved, before anything is written.
//! - Two restores of one backup give no revision twice: each begins at the place of its time in the epoch.
//!
//! ```text
//!   epoch of the backup + 1
//!   |-------------|##########|----|#####|----------------------|
//!   2026          a restore       a later one: behind all       2057
//!                 and its writes  that the first has given
//! ```

use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use api::{
    cluster::LogicalCluster,
    group::GroupResource,
    wheelhouse::{self, keys},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use storage::{
    Revision,
    backup::{Frame, Reader, Record},
    embedded::{self, Config, Import, Imported},
};

use super::{
    HUB_ID_FILE, Header, Keyring, RESTORING_DIRECTORY, STORE_DIRECTORY, backup, write_hub_id,
};
use crate::objects::{self, ResourcePrefix, RevisionSlot};

/// Where the numbers of an epoch begin to be told by time: 2026-01-01T00:00:00Z, in milliseconds.
const PLACE_ORIGIN_MS: i64 = 1_767_225_600_000;
/// Numbers for each millisecond since then. More than a hub gives on average, which is one for a commit, so that it stays
/// behind a later restore; and few enough that an epoch's 10^13 last for 31 years.
const PLACE_NUMBERS_PER_MS: u64 = 10;
/// The last place where a store begins: room for a year of 30,000 commits a second.
const PLACE_LAST: u64 = 9_000_000_000_000;
/// How far a clock may be behind the one that a backup was dated by.
const CLOCK_SKEW: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);

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
    /// The time, which says where in the epoch the new store begins.
    pub now: Timestamp,
    /// What becomes of spokes once the hub runs.
    pub spokes: Spokes,
}

/// What a restored hub does with its spokes when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spokes {
    /// It connects to them, and brings what they hold to the state of the backup, deletions apart.
    Connected,
    /// Nothing, until somebody sets `spec.suspended` of the Spoke to false.
    Suspended,
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
    #[error(
        "{} exists, and a store is never restored over another one: name a new directory",
        path.display()
    )]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// Somebody else restores there.
    #[error("another restore writes {}", path.display())]
    Busy {
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
    /// The clock is wrong, and would give revisions that were given before.
    #[error(
        "the clock says {now}, and the backup was taken later, at {taken_at}: set the clock right, or name an epoch greater than any \
         that was used since"
    )]
    Clock {
        /// What the clock says.
        now: Timestamp,
        /// What the backup says.
        taken_at: Timestamp,
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
    let start = start(&header, request.epoch, request.now)?;
    let is_named = is_named(request.data_dir, &header.hub_id)?;
    let making = request.data_dir.join(RESTORING_DIRECTORY);
    clear(&making)?;
    let marker = marker(&header, start, request.now);
    let mut records = Vec::new();
    let (mut reader, _header) = open(request.from, keyring).map_err(failed)?;
    let spokes = spokes_prefix();
    while let Frame::Record(mut record) = reader.next().map_err(failed)? {
        if record.key == marker.key {
            continue;
        }
        if request.spokes == Spokes::Suspended && record.key.starts_with(&spokes) {
            suspend(&mut record, start);
        }
        records.push(record);
    }
    records.push(marker);
    if let Err(error) = import(&making, start, records, request.keyring) {
        // What was cut off is no store, and would be in the way of a start. The first error is what counts.
        drop(fs::remove_dir_all(&making));
        return Err(error);
    }
    if !is_named {
        write_hub_id(request.data_dir, &header.hub_id).map_err(|source| RestoreError::Io {
            path: request.data_dir.join(HUB_ID_FILE),
            source,
        })?;
    }
    let rename = || {
        fs::rename(&making, &store)?;
        File::open(request.data_dir)?.sync_all()
    };
    rename().map_err(|source| RestoreError::Io {
        path: store.clone(),
        source,
    })?;
    Ok(Restored {
        header,
        count,
        revision: start,
    })
}

/// Chooses where the new store begins: in an epoch behind the backup's, at the place of the time.
fn start(header: &Header, epoch: Option<u64>, now: Timestamp) -> Result<Revision, RestoreError> {
    let taken_at: Option<Timestamp> = header.taken_at.parse().ok();
    if let (None, Some(taken_at)) = (epoch, taken_at)
        && taken_at.duration_since(now) > CLOCK_SKEW
    {
        return Err(RestoreError::Clock { now, taken_at });
    }
    let backup = Revision(header.revision).epoch();
    let epoch = epoch.unwrap_or(backup.saturating_add(1));
    let since_ms = now.as_millisecond().saturating_sub(PLACE_ORIGIN_MS);
    let place = u64::try_from(since_ms).unwrap_or(0);
    let place = place.saturating_mul(PLACE_NUMBERS_PER_MS).min(PLACE_LAST);
    Revision::in_epoch(epoch, place)
        .filter(|_| epoch > backup)
        .ok_or(RestoreError::Epoch { epoch, backup })
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

/// Whether the new data directory has the name of the hub that the backup is of.
fn is_named(data_dir: &Path, hub_id: &str) -> Result<bool, RestoreError> {
    let path = data_dir.join(HUB_ID_FILE);
    match fs::read_to_string(&path) {
        Ok(found) if found.trim() == hub_id => Ok(true),
        Ok(found) => Err(RestoreError::OtherHub {
            path: data_dir.to_owned(),
            found: found.trim().to_owned(),
            wanted: hub_id.to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(RestoreError::Io { path, source }),
    }
}

/// Takes away what an interrupted restore has left, unless it goes on.
fn clear(making: &Path) -> Result<(), RestoreError> {
    if !making.exists() {
        return Ok(());
    }
    if embedded::is_in_use(making) {
        return Err(RestoreError::Busy {
            path: making.to_owned(),
        });
    }
    fs::remove_dir_all(making).map_err(|source| RestoreError::Io {
        path: making.to_owned(),
        source,
    })
}

/// The ConfigMap that makes the syncer hold back, as the new store's first revision would have written it.
fn marker(header: &Header, start: Revision, now: Timestamp) -> Record {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": keys::RESTORE_CONFIG_MAP,
            "namespace": keys::RESTORE_NAMESPACE,
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": api::meta::time_now_text(now),
            "resourceVersion": start.to_string(),
        },
        "data": {
            // No other restore begins there, so an answer to another one, which a backup may hold, does not fit.
            keys::RESTORE_KEY_ID: start.to_string(),
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

fn spokes_prefix() -> Vec<u8> {
    objects::prefix_in(
        wheelhouse::GROUP,
        wheelhouse::SPOKE_RESOURCE,
        &LogicalCluster::root(),
    )
}

/// Suspends a Spoke, as a write at the new store's first revision would have.
fn suspend(record: &mut Record, start: Revision) {
    let Ok(mut spoke) = serde_json::from_slice::<Value>(&record.value) else {
        return; // no object: whoever reads it says so
    };
    if !spoke["spec"].is_object() {
        return;
    }
    spoke["spec"]["suspended"] = json!(true);
    spoke["metadata"]["generation"] = json!(api::meta::generation(&spoke).saturating_add(1));
    spoke["metadata"]["resourceVersion"] = json!(start.to_string());
    record.value = objects::encode(&spoke, RevisionSlot::Keep).bytes;
    record.modified = start;
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
        start,
        store_id: None,
        entries: entries.collect(),
    };
    let config = Config {
        keyring: keyring.map(Arc::new),
        ..Config::default()
    };
    Ok(embedded::import(directory, import, &config)?)
}
