//! Which headers pass between a client of the hub and a spoke, and why the others do not.
//!
//! # Invariants
//! - Nothing that a client sends says who it is in the spoke. Names are compared as the most lenient server behind reads
//!   them: `_` is `-` to many, as CGI has it, so that no name with a `_` passes.
//! - Nothing that a spoke answers speaks for the hub's origin: it sets no cookie there, names no other place to go to,
//!   asks for no credential and lets no other origin read the response. What passes back is listed; the rest stays.

use http::{HeaderMap, HeaderValue, header};

use crate::websocket::TOKEN_PROTOCOL;

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
    /// It says what of a request is recorded, in the spoke too. The hub names its own trace there.
    Trace,
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

/// What a 101 says of the protocol. Sources: RFC 6455 section 4.2.2, `apimachinery/pkg/util/httpstream/httpstream.go`.
const PASSED_BACK_SWITCHED: &[&str] = &[
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-protocol",
    "x-stream-protocol-version",
];

/// What `x-` headers of an application do not pass back: how these go on tells a proxy before the hub to serve something else, or a
/// browser how to take the page.
const NOT_OWN: &[&str] = &[
    "accel-",
    "sendfile",
    "lighttpd-",
    "litespeed-",
    "reproxy-",
    "original-",
    "rewrite-",
    "content-",
    "frame-",
    "xss-",
    "dns-",
    "webkit-",
    "ua-",
    "permitted-",
    "sourcemap",
    "kubernetes-",
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
    if telemetry::HEADERS.iter().any(|it| it == name) {
        return Some(Withheld::Trace);
    }
    name.contains('_').then_some(Withheld::Ambiguous)
}

/// The headers of a request that go on to a spoke. Who the user is there is put on them afterwards.
pub(crate) fn relayed(headers: &HeaderMap) -> HeaderMap {
    let named = connection_names(headers);
    let mut relayed = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let text = name.as_str();
        if withheld(text).is_some() || named.iter().any(|named| named == text) {
            continue;
        }
        if name == header::SEC_WEBSOCKET_PROTOCOL {
            relayed.extend(without_token(value).map(|value| (name.clone(), value)));
        } else {
            relayed.append(name.clone(), value.clone());
        }
    }
    // The manager of fields follows from it: of a client that says nothing it is not the hub.
    if !relayed.contains_key(header::USER_AGENT) {
        relayed.insert(header::USER_AGENT, HeaderValue::from_static(""));
    }
    relayed
}

/// The subprotocols that a client offers, without its token for the hub: that is how a browser sends one.
///
/// Source: `apiserver/pkg/authentication/request/websocket/protocol.go`.
fn without_token(offered: &HeaderValue) -> Option<HeaderValue> {
    let text = offered.to_str().ok()?;
    let is_token = |protocol: &&str| protocol.trim().starts_with(TOKEN_PROTOCOL);
    if !text.split(',').any(|protocol| is_token(&protocol)) {
        return Some(offered.clone());
    }
    let rest: Vec<&str> = text.split(',').filter(|it| !is_token(it)).collect();
    let rest = rest.join(",");
    let is_empty = rest.trim().is_empty();
    HeaderValue::try_from(rest).ok().filter(|_| !is_empty)
}

/// Who made an answer of a spoke's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The spoke's API server.
    Server,
    /// What it is a proxy of: a pod, a service, a node.
    Backend,
}

/// The headers of an answer that go back. The hub sets its own date and audit id.
pub(super) fn relayed_back(headers: &HeaderMap, origin: Origin) -> HeaderMap {
    let named = connection_names(headers);
    let mut relayed = HeaderMap::with_capacity(headers.len().saturating_add(2));
    for (name, value) in headers {
        let text = name.as_str();
        let passes = PASSED_BACK.contains(&text) || origin == Origin::Backend && is_own(text);
        if passes && !named.iter().any(|named| named == text) {
            relayed.append(name.clone(), value.clone());
        }
    }
    relayed.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
    let nosniff = HeaderValue::from_static("nosniff");
    relayed.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    relayed
}

/// The headers of a 101 that go back, beside `Upgrade`, which the hub writes itself.
pub(super) fn relayed_back_switched(headers: &HeaderMap) -> HeaderMap {
    let passed = headers.iter().filter(|(name, _)| {
        let name = name.as_str();
        PASSED_BACK_SWITCHED.contains(&name)
    });
    passed.map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Whether a header is of an application's own making, and says nothing to a browser or to a proxy before the hub.
fn is_own(name: &str) -> bool {
    let Some(own) = name.strip_prefix("x-") else {
        return false;
    };
    !name.contains('_')
        && withheld(name).is_none()
        && !NOT_OWN.iter().any(|prefix| own.starts_with(prefix))
}

/// The names that `Connection` lists: headers that are about the connection too, and `upgrade`.
pub(super) fn connection_names(headers: &HeaderMap) -> Vec<String> {
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
    fn a_client_without_a_name_does_not_get_that_of_the_hub() {
        let relayed = relayed(&map(&[("accept", "application/json")]));
        assert_eq!(relayed["user-agent"], "");
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
        let back = relayed_back(&headers, Origin::Server);
        let want = [
            "content-security-policy",
            "content-type",
            "retry-after",
            "x-content-type-options",
        ];
        assert_eq!(names(&back), want, "nothing else comes back");
        assert_eq!(back["content-security-policy"], SANDBOX);
    }

    #[test]
    fn an_application_behind_a_proxy_has_headers_of_its_own() {
        let headers = map(&[
            ("x-request-id", "1"),
            ("x-accel-redirect", "/etc/shadow"),
            ("x-sendfile", "/etc/shadow"),
            ("x-frame-options", "allow-from https://attacker"),
            ("x-remote-user", "root"),
            ("x-forwarded-host", "attacker"),
            ("set-cookie", "a=b"),
            ("www-authenticate", "Basic"),
            ("access-control-allow-origin", "*"),
            ("content-type", "text/html"),
        ]);
        let back = relayed_back(&headers, Origin::Backend);
        let want = [
            "content-security-policy",
            "content-type",
            "x-content-type-options",
            "x-request-id",
        ];
        assert_eq!(names(&back), want, "nothing else comes back");
        let of_server = relayed_back(&headers, Origin::Server);
        assert!(!of_server.contains_key("x-request-id"), "{of_server:?}");
    }

    /// The story: a browser cannot send `Authorization` with a WebSocket, and puts its token for the hub here.
    #[test]
    fn a_token_among_subprotocols_stays_behind() {
        for (offered, want) in [
            ("v5.channel.k8s.io", Some("v5.channel.k8s.io")),
            ("a, b", Some("a, b")),
            (
                "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io",
                Some("v4.channel.k8s.io"),
            ),
            ("base64url.bearer.authorization.k8s.io.c2VjcmV0", None),
            (
                "a,base64url.bearer.authorization.k8s.io.c2VjcmV0,b",
                Some("a,b"),
            ),
        ] {
            let relayed = relayed(&map(&[("sec-websocket-protocol", offered)]));
            let value = relayed.get(header::SEC_WEBSOCKET_PROTOCOL);
            let text = value.map(|value| value.to_str().unwrap().trim());
            assert_eq!(text, want, "{offered}");
        }
    }
}
