//! The record of what was changed and what was refused: one event per such request.
//!
//! Invariant: bodies, tokens and the causes of refusals are not in it.

use std::fmt::Write;

use http::{HeaderMap, HeaderValue};

use crate::{context::RequestContext, route::RequestInfo};

/// Longest id that is taken over from a client.
const ID_BYTES_MAX: usize = 64;

/// The id of a request: the client's `Audit-ID`, or a fresh UUID.
pub(crate) fn id_of(headers: &HeaderMap) -> HeaderValue {
    match headers.get("audit-id") {
        Some(id) if !id.is_empty() && id.len() <= ID_BYTES_MAX => id.clone(),
        _ => fresh_id(),
    }
}

fn fresh_id() -> HeaderValue {
    let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    let mut buffer = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut buffer);
    HeaderValue::from_str(text).expect("a UUID is digits, letters and hyphens")
}

/// Records a request that was answered with `code`, if it changed something or was refused.
pub(crate) fn record(context: &RequestContext, info: &RequestInfo, code: u16, latency_ms: u64) {
    let refused = matches!(code, 401 | 403);
    let impersonates = context.impersonator.is_some();
    if info.verb.is_read_only() && !refused && !impersonates {
        return;
    }
    tracing::info!(
        target: "audit",
        audit_id = context.audit_id.to_str().unwrap_or_default(),
        user = %UserText(context),
        cluster = %info.cluster,
        verb = info.verb.as_str(),
        group = info.group,
        version = info.version,
        resource = info.resource,
        subresource = info.subresource,
        namespace = info.namespace,
        name = info.name,
        http.response.status_code = code,
        latency_ms,
        "request"
    );
}

/// Records a request whose sender is not known.
pub(crate) fn record_unauthenticated(
    audit_id: &HeaderValue,
    info: Option<&RequestInfo>,
    code: u16,
) {
    tracing::info!(
        target: "audit",
        audit_id = audit_id.to_str().unwrap_or_default(),
        cluster = info.map(|info| tracing::field::display(&info.cluster)),
        verb = info.map(|info| info.verb.as_str()),
        http.response.status_code = code,
        "request"
    );
}

/// The user, and behind it who acts as the user.
struct UserText<'a>(&'a RequestContext);

impl std::fmt::Display for UserText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.user.username)?;
        if let Some(sender) = &self.0.impersonator {
            f.write_str(" (as asked by ")?;
            f.write_str(&sender.username)?;
            f.write_char(')')?;
        }
        Ok(())
    }
}
