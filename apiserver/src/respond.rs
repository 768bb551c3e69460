//! The way out: bodies, refusals, and the headers that every answer has.
//!
//! # Invariants
//! - Nothing else in the crate picks the status code of a refusal: [`Refusal`] does, from its cause.
//! - Stored bytes go out as they are: no body here is parsed unless the client asked for another form of it.
//! - The headers that every answer has are added in one place, [`finish`].

mod body;
mod compress;
mod warning;

use api::status::Status;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::Value;

pub use body::{Body, RequestBody};
pub(crate) use body::{FarEnd, Held, Stream, Switched};

use crate::{
    negotiate::{Encoding, Negotiated},
    protobuf,
    refusal::{Content, Refusal},
    request::RequestContext,
};

/// An answer.
pub type Response = http::Response<Body>;

/// How much of a list goes out at once: small frames cost more than copying does.
const CHUNK_BYTES: usize = 32 * 1024;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// The header that names a request in the records.
pub(crate) const AUDIT_ID: header::HeaderName = header::HeaderName::from_static("audit-id");

/// Answers with bytes that are JSON. They go out as they are, unless the client wants them indented or as YAML.
pub fn json(code: StatusCode, form: Negotiated, bytes: Bytes) -> Response {
    if form.encoding == Encoding::Json && !form.pretty {
        return with_type(code, form.encoding.content_type(), Body::full(bytes));
    }
    let other = serde_json::from_slice::<Value>(&bytes)
        .map_err(Refusal::internal)
        .and_then(|parsed| value(code, form, &parsed));
    // Not ours to judge here: the bytes are what there is.
    other.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot convert an object; answering with the stored bytes");
        with_type(code, Encoding::Json.content_type(), Body::full(bytes))
    })
}

/// Answers with a value in the form that is asked for; JSON has its fields in the order in which the value has them.
///
/// # Errors
/// 500 for a value that has no JSON form, which is a bug.
pub fn value<T: Serialize + ?Sized>(
    code: StatusCode,
    form: Negotiated,
    value: &T,
) -> Result<Response, Refusal> {
    let text = match form.encoding {
        Encoding::Json if form.pretty => {
            let mut text = serde_json::to_string_pretty(value).map_err(Refusal::internal)?;
            text.push('\n');
            text.into_bytes()
        }
        Encoding::Json => serde_json::to_vec(value).map_err(Refusal::internal)?,
        Encoding::Protobuf => {
            let value = serde_json::to_value(value).map_err(Refusal::internal)?;
            protobuf::encode(&value).map_err(Refusal::internal)?
        }
        Encoding::Yaml => {
            let value = serde_json::to_value(value).map_err(Refusal::internal)?;
            let text = dialect::yaml::to_string(&value).map_err(Refusal::internal)?;
            text.into_bytes()
        }
    };
    Ok(with_type(
        code,
        form.encoding.content_type(),
        Body::full(text),
    ))
}

/// Answers 200 with JSON that is made piece by piece while it is sent; `length` is the sum of the pieces, where it is known.
pub fn json_chunks<I>(form: Negotiated, chunks: I, length: Option<u64>) -> Response
where
    I: IntoIterator<Item = Bytes>,
    I::IntoIter: Send + 'static,
{
    if form.encoding == Encoding::Json && !form.pretty {
        return with_type(
            StatusCode::OK,
            form.encoding.content_type(),
            Body::chunks(chunks, length),
        );
    }
    let whole: Vec<u8> = chunks.into_iter().flatten().collect();
    json(StatusCode::OK, form, whole.into())
}

/// Answers 200 with a list whose items are encoded, as messages.
///
/// # Errors
/// 500 for a list that has no message, which is a bug.
pub(crate) fn message_list(
    of: (&str, &str),
    metadata: &api::ListMeta,
    items: Vec<Bytes>,
) -> Result<Response, Refusal> {
    let metadata = serde_json::to_value(metadata).map_err(Refusal::internal)?;
    let pieces = protobuf::encode_list(of, &metadata, items).map_err(Refusal::internal)?;
    let length = pieces.iter().map(|piece| piece.len() as u64).sum();
    let body = Body::chunks(chunked(pieces), Some(length));
    let content_type = Encoding::Protobuf.content_type();
    Ok(with_type(StatusCode::OK, content_type, body))
}

/// Joins pieces to some of at least [`CHUNK_BYTES`], one after the other.
fn chunked(pieces: Vec<Bytes>) -> impl Iterator<Item = Bytes> + Send + 'static {
    let mut pieces = pieces.into_iter();
    std::iter::from_fn(move || {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_BYTES {
            match pieces.next() {
                Some(piece) => chunk.extend_from_slice(&piece),
                None => break,
            }
        }
        (!chunk.is_empty()).then(|| chunk.into())
    })
}

/// Answers 200 with the events of a watch, until they end, the server drains, or the watcher may not go on. That it is told by an
/// `ERROR` event: a clean end would pass for one of time, kubectl would end in silence, and informers would go on from where they are.
///
/// Source: client-go `tools/cache/reflector.go` (`handleAnyWatch`) lists again after such an event, and is answered 401 or 403.
pub fn watch<S>(events: S, encoding: Encoding, context: &RequestContext) -> Response
where
    S: futures::Stream<Item = Bytes> + Send + 'static,
{
    let last_words = match encoding {
        Encoding::Json | Encoding::Yaml => error_event,
        Encoding::Protobuf => error_message,
    };
    with_type(
        StatusCode::OK,
        encoding.stream_content_type(),
        Body::stream_with(events, context.ending.clone(), last_words),
    )
}

/// Answers with the events of a watch in messages of a WebSocket.
pub(crate) fn over_websocket(
    watch: Response,
    encoding: Encoding,
    headers: HeaderMap,
    context: &RequestContext,
) -> Response {
    let mut response = http::Response::new(Body::switched(Switched {
        far: FarEnd::Watch {
            events: watch.into_body(),
            encoding,
        },
        ending: context.ending.clone(),
    }));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    response
}

/// A status as the last event of a watch.
fn error_event(status: &Status) -> Bytes {
    let event = serde_json::json!({"type": "ERROR", "object": status});
    format!("{event}\n").into()
}

/// The same as a message.
fn error_message(status: &Status) -> Bytes {
    let mut out = Vec::new();
    let status = serde_json::to_value(status).unwrap_or_default();
    if let Ok(object) = protobuf::encode(&status) {
        protobuf::encode_event(&mut out, "ERROR", &object);
    }
    out.into()
}

/// Answers with text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = http::Response::new(Body::full(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
    response
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    response
}

/// Answers with the message of a 403, for clients that look for no Status where they ask for documents; `None` for anything else. client-go
/// shows the body if that is text, and "unknown" otherwise.
///
/// Source: client-go `rest/request.go` (`newUnstructuredResponseError`), apimachinery `api/errors/errors.go`
/// (`NewGenericServerResponse`).
pub(crate) fn forbidden_as_text(refusal: &Refusal) -> Option<Response> {
    let status = refusal.status().filter(|status| status.code == 403)?;
    Some(text(StatusCode::FORBIDDEN, status.message.clone()))
}

/// Answers with a refusal. `prefix` is what stands before the path in the client's URL.
pub(crate) fn refuse(refusal: &Refusal, form: Negotiated, prefix: &str) -> Response {
    match refusal.content() {
        Content::Status(status) => {
            let code =
                StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = value(code, form, status)
                .unwrap_or_else(|_never| text(code, status.message.clone()));
            let seconds = status
                .details
                .as_ref()
                .map_or(0, |details| details.retry_after_seconds);
            if seconds > 0 {
                response
                    .headers_mut()
                    .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            response
        }
        Content::NoSuchPath => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Content::MovedTo(path) => {
            let mut response = text(StatusCode::MOVED_PERMANENTLY, "");
            if let Ok(location) = HeaderValue::try_from(format!("{prefix}{path}")) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            response
        }
    }
}

/// Adds the headers that every answer has, and compresses a large body for a client that takes gzip.
pub(crate) fn finish(
    response: &mut Response,
    audit_id: &HeaderValue,
    warnings: &[String],
    gzip: bool,
) {
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, audit_id.clone());
    headers.entry(header::CACHE_CONTROL).or_insert(NO_CACHE);
    warning::add(headers, warnings);
    if gzip {
        compress::large_body(response);
    }
}

/// Whether the client takes gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';');
            parts.next().is_some_and(|name| name.trim() == "gzip")
                && !parts.any(|parameter| {
                    matches!(parameter.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
                })
        })
}

fn with_type(code: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = http::Response::new(body);
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests;
