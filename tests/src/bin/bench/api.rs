//! `hack/bench api`: create, get, list and watch fan-out of a custom resource, ours in root, beside
//! kube-apiserver with etcd, in turns.
//!
//! The figure that counts is CPU per operation of the servers (kube-apiserver plus etcd on the
//! peer's side): wall time depends on what else the machine does.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use wheelhouse_tests::{
    Hub, Kubectl, Spoke, eventually, hub::Settings, process::Process, spoke::Options,
};

use crate::{
    load::Api,
    measure::Series,
    report::{Better, Report, say},
};

/// Requests under way.
pub(crate) const LOAD_WIDTH: usize = 32;

/// Gets of each side.
const GET_COUNT: usize = 20_000;

/// Lists of all objects on each side.
const LIST_COUNT: usize = 10;

/// Lists by a label that no object has.
const SELECT_COUNT: usize = 2000;

/// Watchers on each side, and events that each of them receives.
const WATCHER_COUNT: usize = 100;
const EVENT_COUNT: usize = 500;

const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) const PATH: &str = "/apis/bench.example.com/v1/namespaces/default/widgets";
pub(crate) const ALL: &str = "/apis/bench.example.com/v1/widgets";

/// CPU of the servers, in microseconds for each operation, and the rate seen by the clients.
struct Cost {
    cpu_us: f64,
    rate: f64,
}

struct Side {
    create: Cost,
    get: Cost,
    list: Cost,
    select: Cost,
    watch: Cost,
    watch_and_write: Cost,
    rss_mb: f64,
}

/// What one figure is read from a side by.
type Read = fn(&Side) -> f64;

/// The figures: what, unit, which direction is better, and where it stands.
const FIGURES: [(&str, &str, Better, Read); 11] = [
    ("create, server CPU", "µs/operation", Better::Less, |side| {
        side.create.cpu_us
    }),
    ("create", "operations/s", Better::More, |side| {
        side.create.rate
    }),
    ("get, server CPU", "µs/operation", Better::Less, |side| {
        side.get.cpu_us
    }),
    ("get", "operations/s", Better::More, |side| side.get.rate),
    (
        "list of all, server CPU",
        "µs/operation",
        Better::Less,
        |side| side.list.cpu_us,
    ),
    ("list of all", "operations/s", Better::More, |side| {
        side.list.rate
    }),
    (
        "list by a label that nothing has, server CPU",
        "µs/operation",
        Better::Less,
        |side| side.select.cpu_us,
    ),
    (
        "watch delivery alone, server CPU",
        "µs/event",
        Better::Less,
        |side| side.watch.cpu_us,
    ),
    (
        "watch delivery with its share of the write, server CPU",
        "µs/event",
        Better::Less,
        |side| side.watch_and_write.cpu_us,
    ),
    ("watch delivery", "events/s", Better::More, |side| {
        side.watch.rate
    }),
    ("RSS", "MB", Better::Less, |side| side.rss_mb),
];

/// Runs both sides in turns.
pub(crate) async fn run(count: usize, rounds: usize, report: &mut Report) {
    let (mut ours_all, mut peer_all) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours_all.push(ours(count, Settings::default()).await);
        peer_all.push(peer(count).await);
    }
    tell(&ours_all, &peer_all, report);
    report.note(format!(
        "{rounds} rounds: the median, and the least and the greatest. {count} objects of 1.2 KB; {LOAD_WIDTH} requests \
         under way; {GET_COUNT} gets, {LIST_COUNT} lists, {SELECT_COUNT} by a label, {WATCHER_COUNT} watchers of {EVENT_COUNT} events."
    ));
}

fn tell(ours: &[Side], peer: &[Side], report: &mut Report) {
    for (what, unit, better, read) in FIGURES {
        let series = |sides: &[Side]| sides.iter().map(read).collect::<Series>();
        report.row(what, unit, series(ours), series(peer), better);
    }
}

async fn ours(count: usize, settings: Settings) -> Side {
    let hub = Hub::start_with(settings).await;
    define(&hub.root()).await;
    let api = Api::connect(&hub.kubeconfig(), "").await;
    measure(&api, count, &[hub.process()], "ours").await
}

async fn peer(count: usize) -> Side {
    let options = Options {
        without_controllers: true,
        unthrottled: true,
        aggregates: false,
        audited: false,
        issuer: None,
        traces: None,
    };
    let spoke = Spoke::start_with("peer", options).await;
    define(&spoke.kubectl()).await;
    let api = Api::connect(spoke.kubeconfig(), "").await;
    measure(
        &api,
        count,
        &[spoke.api(), spoke.etcd()],
        "kube-apiserver and etcd",
    )
    .await
}

pub(crate) async fn define(kubectl: &Kubectl) {
    kubectl
        .apply(include_str!("../../../fixtures/widget.yaml"))
        .await;
    kubectl
        .must(&[
            "wait",
            "--for=condition=Established",
            "crd/widgets.bench.example.com",
        ])
        .await;
    eventually("widgets are served", || async {
        kubectl.run(&["get", "--raw", ALL]).await.ok()?;
        Ok(())
    })
    .await;
}

async fn measure(api: &Api, count: usize, processes: &[&Process], side: &str) -> Side {
    let objects: Vec<Value> = (0..count).map(|index| widget("w", index)).collect();
    let create = cost(processes, count, api.create_all(PATH, &objects, LOAD_WIDTH)).await;
    say(&format!(
        "{side}: create {:.0} µs, {:.0}/s",
        create.cpu_us, create.rate
    ));
    let get = cost(processes, GET_COUNT, get_all(api, count)).await;
    say(&format!(
        "{side}: get {:.0} µs, {:.0}/s",
        get.cpu_us, get.rate
    ));
    let list = cost(processes, LIST_COUNT, list_all(api, count)).await;
    say(&format!(
        "{side}: list {:.0} µs, {:.2}/s",
        list.cpu_us, list.rate
    ));
    let select = cost(processes, SELECT_COUNT, select_none(api)).await;
    say(&format!("{side}: list by a label {:.0} µs", select.cpu_us));
    let rss_mb = processes
        .iter()
        .map(|process| process.usage().1 >> 20)
        .sum::<u64>();
    let (watch, watch_and_write) = fan_out(api, processes).await;
    say(&format!(
        "{side}: watch delivery {:.2} µs, {:.0}/s",
        watch.cpu_us, watch.rate
    ));
    Side {
        create,
        get,
        list,
        select,
        watch,
        watch_and_write,
        rss_mb: small(rss_mb),
    }
}

async fn get_all(api: &Api, count: usize) {
    use futures::{StreamExt, stream};
    stream::iter(0..GET_COUNT)
        .for_each_concurrent(LOAD_WIDTH, |index| async move {
            let path = format!("{PATH}/w-{}", (index * 7919) % count);
            let (code, _) = api.send("GET", &path, None).await;
            assert_eq!(code, 200, "{path}");
        })
        .await;
}

async fn list_all(api: &Api, count: usize) {
    for _ in 0..LIST_COUNT {
        let (code, body) = api.send("GET", ALL, None).await;
        assert_eq!(code, 200, "the list is answered");
        assert!(body.len() > count * 1000, "all of it: {} bytes", body.len());
    }
}

async fn select_none(api: &Api) {
    let path = format!("{ALL}?labelSelector=app%3Dnone");
    for _ in 0..SELECT_COUNT {
        let (code, body) = api.send("GET", &path, None).await;
        assert_eq!(code, 200, "the list is answered");
        assert!(
            body.len() < 1000,
            "nothing is selected: {} bytes",
            body.len()
        );
    }
}

/// What a delivery costs alone, and with its share of the write that it tells of. Each watcher follows one namespace that is empty at first, so that only live events count.
async fn fan_out(api: &Api, processes: &[&Process]) -> (Cost, Cost) {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fan-out"},
    });
    let (code, body) = api
        .send("POST", "/api/v1/namespaces", Some(&namespace))
        .await;
    assert_eq!(code, 201, "{}", String::from_utf8_lossy(&body));
    let path = PATH.replace("/default/", "/fan-out/");
    let mut watchers = Vec::new();
    for _ in 0..WATCHER_COUNT {
        watchers.push(api.watch(&path).await);
    }
    // What the creates cost is measured alone, and taken off: other objects, nobody watching.
    let alone: Vec<Value> = (0..EVENT_COUNT)
        .map(|index| widget("alone", index))
        .collect();
    let writes = cost(
        processes,
        EVENT_COUNT,
        api.create_all(PATH, &alone, LOAD_WIDTH),
    )
    .await;
    let objects: Vec<Value> = (0..EVENT_COUNT)
        .map(|index| {
            let mut widget = widget("event", index);
            widget["metadata"]["namespace"] = json!("fan-out");
            widget
        })
        .collect();
    let delivered = async {
        api.create_all(&path, &objects, LOAD_WIDTH).await;
        for watcher in &mut watchers {
            watcher
                .until(PATIENCE, |seen| seen.total == EVENT_COUNT)
                .await;
        }
    };
    let deliveries = WATCHER_COUNT * EVENT_COUNT;
    let both = cost(processes, deliveries, delivered).await;
    let per_delivery = writes.cpu_us / small(WATCHER_COUNT as u64);
    let alone = Cost {
        cpu_us: (both.cpu_us - per_delivery).max(0.01),
        rate: both.rate,
    };
    (alone, both)
}

async fn cost(processes: &[&Process], operations: usize, work: impl Future<Output = ()>) -> Cost {
    let cpu = || {
        processes
            .iter()
            .map(|process| process.usage().0)
            .sum::<u64>()
    };
    let (before, start) = (cpu(), Instant::now());
    work.await;
    let (used_ms, elapsed) = (cpu() - before, start.elapsed());
    let operations = small(operations as u64);
    Cost {
        cpu_us: small(used_ms) * 1000.0 / operations,
        rate: operations / elapsed.as_secs_f64(),
    }
}

pub(crate) fn widget(prefix: &str, index: usize) -> Value {
    json!({
        "apiVersion": "bench.example.com/v1",
        "kind": "Widget",
        "metadata": {
            "name": format!("{prefix}-{index}"),
            "namespace": "default",
            "labels": {"app": "bench", "shard": format!("{}", index % 16)},
        },
        "spec": {"size": index, "colour": "blue", "payload": "x".repeat(600)},
    })
}

fn small(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
