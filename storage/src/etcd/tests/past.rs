//! An etcd that is set back (R14), emptied, or compacted behind a replica's back.

use super::*;

/// A store with three writes, of which the backup `past` has one; the last revision.
async fn with_a_past(cluster: &mut Cluster, config: Config) -> (Arc<Engine>, Revision) {
    let engine = open(config);
    engine.commit(put("/a", "kept")).await.unwrap();
    cluster.kill_member(0);
    cluster.back_up("past");
    cluster.start_member(0);
    insist(&engine, "/a", "forgotten").await;
    let last = insist(&engine, "/b", "forgotten").await;
    (engine, last)
}

/// What must hold of a replica that noticed.
async fn goes_on_above(engine: &Engine, last: Revision, watcher: &mut Watcher) {
    let end = loop {
        let next = tokio::time::timeout(PATIENCE, watcher.next()).await;
        match next.expect("the watch ends") {
            Ok(events) => assert!(events[0].revision() <= last, "the old as new: {events:?}"),
            Err(end) => break end,
        }
    };
    assert_eq!(end, WatchEnd::Expired);
    assert_eq!(
        watcher.progress(),
        watcher.progress().min(last),
        "no bookmark beyond"
    );
    eventually("the return", || engine.health().is_ok()).await;
    assert_eq!(
        value(engine, "/a").as_deref(),
        Some("kept"),
        "what etcd has"
    );
    assert!(engine.revision().epoch() > last.epoch(), "another epoch");
    let resumed = engine.watch(WatchQuery {
        range: KeyRange::all(),
        after: last,
    });
    assert!(
        matches!(resumed, Err(Error::Compacted { .. })),
        "{resumed:?}"
    );
    let stale = Write::put("/a", "stale").expecting(Expect::Revision(last));
    let refused = engine.commit(vec![stale]).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused}");
    let entry = engine.get(b"/a").unwrap();
    let update = Write::put("/a", "new").expecting(Expect::Revision(entry.modified()));
    let done = engine.commit(vec![update]).await.unwrap();
    assert!(done.revision > last, "{} follows {last}", done.revision);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_an_etcd_that_was_set_back_begins_a_new_epoch() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let config = Config {
        mark: Some(|start| Write::put("/mark", start.epoch().to_string())),
        ..cluster.config()
    };
    let (engine, last) = with_a_past(&mut cluster, config).await;
    assert_eq!(engine.get(b"/mark"), None, "nothing was set back yet");
    let mut watcher = watch_all(&engine, last);
    cluster.kill_member(0);
    cluster.restore("past");
    cluster.start_member(0);
    goes_on_above(&engine, last, &mut watcher).await;
    assert_eq!(
        value(&engine, "/mark").as_deref(),
        Some("101"),
        "it says so"
    );
    assert_eq!(engine.get(b"/b"), None, "what etcd has not");
}

/// Somebody else wrote before this replica could look, so that the revision alone shows nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_an_etcd_that_was_set_back_and_went_on_is_recognised() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let config = cluster.config();
    let (engine, last) = with_a_past(&mut cluster, config).await;
    let mut watcher = watch_all(&engine, last);
    cluster.kill_member(0);
    cluster.restore("past");
    let port = cluster.move_member(0, free_port());
    cluster.start_member(0);
    let other = open(cluster.config());
    for n in 0..9 {
        other
            .commit(put(&format!("/{n}"), "another line"))
            .await
            .unwrap();
    }
    assert!(other.revision().number() > last.number(), "it went on");
    cluster.kill_member(0);
    drop(other);
    cluster.move_member(0, port);
    cluster.start_member(0);
    goes_on_above(&engine, last, &mut watcher).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_an_etcd_that_was_set_back_while_the_replica_was_down_is_noticed() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        memory: Some(directory.path().join("seen")),
        ..cluster.config()
    };
    let (engine, last) = with_a_past(&mut cluster, config.clone()).await;
    let id = engine.id();
    drop(engine);
    cluster.kill_member(0);
    cluster.restore("past");
    cluster.start_member(0);
    let engine = open(config);
    assert!(
        engine.revision() > last,
        "{} follows {last}",
        engine.revision()
    );
    assert!(engine.compaction_floor() > last, "every watch begins anew");
    assert_eq!(engine.id(), id, "it is the same store");
    assert_eq!(value(&engine, "/a").as_deref(), Some("kept"));
}

/// Another replica noticed first and raised the epoch: one more raise would be one too many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_replicas_agree_on_the_epoch() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let config = cluster.config();
    let (engine, last) = with_a_past(&mut cluster, config.clone()).await;
    let other = open(config);
    let mut watcher = watch_all(&other, last);
    cluster.kill_member(0);
    cluster.restore("past");
    cluster.start_member(0);
    goes_on_above(&other, last, &mut watcher).await;
    let there = other.fresh().await.unwrap();
    eventually("the other epoch", || engine.revision() >= there).await;
    let again = other.fresh().await.unwrap();
    assert_eq!(again.epoch(), last.epoch() + 1, "raised once");
    assert_eq!(engine.fresh().await.unwrap(), again, "the same number line");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_an_etcd_without_the_store_is_not_taken_for_it() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let config = cluster.config();
    let (engine, last) = with_a_past(&mut cluster, config).await;
    cluster.kill_member(0);
    cluster.empty();
    cluster.start_member(0);
    let gone = |error: Error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        cause.is_some_and(|cause| cause.contains("is no longer in this etcd"))
    };
    eventually("the notice", || engine.health().err().is_some_and(gone)).await;
    assert_eq!(
        value(&engine, "/a").as_deref(),
        Some("forgotten"),
        "reads go on"
    );
    cluster.kill_member(0);
    cluster.restore("past");
    cluster.start_member(0);
    eventually("the return", || engine.health().is_ok()).await;
    assert!(engine.revision() > last, "with a new epoch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_compacted_meanwhile_is_loaded_anew() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let engine = open(cluster.config());
    let seen = engine.commit(put("/a", "1")).await.unwrap().revision;
    engine.commit(put("/gone", "1")).await.unwrap();
    let mut watcher = watch_all(&engine, seen.next());
    let port = cluster.move_member(0, free_port());
    cluster.kill_member(0);
    cluster.start_member(0);
    let other = open(cluster.config());
    other.commit(put("/a", "2")).await.unwrap();
    other.commit(vec![Write::delete("/gone")]).await.unwrap();
    let last = other.commit(put("/b", "3")).await.unwrap().revision;
    other.compact(last).await.unwrap();
    cluster.kill_member(0);
    drop(other);
    cluster.move_member(0, port);
    cluster.start_member(0);
    let end = tokio::time::timeout(PATIENCE, watcher.next())
        .await
        .unwrap();
    assert_eq!(end.err(), Some(WatchEnd::Expired), "there is a gap");
    eventually("the return", || engine.health().is_ok()).await;
    assert!(engine.revision() >= last, "nothing is missed");
    assert_eq!(engine.revision().epoch(), last.epoch(), "the same epoch");
    assert_eq!(engine.compaction_floor(), last);
    assert_eq!(value(&engine, "/a").as_deref(), Some("2"));
    assert_eq!(value(&engine, "/gone"), None);
    let resumed = engine.watch(WatchQuery {
        range: KeyRange::all(),
        after: seen,
    });
    assert!(
        matches!(resumed, Err(Error::Compacted { .. })),
        "{resumed:?}"
    );
}
