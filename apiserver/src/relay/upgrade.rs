//! One request that becomes a stream: exec, attach, port-forward, a watch over WebSocket, what is behind a proxy.
//!
//! ```text
//!   client ──HTTP/1.1──► hub ──HTTP/1.1, a connection of its own──► spoke
//!     GET …/exec           as the user, like any other request
//!     Upgrade: websocket   Upgrade: websocket
//!   ◄── 101, or the spoke's refusal with its body ──
//!   ◄══ bytes, by the task of the client's connection ([`crate::serve`]) ══►
//! ```
//!
//! # Invariants
//! - What a spoke switches to is what was asked for, and is not HTTP ([`client::Protocol`]): a connection as the hub never takes a second
//!   request (CVE-2018-1002105).
//! - Anything else that is asked for is answered in HTTP, as RFC 9110 section 7.8 lets a server do.

use std::time::Duration;

use api::Status;
use client::{Protocol, Switched, Upgrade};
use http::{Method, StatusCode, Version, header, request::Parts};
use http_body::Body as _;
use tokio::time::timeout;

use super::{forward, headers, way::Way};
use crate::{
    authorize::Authorized,
    refusal::Refusal,
    request::{RequestInfo, RequestOrigin, Verb},
    respond::{self, Body, FarEnd, RequestBody, Response},
};

/// How long a spoke may take to say whether it switches: as long as any request may take.
const SWITCH_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns the protocol that a request asks a spoke for; `None` for what is answered in HTTP: a request for another protocol, for what
/// has no streams, or over HTTP/2, which has no upgrades.
pub(crate) fn asked(parts: &Parts, info: &RequestInfo) -> Option<Protocol> {
    if parts.version != Version::HTTP_11 || !has_streams(info) {
        return None;
    }
    let names = headers::connection_names(&parts.headers);
    if !names.iter().any(|name| name == "upgrade") {
        return None;
    }
    let offered = parts.headers.get_all(header::UPGRADE).iter();
    offered
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|name| Protocol::of(name.trim()))
}

/// Whether something may answer with a stream: subresources, those of aggregated APIs too, and watches.
fn has_streams(info: &RequestInfo) -> bool {
    info.is_resource && (!info.subresource.is_empty() || info.verb == Verb::Watch)
}

/// Relays a request for another protocol.
///
/// # Errors
/// 400 for a request that has a body or a method that the protocol does not have, 429 where there are too many streams, 503 where the
/// spoke is not reached, 502 where it switches to something else, 504 where it does not answer.
pub(super) async fn forward(
    way: &Way,
    request: &Authorized<Parts>,
    protocol: Protocol,
    body: RequestBody,
) -> Result<Response, Refusal> {
    let context = request.context();
    check(request.request(), protocol, &body)?;
    drop(body);
    if context.origin == RequestOrigin::InProcess {
        return Err(Status::bad_request("there is no connection to switch").into());
    }
    let (mut outgoing, sent_as) = forward::as_user(way, request)?;
    outgoing.headers_mut().remove(header::CONTENT_LENGTH);
    let place = way.take_stream()?;
    let end = context.ending.token();
    let admitted = way.admit()?;
    let asking = admitted.connection().upgrade(outgoing, protocol, sent_as);
    let answer = tokio::select! {
        biased;
        () = end.cancelled() => {
            let ended = context.ending.reason().cloned();
            let draining = || Status::service_unavailable("the hub is shutting down");
            return Err(ended.unwrap_or_else(draining).into());
        }
        answer = timeout(SWITCH_TIMEOUT, asking) => answer,
    };
    let answer = answer.map_err(|_elapsed| {
        let cluster = way.cluster().as_str();
        Status::timeout(format!("spoke {cluster:?} did not answer in time"))
    })?;
    let Switched { head, stream } = match answer {
        Ok(Upgrade::Switched(switched)) => switched,
        Ok(Upgrade::Answered(answer)) => {
            way.answered();
            return forward::relay_back(way, None, request, answer);
        }
        Err(client::Error::Switch(error)) => {
            tracing::warn!(spoke = %way.cluster(), %error, "refused to relay a response of a spoke");
            return Err(forward::bad_gateway(way, &error.to_string()).into());
        }
        Err(error) => return Err(admitted.unreachable(&error)),
    };
    way.answered();
    let far = FarEnd::Spoke {
        connection: stream,
        place,
    };
    let mut response = http::Response::new(Body::switched(respond::Switched {
        far,
        ending: context.ending.clone(),
    }));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers::relayed_back_switched(&head.headers);
    let headers = response.headers_mut();
    let upgrade = http::HeaderValue::from_static("Upgrade");
    headers.insert(header::CONNECTION, upgrade);
    headers.insert(header::UPGRADE, protocol.value());
    Ok(response)
}

/// Refuses what no client of a stream sends: whatever is behind the head of the request would be read one way here and another way there.
fn check(parts: &Parts, protocol: Protocol, body: &RequestBody) -> Result<(), Refusal> {
    let has_body = !body.is_end_stream() || parts.headers.contains_key(header::TRANSFER_ENCODING);
    if has_body {
        return Err(Status::bad_request("a request for another protocol must have no body").into());
    }
    let is_of_protocol = match protocol {
        Protocol::WebSocket => parts.method == Method::GET,
        Protocol::Spdy => parts.method == Method::GET || parts.method == Method::POST,
    };
    if is_of_protocol {
        return Ok(());
    }
    let (method, name) = (&parts.method, protocol.value());
    let text = format!("{name:?} is not asked for by {method}");
    Err(Status::bad_request(text).into())
}

#[cfg(test)]
mod tests;
