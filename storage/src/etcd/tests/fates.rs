//! Writes whose connection breaks before they are answered.

use super::proxy::{Proxy, Rule, Treatment};
use super::*;

const COUNT: usize = 20;

/// Creations and deletions that would be refused if they happened twice.
fn batch(n: usize) -> Vec<Write> {
    vec![
        Write::put(format!("/new/{n}"), "1").expecting(Expect::Absent),
        Write::delete(format!("/old/{n}")),
    ]
}

async fn prepared(cluster: &Cluster, proxy: &Proxy) -> Arc<Engine> {
    let engine = open(Config {
        servers: vec![proxy.url()],
        deadline: PATIENCE,
        ..cluster.config()
    });
    for n in 0..COUNT {
        engine.commit(put(&format!("/old/{n}"), "")).await.unwrap();
    }
    engine
}

/// What etcd has agrees with what was answered.
async fn agree(cluster: &Cluster, engine: &Engine, answers: JoinSet<(usize, Revision)>) {
    let other = open(cluster.config());
    other.fresh().await.unwrap();
    for (n, revision) in answers.join_all().await {
        let key = format!("/new/{n}");
        let entry = other.get(key.as_bytes()).unwrap();
        assert_eq!(entry.modified(), revision, "{key}");
        assert_eq!(entry.created(), revision, "{key} was written once");
        assert_eq!(value(&other, &format!("/old/{n}")), None, "{key}");
    }
    assert_eq!(engine.statistics().sessions, 2, "the connection broke once");
}

fn send_all(engine: &Arc<Engine>) -> JoinSet<(usize, Revision)> {
    let mut answers = JoinSet::new();
    for n in 0..COUNT {
        let answer = engine.commit(batch(n));
        answers.spawn(async move { (n, answer.await.unwrap().revision) });
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_is_lost_is_looked_up() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let proxy = Proxy::start(&cluster.url(0)).await;
    let engine = prepared(&cluster, &proxy).await;
    proxy.treat(Rule {
        answers: Treatment::Lose,
        ..Rule::PASS
    });
    let answers = send_all(&engine);
    agree(&cluster, &engine, answers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_lost_is_sent_again() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let proxy = Proxy::start(&cluster.url(0)).await;
    let engine = prepared(&cluster, &proxy).await;
    proxy.treat(Rule {
        requests: Treatment::Lose,
        ..Rule::PASS
    });
    let answers = send_all(&engine);
    agree(&cluster, &engine, answers).await;
}

/// A member that hung goes on with what it had received, long after the fate of that was told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_again_does_not_happen_later() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let proxy = Proxy::start(&cluster.url(0)).await;
    let engine = prepared(&cluster, &proxy).await;
    let held = proxy.treat(Rule {
        requests: Treatment::Hold,
        ..Rule::PASS
    });
    let late = engine.commit(put("/a", "late")).await.unwrap();
    let mut watcher = watch_all(&engine, late.revision);
    let second = engine.commit(put("/a", "second")).await.unwrap().revision;
    held.send_replace(Rule::PASS);
    for n in 0..COUNT {
        engine.commit(put(&format!("/{n}"), "")).await.unwrap();
        engine.fresh().await.unwrap();
    }
    assert_eq!(value(&engine, "/a").as_deref(), Some("second"));
    let mut events = Vec::new();
    while events.len() <= COUNT {
        events.extend(watcher.next().await.unwrap());
    }
    let of_a: Vec<_> = events.iter().filter(|event| event.key() == b"/a").collect();
    assert_eq!(of_a.len(), 1, "nothing came later");
    assert_eq!(of_a[0].revision(), second);
}

/// Whoever lives draws another ticket when his was idle and was taken away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_ticket_goes_and_is_drawn_anew() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let idle = open(cluster.config());
    idle.commit(put("/a", "1")).await.unwrap();
    let tickets = Layout::new(&cluster.config().prefix).tickets();
    let endpoint = Endpoint::parse(&cluster.url(0), &TlsFiles::default()).unwrap();
    let mut tasks = JoinSet::new();
    let connection = endpoint.connect(&mut tasks).await.unwrap();
    let client = client::Client::new(connection, &endpoint);
    let count = async || {
        let request = wire::RangeRequest {
            range_end: wire::end_of(&tickets),
            ..wire::RangeRequest::of(&tickets.start)
        };
        client.range(request, PATIENCE).await.unwrap().kvs.len()
    };
    assert_eq!(count().await, 1);
    let keeper = open(Config {
        history: Duration::from_millis(200),
        ..cluster.config()
    });
    let began = Instant::now();
    while count().await > 0 {
        assert!(began.elapsed() < PATIENCE, "the ticket is idle");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(keeper);
    idle.commit(put("/a", "2")).await.unwrap();
    assert_eq!(value(&idle, "/a").as_deref(), Some("2"));
    assert_eq!(idle.statistics().sessions, 1, "over the same connection");
    assert_eq!(count().await, 1, "another one");
}
