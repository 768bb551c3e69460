//! What the replicas of one hub share beside its objects: the certificate authority, the key of service account tokens,
//! and the hub's id. They are kept in the store, under one key, so that a replica that is started anywhere is the same
//! hub to its clients and to its spokes.
//!
//! Whoever can read the store can act as the hub: that is so anyway, because it holds the Secrets with the spokes'
//! credentials. The store's own encryption covers the key where it is configured.
//!
//! # Invariants
//! - The first replica wins, by one transaction; all others take what it has written, whatever they had.
//! - All of it changes together or not at all.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use api::{GroupResource, LogicalCluster, wheelhouse::keys};
use jiff::Timestamp;
use serde_json::json;
use storage::{Change, Entry, Error, Expect, Revision, Store, Write};

use crate::objects::{ResourcePrefix, RevisionSlot, encode};
use crate::tls;

/// Where it is kept. No resource has such a key: those have four parts at least.
pub(crate) const SHARED_KEY: &str = "/wheelhouse/replicas";

/// The entry of the hub's id; the others are names of files.
const HUB_ID: &str = "hub-id";

/// Why what is shared cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The files of this replica.
    #[error(transparent)]
    Files(#[from] tls::Error),
    /// The store.
    #[error("the store does not take it")]
    Store(#[source] Error),
    /// What is in the store.
    #[error("what the store has at {SHARED_KEY} makes no sense")]
    Malformed(#[source] Option<serde_json::Error>),
}

/// Brings this replica's files into line with the others', or the others' with this one's where it is the first.
/// Returns the hub's id.
pub(super) async fn share(
    store: &Arc<dyn Store>,
    data_dir: &Path,
    hub_id: &str,
    now: Timestamp,
) -> Result<String, ShareError> {
    let mut own = tls::shared_files(data_dir, now)?;
    own.insert(HUB_ID.to_owned(), hub_id.to_owned());
    let shared = match store.get(SHARED_KEY.as_bytes()) {
        Some(entry) => decode(&entry)?,
        None => publish(store, &own).await?,
    };
    let Some(id) = shared.get(HUB_ID) else {
        return Err(ShareError::Malformed(None));
    };
    if shared != own {
        tracing::info!("adopted the keys of the hub that this replica joins");
        tls::take_shared_files(data_dir, &shared)?;
    }
    Ok(id.clone())
}

/// Writes what this replica has, unless another was first. Returns what holds.
async fn publish(
    store: &Arc<dyn Store>,
    own: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ShareError> {
    let value = serde_json::to_vec(own).map_err(|error| ShareError::Malformed(Some(error)))?;
    let write = Write::put(SHARED_KEY, value).expecting(Expect::Absent);
    match store.commit(vec![write]).await {
        Ok(_committed) => Ok(own.clone()),
        Err(Error::Conflict {
            current: Some(entry),
            ..
        }) => decode(&entry),
        Err(error) => Err(ShareError::Store(error)),
    }
}

/// The ConfigMap that says that etcd was set back to the past, as a restored backup has it: until it is confirmed, nothing
/// is deleted in a spoke because of the older view.
pub(super) fn mark_of_set_back(start: Revision) -> Write {
    let now = api::meta::time_now_text(Timestamp::now());
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": keys::RESTORE_CONFIG_MAP,
            "namespace": keys::RESTORE_NAMESPACE,
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": now,
            "resourceVersion": "",
        },
        "data": {
            keys::RESTORE_KEY_ID: start.epoch().to_string(),
            // Nobody knows of when the state is that etcd was set back to.
            keys::RESTORE_KEY_TAKEN_AT: "unknown, noticed at ".to_owned() + &now,
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
    let encoded = encode(&object, RevisionSlot::Reserve);
    let change = Change::Put {
        value: encoded.bytes,
        stamp: encoded.stamp,
        tag: 0,
    };
    Write {
        key,
        change,
        expect: Expect::Any,
    }
}

fn decode(entry: &Entry) -> Result<BTreeMap<String, String>, ShareError> {
    serde_json::from_slice(entry.value()).map_err(|error| ShareError::Malformed(Some(error)))
}

#[cfg(test)]
mod tests {
    use storage::embedded;

    use super::*;

    #[test]
    fn the_mark_is_an_object_that_carries_its_own_version() {
        let start = Revision::start_of_epoch(101).unwrap();
        let Change::Put { value, stamp, .. } = mark_of_set_back(start).change else {
            unreachable!("it is a put");
        };
        let stamp = stamp.expect("its version is stamped");
        let object: serde_json::Value = serde_json::from_slice(&value).unwrap();
        assert_eq!(object["data"]["id"], "101");
        let version = object["metadata"]["resourceVersion"].as_str().unwrap();
        assert_eq!(&value[stamp..stamp + 16], version.as_bytes());
    }

    #[tokio::test]
    async fn the_second_replica_takes_the_keys_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            embedded::Engine::open(&folder.path().join("store"), embedded::Config::default());
        let store: Arc<dyn Store> = Arc::new(store.unwrap());
        let now = Timestamp::now();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        assert_eq!(share(&store, &first, "one", now).await.unwrap(), "one");
        let before = tls::shared_files(&second, now).unwrap();
        assert_eq!(share(&store, &second, "two", now).await.unwrap(), "one");
        let after = tls::shared_files(&second, now).unwrap();
        assert_ne!(before, after, "it had others");
        assert_eq!(
            tls::shared_files(&first, now).unwrap(),
            after,
            "the same keys"
        );
        assert_eq!(
            share(&store, &first, "one", now).await.unwrap(),
            "one",
            "again"
        );
    }
}
