//! R07: whatever a client was told before a restart, no answer after it is older.

use std::time::Duration;

use serde_json::Value;
use storage::Revision;
use storage_conformance::{
    Trial,
    histories::{Subject, Workload},
};
use wheelhouse_tests::{
    Hub,
    proof::{Api, Load, api::revision},
};

const R07: Trial = Trial("R07");

const RESTARTS: usize = 5;

const WORKLOAD: Workload = Workload {
    seed: 0,
    calls: usize::MAX,
    keys: 30,
    reads: 20,
    lists: 5,
};

/// Reads by every rule of `resourceVersion` of a client that has seen `known`.
async fn reads(api: &Api, known: Revision) {
    let all = api.collection().to_owned();
    let at_least = [
        all.clone(),
        format!("{all}?resourceVersion=0"),
        format!("{all}?resourceVersion=0&limit=5"),
        format!("{all}?resourceVersion={known}"),
        format!("{all}?resourceVersion={known}&resourceVersionMatch=NotOlderThan"),
    ];
    for path in &at_least {
        let (code, list) = answered(api, path).await;
        assert_eq!(code, 200, "{path}: {list}");
        let told = revision(&list).expect("a list has a revision");
        assert!(told >= known, "{path} answers {told} after {known}");
    }
    let exact = format!("{all}?resourceVersion={known}&resourceVersionMatch=Exact");
    let (code, list) = answered(api, &exact).await;
    assert_eq!((code, revision(&list)), (200, Some(known)), "{list}");
    // A revision that was never told must not be answered with something older.
    let future = Revision(known.0 + 1_000_000);
    let (code, status) = answered(api, &format!("{all}?resourceVersion={future}")).await;
    assert_eq!(code, 504, "{status}");
    assert_eq!(status["reason"], "Timeout", "{status}");
    let cause = status["details"]["causes"][0]["reason"].as_str();
    assert_eq!(cause, Some("ResourceVersionTooLarge"), "{status}");
}

async fn answered(api: &Api, path: &str) -> (u16, Value) {
    api.get(path).await.expect("the hub answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_no_read_after_a_restart_goes_back_in_time() {
    let seed = Trial::seeds(1)[0];
    let mut hub = Hub::start().await;
    let api = Api::connect(&hub.kubeconfig()).await;
    api.prepare().await;
    let mut load = Load::new(&api, seed);
    let after = load.revision().await;
    for restlessness in [0, 0, 50] {
        load.follow(after, restlessness);
    }
    for _ in 0..RESTARTS * Trial::factor() {
        let running = load.clients(4, WORKLOAD);
        let enough = load.recorder.call_count() + 100 + load.random.below(300);
        while load.recorder.call_count() < enough {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        hub.kill();
        R07.must(seed, running.done().await);
        load.recorder.death();
        // The newest that any client or watch was told; a watch may know what no answer said.
        let known = load.recorder.newest();
        hub.launch().await;
        api.reconnect(&hub.kubeconfig()).await;
        reads(&api, known).await;
        // What was listed in pages goes on where it was, over the restart.
        let first = api.list(None, 3).await.expect("the hub lists");
        hub.kill();
        load.recorder.death();
        hub.launch().await;
        api.reconnect(&hub.kubeconfig()).await;
        let second = api
            .list(Some(&first), 1000)
            .await
            .expect("the token is still good");
        assert_eq!(second.revision, first.revision, "pages are of one state");
    }
    R07.must(seed, load.finish().await);
    let checked = R07.prove(seed, &load.recorder);
    println!("R07: {checked:?}");
}
