//! Events are one line of JSON each, whatever clients say.

use std::sync::Arc;

use http::{HeaderValue, Method, request::Parts};
use serde_json::json;

use super::*;
use crate::{request::RequestInfo, route};

/// A request, as it arrives.
struct Sent {
    audit_id: HeaderValue,
    parts: Parts,
    info: Option<RequestInfo>,
    user: Option<Arc<UserInfo>>,
    address: Option<IpAddr>,
}

impl Sent {
    fn new(method: Method, uri: &str) -> Self {
        let request = http::Request::builder().method(method).uri(uri).body(());
        let (parts, ()) = request.expect("a request").into_parts();
        Self {
            audit_id: HeaderValue::from_static("id-1"),
            info: route::route(&parts.method, &parts.uri).ok(),
            parts,
            user: Some(Arc::new(UserInfo::authenticated("alice", ["dev"]))),
            address: None,
        }
    }

    fn asked(&self) -> Asked {
        let arrived = Arrived {
            audit_id: &self.audit_id,
            parts: &self.parts,
            info: self.info.as_ref(),
            user: self.user.as_ref(),
            address: self.address,
            at: Timestamp::from_microsecond(1_795_000_000_000_001).expect("a time"),
        };
        Asked::new(Level::Metadata, &arrived)
    }

    fn comes_from(&mut self, user_agent: &[u8]) {
        let value = HeaderValue::from_bytes(user_agent).expect("a header");
        self.parts.headers.insert(header::USER_AGENT, value);
    }
}

fn event(sent: &Sent, noted: &Noted, outcome: Option<&Outcome>) -> Value {
    let at = Timestamp::from_microsecond(1_795_000_000_500_000).expect("a time");
    let mut line = Vec::new();
    let stage = (Stage::ResponseComplete, at);
    write_line(&mut line, &sent.asked(), noted, outcome, stage);
    let (end, text) = line.split_last().expect("a line");
    assert_eq!(*end, b'\n');
    assert!(!text.contains(&b'\n'), "{}", String::from_utf8_lossy(text));
    serde_json::from_slice(text).expect("an event is JSON")
}

/// The form is what kube-apiserver 1.36.3 writes.
#[test]
fn an_event_has_the_fields_of_kubernetes() {
    let mut sent = Sent::new(
        Method::POST,
        "/clusters/east/api/v1/namespaces/default/configmaps?dryRun=All",
    );
    sent.address = "127.0.0.1".parse().ok();
    sent.comes_from(b"kubectl/v1.36.3");
    let mut noted = Noted {
        impersonated: Some(Arc::new(UserInfo::authenticated("bob", ["dev"]))),
        request: Some(b"{\"a\":1}".to_vec()),
        ..Noted::default()
    };
    noted.object.name = "one".to_owned();
    noted.decision = Some((true, "RBAC says so".into()));
    for (key, value) in [
        ("authorization.k8s.io/decision", "forbid"),
        ("wheelhouse.dev/cluster", "west"),
        ("a.example.com/b", "c"),
    ] {
        // What a webhook says does not stand in the place of what the hub says.
        noted.annotations.insert(key.into(), value.to_owned());
    }
    let status = Status::not_found(&api::GroupResource::new("", "configmaps"), "one");
    let outcome = Outcome::of_status(&status, 404);
    let groups = json!(["dev", "system:authenticated"]);
    let want = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "id-1",
        "stage": "ResponseComplete",
        "requestURI": "/clusters/east/api/v1/namespaces/default/configmaps?dryRun=All",
        "verb": "create",
        "user": {"username": "alice", "groups": groups},
        "impersonatedUser": {"username": "bob", "groups": groups},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "kubectl/v1.36.3",
        "objectRef": {"resource": "configmaps", "namespace": "default", "name": "one", "apiVersion": "v1"},
        "responseStatus": {
            "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
            "message": "configmaps \"one\" not found", "details": {"kind": "configmaps", "name": "one"},
        },
        "requestObject": {"a": 1},
        "requestReceivedTimestamp": "2026-11-18T11:06:40.000001Z",
        "stageTimestamp": "2026-11-18T11:06:40.500000Z",
        "annotations": {
            "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "RBAC says so",
            "a.example.com/b": "c", "wheelhouse.dev/cluster": "east",
        },
    });
    assert_eq!(event(&sent, &noted, Some(&outcome)), want);
    // A sender who is not known, and a path that is none.
    sent.user = None;
    sent.info = None;
    let event = event(&sent, &Noted::default(), None);
    assert_eq!(
        (&event["user"], &event["verb"]),
        (&json!({}), &json!("post"))
    );
    assert_eq!(event.get("annotations"), None);
}

#[test]
fn what_clients_say_ends_no_line_and_no_field() {
    let mut sent = Sent::new(
        Method::GET,
        "/api/v1/namespaces/x%0A%22,%22user%22:%22y/pods",
    );
    sent.user = Some(Arc::new(UserInfo::authenticated(
        "eve\n\"}{\"user\":\"admin\"",
        ["\u{2028}"],
    )));
    let long = format!("{}é", "u".repeat(USER_AGENT_BYTES_MAX - 1));
    sent.comes_from(long.as_bytes());
    sent.audit_id = HeaderValue::from_bytes(b"\xff\"").expect("a header");
    let found = event(&sent, &Noted::default(), None);
    assert_eq!(found["user"]["username"], "eve\n\"}{\"user\":\"admin\"");
    assert_eq!(found["objectRef"]["namespace"], "x\n\",\"user\":\"y");
    let cut = format!("{}{CUT}", "u".repeat(USER_AGENT_BYTES_MAX - 1));
    assert_eq!(found["userAgent"], cut);
}

#[test]
fn times_have_six_digits_of_a_second() {
    for (microsecond, want) in [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_795_000_000_000_001, "2026-11-18T11:06:40.000001Z"),
        (253_402_207_199_999_999, "9999-12-30T21:59:59.999999Z"),
    ] {
        let time = Timestamp::from_microsecond(microsecond).expect("a time");
        assert_eq!(String::from_utf8_lossy(&time_text(time)), want);
        assert_eq!(format!("{time:.6}"), want);
    }
}

#[test]
fn tokens_in_a_query_are_left_out() {
    for (query, want) in [
        ("a=b&watch=true", "a=b&watch=true"),
        ("access_token=secret", "access_token=REDACTED"),
        ("a=1&Token=secret&b=2", "a=1&Token=REDACTED&b=2"),
        ("%74oken=secret&x", "%74oken=REDACTED&x"),
        ("id_token=a=b", "id_token=REDACTED"),
        ("continue=secret&tokens=x", "continue=secret&tokens=x"),
    ] {
        let found = event(
            &Sent::new(Method::GET, &format!("/version?{query}")),
            &Noted::default(),
            None,
        );
        assert_eq!(found["requestURI"], format!("/version?{want}"));
    }
}

#[test]
fn addresses_are_those_that_proxies_say_and_the_other_end() {
    let mut sent = Sent::new(Method::GET, "/version");
    sent.address = "127.0.0.1".parse().ok();
    for (forwarded, real, want) in [
        ("", "", vec!["127.0.0.1"]),
        (
            "1.2.3.4, bogus",
            "5.6.7.8",
            vec!["1.2.3.4", "5.6.7.8", "127.0.0.1"],
        ),
        (
            "1.2.3.4,5.6.7.8",
            "1.2.3.4",
            vec!["1.2.3.4", "5.6.7.8", "127.0.0.1"],
        ),
        ("1.2.3.4, 127.0.0.1", "", vec!["1.2.3.4", "127.0.0.1"]),
    ] {
        let headers = &mut sent.parts.headers;
        headers.clear();
        for (name, value) in [("x-forwarded-for", forwarded), ("x-real-ip", real)] {
            headers.insert(name, HeaderValue::from_static(value));
            headers.append(name, HeaderValue::from_static("9.9.9.9"));
        }
        let found = event(&sent, &Noted::default(), None);
        assert_eq!(found["sourceIPs"], json!(want));
    }
    let many = HeaderValue::from_str(&"1.1.1.1,".repeat(10_000)).expect("a header");
    sent.address = None;
    sent.parts.headers = HeaderMap::from_iter([(HeaderName::from_static("x-forwarded-for"), many)]);
    let found = event(&sent, &Noted::default(), None);
    let found = found["sourceIPs"].as_array().map(Vec::len);
    assert_eq!(found, Some(ADDRESS_COUNT_MAX));
    sent.parts.headers.clear();
    let found = event(&sent, &Noted::default(), None);
    assert_eq!(found.get("sourceIPs"), None);
}

#[test]
fn a_status_is_cut_to_what_a_line_can_hold() {
    let cause =
        json!({"reason": "FieldValueInvalid", "message": "é".repeat(1 << 16), "field": "a"});
    let status = json!({
        "kind": "Status", "message": "x".repeat(1 << 20), "reason": "Invalid",
        "details": {"name": "n".repeat(1 << 20), "causes": vec![cause; 1000]},
    });
    let status = untyped(status);
    let texts = |value: &Value| value.as_str().map(str::len);
    let want = Some(4096 + CUT.len());
    assert_eq!(texts(&status["message"]), want);
    assert_eq!(texts(&status["details"]["name"]), want);
    let causes = status["details"]["causes"].as_array().expect("causes");
    assert_eq!(causes.len(), 64);
    assert_eq!(texts(&causes[63]["message"]), want);
    assert_eq!(status["reason"], "Invalid", "what is short stays");
}

#[test]
fn a_text_that_is_written_as_it_is_needs_no_escape() {
    for before in 0..10 {
        for byte in 0..=u8::MAX {
            let mut text = vec![b'a'; before];
            text.push(byte);
            text.extend_from_slice(&b"\xff\x80\x7f ~"[..before.min(5)]);
            let want = byte >= b' ' && byte != b'"' && byte != b'\\';
            assert_eq!(is_plain(&text), want, "{text:?}");
        }
    }
}
