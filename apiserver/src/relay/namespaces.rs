//! What admission sees of a spoke's namespaces: a cached view, and a read in the spoke where that has nothing.
//!
//! # Invariants
//! - While the spoke is away the last known view holds, so that hub-stored writes go on.
//! - A namespace that the view does not have is asked for in the spoke; it is absent only if the spoke says so.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use api::LogicalCluster;
use client::{
    Endpoint,
    reflector::{self, Event, RawObject},
};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tasks::{Shutdown, Tasks};

use super::links::{Link, Links};
use crate::{
    call::{NamespacePhase, NamespaceView},
    refusal::Refusal,
};

/// The namespaces of one spoke.
#[derive(Debug, Default)]
pub(super) struct NamespaceCache {
    /// Guards the map; nothing else is locked while it is held.
    phases: Mutex<HashMap<String, NamespacePhase>>,
}

/// The namespaces of all spokes.
pub(super) struct SpokeNamespaces {
    links: Arc<Links>,
}

// === impl SpokeNamespaces ===

impl SpokeNamespaces {
    pub(super) fn new(links: Arc<Links>) -> Self {
        Self { links }
    }

    async fn find(
        &self,
        cluster: &LogicalCluster,
        namespace: &str,
    ) -> Result<NamespacePhase, Refusal> {
        let link = self
            .links
            .get(cluster)
            .ok_or_else(|| self.links.not_connected(cluster))?;
        if let Some(known) = link.namespaces.phases.lock().get(namespace) {
            return Ok(*known);
        }
        let endpoint = Endpoint {
            scope: None,
            gvr: api::GroupVersionResource::new("", "v1", "namespaces"),
            namespace: None,
        };
        match link.dynamic().get(&endpoint, namespace).await {
            Ok(found) if api::meta::is_terminating(&found) => Ok(NamespacePhase::Terminating),
            Ok(_) => Ok(NamespacePhase::Active),
            Err(error) if error.is_not_found() => Ok(NamespacePhase::Absent),
            // What no path can name is not there, and the spoke was not asked.
            Err(client::Error::Path(_)) => Ok(NamespacePhase::Absent),
            Err(error) => Err(link.unreachable(&error)),
        }
    }
}

impl NamespaceView for SpokeNamespaces {
    fn phase<'a>(
        &'a self,
        cluster: &'a LogicalCluster,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<NamespacePhase, Refusal>> {
        Box::pin(self.find(cluster, namespace))
    }
}

impl fmt::Debug for SpokeNamespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpokeNamespaces").finish_non_exhaustive()
    }
}

// === impl NamespaceCache ===

impl NamespaceCache {
    fn take(&self, event: Event) {
        let phase = |object: &RawObject| match object.deletion_timestamp {
            Some(_) => NamespacePhase::Terminating,
            None => NamespacePhase::Active,
        };
        let mut phases = self.phases.lock();
        match event {
            Event::Restarted { objects, .. } => {
                *phases = objects
                    .iter()
                    .map(|it| (it.name.clone(), phase(it)))
                    .collect();
            }
            Event::Applied(object) => {
                phases.insert(object.name.clone(), phase(&object));
            }
            Event::Deleted(object) => {
                phases.remove(&object.name);
            }
            Event::Interrupted(_) | Event::Resumed => {}
        }
    }
}

/// Follows a spoke's namespaces for as long as its link is there.
pub(super) fn watch(link: &Arc<Link>, tasks: &Tasks, end: Shutdown) {
    let config = reflector::Config {
        client: link.connection.client(),
        endpoint: Endpoint {
            scope: None,
            gvr: api::GroupVersionResource::new("", "v1", "namespaces"),
            namespace: None,
        },
        label_selector: None,
        field_selector: None,
        name: format!("{}/namespaces", link.cluster),
    };
    let mut events = reflector::start_woken(config, Arc::clone(&link.wake), tasks, end);
    let link: Weak<Link> = Arc::downgrade(link);
    tasks.spawn("relay-namespaces", async move {
        while let Some(event) = events.recv().await {
            let Some(link) = link.upgrade() else { return };
            link.namespaces.take(event);
        }
    });
}
