//! Members that die, hang and come back.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r13_an_etcd_that_comes_back_is_resumed_without_a_gap() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let engine = open(Config {
        deadline: Duration::from_millis(500),
        ..cluster.config()
    });
    let first = engine.commit(put("/a", "1")).await.unwrap().revision;
    let mut watcher = watch_all(&engine, first);
    cluster.kill_member(0);
    eventually("the loss", || engine.health().is_err()).await;
    let refused = engine.commit(put("/a", "lost")).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    let refused = engine.fresh().await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    assert_eq!(value(&engine, "/a").as_deref(), Some("1"), "reads go on");
    cluster.start_member(0);
    eventually("the return", || engine.health().is_ok()).await;
    let second = engine.commit(put("/a", "2")).await.unwrap().revision;
    let events = watcher.next().await.unwrap();
    assert_eq!(
        events[0].revision(),
        second,
        "the refused write left no trace"
    );
    assert_eq!(engine.fresh().await.unwrap(), second);
}

/// One member, then two of three, then a leader that hangs: what is acknowledged is there, nothing
/// is older than what was acknowledged before, and with a majority writes go on (R13). The gaps are printed; their bar
/// is three seconds on a machine that does nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r13_a_majority_goes_on() {
    let Some(mut cluster) = Cluster::start(3, &[]) else {
        return;
    };
    let engine = open(Config {
        deadline: Duration::from_millis(1500),
        ..cluster.config()
    });
    insist(&engine, "/a", "0").await;

    for victim in 0..3 {
        cluster.signal_member(victim, "-STOP");
        gap(&engine, &format!("stopped {victim}")).await;
        cluster.signal_member(victim, "-CONT");
        rejoined(&cluster, victim).await;
    }
    cluster.kill_member(0);
    gap(&engine, "one dead").await;

    cluster.kill_member(1);
    let before = engine.revision();
    eventually("the loss", || engine.health().is_err()).await;
    let refused = engine.commit(put("/a", "lost")).await.unwrap_err();
    assert!(
        matches!(refused, Error::Unavailable { .. } | Error::Unknown { .. }),
        "{refused}"
    );
    let refused = engine.fresh().await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    assert_eq!(
        value(&engine, "/a").as_deref(),
        Some("one dead"),
        "reads go on"
    );
    cluster.start_member(0);
    let back = insist(&engine, "/a", "back").await;
    assert!(back > before, "{back} follows {before}");
}

/// Waits until a write is acknowledged and seen, and prints how long that takes.
async fn gap(engine: &Engine, text: &str) {
    let began = Instant::now();
    let written = insist(engine, "/a", text).await;
    println!("{text}: {:?}", began.elapsed());
    let fresh = insist_on_fresh(engine).await;
    assert!(fresh >= written, "{fresh} is older than {written}");
    assert_eq!(value(engine, "/a").as_deref(), Some(text), "no stale read");
}

/// Waits until a member answers with the agreement of the others.
async fn rejoined(cluster: &Cluster, n: usize) {
    let endpoint = Endpoint::parse(&cluster.url(n), &TlsFiles::default()).unwrap();
    let began = Instant::now();
    loop {
        let mut tasks = JoinSet::new();
        if let Ok(connection) = endpoint.connect(&mut tasks).await {
            let client = client::Client::new(connection, &endpoint);
            if client
                .get(&"/".into(), Duration::from_secs(1))
                .await
                .is_ok()
            {
                return;
            }
        }
        assert!(began.elapsed() < PATIENCE, "member {n} does not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
