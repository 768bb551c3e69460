//! `/wheelhouse/syncer`: what a syncer in a process of its own has to know of the hub, and cannot read elsewhere.
//!
//! Only such a syncer is answered, known by its certificate ([`RequestOrigin::Syncer`]): whoever else is told by the refusal, before it
//! writes anything, that it would not be taken for one.

use api::status::Status;
use http::{StatusCode, request::Parts};
use serde_json::json;

use crate::{
    authorize::Authorized,
    negotiate::{self, Offer},
    refusal::Refusal,
    request::{RequestInfo, RequestOrigin, Verb},
    respond::{self, Response},
};

/// Where it is.
const PATH: &str = "/wheelhouse/syncer";

/// Whether a request is for it.
pub(super) fn is_asked_for(info: &RequestInfo) -> bool {
    let cluster = info.cluster.one();
    info.path == PATH && cluster.is_some_and(api::LogicalCluster::is_root)
}

/// Answers with the hub's id: `{"hubId": "..."}`.
///
/// # Errors
/// 403 for who is no syncer.
pub(super) fn serve(hub_id: &str, request: &Authorized<Parts>) -> Result<Response, Refusal> {
    if request.info().verb != Verb::Get {
        return Err(Refusal::no_such_path());
    }
    let context = request.context();
    if context.origin != RequestOrigin::Syncer || context.impersonator.is_some() {
        let text = format!(
            "user {:?} is not a syncer: use the kubeconfig that the hub writes with --syncer-kubeconfig-out",
            context.user.username
        );
        return Err(Status::failure(403, api::StatusReason::Forbidden, text).into());
    }
    let form = negotiate::accept(request.request(), Offer::Plain)?;
    respond::value(StatusCode::OK, form, &json!({ "hubId": hub_id }))
}
