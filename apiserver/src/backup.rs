//! `/wheelhouse/backup`: the whole store at one revision, in pages that a client can ask for again.
//!
//! Without a revision the answer is JSON that names one; with `revision` and `after` it is the records behind a key at
//! that revision, in the frames of [`storage::backup`], and nothing at all behind the last one. So the
//! server keeps no state, and who was interrupted goes on. A revision that has left the history is answered with 410, as for a list.
//!
//! # Invariants
//! - Only at the path without a cluster: it is the whole hub's.
//! - Who reads here reads every Secret of every cluster. So the right to the path is not enough (roles for metrics often hold
//!   every path): the sender must also be let into every spoke, and be allowed to `get` everything in root.

use std::sync::Arc;

use api::{
    cluster::{ClusterScope, LogicalCluster},
    query::Query,
    status::Status,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header, request::Parts};
use serde_json::json;
use storage::{Key, KeyRange, RangeQuery, Revision, Store, backup::Record};

use crate::{
    authorize::{Attributes, Authorized, Authorizer},
    negotiate::{self, Offer},
    refusal::Refusal,
    request::{RequestInfo, Verb},
    respond::{self, Body, Response},
};

/// Where it is.
pub(crate) const PATH: &str = "/wheelhouse/backup";

/// Records of a page. A million objects take 500 pages.
const PAGE_COUNT: usize = 2000;
/// Bytes of a page, unless its first record is larger.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Serves backups of a store.
#[derive(Debug)]
pub(crate) struct Backups {
    store: Arc<dyn Store>,
    hub_id: String,
}

/// Whether a request is for a backup.
pub(crate) fn is_asked_for(info: &RequestInfo) -> bool {
    info.path == PATH && info.cluster.one().is_some_and(LogicalCluster::is_root)
}

// === impl Backups ===

impl Backups {
    /// Serves backups of `store`, which is that of the hub `hub_id`.
    pub(crate) fn new(store: Arc<dyn Store>, hub_id: String) -> Self {
        Self { store, hub_id }
    }

    /// Answers with a revision, or with a page of one.
    ///
    /// # Errors
    /// 403 for who may not read everything; 410 for a revision that is gone; 400 for a query that makes no sense.
    pub(crate) async fn serve(
        &self,
        authorizer: &Authorizer,
        request: &Authorized<Parts>,
    ) -> Result<Response, Refusal> {
        if !matches!(request.info().verb, Verb::Get | Verb::Head) {
            return Err(Refusal::no_such_path());
        }
        authorizer
            .require(&everything(request, &ClusterScope::All))
            .await?;
        let query = Query::parse(request.request().uri.query().unwrap_or_default());
        if query.contains("revision") {
            return self.page(&query);
        }
        let revision = self.store.fresh().await?;
        let form = negotiate::accept(request.request(), Offer::Plain)?;
        let description = json!({ "revision": revision.0, "hubId": self.hub_id });
        respond::value(StatusCode::OK, form, &description)
    }

    fn page(&self, query: &Query) -> Result<Response, Refusal> {
        let revision: Revision = query
            .text("revision")
            .parse()
            .map_err(|_source| Status::bad_request("revision: want a number"))?;
        let after = URL_SAFE_NO_PAD
            .decode(query.text("after"))
            .map_err(|_source| Status::bad_request("after: want a key in base64 (URL alphabet)"))?;
        let start = if after.is_empty() {
            Key::from(after)
        } else {
            Key::from(after).successor()
        };
        let asked = RangeQuery::of(KeyRange { start, end: None })
            .limit(PAGE_COUNT)
            .at(revision);
        let range = self.store.range(asked)?;
        let mut page = Vec::new();
        for entry in &range.entries {
            if page.len() >= PAGE_BYTES {
                break;
            }
            Record::append_entry(&mut page, entry).map_err(Refusal::internal)?;
        }
        let mut response = http::Response::new(Body::full(Bytes::from(page)));
        let octets = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, octets);
        Ok(response)
    }
}

/// The question whether the sender may read everything in a scope.
fn everything<'a>(request: &'a Authorized<Parts>, cluster: &'a ClusterScope) -> Attributes<'a> {
    Attributes {
        user: &request.context().user,
        cluster,
        verb: "get",
        group: "*",
        version: "*",
        resource: "*",
        subresource: "",
        namespace: "",
        name: "",
        path: "",
        is_resource: true,
    }
}

#[cfg(test)]
mod tests;
