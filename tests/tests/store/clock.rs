//! R15: the wall clock jumps by days, to and fro. Nothing is ordered by it, nothing hangs, and what
//! expires does so by the clock as it stands.

use std::time::Duration;

use serde_json::json;
use storage_conformance::{Trial, histories::Workload};
use wheelhouse_tests::{
    Hub, eventually,
    hub::Settings,
    proof::{Api, Load, fault::Clock},
};

const R15: Trial = Trial("R15");

const JUMPS: usize = 30;
const DAY: Duration = Duration::from_hours(24);

const WORKLOAD: Workload = Workload {
    seed: 0,
    calls: usize::MAX,
    keys: 20,
    reads: 20,
    lists: 5,
};

/// Asks for a token of an hour.
async fn token(api: &Api) -> String {
    let path = "/api/v1/namespaces/proof/serviceaccounts";
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "teller"}});
    let (code, body) = post(api, path, &account).await;
    assert!(matches!(code, 201 | 409), "{body}");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "audiences": []},
    });
    let (code, body) = post(api, &format!("{path}/teller/token"), &request).await;
    assert_eq!(code, 201, "{body}");
    body["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned()
}

/// Whether a token counts now.
async fn counts(api: &Api, token: &str) -> bool {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    });
    let (code, body) = post(api, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    assert_eq!(code, 201, "{body}");
    body["status"]["authenticated"] == true
}

async fn post(api: &Api, path: &str, body: &serde_json::Value) -> (u16, serde_json::Value) {
    api.send("POST", path, "application/json", &body.to_string())
        .await
        .expect("the hub answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_a_clock_that_jumps_by_days_disorders_nothing() {
    let Some(clock) = Clock::new() else {
        return;
    };
    let seed = Trial::seeds(1)[0];
    let settings = Settings {
        environment: clock.environment(),
        ..Settings::default()
    };
    let mut hub = Hub::start_with(settings).await;
    let api = Api::connect(&hub.kubeconfig()).await;
    api.prepare().await;
    let mut load = Load::new(&api, seed);
    let after = load.revision().await;
    load.follow(after, 0);
    load.follow(after, 30);
    let running = load.clients(4, WORKLOAD);
    // Certificates are good from now on, so the clock moves between now and two days ahead.
    for _ in 0..JUMPS * Trial::factor() {
        let days = u32::try_from(load.random.below(3)).expect("it is small");
        clock.set(DAY * days);
        let enough = load.recorder.call_count() + 60;
        eventually("clients go on after a jump", || async {
            let count = load.recorder.call_count();
            (count >= enough)
                .then_some(())
                .ok_or_else(|| format!("{count} calls of {enough}"))
        })
        .await;
    }
    R15.must(seed, running.stop().await);

    clock.set(DAY);
    let token = token(&api).await;
    assert!(counts(&api, &token).await, "a new token counts");
    clock.set(DAY * 2);
    assert!(!counts(&api, &token).await, "it expires by the clock");
    clock.set(DAY);
    assert!(counts(&api, &token).await, "and only by the clock");
    lease(&api, &clock).await;
    event(&api, &clock).await;

    // A restart in the past: revisions go on all the same.
    clock.set(Duration::ZERO);
    hub.kill();
    load.recorder.death();
    hub.launch().await;
    api.reconnect(&hub.kubeconfig()).await;
    R15.must(seed, load.finish().await);
    let checked = R15.prove(seed, &load.recorder);
    println!("R15: {checked:?}");
}

/// A Lease is an object like others: it stays, whatever the clock says.
async fn lease(api: &Api, clock: &Clock) {
    let path = "/apis/coordination.k8s.io/v1/namespaces/proof/leases";
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "held"},
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 1},
    });
    let (code, body) = post(api, path, &lease).await;
    assert_eq!(code, 201, "{body}");
    clock.set(DAY * 2);
    let (code, body) = api
        .get(&format!("{path}/held"))
        .await
        .expect("the hub answers");
    assert_eq!(
        (code, &body["spec"]["holderIdentity"]),
        (200, &json!("one")),
        "{body}"
    );
    clock.set(DAY);
}

/// A new event is not taken for an old one because the clock has jumped back and forth.
async fn event(api: &Api, clock: &Clock) {
    let path = "/api/v1/namespaces/proof/events";
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "happened"},
        "involvedObject": {"kind": "Namespace", "name": "proof", "namespace": "proof"},
        "reason": "Tested", "type": "Normal",
    });
    clock.set(Duration::ZERO);
    clock.set(DAY);
    let (code, body) = post(api, path, &event).await;
    assert_eq!(code, 201, "{body}");
    let (code, body) = api
        .get(&format!("{path}/happened"))
        .await
        .expect("the hub answers");
    assert_eq!(code, 200, "{body}");
}
