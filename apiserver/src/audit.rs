//! The record of what was changed and what was refused: one event per such request.
//!
//! Invariant: bodies, tokens and the causes of refusals are not in it.

use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use crate::request::{RequestContext, RequestInfo};

/// Longest id that is taken over from a client.
const ID_BYTES_MAX: usize = 64;

/// The code of an answer after which both sides say what they like.
const CODE_SWITCHED: u16 = 101;
/// The code of a record whose client went away before the answer. Nobody has seen it; what the request has changed stays.
const CODE_CLIENT_GONE: u16 = 499;
/// The code of a record whose request panicked.
const CODE_PANICKED: u16 = 500;

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

/// Records a request that was answered with `code`, if it changed something, opened a stream, or was refused.
pub(crate) fn record(context: &RequestContext, info: &RequestInfo, code: u16, latency_ms: u64) {
    let refused = matches!(code, 401 | 403);
    let impersonates = context.impersonator.is_some();
    // `kubectl exec` asks by GET.
    let is_read = info.verb.is_read_only() && code != CODE_SWITCHED;
    if is_read && !refused && !impersonates {
        return;
    }
    tracing::info!(
        target: "audit",
        audit_id = context.audit_id.to_str().unwrap_or_default(),
        // Texts are quoted and escaped: whoever may impersonate chooses the name, and must not write other fields with it.
        user = context.user.username,
        impersonator = context.impersonator.as_ref().map(|user| user.username.as_str()),
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
        annotations = context.annotations(),
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

/// The record that a request still owes. Dropped before it is settled, by a client that went away or by a panic, it is
/// written then: the request may have changed something.
pub(crate) struct Owed<'a> {
    context: &'a RequestContext,
    info: &'a RequestInfo,
    started: Instant,
    settled: bool,
}

impl<'a> Owed<'a> {
    /// Begins to owe the record of a request.
    pub(crate) const fn new(
        context: &'a RequestContext,
        info: &'a RequestInfo,
        started: Instant,
    ) -> Self {
        Self {
            context,
            info,
            started,
            settled: false,
        }
    }

    /// The record is written elsewhere, with the answer.
    pub(crate) fn settle(mut self) {
        self.settled = true;
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let code = if std::thread::panicking() {
            CODE_PANICKED
        } else {
            CODE_CLIENT_GONE
        };
        let latency_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        record(self.context, self.info, code, latency_ms);
    }
}
