//! An etcd that has reached its quota.

use super::*;

/// Takes an alarm back.
#[derive(Clone, PartialEq, prost::Message)]
struct AlarmRequest {
    /// 2: deactivate.
    #[prost(int32, tag = "1")]
    action: i32,
    #[prost(uint64, tag = "2")]
    member_id: u64,
    /// 1: no space.
    #[prost(int32, tag = "3")]
    alarm: i32,
}

/// What an operator does: `etcdctl defrag` and `etcdctl alarm disarm`.
async fn make_space(cluster: &Cluster) {
    let endpoint = Endpoint::parse(&cluster.url(0), &TlsFiles::default()).unwrap();
    let mut tasks = JoinSet::new();
    let connection = endpoint.connect(&mut tasks).await.unwrap();
    let client = client::Client::new(connection, &endpoint);
    let path = |name| http::uri::PathAndQuery::from_static(name);
    let defragment = path("/etcdserverpb.Maintenance/Defragment");
    let done: Result<(), _> = client
        .unary("to defragment", defragment, (), PATIENCE)
        .await;
    done.unwrap();
    let (header, _) = client.get(&"/".into(), PATIENCE).await.unwrap();
    let disarm = AlarmRequest {
        action: 2,
        member_id: header.member_id,
        alarm: 1,
    };
    let alarm = path("/etcdserverpb.Maintenance/Alarm");
    let done: Result<(), _> = client.unary("to disarm", alarm, disarm, PATIENCE).await;
    done.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_is_said_to_be_full_and_goes_on_when_there_is_space() {
    const VALUE_BYTES: usize = 512 * 1024;
    let Some(cluster) = Cluster::start(1, &["--quota-backend-bytes=16777216"]) else {
        return;
    };
    let engine = open(cluster.config());
    engine.commit(put("/kept", "1")).await.unwrap();
    let mut written = 0;
    let full = loop {
        // One key over and over: history is what fills it.
        let big = vec![Write::put("/big", vec![written; VALUE_BYTES])];
        match engine.commit(big).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 64, "the quota is reached");
    };
    assert!(matches!(full, Error::StorageFull { .. }), "{full}");
    let cause = std::error::Error::source(&full).map(chain);
    assert!(
        cause
            .as_ref()
            .is_some_and(|it| it.contains("database space exceeded")),
        "{cause:?}"
    );

    engine.fresh().await.unwrap();
    assert_eq!(value(&engine, "/kept").as_deref(), Some("1"), "reads go on");
    // A replica that comes now can read, and is told the same.
    let other = open(cluster.config());
    assert_eq!(value(&other, "/kept").as_deref(), Some("1"));
    let full = other.commit(put("/kept", "2")).await.unwrap_err();
    assert!(matches!(full, Error::StorageFull { .. }), "{full}");

    engine.compact(engine.revision()).await.unwrap();
    make_space(&cluster).await;
    for (replica, text) in [(&engine, "3"), (&other, "4")] {
        replica.commit(put("/kept", text)).await.unwrap();
        assert_eq!(value(replica, "/kept").as_deref(), Some(text));
    }
}

/// Etcd takes no round of compaction while it is full, and history must go all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_is_still_compacted() {
    let Some(cluster) = Cluster::start(1, &["--quota-backend-bytes=16777216"]) else {
        return;
    };
    let config = Config {
        history: Duration::from_millis(400),
        ..cluster.config()
    };
    let filler = open(cluster.config());
    let mut n = 0;
    while filler
        .commit(vec![Write::put("/big", vec![n; 1024 * 1024])])
        .await
        .is_ok()
    {
        n += 1;
        assert!(n < 64, "the quota is reached");
    }
    let last = filler.revision();
    let engine = open(config);
    eventually("the floor", || engine.compaction_floor() >= last).await;
    eventually("etcd's compaction", || {
        open(cluster.config()).compaction_floor() >= last
    })
    .await;
}
