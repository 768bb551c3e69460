//! Indexes by the hash of what is served, documents by their own hash.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{Document, Index, published};
use crate::served::{ContentHash, ServedKind, ServedKinds};

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
            .map(|(name, kinds)| (name, hash_of(kinds)))
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
}

fn name_of(kind: &ServedKind) -> String {
    if kind.gvr.group.is_empty() {
        format!("api/{}", kind.gvr.version)
    } else {
        format!("apis/{}/{}", kind.gvr.group, kind.gvr.version)
    }
}

/// The hash of a document, from what goes into it: the kinds, and this program's version, which decides how they are written.
fn hash_of(kinds: Vec<Arc<ServedKind>>) -> String {
    let kinds = ServedKinds::new(kinds).hash();
    let text = format!("{} {kinds}", env!("CARGO_PKG_VERSION"));
    let digest = <sha2::Sha256 as sha2::Digest>::digest(text.as_bytes());
    format!("{digest:X}")
}
