//! One audit event as a line of JSON.
//!
//! # Invariants
//! - An event is one line: texts are escaped, and documents hold no newline.
//! - Nothing of a request's headers is in it but the name of the client and the addresses that it came by. What a query calls a
//!   token is left out.
//!
//! Source: `apiserver/pkg/apis/audit/v1/types.go`, `apiserver/pkg/audit/request.go`.

use std::{fmt, net::IpAddr};

use api::status::Status;
use http::{HeaderMap, HeaderValue, Uri, header};
use jiff::{Timestamp, tz::Offset};
use serde_json::Value;

use super::{Arrived, policy::Stage};
use crate::request::{Level, Noted, ObjectNames, RequestInfo, UserInfo};

/// Longest name of a client. Source: `maxUserAgentLength`.
const USER_AGENT_BYTES_MAX: usize = 1024;
/// The end of a text that was cut.
const CUT: &str = "...TRUNCATED";
/// Addresses that a client may say it came by.
const ADDRESS_COUNT_MAX: usize = 64;
/// Bytes of a text in a `Status`: its message quotes what a client sent.
const STATUS_TEXT_BYTES_MAX: usize = 4096;
/// Causes of a `Status`.
const STATUS_CAUSE_COUNT_MAX: usize = 64;
/// The annotation that names the logical cluster.
const CLUSTER: &str = "wheelhouse.dev/cluster";
/// Parameters of a query whose values are credentials. Source: RFC 6750 section 2.3; `token` is what dashboards behind a proxy say.
const SECRET_PARAMETERS: [&str; 3] = ["access_token", "id_token", "token"];
/// What stands in the place of such a value.
const REDACTED: &str = "REDACTED";

/// What an event says of a request's beginning.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) level: Level,
    pub(super) audit_id: HeaderValue,
    pub(super) info: Option<RequestInfo>,
    pub(super) received: Timestamp,
    /// The URI, the verb and the sender, as fields. All events of a request have the same.
    sender: Vec<u8>,
    /// Where the request came from, as fields.
    origin: Vec<u8>,
}

/// What an event says of a request's end.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) code: u16,
    /// The `Status` that was answered, if it was one, without its type.
    pub(super) status: Option<Value>,
    /// What was answered, as compact JSON.
    pub(super) response: Option<Vec<u8>>,
}

// === impl Asked ===

impl Asked {
    pub(super) fn new(level: Level, arrived: &Arrived<'_>) -> Self {
        let parts = arrived.parts;
        let mut sender = Writer::with_capacity(512);
        sender.key("requestURI");
        sender.uri(&parts.uri);
        match arrived.info {
            Some(info) => sender.text("verb", info.verb.as_str()),
            None => sender.text("verb", &parts.method.as_str().to_ascii_lowercase()),
        }
        sender.key("user");
        sender.user(arrived.user.map(|user| &**user));
        let mut origin = Writer::with_capacity(128);
        origin.addresses(&addresses(&parts.headers, arrived.address));
        let user_agent = parts.headers.get(header::USER_AGENT);
        if let Some(user_agent) = user_agent.filter(|it| !it.is_empty()) {
            let text = String::from_utf8_lossy(user_agent.as_bytes());
            origin.text("userAgent", &cut(&text));
        }
        Self {
            level,
            audit_id: arrived.audit_id.clone(),
            info: arrived.info.cloned(),
            received: arrived.at,
            sender: sender.out,
            origin: origin.out,
        }
    }
}

// === impl Outcome ===

impl Outcome {
    pub(super) fn of_code(code: u16) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }

    /// The outcome that a `Status` tells, with the code of its answer.
    pub(super) fn of_status(status: &Status, code: u16) -> Self {
        Self {
            code,
            status: serde_json::to_value(status).ok().map(untyped),
            response: None,
        }
    }
}

/// A `Status` as events have it: cut to what a line can hold.
pub(super) fn untyped(mut status: Value) -> Value {
    if let Some(fields) = status.as_object_mut() {
        for name in ["kind", "apiVersion", "code"] {
            fields.remove(name);
        }
        // A list's position is no news.
        fields.insert("metadata".to_owned(), Value::Object(serde_json::Map::new()));
    }
    cut_status(&mut status);
    status
}

/// Cuts the texts and lists of a `Status`. It is as deep as its type.
fn cut_status(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > STATUS_TEXT_BYTES_MAX => {
            text.truncate(text.floor_char_boundary(STATUS_TEXT_BYTES_MAX));
            text.push_str(CUT);
        }
        Value::Array(causes) => {
            causes.truncate(STATUS_CAUSE_COUNT_MAX);
            causes.iter_mut().for_each(cut_status);
        }
        Value::Object(fields) => fields.values_mut().for_each(cut_status),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The addresses that a request came by: what proxies say, then the other end of the connection.
///
/// Source: `apimachinery/pkg/util/net/http.go` (`SourceIPs`).
fn addresses(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<IpAddr> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let forwarded = text("x-forwarded-for").unwrap_or_default().split(',');
    let mut addresses: Vec<IpAddr> = forwarded
        .filter_map(|part| part.trim().parse().ok())
        .take(ADDRESS_COUNT_MAX)
        .collect();
    if let Some(address) = text("x-real-ip").and_then(|text| text.parse().ok())
        && !addresses.contains(&address)
    {
        addresses.push(address);
    }
    if let Some(peer) = peer.map(|it| it.to_canonical())
        && addresses.last() != Some(&peer)
    {
        addresses.push(peer);
    }
    addresses
}

/// Writes an event, with the newline that ends it.
pub(super) fn line(
    asked: &Asked,
    noted: &Noted,
    outcome: Option<&Outcome>,
    (stage, at): (Stage, Timestamp),
) -> Vec<u8> {
    let mut event = Writer::with_capacity(1024);
    event.raw(r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1""#);
    event.text("level", asked.level.as_str());
    event.text(
        "auditID",
        &String::from_utf8_lossy(asked.audit_id.as_bytes()),
    );
    event.text("stage", stage.as_str());
    event.out.extend_from_slice(&asked.sender);
    if let Some(user) = &noted.impersonated {
        event.key("impersonatedUser");
        event.user(Some(user));
    }
    event.out.extend_from_slice(&asked.origin);
    if let Some(info) = asked.info.as_ref().filter(|info| info.is_resource) {
        event.reference(info, &noted.object);
    }
    if let Some(outcome) = outcome {
        event.outcome(outcome);
    }
    event.document("requestObject", noted.request.as_deref());
    event.document(
        "responseObject",
        outcome.and_then(|it| it.response.as_deref()),
    );
    event.time("requestReceivedTimestamp", asked.received);
    event.time("stageTimestamp", at);
    event.annotations(asked, noted);
    event.raw("}\n");
    event.out
}

fn cut(user_agent: &str) -> std::borrow::Cow<'_, str> {
    if user_agent.len() <= USER_AGENT_BYTES_MAX {
        return user_agent.into();
    }
    let end = user_agent.floor_char_boundary(USER_AGENT_BYTES_MAX);
    let start = user_agent.get(..end).unwrap_or_default();
    format!("{start}{CUT}").into()
}

/// What a request names, or else what its object does.
const fn either<'a>(said: &'a str, found: &'a str) -> &'a str {
    if said.is_empty() { found } else { said }
}

/// `2026-11-26T04:01:50.000001Z`. Source: `metav1.MicroTime`.
fn time_text(time: Timestamp) -> [u8; 27] {
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    let time = Offset::UTC.to_datetime(time);
    let mut write = |at: usize, digits: usize, number: i32| {
        let mut rest = number.unsigned_abs();
        for place in text.iter_mut().skip(at).take(digits).rev() {
            *place = b'0' + u8::try_from(rest % 10).unwrap_or_default();
            rest /= 10;
        }
    };
    write(0, 4, time.year().into());
    write(5, 2, time.month().into());
    write(8, 2, time.day().into());
    write(11, 2, time.hour().into());
    write(14, 2, time.minute().into());
    write(17, 2, time.second().into());
    write(20, 6, time.subsec_nanosecond() / 1_000);
    text
}

/// A query without the values of parameters that are credentials; `None` where there are none.
fn redacted(query: &str) -> Option<String> {
    let is_secret = |pair: &str| {
        let name = dialect::url::query_pairs(pair).next().map(|(name, _)| name);
        name.is_some_and(|name| {
            SECRET_PARAMETERS
                .iter()
                .any(|it| name.eq_ignore_ascii_case(it))
        })
    };
    if !query.split('&').any(is_secret) {
        return None;
    }
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret(pair) => format!("{name}={REDACTED}"),
        _ => pair.to_owned(),
    });
    Some(pairs.collect::<Vec<_>>().join("&"))
}

/// Writes the fields of an object; each begins with the comma that ends the one before.
struct Writer {
    out: Vec<u8>,
}

// === impl Writer ===

impl Writer {
    fn with_capacity(bytes: usize) -> Self {
        Self {
            out: Vec::with_capacity(bytes),
        }
    }

    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// A key that is known and needs no escapes.
    fn key(&mut self, key: &str) {
        self.raw(",\"");
        self.raw(key);
        self.raw("\":");
    }

    fn string(&mut self, text: &str) {
        // Writing into memory does not fail, and a text is always JSON.
        drop(serde_json::to_writer(&mut self.out, text));
    }

    /// What is displayed without characters that JSON escapes.
    fn displayed(&mut self, value: impl fmt::Display) {
        use std::io::Write as _;
        // Writing into memory does not fail.
        drop(write!(self.out, "\"{value}\""));
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        self.string(text);
    }

    /// The same without a comma before it, in an object that has fields already or not.
    fn optional(&mut self, is_first: &mut bool, key: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        self.separate(is_first);
        self.string(key);
        self.raw(":");
        self.string(text);
    }

    fn separate(&mut self, is_first: &mut bool) {
        if !std::mem::replace(is_first, false) {
            self.raw(",");
        }
    }

    fn uri(&mut self, uri: &Uri) {
        let path = if uri.path().is_empty() {
            "/"
        } else {
            uri.path()
        };
        match uri.query() {
            None => self.string(path),
            Some(query) => {
                let redacted = redacted(query);
                let query = redacted.as_deref().unwrap_or(query);
                self.string(&format!("{path}?{query}"));
            }
        }
    }

    fn user(&mut self, user: Option<&UserInfo>) {
        let Some(user) = user else {
            return self.raw("{}");
        };
        let mut first = true;
        self.raw("{");
        self.optional(&mut first, "username", &user.username);
        self.optional(&mut first, "uid", &user.uid);
        if !user.groups.is_empty() {
            self.separate(&mut first);
            self.raw("\"groups\":");
            self.list(&user.groups);
        }
        if !user.extra.is_empty() {
            self.separate(&mut first);
            self.raw("\"extra\":{");
            let mut first = true;
            for (key, values) in &user.extra {
                self.separate(&mut first);
                self.string(key);
                self.raw(":");
                self.list(values);
            }
            self.raw("}");
        }
        self.raw("}");
    }

    fn list(&mut self, texts: &[String]) {
        let mut first = true;
        self.raw("[");
        for text in texts {
            self.separate(&mut first);
            self.string(text);
        }
        self.raw("]");
    }

    fn addresses(&mut self, addresses: &[IpAddr]) {
        if addresses.is_empty() {
            return;
        }
        let mut first = true;
        self.key("sourceIPs");
        self.raw("[");
        for address in addresses {
            self.separate(&mut first);
            self.displayed(address);
        }
        self.raw("]");
    }

    fn reference(&mut self, info: &RequestInfo, object: &ObjectNames) {
        let mut first = true;
        self.key("objectRef");
        self.raw("{");
        self.optional(&mut first, "resource", &info.resource);
        self.optional(
            &mut first,
            "namespace",
            either(&info.namespace, &object.namespace),
        );
        self.optional(&mut first, "name", either(&info.name, &object.name));
        self.optional(&mut first, "uid", &object.uid);
        self.optional(&mut first, "apiGroup", &info.group);
        self.optional(&mut first, "apiVersion", &info.version);
        self.optional(&mut first, "resourceVersion", &object.resource_version);
        self.optional(&mut first, "subresource", &info.subresource);
        self.raw("}");
    }

    fn outcome(&mut self, outcome: &Outcome) {
        self.key("responseStatus");
        self.raw("{\"metadata\":{}");
        let fields = outcome.status.as_ref().and_then(Value::as_object);
        for (name, value) in fields.into_iter().flatten() {
            if name != "metadata" {
                self.key(name);
                drop(serde_json::to_writer(&mut self.out, value));
            }
        }
        self.raw(",\"code\":");
        let mut digits = itoa::Buffer::new();
        self.raw(digits.format(outcome.code));
        self.raw("}");
    }

    fn document(&mut self, key: &str, document: Option<&[u8]>) {
        if let Some(document) = document {
            self.key(key);
            self.out.extend_from_slice(document);
        }
    }

    fn time(&mut self, key: &str, time: Timestamp) {
        self.key(key);
        self.raw("\"");
        self.out.extend_from_slice(&time_text(time));
        self.raw("\"");
    }

    fn annotations(&mut self, asked: &Asked, noted: &Noted) {
        let cluster = asked.info.as_ref().map(|info| &info.cluster);
        if cluster.is_none() && noted.annotations.is_empty() {
            return;
        }
        self.key("annotations");
        self.raw("{");
        let mut first = true;
        for (key, value) in noted.annotations.iter().filter(|(key, _)| *key != CLUSTER) {
            self.separate(&mut first);
            self.string(key);
            self.raw(":");
            self.string(value);
        }
        if let Some(cluster) = cluster {
            self.separate(&mut first);
            self.string(CLUSTER);
            self.raw(":");
            self.displayed(cluster);
        }
        self.raw("}");
    }
}

#[cfg(test)]
mod tests;
