//! How the server answers while it is hostile.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, Response};
use serde_json::{Value, json};

use super::{Body, Seen, Shared, bytes, reply, store, stream};

const MIB: usize = 1 << 20;

/// How the server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// As an API server does.
    Honest,
    /// Each page of a list says that there is another one.
    EndlessPages,
    /// Each page of a list has the token of the one before, and nothing in it.
    SameToken,
    /// Discovery and OpenAPI documents do not end.
    EndlessDiscovery,
    /// Nothing is JSON.
    Garbage,
    /// Each answer has 100 MB.
    Huge,
    /// Each answer comes byte by byte, and never ends.
    Drip,
    /// Lists of a future version, and watches that go back.
    LyingVersions,
    /// Each request is redirected to this URL.
    Redirect(String),
    /// Lists are of other kinds, and objects of other names than were asked for.
    OtherKinds,
    /// Discovery has other groups each time, and CRDs come and go.
    Flicker,
    /// A watch delivers new objects, without end.
    EndlessWatch,
    /// A watch delivers a line without end.
    EndlessLine,
    /// Objects are as large as they may be, and need many times that once they are parsed.
    HugeObjects,
    /// Objects say that they are root's and those of other clusters.
    Foreign,
    /// CRDs are taken, and never established.
    Stalled,
    /// Every review is answered with yes.
    Liar,
    /// No object tells who has applied it.
    NoManagers,
    /// Connections end before anything is said.
    Closed,
    /// Whatever needs an answer gets none.
    Silent,
    /// The cluster says that it has this uid.
    Uid(String),
    /// Lists of [`GROUP`] do not end. Whatever else is asked is answered honestly, in this mode and in the next one.
    EndlessItems,
    /// Lists of [`GROUP`] are refused with 60 MB.
    HugeRefusals,
}

/// The group of which some modes have lists.
pub const GROUP: &str = "hostile.example.com";

impl Mode {
    /// All modes that a trial goes through.
    pub fn all(redirect: &str, uid: &str) -> Vec<Self> {
        vec![
            Self::EndlessPages,
            Self::SameToken,
            Self::EndlessDiscovery,
            Self::Garbage,
            Self::Huge,
            Self::Drip,
            Self::LyingVersions,
            Self::Redirect(redirect.to_owned()),
            Self::OtherKinds,
            Self::Flicker,
            Self::EndlessWatch,
            Self::EndlessLine,
            Self::HugeObjects,
            Self::Foreign,
            Self::Stalled,
            Self::Liar,
            Self::NoManagers,
            Self::Silent,
            Self::Uid(uid.to_owned()),
        ]
    }
}

/// Answers in the way of the mode; `None` where that is the honest one.
pub(crate) async fn answer(
    mode: &Mode,
    shared: &Arc<Shared>,
    asked: &Seen,
) -> Option<Response<Body>> {
    let (path, query) = asked.parts();
    if path.starts_with(&format!("/apis/{GROUP}/"))
        && let Some(answer) = to_group(mode)
    {
        return Some(answer);
    }
    if let Some(answer) = to_anything(mode).await {
        return Some(answer);
    }
    if query.contains("watch=true") {
        return to_watch(mode);
    }
    let is_list = asked.method == Method::GET
        && !path.starts_with("/api/v1/namespaces/")
        && path != "/version"
        && (query.contains("limit=") || query.contains("resourceVersion="));
    if is_list && let Some(answer) = to_list(mode, query) {
        return Some(answer);
    }
    to_document(mode, shared, asked)
}

fn to_group(mode: &Mode) -> Option<Response<Body>> {
    match mode {
        Mode::EndlessItems => Some(endless(r#"{"items":[0"#, ",0")),
        Mode::HugeRefusals => {
            static ZEROS: [u8; 60 * MIB] = [0; 60 * MIB];
            Some(bytes(500, Bytes::from_static(&ZEROS)))
        }
        _ => None,
    }
}

async fn to_anything(mode: &Mode) -> Option<Response<Body>> {
    match mode {
        Mode::Garbage => Some(bytes(200, Bytes::from_static(b"<html>{{{{"))),
        Mode::Huge => {
            static ZEROS: [u8; 100 * MIB] = [0; 100 * MIB];
            Some(bytes(200, Bytes::from_static(&ZEROS)))
        }
        Mode::Drip => {
            let chunks = futures::stream::repeat(Bytes::from_static(b" "));
            Some(stream(chunks.then(|chunk| async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                chunk
            })))
        }
        Mode::Redirect(url) => Some(redirect(url)),
        Mode::Silent => std::future::pending().await,
        _ => None,
    }
}

fn to_watch(mode: &Mode) -> Option<Response<Body>> {
    match mode {
        // So that everything is listed.
        Mode::EndlessPages
        | Mode::SameToken
        | Mode::OtherKinds
        | Mode::HugeObjects
        | Mode::Foreign => Some(super::status(410, "Expired")),
        Mode::LyingVersions => {
            let lines = [9_000_000_000_000_000_005_u64, 7, 3];
            let lines =
                lines.map(|version| store::line("ADDED", &object("a", &version.to_string())));
            Some(stream(futures::stream::iter(lines)))
        }
        Mode::EndlessWatch => {
            let next = |count: u64| async move {
                let object = object(&format!("n{count}"), &count.to_string());
                Some((store::line("ADDED", &object), count + 1))
            };
            Some(stream(futures::stream::unfold(1, next)))
        }
        Mode::EndlessLine => Some(endless(
            r#"{"type":"ADDED","object":{"a":""#,
            "aaaaaaaaaaaaaaaa",
        )),
        _ => None,
    }
}

fn to_list(mode: &Mode, query: &str) -> Option<Response<Body>> {
    match mode {
        Mode::EndlessPages => Some(reply(200, &page(&token(query), 500, "10"))),
        Mode::SameToken => Some(reply(200, &page("again", 0, "10"))),
        Mode::LyingVersions => {
            let mut list = page("", 3, "9000000000000000000");
            list["metadata"]["resourceVersion"] = json!("9000000000000000001");
            Some(reply(200, &list))
        }
        Mode::OtherKinds => Some(reply(200, &other_kinds())),
        Mode::HugeObjects => Some(bytes(200, huge_objects())),
        Mode::Foreign => Some(reply(200, &foreign())),
        _ => None,
    }
}

fn to_document(mode: &Mode, shared: &Arc<Shared>, asked: &Seen) -> Option<Response<Body>> {
    let (path, _) = asked.parts();
    let is_document = matches!(path, "/api" | "/apis") || path.starts_with("/openapi");
    match mode {
        Mode::EndlessDiscovery if is_document => Some(endless(
            r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":["#,
            r#"{"metadata":{"name":"g"},"versions":[{"version":"v1","resources":[{},{},{},{}]}]},"#,
        )),
        Mode::Flicker if is_document || path.contains("customresourcedefinitions") => {
            flicker(shared, path)
        }
        Mode::Stalled if path.contains("customresourcedefinitions/") => {
            let taken = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": path.rsplit('/').next(), "uid": "1", "resourceVersion": "1"}});
            Some(match asked.method {
                Method::GET => super::status(404, "NotFound"),
                _ => reply(200, &taken),
            })
        }
        Mode::Liar if path.contains("review") => {
            let answer = json!({"status": {"allowed": true, "authenticated": true, "user": {
                "username": "system:admin", "groups": ["system:masters"]}}});
            Some(reply(201, &answer))
        }
        Mode::Uid(uid) if path == "/api/v1/namespaces/kube-system" => {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "kube-system", "uid": uid}});
            Some(reply(200, &namespace))
        }
        _ => None,
    }
}

fn token(query: &str) -> String {
    let count = query.split("continue=t").nth(1).unwrap_or_default();
    let digits: String = count.chars().take_while(char::is_ascii_digit).collect();
    format!("t{}", digits.parse::<u64>().unwrap_or_default() + 1)
}

fn object(name: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": version,
        "labels": {"kro.run/owned": "true"},
    }, "data": {"text": "x".repeat(512)}})
}

fn page(token: &str, count: usize, version: &str) -> Value {
    let items: Vec<Value> = (0..count)
        .map(|index| object(&format!("{token}-{index}"), version))
        .collect();
    json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": items,
        "metadata": {"resourceVersion": "10", "continue": token}})
}

/// A document that goes on for as long as somebody reads it.
fn endless(head: &'static str, part: &'static str) -> Response<Body> {
    let chunk = Bytes::from(part.repeat(16 * 1024 / part.len()));
    let head = futures::stream::iter([Bytes::from_static(head.as_bytes())]);
    stream(head.chain(futures::stream::repeat(chunk)))
}

fn redirect(url: &str) -> Response<Body> {
    let mut answer = bytes(302, Bytes::new());
    let value = url.parse().expect("a URL is a header's value");
    answer.headers_mut().insert("location", value);
    answer
}

fn other_kinds() -> Value {
    json!({"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": [
        {"apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": "root", "uid": "1"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "../../x", "namespace": "kube-system/../a"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "deletionTimestamp": "x"}},
    ]})
}

/// A page of objects that are 1.2 MB as text, and fifty times that once they are parsed.
fn huge_objects() -> Bytes {
    static PAGE: OnceLock<Bytes> = OnceLock::new();
    let made = PAGE.get_or_init(|| {
        let mut list = page("", 10, "10");
        for item in list["items"].as_array_mut().into_iter().flatten() {
            item["status"] = json!("numbers");
        }
        let numbers = format!("[0{}]", ",0".repeat(600_000));
        list.to_string().replace("\"numbers\"", &numbers).into()
    });
    made.clone()
}

/// Objects that claim to be of other clusters, instances and hubs.
fn foreign() -> Value {
    let claims = |name: &str| {
        let mut object = object(name, "10");
        object["metadata"]["annotations"] = json!({"kcp.io/cluster": "root",
            "internal.wheelhouse.dev/hub-uid": "1", "internal.wheelhouse.dev/author": "{}"});
        object["metadata"]["labels"] = json!({"kro.run/owned": "true",
            "kro.run/instance-name": "n0", "kro.run/instance-namespace": "default",
            "kro.run/instance-group": "kro.run", "kro.run/instance-version": "v1alpha1",
            "kro.run/instance-kind": "Note", "wheelhouse.dev/hub": "other"});
        object
    };
    let items: Vec<Value> = ["n0", "note-n0", "kube-root-ca.crt"].map(claims).into();
    json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": items,
        "metadata": {"resourceVersion": "10"}})
}

/// Every other answer says that there is nothing.
fn flicker(shared: &Arc<Shared>, path: &str) -> Option<Response<Body>> {
    let count = shared
        .asked_count
        .load(std::sync::atomic::Ordering::Relaxed);
    if count.is_multiple_of(2) {
        return None;
    }
    if path.contains("customresourcedefinitions") {
        return Some(super::status(404, "NotFound"));
    }
    let name = format!("g{count}.example.com");
    Some(reply(
        200,
        &json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "items": [{"metadata": {"name": name}, "versions": [{"version": "v1", "resources": []}]}]}),
    ))
}
