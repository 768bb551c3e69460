//! Objects that instances refer to by `externalRef` and do not own: read by a watch, never written.
//!
//! # Invariants
//!
//! One watch per distinct reference, target and reader's identity: what one user may read is never shown to another. While a
//! watch in a user's name is interrupted nothing of it is shown, because the user may have lost the right to it. A
//! watch ends with its last reader.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use api::{
    selector::{FieldSelector, Selector},
    wheelhouse::author::User,
};
use client::{
    Endpoint,
    reflector::{Event, RawObject},
};
use graph::Target as WantedTarget;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::keys::InstanceKey;

/// The external objects of one target cluster.
#[derive(Debug, Default)]
pub(crate) struct ExternalCache {
    // Guards everything below; never held across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    references: HashMap<Reference, ReferenceState>,
    by_reader: HashMap<InstanceKey, HashSet<Reference>>,
}

/// What is known of a reference.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    /// Nothing yet; the reader is reconciled once something is.
    Waiting,
    /// It cannot be read, and why; the reader is reconciled once that changes.
    Refused(String),
    /// What there is.
    Objects(Vec<Arc<Value>>),
}

/// A reference without the node that makes it: two nodes may share a watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Reference {
    pub(crate) endpoint: Endpoint,
    pub(crate) wanted: WantedTarget,
    /// In whose name it is read; `None` is the hub's own.
    pub(crate) user: Option<Arc<User>>,
}

#[derive(Debug)]
struct ReferenceState {
    synced: bool,
    trouble: Option<String>,
    objects: BTreeMap<(String, String), Arc<RawObject>>,
    readers: HashSet<InstanceKey>,
    /// Ends the watch.
    end: CancellationToken,
}

// === impl ExternalCache ===

impl ExternalCache {
    /// Reads what a reference points to. `None` means that nobody reads it yet: then a watch is to be started, which `end`
    /// ends.
    pub(crate) fn read(
        &self,
        reference: &Reference,
        reader: &InstanceKey,
        end: &CancellationToken,
    ) -> Option<Found> {
        let mut state = self.state.lock();
        let readings = state.by_reader.entry(reader.clone()).or_default();
        readings.insert(reference.clone());
        if let Some(known) = state.references.get_mut(reference) {
            known.readers.insert(reader.clone());
            return Some(known.found(reference));
        }
        let fresh = ReferenceState {
            synced: false,
            trouble: None,
            objects: BTreeMap::new(),
            readers: HashSet::from([reader.clone()]),
            end: end.clone(),
        };
        state.references.insert(reference.clone(), fresh);
        None
    }

    /// Ends all that a reader reads: it is gone.
    pub(crate) fn forget(&self, reader: &InstanceKey) {
        self.retain(reader, &HashSet::new());
    }

    /// Ends what a reader no longer reads: `kept` is all that it does.
    pub(crate) fn retain(&self, reader: &InstanceKey, kept: &HashSet<Reference>) {
        let mut state = self.state.lock();
        let State {
            references,
            by_reader,
        } = &mut *state;
        let Some(readings) = by_reader.get_mut(reader) else {
            return;
        };
        readings.retain(|reference| {
            if kept.contains(reference) {
                return true;
            }
            if let Some(known) = references.get_mut(reference) {
                known.readers.remove(reader);
                if known.readers.is_empty() {
                    known.end.cancel();
                    references.remove(reference);
                }
            }
            false
        });
        if readings.is_empty() {
            by_reader.remove(reader);
        }
    }

    /// Takes up an event of the watch of a reference, and names its readers.
    pub(crate) fn take(&self, reference: &Reference, event: Event) -> Vec<InstanceKey> {
        let mut state = self.state.lock();
        let Some(known) = state.references.get_mut(reference) else {
            return Vec::new();
        };
        known.take(event);
        known.readers.iter().cloned().collect()
    }
}

// === impl ReferenceState ===

impl ReferenceState {
    fn found(&self, reference: &Reference) -> Found {
        match &self.trouble {
            Some(reason) if reference.user.is_some() => Found::Refused(reason.clone()),
            _ if !self.synced => Found::Waiting,
            // An object that the API server served is JSON; what is not is not served again.
            _ => Found::Objects(
                self.objects
                    .values()
                    .filter_map(|object| object.value().ok().map(Arc::new))
                    .collect(),
            ),
        }
    }

    fn take(&mut self, event: Event) {
        let identity = |object: &RawObject| {
            (
                object.namespace.clone().unwrap_or_default(),
                object.name.clone(),
            )
        };
        match event {
            Event::Restarted { objects, .. } => {
                self.synced = true;
                self.trouble = None;
                self.objects = objects
                    .into_iter()
                    .map(|object| (identity(&object), object))
                    .collect();
            }
            Event::Applied(object) => {
                self.objects.insert(identity(&object), object);
            }
            Event::Deleted(object) => {
                self.objects.remove(&identity(&object));
            }
            Event::Interrupted(reason) => self.trouble = Some(reason),
            Event::Resumed => self.trouble = None,
        }
    }
}

// === impl Reference ===

impl Reference {
    /// Returns what its watch selects.
    ///
    /// # Errors
    /// Where the selector cannot be read.
    pub(crate) fn selected(&self) -> Result<(Option<Selector>, Option<FieldSelector>), String> {
        match &self.wanted {
            WantedTarget::Name(name) => Ok((None, Some(FieldSelector::name(name)))),
            WantedTarget::Selector(text) => {
                let selector = text.parse::<Selector>();
                let selector = selector.map_err(|error| error.to_string())?;
                Ok((Some(selector), None))
            }
        }
    }
}
