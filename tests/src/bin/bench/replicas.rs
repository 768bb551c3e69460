//! `hack/bench replicas`: one, two and three replicas over one etcd, in turns, under the same load.
//!
//! What a second replica costs is the processor time of an operation, of all replicas together and of etcd. Rates say little
//! here: replicas, etcd and the load generator share the processors of one machine, so that no replica brings one along.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use wheelhouse_tests::{Hub, hub::Settings, wait::within};

use crate::{
    Asked,
    fleet::{self, CHILDREN, CREDENTIALS, Priority, Spokes},
    measure::{Cost, Processes, Series, float},
    report::{Report, cell, say},
    side::{ALL, Etcd, PATH, bodies, define, widget},
    store_bench::{Watcher, newest},
    wire::{Target, Wire},
};

/// How many replicas there are, in turns.
const REPLICA_COUNTS: [usize; 3] = [1, 2, 3];

/// Requests under way.
const LOAD_WIDTH: usize = 32;

/// Connections of the load generator: as many of each replica, however many there are.
const CONNECTION_COUNT: usize = 12;

/// Lists of all objects.
const LIST_COUNT: usize = 12;

/// Watchers, spread over the replicas, and events that each of them receives.
const WATCHER_COUNT: usize = 12;
const EVENT_COUNT: usize = 1000;

/// How long replicas are looked at that nobody asks anything.
const IDLE: Duration = Duration::from_secs(10);

/// How long something may take that all replicas do.
const PATIENCE: Duration = Duration::from_mins(3);

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces";

/// Replicas of one hub, and how they are asked in turn.
struct Side {
    hubs: Vec<Hub>,
    targets: Vec<Target>,
    wire: Wire,
    processes: Processes,
    _etcd: Etcd,
}

/// One figure of each number of replicas.
struct Figure {
    what: String,
    unit: &'static str,
    of: [Series; REPLICA_COUNTS.len()],
}

/// What was found, in the order in which it was measured.
#[derive(Default)]
struct Figures(Vec<Figure>);

/// Measures each number of replicas in turn.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    let (rounds, count) = (asked.rounds.unwrap_or(3), asked.count.unwrap_or(5000));
    let spoke_count = asked.spokes.unwrap_or(12);
    let instance_count = spoke_count * count.div_ceil(200);
    let mut figures = Figures::default();
    for _ in 0..rounds {
        for (index, replica_count) in REPLICA_COUNTS.into_iter().enumerate() {
            let side = Side::start(replica_count).await;
            side.measure(count, &mut |what, cost: &Cost| {
                figures.add(index, what, cost);
            })
            .await;
            if spoke_count > 0 {
                let cost = side.fill(spoke_count, instance_count / spoke_count).await;
                figures.add(index, "child of an instance converged", &cost);
            }
            let megabytes = float(crate::measure::rss(&side.of_hubs())) / float(1 << 20);
            figures.push(index, "RSS of all replicas at the end", "MB", megabytes);
        }
    }
    report.note(figures.table());
    report.note(format!(
        "{rounds} rounds: the median, and the least and the greatest. One etcd, and 1, 2 and 3 replicas over it, on loopback of \
         one machine; {LOAD_WIDTH} requests under way, over {CONNECTION_COUNT} connections that are spread over the replicas. \
         {count} objects of 1.2 KB; an update is a get and a put, through different replicas; {LIST_COUNT} lists of all; \
         {WATCHER_COUNT} watchers of {EVENT_COUNT} events; {instance_count} instances of {CHILDREN} children in {spoke_count} \
         fake spokes."
    ));
}

// === impl Side ===

impl Side {
    /// Starts replicas over an etcd of their own, each of which serves the kind of the benchmark.
    async fn start(replica_count: usize) -> Self {
        let etcd = Etcd::start().await;
        let mut hubs = Vec::new();
        for _ in 0..replica_count {
            let settings = Settings {
                arguments: vec!["--etcd-servers".to_owned(), etcd.url()],
                ..Settings::default()
            };
            let hub = Hub::start_with(settings).await;
            define(&hub.root()).await;
            hubs.push(hub);
        }
        let target = |hub: &Hub| Target::of_kubeconfig(&hub.kubeconfig());
        let targets: Vec<Target> = hubs.iter().map(target).collect();
        let mut processes: Processes = etcd.processes();
        processes.extend(hubs.iter().map(|hub| ("replicas", hub.process().pid())));
        Self {
            wire: Wire::over(&targets, CONNECTION_COUNT).await,
            hubs,
            targets,
            processes,
            _etcd: etcd,
        }
    }

    fn of_hubs(&self) -> Processes {
        let hubs = self.processes.iter().filter(|(name, _)| *name != "etcd");
        hubs.copied().collect()
    }

    /// Reads and writes, told one after the other.
    async fn measure(&self, count: usize, tell: &mut impl FnMut(&str, &Cost)) {
        let mut told = |what: &str, cost: Cost| {
            let cpu = cost.total_cpu_us();
            let replica_count = self.hubs.len();
            say(&format!(
                "{replica_count} replicas: {what}: {cpu:.0} µs, {:.1}/s",
                cost.rate
            ));
            tell(what, &cost);
        };
        let seconds = usize::try_from(IDLE.as_secs()).unwrap_or(usize::MAX);
        told(
            "second without requests",
            self.cost(seconds, sleep(IDLE)).await,
        );
        let work = self.wire.create(PATH, bodies("w", count), LOAD_WIDTH);
        told("create", self.cost(count, work).await);
        told("get and update", self.cost(count, self.update(count)).await);
        let paths = (0..2 * count).map(|index| format!("{PATH}/w-{}", (index * 7919) % count));
        let work = self.each("GET", paths, LOAD_WIDTH);
        told("get", self.cost(2 * count, work).await);
        let work = self.each("GET", (0..LIST_COUNT).map(|_| ALL.to_owned()), 1);
        told("list of all", self.cost(LIST_COUNT, work).await);
        let what = format!("create that {WATCHER_COUNT} watchers see");
        told(&what, self.fan_out().await);
        let paths = (0..count).map(|index| format!("{PATH}/w-{index}"));
        let work = self.each("DELETE", paths, LOAD_WIDTH);
        told("delete", self.cost(count, work).await);
    }

    async fn cost<T>(&self, operations: usize, work: impl Future<Output = T>) -> Cost {
        Cost::of(&self.processes, operations, work).await.0
    }

    /// Sends requests without a body, each through the next replica.
    async fn each(&self, method: &str, paths: impl Iterator<Item = String>, width: usize) {
        stream::iter(paths.enumerate())
            .for_each_concurrent(width, |(index, path)| async move {
                let connection = self.wire.connection(index + 1);
                let answer = connection.send(method, &path, "", Bytes::new()).await;
                let (code, body) = answer.expect("an answer");
                assert_eq!(code, 200, "{path}: {}", String::from_utf8_lossy(&body));
            })
            .await;
    }

    /// Reads each object through one replica, and writes it through the next one, at the version that was read.
    async fn update(&self, count: usize) {
        let one = async |index: usize| {
            let path = format!("{PATH}/w-{index}");
            let read = self.wire.connection(index + 1);
            let answer = read.send("GET", &path, "", Bytes::new()).await;
            let (code, body) = answer.expect("an answer");
            assert_eq!(code, 200, "{path}: what was created is read elsewhere");
            let mut object: Value = serde_json::from_slice(&body).expect("an object");
            object["spec"]["colour"] = json!("red");
            let write = self.wire.connection(index + 2);
            let body = Bytes::from(object.to_string());
            let answer = write.send("PUT", &path, "application/json", body).await;
            let (code, body) = answer.expect("an answer");
            assert_eq!(code, 200, "{path}: {}", String::from_utf8_lossy(&body));
        };
        stream::iter(0..count)
            .for_each_concurrent(LOAD_WIDTH, one)
            .await;
    }

    /// What a create costs with its deliveries: watchers of a namespace that is empty at first.
    async fn fan_out(&self) -> Cost {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fan-out"}});
        let made = self.wire.json("POST", "/api/v1/namespaces", &namespace);
        assert_eq!(made.await.0, 201, "the namespace is made");
        let path = PATH.replace("/default/", "/fan-out/");
        let mut watchers = Vec::new();
        for index in 0..WATCHER_COUNT {
            let target = &self.targets[index % self.targets.len()];
            let version = newest(target, &path).await;
            let connection = target.connect(index).await.expect("the server accepts");
            watchers.push(Watcher::begin(connection, &path, &version).await);
        }
        let body = |index: usize| {
            let object = widget("fan-out", &format!("event-{index}"), index);
            Bytes::from(object.to_string())
        };
        let written = async {
            let bodies = (0..EVENT_COUNT).map(body);
            self.wire.create(&path, bodies, LOAD_WIDTH).await;
        };
        let seen = async {
            let all = watchers.iter_mut().map(|it| it.until(EVENT_COUNT));
            for seen in futures::future::join_all(all).await {
                seen.expect("the watch goes on");
            }
        };
        let work = async { tokio::join!(written, seen) };
        self.cost(EVENT_COUNT, work).await
    }

    /// Joins fake spokes, makes all instances at once, and waits until their children are in the spokes.
    async fn fill(&self, spoke_count: usize, per_spoke: usize) -> Cost {
        let spokes = Spokes::start("fake", spoke_count, Priority::Normal).await;
        fleet::join(&self.wire, &spokes.all).await;
        fleet::define(&self.wire).await;
        self.shared(spoke_count).await;
        let count = spoke_count * per_spoke * CHILDREN;
        let before = spokes.written().await.objects;
        let requests = (0..per_spoke).flat_map(|index| {
            let names = spokes.all.iter();
            names.map(move |(name, _)| (fleet::batches(name), fleet::batch(index)))
        });
        let work = async {
            let start = Instant::now();
            fleet::send_all(&self.wire, "POST", 201, requests).await;
            loop {
                let seen = spokes.written().await.objects - before;
                if seen >= count {
                    return;
                }
                assert!(start.elapsed() < PATIENCE, "{seen} of {count} children");
                sleep(Duration::from_millis(20)).await;
            }
        };
        let cost = self.cost(count, work).await;
        say(&format!(
            "{} replicas: {count} children: {:.0} µs, {:.0}/s",
            self.hubs.len(),
            cost.total_cpu_us(),
            cost.rate
        ));
        cost
    }

    /// Waits until each replica looks after its share of the spokes.
    async fn shared(&self, spoke_count: usize) {
        let share = spoke_count.div_ceil(self.hubs.len());
        let path = format!("{LEASES}/{CREDENTIALS}/leases");
        within(PATIENCE, "the spokes are shared", || async {
            let (_, list) = self.wire.json("GET", &path, &Value::Null).await;
            let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
            for lease in list["items"].as_array().into_iter().flatten() {
                let is_spokes = lease["metadata"]["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with("wheelhouse-spoke-"));
                if let (true, Some(holder)) = (is_spokes, lease["spec"]["holderIdentity"].as_str())
                {
                    *shares.entry(holder).or_default() += 1;
                }
            }
            let held: usize = shares.values().sum();
            let is_even = shares.values().all(|it| *it <= share);
            (held == spoke_count && is_even)
                .then_some(())
                .ok_or_else(|| format!("{shares:?}"))
        })
        .await;
    }
}

// === impl Figures ===

impl Figures {
    /// Adds what some work cost, once for each of several figures.
    fn add(&mut self, side: usize, what: &str, cost: &Cost) {
        let of = |wanted: &str| -> f64 {
            let parts = cost.cpu_us.iter().filter(|(name, _)| *name == wanted);
            parts.map(|(_, cpu)| cpu).sum()
        };
        for name in ["replicas", "etcd"] {
            self.push(side, &format!("{what}, CPU of {name}"), "µs", of(name));
        }
        // A second takes a second.
        if !what.starts_with("second") {
            self.push(side, what, "1/s", cost.rate);
        }
    }

    fn push(&mut self, side: usize, what: &str, unit: &'static str, value: f64) {
        let found = self.0.iter().position(|figure| figure.what == what);
        let index = found.unwrap_or_else(|| {
            self.0.push(Figure {
                what: what.to_owned(),
                unit,
                of: Default::default(),
            });
            self.0.len() - 1
        });
        self.0[index].of[side].push(value);
    }

    /// The table: what each number of replicas gave, and how many times that is of what one gave.
    fn table(&self) -> String {
        let mut text =
            "| what | unit | 1 replica | 2 replicas | 3 replicas | 2 : 1 | 3 : 1 |\n".to_owned();
        text.push_str("|---|---|---:|---:|---:|---:|---:|");
        for Figure { what, unit, of } in &self.0 {
            let [one, two, three] = of;
            let ratio = |other: &Series| format!("{:.2}", other.median() / one.median());
            let cells = [cell(one), cell(two), cell(three), ratio(two), ratio(three)];
            text.push_str(&["\n|", what, "|", unit, "|", &cells.join(" | "), "|"].join(" "));
        }
        text
    }
}
