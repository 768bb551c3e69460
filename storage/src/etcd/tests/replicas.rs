//! Several engines over one etcd.

use super::*;
use crate::conformance::Random;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_read_sees_what_another_replica_acknowledged() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let replicas = [open(cluster.config()), open(cluster.config())];
    let mut random = Random::new(1);
    let mut seen = Revision(0);
    for n in 0..200 {
        let [writer, reader] = [random.below(2), random.below(2)];
        let text = n.to_string();
        let written = replicas[writer].commit(put("/a", &text)).await.unwrap();
        let fresh = replicas[reader].fresh().await.unwrap();
        assert!(fresh >= written.revision, "write {n}");
        let entry = replicas[reader].get(b"/a").unwrap();
        assert_eq!(entry.value(), text.as_bytes(), "write {n}");
        assert_eq!(entry.modified(), written.revision, "one number line");
        assert!(fresh >= seen, "{fresh} goes back behind {seen}");
        seen = fresh;
    }
}

/// The revision of etcd rises by what others keep there, of which the watch has no events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_read_waits_for_progress_past_the_writes_of_others() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let engine = open(cluster.config());
    let stranger = open(Config {
        prefix: "/stranger".to_owned(),
        ..cluster.config()
    });
    let mine = engine.commit(put("/a", "1")).await.unwrap().revision;
    for n in 0..20 {
        let theirs = stranger.commit(put("/a", "theirs")).await.unwrap();
        let fresh = engine.fresh().await.unwrap();
        assert_eq!(fresh.number(), theirs.revision.number(), "write {n}");
    }
    assert_eq!(value(&engine, "/a").as_deref(), Some("1"), "not theirs");
    let mut watcher = watch_all(&engine, mine);
    assert!(watcher.progress() > mine, "bookmarks go on too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_replicas_that_update_one_key_none_loses_an_update() {
    const ROUNDS: usize = 40;
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let replicas = [open(cluster.config()), open(cluster.config())];
    replicas[0].commit(put("/n", "0")).await.unwrap();
    let mut tasks = JoinSet::new();
    for engine in replicas.clone() {
        tasks.spawn(async move {
            let mut done = 0;
            while done < ROUNDS {
                engine.fresh().await.unwrap();
                let entry = engine.get(b"/n").unwrap();
                let n: usize = std::str::from_utf8(entry.value()).unwrap().parse().unwrap();
                let update = Write::put("/n", (n + 1).to_string());
                let update = update.expecting(Expect::Revision(entry.modified()));
                match engine.commit(vec![update]).await {
                    Ok(_) => done += 1,
                    Err(Error::Conflict { current, .. }) => {
                        let current = current.expect("the key is there");
                        assert!(current.modified() > entry.modified(), "it names the winner");
                    }
                    Err(other) => unreachable!("{other}"),
                }
            }
        });
    }
    tasks.join_all().await;
    replicas[0].fresh().await.unwrap();
    let want = (2 * ROUNDS).to_string();
    assert_eq!(value(&replicas[0], "/n"), Some(want));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_history_goes_here_and_in_etcd() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let config = Config {
        history: Duration::from_millis(400),
        ..cluster.config()
    };
    let replicas = [open(config.clone()), open(config)];
    let old = replicas[0].commit(put("/a", "1")).await.unwrap().revision;
    replicas[0].commit(put("/a", "2")).await.unwrap();
    for engine in &replicas {
        eventually("the floor", || engine.compaction_floor() > old).await;
        assert_eq!(engine.statistics().history_events, 0, "it is freed");
    }
    // A newcomer begins where etcd's history begins.
    eventually("etcd's compaction", || {
        open(cluster.config()).compaction_floor() > old
    })
    .await;
    assert_eq!(value(&open(cluster.config()), "/a").as_deref(), Some("2"));
}
