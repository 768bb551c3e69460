//! Previews of definitions: a `DefinitionPreview` is created, answered by whoever previews ([`Previewer`]), and never stored.
//!
//! Who previews is given a way into the hub as the caller, and no other: [`AsCaller`] sends requests over the front door, with the
//! credential of the caller, so that each is authenticated, authorized, counted and recorded as if the caller had sent it.
//!
//! # Invariants
//! - Nothing is written: [`AsCaller`] sends nothing but reads.
//! - A request of it is never one of this process, whatever the caller is: controllers are the hub in spokes, and see what it sees.
//! - A preview has a place among the calls of its caller until its answer is sent, as the fleet view's have.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use api::{
    GroupResource, GroupVersionKind, LogicalCluster, Status,
    wheelhouse::{
        self,
        preview::{self, InstanceName, PreviewSpec},
    },
};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode, request::Parts};
use http_body::Body as HttpBody;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tower::Service;

use super::Hub;
use crate::{
    authenticate::Authenticator,
    authorize::Authorized,
    handle,
    negotiate::{self, MediaType, Negotiated, Offer},
    refusal::{BoxError, Refusal},
    request::{Peer, RequestInfo, Verb},
    respond::{self, RequestBody, Response},
};

/// How long a preview waits for a place, as other calls of the view do.
const PLACE_TIMEOUT: Duration = Duration::from_secs(5);
/// What is sent on of a caller's headers: who it is, and for whom it acts.
const IDENTITY_HEADERS: [&str; 2] = ["authorization", "user-agent"];
/// What the names of further such headers begin with.
const IMPERSONATION: &str = "impersonate-";

/// Tells what a definition would do if it were written to a logical cluster: the status of the preview.
pub type Previewer =
    Arc<dyn Fn(AsCaller, LogicalCluster, PreviewSpec) -> BoxFuture<'static, Value> + Send + Sync>;

/// Reads of a hub as the caller of a request. `kube::Client::new` takes it.
#[derive(Clone)]
pub struct AsCaller {
    hub: Hub,
    peer: Arc<Peer>,
    /// What the caller's request said of its sender.
    identity: Arc<HeaderMap>,
}

/// Whether a request is for a preview.
pub(super) fn is_asked_for(info: &RequestInfo) -> bool {
    info.is_resource
        && info.group == wheelhouse::GROUP
        && info.version == wheelhouse::VERSION
        && info.resource == preview::PREVIEW_RESOURCE
}

// === impl AsCaller ===

impl AsCaller {
    /// The sender of a request with these headers over `peer`.
    pub(super) fn of(hub: &Hub, peer: &Peer, headers: &HeaderMap) -> Self {
        let authenticator = &hub.parts.authenticator;
        Self {
            hub: hub.clone(),
            peer: Arc::new(peer.clone()),
            identity: Arc::new(identity(authenticator, headers)),
        }
    }

    pub(super) async fn send(&self, mut request: http::Request<RequestBody>) -> Response {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let status = Status::bad_request("a preview writes nothing");
            return respond::refuse(&status.into(), Negotiated::JSON, "");
        }
        let headers = request.headers_mut();
        // What the sender would say of itself is nothing to go by.
        for name in identity(&self.hub.parts.authenticator, headers).keys() {
            headers.remove(name);
        }
        for (name, value) in self.identity.iter() {
            headers.append(name.clone(), value.clone());
        }
        self.hub.answer(request, &self.peer, None).await
    }
}

/// What headers say of the sender of a request; also what they say for a front proxy.
fn identity(authenticator: &Authenticator, headers: &HeaderMap) -> HeaderMap {
    let mut others = headers.clone();
    authenticator.clear_remote(&mut others);
    let is_identity = |name: &str| {
        IDENTITY_HEADERS.contains(&name)
            || name.starts_with(IMPERSONATION)
            || !others.contains_key(name)
    };
    let said = headers
        .iter()
        .filter(|(name, _)| is_identity(name.as_str()));
    let mut identity = HeaderMap::new();
    for (name, value) in said {
        identity.append(name.clone(), value.clone());
    }
    identity
}

impl<B> Service<http::Request<B>> for AsCaller
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, req: http::Request<B>) -> Self::Future {
        let caller = self.clone();
        let request = req.map(RequestBody::foreign);
        Box::pin(async move { Ok(caller.send(request).await) })
    }
}

impl fmt::Debug for AsCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsCaller").finish_non_exhaustive()
    }
}

impl Hub {
    /// Sets who previews definitions. The first one stays.
    pub fn set_previewer(&self, previewer: Previewer) {
        let _already_set = self.parts.previewer.set(previewer);
    }

    /// Answers a preview.
    ///
    /// # Errors
    /// 405 for any verb but create, what is wrong with the body, 429 where the caller has as many as it may, 503 without anyone who
    /// previews, 504.
    pub(super) async fn preview(
        &self,
        caller: AsCaller,
        request: &Authorized<Parts>,
        body: RequestBody,
    ) -> Result<Response, Refusal> {
        let deadline = request.context().deadline;
        let answer = self.preview_unhurried(caller, request, body);
        timeout_at(deadline, answer)
            .await
            .unwrap_or_else(|_elapsed| {
                let text = "request did not complete within the allotted timeout";
                Err(Status::timeout(text).into())
            })
    }

    async fn preview_unhurried(
        &self,
        caller: AsCaller,
        request: &Authorized<Parts>,
        body: RequestBody,
    ) -> Result<Response, Refusal> {
        let (info, context) = (request.info(), request.context());
        let home = home(info)?;
        let form = negotiate::accept(request.request(), Offer::Plain)?;
        let headers = &request.request().headers;
        let media = negotiate::content_type(headers, &[MediaType::Json, MediaType::Yaml])?;
        let Some(previewer) = self.parts.previewer.get() else {
            return Err(Status::service_unavailable("this hub makes no previews").into());
        };
        let place = match &context.share {
            Some(share) => {
                let until = Instant::now() + PLACE_TIMEOUT;
                Some(share.view(&context.user, until).await?)
            }
            None => None,
        };
        let bytes = handle::receive(context, body).await?;
        let gvk = GroupVersionKind::new(
            wheelhouse::GROUP,
            wheelhouse::VERSION,
            preview::PREVIEW_KIND,
        );
        let mut object = handle::decode(media, &bytes, &gvk)?;
        let spec = spec(&object).map_err(Status::bad_request)?;
        object["apiVersion"] = json!(gvk.api_version());
        object["kind"] = json!(gvk.kind);
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        object["metadata"]["creationTimestamp"] = Value::Null;
        object["status"] = previewer(caller, home, spec).await;
        let mut response = respond::value(StatusCode::CREATED, form, &object)?;
        response.body_mut().keep(Box::new(place));
        Ok(response)
    }
}

/// Reads what is asked.
///
/// # Errors
/// What is wrong with it.
fn spec(object: &Value) -> Result<PreviewSpec, String> {
    let spec: PreviewSpec = match &object["spec"] {
        Value::Null => PreviewSpec::default(),
        spec => PreviewSpec::deserialize(spec).map_err(|error| format!("spec: {error}"))?,
    };
    if !spec.definition.is_object() {
        let text =
            "spec.definition is required: the ResourceGraphDefinition as it would be applied";
        return Err(text.to_owned());
    }
    if let Some(instance) = &spec.instance {
        let InstanceName { cluster, name, .. } = instance;
        if cluster.parse::<LogicalCluster>().is_err() || name.is_empty() {
            let text = "spec.instance needs the cluster and the name of an instance";
            return Err(text.to_owned());
        }
    }
    Ok(spec)
}

fn home(info: &RequestInfo) -> Result<LogicalCluster, Refusal> {
    let resource = GroupResource::new(info.group.as_str(), info.resource.as_str());
    if info.names_object || !info.namespace.is_empty() || !info.subresource.is_empty() {
        return Err(Status::resource_not_found().into());
    }
    match info.cluster.one() {
        Some(cluster) if info.verb == Verb::Create => Ok(cluster.clone()),
        _ => Err(Status::method_not_allowed(&resource, info.verb.as_str()).into()),
    }
}
