//! OpenAPI v3: what a client needs to validate, explain and patch objects of the kinds that are served.
//!
//! The index names, for each group and version, a document and its hash; a document that is asked for under its hash may be
//! kept for ever. Hashes are made from what goes into a document, so the index costs nothing to make, and a document is made
//! when it is first asked for and shared by all logical clusters that serve the same kinds.
//!
//! OpenAPI v2 is one document for all groups, made of the others, as JSON and as protobuf: client-go knows it only as that.
//!
//! Source: `kube-openapi/pkg/handler3/handler.go`.

mod cache;
mod gnostic;
mod published;
mod v2;

use std::{collections::BTreeMap, sync::Arc};

use api::{query::Query, status::Status};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use serde_json::{Value, json};

pub(crate) use cache::Cache;

use crate::{
    negotiate,
    refusal::Refusal,
    request::RequestContext,
    respond::{self, Body, Response},
};

const JSON: &str = "application/json";
const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Seconds for which a document may be kept under its hash: a year.
const IMMUTABLE_SECONDS: i64 = 365 * 24 * 60 * 60;

/// A page of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page<'a> {
    /// `/openapi/v2`
    V2,
    /// `/openapi/v3`
    Index,
    /// `/openapi/v3/<api/v1 or apis/group/version>`
    Document(&'a str),
}

/// The documents of one set of served kinds: hash of each by its name, `api/v1` or `apis/<group>/<version>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Upper-case hexadecimal hashes by name.
    pub hashes: BTreeMap<String, String>,
}

/// A document, ready to be sent.
#[derive(Clone, Debug)]
pub struct Document {
    /// The document as JSON.
    pub bytes: Bytes,
    /// Its hash, as in the index.
    pub hash: String,
}

/// The document of version 2 in both of its forms.
#[derive(Clone, Debug)]
pub(crate) struct DocumentsV2 {
    json: Bytes,
    protobuf: Bytes,
    hash: String,
}

// === impl Page ===

impl<'a> Page<'a> {
    /// The page that a path without cluster prefix is for, if it is for one.
    pub fn of(path: &'a str) -> Option<Self> {
        match path.strip_prefix("/openapi/")?.trim_end_matches('/') {
            "v2" => Some(Self::V2),
            "v3" => Some(Self::Index),
            below => below.strip_prefix("v3/").map(Self::Document),
        }
    }
}

// === impl Index ===

impl Index {
    fn to_value(&self) -> Value {
        let paths: serde_json::Map<String, Value> = self
            .hashes
            .iter()
            .map(|(name, hash)| {
                let url = format!("/openapi/v3/{name}?hash={hash}");
                (name.clone(), json!({ "serverRelativeURL": url }))
            })
            .collect();
        json!({ "paths": paths })
    }
}

/// Refuses a document to a client that takes any form, or only the messages of version 2: kubectl asks like that before it applies, and
/// looks for no Status. `None` for anything else.
pub(crate) fn refuse(refusal: &Refusal, parts: &Parts, path: &str) -> Option<Response> {
    let headers = &parts.headers;
    let is_asked = Page::of(path).is_some()
        && (negotiate::accepts(headers, "text/plain") || takes_protobuf_v2(headers));
    respond::forbidden_as_text(refusal).filter(|_| is_asked)
}

fn takes_protobuf_v2(headers: &HeaderMap) -> bool {
    let forms = [
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        PROTOBUF_V2,
    ];
    forms.iter().any(|form| negotiate::accepts(headers, form))
}

/// Answers with the document of version 2.
///
/// # Errors
/// 406.
pub(crate) fn serve_v2(documents: &DocumentsV2, parts: &Parts) -> Result<Response, Refusal> {
    let headers = &parts.headers;
    let is_json = negotiate::accepts(headers, JSON);
    if !is_json && !takes_protobuf_v2(headers) {
        return Err(Status::not_acceptable(&[JSON, PROTOBUF_V2]).into());
    }
    let bytes = if is_json {
        &documents.json
    } else {
        &documents.protobuf
    };
    let mut response = cacheable(parts, bytes.clone(), &documents.hash);
    if !is_json {
        let value = HeaderValue::from_static(PROTOBUF_V2);
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    Ok(response)
}

/// Answers with the index.
///
/// # Errors
/// 406.
pub fn serve_index(index: &Index, parts: &Parts) -> Result<Response, Refusal> {
    if !negotiate::accepts(&parts.headers, JSON) {
        return Err(Status::not_acceptable(&[JSON]).into());
    }
    let bytes = serde_json::to_vec(&index.to_value()).map_err(Refusal::internal)?;
    let digest = <sha2::Sha256 as sha2::Digest>::digest(&bytes);
    Ok(cacheable(parts, Bytes::from(bytes), &format!("{digest:X}")))
}

/// What becomes of a request for a document that has another hash by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldHash {
    /// It is sent to the current one, as by kube-apiserver.
    Redirected,
    /// It is answered with the current one: a host relays no redirects, and has an index that is up to a minute old.
    Answered,
}

impl OldHash {
    /// Returns what becomes of a request by the way that it came.
    pub(crate) fn by_way_of(context: &RequestContext) -> Self {
        if context.is_proxied() {
            Self::Answered
        } else {
            Self::Redirected
        }
    }
}

/// Answers with a document. `now` is for the date until which it may be kept.
///
/// # Errors
/// 406, and the redirect to the current hash.
pub fn serve_document(
    name: &str,
    document: &Arc<Document>,
    parts: &Parts,
    now: jiff::Timestamp,
    old_hash: OldHash,
) -> Result<Response, Refusal> {
    if !negotiate::accepts(&parts.headers, JSON) {
        return Err(Status::not_acceptable(&[JSON]).into());
    }
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let asked = query.first("hash");
    let is_current = asked.is_some_and(|asked| asked == document.hash);
    if asked.is_some() && !is_current && old_hash == OldHash::Redirected {
        let current = &document.hash;
        return Err(Refusal::moved_to(format!(
            "/openapi/v3/{name}?hash={current}"
        )));
    }
    let mut response = cacheable(parts, document.bytes.clone(), &document.hash);
    if is_current {
        let headers = response.headers_mut();
        let value = HeaderValue::from_static("public, immutable");
        headers.insert(header::CACHE_CONTROL, value);
        if let Some(expires) = http_date(now, IMMUTABLE_SECONDS) {
            headers.insert(header::EXPIRES, expires);
        }
    }
    Ok(response)
}

/// 304 for a client that has it, else the bytes; with an ETag either way.
fn cacheable(parts: &Parts, bytes: Bytes, hash: &str) -> Response {
    let etag = HeaderValue::try_from(format!("\"{hash}\"")).ok();
    let known = parts.headers.get(header::IF_NONE_MATCH);
    let mut response = if etag.is_some() && known == etag.as_ref() {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        respond::json(StatusCode::OK, negotiate::Negotiated::JSON, bytes)
    };
    let headers = response.headers_mut();
    if let Some(etag) = etag {
        headers.insert(header::ETAG, etag);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// A date in the form of HTTP, `seconds` after `now`.
fn http_date(now: jiff::Timestamp, seconds: i64) -> Option<HeaderValue> {
    let at = now
        .checked_add(jiff::SignedDuration::from_secs(seconds))
        .ok()?;
    let text = at
        .to_zoned(jiff::tz::TimeZone::UTC)
        .strftime("%a, %d %b %Y %H:%M:%S GMT")
        .to_string();
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests;
