//! What fuzz targets need of the parsers of this crate: see `hack/fuzz-targets`.

use std::sync::LazyLock;

use api::cluster::ClusterScope;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use serde_json::Value;

use crate::authenticate;
use crate::authorize;
use crate::handle;
use crate::negotiate::{self, MediaType, Offer};
use crate::refusal::Refusal;
use crate::relay;
use crate::request::{ALL_AUTHENTICATED, RequestInfo};
use crate::route;
use crate::tls;
use crate::websocket::frame::{CONTROL_BYTES_MAX, Heard, Reader};

/// Reads a path as a request's, and holds it to what the stages after it rely on.
pub fn path(text: &str) {
    let Ok(uri) = text.parse::<Uri>() else { return };
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let Ok(info) = route::route(&method, &uri) else {
            continue;
        };
        hold_path(&info);
        if let ClusterScope::One(cluster) = &info.cluster
            && !cluster.is_root()
        {
            hold_relayed(&method, &uri, &info);
        }
    }
}

fn hold_path(info: &RequestInfo) {
    let path = &info.path;
    assert!(path.starts_with('/'), "{path:?} begins with a slash");
    assert!(
        !path.split('/').any(|part| matches!(part, "." | "..")),
        "{path:?} has no dot segments"
    );
    for part in [
        &info.group,
        &info.version,
        &info.resource,
        &info.subresource,
        &info.namespace,
    ] {
        assert!(!part.contains('/'), "{part:?} is one segment");
    }
}

/// What is relayed must mean to the spoke what it means here.
fn hold_relayed(method: &Method, uri: &Uri, info: &RequestInfo) {
    let Ok(below) = relay::below_cluster(uri) else {
        return;
    };
    let there = route::route(method, &below).expect("what was read once is read again");
    assert_eq!(
        there.path, info.path,
        "the spoke is asked for the path that was judged"
    );
    assert_eq!(there.verb, info.verb, "with the same verb");
    assert_eq!(
        (
            &there.group,
            &there.resource,
            &there.subresource,
            &there.namespace,
            &there.name
        ),
        (
            &info.group,
            &info.resource,
            &info.subresource,
            &info.namespace,
            &info.name
        ),
        "of the same object"
    );
}

/// Reads the headers by which a client and the server agree on a form.
pub fn negotiate(accept: &[u8], content_type: &[u8], query: &str) {
    let mut request = Request::get(format!("/api/v1/pods?{query}"));
    for (name, value) in [
        (header::ACCEPT, accept),
        (header::CONTENT_TYPE, content_type),
    ] {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            request = request.header(name, value);
        }
    }
    let Ok(request) = request.body(()) else {
        return;
    };
    let (parts, ()) = request.into_parts();
    for offer in [
        Offer::Plain,
        Offer::Message,
        Offer::Object,
        Offer::List,
        Offer::Watch,
    ] {
        drop(negotiate::accept(&parts, offer));
    }
    let _form = negotiate::accept_refusal(&parts);
    let _version = negotiate::accepts_aggregated(&parts.headers, &["v2", "v2beta1"]);
    let supported = [
        MediaType::Json,
        MediaType::Yaml,
        MediaType::Protobuf,
        MediaType::ApplyYaml,
    ];
    if let Ok(media) = negotiate::content_type(&parts.headers, &supported) {
        assert!(
            supported.contains(&media),
            "only what is supported is found"
        );
    }
}

/// Reads impersonation headers, given as lines of `name: value`.
pub fn impersonation(text: &str) {
    let mut headers = HeaderMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(": ") else {
            continue;
        };
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    authorize::read_impersonation(&headers);
    let relayed = relay::relayed_headers(&headers);
    for name in relayed.keys() {
        let text = name.as_str();
        let says_who = ["impersonate-", "x-remote-", "x-forwarded-"];
        assert!(
            text != "authorization" && !says_who.iter().any(|prefix| text.starts_with(prefix)),
            "{text} is not relayed"
        );
    }
}

/// Reads frames of a client of a WebSocket: how they are cut makes no difference. The first byte says how; bit 7 of every other one is
/// set, as in the frames that a client sends, where the first byte has its lowest bit set.
pub fn websocket(data: &[u8]) {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let high = |byte: &u8| if how & 1 == 0 { *byte } else { byte | 0x80 };
    let bytes: Vec<u8> = rest.iter().map(high).collect();
    let whole = Reader::default().read(&bytes);
    let mut reader = Reader::default();
    let mut pieces = bytes.chunks(usize::from(how >> 1).max(1));
    let heard = pieces.try_fold(Heard::default(), |before, piece| {
        if before.closed {
            return Ok(before);
        }
        let now = reader.read(piece)?;
        Ok(Heard {
            ping: now.ping.or(before.ping),
            closed: now.closed,
        })
    });
    if let Ok(Heard {
        ping: Some(ping), ..
    }) = &whole
    {
        assert!(ping.len() <= CONTROL_BYTES_MAX, "a ping is short");
    }
    assert_eq!(heard, whole, "in pieces and at once");
}

/// Reads a list of a spoke, each object of which says afterwards that it is of that spoke, and of the kind that was asked for.
pub fn spoke_list(data: &[u8]) {
    let Ok(east) = "east".parse() else { return };
    let Ok(list) = relay::parse_list(&east, "v1", data) else {
        return;
    };
    for item in &list.items {
        let object: Value = serde_json::from_slice(item).expect("it is JSON");
        let cluster = &object["metadata"]["annotations"][api::cluster::ANNOTATION];
        assert_eq!(cluster, "east", "no other cluster than its own");
        assert_eq!(object["apiVersion"], "v1", "as it was asked for");
        let kind = object["kind"].as_str().unwrap_or_default();
        assert!(
            !kind.is_empty() && !kind.contains('"'),
            "it has a kind: {kind:?}"
        );
    }
}

/// Applies a JSON patch.
///
/// # Errors
/// The refusal that a client gets.
pub fn json_patch(object: &mut Value, operations: &[Value]) -> Result<(), Refusal> {
    handle::json_patch(object, operations)
}

/// Reads the user of a client certificate, in DER.
pub fn certificate(der: &[u8]) {
    if let Ok((user, _)) = tls::certificate_user(der) {
        assert!(!user.username.is_empty(), "a user has a name");
        assert!(user.in_group(ALL_AUTHENTICATED), "and is authenticated");
    }
}

/// Reads a configuration of issuers, the keys of one, and what its tokens claim: nobody of Kubernetes or the hub comes of it.
pub fn issued(configuration: &str, keys: &[u8], claims: &[u8]) {
    for user in authenticate::users_of(configuration, keys, claims) {
        assert!(user.in_group(ALL_AUTHENTICATED), "it has signed in");
        let groups = user.groups.iter().filter(|it| *it != ALL_AUTHENTICATED);
        for name in groups.chain([&user.username]) {
            let is_reserved = ["system:", "wheelhouse:"]
                .iter()
                .any(|it| name.starts_with(it));
            assert!(!is_reserved && !name.is_empty(), "{name:?} is nobody's");
        }
    }
}

/// Whether a token is taken as one of a hub whose key no one has.
pub fn token_is_good(token: &str) -> bool {
    static SIGNER: LazyLock<authenticate::TestSigner> =
        LazyLock::new(authenticate::TestSigner::new);
    SIGNER.check(token)
}
