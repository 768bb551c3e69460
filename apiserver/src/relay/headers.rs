//! Which headers pass between a client of the hub and a spoke, and why the others do not.
//!
//! # Invariants
//! - Nothing that a client sends says who it is in the spoke. Names are compared as the most lenient server behind reads
//!   them: `_` is `-` to many, as CGI has it, so that no name with a `_` passes.
//! - Nothing that a spoke answers speaks for the hub's origin: it sets no cookie there, names no other place to go to,
//!   asks for no credential and lets no other origin read the response. What passes back is listed; the rest stays.

use http::{HeaderMap, HeaderValue, header};

/// Why a header of a request stays behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Withheld {
    /// It is about the connection. Source: RFC 9110 section 7.6.1.
    Hop,
    /// It says who the client is, or where it comes from.
    Identity,
    /// It is a credential of the hub's.
    Credential,
    /// It asks for another method or path than the one that was authorized.
    Override,
    /// It is read as another name by servers behind the spoke's.
    Ambiguous,
}

const HOP_HEADERS: &[&str] = &[
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "expect",
];

/// What is withheld by its name, and what by how its name begins.
const NAMES: &[(&str, Withheld)] = &[
    ("authorization", Withheld::Credential),
    ("cookie", Withheld::Credential),
    ("cookie2", Withheld::Credential),
    ("host", Withheld::Hop),
    ("via", Withheld::Identity),
    ("forwarded", Withheld::Identity),
    ("x-real-ip", Withheld::Identity),
    ("x-http-method", Withheld::Override),
    ("x-http-method-override", Withheld::Override),
    ("x-method-override", Withheld::Override),
    ("x-original-url", Withheld::Override),
    ("x-rewrite-url", Withheld::Override),
];
const PREFIXES: &[(&str, Withheld)] = &[
    ("impersonate-", Withheld::Identity),
    ("x-remote-", Withheld::Identity),
    ("x-forwarded-", Withheld::Identity),
    ("x-envoy-", Withheld::Identity),
    ("proxy-", Withheld::Hop),
];

/// What a spoke may say of its answer. Sources: kube-apiserver's answers, RFC 9110 and RFC 9111.
const PASSED_BACK: &[&str] = &[
    "accept-ranges",
    "age",
    "allow",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-range",
    "content-type",
    "etag",
    "expires",
    "last-modified",
    "retry-after",
    "vary",
    "warning",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
    "x-stream-protocol-version",
];

/// A page that a spoke serves is no page of the hub's: it runs no script and sees nothing of the hub's origin.
const SANDBOX: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");

/// Returns why a header of a request stays behind; `None` for one that goes on.
pub(super) fn withheld(name: &str) -> Option<Withheld> {
    if HOP_HEADERS.contains(&name) {
        return Some(Withheld::Hop);
    }
    let same = NAMES.iter().find(|(withheld, _)| *withheld == name);
    let alike = || PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
    if let Some((_, reason)) = same.or_else(alike) {
        return Some(*reason);
    }
    name.contains('_').then_some(Withheld::Ambiguous)
}

/// The headers of a request that go on to a spoke. Who the user is there is put on them afterwards.
pub(crate) fn relayed(headers: &HeaderMap) -> HeaderMap {
    let named = connection_names(headers);
    let mut relayed = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let text = name.as_str();
        if withheld(text).is_none() && !named.iter().any(|named| named == text) {
            relayed.append(name.clone(), value.clone());
        }
    }
    relayed
}

/// The headers of an answer that go back. The hub sets its own date and audit id.
pub(super) fn relayed_back(headers: &HeaderMap) -> HeaderMap {
    let named = connection_names(headers);
    let mut relayed = HeaderMap::with_capacity(headers.len().saturating_add(2));
    for (name, value) in headers {
        let text = name.as_str();
        if PASSED_BACK.contains(&text) && !named.iter().any(|named| named == text) {
            relayed.append(name.clone(), value.clone());
        }
    }
    relayed.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
    let nosniff = HeaderValue::from_static("nosniff");
    relayed.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    relayed
}

/// The headers that `Connection` names as being about the connection too.
fn connection_names(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_says_who_the_client_is_stays_behind() {
        let headers = map(&[
            ("authorization", "Bearer secret"),
            ("cookie", "session=1"),
            ("impersonate-user", "root"),
            ("impersonate_user", "root"),
            ("impersonate-group", "system:masters"),
            ("impersonate-extra-scopes", "all"),
            ("impersonate-uid", "1"),
            ("x-remote-user", "root"),
            ("x_remote_user", "root"),
            ("x-remote_group", "root"),
            ("x-forwarded-for", "192.0.2.1"),
            ("forwarded", "for=192.0.2.1"),
            ("proxy-authorization", "Basic secret"),
            ("x-http-method-override", "DELETE"),
            ("x-rewrite-url", "/api/v1/secrets"),
            ("connection", "keep-alive, X-Secret-Hop"),
            ("x-secret-hop", "1"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("accept", "application/json"),
            ("content-type", "application/json"),
            ("if-none-match", "a"),
            ("user-agent", "kubectl/v1"),
        ]);
        let relayed = relayed(&headers);
        let want = ["accept", "content-type", "if-none-match", "user-agent"];
        assert_eq!(names(&relayed), want, "nothing else goes on");
    }

    #[test]
    fn a_spoke_says_nothing_for_the_hubs_origin() {
        let headers = map(&[
            ("set-cookie", "a=b"),
            ("strict-transport-security", "max-age=1"),
            ("alt-svc", "h2=attacker:443"),
            ("clear-site-data", "*"),
            ("access-control-allow-origin", "*"),
            ("www-authenticate", "Basic"),
            ("location", "https://attacker"),
            ("refresh", "0; url=https://attacker"),
            ("link", "<https://attacker>; rel=preload"),
            ("x-remote-user", "root"),
            ("audit-id", "forged"),
            ("date", "yesterday"),
            ("content-security-policy", "default-src *"),
            ("connection", "etag"),
            ("etag", "e"),
            ("content-type", "text/html"),
            ("retry-after", "1"),
        ]);
        let back = relayed_back(&headers);
        let want = [
            "content-security-policy",
            "content-type",
            "retry-after",
            "x-content-type-options",
        ];
        assert_eq!(names(&back), want, "nothing else comes back");
        assert_eq!(back["content-security-policy"], SANDBOX);
    }
}
