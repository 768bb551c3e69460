//! Objects that instances refer to by `externalRef` and do not own: read by a watch, never written.
//!
//! One watch per distinct reference and target. It runs until the connection ends.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use client::reflector::{Event, RawObject};
use graph::{Target as WantedTarget, Wanted};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{keys::InstanceKey, target::Target};

/// The external objects of one target cluster.
#[derive(Debug, Default)]
pub(crate) struct ExternalCache {
    // Guards the map; never held across an await.
    state: Mutex<HashMap<Reference, ReferenceState>>,
}

/// A reference without the node that makes it: two nodes may share a watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Reference {
    path: String,
    label_selector: Option<String>,
    field_selector: Option<String>,
}

#[derive(Debug, Default)]
struct ReferenceState {
    synced: bool,
    objects: BTreeMap<(String, String), Arc<RawObject>>,
    readers: HashSet<InstanceKey>,
}

// === impl ExternalCache ===

impl ExternalCache {
    /// Reads what a reference points to. `None` means that it is not known yet: the instance is
    /// reconciled again once it is.
    pub(crate) fn read(
        target: &Target,
        wanted: &Wanted,
        reader: &InstanceKey,
    ) -> Option<Vec<Arc<Value>>> {
        let reference = Reference::of(target, wanted);
        let cache = &target.externals;
        let mut state = cache.state.lock();
        if let Some(known) = state.get_mut(&reference) {
            known.readers.insert(reader.clone());
            if !known.synced {
                return None;
            }
            let objects = known.objects.values();
            // An object that the API server served is JSON; what is not is not served again.
            return Some(
                objects
                    .filter_map(|object| object.value().ok().map(Arc::new))
                    .collect(),
            );
        }
        let readers = HashSet::from([reader.clone()]);
        state.insert(
            reference.clone(),
            ReferenceState {
                readers,
                ..ReferenceState::default()
            },
        );
        drop(state);
        start(target, wanted, reference);
        None
    }

    fn take(&self, reference: &Reference, event: Event) -> Vec<InstanceKey> {
        let mut state = self.state.lock();
        let Some(known) = state.get_mut(reference) else {
            return Vec::new();
        };
        let identity = |object: &RawObject| {
            (
                object.namespace.clone().unwrap_or_default(),
                object.name.clone(),
            )
        };
        match event {
            Event::Restarted { objects, .. } => {
                known.synced = true;
                known.objects = objects
                    .into_iter()
                    .map(|object| (identity(&object), object))
                    .collect();
            }
            Event::Applied(object) => {
                known.objects.insert(identity(&object), object);
            }
            Event::Deleted(object) => {
                known.objects.remove(&identity(&object));
            }
            Event::Interrupted(_) | Event::Resumed => return Vec::new(),
        }
        known.readers.iter().cloned().collect()
    }
}

// === impl Reference ===

impl Reference {
    fn of(target: &Target, wanted: &Wanted) -> Self {
        let gvr = &wanted.gvr;
        let scope = match wanted.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        let path = format!(
            "{}{}{scope}/{}",
            target.prefix,
            gvr.group_version().path(),
            gvr.resource
        );
        let (label_selector, field_selector) = match &wanted.target {
            WantedTarget::Name(name) => (None, Some(format!("metadata.name={name}"))),
            WantedTarget::Selector(selector) => (Some(selector.clone()), None),
        };
        Self {
            path,
            label_selector,
            field_selector,
        }
    }
}

fn start(target: &Target, wanted: &Wanted, reference: Reference) {
    let mut config = target.source(&wanted.gvr, "");
    config.path.clone_from(&reference.path);
    config.label_selector.clone_from(&reference.label_selector);
    config.field_selector.clone_from(&reference.field_selector);
    let mut events = target.follow(config, target.token.clone());
    let cache = Arc::clone(&target.externals);
    let queue = Arc::clone(&target.queue);
    target.tasks().spawn("externals", async move {
        while let Some(event) = events.recv().await {
            for instance in cache.take(&reference, event) {
                queue.add(instance);
            }
        }
    });
}
