//! `hack/bench graph`: definitions and instances, ours beside kro.
//!
//! - B16: definitions of 2, 5 and 20 resources, from applied to accepted and to Ready; what compiling them takes alone (see
//!   [`build_bench`]); and the memory that 100 definitions of 50 resources take.
//! - B17: instances of five children, made and deleted (see [`apply_bench`]).
//! - B18: what 1,000 instances cost at rest, and how long a child that somebody has deleted or changed stays so.
//!
//! Sides run one after the other, each on servers of its own. kro runs as it is fastest here.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    Asked, apply_bench, build_bench,
    load::Events,
    measure::{Cost, Series, percentile_ms, rss},
    report::{Better, Report, say},
    world::{DEFINITIONS, World},
};

/// The benchmarks of the set.
pub(crate) const NAMES: [&str; 3] = ["B16", "B17", "B18"];

/// Resources of the definitions of B16.
const SIZES: [usize; 3] = [2, 5, 20];
/// Definitions of each size, and resources of those whose memory is measured.
const DEFINITION_COUNT: usize = 100;
const LARGE_SIZE: usize = 50;
/// Instances of B17 and B18.
const INSTANCE_COUNT: usize = 1_000;
/// Children that are deleted, and children that are changed.
const REPAIR_COUNT: usize = 100;
/// How long the side rests before it is looked at, and how long it is looked at.
const CALM: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_mins(2);

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Runs the benchmarks that are asked for.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    let is_asked = |name: &str| asked.names.is_empty() || asked.names.iter().any(|it| it == name);
    if is_asked("B16") {
        b16(asked, report).await;
    }
    if is_asked("B17") {
        let count = asked.count.unwrap_or(INSTANCE_COUNT);
        apply_bench::b17(count, asked.alone, report).await;
    }
    if is_asked("B18") {
        b18(asked, report).await;
    }
}

// === B16 ===

/// What the definitions of one size took.
struct Compiled {
    accepted: Vec<u64>,
    ready: Vec<u64>,
    cost: Cost,
}

async fn b16(asked: &Asked, report: &mut Report) {
    let count = asked.count.unwrap_or(DEFINITION_COUNT);
    let ours = compile_all(&World::spoke().await, count).await;
    let peer = if asked.alone {
        build_bench::run(&built(), None, report);
        None
    } else {
        let world = World::kro().await;
        build_bench::run(&built(), world.kubeconfig(), report);
        Some(compile_all(&world, count).await)
    };
    for (place, size) in SIZES.into_iter().enumerate() {
        let of = |figure: &dyn Fn(&Compiled) -> f64| -> (Series, Series) {
            let at = |sizes: &[Compiled]| sizes.get(place).map(figure).into_iter().collect();
            let peer = peer.as_ref().map_or_else(Series::default, |it| at(&it.0));
            (at(&ours.0), peer)
        };
        let name = |what: &str| format!("B16 {size} resources: {what}");
        for (what, percent) in [("p50", 50), ("p99", 99)] {
            let (one, other) = of(&|it| percentile_ms(&it.accepted, percent));
            let name = name(&format!("applied to accepted, {what}"));
            report.row(&name, "ms", one, other, Better::Less);
            report.wanted_of(&name, 10.0);
        }
        let (one, other) = of(&|it| percentile_ms(&it.ready, 50));
        report.row(
            &name("applied to Ready, p50"),
            "ms",
            one,
            other,
            Better::Less,
        );
        let (one, other) = of(&|it| it.cost.cpu_us.first().map_or(0.0, |(_, us)| us / 1000.0));
        let cpu = name("CPU of the controller");
        report.row(&cpu, "ms/definition", one, other, Better::Less);
        let (one, other) = of(&|it| it.cost.total_cpu_us() / 1000.0);
        let cpu = name("CPU of all servers");
        report.row(&cpu, "ms/definition", one, other, Better::Less);
    }
    let name = format!("B16 memory for {count} definitions of {LARGE_SIZE} resources");
    let peer: Series = peer.map(|it| it.1).into_iter().collect();
    report.row(&name, "MB", ours.1, peer, Better::Less);
    report.note(format!(
        "B16: {count} definitions of each size, one after the other, each of a kind of its own; resources are ConfigMaps, each with \
         two expressions. The hub is API server and store of the definitions too; kro has those of its cluster."
    ));
}

/// Returns what each size took, and the memory that large definitions take, in MB.
async fn compile_all(world: &World, count: usize) -> (Vec<Compiled>, f64) {
    let mut sizes = Vec::new();
    for size in SIZES {
        sizes.push(compile(world, count, size).await);
    }
    let controller = world.processes.first().copied().into_iter().collect();
    let before = rss(&controller);
    compile(world, count, LARGE_SIZE).await;
    let grown = rss(&controller).saturating_sub(before);
    (sizes, apply_bench::megabytes(grown))
}

async fn compile(world: &World, count: usize, size: usize) -> Compiled {
    let mut events = world.definitions.events(DEFINITIONS).await;
    let (mut accepted, mut ready) = (Vec::new(), Vec::new());
    let (cost, ()) = Cost::of(&world.processes, count, async {
        for index in 0..count {
            let definition = definition(size, index);
            let start = Instant::now();
            let made = world
                .definitions
                .send("POST", DEFINITIONS, Some(&definition));
            let (code, body) = made.await;
            assert_eq!(code, 201, "{}", String::from_utf8_lossy(&body));
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let mut is_accepted = false;
            events
                .until(PATIENCE, |event| {
                    let object = &event["object"];
                    if object["metadata"]["name"] != name {
                        return false;
                    }
                    if !is_accepted && holds(object, "GraphAccepted") {
                        is_accepted = true;
                        accepted.push(micros(start));
                    }
                    holds(object, "Ready")
                })
                .await;
            ready.push(micros(start));
        }
    })
    .await;
    say(&format!(
        "{}: {size} resources: accepted after {:.1} ms, Ready after {:.1} ms, {:.1} ms of its processor",
        world.name,
        percentile_ms(&accepted, 50),
        percentile_ms(&ready, 50),
        cost.cpu_us.first().map_or(0.0, |(_, us)| us / 1000.0)
    ));
    Compiled {
        accepted,
        ready,
        cost,
    }
}

fn holds(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == condition && it["status"] == "True")
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// The definitions that are built without being served.
fn built() -> Vec<(String, Value)> {
    let chains = SIZES.map(|size| (format!("{size} ConfigMaps"), definition(size, 0)));
    let large = ("20 Deployments".to_owned(), deployments(20));
    chains.into_iter().chain([large]).collect()
}

/// Deployments, of a kind with a large schema, and a status that reads the first of them.
fn deployments(size: usize) -> Value {
    let resources: Vec<Value> = (0..size)
        .map(|place| {
            let labels = json!({"app": "${schema.metadata.name}"});
            json!({"id": format!("r{place}"), "template": {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": format!("${{schema.metadata.name}}-{place}")},
                "spec": {
                    "replicas": "${schema.spec.replicas}",
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "main", "image": "${schema.spec.image}"}]},
                    },
                },
            }})
        })
        .collect();
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "deployments"},
        "spec": {
            "schema": {
                "apiVersion": "v1alpha1", "kind": "Deployed",
                "spec": {"replicas": "integer", "image": "string"},
                "status": {"ready": "${r0.status.readyReplicas}"},
            },
            "resources": resources,
        },
    })
}

/// A chain of ConfigMaps, of a kind of its own.
fn definition(size: usize, index: usize) -> Value {
    let resources: Vec<Value> = (0..size)
        .map(|place| {
            let value = match place {
                0 => "${schema.spec.value}".to_owned(),
                _ => format!("${{r{}.data.value}}", place - 1),
            };
            json!({"id": format!("r{place}"), "template": {
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("${{schema.metadata.name}}-{place}")},
                "data": {"value": value},
            }})
        })
        .collect();
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": format!("g{size}-{index}")},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": format!("G{size}x{index}"), "spec": {"value": "string"}},
            "resources": resources,
        },
    })
}

// === B18 ===

/// What a side with instances does when nothing happens, and when children drift.
struct Drift {
    idle_percent: f64,
    deleted: Vec<u64>,
    edited: Vec<u64>,
}

async fn b18(asked: &Asked, report: &mut Report) {
    let count = asked.count.unwrap_or(INSTANCE_COUNT);
    let ours = drift(&World::spoke().await, count).await;
    let peer = if asked.alone {
        None
    } else {
        Some(drift(&World::kro().await, count).await)
    };
    let mut row = |what: &str, unit, wanted: Option<f64>, of: &dyn Fn(&Drift) -> f64| {
        let other: Series = peer.as_ref().map(of).into_iter().collect();
        report.row(what, unit, of(&ours), other, Better::Less);
        if let Some(wanted) = wanted {
            report.wanted(wanted);
        }
    };
    row(
        "B18 CPU of the controller at rest",
        "% of a core",
        Some(0.5),
        &|it| it.idle_percent,
    );
    for (percent, wanted) in [(50, None), (99, Some(100.0))] {
        row(
            &format!("B18 a deleted child is back, p{percent}"),
            "ms",
            wanted,
            &|it| percentile_ms(&it.deleted, percent),
        );
        row(
            &format!("B18 a changed child is as it was, p{percent}"),
            "ms",
            wanted,
            &|it| percentile_ms(&it.edited, percent),
        );
    }
    report.note(format!(
        "B18: {count} instances of five ConfigMaps in a chain. At rest for {} s. {REPAIR_COUNT} children are deleted and \
         {REPAIR_COUNT} changed in the cluster itself, one after the other; times are from the request to the watch event there.",
        LOOK.as_secs()
    ));
}

async fn drift(world: &World, count: usize) -> Drift {
    world
        .define(apply_bench::DEFINITION, apply_bench::CHAIN)
        .await;
    apply_bench::create(world, count).await;
    tokio::time::sleep(CALM).await;
    let controller = world.processes.first().copied().into_iter().collect();
    let (cost, ()) = Cost::of(&controller, 1, tokio::time::sleep(LOOK)).await;
    let idle_percent = cost.total_cpu_us() / 1e4 / LOOK.as_secs_f64();
    say(&format!("{}: {idle_percent:.2} % at rest", world.name));
    let (mut deleted, mut edited) = (Vec::new(), Vec::new());
    let mut events = world.children.events(MAPS).await;
    for index in 0..REPAIR_COUNT {
        let instance = (index * 7) % count;
        let path = |place: usize| format!("{MAPS}/chain-{instance}-{place}");
        deleted.push(repaired(world, &mut events, ("DELETE", &path(2), None), "ADDED").await);
        let changed = json!({"data": {"value": "drift"}});
        edited.push(
            repaired(
                world,
                &mut events,
                ("PATCH", &path(4), Some(&changed)),
                "MODIFIED",
            )
            .await,
        );
    }
    say(&format!(
        "{}: a deleted child is back after {:.1} ms, a changed one after {:.1} ms",
        world.name,
        percentile_ms(&deleted, 50),
        percentile_ms(&edited, 50)
    ));
    Drift {
        idle_percent,
        deleted,
        edited,
    }
}

/// Sends a request that damages a child. Returns how long it is until the child is as it was.
async fn repaired(
    world: &World,
    events: &mut Events,
    (method, path, body): (&str, &str, Option<&Value>),
    kind: &str,
) -> u64 {
    let start = Instant::now();
    let (code, answer) = world.children.send(method, path, body).await;
    assert_eq!(code, 200, "{}", String::from_utf8_lossy(&answer));
    let name = path.rsplit('/').next().unwrap_or_default();
    events
        .until(PATIENCE, |event| {
            let object = &event["object"];
            event["type"] == kind
                && object["metadata"]["name"] == name
                && object["data"]["value"]
                    .as_str()
                    .is_some_and(|it| it.starts_with("value-"))
        })
        .await;
    micros(start)
}
