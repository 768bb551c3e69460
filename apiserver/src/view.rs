//! The room of the fleet view, `/ui/`: its files, and two calls that its pages make.
//!
//! A call reads through the front door: [`Asker`] sends requests to this hub over the caller's connection and with the caller's
//! credential, so each is authenticated, authorized, counted and recorded as if the caller had sent it. The room has no other way to an
//! object, and therefore decides nothing about rights.
//!
//! # Invariants
//! - The files are the same for everybody and tell nothing of this hub, so they are served to strangers: to sign in takes a page.
//! - A call counts as one request of its user until it ends, as a list does, and ends by [`CALL_TIMEOUT`]; what it reads is taken in page
//!   by page.

use std::time::Duration;

use api::{Status, StatusReason};
use bytes::Bytes;
use dialect::url;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;
use ui::{
    Page,
    drawing::Drawing,
    instances::{Finder, More, Search},
};

use crate::{
    negotiate::Negotiated,
    refusal::{BoxError, Refusal},
    request::share::Permit,
    respond::{self, Body, RequestBody, Response},
};

/// How long a call may take, as long as any other request.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Objects of one page of a list: what is held of it as text.
const PAGE_OBJECT_COUNT: usize = 500;
/// Bytes of one answer that is read: a page of large objects.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What is sent on of a caller's headers: who it is, and for whom it acts.
const IDENTITY_HEADERS: [&str; 2] = ["authorization", "user-agent"];
/// What the names of further such headers begin with.
const IMPERSONATION: &str = "impersonate-";

/// Sends requests to this hub as one caller.
pub(crate) trait Asker: Sync {
    /// Sends one request.
    fn ask(&self, request: Request<RequestBody>) -> impl Future<Output = Response> + Send;
}

/// What the hub answers to a request of the caller.
enum Answer {
    /// 200.
    Read(Reading),
    /// Anything else.
    Refused(Response),
}

/// What is read, as the caller.
struct Reading {
    bytes: Bytes,
    /// What counts the request for the caller.
    permit: Option<Permit>,
    /// What the hub warns of, such as spokes that are left out.
    warnings: Vec<String>,
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
        let text = "the server does not allow this method on the requested resource";
        return Err(Status::failure(405, StatusReason::MethodNotAllowed, text).into());
    }
    let call = async {
        match page {
            Page::Nothing => Err(Refusal::no_such_path()),
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
    match read(asker, &parts.headers, &path).await? {
        Answer::Read(reading) => {
            let definition = serde_json::from_slice(&reading.bytes).map_err(Refusal::internal)?;
            respond::value(StatusCode::OK, Negotiated::JSON, &Drawing::of(&definition))
        }
        Answer::Refused(response) => Ok(response),
    }
}

/// Lists, sorts and pages instances.
async fn instances(parts: &Parts, asker: &impl Asker) -> Result<Response, Refusal> {
    let search = Search::parse(parts.uri.query().unwrap_or_default());
    let search = search.map_err(Status::bad_request)?;
    let kinds = search.kinds.clone();
    let cluster = search.cluster.clone();
    let mut finder = Finder::new(search);
    // The first page counts for the caller until the last one is taken in.
    let mut held = None;
    let mut refusals = Vec::new();
    for (place, kind) in kinds.iter().enumerate() {
        let path = kind.path(cluster.as_deref());
        let start = format!("?partial=true&limit={PAGE_OBJECT_COUNT}");
        let mut query = start.clone();
        loop {
            let answer = read(asker, &parts.headers, &format!("{path}{query}")).await?;
            let bytes = match answer {
                Answer::Read(reading) => {
                    held = held.or(reading.permit);
                    for warning in reading.warnings {
                        finder.fail(place, StatusCode::SERVICE_UNAVAILABLE.as_u16(), &warning);
                    }
                    reading.bytes
                }
                // Who is not known is told so; who may not read a kind, or reads one that is gone, sees the others.
                Answer::Refused(response) if response.status() == StatusCode::UNAUTHORIZED => {
                    return Ok(response);
                }
                Answer::Refused(response) => {
                    let (response, message) = with_message(response).await?;
                    finder.fail(place, response.status().as_u16(), &message);
                    refusals.push(response);
                    break;
                }
            };
            match finder.take(place, &bytes).map_err(Refusal::internal)? {
                More::Done => break,
                More::Continue(token) => {
                    let token = url::escape_query(&token);
                    query = format!("{start}&continue={token}");
                }
            }
        }
    }
    // Who may read none of them is refused as where they are listed.
    if refusals.len() == kinds.len()
        && let Some(first) = refusals.into_iter().next()
    {
        return Ok(first);
    }
    respond::value(StatusCode::OK, Negotiated::JSON, &finder.answer())
}

/// Reads a path as the caller.
async fn read(asker: &impl Asker, headers: &HeaderMap, path: &str) -> Result<Answer, Refusal> {
    let mut request = Request::new(RequestBody::empty());
    *request.uri_mut() = path.parse().map_err(Refusal::internal)?;
    for (name, value) in headers {
        if IDENTITY_HEADERS.contains(&name.as_str()) || name.as_str().starts_with(IMPERSONATION) {
            request.headers_mut().append(name.clone(), value.clone());
        }
    }
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::ACCEPT, json);
    let mut response = asker.ask(request).await;
    if response.status() != StatusCode::OK {
        return Ok(Answer::Refused(response));
    }
    let permit = response.body_mut().take_permit();
    let warnings = response.headers().get_all(header::WARNING).iter();
    let warnings = warnings
        .filter_map(|value| value.to_str().ok())
        .map(warning_of)
        .collect();
    let bytes = body_of(response).await?;
    Ok(Answer::Read(Reading {
        bytes,
        permit,
        warnings,
    }))
}

/// The text of a header `299 - "text"`.
fn warning_of(header: &str) -> String {
    let quoted = header.splitn(3, ' ').nth(2).unwrap_or(header);
    let text = quoted.trim_matches('"');
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

async fn body_of(response: Response) -> Result<Bytes, Refusal> {
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    let read: Result<_, BoxError> = body.collect().await;
    Ok(read.map_err(Refusal::internal)?.to_bytes())
}

/// Reads what a refusal says.
async fn with_message(response: Response) -> Result<(Response, String), Refusal> {
    let (parts, body) = response.into_parts();
    let bytes = body_of(Response::new(body)).await?;
    let status: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let message = match status["message"].as_str() {
        Some(message) => message.to_owned(),
        None => parts.status.to_string(),
    };
    Ok((Response::from_parts(parts, Body::full(bytes)), message))
}
