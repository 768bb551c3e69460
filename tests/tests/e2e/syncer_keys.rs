//! The key of a syncer of its own: it is replaced before it ends, ends when its time is over, and with the authority that signed it.

use std::{path::Path, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{Dynamic, Options};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use wheelhouse_tests::{process::Scratch, wait::within};

use super::{
    etcd::Etcd,
    replicas::{Stage, calls},
    syncers::{Alone, Syncer},
};

/// How long the work may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a key is good in these trials. It is replaced when two thirds of that are over.
const LIFETIME: Duration = Duration::from_secs(20);

/// Where the replicas of a hub keep what they share, below the prefix for records.
///
/// Source: docs/etcd.md, "Revoke the key of a syncer".
const SHARED_KEY: &str = "/wheelhouse/r/wheelhouse/replicas";

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).expect("the hub has written it")
}

/// Asks a hub what only a syncer is told, with a kubeconfig. Returns the id of the hub.
async fn asked(kubeconfig: &str) -> Result<String, client::Error> {
    let connection = client::connect(kubeconfig, None, &Options::default()).await;
    let hub = Dynamic::new(connection.expect("a kubeconfig").client());
    let answer = hub.raw_get("/wheelhouse/syncer").await?;
    let told: Value = serde_json::from_slice(&answer).expect("JSON");
    Ok(told["hubId"].as_str().expect("an id").to_owned())
}

/// Waits until the hub refuses a kubeconfig as one that nobody has.
async fn unknown(kubeconfig: &str) {
    within(PATIENCE, "it is refused", || async {
        match asked(kubeconfig).await {
            Err(error) if error.status().is_some_and(|it| it.code == 401) => Ok(()),
            Err(error) => Err(error.chain()),
            Ok(id) => Err(format!("it is told of {id}")),
        }
    })
    .await;
}

/// The user of one kubeconfig at the cluster of another.
fn as_user_of(user: &str, cluster: &str) -> String {
    let parsed = |text: &str| -> Value { serde_saphyr::from_str(text).expect("a kubeconfig") };
    let mut config = parsed(cluster);
    config["users"][0]["user"] = parsed(user)["users"][0]["user"].clone();
    config.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_syncer_goes_on_with_the_key_that_the_hub_has_renewed_and_the_one_before_ends() {
    let alone = Alone::new();
    let file = alone.scratch.file("syncers.kubeconfig");
    let out = file.to_str().expect("a path of text");
    let duration = format!("{}s", LIFETIME.as_secs());
    let duration = ["--syncer-kubeconfig-duration", &duration];
    let options = [
        &["--no-syncer", "--syncer-kubeconfig-out", out],
        &duration[..],
    ]
    .concat();
    let hub = alone.start(&options).await;
    let first = read(&file);
    let id = asked(&first).await.expect("it is good");
    let admin = as_user_of(&read(&hub.scratch.file("kubeconfig")), &first);
    let refused = asked(&admin)
        .await
        .expect_err("an administrator is no syncer");
    assert_eq!(refused.status().map(|it| it.code), Some(403), "{refused}");
    let syncer = Syncer::start(&file, "one");
    let (stage, root) = Stage::join_to(None, &hub, 1).await;
    stage.make(&root, "before").await;
    stage.converged("before").await;

    // What an operator may put there by mistake takes the place of nothing.
    std::fs::write(&file, "{{{ no kubeconfig").expect("it is writable");
    within(PATIENCE, "the syncer says so", || async {
        let log = syncer.process.log();
        log.contains("the one before stays")
            .then_some(())
            .ok_or(log)
    })
    .await;
    std::fs::write(&file, &admin).expect("it is writable");
    within(PATIENCE, "it is not used", || async {
        let log = syncer.process.log();
        log.contains("the hub does not take it")
            .then_some(())
            .ok_or(log)
    })
    .await;

    unknown(&first).await;
    let second = within(PATIENCE, "the file is another one", || async {
        let found = read(&file);
        let is_good = asked(&found).await.is_ok();
        (is_good && found != first)
            .then_some(found)
            .ok_or("not yet".to_owned())
    })
    .await;
    unknown(&second).await;
    assert_eq!(asked(&read(&file)).await.ok(), Some(id), "there is a third");
    stage.make(&root, "after").await;
    stage.converged("after").await;
    let log = syncer.process.log();
    assert!(log.contains("switched to the new kubeconfig"), "{log}");
    assert!(!log.contains("left the replicas"), "all the while: {log}");
    syncer.says("/readyz", 200, "ok").await;
    let text = log + &syncer.process.log();
    assert!(!text.contains("PRIVATE KEY"), "it is not told");
}

/// Ends the authority of a hub that is down, as docs/etcd.md says it.
async fn end_authority(alone: &Alone, etcd: Option<&Etcd>) {
    for name in ["ca.crt", "ca.key"] {
        let path = alone.scratch.file("data/pki").join(name);
        std::fs::remove_file(path).expect("the authority of before");
    }
    let Some(etcd) = etcd else {
        return;
    };
    // As `etcdctl del` does, over the gateway of etcd.
    let body = json!({"key": STANDARD.encode(SHARED_KEY)}).to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", etcd.port()))
        .await
        .expect("etcd listens");
    let request = format!(
        "POST /v3/kv/deleterange HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream
        .write_all(request.as_bytes())
        .await
        .expect("it reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .await
        .expect("it answers");
    assert!(
        answer.contains(r#""deleted":"1""#),
        "the key was there: {answer}"
    );
}

/// The story: somebody has the file of the syncers. A new authority ends it, and the hub is the same hub to its spokes.
async fn revoked(etcd: Option<Etcd>) {
    let alone = Alone::new();
    let file = alone.scratch.file("syncers.kubeconfig");
    let out = file.to_str().expect("a path of text");
    let url = etcd.as_ref().map(Etcd::url).unwrap_or_default();
    let mut options = vec!["--no-syncer", "--syncer-kubeconfig-out", out];
    if etcd.is_some() {
        options.extend(["--etcd-servers", &url]);
    }
    let hub = alone.start(&options).await;
    let stolen = read(&file);
    let id = asked(&stolen).await.expect("it is good");
    let syncer = Syncer::start(&file, "one");
    let (stage, root) = Stage::join_to(None, &hub, 1).await;
    stage.make(&root, "before").await;
    stage.converged("before").await;
    let thief = Scratch::new("thief");
    let copy = thief.write("kubeconfig", &stolen);
    drop(hub);

    // A start alone revokes nothing: the certificate is the authority's.
    let hub = alone.start(&options).await;
    assert_eq!(asked(&stolen).await.ok(), Some(id.clone()), "still good");
    drop(hub);

    end_authority(&alone, etcd.as_ref()).await;
    let hub = alone.start(&options).await;
    let renewed = read(&file);
    assert_eq!(asked(&renewed).await.ok(), Some(id), "the same hub");
    unknown(&as_user_of(&stolen, &renewed)).await;
    let other = Syncer::start(&copy, "thief");
    other.says("/readyz", 500, "[+]ping ok").await;
    // Who reads the file that the hub writes goes on.
    let root = calls(&hub).await;
    stage.make(&root, "after").await;
    stage.converged("after").await;
    syncer.says("/readyz", 200, "ok").await;
    let used = stage.spokes[0].wrote().into_iter();
    let has_written = used.into_iter().any(|it| it.agent.contains("thief"));
    assert!(!has_written, "the other one has nothing to do");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_authority_revokes_the_keys_of_all_syncers() {
    revoked(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_authority_revokes_the_keys_of_all_syncers_over_etcd() {
    revoked(Some(Etcd::start())).await;
}
