//! The room of the fleet view, `/ui/`: its files, two calls that its pages make, and sign-in ([`sign_in`]).
//!
//! A call reads through the front door: [`Asker`] sends requests to this hub over the caller's connection and with the caller's
//! credential, so each is authenticated, authorized, counted and recorded as if the caller had sent it. The room has no other way to an
//! object, and therefore decides nothing about rights.
//!
//! # Invariants
//! - The files are the same for everybody and tell nothing of this hub, so they are served to strangers: to sign in takes a page.
//! - A call has a place before it holds anything that was read, until its answer is sent: [`Share::view`](crate::request::share::Share::view)
//!   bounds how many there are. What one holds is bounded, too: an answer of [`ANSWER_BYTES_MAX`], and the rows of a [`Finder`].
//! - What is wrong with one kind is told of that kind, and the others are read. A kind takes [`KIND_TIMEOUT`] at most, all of them
//!   [`READ_TIMEOUT`], and the call ends by [`CALL_TIMEOUT`].

pub(crate) mod sign_in;

use std::time::Duration;

use api::{ClusterScope, Status, StatusReason};
use bytes::Bytes;
use client::apart;
use dialect::url;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header, request::Parts};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout, timeout_at};
use ui::{
    Page,
    drawing::Drawing,
    instances::{Finder, More, Search},
};

use crate::{
    handle::LEFT_OUT,
    negotiate::Negotiated,
    refusal::Refusal,
    respond::{self, Body, Held, RequestBody, Response},
};

/// How long a call may take, as long as any other request.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the lists of a call may take, so that there is an answer with those that came.
const READ_TIMEOUT: Duration = Duration::from_secs(40);
/// How long the list of one kind may take: longer than the hub waits for a spoke.
const KIND_TIMEOUT: Duration = Duration::from_secs(15);
/// Objects of one page of a list. Fewer are asked for where that many are too large.
const PAGE_OBJECT_COUNT: usize = 250;
/// How many times fewer.
const PAGE_SHRINKING: usize = 8;
/// Pages of the list of one kind: twice what a hub is built for, of whatever size.
const PAGE_COUNT_MAX: usize = 400;
/// Bytes of one answer that is read: the largest object alone.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of one refusal that is read.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Characters of the message of a refusal that is passed on.
const MESSAGE_CHAR_COUNT_MAX: usize = 1024;
/// Memory of a definition that is drawn, once it is parsed: as much as that of one that is written.
const PARSED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What is sent on of a caller's headers: who it is, and for whom it acts.
const IDENTITY_HEADERS: [&str; 2] = ["authorization", "user-agent"];
/// What the names of further such headers begin with.
const IMPERSONATION: &str = "impersonate-";

/// Sends requests to this hub as one caller.
pub(crate) trait Asker: Sync {
    /// Waits for a place among the calls, as who the caller is at the path of a cluster.
    ///
    /// # Errors
    /// 401, and 429 where the caller, or all callers together, have as many as they may.
    fn place(
        &self,
        headers: &HeaderMap,
        scope: &ClusterScope,
    ) -> impl Future<Output = Result<Held, Refusal>> + Send;

    /// Sends one request.
    fn ask(&self, request: Request<RequestBody>) -> impl Future<Output = Response> + Send;
}

/// What the hub answers to a request of the caller.
enum Answer {
    /// 200.
    Read(Reading),
    /// 200, with more than [`ANSWER_BYTES_MAX`].
    TooLarge,
    /// Anything else, and nothing.
    Refused(Box<Status>),
}

/// What is read, as the caller.
struct Reading {
    bytes: Bytes,
    /// What the hub warns of, such as spokes that are left out.
    warnings: Vec<String>,
}

/// Why a body is not read.
enum Unread {
    TooLarge,
    Broken,
}

/// Reads the kinds of a search.
struct Reader<'a, A> {
    asker: &'a A,
    headers: &'a HeaderMap,
    finder: Finder,
    end: Instant,
    /// The first refusal, and how many kinds were refused.
    refused: Option<Box<Status>>,
    refused_count: usize,
}

/// Answers a request of a caller.
///
/// # Errors
/// What the hub answers to the caller where it is asked; 400 for a search that cannot be meant; 404 and 405 for what is not there; 504.
pub(crate) async fn answer(
    page: Page<'_>,
    parts: &Parts,
    asker: &impl Asker,
) -> Result<Response, Refusal> {
    if page == Page::Nothing {
        return Err(Refusal::no_such_path());
    }
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(method_not_allowed());
    }
    let call = async {
        match page {
            Page::Nothing | Page::SignIn => Err(Refusal::no_such_path()),
            Page::Moved => Err(Refusal::moved_to("/ui/".to_owned())),
            Page::File(asset) => {
                let takes_gzip = respond::accepts_gzip(&parts.headers);
                Ok(asset.answer(&parts.headers, takes_gzip).map(Body::full))
            }
            Page::Instances => instances(parts, asker).await,
            Page::Drawing {
                cluster,
                definition,
            } => drawing(parts, asker, cluster, definition).await,
        }
    };
    timeout(CALL_TIMEOUT, call)
        .await
        .unwrap_or_else(|_elapsed| {
            let text = "the view did not complete within the allotted timeout";
            Err(Status::timeout(text).into())
        })
}

fn method_not_allowed() -> Refusal {
    let text = "the server does not allow this method on the requested resource";
    Status::failure(405, StatusReason::MethodNotAllowed, text).into()
}

/// Lays the graph of a definition out.
async fn drawing(
    parts: &Parts,
    asker: &impl Asker,
    cluster: &str,
    definition: &str,
) -> Result<Response, Refusal> {
    let (group, version) = (api::kro::GROUP, api::kro::VERSION);
    let resource = api::kro::RGD_RESOURCE;
    let path = format!("/clusters/{cluster}/apis/{group}/{version}/{resource}/{definition}");
    let scope = cluster.parse().unwrap_or(ClusterScope::All);
    let place = asker.place(&parts.headers, &scope).await?;
    let end = Instant::now() + KIND_TIMEOUT;
    let reading = match read(asker, &parts.headers, &path, end).await {
        Answer::Read(reading) => reading,
        Answer::TooLarge => return Err(Status::too_large(ANSWER_BYTES_MAX).into()),
        Answer::Refused(status) => return Err(status.into()),
    };
    let bytes = reading.bytes;
    let draw = move || {
        if client::parsed_bytes(&bytes) > PARSED_BYTES_MAX {
            return Err(Status::too_large(PARSED_BYTES_MAX));
        }
        let unreadable = |_error| Status::service_unavailable("the definition cannot be read");
        let definition = serde_json::from_slice(&bytes).map_err(unreadable)?;
        Ok(Drawing::of(&definition))
    };
    // As long as it were large: to lay a small definition out takes a while as well.
    let drawing = apart::run(ANSWER_BYTES_MAX, draw).await;
    let drawing = drawing.map_err(Refusal::internal)??;
    let mut response = respond::value(StatusCode::OK, Negotiated::JSON, &drawing)?;
    response.body_mut().keep(place);
    Ok(response)
}

/// Lists, sorts and pages instances.
async fn instances(parts: &Parts, asker: &impl Asker) -> Result<Response, Refusal> {
    let search = Search::parse(parts.uri.query().unwrap_or_default());
    let search = search.map_err(Status::bad_request)?;
    let place = asker.place(&parts.headers, &search.scope()).await?;
    let paths: Vec<(usize, String)> = (0..search.kinds.len())
        .filter_map(|kind| Some((kind, search.path(kind)?)))
        .collect();
    let mut reader = Reader {
        asker,
        headers: &parts.headers,
        finder: Finder::new(search),
        end: Instant::now() + READ_TIMEOUT,
        refused: None,
        refused_count: 0,
    };
    for (kind, path) in &paths {
        reader = reader.read(*kind, path).await?;
    }
    // Who may read none of them is refused as where they are listed.
    if reader.refused_count == paths.len()
        && let Some(status) = reader.refused
    {
        return Err(status.into());
    }
    let answer = reader.finder.answer();
    let mut response = respond::value(StatusCode::OK, Negotiated::JSON, &answer)?;
    response.body_mut().keep(place);
    Ok(response)
}

// === impl Reader ===

impl<A: Asker> Reader<'_, A> {
    /// Reads the list of a kind, page by page. What is wrong with it is noted.
    ///
    /// # Errors
    /// A fault of ours.
    async fn read(mut self, kind: usize, path: &str) -> Result<Self, Refusal> {
        let end = self.end.min(Instant::now() + KIND_TIMEOUT);
        let mut limit = PAGE_OBJECT_COUNT;
        let mut token = String::new();
        for _page in 0..PAGE_COUNT_MAX {
            let from = match token.as_str() {
                "" => String::new(),
                token => format!("&continue={}", url::escape_query(token)),
            };
            let page = format!("{path}?partial=true&limit={limit}{from}");
            let reading = match read(self.asker, self.headers, &page, end).await {
                Answer::Read(reading) => reading,
                Answer::TooLarge if limit > 1 => {
                    limit = limit.div_ceil(PAGE_SHRINKING);
                    continue;
                }
                Answer::TooLarge => {
                    let text = "its list has an object that is too large to be shown here";
                    self.finder.fail(kind, 413, text);
                    return Ok(self);
                }
                // Who may not read a kind, or reads one that is gone, sees the others.
                Answer::Refused(status) => {
                    self.finder.fail(kind, status.code, &status.message);
                    self.refused_count = self.refused_count.saturating_add(1);
                    self.refused.get_or_insert(status);
                    return Ok(self);
                }
            };
            for warning in &reading.warnings {
                if let Some(left_out) = warning.strip_prefix(LEFT_OUT) {
                    self.finder.fail(kind, 503, left_out);
                } else {
                    self.finder.warn(kind, warning);
                }
            }
            let (mut finder, bytes) = (self.finder, reading.bytes);
            let taken = apart::run(bytes.len(), move || {
                let taken = finder.take(kind, &bytes);
                (finder, taken)
            });
            let (finder, taken) = taken.await.map_err(Refusal::internal)?;
            self.finder = finder;
            match taken {
                Ok(More::Done) => return Ok(self),
                Ok(More::Continue(next)) if next == token => break,
                Ok(More::Continue(next)) => token = next,
                Err(unreadable) => {
                    self.finder.fail(kind, 502, &unreadable.to_string());
                    return Ok(self);
                }
            }
            limit = limit.saturating_mul(2).min(PAGE_OBJECT_COUNT);
        }
        let text = "its list has more pages than are read here";
        self.finder.fail(kind, 502, text);
        Ok(self)
    }
}

/// Reads a path as the caller.
async fn read(asker: &impl Asker, headers: &HeaderMap, path: &str, end: Instant) -> Answer {
    let late = |_elapsed| Answer::Refused(Status::timeout("it was not read in time").into());
    timeout_at(end, read_unhurried(asker, headers, path))
        .await
        .unwrap_or_else(late)
}

async fn read_unhurried(asker: &impl Asker, headers: &HeaderMap, path: &str) -> Answer {
    let mut request = Request::new(RequestBody::empty());
    // The user agent of a browser would be answered in a form for people.
    let separator = if path.contains('?') { '&' } else { '?' };
    let Ok(uri) = format!("{path}{separator}pretty=false").parse() else {
        let text = "the continue token of its list cannot be sent";
        return Answer::Refused(Status::bad_request(text).into());
    };
    *request.uri_mut() = uri;
    for (name, value) in headers {
        if IDENTITY_HEADERS.contains(&name.as_str()) || name.as_str().starts_with(IMPERSONATION) {
            request.headers_mut().append(name.clone(), value.clone());
        }
    }
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::ACCEPT, json);
    let response = asker.ask(request).await;
    if response.status() != StatusCode::OK {
        return Answer::Refused(refusal_of(response).await.into());
    }
    let warnings = response.headers().get_all(header::WARNING).iter();
    let warnings = warnings
        .map(|value| warning_of(&String::from_utf8_lossy(value.as_bytes())))
        .collect();
    match body_of(response, ANSWER_BYTES_MAX).await {
        Ok(bytes) => Answer::Read(Reading { bytes, warnings }),
        Err(Unread::TooLarge) => Answer::TooLarge,
        Err(Unread::Broken) => {
            let text = "the answer broke off";
            Answer::Refused(Status::service_unavailable(text).into())
        }
    }
}

/// The text of a header `299 - "text"`.
fn warning_of(header: &str) -> String {
    let quoted = header.splitn(3, ' ').nth(2).unwrap_or(header);
    let text = quoted.trim_matches('"');
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// Reads a body that is not larger than `bytes_max`, and drops it where it is.
async fn body_of(response: Response, bytes_max: usize) -> Result<Bytes, Unread> {
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_broken| Unread::Broken)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len().saturating_add(data.len()) > bytes_max {
            return Err(Unread::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
}

/// What a refusal says, told anew: it may be that of a spoke, which is not passed on here.
async fn refusal_of(response: Response) -> Status {
    let code = match response.status().as_u16() {
        // Who the caller is, is known: somebody else does not know it.
        401 => 403,
        code @ 400.. => code,
        _ => 502,
    };
    let read = body_of(response, REFUSAL_BYTES_MAX).await;
    let said: Option<Status> = read
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(said) = said else {
        let text = format!("it is answered with {code} and no reason");
        return Status::failure(code, StatusReason::Unknown, text);
    };
    let message: String = said.message.chars().take(MESSAGE_CHAR_COUNT_MAX).collect();
    let told = Status::failure(code, said.reason, message);
    match said.retry_after_seconds() {
        Some(seconds) => told.retry_after(seconds),
        None => told,
    }
}

#[cfg(test)]
mod tests;
