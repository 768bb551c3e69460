//! Documents by the hash of what is served: logical clusters that serve the same kinds share them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{Documents, groups_of};
use crate::served::{ContentHash, ServedKinds};

/// Sets of documents that are kept. Full: all are dropped and made anew when asked for, which takes milliseconds.
const DOCUMENTS_COUNT_MAX: usize = 256;

/// The documents that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Guards the map; nothing else is locked while it is held.
    documents: Mutex<HashMap<ContentHash, Arc<Documents>>>,
}

// === impl Cache ===

impl Cache {
    /// The documents of what is served, made at the first call.
    pub(crate) fn of(&self, served: &ServedKinds) -> Arc<Documents> {
        if let Some(documents) = self.documents.lock().get(&served.hash()) {
            return Arc::clone(documents);
        }
        let made = Arc::new(Documents::new(groups_of(served)));
        let mut documents = self.documents.lock();
        if documents.len() >= DOCUMENTS_COUNT_MAX {
            documents.clear();
        }
        Arc::clone(documents.entry(served.hash()).or_insert(made))
    }
}
