//! B20: kill -9 with many objects, and how long it is until the first consistent list, and until all watchers go on.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};
use wheelhouse_tests::wait::within;

use super::{sides, watcher::Cut};
use crate::{
    Asked, etcd,
    measure::{Series, disk, float, rss},
    report::{Better, Report, say},
    side::{ALL, PATH, Server, bodies},
    wire::{Target, Wire},
};

/// Creates under way while the store is filled.
const WIDTH: usize = 128;

/// The peer holds 20 KB of memory for an object, so that a million of them do not fit this machine.
const PEER_COUNT_MAX: usize = 100_000;

/// Writes of one transaction; etcd's default limit is 128.
const TXN_COUNT: usize = 100;

const WATCHER_COUNT: usize = 100;

/// Objects of a page, where all are counted.
const PAGE_COUNT: usize = 5000;

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

const PATIENCE: Duration = Duration::from_mins(5);

/// What a side's rounds said.
#[derive(Default)]
struct Found {
    count: usize,
    list_s: Series,
    live_s: Series,
    caught_up_s: Series,
    relists: Series,
    rss_mb: Series,
    disk_mb: Series,
}

/// Fills each side once, and kills it `rounds` times.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    let count = asked.count.unwrap_or(1_000_000);
    let rounds = asked.rounds.unwrap_or(5);
    let mut found = [(); 2].map(|()| Found::default());
    for (found, ours) in found.iter_mut().zip(sides(asked)) {
        let mut server = Server::start(*ours).await;
        // A hub that starts writes its kubeconfig anew, with what was in it.
        let target = server.target();
        found.count = fill(&server, count).await;
        for index in 0..rounds {
            round(&mut server, &target, index, found).await;
        }
    }
    let [ours, peer] = found;
    let what = format!(
        "B20 restart with {} objects, to a consistent list",
        ours.count
    );
    report.row(&what, "s", ours.list_s, peer.list_s, Better::Less);
    report.wanted(3.0);
    let what = format!("until {WATCHER_COUNT} watchers watch again");
    report.row(&what, "s", ours.live_s, peer.live_s, Better::Less);
    report.wanted(3.0);
    let what = "until they have seen the next write";
    report.row(what, "s", ours.caught_up_s, peer.caught_up_s, Better::Less);
    report.row("relists", "", ours.relists, peer.relists, Better::Less);
    report.wanted(0.0);
    report.row("RSS after it", "MB", ours.rss_mb, peer.rss_mb, Better::Less);
    report.row("on disk", "MB", ours.disk_mb, peer.disk_mb, Better::Less);
    report.note(format!(
        "B20: {} objects of ours, {} of the peer's (its memory), which are written to its etcd directly; every process \
         of a side is killed and started again; the page cache stays warm; `?limit=1` must be of a version no older than before, and afterwards all pages \
         together must hold every object.",
        ours.count, peer.count
    ));
}

/// Fills the store; tells with how many objects.
async fn fill(server: &Server, count: usize) -> usize {
    let wire = server.wire(4).await;
    let start = Instant::now();
    let count = if let Server::Peer(spoke) = server {
        let count = count.min(PEER_COUNT_MAX);
        copy(&wire, spoke.etcd_port(), count).await;
        count
    } else {
        wire.create(PATH, bodies("w", count), WIDTH).await;
        count
    };
    say(&format!(
        "B20 {}: filled with {count} objects in {:.0} s",
        server.name(),
        start.elapsed().as_secs_f64()
    ));
    count
}

/// Creates one object through the API and the others as copies of what is stored of it.
async fn copy(wire: &Wire, port: u16, count: usize) {
    wire.create(PATH, bodies("w", 1), 1).await;
    let etcd = Target::plain(port).wire(1).await;
    let key = |index: usize| format!("/registry/bench.example.com/widgets/default/w-{index}");
    let stored = etcd::get(etcd.connection(0), key(0).as_bytes()).await;
    let stored = stored.expect("an answer").expect("it is stored there");
    let stored = String::from_utf8(stored).expect("custom resources are stored as JSON");
    let indices: Vec<usize> = (1..count).collect();
    for chunk in indices.chunks(TXN_COUNT) {
        let pairs: Vec<_> = chunk
            .iter()
            .map(|index| {
                let name = format!("\"name\":\"w-{index}\"");
                let value = stored.replacen("\"name\":\"w-0\"", &name, 1);
                (key(*index).into_bytes(), value.into_bytes())
            })
            .collect();
        let written = etcd::put_all(etcd.connection(0), &pairs).await;
        written.expect("etcd takes it");
    }
}

async fn round(server: &mut Server, target: &Target, index: usize, found: &mut Found) {
    // One object of each round before: those who watch have seen them.
    let count = found.count + index;
    let version = within(PATIENCE, "there is a list", || first_page(target, 0)).await;
    let least = version.parse().expect("a list has a version");
    let disk = disk(&server.data());
    server.power_cycle();
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for index in 0..WATCHER_COUNT {
        let cut = Cut {
            target: target.clone(),
            index,
            path: ALL,
            version: version.clone(),
            retry: LOOK_INTERVAL * 2,
        };
        tasks.spawn(cut.come_back(1, start));
    }
    while first_page(target, least).await.is_err() {
        assert!(start.elapsed() < PATIENCE, "not back within {PATIENCE:?}");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    let list = start.elapsed();
    let wire = target.wire(1).await;
    wire.create(PATH, bodies(&format!("after-{index}"), 1), 1)
        .await;
    let back = tasks.join_all().await;
    let seconds = |duration: Option<Duration>| duration.unwrap_or_default().as_secs_f64();
    let live = seconds(back.iter().map(|back| back.live).max());
    let caught_up = seconds(back.iter().map(|back| back.caught_up).max());
    let relists: usize = back.iter().map(|back| back.relists).sum();
    assert_eq!(counted(target).await, count + 1, "nothing is lost");
    found.list_s.push(list.as_secs_f64());
    found.live_s.push(live);
    found.caught_up_s.push(caught_up);
    found.relists.push(float(relists as u64));
    found.rss_mb.push(float(rss(&server.processes())) / 1e6);
    found.disk_mb.push(float(disk) / 1e6);
    say(&format!(
        "B20 {}: list after {:.2} s, watchers after {live:.2} s, their event after {caught_up:.2} s, {relists} relists, \
         RSS {:.0} MB",
        server.name(),
        list.as_secs_f64(),
        float(rss(&server.processes())) / 1e6
    ));
}

/// The version of a list that shows what there was at a version, or what there is in place of one.
async fn first_page(target: &Target, least: u64) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let connection = target.connect(0).await.map_err(text)?;
    let path = format!("{ALL}?limit=1");
    let answer = connection.send("GET", &path, "", Bytes::new()).await;
    let (code, body) = answer.map_err(text)?;
    let list: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let one = list["items"]
        .as_array()
        .is_some_and(|items| items.len() == 1);
    if code == 200 && one && version.parse::<u64>().is_ok_and(|version| version >= least) {
        Ok(version.to_owned())
    } else {
        Err(format!("{code}, {}", list["metadata"]))
    }
}

/// Counts all objects, page by page.
async fn counted(target: &Target) -> usize {
    let connection = target.connect(0).await.expect("the server is back");
    let mut token = String::new();
    let mut count = 0;
    loop {
        let path = format!("{ALL}?limit={PAGE_COUNT}&continue={token}");
        let answer = connection.send("GET", &path, "", Bytes::new()).await;
        let (code, body) = answer.expect("the server answers");
        assert_eq!(code, 200, "a page of all objects");
        let list: Value = serde_json::from_slice(&body).expect("a list");
        count += list["items"].as_array().map_or(0, Vec::len);
        match list["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => next.clone_into(&mut token),
            _ => return count,
        }
    }
}
