//! A credential that is replaced, and a spoke that is away: what works goes on, and nobody waits for what does not.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{DeleteRequest, Dynamic, Endpoint, Patch};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use wheelhouse_tests::{FakeSpoke, Hub, eventually, fake_spoke::Mode};

use super::{
    hostile_spoke::{define, make},
    joined::{answered, calls, condition, endpoint, join, read, spokes, until},
};

/// Requests that are under way at a time while a credential is replaced.
const LOAD_COUNT: usize = 4;

/// How often it is replaced.
const ROTATION_COUNT: usize = 3;

/// Requests at the path of a spoke that is away: far more than a hub tries by itself while they are refused.
const REQUEST_COUNT: usize = 400;

/// Puts another kubeconfig into the Secret of east.
async fn replace(root: &Dynamic, kubeconfig: &str) {
    let secrets = endpoint("root", "v1", "secrets", "kube-system");
    let patch = json!({"data": {"kubeconfig": STANDARD.encode(kubeconfig)}});
    let patched = root.patch(&secrets, "credential-east", None, Patch::Merge(&patch));
    patched.await.expect("it is changed");
}

/// Returns the lists of what controllers follow that were asked for with a token. The heartbeat looks at one namespace to see the
/// revision.
fn lists(east: &FakeSpoke, token: &str) -> Vec<String> {
    let is_list = |path: &str| {
        let is_followed = ["/api/v1/configmaps?", "/api/v1/namespaces?"];
        let is_followed = is_followed.iter().any(|it| path.contains(it));
        let is_watch = path.contains("watch=");
        is_followed && !is_watch && !path.contains("limit=1&") && !path.ends_with("limit=1")
    };
    let seen = east.seen().into_iter();
    let lists = seen.filter(|it| it.token() == token && is_list(&it.path));
    lists.map(|it| it.path).collect()
}

/// Waits until requests have come with a token.
async fn used(east: &FakeSpoke, token: &str) {
    eventually(&format!("{token} is used"), || async {
        let seen = east.seen();
        let count = seen.iter().filter(|it| it.token() == token).count();
        (count > 3).then_some(()).ok_or(format!("{count} requests"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_a_later_credential_is_proven_before_the_one_before_is_dropped() {
    let hub = Hub::start().await;
    let (east, west) = tokio::join!(FakeSpoke::start("east"), FakeSpoke::start("west"));
    let root = calls(&hub).await;
    let with = |token: &str| east.kubeconfig_with(json!({"token": token}));
    east.accept_tokens(&["first"]);
    join(&root, "east", &with("first"), ("kube-system", Some("east"))).await;
    until(&root, "east", "Ready", "True").await;
    define(&root, "Note").await;
    make(&root, "east", "Note", "one").await;
    assert!(!lists(&east, "first").is_empty(), "they are seen");

    // What is not accepted takes the place of nothing.
    for (what, kubeconfig) in [
        ("an unknown token", with("wrong")),
        ("half a file", "{{{ not a kubeconfig".to_owned()),
        (
            "an unsafe server",
            with("first").replace("https://", "http://"),
        ),
        ("one of another cluster", read(&west)),
    ] {
        replace(&root, &kubeconfig).await;
        let said = until(&root, "east", "CredentialCurrent", "False").await;
        assert!(
            said.contains("still using the previous credential"),
            "{what}: {said}"
        );
        answered(&root, "east").await;
        make(&root, "east", "Note", &what.replace(' ', "-")).await;
        until(&root, "east", "Ready", "True").await;
        replace(&root, &with("first")).await;
        until(&root, "east", "CredentialCurrent", "True").await;
    }

    // What is accepted does, and nothing is read anew.
    east.accept_tokens(&["first", "second"]);
    replace(&root, &with("second")).await;
    used(&east, "second").await;
    east.accept_tokens(&["second"]);
    answered(&root, "east").await;
    make(&root, "east", "Note", "two").await;
    until(&root, "east", "CredentialCurrent", "True").await;
    until(&root, "east", "Ready", "True").await;
    let anew = lists(&east, "second");
    assert!(anew.is_empty(), "nothing was listed anew: {anew:?}");
    r29_under_load(&root, &east).await;
}

/// R29: under load no request fails while a credential is replaced, and none has the one before once that has ended.
async fn r29_under_load(root: &Dynamic, east: &FakeSpoke) {
    let (is_over, mut load) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for number in 0..LOAD_COUNT {
        let (root, is_over) = (root.clone(), Arc::clone(&is_over));
        load.spawn(async move {
            let maps = endpoint("east", "v1", "configmaps", "default");
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                match root.get(&maps, &format!("load-{number}")).await {
                    Ok(_) => count += 1,
                    Err(error) if error.is_not_found() => count += 1,
                    Err(error) => return Err(error.chain()),
                }
            }
            Ok(count)
        });
    }
    let mut before = "second".to_owned();
    for number in 0..ROTATION_COUNT {
        let next = format!("next-{number}");
        east.accept_tokens(&[&before, &next]);
        let kubeconfig = east.kubeconfig_with(json!({"token": next}));
        replace(root, &kubeconfig).await;
        used(east, &next).await;
        until(root, "east", "CredentialCurrent", "True").await;
        east.accept_tokens(&[&next]);
        make(root, "east", "Note", &next).await;
        eventually(&format!("nothing but {next} is sent"), || async {
            let others = east.seen().into_iter().filter(|it| it.token() != next);
            let others: Vec<String> = others.map(|it| it.path).collect();
            let last = others.last().cloned().unwrap_or_default();
            let count = others.len();
            others
                .is_empty()
                .then_some(())
                .ok_or(format!("{count} of the last requests, such as {last}"))
        })
        .await;
        before = next;
    }
    is_over.store(true, Ordering::Relaxed);
    for ended in load.join_all().await {
        let count: usize = ended.expect("each request is answered");
        assert!(count > 100, "{count} requests are no load");
    }
}

async fn circuit(root: &Dynamic, state: &str) -> Value {
    eventually(&format!("the circuit is {state}"), || async {
        let spoke = root.get(&spokes(), "east").await.map_err(|it| it.chain())?;
        let is_so = spoke["status"]["circuit"]["state"] == state;
        is_so
            .then(|| spoke.clone())
            .ok_or(spoke["status"].to_string())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn s14_a_spoke_that_is_away_is_tried_once_at_a_time_and_told_where_it_comes_back() {
    let mut hub = Hub::start().await;
    let east = FakeSpoke::start("east").await;
    let root = calls(&hub).await;
    join(&root, "east", &read(&east), ("kube-system", Some("east"))).await;
    until(&root, "east", "Continuous", "True").await;
    answered(&root, "east").await;
    let spoke = circuit(&root, "Closed").await;
    assert!(spoke["status"]["circuit"]["since"].is_null(), "{spoke}");

    east.set(Mode::Closed);
    let spoke = circuit(&root, "Open").await;
    let circuit_now = &spoke["status"]["circuit"];
    assert!(circuit_now["since"].is_string(), "{spoke}");
    assert!(circuit_now["nextProbeTime"].is_string(), "{spoke}");
    let wide = hub.root().must(&["get", "spokes", "-o", "wide"]).await;
    assert!(wide.contains("CIRCUIT") && wide.contains("Open"), "{wide}");
    let maps = endpoint("east", "v1", "configmaps", "default");
    let before = east.connection_count();
    for _ in 0..REQUEST_COUNT {
        let error = root.get(&maps, "a").await.expect_err("it is away");
        let status = error.status().expect("the hub answers");
        assert_eq!(status.code, 503, "{error}");
        assert!(status.message.contains("unreachable since"), "{error}");
    }
    let tried = east.connection_count() - before;
    assert!(
        tried < REQUEST_COUNT / 2,
        "{tried} connections were asked for"
    );

    east.set(Mode::Honest);
    circuit(&root, "Closed").await;
    answered(&root, "east").await;

    // While the hub is away it is set back to a backup.
    eventually("its revision is kept", || async {
        let spoke = root.get(&spokes(), "east").await.map_err(|it| it.chain())?;
        let is_kept = spoke["status"]["storeRevision"]["revision"].is_string();
        is_kept.then_some(()).ok_or(spoke["status"].to_string())
    })
    .await;
    is_remembered(&hub, &root).await;
    hub.kill();
    east.set_back(1);
    east.set(Mode::Closed);
    hub.launch().await;
    is_told_what_it_served(&hub).await;
    east.set(Mode::Honest);
    let root = calls(&hub).await;
    let said = until(&root, "east", "Continuous", "False").await;
    assert!(said.contains("is at an earlier one since"), "{said}");
    let spoke = until_ready(&root).await;
    assert_eq!(condition(&spoke, "Identified")["status"], "True", "{spoke}");
    assert!(spoke["status"]["queue"]["ready"].is_u64(), "{spoke}");

    // What is remembered of a Spoke goes with it: the next one of its name has nothing of it.
    let request = DeleteRequest::default();
    let deleted = root.delete(&spokes(), "east", &request).await;
    deleted.expect("it is deleted");
    eventually("what was remembered is gone", || async {
        match root.get(&records(), "east").await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.chain()),
            Ok(_) => Err("it is there".to_owned()),
        }
    })
    .await;
}

fn records() -> Endpoint {
    let version = "internal.wheelhouse.dev/v1alpha1";
    endpoint("root", version, "discoveryrecords", "")
}

/// Has the discovery of east read, and waits until it is kept.
async fn is_remembered(hub: &Hub, root: &Dynamic) {
    let told = hub.at("east").must(&["api-resources"]).await;
    assert!(told.contains("configmaps"), "{told}");
    eventually("its discovery is kept", || async {
        let record = root.get(&records(), "east").await;
        record.map(|_| ()).map_err(|it| it.chain())
    })
    .await;
}

/// A hub that was started while a spoke is away says what the spoke served, and that it is not said by the spoke.
async fn is_told_what_it_served(hub: &Hub) {
    eventually("it is told what east served", || async {
        let ran = hub.at("east").run(&["api-resources"]).await;
        // What stands in for a spoke that was never read has deployments; it has not.
        let is_its = ran.stdout.contains("configmaps") && !ran.stdout.contains("deployments");
        let is_marked = ran.stderr.contains("did not tell its resources");
        let is_so = is_its && is_marked;
        is_so.then_some(()).ok_or(format!("{ran:?}"))
    })
    .await;
}

/// To have been set back is told, and is no reason to leave a spoke alone.
async fn until_ready(root: &Dynamic) -> Value {
    until(root, "east", "Ready", "True").await;
    root.get(&spokes(), "east").await.expect("it is there")
}
