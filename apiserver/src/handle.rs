//! Answers requests for resources that the hub's store holds.
//!
//! One file per verb. Reads copy stored bytes. Every write goes the same way, text order being run order: decode
//! ([`mod@decode`]), make the new object out of the live one ([`create`], [`update`], [`patch`]), say whose fields changed
//! ([`fields`]), admit ([`crate::admit`]), apply the kind's strategy and validate ([`prepare`]), commit. Only the part from
//! "live" to "commit" runs again when another write came in between; it is marked as such in [`update`].
//!
//! # Invariants
//! - A write is handed to the store in one call, with what must hold of the state that it was made from; dropping the
//!   request afterwards changes nothing.
//! - What a write answers with is what the store holds: the committed entry, not the object that was sent.
//! - A dry run does everything but the commit.
//!
//! Source: apiserver/pkg/endpoints/handlers, apiserver/pkg/registry/generic/registry/store.go.

pub(crate) mod controllers;
pub(crate) mod convert;
mod create;
pub(crate) mod decode;
mod delete;
mod delete_collection;
mod dispatch;
mod fields;
mod get;
mod limits;
mod list;
mod missing;
pub(crate) mod output;
pub(crate) mod patch;
mod prepare;
mod received;
mod scale;
mod scaled;
mod selection;
mod spoke_born;
mod subresources;
mod tried;
mod update;
mod watch;
mod write;

use std::sync::Arc;

use storage::Store;

pub use decode::decode;
pub(crate) use missing::LEFT_OUT;
pub(crate) use received::receive;

use crate::authorize::{Authorized, Authorizer};
use crate::call::{Each, Gathered, NamespaceView, Shared, SpokeWrites, StoredNamespaces};
use crate::guards::Guards;
use crate::refusal::Refusal;
use crate::registry::{Registry, ResourceScope};
use crate::respond::{RequestBody, Response};
use crate::webhooks::{AllowedHosts, Webhooks};

/// What handlers work with.
#[derive(Debug)]
pub struct Parts {
    /// Where the objects are.
    pub store: Arc<dyn Store>,
    /// What is served.
    pub registry: Arc<Registry>,
    /// Who may what, for questions that come up on the way.
    pub authorizer: Arc<Authorizer>,
    /// The namespaces of spokes. Without it, a create in a namespace of a spoke is answered 503.
    pub spoke_namespaces: Option<Arc<dyn NamespaceView>>,
    /// Where webhooks of logical clusters below root may be called.
    pub webhook_hosts: AllowedHosts,
    /// Writes instances where they were made. Without it, a change of one that was made in a spoke is answered 503.
    pub spoke_writes: Option<Arc<dyn SpokeWrites>>,
}

/// Answers requests; cheap to clone.
#[derive(Debug, Clone)]
pub struct Handlers {
    shared: Arc<Shared>,
}

// === impl Handlers ===

impl Handlers {
    /// Makes handlers over a store.
    pub fn new(parts: Parts) -> Self {
        let Parts {
            store,
            registry,
            authorizer,
            spoke_namespaces,
            webhook_hosts,
            spoke_writes,
        } = parts;
        let namespaces = StoredNamespaces::new(Arc::clone(&store));
        let shared = Shared {
            store,
            registry,
            authorizer,
            guards: Guards::new(),
            webhooks: Webhooks::new(webhook_hosts),
            namespaces,
            spoke_namespaces,
            spoke_writes,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Starts what every replica of a hub needs beside requests: the registry's follower.
    pub(crate) fn start_followers(&self, tasks: &tasks::Tasks) {
        let store = &self.shared.store;
        self.shared.registry.start(Arc::clone(store), tasks);
    }

    /// The epoch of the store.
    pub(crate) fn epoch(&self) -> u64 {
        self.shared.store.revision().epoch()
    }

    /// What all handlers share, for the controllers of the hub's own.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Answers one request for a resource.
    ///
    /// # Cancel safety
    /// A write that was handed to the store happens whatever becomes of this future.
    pub async fn serve(
        &self,
        scope: Arc<ResourceScope>,
        request: &Authorized<http::request::Parts>,
        body: RequestBody,
    ) -> Result<Response, Refusal> {
        dispatch::serve(&self.shared, dispatch::Place::One(&scope), request, body).await
    }

    /// Answers a list or watch of a resource over all clusters. `gathered` is what spokes have of it themselves.
    ///
    /// # Errors
    /// 404 where none of the clusters that the caller may look into serves it. The syncer watches kinds that are about to be
    /// served: to it they are empty.
    pub(crate) async fn serve_each(
        &self,
        request: &Authorized<http::request::Parts>,
        body: RequestBody,
        mut gathered: Option<Gathered>,
    ) -> Result<Response, Refusal> {
        let each = Each::new(&self.shared, request)?;
        let context = request.context();
        let waits = context.origin.is_controller()
            && context.user.username == api::wheelhouse::keys::USER_SYNCER;
        let unknown: Vec<_> = each.unknown().collect();
        if !unknown.is_empty() {
            let gathered = gathered.get_or_insert_default();
            gathered.failed.extend(unknown);
            gathered.failed.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        }
        let held = gathered.as_mut().and_then(|it| it.held.take());
        let face = match (each.face(), &mut gathered) {
            (Some(face), _) => face,
            (None, Some(gathered)) => {
                let is_known = gathered.is_rejected || gathered.failed.is_empty();
                if gathered.lists.is_empty() && is_known {
                    let refusal = gathered.otherwise.take();
                    return Err(refusal.unwrap_or_else(Refusal::no_such_path));
                }
                each.face_of_spokes(&gathered.lists)
            }
            (None, None) if waits => each.blank_face(),
            (None, None) => return Err(Refusal::no_such_path()),
        };
        let (face, each) = (Arc::new(face), &each);
        let place = dispatch::Place::Each {
            face: &face,
            each,
            gathered: gathered.as_ref(),
        };
        let mut response = dispatch::serve(&self.shared, place, request, body).await?;
        if let Some(held) = held {
            response.body_mut().keep(held);
        }
        Ok(response)
    }
}

/// Applies a JSON patch to a document; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub(crate) fn json_patch(
    object: &mut serde_json::Value,
    operations: &[serde_json::Value],
) -> Result<(), Refusal> {
    patch::apply_operations(object, operations)
}

#[cfg(test)]
mod tests;
