//! A list of a kind that spokes keep themselves, of many of them at once.
//!
//! Each spoke is asked as the user, as by any other request: its own authorizer says what the user may see.
//!
//! # Invariants
//! - A spoke that does not answer, or answers with something else than a list, is named as failed. It is never taken for one that has
//!   nothing.
//! - A spoke that hangs delays the answer by [`SPOKE_TIMEOUT`] and takes nothing of what others have sent.
//! - What spokes send is counted ([`desk`]) until the answer is sent: that of each spoke, of one list, and of all lists. A spoke that is
//!   left out because of that is named too.
//! - Objects of a spoke name the hub's instances by the hub's uids, as in what is relayed ([`super::uids`]).
//! - No object says that it is of another cluster than the one it came from, nor of another version than the one that was asked for.

mod desk;
mod part;

use std::{fmt, time::Duration};

use api::{
    GroupVersionResource, LogicalCluster, Status,
    query::{ListOptions, Query},
};
use bytes::Bytes;
use client::{Endpoint, Path};
use futures::{StreamExt as _, stream};
use http::{HeaderValue, Method, StatusCode, Uri, header, request::Parts};
use http_body::Body;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    Relay, forward,
    uids::swap::{Direction, Swapped},
};
use crate::{
    authorize::Authorized,
    call::{Failed, Gathered, SpokeList},
    refusal::Refusal,
    request::RequestInfo,
    respond::RequestBody,
};

pub(super) use desk::Desk;
use desk::{Full, LIST_BYTES_MAX, Place};
#[cfg(feature = "fuzzing")]
pub(crate) use part::parse as parse_list;

/// How long one spoke may take.
const SPOKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long all of them together may take, of which not all are asked at once.
const ALL_TIMEOUT: Duration = Duration::from_secs(30);
/// What is left of the request's own time for the answer.
const ANSWERING: Duration = Duration::from_secs(2);
/// Spokes that are asked at the same time.
const SPOKES_AT_ONCE: usize = 64;
/// What one of several spokes may send, so that a few that send as much as they can leave room for others.
const SPOKE_BYTES_MAX: usize = LIST_BYTES_MAX / 4;
/// What an object takes beside its bytes.
const ITEM_BYTES: usize = 64;
/// How much of what a spoke says is wrong with a question is told.
const MESSAGE_CHAR_COUNT_MAX: usize = 1024;

/// What is asked of every spoke.
struct Question {
    uri: Uri,
    api_version: String,
    resource: String,
    end: Instant,
    /// What each of them may send.
    bytes_max: usize,
}

/// What the part of one spoke takes; it is given back unless the part is kept.
struct Taken<'a> {
    place: &'a Place,
    bytes: usize,
    bytes_max: usize,
}

/// What came of asking one spoke.
enum Outcome {
    Listed(SpokeList),
    /// The question is wrong, in the spoke's words.
    Rejected(String),
    /// The user may not list it there.
    Refused,
    /// The spoke does not have the kind.
    Absent,
    Failed(String),
}

// === impl Relay ===

impl Relay {
    /// Asks the spokes that a list over all clusters may be relayed to for their part of it.
    ///
    /// # Errors
    /// 400 for selectors that cannot be read, 429 where the user has such a list made already, or the hub makes as many as it can.
    pub(crate) async fn gather(&self, request: &Authorized<Parts>) -> Result<Gathered, Refusal> {
        let clusters = request.spokes().to_vec();
        let question = Question::of(request, clusters.len())?;
        let context = request.context();
        let sender = context.impersonator.as_ref().unwrap_or(&context.user);
        let place = self
            .desk
            .take(&sender.username, sender.is_master_of_hub())?;
        let (question, taken) = (&question, &place);
        let mut outcomes: Vec<_> = stream::iter(clusters)
            .map(|cluster| async move {
                let end = question.end.min(Instant::now() + SPOKE_TIMEOUT);
                let asked = timeout_at(end, self.ask(request, (question, taken), &cluster)).await;
                let outcome = asked.unwrap_or_else(|_elapsed| {
                    Outcome::Failed("it did not answer in time".to_owned())
                });
                (cluster, outcome)
            })
            .buffer_unordered(SPOKES_AT_ONCE)
            .collect()
            .await;
        outcomes.sort_by(|(a, _), (b, _)| a.cmp(b));
        let (mut lists, mut failed) = (Vec::new(), Vec::new());
        let (mut rejected, mut is_refused) = (None, false);
        for (cluster, outcome) in outcomes {
            match outcome {
                Outcome::Listed(list) => lists.push(list),
                Outcome::Failed(reason) => failed.push(Failed { cluster, reason }),
                Outcome::Rejected(message) => {
                    let reason = format!("it rejects the request: {message}");
                    failed.push(Failed { cluster, reason });
                    rejected = rejected.or(Some(message));
                }
                Outcome::Refused => is_refused = true,
                Outcome::Absent => {}
            }
        }
        let is_rejected = rejected.is_some();
        let otherwise = match rejected {
            Some(message) => Status::bad_request(message).into(),
            None if is_refused => request.refused_by_all(),
            None => Refusal::no_such_path(),
        };
        Ok(Gathered {
            lists,
            failed,
            is_rejected,
            otherwise: Some(otherwise),
            held: Some(Box::new(place)),
        })
    }

    async fn ask(
        &self,
        request: &Authorized<Parts>,
        (question, place): (&Question, &Place),
        cluster: &LogicalCluster,
    ) -> Outcome {
        let Some(link) = self.links.get(cluster) else {
            return Outcome::failed(&self.links.not_connected(cluster));
        };
        let way = &link.way;
        let (mut outgoing, sent_as) = match forward::as_user(way, request) {
            Ok(outgoing) => outgoing,
            Err(refusal) if refusal.status().is_some_and(|it| it.code == 403) => {
                return Outcome::Refused;
            }
            Err(refusal) => return Outcome::failed(&refusal),
        };
        *outgoing.method_mut() = Method::GET;
        outgoing.uri_mut().clone_from(&question.uri);
        let pairs = forward::concerned(&self.uids.of(cluster), request.info());
        if let Some(pairs) = &pairs
            && let Err(refusal) = forward::select_mirrors(outgoing.uri_mut(), pairs)
        {
            return Outcome::failed(&refusal);
        }
        let headers = outgoing.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        // These describe the client's own body, which is empty, and the response that it wants.
        for name in [
            header::ACCEPT_ENCODING,
            header::CONTENT_LENGTH,
            header::CONTENT_TYPE,
            header::IF_NONE_MATCH,
            header::RANGE,
        ] {
            headers.remove(name);
        }
        let outgoing = outgoing.map(|()| RequestBody::empty());
        let admitted = match way.admit() {
            Ok(admitted) => admitted,
            Err(status) => return Outcome::failed(&(*status).into()),
        };
        let answer = match admitted.connection().send(outgoing, sent_as).await {
            Ok(answer) => answer,
            Err(error) => return Outcome::failed(&admitted.unreachable(&error)),
        };
        way.answered();
        let (head, body) = answer.into_parts();
        let body = Swapped::new(body, pairs, Direction::FromSpoke);
        let mut taken = Taken {
            place,
            bytes: 0,
            bytes_max: question.bytes_max,
        };
        let bytes = match taken.read(body).await {
            Ok(bytes) => bytes,
            Err(reason) => return Outcome::Failed(reason),
        };
        match head.status {
            StatusCode::OK => {
                let listed = question.listed(cluster, bytes).await;
                let kept = listed.and_then(|list| taken.keep(&list).map(|()| list));
                kept.map_or_else(Outcome::Failed, Outcome::Listed)
            }
            StatusCode::NOT_FOUND if is_of_api_server(&bytes) => Outcome::Absent,
            StatusCode::BAD_REQUEST => Outcome::Rejected(message_of(&bytes)),
            StatusCode::FORBIDDEN if is_about(&bytes, &question.resource) => Outcome::Refused,
            code => Outcome::Failed(format!("it answered {}", code.as_u16())),
        }
    }
}

// === impl Question ===

impl Question {
    fn of(request: &Authorized<Parts>, count: usize) -> Result<Self, Refusal> {
        let (info, context) = (request.info(), request.context());
        let query = Query::parse(request.request().uri.query().unwrap_or_default());
        let _readable = ListOptions::from_query(&query)?;
        let uri = uri(info, &query)?;
        let left = context.deadline.checked_sub(ANSWERING);
        let end = left.unwrap_or(context.deadline);
        let alone = count == 1;
        Ok(Self {
            uri,
            api_version: gvr(info).group_version().to_string(),
            resource: info.resource.clone(),
            end: end.min(Instant::now() + ALL_TIMEOUT),
            bytes_max: if alone {
                LIST_BYTES_MAX
            } else {
                SPOKE_BYTES_MAX
            },
        })
    }

    /// Reads a list. A large one is read on a thread of its own.
    async fn listed(&self, cluster: &LogicalCluster, bytes: Bytes) -> Result<SpokeList, String> {
        let (name, length) = (cluster.clone(), bytes.len());
        let api_version = self.api_version.clone();
        let parsed =
            client::apart::run(length, move || part::parse(&name, &api_version, &bytes)).await;
        match parsed {
            Ok(Ok(list)) => Ok(list),
            Ok(Err(error)) => Err(shortened(&format!("it answered no list: {error}"))),
            Err(error) => Err(error.chain()),
        }
    }
}

// === impl Taken ===

impl Taken<'_> {
    /// Reads a body.
    async fn read(
        &mut self,
        body: impl Body<Data = Bytes, Error: fmt::Display>,
    ) -> Result<Bytes, String> {
        let mut body = std::pin::pin!(body);
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| format!("its answer broke off: {error}"))?;
            if let Ok(data) = frame.into_data() {
                self.grow(data.len())?;
                bytes.extend_from_slice(&data);
            }
        }
        Ok(bytes.into())
    }

    /// Keeps what a list takes until the place is left, and gives back what its text took.
    fn keep(mut self, list: &SpokeList) -> Result<(), String> {
        let cost = |item: &Bytes| item.len().saturating_add(ITEM_BYTES);
        let bytes = list.items.iter().map(cost).sum::<usize>();
        let text = std::mem::take(&mut self.bytes);
        self.place.shrink(text);
        self.grow(bytes)?;
        self.bytes = 0;
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), String> {
        if self.bytes.saturating_add(bytes) > self.bytes_max {
            return Err("its part is too large for one list over all clusters".to_owned());
        }
        let grown = self.place.grow(bytes);
        grown.map_err(|full| {
            let text = match full {
                Full::List => "with its part, the list would be too large",
                Full::All => "too many other lists over all clusters are being made",
            };
            text.to_owned()
        })?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.place.shrink(self.bytes);
    }
}

fn gvr(info: &RequestInfo) -> GroupVersionResource {
    GroupVersionResource::new(
        info.group.as_str(),
        info.version.as_str(),
        info.resource.as_str(),
    )
}

/// What spokes are asked: for all that the selectors mean, as it is now, or as it was a moment ago where that will do.
fn uri(info: &RequestInfo, query: &Query) -> Result<Uri, Refusal> {
    let endpoint = Endpoint {
        scope: None,
        gvr: gvr(info),
        namespace: Some(info.namespace.clone()),
    };
    let path = Path::collection(&endpoint)
        .map_err(|error| Status::bad_request(error.to_string()))?
        .with("labelSelector", query.first("labelSelector"))
        .with("fieldSelector", query.first("fieldSelector"))
        .with(
            "resourceVersion",
            query
                .first("resourceVersion")
                .filter(|version| *version == "0"),
        );
    path.as_str().parse().map_err(Refusal::internal)
}

/// Whether a 404 is that of an API server for a kind that it does not have. What stands before one has others, which say nothing of it.
///
/// Source: `apiserver/pkg/server/handler.go` (`http.NotFoundHandler`), `apimachinery/pkg/api/errors/errors.go`.
fn is_of_api_server(bytes: &[u8]) -> bool {
    let status = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let is_status = status["kind"] == "Status" && status["reason"] == "NotFound";
    is_status || bytes.trim_ascii() == b"404 page not found"
}

/// Whether a refusal is one of the list, and not of the hub, which may have lost the right to ask in the user's name.
fn is_about(bytes: &[u8], resource: &str) -> bool {
    let status = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    status["details"]["kind"] == resource
}

fn message_of(bytes: &[u8]) -> String {
    let status = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    shortened(status["message"].as_str().unwrap_or("bad request"))
}

fn shortened(text: &str) -> String {
    text.chars().take(MESSAGE_CHAR_COUNT_MAX).collect()
}

// === impl Outcome ===

impl Outcome {
    fn failed(refusal: &Refusal) -> Self {
        let text = refusal.status().map(|status| status.message.clone());
        Self::Failed(text.map_or_else(|| "internal error".to_owned(), |text| shortened(&text)))
    }
}
