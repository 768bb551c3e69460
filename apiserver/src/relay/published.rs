//! Discovery and OpenAPI of a composite cluster: the spoke's, covered by what the hub serves for it.
//!
//! # Invariants
//! - While the spoke is away its last known documents stand; what the hub serves is always told.
//! - Equal sources give equal documents, and so equal ETags.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use api::{Status, discovery::ApiGroupDiscoveryList};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;

use super::links::Link;
use crate::{
    discovery::{Documents, Groups, groups_of},
    openapi::{self, Document, Index},
    respond::Refusal,
    served::{ContentHash, ServedKinds},
};

/// The form of discovery that is asked of a spoke. Every Kubernetes since 1.30 has it.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Merged OpenAPI documents that are kept for a spoke; a spoke shares few groups with the hub.
const DOCUMENT_COUNT_MAX: usize = 32;

/// What is known of one spoke's documents.
#[derive(Debug, Default)]
pub(super) struct Published {
    // Each guards one value; none is held while another is, or across an await.
    discovery: Mutex<Option<Discovered>>,
    index: Mutex<BTreeMap<String, String>>,
    documents: Mutex<HashMap<String, Arc<Document>>>,
}

/// A spoke's discovery as it was last read, and what was made of it.
#[derive(Debug, Clone)]
struct Discovered {
    core: Bytes,
    groups: Bytes,
    served: ContentHash,
    documents: Arc<Documents>,
}

/// The discovery documents of a composite cluster.
pub(super) async fn discovery(link: Option<&Link>, served: &ServedKinds) -> Arc<Documents> {
    let Some(link) = link else {
        return Arc::new(Documents::new(groups_of(served)));
    };
    let known = link.published.discovery.lock().clone();
    let (core, groups) = match read(link).await {
        Ok(read) => read,
        Err(error) => {
            tracing::debug!(spoke = %link.cluster, error = %error.chain(), "discovery is the last known");
            match &known {
                Some(known) => (known.core.clone(), known.groups.clone()),
                None => return Arc::new(Documents::new(groups_of(served))),
            }
        }
    };
    if let Some(known) = known
        && known.core == core
        && known.groups == groups
        && known.served == served.hash()
    {
        return known.documents;
    }
    let mut spoke = Groups::default();
    for bytes in [&core, &groups] {
        match serde_json::from_slice::<ApiGroupDiscoveryList>(bytes) {
            Ok(list) => spoke.groups.extend(list.items),
            Err(error) => {
                tracing::warn!(spoke = %link.cluster, error = %error, "a spoke's discovery cannot be read");
            }
        }
    }
    let documents = Arc::new(Documents::new(spoke.overlaid(groups_of(served))));
    let discovered = Discovered {
        core,
        groups,
        served: served.hash(),
        documents: Arc::clone(&documents),
    };
    *link.published.discovery.lock() = Some(discovered);
    documents
}

/// The index of OpenAPI v3 documents of a composite cluster.
pub(super) async fn index(
    link: Option<&Link>,
    served: &ServedKinds,
    own: &openapi::Cache,
) -> Index {
    let mut hashes = spoke_index(link).await;
    for (name, hash) in &own.index(served).hashes {
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
    link: Option<&Link>,
    served: &ServedKinds,
    own: &openapi::Cache,
    name: &str,
) -> Result<Arc<Document>, Refusal> {
    let ours = own.document(served, name);
    let theirs = spoke_index(link).await.get(name).cloned();
    let (Some(link), Some(their_hash)) = (link, theirs) else {
        return ours.ok_or_else(Refusal::no_such_path);
    };
    let hash = match &ours {
        Some(ours) => merged_hash(&their_hash, &ours.hash),
        None => their_hash,
    };
    if let Some(known) = link.published.documents.lock().get(name)
        && known.hash == hash
    {
        return Ok(Arc::clone(known));
    }
    let bytes = match read_document(link, name).await {
        Ok(bytes) => bytes,
        // What the hub serves can be told all the same.
        Err(error) => return ours.ok_or_else(|| link.unreachable(&error)),
    };
    let bytes = match &ours {
        Some(ours) => merged(&bytes, &ours.bytes)?,
        None => bytes,
    };
    let made = Arc::new(Document { bytes, hash });
    let mut documents = link.published.documents.lock();
    if documents.len() >= DOCUMENT_COUNT_MAX {
        documents.clear();
    }
    documents.insert(name.to_owned(), Arc::clone(&made));
    Ok(made)
}

/// Reads one document of a spoke. Its name is the spoke's word, or the client's.
async fn read_document(link: &Link, name: &str) -> Result<Bytes, client::Error> {
    let mut path = client::Path::from("/openapi/v3");
    for segment in name.split('/') {
        path = path.then("name of a document", segment)?;
    }
    link.dynamic().raw_get(path).await
}

async fn read(link: &Link) -> Result<(Bytes, Bytes), client::Error> {
    let dynamic = link.dynamic();
    let core = dynamic.raw_get_as("/api", AGGREGATED).await?;
    let groups = dynamic.raw_get_as("/apis", AGGREGATED).await?;
    let read = (core, groups);
    link.answered();
    Ok(read)
}

/// The hashes of a spoke's OpenAPI documents, the last known ones while it is away.
async fn spoke_index(link: Option<&Link>) -> BTreeMap<String, String> {
    let Some(link) = link else {
        return BTreeMap::new();
    };
    match link.dynamic().raw_get("/openapi/v3").await {
        Ok(bytes) => {
            let index: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let hashes: BTreeMap<String, String> = index["paths"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, entry)| {
                    let url = entry["serverRelativeURL"].as_str().unwrap_or_default();
                    let hash = url.split_once("hash=").map_or("", |(_, hash)| hash);
                    (name.clone(), hash.to_owned())
                })
                .collect();
            link.published.index.lock().clone_from(&hashes);
            hashes
        }
        Err(_away) => link.published.index.lock().clone(),
    }
}

fn merged_hash(spoke: &str, hub: &str) -> String {
    let digest = <sha2::Sha256 as sha2::Digest>::digest(format!("{spoke} {hub}").as_bytes());
    format!("{digest:X}")
}

/// Puts the hub's paths and models over the spoke's.
fn merged(spoke: &[u8], hub: &[u8]) -> Result<Bytes, Refusal> {
    let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes);
    let mut document = parse(spoke).map_err(|error| {
        Refusal::new(Status::service_unavailable(
            "the spoke's OpenAPI document is no JSON",
        ))
        .because(error)
    })?;
    let mut ours = parse(hub).map_err(Refusal::internal)?;
    for pointer in ["/paths", "/components/schemas"] {
        let Some(Value::Object(over)) = ours.pointer_mut(pointer).map(Value::take) else {
            continue;
        };
        if let Some(Value::Object(under)) = document.pointer_mut(pointer) {
            under.extend(over);
        }
    }
    serde_json::to_vec(&document)
        .map(Bytes::from)
        .map_err(Refusal::internal)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hubs_models_stand_over_the_spokes() {
        let spoke = json!({
            "paths": {"/apis/a/v1/xs": 1, "/apis/a/v1/ys": 1},
            "components": {"schemas": {"X": 1, "Y": 1}},
        });
        let hub = json!({"paths": {"/apis/a/v1/xs": 2}, "components": {"schemas": {"X": 2}}});
        let bytes = merged(spoke.to_string().as_bytes(), hub.to_string().as_bytes()).unwrap();
        let merged: Value = serde_json::from_slice(&bytes).unwrap();
        let want = json!({
            "paths": {"/apis/a/v1/xs": 2, "/apis/a/v1/ys": 1},
            "components": {"schemas": {"X": 2, "Y": 1}},
        });
        assert_eq!(merged, want, "what both have is the hub's");
    }

    #[test]
    fn a_spokes_document_that_is_no_json_is_refused_and_not_told() {
        assert!(merged(b"<html>", b"{}").is_err());
    }
}
