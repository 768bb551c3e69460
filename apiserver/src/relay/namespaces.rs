//! What admission sees of a spoke's namespaces: a cached view, and a read in the spoke where that has nothing.
//!
//! # Invariants
//! - While the spoke is away the last known view holds, so that hub-stored writes go on.
//! - A namespace that the view does not have is asked for in the spoke; it is absent only if the spoke says so.

use std::{fmt, sync::Arc};

use api::LogicalCluster;
use client::Endpoint;
use futures::future::BoxFuture;
use serde_json::Value;
use spokes::Phase;

use super::links::Links;
use crate::{
    call::{NamespacePhase, NamespaceView},
    refusal::Refusal,
};

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
        match link.way.namespaces().phase(namespace) {
            Some(Phase::Active) => return Ok(NamespacePhase::Active),
            Some(Phase::Terminating) => return Ok(NamespacePhase::Terminating),
            None => {}
        }
        Ok(match self.read(cluster, namespace).await? {
            Some(found) if api::meta::is_terminating(&found) => NamespacePhase::Terminating,
            Some(_) => NamespacePhase::Active,
            None => NamespacePhase::Absent,
        })
    }

    async fn read(
        &self,
        cluster: &LogicalCluster,
        namespace: &str,
    ) -> Result<Option<Value>, Refusal> {
        let link = self
            .links
            .get(cluster)
            .ok_or_else(|| self.links.not_connected(cluster))?;
        let endpoint = Endpoint {
            scope: None,
            gvr: api::GroupVersionResource::new("", "v1", "namespaces"),
            namespace: None,
        };
        let asked = link
            .way
            .ask(async |hub| hub.get(&endpoint, namespace).await);
        match asked.await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            // What no path can name is not there, and the spoke was not asked.
            Err(client::Error::Path(_)) => Ok(None),
            Err(error) => Err(link.way.unreachable(&error)),
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

    fn object<'a>(
        &'a self,
        cluster: &'a LogicalCluster,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, Refusal>> {
        Box::pin(self.read(cluster, namespace))
    }
}

impl fmt::Debug for SpokeNamespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpokeNamespaces").finish_non_exhaustive()
    }
}
