//! One audit event as a line of JSON.
//!
//! # Invariants
//! - An event is one line: texts are escaped, and documents hold no newline.
//! - Nothing of a request's headers is in it but the name of the client and the addresses that it came by. What a query calls a
//!   token is left out.
//!
//! Source: `apiserver/pkg/apis/audit/v1/types.go`, `apiserver/pkg/audit/request.go`.

use std::{borrow::Cow, net::IpAddr, sync::Arc};

use api::{ClusterScope, status::Status, wheelhouse::keys::KEY_CLUSTER};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use jiff::{Timestamp, tz::Offset};
use serde_json::Value;

use super::{Arrived, policy::Stage};
use crate::request::{Level, Noted, ObjectNames, UserInfo, Verb};

/// Longest name of a client. Source: `maxUserAgentLength`.
const USER_AGENT_BYTES_MAX: usize = 1024;
/// The end of a text that was cut.
const CUT: &str = "...TRUNCATED";
/// Addresses that a client may say it came by.
const ADDRESS_COUNT_MAX: usize = 64;
/// Where proxies say by which addresses a request came.
static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
/// Bytes of a text in a `Status`: its message quotes what a client sent.
const STATUS_TEXT_BYTES_MAX: usize = 4096;
/// Causes of a `Status`.
const STATUS_CAUSE_COUNT_MAX: usize = 64;
/// Bytes of most lines.
const LINE_BYTES: usize = 1024;
/// Whether the request may be done, and why. Source: `endpoints/filters/authorization.go`.
const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";
/// Parameters of a query whose values are credentials. Source: RFC 6750 section 2.3; `token` is what dashboards behind a proxy say.
const SECRET_PARAMETERS: [&str; 3] = ["access_token", "id_token", "token"];
/// What stands in the place of such a value.
const REDACTED: &str = "REDACTED";

/// What an event says of a request's beginning: copied from it, and made JSON of when the event is written.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) level: Level,
    pub(super) received: Timestamp,
    /// `None` for a path that says nothing.
    pub(super) target: Option<Target>,
    verb: Cow<'static, str>,
    user: Option<Arc<UserInfo>>,
    /// The addresses that proxies say.
    forwarded: Vec<IpAddr>,
    /// The other end of the connection.
    peer: Option<IpAddr>,
    texts: Texts,
}

/// What a path names, as far as it is asked for.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) cluster: ClusterScope,
    pub(super) verb: Verb,
    pub(super) is_resource: bool,
}

/// Texts of a request, behind one another: one allocation for all of them.
#[derive(Debug)]
struct Texts {
    all: String,
    ends: [usize; TEXT_COUNT],
}

/// A text of a request. All from `Resource` are of a path that names one.
#[derive(Clone, Copy)]
enum Text {
    AuditId,
    Uri,
    UserAgent,
    Resource,
    Namespace,
    Name,
    Group,
    Version,
    Subresource,
}

const TEXT_COUNT: usize = Text::Subresource as usize + 1;

/// The headers that an event tells of.
#[derive(Default)]
struct Headers<'a> {
    user_agent: Option<&'a HeaderValue>,
    forwarded_for: Option<&'a HeaderValue>,
    real_ip: Option<&'a HeaderValue>,
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
        let headers = Headers::of(&parts.headers);
        let user_agent = headers.user_agent.map(text_of).unwrap_or_default();
        let audit_id = text_of(arrived.audit_id);
        let uri = parts.uri.path_and_query().map_or("/", |uri| uri.as_str());
        let named = arrived.info.filter(|info| info.is_resource);
        let named = named.map_or([""; 6], |info| {
            [
                &info.resource,
                &info.namespace,
                &info.name,
                &info.group,
                &info.version,
                &info.subresource,
            ]
            .map(String::as_str)
        });
        let [resource, namespace, name, group, version, subresource] = named;
        Self {
            level,
            received: arrived.at,
            target: arrived.info.map(|info| Target {
                cluster: info.cluster.clone(),
                verb: info.verb,
                is_resource: info.is_resource,
            }),
            verb: match arrived.info {
                Some(info) => info.verb.as_str().into(),
                None => parts.method.as_str().to_ascii_lowercase().into(),
            },
            user: arrived.user.cloned(),
            forwarded: headers.forwarded(),
            peer: arrived.address,
            texts: Texts::new([
                &audit_id,
                uri,
                &cut(&user_agent),
                resource,
                namespace,
                name,
                group,
                version,
                subresource,
            ]),
        }
    }

    /// Bytes that are kept of it.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.texts.all.len() + self.forwarded.len() * size_of::<IpAddr>()
    }

    /// The addresses that a request came by: what proxies say, then the other end of the connection.
    ///
    /// Source: `apimachinery/pkg/util/net/http.go` (`SourceIPs`).
    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let peer = self.peer.map(|it| it.to_canonical());
        let is_new = peer.filter(|peer| self.forwarded.last() != Some(peer));
        self.forwarded.iter().copied().chain(is_new)
    }
}

// === impl Texts ===

impl Texts {
    fn new(texts: [&str; TEXT_COUNT]) -> Self {
        let bytes = texts.iter().map(|text| text.len()).sum();
        let mut all = String::with_capacity(bytes);
        let ends = texts.map(|text| {
            all.push_str(text);
            all.len()
        });
        Self { all, ends }
    }

    fn get(&self, text: Text) -> &str {
        let index = text as usize;
        let end = |index: usize| self.ends.get(index).copied().unwrap_or_default();
        let start = index.checked_sub(1).map_or(0, end);
        self.all.get(start..end(index)).unwrap_or_default()
    }
}

// === impl Headers ===

impl<'a> Headers<'a> {
    /// Looks at all once: there are few, and to look for one by its name costs more than to pass it by.
    fn of(headers: &'a HeaderMap) -> Self {
        let mut found = Self::default();
        for (name, value) in headers {
            let place = if *name == header::USER_AGENT {
                &mut found.user_agent
            } else if *name == FORWARDED_FOR {
                &mut found.forwarded_for
            } else if *name == REAL_IP {
                &mut found.real_ip
            } else {
                continue;
            };
            // The first one counts.
            place.get_or_insert(value);
        }
        found
    }

    /// The addresses that proxies say.
    fn forwarded(&self) -> Vec<IpAddr> {
        let text = |value: Option<&'a HeaderValue>| value.and_then(|it| it.to_str().ok());
        let forwarded = text(self.forwarded_for).map_or_else(Vec::new, |text| {
            let addresses = text.split(',').filter_map(|part| part.trim().parse().ok());
            addresses.take(ADDRESS_COUNT_MAX).collect()
        });
        let mut addresses: Vec<IpAddr> = forwarded;
        if let Some(address) = text(self.real_ip).and_then(|text| text.parse().ok())
            && !addresses.contains(&address)
        {
            addresses.push(address);
        }
        addresses
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

/// Writes an event behind others, with the newline that ends it.
pub(super) fn write_line(
    out: &mut Vec<u8>,
    asked: &Asked,
    noted: &Noted,
    outcome: Option<&Outcome>,
    (stage, at): (Stage, Timestamp),
) {
    out.reserve(LINE_BYTES);
    let mut event = Writer { out };
    event.head(asked);
    if asked.target.as_ref().is_some_and(|it| it.is_resource) {
        event.reference(&asked.texts, &noted.object);
    }
    event.word(r#","stage":""#, stage.as_str());
    if let Some(user) = &noted.impersonated {
        event.raw(r#","impersonatedUser":"#);
        event.user(Some(user));
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
}

fn cut(user_agent: &str) -> Cow<'_, str> {
    if user_agent.len() <= USER_AGENT_BYTES_MAX {
        return user_agent.into();
    }
    let end = user_agent.floor_char_boundary(USER_AGENT_BYTES_MAX);
    let start = user_agent.get(..end).unwrap_or_default();
    format!("{start}{CUT}").into()
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

/// Whether JSON escapes nothing in a text: it has no control character, no quote and no backslash.
///
/// Eight bytes at a time. Source: "Determine if a word has a byte less than n", Bit Twiddling Hacks, S. E. Anderson.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = u64::from_le_bytes([0x80; 8]);
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & TOPS;
    let of = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let escaped = |word: u64| below(word, u64::from(b' ')) | of(word, b'"') | of(word, b'\\');
    let (words, rest) = text.as_chunks::<8>();
    let found = words
        .iter()
        .fold(0, |found, word| found | escaped(u64::from_le_bytes(*word)));
    let found = match text.last_chunk() {
        // What is looked at twice is looked at for nothing, and for less than byte by byte.
        Some(last) => found | escaped(u64::from_le_bytes(*last)),
        None => rest
            .iter()
            .fold(0, |found, byte| found | escaped(ONES * u64::from(*byte))),
    };
    found == 0
}

/// A header's value as text; what is no UTF-8 of it is replaced.
fn text_of(value: &HeaderValue) -> Cow<'_, str> {
    let bytes = value.as_bytes();
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Writes the fields of an object; each begins with the comma that ends the one before.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

// === impl Writer ===

impl Writer<'_> {
    /// Which request it is, of whom, and from where.
    fn head(&mut self, asked: &Asked) {
        let text = |text| asked.texts.get(text);
        self.raw(r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1""#);
        self.word(r#","level":""#, asked.level.as_str());
        self.text(r#","auditID":"#, text(Text::AuditId));
        self.raw(r#","requestURI":"#);
        self.uri(text(Text::Uri));
        self.text(r#","verb":"#, &asked.verb);
        self.raw(r#","user":"#);
        self.user(asked.user.as_deref());
        self.addresses(asked.addresses());
        let user_agent = text(Text::UserAgent);
        if !user_agent.is_empty() {
            self.text(r#","userAgent":"#, user_agent);
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
        if is_plain(text.as_bytes()) {
            self.out.reserve(text.len() + 2);
            self.out.push(b'"');
            self.raw(text);
            self.out.push(b'"');
            return;
        }
        // Writing into memory does not fail, and a text is always JSON.
        drop(serde_json::to_writer(&mut *self.out, text));
    }

    fn address(&mut self, address: IpAddr) {
        let IpAddr::V4(address) = address else {
            return self.string(&address.to_string());
        };
        let mut digits = itoa::Buffer::new();
        for (octet, before) in address.octets().into_iter().zip(["\"", ".", ".", "."]) {
            self.raw(before);
            self.raw(digits.format(octet));
        }
        self.raw("\"");
    }

    /// A word of ours, which needs no escapes, behind its key with what is around that.
    fn word(&mut self, key: &'static str, word: &'static str) {
        self.raw(key);
        self.raw(word);
        self.raw("\"");
    }

    /// A text, behind its key with what is around that.
    fn text(&mut self, key: &'static str, text: &str) {
        self.raw(key);
        self.string(text);
    }

    /// A text, if there is one, behind its key and a colon, in an object that has fields already or not.
    fn optional(&mut self, is_first: &mut bool, key: &'static str, text: &str) {
        if text.is_empty() {
            return;
        }
        self.separate(is_first);
        self.raw(key);
        self.string(text);
    }

    /// A key of ours, which needs no escapes.
    fn own_key(&mut self, is_first: &mut bool, key: &'static str) {
        self.raw(if std::mem::replace(is_first, false) {
            "\""
        } else {
            ",\""
        });
        self.raw(key);
        self.raw("\":");
    }

    fn separate(&mut self, is_first: &mut bool) {
        if !std::mem::replace(is_first, false) {
            self.raw(",");
        }
    }

    fn uri(&mut self, uri: &str) {
        let Some((path, query)) = uri.split_once('?') else {
            return self.string(uri);
        };
        let redacted = redacted(query);
        if redacted.is_none() && !path.is_empty() {
            return self.string(uri);
        }
        let path = if path.is_empty() { "/" } else { path };
        let query = redacted.as_deref().unwrap_or(query);
        self.string(&format!("{path}?{query}"));
    }

    fn user(&mut self, user: Option<&UserInfo>) {
        let Some(user) = user else {
            return self.raw("{}");
        };
        let mut first = true;
        self.raw("{");
        self.optional(&mut first, r#""username":"#, &user.username);
        self.optional(&mut first, r#""uid":"#, &user.uid);
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

    fn addresses(&mut self, addresses: impl Iterator<Item = IpAddr>) {
        let mut first = true;
        for address in addresses {
            self.raw(if first { r#","sourceIPs":["# } else { "," });
            first = false;
            self.address(address);
        }
        if !first {
            self.raw("]");
        }
    }

    /// The object that a path names, and what the object that was sent says of itself beside it. A resource has a name.
    fn reference(&mut self, path: &Texts, object: &ObjectNames) {
        self.raw(r#","objectRef":{"resource":"#);
        self.string(path.get(Text::Resource));
        let mut first = false;
        let (namespace, name) = (path.get(Text::Namespace), path.get(Text::Name));
        self.optional(&mut first, r#""namespace":"#, namespace);
        self.optional(&mut first, r#""name":"#, name);
        for (key, text) in [
            (r#""apiGroup":"#, Text::Group),
            (r#""apiVersion":"#, Text::Version),
            (r#""subresource":"#, Text::Subresource),
        ] {
            self.optional(&mut first, key, path.get(text));
        }
        if namespace.is_empty() {
            self.optional(&mut first, r#""namespace":"#, &object.namespace);
        }
        if name.is_empty() {
            self.optional(&mut first, r#""name":"#, &object.name);
        }
        self.optional(&mut first, r#""uid":"#, &object.uid);
        let version = &object.resource_version;
        self.optional(&mut first, r#""resourceVersion":"#, version);
        self.raw("}");
    }

    fn outcome(&mut self, outcome: &Outcome) {
        self.raw(r#","responseStatus":"#);
        self.raw("{\"metadata\":{}");
        let fields = outcome.status.as_ref().and_then(Value::as_object);
        for (name, value) in fields.into_iter().flatten() {
            if name != "metadata" {
                self.key(name);
                drop(serde_json::to_writer(&mut *self.out, value));
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
        let cluster = asked.target.as_ref().map(|target| &target.cluster);
        if cluster.is_none() && noted.decision.is_none() && noted.annotations.is_empty() {
            return;
        }
        self.raw(r#","annotations":"#);
        self.raw("{");
        let mut first = true;
        if let Some((allowed, reason)) = &noted.decision {
            let decision = if *allowed { "allow" } else { "forbid" };
            self.own_key(&mut first, DECISION);
            self.word("\"", decision);
            self.own_key(&mut first, REASON);
            self.string(reason);
        }
        // Nobody else says what the hub itself does.
        let is_of_others = |key: &str| ![KEY_CLUSTER, DECISION, REASON].contains(&key);
        for (key, value) in noted
            .annotations
            .iter()
            .filter(|(key, _)| is_of_others(key))
        {
            self.separate(&mut first);
            self.string(key);
            self.raw(":");
            self.string(value);
        }
        if let Some(cluster) = cluster {
            self.own_key(&mut first, KEY_CLUSTER);
            match cluster {
                ClusterScope::One(cluster) => self.string(cluster.as_str()),
                ClusterScope::All => self.string(&cluster.to_string()),
            }
        }
        self.raw("}");
    }
}

#[cfg(test)]
mod tests;
