//! Discovery and OpenAPI of a composite cluster: the spoke's, covered by what the hub serves for it.
//!
//! # Invariants
//! - While the spoke is away its last known documents stand, also after a start of the hub; what the hub serves is always told.
//! - Equal sources give equal documents, and so equal ETags.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use api::{Status, discovery::ApiGroupDiscoveryList};
use bytes::Bytes;
use client::{Budget, Charge, apart};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{
    remembered::{Read, Remembered},
    way::Way,
};
use crate::{
    discovery::{Documents, Groups, groups_of},
    openapi::{self, Document, Index},
    refusal::Refusal,
    served::{ContentHash, ServedKinds},
};

/// The form of discovery that is asked of a spoke. Every Kubernetes since 1.30 has it.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Merged OpenAPI documents that are kept for a spoke; a spoke shares few groups with the hub.
const DOCUMENT_COUNT_MAX: usize = 32;

/// What those have together, in bytes; a larger one is made for each who asks.
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// OpenAPI documents that a spoke may list: one for each group-version.
const INDEX_COUNT_MAX: usize = 2000;

/// How long the name of a document and its hash may be; both are kept.
const NAME_BYTES_MAX: usize = 512;

/// How long a spoke's own documents are waited for where those of before can stand in for them.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of one spoke's documents.
#[derive(Debug)]
pub(super) struct Published {
    // Each guards one value; none is held while another is, or across an await.
    discovery: Mutex<Option<Discovered>>,
    index: Mutex<Option<BTreeMap<String, String>>>,
    documents: Mutex<HashMap<String, Arc<Document>>>,
    /// The one who may unpack what is remembered: until that is charged to the spoke, it is there once.
    recalls: Semaphore,
}

/// What a spoke's documents are read from: the spoke, and what is known of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) way: &'a Way,
    pub(super) published: &'a Published,
    pub(super) remembered: &'a Remembered,
}

/// What the hub itself has to say of a composite cluster.
#[derive(Clone, Copy)]
pub(super) struct Hubs<'a> {
    /// What the hub stores for it.
    pub(super) served: &'a ServedKinds,
    /// What stands in for the spoke's own kinds while they were never read: clients learn no reason where they do not
    /// find the resource that they ask for.
    pub(super) stand_in: &'a (dyn Fn() -> Arc<ServedKinds> + Sync),
    /// The documents of both.
    pub(super) own: &'a openapi::Cache,
}

/// A spoke's discovery as it was last read, and what was made of it.
#[derive(Debug, Clone)]
struct Discovered {
    read: Read,
    served: ContentHash,
    documents: Arc<Documents>,
    /// Stands for all of it.
    _charge: Arc<Charge>,
}

/// The discovery documents of a composite cluster.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) documents: Arc<Documents>,
    /// What is to be said of them: they are what the spoke served when it was last read.
    pub(super) warning: Option<String>,
}

// === impl Published ===

impl Default for Published {
    fn default() -> Self {
        Self {
            discovery: Mutex::default(),
            index: Mutex::default(),
            documents: Mutex::default(),
            recalls: Semaphore::new(1),
        }
    }
}

impl Published {
    /// Notes when the spoke last served what is known.
    fn note_time(&self, read: &Read) {
        if let Some(known) = self.discovery.lock().as_mut()
            && known.read.is_same(read)
            && known.read.time < read.time
        {
            known.read.time.clone_from(&read.time);
        }
    }
}

// === impl Told ===

impl Told {
    const fn of(documents: Arc<Documents>, warning: Option<String>) -> Self {
        Self { documents, warning }
    }
}

/// Returns the discovery documents of a composite cluster.
pub(super) async fn discovery(source: Option<Source<'_>>, hub: Hubs<'_>) -> Told {
    let served = hub.served;
    let without_spoke = || {
        let groups = groups_of(&(hub.stand_in)()).overlaid(groups_of(served));
        Told::of(Arc::new(Documents::new(groups)), None)
    };
    let Some(source) = source else {
        return without_spoke();
    };
    let Source { way, published, .. } = source;
    let current = read(way).await;
    let is_current = current.is_ok();
    let is_unknown = published.discovery.lock().is_none();
    let _turn = if is_unknown && !is_current {
        published.recalls.acquire().await.ok()
    } else {
        None
    };
    let known = published.discovery.lock().clone();
    let read = match current {
        Ok(read) => read,
        Err(error) => {
            tracing::debug!(spoke = %way.cluster(), error = %error.chain(), "serving the last known discovery of a spoke");
            let last = match &known {
                Some(known) => Some(known.read.clone()),
                None => source.remembered.recall(way.cluster()).await,
            };
            match last {
                Some(last) => last,
                None => return without_spoke(),
            }
        }
    };
    let warning = (!is_current).then(|| {
        let (spoke, time) = (way.cluster().as_str(), &read.time);
        format!("spoke {spoke:?} did not tell its resources: these are those that it had at {time}")
    });
    if let Some(known) = known
        && known.read.is_same(&read)
        && known.served == served.hash()
    {
        published.note_time(&read);
        return Told::of(known.documents, warning);
    }
    let documents = made(source, served, read, is_current).await;
    Told::of(documents, warning)
}

/// Makes the documents of what was read and what is served, and keeps both.
async fn made(
    source: Source<'_>,
    served: &ServedKinds,
    read: Read,
    is_current: bool,
) -> Arc<Documents> {
    let Source { way, published, .. } = source;
    let Read { core, groups, .. } = &read;
    let budget = way.budget();
    let mut spoke = Groups::default();
    let mut is_read = true;
    for bytes in [core, groups] {
        match budget.parse::<ApiGroupDiscoveryList>(bytes).await {
            Ok(list) => spoke.groups.extend(list.items),
            Err(error) => {
                is_read = false;
                tracing::warn!(spoke = %way.cluster(), error = %error.chain(), "cannot read the discovery of a spoke");
            }
        }
    }
    // As it came, as structs, and as the documents that are made of them.
    let kept_bytes = core.len().saturating_add(groups.len()).saturating_mul(4);
    let documents = Arc::new(Documents::new(spoke.overlaid(groups_of(served))));
    *published.discovery.lock() = match budget.take(kept_bytes) {
        Ok(charge) => {
            if is_current && is_read {
                source.remembered.note(way.cluster(), &read);
            }
            Some(Discovered {
                read,
                served: served.hash(),
                documents: Arc::clone(&documents),
                _charge: Arc::new(charge),
            })
        }
        Err(bound) => {
            tracing::warn!(spoke = %way.cluster(), error = %bound, "discovery of a spoke is too large to keep");
            None
        }
    };
    documents
}

/// The index of OpenAPI v3 documents of a composite cluster.
pub(super) async fn index(source: Option<Source<'_>>, hub: Hubs<'_>) -> Index {
    let known = spoke_index(source).await;
    let mut hashes = known.unwrap_or_else(|| hub.own.index(&(hub.stand_in)()).hashes.clone());
    for (name, hash) in &hub.own.index(hub.served).hashes {
        let merged = match hashes.get(name) {
            Some(spoke) => merged_hash(spoke, hash),
            None => hash.clone(),
        };
        hashes.insert(name.clone(), merged);
    }
    Index { hashes }
}

/// One OpenAPI v3 document of a composite cluster.
///
/// # Errors
/// 404 for a name that neither has, 503 where the spoke has it and is not reached.
pub(super) async fn document(
    source: Option<Source<'_>>,
    hub: Hubs<'_>,
    name: &str,
) -> Result<Arc<Document>, Refusal> {
    let ours = hub.own.document(hub.served, name);
    let Some(theirs) = spoke_index(source).await else {
        let stand_in = || hub.own.document(&(hub.stand_in)(), name);
        return ours.or_else(stand_in).ok_or_else(Refusal::no_such_path);
    };
    let (Some(Source { way, published, .. }), Some(their_hash)) =
        (source, theirs.get(name).cloned())
    else {
        return ours.ok_or_else(Refusal::no_such_path);
    };
    let hash = match &ours {
        Some(ours) => merged_hash(&their_hash, &ours.hash),
        None => their_hash,
    };
    if let Some(known) = published.documents.lock().get(name)
        && known.hash == hash
    {
        return Ok(Arc::clone(known));
    }
    let bytes = match read_document(way, name).await {
        Ok(bytes) => bytes,
        // What the hub serves can be told all the same.
        Err(error) => return ours.ok_or_else(|| way.unreachable(&error)),
    };
    let bytes = match &ours {
        Some(ours) => merged(&way.budget(), &bytes, &ours.bytes).await?,
        None => bytes,
    };
    let made = Arc::new(Document { bytes, hash });
    let mut documents = published.documents.lock();
    let kept_bytes: usize = documents.values().map(|kept| kept.bytes.len()).sum();
    if documents.len() >= DOCUMENT_COUNT_MAX
        || kept_bytes.saturating_add(made.bytes.len()) > DOCUMENT_BYTES_MAX
    {
        documents.clear();
    }
    if made.bytes.len() <= DOCUMENT_BYTES_MAX {
        documents.insert(name.to_owned(), Arc::clone(&made));
    }
    Ok(made)
}

/// Reads one document of a spoke. Its name is the spoke's word, or the client's.
async fn read_document(way: &Way, name: &str) -> Result<Bytes, client::Error> {
    let mut path = client::Path::from("/openapi/v3");
    for segment in name.split('/') {
        path = path.then("name of a document", segment)?;
    }
    way.ask(async |hub| hub.raw_get(path).await).await
}

async fn read(way: &Way) -> Result<Read, client::Error> {
    let read = way.ask(async |hub| {
        let hub = hub.with_deadline(PATIENCE);
        let core = hub.raw_get_as("/api", AGGREGATED).await?;
        let groups = hub.raw_get_as("/apis", AGGREGATED).await?;
        Ok((core, groups))
    });
    let (core, groups) = read.await?;
    way.answered();
    let time = api::meta::time_now_text(jiff::Timestamp::now());
    Ok(Read { core, groups, time })
}

/// The hashes of a spoke's OpenAPI documents, the last known ones while it is away; `None` where none were read.
async fn spoke_index(source: Option<Source<'_>>) -> Option<BTreeMap<String, String>> {
    let Source { way, published, .. } = source?;
    let asked = way.ask(async |hub| {
        let hub = hub.with_deadline(PATIENCE);
        hub.raw_get("/openapi/v3").await
    });
    match asked.await {
        Ok(bytes) => {
            let parsed = way.budget().parse::<Value>(&bytes).await;
            let index = parsed.unwrap_or_default();
            let hashes: BTreeMap<String, String> = index["paths"]
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| name.len() <= NAME_BYTES_MAX)
                .take(INDEX_COUNT_MAX)
                .map(|(name, entry)| {
                    let url = entry["serverRelativeURL"].as_str().unwrap_or_default();
                    let hash = url.split_once("hash=").map_or("", |(_, hash)| hash);
                    let hash = hash.get(..NAME_BYTES_MAX).unwrap_or(hash);
                    (name.clone(), hash.to_owned())
                })
                .collect();
            *published.index.lock() = Some(hashes.clone());
            Some(hashes)
        }
        Err(_away) => published.index.lock().clone(),
    }
}

fn merged_hash(spoke: &str, hub: &str) -> String {
    let digest = <sha2::Sha256 as sha2::Digest>::digest(format!("{spoke} {hub}").as_bytes());
    format!("{digest:X}")
}

/// Puts the hub's paths and models over the spoke's.
async fn merged(budget: &Arc<Budget>, spoke: &Bytes, hub: &Bytes) -> Result<Bytes, Refusal> {
    let unreadable = |error| {
        let text = "the spoke's OpenAPI document cannot be read";
        Refusal::new(Status::service_unavailable(text)).because(error)
    };
    let document: Value = budget.parse(spoke).await.map_err(unreadable)?;
    let hub = hub.clone();
    let overlaid = apart::run(spoke.len(), move || overlaid(document, &hub)).await;
    overlaid.map_err(unreadable)?.map_err(Refusal::internal)
}

fn overlaid(mut document: Value, hub: &[u8]) -> Result<Bytes, serde_json::Error> {
    let mut ours: Value = serde_json::from_slice(hub)?;
    for pointer in ["/paths", "/components/schemas"] {
        let Some(Value::Object(over)) = ours.pointer_mut(pointer).map(Value::take) else {
            continue;
        };
        if let Some(Value::Object(under)) = document.pointer_mut(pointer) {
            under.extend(over);
        }
    }
    serde_json::to_vec(&document).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_hubs_models_stand_over_the_spokes() {
        let spoke = json!({
            "paths": {"/apis/a/v1/xs": 1, "/apis/a/v1/ys": 1},
            "components": {"schemas": {"X": 1, "Y": 1}},
        });
        let hub = json!({"paths": {"/apis/a/v1/xs": 2}, "components": {"schemas": {"X": 2}}});
        let (spoke, hub) = (spoke.to_string(), hub.to_string());
        let bytes = merged(&Arc::default(), &spoke.into(), &hub.into())
            .await
            .unwrap();
        let merged: Value = serde_json::from_slice(&bytes).unwrap();
        let want = json!({
            "paths": {"/apis/a/v1/xs": 2, "/apis/a/v1/ys": 1},
            "components": {"schemas": {"X": 2, "Y": 1}},
        });
        assert_eq!(merged, want, "what both have is the hub's");
    }

    #[tokio::test]
    async fn a_spokes_document_that_is_no_json_is_refused_and_not_told() {
        let (spoke, hub) = (Bytes::from("<html>"), Bytes::from("{}"));
        assert!(merged(&Arc::default(), &spoke, &hub).await.is_err());
    }
}
