//! What the relay keeps for each connected spoke, for as long as its connection is the same one.
//!
//! The connections are those of [`spokes`], so that the 503 of a path says what the Spoke's status says.
//!
//! # Invariants
//! - What is kept of a spoke goes with its connection. A later credential takes the place of one before in a connection only where
//!   both are the hub's own for the same cluster.
//! - A spoke without a connection has a reason, which is the text of its path's 503.

use std::{collections::HashMap, sync::Arc};

use api::{LogicalCluster, Status};
use parking_lot::Mutex;
use spokes::Spokes;
use tasks::Tasks;

use super::{
    accounts::AccountTokens,
    published::{Published, Source},
    remembered::Remembered,
    way::Way,
};
use crate::refusal::Refusal;

/// What the relay keeps, by logical cluster.
#[derive(Debug)]
pub(super) struct Links {
    spokes: Spokes,
    remembered: Arc<Remembered>,
    /// Guards the map. Taken before the lock of `spokes`.
    by_cluster: Mutex<HashMap<LogicalCluster, Arc<Link>>>,
}

/// The way to one spoke, and what is kept of it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) way: Way,
    published: Published,
    remembered: Arc<Remembered>,
    pub(super) accounts: AccountTokens,
}

// === impl Links ===

impl Links {
    pub(super) fn new(spokes: Spokes, remembered: &Arc<Remembered>) -> Self {
        Self {
            spokes,
            remembered: Arc::clone(remembered),
            by_cluster: Mutex::default(),
        }
    }

    /// Returns the link of a logical cluster; `None` while it has no connection.
    pub(super) fn get(&self, cluster: &LogicalCluster) -> Option<Arc<Link>> {
        let mut links = self.by_cluster.lock();
        let Ok(way) = self.spokes.route(cluster) else {
            links.remove(cluster);
            return None;
        };
        match links.get(cluster) {
            Some(link) if link.way.is(&way) => Some(Arc::clone(link)),
            Some(_) | None => {
                let link = Arc::new(Link::new(way, &self.spokes, &self.remembered));
                links.insert(cluster.clone(), Arc::clone(&link));
                Some(link)
            }
        }
    }

    /// Returns the 503 that says why there is no link.
    pub(super) fn not_connected(&self, cluster: &LogicalCluster) -> Refusal {
        let fault = self.spokes.route(cluster).err();
        // A connection that was made since is found by the next request.
        let fault = fault.unwrap_or(spokes::Fault::Pending);
        let text = format!("spoke {:?} is not connected: {fault}", cluster.as_str());
        let status = Status::service_unavailable(text);
        match fault {
            spokes::Fault::Pending => status.retry_after(1).into(),
            // An administrator has to mend it: kubectl would ask ten times before it shows the reason.
            _ => status.into(),
        }
    }

    /// Starts to drop what is kept for connections that have ended.
    pub(super) fn start(links: &Arc<Self>, tasks: &Tasks) {
        let changes = links.spokes.subscribe();
        let (links, end) = (Arc::clone(links), tasks.child_token());
        tasks.spawn("relay-links", async move {
            loop {
                let changed = tokio::select! {
                    biased;
                    () = end.cancelled() => return,
                    changed = changes.next() => changed,
                };
                for cluster in &changed {
                    links.get(cluster);
                }
            }
        });
    }
}

// === impl Link ===

impl Link {
    fn new(way: Arc<spokes::Link>, spokes: &Spokes, remembered: &Arc<Remembered>) -> Self {
        Self {
            way: Way::new(way, spokes.clone()),
            published: Published::default(),
            remembered: Arc::clone(remembered),
            accounts: AccountTokens::default(),
        }
    }

    /// Returns what the spoke's documents are read from.
    pub(super) fn source(&self) -> Source<'_> {
        Source {
            way: &self.way,
            published: &self.published,
            remembered: &self.remembered,
        }
    }
}
