//! Indexes by the hash of what is served, documents by their own hash.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{Document, DocumentsV2, Index, gnostic, published, v2};
use crate::served::{ContentHash, ServedKind, ServedKinds};

/// Documents of version 2 that are kept: they have some megabytes each.
const V2_COUNT_MAX: usize = 8;

/// Entries that are kept of each kind. Full: all are dropped and made anew when asked for. A document of a large built-in group has about
/// 1 MB.
const ENTRY_COUNT_MAX: usize = 256;

/// What was asked for.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Guards the map; nothing else is locked while it is held.
    indexes: Mutex<HashMap<ContentHash, Arc<Index>>>,
    /// Guards the map; nothing else is locked while it is held.
    documents: Mutex<HashMap<String, Arc<Document>>>,
    /// Guards the map; nothing else is locked while it is held.
    documents_v2: Mutex<HashMap<ContentHash, Arc<DocumentsV2>>>,
}

// === impl Cache ===

impl Cache {
    /// The index of what is served.
    pub(crate) fn index(&self, served: &ServedKinds) -> Arc<Index> {
        if let Some(index) = self.indexes.lock().get(&served.hash()) {
            return Arc::clone(index);
        }
        let mut kinds: BTreeMap<String, Vec<Arc<ServedKind>>> = BTreeMap::new();
        for kind in served.kinds() {
            kinds
                .entry(name_of(kind))
                .or_default()
                .push(Arc::clone(kind));
        }
        let hashes = kinds
            .into_iter()
            .map(|(name, kinds)| (name, hash_of(ServedKinds::new(kinds).hash())))
            .collect();
        let made = Arc::new(Index { hashes });
        let mut indexes = self.indexes.lock();
        if indexes.len() >= ENTRY_COUNT_MAX {
            indexes.clear();
        }
        Arc::clone(indexes.entry(served.hash()).or_insert(made))
    }

    /// The document of a group and version; `None` where it is not served.
    pub(crate) fn document(&self, served: &ServedKinds, name: &str) -> Option<Arc<Document>> {
        let hash = self.index(served).hashes.get(name)?.clone();
        if let Some(document) = self.documents.lock().get(&hash) {
            return Some(Arc::clone(document));
        }
        let kinds: Vec<&Arc<ServedKind>> = served
            .kinds()
            .iter()
            .filter(|kind| name_of(kind) == name)
            .collect();
        let made = Arc::new(Document {
            bytes: published::document(&kinds),
            hash: hash.clone(),
        });
        let mut documents = self.documents.lock();
        if documents.len() >= ENTRY_COUNT_MAX {
            documents.clear();
        }
        Some(Arc::clone(documents.entry(hash).or_insert(made)))
    }

    /// The document of version 2, for all groups and versions.
    pub(crate) fn v2(&self, served: &ServedKinds) -> Arc<DocumentsV2> {
        if let Some(documents) = self.documents_v2.lock().get(&served.hash()) {
            return Arc::clone(documents);
        }
        let index = self.index(served);
        let parts: Vec<Value> = index
            .hashes
            .keys()
            .filter_map(|name| self.document(served, name))
            .filter_map(|document| serde_json::from_slice(&document.bytes).ok())
            .collect();
        let document = v2::document(&parts);
        let made = Arc::new(DocumentsV2 {
            json: document.to_string().into(),
            protobuf: gnostic::encode(&document).into(),
            hash: hash_of(served.hash()),
        });
        let mut documents = self.documents_v2.lock();
        if documents.len() >= V2_COUNT_MAX {
            documents.clear();
        }
        Arc::clone(documents.entry(served.hash()).or_insert(made))
    }
}

fn name_of(kind: &ServedKind) -> String {
    if kind.gvr.group.is_empty() {
        format!("api/{}", kind.gvr.version)
    } else {
        format!("apis/{}/{}", kind.gvr.group, kind.gvr.version)
    }
}

/// The hash of a document, from what goes into it: the kinds, and this program's version, which decides how they are written.
fn hash_of(kinds: ContentHash) -> String {
    let text = format!("{} {kinds}", env!("CARGO_PKG_VERSION"));
    let digest = <sha2::Sha256 as sha2::Digest>::digest(text.as_bytes());
    format!("{digest:X}")
}
