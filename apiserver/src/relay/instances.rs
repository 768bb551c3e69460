//! Writes of instances in spokes, as the user: of those that were made there, and of others to try what the spoke's admission says.
//!
//! # Invariants
//! - The spoke judges the user: nothing is written with the hub's own rights.
//! - A spoke that is not reached is 503; nothing is written then.

use std::{fmt, sync::Arc};

use api::Status;
use client::{DeleteRequest, Dynamic, Endpoint, Patch};
use futures::future::BoxFuture;
use serde_json::Value;

use super::{links::Links, way::Way};
use crate::{
    call::{SpokeVerb, SpokeWrite, SpokeWrites},
    refusal::Refusal,
};

/// The instances of all spokes.
pub(super) struct SpokeInstances {
    links: Arc<Links>,
}

// === impl SpokeInstances ===

impl SpokeInstances {
    pub(super) fn new(links: Arc<Links>) -> Self {
        Self { links }
    }

    async fn write(&self, write: &SpokeWrite) -> Result<Value, Refusal> {
        let cluster = &write.cluster;
        let link = self.links.get(cluster);
        let link = link.ok_or_else(|| self.links.not_connected(cluster))?;
        let way = &link.way;
        let resource = write.gvr.group_resource();
        let refused = |reason: &str| Status::forbidden(&resource, &write.name, reason);
        let user = write.user.abroad(cluster, way.trusts_masters());
        let user = user.map_err(|error| refused(&error.to_string()))?;
        let asked = way.ask(async |hub| {
            let client = client::acting_as(hub.client(), &user)
                .map_err(|error| client::Error::Status(Box::new(refused(&error.to_string()))))?;
            send(Dynamic::new(client), write).await
        });
        let written = asked.await;
        answer(way, written)
    }

    async fn read(&self, write: &SpokeWrite) -> Result<Value, Refusal> {
        let cluster = &write.cluster;
        let link = self.links.get(cluster);
        let link = link.ok_or_else(|| self.links.not_connected(cluster))?;
        let endpoint = endpoint_of(write);
        let asked = link
            .way
            .ask(async |hub| hub.get(&endpoint, &write.name).await);
        let read = asked.await;
        answer(&link.way, read)
    }
}

/// Sends a write to a spoke, as whoever `dynamic` acts.
async fn send(dynamic: Dynamic, write: &SpokeWrite) -> Result<Value, client::Error> {
    let mut dynamic = dynamic.with_manager(&write.manager);
    if write.is_trial {
        dynamic = dynamic.with_dry_run();
    }
    let endpoint = endpoint_of(write);
    let name = &write.name;
    match write.verb {
        SpokeVerb::Create => dynamic.create(&endpoint, &write.body).await,
        SpokeVerb::Patch => {
            let patch = Patch::Merge(&write.body);
            dynamic.patch(&endpoint, name, None, patch).await
        }
        SpokeVerb::Delete => {
            let request = DeleteRequest::default();
            let deleted = dynamic.delete(&endpoint, name, &request);
            deleted.await.map(|_| Value::Null)
        }
    }
}

fn endpoint_of(write: &SpokeWrite) -> Endpoint {
    Endpoint {
        scope: None,
        gvr: write.gvr.clone(),
        namespace: (!write.namespace.is_empty()).then(|| write.namespace.clone()),
    }
}

/// Passes on what a spoke says; what is no answer of it is 503.
fn answer(way: &Way, answered: Result<Value, client::Error>) -> Result<Value, Refusal> {
    match answered {
        Ok(object) => {
            way.answered();
            Ok(object)
        }
        Err(client::Error::Status(status)) if !matches!(status.code, 502..=504) => {
            way.answered();
            Err((*status).into())
        }
        Err(error) => Err(way.unreachable(&error)),
    }
}

impl SpokeWrites for SpokeInstances {
    fn read<'a>(&'a self, write: &'a SpokeWrite) -> BoxFuture<'a, Result<Value, Refusal>> {
        Box::pin(self.read(write))
    }

    fn write<'a>(&'a self, write: &'a SpokeWrite) -> BoxFuture<'a, Result<Value, Refusal>> {
        Box::pin(self.write(write))
    }
}

impl fmt::Debug for SpokeInstances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpokeInstances").finish_non_exhaustive()
    }
}
