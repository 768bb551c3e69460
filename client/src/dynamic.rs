//! Calls on objects as values: get, list, create, update, patch, delete.
//!
//! Every call has one deadline, from the first byte sent to the last one read. Nothing is retried here: whether a
//! call can be repeated is for the caller to know.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::query::Propagation;
use api::selector::{FieldSelector, Selector};
use api::{ClusterScope, GroupVersionResource, ListMeta, Status, meta};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;
use tower::BoxError;

use crate::apart;
use crate::bounds::{Answered, Budget, Expected, Pager};
use crate::connection::Client;
use crate::error::{Error, refusal};
use crate::reflector::{RawObject, decode_page};

mod url;

pub use url::{Path, PathError};

/// How long a call may take, unless the caller says otherwise.
const DEADLINE: Duration = Duration::from_secs(30);
/// How many objects a page has.
pub(crate) const PAGE_SIZE: usize = 500;

/// What asks for the metadata alone, with a second choice for servers that do not know it.
pub(crate) const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const ACCEPT_JSON: &str = "application/json";

/// Calls on objects through a client; cheap to clone.
#[derive(Clone)]
pub struct Dynamic {
    client: Client,
    deadline: Duration,
    manager: Option<Arc<str>>,
    is_trial: bool,
}

/// Where objects are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The logical cluster of the hub; `None` for a server that is no hub, and for the hub's root.
    pub scope: Option<ClusterScope>,
    /// The resource.
    pub gvr: GroupVersionResource,
    /// The namespace; `None` for objects without one, and for all namespaces.
    pub namespace: Option<String>,
}

/// Which objects of a collection are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// By labels.
    pub label_selector: Option<Selector>,
    /// By fields.
    pub field_selector: Option<FieldSelector>,
    /// Whether a list of all clusters may leave out those that cannot be asked; it is refused otherwise.
    pub partial: bool,
}

/// All objects of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The objects, each with its type.
    pub items: Vec<Value>,
    /// The version of the whole list.
    pub resource_version: String,
}

/// Some objects of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The objects, each with its type.
    pub items: Vec<Value>,
    /// The list's metadata, which says where the next page begins.
    pub metadata: ListMeta,
}

/// A change of an object.
#[derive(Clone, Copy, Debug)]
pub enum Patch<'a> {
    /// A partial object (RFC 7396).
    Merge(&'a Value),
    /// A list of operations (RFC 6902).
    Json(&'a Value),
    /// A server-side apply.
    Apply {
        /// Who applies.
        manager: &'a str,
        /// Whether fields are taken away from other managers.
        force: Force,
        /// What is wanted.
        object: &'a Value,
        /// How much of the result is answered.
        answer: Answer,
    },
}

/// Whether an apply takes fields away from other managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// It does.
    Yes,
    /// It is refused with a conflict.
    No,
}

/// How much of an object is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All of it.
    Object,
    /// Its metadata, which costs the server less.
    Metadata,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteRequest {
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The version that the object must have.
    pub resource_version: Option<String>,
    /// What becomes of its dependents.
    pub propagation: Option<Propagation>,
}

/// What came of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object is gone.
    Gone,
    /// The object goes when its finalizers or its grace period let it.
    Terminating(Value),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireList {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<Value>>,
}

// === impl DeleteRequest ===

impl DeleteRequest {
    /// Deletes the object of a uid, and nothing else that has its name by then.
    pub fn of(uid: impl Into<String>) -> Self {
        Self {
            uid: Some(uid.into()),
            ..Self::default()
        }
    }
}

// === impl Dynamic ===

impl Dynamic {
    /// Makes calls through a client.
    pub fn new(client: impl Into<Client>) -> Self {
        Self {
            client: client.into(),
            deadline: DEADLINE,
            manager: None,
            is_trial: false,
        }
    }

    /// Returns calls whose creates, updates, deletions and patches change nothing, and answer what would become.
    #[must_use]
    pub const fn with_dry_run(mut self) -> Self {
        self.is_trial = true;
        self
    }

    /// Returns how long a call may take.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Returns the field manager as which objects are created, updated and patched. Without it the server derives one
    /// from the `User-Agent`. An apply names its own.
    #[must_use]
    pub fn with_manager(mut self, manager: &str) -> Self {
        self.manager = Some(Arc::from(manager));
        self
    }

    /// Borrows the client.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object.
    pub async fn get(&self, endpoint: &Endpoint, name: &str) -> Result<Value, Error> {
        let target = Path::object(endpoint, name, None)?;
        self.object(Method::GET, target, ACCEPT_JSON, None).await
    }

    /// Reads all objects of a collection, page by page. Should a page come too late to belong to the first one,
    /// everything is read anew and at once, so that the answer is always one state of the collection.
    pub async fn list(&self, endpoint: &Endpoint, request: &ListRequest) -> Result<List, Error> {
        let mut items = Vec::new();
        let mut pager = Pager::new(self.client.budget().bounds());
        loop {
            let page = self.list_page(endpoint, request, PAGE_SIZE, pager.continue_token());
            match pager.in_time(page).await {
                Ok(page) => {
                    items.extend(page.items);
                    if !pager.turn(page.metadata.continue_token)? {
                        let resource_version = page.metadata.resource_version;
                        return Ok(List {
                            items,
                            resource_version,
                        });
                    }
                }
                Err(error) if error.is_expired() && !pager.continue_token().is_empty() => {
                    let page = self.list_page(endpoint, request, 0, "").await?;
                    let resource_version = page.metadata.resource_version;
                    return Ok(List {
                        items: page.items,
                        resource_version,
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Looks for an object of a collection, page by page, without keeping the others.
    ///
    /// Pages of different states may be looked at: an object that is there all the time is found.
    pub async fn find(
        &self,
        endpoint: &Endpoint,
        mut is_wanted: impl FnMut(&RawObject) -> bool,
    ) -> Result<Option<Arc<RawObject>>, Error> {
        let budget = self.client.budget();
        let mut pager = Pager::new(budget.bounds());
        loop {
            let token = Some(pager.continue_token()).filter(|token| !token.is_empty());
            let target = Path::collection(endpoint)?
                .with("continue", token)
                .with("limit", Some(&PAGE_SIZE.to_string()));
            let reading = self.call(Expected::Page, Method::GET, target, ACCEPT_JSON, None);
            let answer = pager.in_time(reading).await?;
            let page = decode_page(answer, budget).await?;
            let found = page.items.into_iter().find(|object| is_wanted(object));
            if found.is_some() || !pager.turn(page.metadata.continue_token)? {
                return Ok(found);
            }
        }
    }

    /// Reads one page of a collection; a `limit` of 0 asks for everything, an empty token for the first page.
    pub async fn list_page(
        &self,
        endpoint: &Endpoint,
        request: &ListRequest,
        limit: usize,
        continue_token: &str,
    ) -> Result<Page, Error> {
        let mut target = selected(
            Path::collection(endpoint)?,
            request.label_selector.as_ref(),
            request.field_selector.as_ref(),
        )
        .with(
            "continue",
            Some(continue_token).filter(|token| !token.is_empty()),
        );
        if limit > 0 {
            target = target.with("limit", Some(&limit.to_string()));
        }
        if request.partial {
            target = target.with("partial", Some("true"));
        }
        let answer = self
            .call(Expected::Page, Method::GET, target, ACCEPT_JSON, None)
            .await?;
        let list: WireList = self.client.budget().parse(&answer.bytes).await?;
        let mut items = list.items.unwrap_or_default();
        if let Some(kind) = list.kind.strip_suffix("List") {
            for item in &mut items {
                // The items of built-in kinds do not say what they are.
                if meta::kind(item).is_empty() {
                    meta::set_type(item, &list.api_version, kind);
                }
            }
        }
        Ok(Page {
            items,
            metadata: list.metadata,
        })
    }

    /// Makes an object.
    pub async fn create(&self, endpoint: &Endpoint, object: &Value) -> Result<Value, Error> {
        let target = self.managed(Path::collection(endpoint)?);
        let body = ("application/json", encode(object)?);
        self.object(Method::POST, target, ACCEPT_JSON, Some(body))
            .await
    }

    /// Creates a subresource of an object, such as a token.
    pub async fn create_in(
        &self,
        endpoint: &Endpoint,
        name: &str,
        subresource: &str,
        object: &Value,
    ) -> Result<Value, Error> {
        let target = self.managed(Path::object(endpoint, name, Some(subresource))?);
        let body = ("application/json", encode(object)?);
        self.object(Method::POST, target, ACCEPT_JSON, Some(body))
            .await
    }

    /// Replaces an object, or a part of it by its subresource.
    pub async fn update(
        &self,
        endpoint: &Endpoint,
        name: &str,
        subresource: Option<&str>,
        object: &Value,
    ) -> Result<Value, Error> {
        let target = self.managed(Path::object(endpoint, name, subresource)?);
        let body = ("application/json", encode(object)?);
        self.object(Method::PUT, target, ACCEPT_JSON, Some(body))
            .await
    }

    /// Changes an object, or a part of it by its subresource.
    pub async fn patch(
        &self,
        endpoint: &Endpoint,
        name: &str,
        subresource: Option<&str>,
        patch: Patch<'_>,
    ) -> Result<Value, Error> {
        let target = Path::object(endpoint, name, subresource)?;
        let (target, accept, media_type, body) = match patch {
            Patch::Merge(body) => (
                self.managed(target),
                ACCEPT_JSON,
                "application/merge-patch+json",
                body,
            ),
            Patch::Json(body) => (
                self.managed(target),
                ACCEPT_JSON,
                "application/json-patch+json",
                body,
            ),
            Patch::Apply {
                manager,
                force,
                object,
                answer,
            } => {
                let target = self
                    .written(target.with("fieldManager", Some(manager)))
                    .with("force", (force == Force::Yes).then_some("true"));
                let accept = match answer {
                    Answer::Object => ACCEPT_JSON,
                    Answer::Metadata => ACCEPT_METADATA,
                };
                (target, accept, "application/apply-patch+yaml", object)
            }
        };
        let body = (media_type, encode(body)?);
        self.object(Method::PATCH, target, accept, Some(body)).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// An object that is not there is an error, by [`Error::is_not_found`]; so is one with another uid or version, by
    /// [`Error::is_conflict`].
    pub async fn delete(
        &self,
        endpoint: &Endpoint,
        name: &str,
        request: &DeleteRequest,
    ) -> Result<Deleted, Error> {
        let mut options = api::query::DeleteOptions::default();
        options.preconditions.uid.clone_from(&request.uid);
        let version = &request.resource_version;
        options.preconditions.resource_version.clone_from(version);
        options.propagation = request.propagation;
        options.dry_run = self.is_trial;
        let target = Path::object(endpoint, name, None)?;
        let body = ("application/json", encode(&options.to_value())?);
        let answer = self
            .object(Method::DELETE, target, ACCEPT_JSON, Some(body))
            .await?;
        if meta::kind(&answer) != "Status" && meta::is_terminating(&answer) {
            Ok(Deleted::Terminating(answer))
        } else {
            Ok(Deleted::Gone)
        }
    }

    /// Reads whatever is at a path, with or without a query.
    pub async fn raw_get(&self, path: impl Into<Path>) -> Result<Bytes, Error> {
        self.raw_get_as(path, ACCEPT_JSON).await
    }

    /// Reads whatever is at a path, in a form that the caller wants.
    pub async fn raw_get_as(&self, path: impl Into<Path>, accept: &str) -> Result<Bytes, Error> {
        let path = path.into();
        let name = path.as_str().to_owned();
        let answered = self.call(Expected::Document, Method::GET, path, accept, None);
        let outcome = answered.await.map(|answer| answer.bytes);
        self.client.budget().note(&name, &outcome);
        outcome
    }

    fn managed(&self, target: Path) -> Path {
        self.written(target.with("fieldManager", self.manager.as_deref()))
    }

    /// Adds what every write says. No warning of unknown fields or doubled keys is asked for: nobody would read it, and for it a
    /// kube-apiserver parses each apply twice.
    fn written(&self, target: Path) -> Path {
        target
            .with("fieldValidation", Some("Ignore"))
            .with("dryRun", self.is_trial.then_some("All"))
    }

    /// Makes a call that is answered with one object, or with what came of it.
    async fn object(
        &self,
        method: Method,
        target: Path,
        accept: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<Value, Error> {
        let answer = self
            .call(Expected::Object, method, target, accept, body)
            .await?;
        self.client.budget().parse(&answer.bytes).await
    }

    async fn call(
        &self,
        expected: Expected,
        method: Method,
        target: Path,
        accept: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<Answered, Error> {
        let mut builder = Request::builder()
            .method(method)
            .uri(target.into_uri())
            .header(ACCEPT, accept);
        let body = match body {
            None => Body::empty(),
            Some((media_type, bytes)) => {
                builder = builder.header(CONTENT_TYPE, media_type);
                Body::from(bytes)
            }
        };
        let request = builder
            .body(body)
            .map_err(|error| Status::bad_request(format!("no such path: {error}")))?;
        match tokio::time::timeout(self.deadline, answer(&self.client, expected, request)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(Error::Timeout),
        }
    }
}

impl fmt::Debug for Dynamic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dynamic")
            .field("deadline", &self.deadline)
            .field("manager", &self.manager)
            .finish_non_exhaustive()
    }
}

/// Adds selectors to the path of a collection, in the words of their types.
pub(crate) fn selected(
    path: Path,
    labels: Option<&Selector>,
    fields: Option<&FieldSelector>,
) -> Path {
    path.with("labelSelector", labels.map(ToString::to_string).as_deref())
        .with("fieldSelector", fields.map(ToString::to_string).as_deref())
}

/// Sends a request and reads the whole answer.
pub(crate) async fn answer(
    client: &Client,
    expected: Expected,
    request: Request<Body>,
) -> Result<Answered, Error> {
    let response = client
        .kube()
        .send(request)
        .await
        .map_err(Error::transport)?;
    let (parts, body) = response.into_parts();
    let answered = read(body, expected, client.budget()).await?;
    if parts.status.is_success() {
        Ok(answered)
    } else {
        Err(refusal(parts.status, &parts.headers, &answered.bytes).into())
    }
}

/// Reads a whole body, and no more of it than such an answer may have. One that says beforehand that it is larger is not read at all.
/// Trailers are passed over.
pub(crate) async fn read<B>(
    mut body: B,
    expected: Expected,
    budget: &Arc<Budget>,
) -> Result<Answered, Error>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let (bytes_max, exceeded) = expected.bound(budget.bounds());
    if body.size_hint().lower() > u64::try_from(bytes_max).unwrap_or(u64::MAX) {
        return Err(exceeded.into());
    }
    let mut charge = budget.take(0)?;
    let mut chunks: Vec<Bytes> = Vec::new();
    let mut length: usize = 0;
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame.map_err(Error::transport)?.into_data() else {
            continue;
        };
        length = length.saturating_add(chunk.len());
        if length > bytes_max {
            return Err(exceeded.into());
        }
        charge.grow_by_chunk(chunk.len())?;
        budget.pace_answer(expected, length, chunk.len()).await;
        chunks.push(chunk);
    }
    if chunks.len() > 1 {
        charge.grow(length)?;
        let whole = apart::run(length, move || chunks.concat()).await?;
        charge.shrink_to(length);
        return Ok(Answered::new(whole.into(), charge));
    }
    Ok(Answered::new(chunks.pop().unwrap_or_default(), charge))
}

fn encode(value: &Value) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(Error::Decode)
}

#[cfg(test)]
mod tests;
