//! Values that etcd does not get to know.

use super::*;

const ONE: &str = "one:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\n";
const TWO: &str = "two:ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n";

/// A store whose Secrets are sealed with the first of these keys.
fn sealing(config: Config, keys: &str) -> Config {
    let keyring = Keyring::parse(keys).unwrap().covering("/secrets/");
    Config {
        keyring: Some(Arc::new(keyring)),
        ..config
    }
}

/// All that etcd has, as it has it.
async fn raw(config: &Config) -> Vec<wire::KeyValue> {
    let endpoint = Endpoint::parse(&config.servers[0], &config.tls).unwrap();
    let mut tasks = JoinSet::new();
    let connection = endpoint.connect(&mut tasks).await.unwrap();
    let client = client::Client::new(connection, &endpoint);
    let (header, _) = client.get(&"/".into(), PATIENCE).await.unwrap();
    let mut all = Vec::new();
    let everything = KeyRange::prefix("/");
    let take = |kv: wire::KeyValue| {
        all.push(kv);
        Ok(())
    };
    let read = client.range_at(&everything, header.revision, PATIENCE, take);
    read.await.unwrap();
    all
}

async fn shows(config: &Config, text: &str) -> bool {
    let all = raw(config).await;
    let holds = |value: &[u8]| value.windows(text.len()).any(|it| it == text.as_bytes());
    all.iter().any(|kv| holds(&kv.value))
}

#[tokio::test]
async fn a_covered_value_is_not_readable_in_etcd() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let config = sealing(cluster.config(), ONE);
    let engine = open(config.clone());
    engine.commit(put("/secrets/a", "hunter2")).await.unwrap();
    engine.commit(put("/b", "in the open")).await.unwrap();
    let last = Change::Delete {
        last: Some((b"hunter2 again".to_vec(), None)),
    };
    let gone = Write {
        change: last,
        ..Write::delete("/secrets/a")
    };
    let after = engine.revision();
    engine.commit(vec![gone]).await.unwrap();
    engine.commit(put("/secrets/a", "hunter2")).await.unwrap();
    drop(engine);
    let engine = open(config.clone());
    assert_eq!(value(&engine, "/secrets/a").as_deref(), Some("hunter2"));
    let events = watch_all(&engine, after).next().await.unwrap();
    assert_eq!(events[0].entry().value(), b"hunter2 again", "opened");
    drop(engine);
    let refused = Engine::open(cluster.config());
    assert!(
        matches!(refused, Err(OpenError::Corrupt { .. })),
        "{refused:?}"
    );
    assert!(shows(&config, "in the open").await, "what is not covered");
    assert!(!shows(&config, "hunter2").await, "what is covered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_replaced_replica_by_replica() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let with = |keys: &str| sealing(cluster.config(), keys);
    let first = open(with(ONE));
    first.commit(put("/secrets/a", "old")).await.unwrap();
    // One replica after the other learns to open with the new key, then to seal with it.
    let second = open(with(&format!("{ONE}{TWO}")));
    assert_eq!(value(&second, "/secrets/a").as_deref(), Some("old"));
    drop(first);
    let first = open(with(&format!("{TWO}{ONE}")));
    first.commit(put("/secrets/b", "new")).await.unwrap();
    second.fresh().await.unwrap();
    assert_eq!(value(&second, "/secrets/b").as_deref(), Some("new"));
    assert_eq!(value(&first, "/secrets/a").as_deref(), Some("old"), "both");
    // What the old key sealed is written anew, and its history let go.
    let last = first
        .commit(put("/secrets/a", "old"))
        .await
        .unwrap()
        .revision;
    first.compact(last).await.unwrap();
    drop((first, second));
    let engine = open(with(TWO));
    assert_eq!(value(&engine, "/secrets/a").as_deref(), Some("old"));
    assert_eq!(value(&engine, "/secrets/b").as_deref(), Some("new"));
    let refused = Engine::open(with(ONE));
    assert!(
        matches!(refused, Err(OpenError::Corrupt { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_sealed_value_is_worth_nothing_in_another_store() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let at = |prefix: &str| Config {
        prefix: prefix.to_owned(),
        ..sealing(cluster.config(), ONE)
    };
    let [here, there] = [open(at("/here")), open(at("/there"))];
    here.commit(put("/secrets/a", "hunter2")).await.unwrap();
    let all = raw(&cluster.config()).await;
    let sealed = all.iter().find(|kv| kv.key == "/here/r/secrets/a");
    let sealed = sealed.unwrap().value.to_vec();
    // Somebody who may write etcd copies it to where he may read.
    let endpoint = Endpoint::parse(&cluster.url(0), &TlsFiles::default()).unwrap();
    let mut tasks = JoinSet::new();
    let connection = endpoint.connect(&mut tasks).await.unwrap();
    let client = client::Client::new(connection, &endpoint);
    let copy = transaction::swap(&"/there/r/secrets/a".into(), None, sealed);
    client.transact(copy, PATIENCE).await.unwrap();
    let refused = Engine::open(at("/there"));
    assert!(
        matches!(refused, Err(OpenError::Corrupt { .. })),
        "{refused:?}"
    );
    assert_eq!(value(&there, "/secrets/a"), None, "never shown");
}
