use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::FutureExt as _;
use serde_json::json;

use super::*;
use crate::{Spokes, TroubleKind};

const KUBECONFIG: &str = "{current-context: a, clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], \
     users: [{name: a, user: {token: t}}], contexts: [{name: a, context: {cluster: a, user: a}}]}";

fn secret(spoke: &str, kubeconfig: &str) -> String {
    let secret = json!({
        "metadata": {"namespace": "n", "name": "s", "labels": {wheelhouse::keys::LABEL_SPOKE_SECRET: spoke}},
        "data": {"kubeconfig": STANDARD.encode(kubeconfig)},
    });
    secret.to_string()
}

/// Some spokes whose hub answers each read of a Secret as `answer` says, and their controller.
fn controller(answer: fn(&str) -> (u16, String)) -> (Spokes, Controller) {
    let hub = client::in_process(tower::service_fn(
        move |request: http::Request<kube::client::Body>| async move {
            let (code, text) = answer(request.uri().path());
            let body = http_body_util::Full::new(bytes::Bytes::from(text));
            let mut response = http::Response::new(body);
            *response.status_mut() = http::StatusCode::from_u16(code).expect("a code");
            Ok::<_, std::convert::Infallible>(response)
        },
    ));
    let spokes = Spokes::new(Dialer::default());
    let hub = Dynamic::new(hub);
    let controller = Controller::new(&hub, &spokes, &Tasks::new());
    (spokes, controller)
}

/// Reconciles all that is due now.
async fn settle(controller: &Controller) {
    while let Some(spoke) = controller.queue.next().now_or_never() {
        controller.reconcile(&spoke).await;
        controller.queue.done(&spoke);
    }
}

fn cluster(name: &str) -> LogicalCluster {
    name.parse().expect("a name")
}

fn spoke(name: &str, secret: &str, status: &serde_json::Value) -> Arc<RawObject> {
    let object = json!({
        "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke",
        "metadata": {"name": name, "uid": name, "generation": 1},
        "spec": {"connection": {"secretRef": {"namespace": "n", "name": secret}}},
        "status": status,
    });
    Arc::new(RawObject::from_value(&object).expect("an object"))
}

fn east(status: &serde_json::Value) -> Arc<RawObject> {
    spoke("east", "good", status)
}

fn list(objects: Vec<Arc<RawObject>>) -> Event {
    Event::Restarted {
        objects,
        resource_version: "1".to_owned(),
        latest_as_of: None,
    }
}

/// The story: Spoke `aaa` had a malformed kubeconfig, and the path of every spoke that sorts after it was 503.
#[tokio::test]
async fn a_spoke_that_cannot_be_connected_is_in_no_other_spokes_way() {
    let (spokes, controller) = controller(|path| match path.rsplit('/').next() {
        Some("malformed") => (200, secret("aaa", "{{{ not a kubeconfig")),
        Some("broken") => (500, String::new()),
        // The second is another spoke's.
        Some("good" | "of-another") => (200, secret("east", KUBECONFIG)),
        _ => (404, String::new()),
    });
    let named = [
        ("aaa", "malformed"),
        ("aab", "broken"),
        ("aac", "absent"),
        ("aad", "of-another"),
        ("east", "good"),
    ];
    let objects = named.map(|(name, secret)| spoke(name, secret, &json!({})));
    controller.take(list(objects.into()));
    settle(&controller).await;
    assert!(spokes.route(&cluster("east")).is_ok(), "it is connected");
    for (name, want) in [
        ("aaa", "secret n/malformed: kubeconfig: "),
        ("aab", "its connection is being made"),
        ("aac", "secret n/absent is missing"),
        ("aad", "may not be used for spoke \"aad\""),
    ] {
        let fault = spokes.route(&cluster(name)).expect_err("it is not");
        assert!(fault.to_string().contains(want), "{name}: {fault}");
    }
    let retried: Vec<LogicalCluster> = controller.pauses.lock().keys().cloned().collect();
    assert_eq!(retried, [cluster("aab")], "the hub failed, not the spoke");
}

#[tokio::test]
async fn the_path_and_the_syncer_are_told_of_one_link_and_of_its_end() {
    let (spokes, controller) = controller(|_| (200, secret("east", KUBECONFIG)));
    let changes = spokes.subscribe();
    assert!(changes.next().now_or_never().is_none(), "nothing is known");
    controller.take(list(vec![east(&json!({}))]));
    settle(&controller).await;
    assert_eq!(changes.next().await, [cluster("east")].into());
    assert!(changes.next().now_or_never().is_none(), "it was told once");
    let entry = spokes.get(&cluster("east")).expect("it is known");
    let link = spokes.route(&cluster("east")).expect("it is connected");
    assert!(entry.is_current() && entry.state == State::Connected(Arc::clone(&link)));
    // Another look at the same changes nothing.
    controller.queue.add(cluster("east"));
    settle(&controller).await;
    assert!(
        changes.next().now_or_never().is_none(),
        "it is the same link"
    );
    let suspended = json!({"metadata": {"name": "east", "uid": "east", "generation": 2},
        "spec": {"suspended": true}});
    let suspended = RawObject::from_value(&suspended).expect("an object");
    controller.take(Event::Applied(Arc::new(suspended)));
    assert!(link.has_ended(), "it is suspended");
    assert_eq!(spokes.route(&cluster("east")).err(), Some(Fault::Suspended));
    settle(&controller).await;
    assert_eq!(spokes.route(&cluster("east")).err(), Some(Fault::Suspended));
    controller.take(list(Vec::new()));
    assert!(spokes.get(&cluster("east")).is_none(), "it is gone");
    assert_eq!(changes.next().await, [cluster("east")].into());
}

/// The story: a provider that hung for a minute gave its answer for a Spoke that was another one by then.
#[tokio::test]
async fn what_a_provider_answers_late_counts_for_the_spoke_that_it_was_asked_for_alone() {
    let (spokes, controller) = controller(|_| (200, secret("east", KUBECONFIG)));
    let name = cluster("east");
    let connected = async || {
        controller.queue.add(name.clone());
        settle(&controller).await;
        spokes.route(&name).expect("it is connected")
    };
    controller.take(list(vec![east(&json!({}))]));
    let late = State::Connected(connected().await);
    let asked_for = controller.table.known(&name).expect("it is known");
    let of = |uid: &str, generation: i64, suspended: bool| {
        let object = json!({"apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke",
            "metadata": {"name": "east", "uid": uid, "generation": generation},
            "spec": {"suspended": suspended,
                "connection": {"secretRef": {"namespace": "n", "name": "good"}}}});
        Arc::new(RawObject::from_value(&object).expect("an object"))
    };
    controller.take(Event::Applied(of("east", 2, true)));
    controller.table.settle(&name, &asked_for, late.clone());
    assert_eq!(spokes.route(&name).err(), Some(Fault::Suspended));
    controller.take(Event::Applied(of("east", 3, false)));
    controller.table.settle(&name, &asked_for, late.clone());
    assert_eq!(spokes.route(&name).err(), Some(Fault::Suspended));
    assert!(!connected().await.has_ended(), "it goes on");
    let link = connected().await;
    // The watch did not see that it was deleted.
    controller.take(list(vec![of("another", 1, false)]));
    assert!(link.has_ended(), "it was the other one's");
    controller.table.settle(&name, &asked_for, late);
    assert_eq!(spokes.route(&name).err(), Some(Fault::Pending));
    assert!(!connected().await.has_ended(), "it has its own");
}

#[tokio::test]
async fn a_cluster_that_is_another_one_has_no_path_and_its_namespaces_do_not_count() {
    let (spokes, controller) = controller(|_| (200, secret("east", KUBECONFIG)));
    let verdict = |status: &str| json!({"conditions": [{"type": "Identified", "status": status, "message": "it is west"}]});
    controller.take(list(vec![east(&json!({}))]));
    settle(&controller).await;
    let link = spokes.route(&cluster("east")).expect("it is connected");
    assert!(link.namespaces().are_followed());
    controller.take(Event::Applied(east(&verdict("False"))));
    let fault = spokes.route(&cluster("east")).expect_err("it is refused");
    assert_eq!(fault.to_string(), "it is west");
    assert!(!link.namespaces().are_followed());
    let entry = spokes.get(&cluster("east")).expect("it is known");
    assert!(
        entry.state == State::Connected(Arc::clone(&link)),
        "it is asked again which one it is"
    );
    controller.take(Event::Applied(east(&verdict("True"))));
    assert!(spokes.route(&cluster("east")).is_ok());
    assert!(link.namespaces().are_followed());
}

#[tokio::test]
async fn a_spoke_that_is_back_wakes_the_watch_of_its_namespaces() {
    let reachable = |status: &str| json!({"conditions": [{"type": "Reachable", "status": status}]});
    for (before, now, want) in [
        ("False", "True", true),
        ("Unknown", "True", true),
        ("True", "True", false),
        ("True", "False", false),
        ("False", "False", false),
    ] {
        let (spokes, controller) = controller(|_| (200, secret("east", KUBECONFIG)));
        controller.take(list(vec![east(&reachable(before))]));
        settle(&controller).await;
        let link = spokes.route(&cluster("east")).expect("it is connected");
        let wakes = link.namespaces().wake_count();
        controller.take(Event::Applied(east(&reachable(now))));
        let woken = link.namespaces().wake_count() > wakes;
        assert_eq!(woken, want, "{before} to {now}");
    }
}

#[tokio::test]
async fn an_answer_after_trouble_wakes_it_too_and_the_trouble_has_one_beginning() {
    let (spokes, controller) = controller(|_| (200, secret("east", KUBECONFIG)));
    controller.take(list(vec![east(&json!({}))]));
    settle(&controller).await;
    let link = spokes.route(&cluster("east")).expect("it is connected");
    link.answered();
    assert_eq!(link.namespaces().wake_count(), 0, "no trouble");
    link.failed("refused".to_owned(), "then");
    let trouble = link.note_trouble(TroubleKind::Silent, "no answer".to_owned(), "now");
    assert_eq!(trouble.to_string(), "unreachable since then: no answer");
    let trouble = link.note_trouble(TroubleKind::Refused, "another cluster".to_owned(), "now");
    assert_eq!(
        trouble.to_string(),
        "not used since then: another cluster",
        "it answers"
    );
    assert!(
        link.probe().notified().now_or_never().is_some(),
        "its status is to say so"
    );
    link.answered();
    assert_eq!(link.namespaces().wake_count(), 1, "it is back");
}
