//! One request, relayed: body and answer stream, the user is impersonated, hop headers stay behind.
//!
//! # Invariants
//! - What a client says of itself never reaches the spoke ([`super::headers`]).
//! - A redirect of the spoke never reaches the client, which would go there with its credential for the hub; except for one of an application
//!   behind a proxy to itself ([`redirect`]).
//! - A user of the hub whose name begins with `system:` does not become that user in the spoke.

use std::{borrow::Cow, fmt::Write, sync::Arc};

use api::{Status, wheelhouse::author};
use futures::{StreamExt, TryStreamExt};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header, request::Parts, uri::PathAndQuery,
};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};

use super::{
    headers::{self, Origin},
    redirect,
    uids::{
        Pairs, Uids, selector,
        swap::{Direction, Swapped},
    },
    way::Way,
};
use crate::{
    authorize::Authorized,
    refusal::Refusal,
    request::{Credential, Ending, RequestContext, RequestInfo, UserInfo},
    respond::{Body, RequestBody, Response},
    route,
};

/// As whom a request of the hub's user enters a spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Identity {
    /// As the hub itself: a controller in this process.
    Hub,
    /// As a user.
    User {
        /// The name there.
        name: String,
        /// The groups there.
        groups: Vec<String>,
    },
    /// Not at all.
    Refused(String),
}

/// Relays a request.
///
/// # Errors
/// 503 where the spoke is not reached, 403 for users that do not enter spokes.
pub(super) async fn forward(
    way: &Way,
    uids: &Uids,
    request: &Authorized<Parts>,
    body: RequestBody,
) -> Result<Response, Refusal> {
    let (mut outgoing, sent_as) = as_user(way, request)?;
    let pairs = concerned(&uids.of(way.cluster()), request.info());
    if pairs.is_some() {
        // What is compressed cannot be read.
        outgoing.headers_mut().remove(header::ACCEPT_ENCODING);
    }
    if let Some(pairs) = &pairs {
        select_mirrors(outgoing.uri_mut(), pairs)?;
    }
    let body = match &pairs {
        Some(pairs) if !body.is_end_stream() => {
            let pairs = Some(Arc::clone(pairs));
            RequestBody::foreign(Swapped::new(body, pairs, Direction::ToSpoke))
        }
        _ => body,
    };
    let outgoing = outgoing.map(|()| body);
    let admitted = way.admit()?;
    // Of the user the spoke's API server learns from headers only: what it does not accept is the hub's credential.
    let is_hubs = sent_as == client::Identity::Kubeconfig && request.info().subresource != "proxy";
    let answered = admitted.connection().send(outgoing, sent_as).await;
    let answer = answered.map_err(|error| admitted.unreachable(&error))?;
    way.answered();
    if is_hubs && answer.status() == StatusCode::UNAUTHORIZED {
        way.rejected();
    }
    relay_back(way, pairs, request, answer)
}

/// Returns the pairs of uids that are to be swapped in a request and its answer; `None` for those that show no objects, and while there
/// is nothing to swap. A watch may outlast that.
pub(super) fn concerned(pairs: &Arc<Pairs>, info: &RequestInfo) -> Option<Arc<Pairs>> {
    let shows_objects = info.is_resource
        && !matches!(
            info.subresource.as_str(),
            "attach" | "exec" | "log" | "portforward" | "proxy"
        );
    let may_swap = shows_objects && (info.is_long_running() || !pairs.is_empty());
    may_swap.then(|| Arc::clone(pairs))
}

/// Makes the field selectors of a request to a spoke name mirrors.
pub(super) fn select_mirrors(uri: &mut Uri, pairs: &Pairs) -> Result<(), Refusal> {
    let query = uri.query().unwrap_or_default();
    if let Cow::Owned(query) = selector::swapped(query, pairs) {
        let swapped: PathAndQuery = format!("{}?{query}", uri.path())
            .parse()
            .map_err(Refusal::internal)?;
        *uri = Uri::from(swapped);
    }
    Ok(())
}

/// Makes what goes to the spoke of a request's head, and says with whose credential it goes.
///
/// # Errors
/// 403 for users that do not enter spokes.
pub(super) fn as_user(
    way: &Way,
    request: &Authorized<Parts>,
) -> Result<(http::Request<()>, client::Identity), Refusal> {
    let (parts, context) = (request.request(), request.context());
    let mut headers = headers::relayed(&parts.headers);
    let mut sent_as = client::Identity::Kubeconfig;
    match sender_of(context, way.trusts_masters()) {
        Identity::Hub => {}
        // The spoke's own ServiceAccount, who goes as it is.
        Identity::User { .. } if context.user.known_only_in().is_some() => {
            let token = own_token(context, way)?;
            headers.insert(header::AUTHORIZATION, token);
            sent_as = client::Identity::Request;
        }
        Identity::User { name, groups } => {
            impersonate(&mut headers, &context.user, &name, &groups)?;
        }
        Identity::Refused(reason) => {
            return Err(Status::forbidden(&api::GroupResource::default(), "", &reason).into());
        }
    }
    let mut outgoing = http::Request::new(());
    *outgoing.method_mut() = parts.method.clone();
    *outgoing.uri_mut() = below_cluster(&parts.uri)?;
    *outgoing.headers_mut() = headers;
    Ok((outgoing, sent_as))
}

/// Makes the client's answer of a spoke's, in which the uids of `pairs` are swapped.
///
/// # Errors
/// 502 for one that is not relayed.
pub(super) fn relay_back(
    way: &Way,
    pairs: Option<Arc<Pairs>>,
    request: &Authorized<Parts>,
    answer: http::Response<client::transport::ResponseBody>,
) -> Result<Response, Refusal> {
    let (info, ending) = (request.info(), &request.context().ending);
    let (head, body) = answer.into_parts();
    let path = below_cluster(&request.request().uri)?;
    let location = redirect::location(path.path(), info, &head);
    if let Some(reason) = not_permitted(head.status, &head.headers)
        && location.is_none()
    {
        tracing::warn!(spoke = %way.cluster(), code = head.status.as_u16(), reason, "refused to relay a response of a spoke");
        return Err(bad_gateway(way, reason).into());
    }
    let is_proxy = info.subresource == "proxy";
    let pairs = pairs.filter(|_| !head.headers.contains_key(header::CONTENT_ENCODING));
    let body = Swapped::new(body, pairs, Direction::FromSpoke);
    let body = if is_proxy {
        proxied(body, ending.clone())
    } else if info.is_long_running() {
        // Ends when the hub drains, as a watch of its own does.
        let pieces = body.into_data_stream().take_while(|piece| {
            let whole = piece.is_ok();
            async move { whole }
        });
        Body::stream(
            pieces.filter_map(|piece| async { piece.ok() }),
            ending.clone(),
        )
    } else {
        // Trailers stay behind: nothing of a spoke's comes after what was judged.
        Body::foreign(StreamBody::new(body.into_data_stream().map_ok(Frame::data)))
    };
    let origin = if is_proxy {
        Origin::Backend
    } else {
        Origin::Server
    };
    let mut response = http::Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = headers::relayed_back(&head.headers, origin);
    if let Some(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// The body of an application's answer: whatever ends it before its end, the drain too, breaks it, so that nobody takes a part of a file
/// for the file.
fn proxied(body: Swapped<client::transport::ResponseBody>, ending: Ending) -> Body {
    let end = ending.token();
    let pieces = body.into_data_stream().map_ok(Frame::data);
    let cut = async move {
        let cut = ending.token().is_cancelled();
        // Held as long as the answer goes on: that is how it is known to.
        drop(ending);
        cut.then(|| Err("the answer is ended".into()))
    };
    let cut = futures::stream::once(cut).filter_map(std::future::ready);
    let pieces = pieces.take_until(end.cancelled_owned()).chain(cut);
    Body::foreign(StreamBody::new(pieces))
}

/// The token of the spoke's own ServiceAccount that sends a request. No other identity known only to one cluster is let into a spoke.
fn own_token(context: &RequestContext, way: &Way) -> Result<HeaderValue, Refusal> {
    let token = match &context.credential {
        Credential::Spoke(token) if context.impersonator.is_none() => {
            token.header_for(way.cluster())
        }
        _ => None,
    };
    token.ok_or_else(|| {
        let username = &context.user.username;
        let text = format!("user {username:?} does not enter spokes");
        Status::forbidden(&api::GroupResource::default(), "", &text).into()
    })
}

/// Returns why an answer of a spoke's is not relayed; `None` for one that is.
///
/// Source: `RejectForwardingRedirects` in `apimachinery/pkg/util/proxy/upgradeaware.go` (CVE-2022-3172).
fn not_permitted(code: StatusCode, headers: &HeaderMap) -> Option<&'static str> {
    if code.is_redirection() && headers.contains_key(header::LOCATION) {
        return Some("the backend attempted to redirect this request, which is not permitted");
    }
    if code.is_informational() {
        return Some("the backend attempted to upgrade this connection, which was not asked for");
    }
    (code.as_u16() > 599).then_some("the backend answered with a status that HTTP does not have")
}

pub(super) fn bad_gateway(way: &Way, reason: &str) -> Status {
    let text = format!("spoke {:?}: {reason}", way.cluster().as_str());
    Status::failure(502, api::StatusReason::Unknown, text)
}

/// Returns the identity under which a request enters a spoke. Only a controller of the hub's that acts as itself is the hub there: a name
/// alone, which someone may impersonate or be given, is not enough.
fn sender_of(context: &RequestContext, trusts_masters: bool) -> Identity {
    let acts_as_itself = context.impersonator.is_none();
    if context.origin.is_controller() && acts_as_itself {
        return Identity::Hub;
    }
    match identity_of(&context.user, trusts_masters) {
        Identity::Hub => refused(&context.user.username),
        other => other,
    }
}

fn refused(username: &str) -> Identity {
    Identity::Refused(format!("user {username:?} does not enter spokes"))
}

/// Returns the identity under which a user of the hub enters a spoke.
///
/// The rule is [`author::User::abroad`]'s.
pub(super) fn identity_of(user: &UserInfo, trusts_masters: bool) -> Identity {
    if user.known_only_in().is_some() {
        // Its own ServiceAccount, in whose name it is asked.
        return Identity::User {
            name: user.username.clone(),
            groups: user.groups.clone(),
        };
    }
    if user.username.starts_with("system:wheelhouse:") && user.is_master_of_hub() {
        return Identity::Hub;
    }
    // The masters that a Spoke trusts are the hub's own, not those of its host.
    let trusts_masters = trusts_masters && user.at_host().is_none();
    // The syncer writes children in the names of users by the same rule.
    match author::name_abroad(&user.username) {
        Ok(name) => Identity::User {
            name,
            groups: author::groups_abroad(&user.groups, trusts_masters),
        },
        Err(refused) => Identity::Refused(refused.to_string()),
    }
}

fn impersonate(
    headers: &mut HeaderMap,
    user: &UserInfo,
    name: &str,
    groups: &[String],
) -> Result<(), Refusal> {
    let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).map_err(Refusal::internal);
    headers.insert(HeaderName::from_static("impersonate-user"), value(name)?);
    if author::survives_a_header(&user.uid) {
        let uid = HeaderName::from_static("impersonate-uid");
        headers.insert(uid, value(&user.uid)?);
    }
    for group in groups {
        headers.append(HeaderName::from_static("impersonate-group"), value(group)?);
    }
    for (key, values) in &user.extra {
        let header = format!("impersonate-extra-{}", percent_encoded(key));
        let header = HeaderName::try_from(header).map_err(Refusal::internal)?;
        for text in values {
            headers.append(header.clone(), value(text)?);
        }
    }
    Ok(())
}

/// Encodes what a header's name cannot hold. Source: client-go `transport/round_trippers.go` (`headerKeyEscape`).
fn percent_encoded(key: &str) -> String {
    let mut encoded = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _infallible = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The path and query without the logical cluster, as the client wrote them.
pub(crate) fn below_cluster(uri: &Uri) -> Result<Uri, Refusal> {
    let below = route::below_cluster(uri.path());
    let text = match uri.query() {
        Some(query) => format!("{below}?{query}"),
        None => below.to_owned(),
    };
    let below: PathAndQuery = text.parse().map_err(Refusal::internal)?;
    Ok(Uri::from(below))
}

#[cfg(test)]
mod tests;
