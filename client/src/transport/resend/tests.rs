use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::dynamic::Endpoint;
use crate::testing::{Server, json as answer};

fn pieces(pieces: &[&'static [u8]]) -> Resendable {
    let pieces: Vec<_> = pieces.iter().map(|it| Bytes::from_static(it)).collect();
    let frames = pieces.into_iter().map(|it| Ok(Frame::data(it)));
    let body = StreamBody::new(futures::stream::iter(frames));
    Resendable::new(body.boxed_unsync())
}

async fn all(attempt: Attempt) -> Bytes {
    attempt.collect().await.expect("a body").to_bytes()
}

#[tokio::test]
async fn a_body_is_sent_again_from_its_beginning() {
    let body = pieces(&[b"one ", b"two ", b"three"]);
    let mut first = body.attempt();
    let frame = first
        .frame()
        .await
        .expect("there is more")
        .expect("a frame");
    assert_eq!(frame.into_data().ok().as_deref(), Some(&b"one "[..]));
    assert!(body.rewind());
    assert_eq!(all(body.attempt()).await, "one two three");
    assert!(body.rewind());
    let last = body.attempt();
    assert_eq!(last.size_hint().lower(), 13);
    assert_eq!(all(last).await, "one two three");
    let late = first.frame().await.expect("it says so");
    late.expect_err("what was given up takes nothing from its successor");
}

#[tokio::test]
async fn of_a_long_stream_nothing_is_kept() {
    const LONG: &[u8] = &[b'x'; KEPT_BYTES_MAX];
    let body = pieces(&[LONG, b"more"]);
    assert_eq!(all(body.attempt()).await.len(), LONG.len() + 4);
    assert!(!body.rewind(), "it cannot be sent again");
    let whole = Full::new(Bytes::from(vec![b'x'; 8 * KEPT_BYTES_MAX]));
    let whole = Resendable::new(whole.map_err(|never| match never {}).boxed_unsync());
    assert_eq!(all(whole.attempt()).await.len(), 8 * KEPT_BYTES_MAX);
    assert!(whole.rewind(), "one that is in memory as a whole can");
    assert_eq!(
        whole.attempt().size_hint().exact(),
        Some(8 * KEPT_BYTES_MAX as u64)
    );
}

/// Speaks HTTP/2 as far as a client waits for it, and lets a GOAWAY cross with its request.
async fn go_away(mut stream: crate::testing::TlsStream) {
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    const NONE_TAKEN: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    stream.write_all(SETTINGS).await.expect("the client reads");
    // The preface and its settings come with the first request, or before it.
    let mut seen = Vec::new();
    let has_headers = |seen: &[u8]| {
        let mut frames = seen.get(24..).unwrap_or_default();
        while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
            if *kind == 1 {
                return true;
            }
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            frames = rest.get(length..).unwrap_or_default();
        }
        false
    };
    while !has_headers(&seen) {
        let read = stream.read_buf(&mut seen).await.expect("it sends on");
        assert!(read > 0, "it has asked nothing");
    }
    stream
        .write_all(NONE_TAKEN)
        .await
        .expect("the client reads");
    stream.flush().await.expect("the client reads");
    // Open until the client has had it.
    while stream.read_buf(&mut seen).await.is_ok_and(|read| read > 0) {}
}

#[tokio::test]
async fn a_write_that_crosses_with_a_goaway_is_sent_again() {
    let server = Server::start_grudging(2, go_away, |request| {
        Box::pin(async move {
            let body = request.into_body().collect().await.expect("a body");
            answer(
                201,
                &serde_json::from_slice(&body.to_bytes()).expect("JSON"),
            )
            .await
        })
    })
    .await;
    let calls = crate::Dynamic::new(server.connect().await.client());
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let endpoint = Endpoint {
        scope: None,
        gvr: api::GroupVersionResource::new("", "v1", "configmaps"),
        namespace: Some("default".to_owned()),
    };
    let made = calls.create(&endpoint, &object).await.expect("it was made");
    assert_eq!(api::meta::name(&made), "a");
    assert_eq!(server.lines().len(), 1, "once");
    assert_eq!(server.connection_count(), 3);
}

#[tokio::test]
async fn a_server_that_takes_nothing_is_not_asked_for_ever() {
    let server = Server::start_grudging(usize::MAX, go_away, |_| answer(200, &json!({}))).await;
    let calls = crate::Dynamic::new(server.connect().await.client());
    let refused = calls.raw_get("/version").await;
    refused.expect_err("it is given up");
    assert!(
        server.connection_count() <= 8,
        "{}",
        server.connection_count()
    );
}
