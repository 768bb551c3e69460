//! The last known discovery of each spoke, in the hub's store: a hub that is started while a spoke is away goes on with it.
//!
//! # Invariants
//! - A spoke has one record of a bounded size, which is written every few minutes at most, whatever the spoke says.
//! - A record is that of one Spoke, by its uid, which owns it: another one of the same name does not get it.

use std::{
    collections::HashMap,
    io::{Read as _, Write as _},
    sync::Arc,
    time::Duration,
};

use api::{
    GroupResource, GroupVersionResource, LogicalCluster,
    wheelhouse::{self, DiscoveryRecord, DiscoveryRecordSpec},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use client::{Dynamic, Endpoint, Patch, apart};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::{Value, json};
use spokes::Spokes;
use storage::Store;
use tasks::{Tasks, WorkQueue};
use tokio::time::Instant;

use crate::objects::ResourcePrefix;

/// How large a document may be to be kept. That of a cluster with 300 definitions has one MiB.
const DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// How much of that the store has: one part in eight, as it is packed.
const PACKED_BYTES_MAX: usize = DOCUMENT_BYTES_MAX / 8;
/// Between two writes of one record.
const WRITE_INTERVAL: Duration = Duration::from_mins(5);
/// How soon a write that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// A spoke's discovery as it was read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    /// The answer of `/api`.
    pub(super) core: Bytes,
    /// The answer of `/apis`.
    pub(super) groups: Bytes,
    /// When, as the wire writes it.
    pub(super) time: String,
}

/// What is remembered of all spokes.
#[derive(Debug)]
pub(super) struct Remembered {
    store: Arc<dyn Store>,
    spokes: Spokes,
    keys: ResourcePrefix,
    queue: WorkQueue<LogicalCluster>,
    /// What is to be written, and when that was done last. Guards the map; never held across an await.
    slots: Mutex<HashMap<LogicalCluster, Slot>>,
}

#[derive(Debug, Default)]
struct Slot {
    waiting: Option<Read>,
    written: Option<Instant>,
}

// === impl Read ===

impl Read {
    /// Whether the same was read, whenever that was.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.core == other.core && self.groups == other.groups
    }
}

// === impl Remembered ===

impl Remembered {
    /// Reads from a store.
    pub(super) fn new(store: Arc<dyn Store>, spokes: Spokes, tasks: &Tasks) -> Self {
        let resource = wheelhouse::DISCOVERY_RECORD_RESOURCE;
        Self {
            store,
            spokes,
            keys: ResourcePrefix::new(&GroupResource::new(wheelhouse::INTERNAL_GROUP, resource)),
            queue: tasks.queue("spoke-discovery"),
            slots: Mutex::default(),
        }
    }

    /// Starts to write what is noted, over `hub`.
    pub(super) fn start(remembered: &Arc<Self>, hub: Dynamic, tasks: &Tasks) {
        let (remembered, end) = (Arc::clone(remembered), tasks.child_token());
        tasks.spawn("spoke-discovery", async move {
            while let Some(cluster) = remembered.queue.next_until(&end).await {
                remembered.run(&hub, &cluster).await;
                remembered.queue.done(&cluster);
            }
        });
    }

    /// Notes that a spoke's discovery is another one than before. What is too large is not remembered.
    pub(super) fn note(&self, cluster: &LogicalCluster, read: &Read) {
        if read.core.len().max(read.groups.len()) > DOCUMENT_BYTES_MAX {
            return;
        }
        let mut slots = self.slots.lock();
        slots.retain(|cluster, _| self.spokes.get(cluster).is_some());
        slots.entry(cluster.clone()).or_default().waiting = Some(read.clone());
        drop(slots);
        self.queue.add(cluster.clone());
    }

    /// Returns what is remembered of a spoke.
    pub(super) async fn recall(&self, cluster: &LogicalCluster) -> Option<Read> {
        let record = self.record(cluster)?;
        let packed_bytes = record.core.len() + record.groups.len();
        let unpacked = apart::run(packed_bytes, move || {
            Some(Read {
                core: unpack(&record.core)?,
                groups: unpack(&record.groups)?,
                time: record.time,
            })
        });
        unpacked.await.ok()?
    }

    /// Returns the record of the Spoke that there is now.
    fn record(&self, cluster: &LogicalCluster) -> Option<DiscoveryRecordSpec> {
        let root = LogicalCluster::root();
        let key = self.keys.key(&root, "", cluster.as_str());
        let entry = self.store.get(key.as_bytes())?;
        let value: Value = serde_json::from_slice(entry.value()).ok()?;
        let record = DiscoveryRecordSpec::deserialize(&value["spec"]).ok()?;
        (record.spoke_uid == self.uid(cluster)?).then_some(record)
    }

    fn uid(&self, cluster: &LogicalCluster) -> Option<String> {
        Some(self.spokes.get(cluster)?.known.object.uid.clone())
    }

    async fn run(&self, hub: &Dynamic, cluster: &LogicalCluster) {
        let waiting = match self.slots.lock().get(cluster) {
            None => return,
            Some(slot) => {
                let left = slot
                    .written
                    .map(|at| WRITE_INTERVAL.saturating_sub(at.elapsed()));
                if let Some(left) = left.filter(|left| !left.is_zero()) {
                    return self.queue.add_after(cluster.clone(), left);
                }
                slot.waiting.clone()
            }
        };
        let Some(read) = waiting else {
            return;
        };
        match self.write(hub, cluster, &read).await {
            Ok(()) => {
                if let Some(slot) = self.slots.lock().get_mut(cluster) {
                    slot.written = Some(Instant::now());
                    slot.waiting.take_if(|waiting| *waiting == read);
                }
            }
            Err(error) => {
                tracing::warn!(spoke = %cluster, error = %error.chain(), "cannot remember the discovery of a spoke");
                self.queue.retry_after(cluster.clone(), RETRY_DELAY);
            }
        }
    }

    async fn write(
        &self,
        hub: &Dynamic,
        cluster: &LogicalCluster,
        read: &Read,
    ) -> Result<(), client::Error> {
        let (Some(uid), Some(packed)) = (self.uid(cluster), packed(read).await?) else {
            return Ok(()); // it is gone, or too large
        };
        let spec = DiscoveryRecordSpec {
            spoke_uid: uid,
            ..packed
        };
        if let Some(known) = self.record(cluster)
            && (known.core == spec.core && known.groups == spec.groups)
        {
            return Ok(());
        }
        let record = DiscoveryRecord::new(cluster.as_str(), spec).to_value();
        let endpoint = Endpoint {
            scope: None,
            gvr: GroupVersionResource::new(
                wheelhouse::INTERNAL_GROUP,
                wheelhouse::VERSION,
                wheelhouse::DISCOVERY_RECORD_RESOURCE,
            ),
            namespace: None,
        };
        match hub.create(&endpoint, &record).await {
            Err(error) if error.is_already_exists() => {
                let metadata = json!({"ownerReferences": record["metadata"]["ownerReferences"]});
                let patch = json!({"metadata": metadata, "spec": record["spec"]});
                let patch = Patch::Merge(&patch);
                let patched = hub.patch(&endpoint, cluster.as_str(), None, patch).await;
                patched.map(drop)
            }
            answer => answer.map(drop),
        }
    }
}

/// Packs both documents; `None` for those that are too large.
async fn packed(read: &Read) -> Result<Option<DiscoveryRecordSpec>, client::Error> {
    let read = read.clone();
    let packed = apart::run(read.core.len() + read.groups.len(), move || {
        Some(DiscoveryRecordSpec {
            core: pack(&read.core)?,
            groups: pack(&read.groups)?,
            time: read.time,
            spoke_uid: String::new(),
        })
    });
    packed.await
}

fn pack(document: &[u8]) -> Option<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(document).ok()?;
    let packed = encoder.finish().ok()?;
    (packed.len() <= PACKED_BYTES_MAX).then(|| STANDARD.encode(packed))
}

/// Unpacks a document; `None` for one that nothing here has packed.
fn unpack(text: &str) -> Option<Bytes> {
    let packed = STANDARD.decode(text).ok()?;
    let mut document = Vec::new();
    let limit = DOCUMENT_BYTES_MAX as u64 + 1;
    let mut decoder = GzDecoder::new(packed.as_slice()).take(limit);
    decoder.read_to_end(&mut document).ok()?;
    (document.len() <= DOCUMENT_BYTES_MAX).then(|| document.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back_as_it_was_and_is_bounded_on_both_ways() {
        let document = br#"{"items": []}"#;
        let packed = pack(document).expect("it is small");
        assert_eq!(unpack(&packed).as_deref(), Some(document.as_slice()));
        assert_eq!(pack(document), Some(packed), "as another replica packs it");
        // What can hardly be packed.
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_be_bytes()[0]
        });
        let noise: Vec<u8> = noise.take(PACKED_BYTES_MAX * 2).collect();
        assert_eq!(pack(&noise), None);
        // What becomes large when it is unpacked.
        let bomb = pack(&vec![b' '; DOCUMENT_BYTES_MAX + 1]).expect("it is small");
        assert_eq!(unpack(&bomb), None);
        for text in ["", "!", "aGVsbG8="] {
            assert_eq!(unpack(text), None, "{text}");
        }
    }
}
