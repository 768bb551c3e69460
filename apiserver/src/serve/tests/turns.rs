//! Connections and requests take the turns of their user.

use std::pin::pin;

use futures::{
    FutureExt as _, StreamExt as _,
    future::{Either, select},
    stream::FuturesUnordered,
};
use tokio::sync::OwnedSemaphorePermit;

use super::*;
use crate::request::UserInfo;

/// All places of alice, who has sent a request.
async fn all_places_of_alice(served: &Served) -> OwnedSemaphorePermit {
    let mut alice = UserInfo::authenticated("alice", ["dev"]);
    alice.uid = "1".to_owned();
    let places = served.hub.share_of(&alice).places();
    let count = u32::try_from(places.available_permits()).unwrap();
    places.acquire_many_owned(count).await.unwrap()
}

#[tokio::test]
async fn who_has_no_place_waits_over_any_protocol_and_nobody_else_does() {
    let served = Served::start().await;
    let mut admin = served.http2(Some(served.admin())).await;
    let mut alice2 = served.http2(None).await;
    let stream = served.connect(None, b"http/1.1").await;
    let (mut alice1, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    drop(served.tasks.spawn("client", connection));
    let own = || {
        get(
            "/api/v1/namespaces",
            &[("authorization", "Bearer secret"), ("host", "127.0.0.1")],
        )
    };
    // The hub knows whose the connections are, and that there is more than one user.
    let code = admin.send_request(get("/api/v1/namespaces", &[])).await;
    assert_eq!(code.unwrap().status(), 200);
    assert_eq!(alice2.send_request(own()).await.unwrap().status(), 403);
    let first = alice1.send_request(own()).await.unwrap();
    assert_eq!(first.status(), 403);
    drop(text_of(first).await);
    let taken = all_places_of_alice(&served).await;
    let mut answers = FuturesUnordered::from_iter([
        alice1.send_request(own()).boxed(),
        alice2.send_request(own()).boxed(),
    ]);
    let others = pin!(async {
        for _ in 0..50 {
            let answer = admin.send_request(get("/api/v1/namespaces", &[])).await;
            let answer = answer.unwrap();
            assert_eq!(answer.status(), 200);
            drop(text_of(answer).await);
        }
    });
    match select(pin!(answers.next()), others).await {
        Either::Left((answer, _)) => panic!("alice was answered without a place: {answer:?}"),
        Either::Right(((), _waiting)) => {}
    }
    drop(taken);
    let answers: Vec<_> = answers.collect().await;
    assert_eq!(answers.len(), 2, "of either protocol");
    for answer in answers {
        assert_eq!(answer.unwrap().status(), 403, "it is answered then");
    }
    served.stop().await;
}
