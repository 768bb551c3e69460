//! WebSocket, as far as this server speaks it itself: watches of browsers. What a spoke streams is relayed byte by byte instead
//! ([`crate::relay`]).
//!
//! The server sends messages of one frame each, and reads only what controls the connection: what else a client says is dropped as
//! it comes, as kube-apiserver does.
//!
//! Source: RFC 6455, `apiserver/pkg/endpoints/handlers/watch.go` (`HandleWS`), `golang.org/x/net/websocket/hybi.go`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

pub(crate) mod frame;

use api::status::Status;
use base64::{Engine as _, engine::general_purpose};
use http::{HeaderMap, HeaderValue, Version, header, request::Parts};
use ring::digest;

use crate::refusal::Refusal;

/// How the subprotocol begins that is a bearer token: a browser cannot send `Authorization` with a WebSocket.
pub(crate) const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// What the key of a client is hashed with. Source: RFC 6455 section 1.3.
const KEY_SALT: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The version of RFC 6455.
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// A token among the subprotocols that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedToken;

/// Whether a request asks for a WebSocket. Over HTTP/2 there are none.
pub(crate) fn is_asked_for(version: Version, headers: &HeaderMap) -> bool {
    let names = |name: header::HeaderName, wanted: &str| {
        let values = headers.get_all(name).iter();
        let mut names = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        names.any(|name| name.trim().eq_ignore_ascii_case(wanted))
    };
    version == Version::HTTP_11
        && names(header::UPGRADE, "websocket")
        && names(header::CONNECTION, "upgrade")
}

/// The token among the subprotocols that a client offers.
///
/// # Errors
/// Where it is encoded otherwise, stands there twice, or stands there alone: nothing would be left to answer with.
///
/// Source: `apiserver/pkg/authentication/request/websocket/protocol.go`.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Result<Option<String>, MalformedToken> {
    let mut encoded = offered(headers).filter_map(|it| it.strip_prefix(TOKEN_PROTOCOL));
    let Some(token) = encoded.next() else {
        return Ok(None);
    };
    let is_alone = offered(headers).all(|it| it.starts_with(TOKEN_PROTOCOL));
    if encoded.next().is_some() || is_alone {
        return Err(MalformedToken);
    }
    let decoded = general_purpose::URL_SAFE_NO_PAD.decode(token).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    text.filter(|text| !text.is_empty())
        .map(Some)
        .ok_or(MalformedToken)
}

/// Makes the headers of a 101 for a request that asks for a WebSocket.
///
/// # Errors
/// 400 for another version of the protocol, for a request without a key and for several subprotocols, 403 for one without an origin:
/// each as kube-apiserver refuses it.
pub(crate) fn accept(parts: &Parts) -> Result<HeaderMap, Refusal> {
    let headers = &parts.headers;
    let bad = |text: &str| Refusal::from(Status::bad_request(text));
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let key = key.filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| bad("a WebSocket needs the header Sec-WebSocket-Key"))?;
    if headers.get(header::SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        return Err(bad("only version 13 of WebSocket is supported"));
    }
    if headers
        .get(header::ORIGIN)
        .is_none_or(HeaderValue::is_empty)
    {
        let text = "a WebSocket needs the header Origin";
        return Err(Status::failure(403, api::StatusReason::Forbidden, text).into());
    }
    let mut answer = HeaderMap::new();
    let mut protocols = offered(headers).filter(|it| !it.starts_with(TOKEN_PROTOCOL));
    if let Some(protocol) = protocols.next() {
        if protocols.next().is_some() {
            return Err(bad("a watch takes one subprotocol of WebSocket at most"));
        }
        let value = HeaderValue::try_from(protocol).map_err(|_never| bad("not a subprotocol"))?;
        answer.insert(header::SEC_WEBSOCKET_PROTOCOL, value);
    }
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let hashed = hash_of(key.as_bytes());
    let hashed = HeaderValue::try_from(hashed).map_err(Refusal::internal)?;
    answer.insert(header::SEC_WEBSOCKET_ACCEPT, hashed);
    Ok(answer)
}

/// The subprotocols that a client offers.
fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let names = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    names.map(str::trim).filter(|name| !name.is_empty())
}

/// What proves to a client that the server has read its key.
fn hash_of(key: &[u8]) -> String {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(KEY_SALT);
    general_purpose::STANDARD.encode(context.finish())
}

#[cfg(test)]
mod tests;
