//! A spoke's logical cluster: what the hub does not store is the spoke's, and is relayed to it.
//!
//! In reading order: [`way`] (the connection of one), [`links`] (what is kept for each connected spoke), [`forward`] (one request, streamed both
//! ways, as the user), [`upgrade`] (one that becomes a stream of bytes), [`gather`] (a list of many spokes at once), [`headers`] (which of them
//! pass, either way), [`redirect`] (where an application behind a proxy may send its users), [`published`] (discovery and OpenAPI of both, as
//! one), [`remembered`] (discovery of spokes that are away), [`namespaces`] (what admission sees of the spoke's namespaces), [`instances`]
//! (writes of instances that the spoke judges), [`review`] (what the spoke's authorizer says of kinds that the hub stores), [`accounts`] and
//! [`tokens`] (whose the tokens of its own ServiceAccounts are), [`uids`] (what an instance is called on either side).
//!
//! # Invariants
//! - A request to a spoke that is not reached is 503 and names the spoke; it is never an empty list, never a 404.
//! - Nothing that a client sends says who it is in the spoke: the identity is the hub's impersonation, or none.
//! - No redirect of a spoke is followed, and none leads elsewhere than to the same application of the same spoke.
//! - Bytes pass untouched only over a connection that the spoke has switched to the protocol that was asked for.

mod accounts;
mod forward;
mod gather;
mod headers;
mod instances;
mod links;
mod namespaces;
mod published;
mod redirect;
mod remembered;
mod review;
mod tokens;
mod uids;
mod upgrade;
mod way;

use std::sync::Arc;

use api::cluster::ClusterScope;
use client::Dynamic;
use futures::future::BoxFuture;
use gather::Desk;
use http::request::Parts;
use links::Links;
use published::Hubs;
use remembered::Remembered;
use spokes::Spokes;
use storage::Store;
use tasks::Tasks;

pub(crate) use uids::Uids;
pub(crate) use upgrade::asked as asked_protocol;

#[cfg(feature = "fuzzing")]
pub(crate) use forward::below_cluster;
#[cfg(feature = "fuzzing")]
pub(crate) use gather::parse_list;
#[cfg(feature = "fuzzing")]
pub(crate) use headers::relayed as relayed_headers;

use crate::{
    authenticate::SpokeTokens,
    authorize::{Authorized, SpokeReviewer},
    call::{NamespaceView, SpokeWrites},
    discovery, openapi,
    refusal::Refusal,
    request::Verb,
    respond::{RequestBody, Response},
    served::ServedKinds,
};

/// The way to all spokes.
#[derive(Debug)]
pub(crate) struct Relay {
    links: Arc<Links>,
    uids: Uids,
    remembered: Arc<Remembered>,
    desk: Desk,
}

// === impl Relay ===

impl Relay {
    /// Relays over the connections of `spokes`, for as long as `tasks` run. `uids` are those of the instances and their mirrors; what is
    /// remembered of spokes is in `store`.
    pub(crate) fn new(spokes: Spokes, uids: Uids, store: Arc<dyn Store>, tasks: &Tasks) -> Self {
        let remembered = Arc::new(Remembered::new(store, spokes.clone(), tasks));
        let links = Arc::new(Links::new(spokes, &remembered));
        Links::start(&links, tasks);
        Self {
            links,
            uids,
            remembered,
            desk: Desk::new(),
        }
    }

    /// Starts to remember the discovery of spokes, over `hub`.
    pub(crate) fn start(&self, hub: kube::Client, tasks: &Tasks) {
        Remembered::start(&self.remembered, Dynamic::new(hub), tasks);
    }

    /// Returns the view of the spokes' namespaces that admission uses.
    pub(crate) fn namespaces(&self) -> Arc<dyn NamespaceView> {
        Arc::new(namespaces::SpokeNamespaces::new(Arc::clone(&self.links)))
    }

    /// Returns the way in which instances that were made in spokes are changed.
    pub(crate) fn writes(&self) -> Arc<dyn SpokeWrites> {
        Arc::new(instances::SpokeInstances::new(Arc::clone(&self.links)))
    }

    /// Returns the function with which the authorizer asks spokes.
    pub(crate) fn reviewer(&self) -> SpokeReviewer {
        review::reviewer(Arc::clone(&self.links))
    }

    /// Returns the lookup of tokens of the spokes' own ServiceAccounts.
    pub(crate) fn tokens(&self) -> Arc<dyn SpokeTokens> {
        Arc::new(tokens::Tokens::new(Arc::clone(&self.links)))
    }

    /// Answers a request for a spoke. `served` is what the hub stores for it, `stand_in` what stands in for the spoke's own kinds
    /// while they were never read, `own` the documents of both.
    ///
    /// # Errors
    /// 503 where the spoke is not reached. What the spoke itself refuses is an answer.
    pub(crate) fn answer<'a>(
        &'a self,
        request: &'a Authorized<Parts>,
        body: RequestBody,
        served: &'a ServedKinds,
        stand_in: &'a (dyn Fn() -> Arc<ServedKinds> + Sync),
        own: &'a openapi::Cache,
    ) -> BoxFuture<'a, Result<Response, Refusal>> {
        let published = Hubs {
            served,
            stand_in,
            own,
        };
        Box::pin(self.find_answer(request, body, published))
    }

    async fn find_answer(
        &self,
        request: &Authorized<Parts>,
        body: RequestBody,
        hub: Hubs<'_>,
    ) -> Result<Response, Refusal> {
        let info = request.info();
        let ClusterScope::One(cluster) = &info.cluster else {
            return Err(Refusal::no_such_path());
        };
        let link = self.links.get(cluster);
        let source = link.as_deref().map(links::Link::source);
        if !info.is_resource && matches!(info.verb, Verb::Get | Verb::Head) {
            let parts = request.request();
            if let Some(page) = discovery::Page::of(&info.path) {
                let told = published::discovery(source, hub).await;
                if let Some(warning) = told.warning {
                    request.context().warn(warning);
                }
                return discovery::serve(&told.documents, page, parts);
            }
            match openapi::Page::of(&info.path) {
                Some(openapi::Page::Index) => {
                    let index = published::index(source, hub).await;
                    return openapi::serve_index(&index, parts);
                }
                Some(openapi::Page::Document(name)) => {
                    let document = published::document(source, hub, name).await?;
                    return {
                        let context = request.context();
                        let old_hash = openapi::OldHash::by_way_of(context);
                        openapi::serve_document(name, &document, parts, context.now, old_hash)
                    };
                }
                Some(openapi::Page::V2) | None => {}
            }
        }
        let link = link.ok_or_else(|| self.links.not_connected(cluster))?;
        if let Some(protocol) = upgrade::asked(request.request(), info) {
            return upgrade::forward(&link.way, request, protocol, body).await;
        }
        forward::forward(&link.way, &self.uids, request, body).await
    }
}
