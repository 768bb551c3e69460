//! What goes out.

use std::{io::Read, sync::Arc};

use api::status::Status;
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{negotiate::Shape, request::Ending};

const PRETTY: Negotiated = Negotiated {
    pretty: true,
    ..Negotiated::JSON
};
const YAML: Negotiated = Negotiated {
    encoding: Encoding::Yaml,
    shape: Shape::Object,
    pretty: false,
};

async fn body_of(response: Response) -> Vec<u8> {
    response
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes()
        .to_vec()
}

#[tokio::test]
async fn stored_bytes_go_out_as_they_are_unless_another_form_is_asked_for() {
    let stored = br#"{"b":1,  "a":[]}"#;
    for (name, form, want) in [
        (
            "json",
            Negotiated::JSON,
            String::from_utf8(stored.to_vec()).unwrap(),
        ),
        (
            "pretty",
            PRETTY,
            "{\n  \"a\": [],\n  \"b\": 1\n}\n".to_owned(),
        ),
        ("yaml", YAML, "a: []\nb: 1\n".to_owned()),
    ] {
        let response = json(StatusCode::OK, form, Bytes::from_static(stored));
        assert_eq!(
            String::from_utf8(body_of(response).await).unwrap(),
            want,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_refusal_is_a_status_with_its_code_and_its_retry_time() {
    let refusal = Refusal::new(Status::too_many_requests(7));
    let response = refuse(&refusal, Negotiated::JSON, "");
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "7");
    assert_eq!(response.headers()["content-type"], "application/json");
    let status: Value = serde_json::from_slice(&body_of(response).await).unwrap();
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["apiVersion"], "v1");
    assert_eq!(status["code"], 429);
}

#[tokio::test]
async fn an_unknown_path_is_answered_in_plain_text() {
    let response = refuse(&Refusal::no_such_path(), YAML, "");
    assert_eq!(response.status(), 404);
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; charset=utf-8"
    );
    assert_eq!(body_of(response).await, b"404 page not found\n");
}

#[test]
fn a_redirect_stays_below_the_prefix() {
    let refusal = Refusal::moved_to("/openapi/v3/api/v1?hash=A".to_owned());
    let response = refuse(&refusal, Negotiated::JSON, "/clusters/east");
    assert_eq!(response.status(), 301);
    assert_eq!(
        response.headers()["location"],
        "/clusters/east/openapi/v3/api/v1?hash=A"
    );
}

#[test]
fn the_cause_of_a_fault_is_not_shown() {
    let refusal = Refusal::internal("disk on fire");
    assert!(
        !refusal.status().unwrap().message.contains("fire"),
        "{refusal}"
    );
    assert_eq!(refusal.cause().unwrap().to_string(), "disk on fire");
}

#[tokio::test]
async fn only_large_bodies_are_compressed_and_only_when_asked() {
    let small = vec![b'a'; 128 * 1024];
    let large = vec![b'a'; 128 * 1024 + 1];
    for (name, body, gzip, want) in [
        ("small", &small, true, false),
        ("large", &large, true, true),
        ("large, not asked", &large, false, false),
    ] {
        let mut response = with_type(StatusCode::OK, "application/json", Body::full(body.clone()));
        finish(&mut response, &HeaderValue::from_static("id"), &[], gzip);
        let compressed = response.headers().get("content-encoding").is_some();
        assert_eq!(compressed, want, "{name}");
        let sent = body_of(response).await;
        let read = if compressed {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&sent[..])
                .read_to_end(&mut plain)
                .unwrap();
            plain
        } else {
            sent
        };
        assert_eq!(&read, body, "{name}");
    }
}

#[tokio::test]
async fn a_list_is_compressed_piece_by_piece() {
    let pieces: Vec<Bytes> = (0..1000)
        .map(|n| Bytes::from(format!("{n},").repeat(100)))
        .collect();
    let want: Vec<u8> = pieces.iter().flatten().copied().collect();
    let mut response = json_chunks(Negotiated::JSON, pieces, Some(want.len() as u64));
    finish(&mut response, &HeaderValue::from_static("id"), &[], true);
    let sent = body_of(response).await;
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&sent[..])
        .read_to_end(&mut plain)
        .unwrap();
    assert_eq!(plain, want);
}

#[tokio::test]
async fn a_watch_ends_cleanly_when_the_server_drains() {
    let end = CancellationToken::new();
    let events = futures::stream::pending::<Bytes>();
    let mut body = Body::stream(events, Ending::of(end.clone()));
    end.cancel();
    assert!(body.frame().await.is_none(), "the body has not ended");
}

#[tokio::test]
async fn a_watch_that_may_not_go_on_says_why_and_ends() {
    let (end, reason) = (CancellationToken::new(), Arc::default());
    let events = futures::stream::pending::<Bytes>();
    let ending = Ending::with_reason(end.clone(), Arc::clone(&reason));
    let mut body = Body::stream_with(events, ending, error_event);
    reason.set(Box::new(Status::unauthorized())).unwrap();
    end.cancel();
    let last = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&last).unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(event["object"]["code"], 401);
    assert!(last.ends_with(b"\n"), "{last:?}");
    assert!(body.frame().await.is_none(), "the body has not ended");
}

#[test]
fn every_answer_has_an_audit_id_and_says_whether_it_may_be_cached() {
    let mut response = text(StatusCode::OK, "ok");
    finish(&mut response, &HeaderValue::from_static("id-1"), &[], false);
    assert_eq!(response.headers()["audit-id"], "id-1");
    assert_eq!(response.headers()["cache-control"], "no-cache, private");
    let mut response = text(StatusCode::OK, "ok");
    response
        .headers_mut()
        .insert("cache-control", HeaderValue::from_static("public"));
    finish(&mut response, &HeaderValue::from_static("id-1"), &[], false);
    assert_eq!(response.headers()["cache-control"], "public");
}

#[test]
fn warnings_are_quoted_and_cut() {
    let mut headers = HeaderMap::new();
    warning::add(&mut headers, &["say \"hi\" \\ \u{7}now".to_owned()]);
    assert_eq!(headers["warning"], r#"299 - "say \"hi\" \\ now""#);
    let mut headers = HeaderMap::new();
    warning::add(&mut headers, &["a".repeat(4000), "b".repeat(4000)]);
    let lengths: Vec<usize> = headers
        .get_all("warning")
        .iter()
        .map(HeaderValue::len)
        .collect();
    assert_eq!(lengths, [256 + 8, 256 + 8]);
}

#[test]
fn gzip_is_taken_where_it_is_named() {
    for (sent, want) in [
        ("gzip", true),
        ("deflate, gzip;q=0.5", true),
        ("gzip;q=0", false),
        ("identity", false),
        ("", false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("accept-encoding", sent.parse().unwrap());
        assert_eq!(accepts_gzip(&headers), want, "{sent}");
    }
    assert!(!accepts_gzip(&HeaderMap::new()), "no header");
}
