use http::Request;

use super::*;
use crate::route;

const EXEC: &str = "/clusters/east/api/v1/namespaces/x/pods/y/exec?command=sh";

fn asked_of(request: http::request::Builder) -> Option<Protocol> {
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let info = route::route(&parts.method, &parts.uri).unwrap();
    asked(&parts, &info)
}

#[test]
fn streams_are_asked_for_by_name_where_there_are_some() {
    let websocket = |path: &str| {
        let request = Request::get(path).header("connection", "Upgrade");
        asked_of(request.header("upgrade", "WebSocket"))
    };
    let pod = "/clusters/east/api/v1/namespaces/x/pods/y";
    for (path, has_streams) in [
        (EXEC.to_owned(), true),
        (format!("{pod}/portforward"), true),
        (format!("{pod}/proxy/socket"), true),
        ("/clusters/east/api/v1/pods?watch=true".to_owned(), true),
        (
            "/clusters/east/apis/a.b/v1/namespaces/x/vms/y/console".to_owned(),
            true,
        ),
        (pod.to_owned(), false),
        ("/clusters/east/api/v1/pods".to_owned(), false),
        ("/clusters/east/version".to_owned(), false),
        ("/clusters/east/openapi/v3".to_owned(), false),
    ] {
        assert_eq!(websocket(&path).is_some(), has_streams, "{path}");
    }
}

/// What is not asked for in so many words is answered in HTTP. HTTP itself must never be switched to: its requests would be the hub's.
#[test]
fn nothing_else_is_a_stream() {
    let get = || Request::get(EXEC);
    for (name, request, want) in [
        (
            "websocket",
            get()
                .header("connection", "upgrade")
                .header("upgrade", "websocket"),
            Some(Protocol::WebSocket),
        ),
        (
            "SPDY",
            get()
                .header("connection", "keep-alive, Upgrade")
                .header("upgrade", "spdy/3.1"),
            Some(Protocol::Spdy),
        ),
        (
            "a list",
            get()
                .header("connection", "upgrade")
                .header("upgrade", "h2c, websocket"),
            Some(Protocol::WebSocket),
        ),
        (
            "HTTP/2 without TLS",
            get()
                .header("connection", "upgrade")
                .header("upgrade", "h2c"),
            None,
        ),
        (
            "TLS",
            get()
                .header("connection", "upgrade")
                .header("upgrade", "TLS/1.3, HTTP/1.1"),
            None,
        ),
        ("no Connection", get().header("upgrade", "websocket"), None),
        ("no Upgrade", get().header("connection", "upgrade"), None),
        (
            "HTTP/1.0",
            get()
                .version(Version::HTTP_10)
                .header("connection", "upgrade")
                .header("upgrade", "websocket"),
            None,
        ),
        (
            "HTTP/2",
            get()
                .version(Version::HTTP_2)
                .header("connection", "upgrade")
                .header("upgrade", "websocket"),
            None,
        ),
    ] {
        assert_eq!(asked_of(request), want, "{name}");
    }
}

#[test]
fn a_request_with_a_body_asks_for_nothing_else() {
    let spdy = |method: &str, body: RequestBody, chunked: bool| {
        let request = Request::builder().method(method).uri(EXEC);
        let request = if chunked {
            request.header("transfer-encoding", "chunked")
        } else {
            request
        };
        let (parts, ()) = request.body(()).unwrap().into_parts();
        check(&parts, Protocol::Spdy, &body)
    };
    assert!(spdy("POST", RequestBody::empty(), false).is_ok());
    assert!(spdy("GET", RequestBody::empty(), false).is_ok());
    for refused in [
        spdy("POST", RequestBody::full("GET / HTTP/1.1"), false),
        spdy("POST", RequestBody::empty(), true),
        spdy("DELETE", RequestBody::empty(), false),
    ] {
        let refusal = refused.unwrap_err();
        assert_eq!(refusal.status().unwrap().code, 400);
    }
}
