//! `hack/bench apply`, and B17 of `hack/bench graph`: instances of five ConfigMaps in a chain, made and deleted, ours on a real
//! spoke, and on an embedded one, beside kro on a cluster of its own.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    load::{Api, Counted},
    measure::{Cost, Series, float, rss},
    report::{Better, Report, say},
    world::World,
};

/// How many requests the load generator has under way.
const LOAD_WIDTH: usize = 16;

/// How long a phase may take before the run is given up: tuned kro needs 225 s to delete 1,000.
const PATIENCE: Duration = Duration::from_mins(15);

/// The definition: each ConfigMap needs the one before it.
pub(crate) const DEFINITION: &str = include_str!("../../../fixtures/chain.yaml");
/// Its name.
pub(crate) const CHAIN: &str = "chain";

const PATH: &str = "/apis/kro.run/v1alpha1/namespaces/default/chains";
const ALL: &str = "/apis/kro.run/v1alpha1/chains";

/// What one side needed.
struct Side {
    create: Cost,
    delete: Cost,
    /// Resident memory of each process with all instances there.
    rss_mb: Vec<(&'static str, f64)>,
    /// Requests that the cluster's API server has answered for an instance that was made, and how often the hub has reconciled it.
    counts: Option<(f64, f64)>,
}

/// Runs our hub with a real spoke, and kro.
pub(crate) async fn run(count: usize, report: &mut Report) {
    let ours = side(&World::spoke().await, count).await;
    let peer = side(&World::kro().await, count).await;
    tell("", &ours, &peer, report);
    report.note(format!(
        "{count} instances of five ConfigMaps in a chain; ours: hub with mirror."
    ));
}

/// Runs B17: as [`run`] does, and with an embedded spoke too. `peer` is left out of a run of ours alone.
pub(crate) async fn b17(count: usize, is_alone: bool, report: &mut Report) {
    let ours = side(&World::spoke().await, count).await;
    let embedded = side(&World::embedded().await, count).await;
    if is_alone {
        for (what, side) in [("", &ours), (" (embedded)", &embedded)] {
            tell(what, side, &Side::nothing(), report);
        }
    } else {
        let peer = side(&World::kro().await, count).await;
        tell("", &ours, &peer, report);
        tell(" (embedded)", &embedded, &peer, report);
    }
    report.wanted_of("B17 created to ACTIVE (embedded)", 500.0);
    report.note(format!(
        "B17: {count} instances of five ConfigMaps in a chain. On a real spoke 8 times kro's rate is wanted, and 1,000 deletions \
         in 10 s."
    ));
}

fn tell(what: &str, ours: &Side, peer: &Side, report: &mut Report) {
    for (name, of) in [
        ("B17 created to ACTIVE", (&ours.create, &peer.create)),
        ("B17 deleted to gone", (&ours.delete, &peer.delete)),
    ] {
        let (ours, peer) = of;
        let rate = |cost: &Cost| -> Series {
            cost.is_measured()
                .then_some(cost.rate)
                .into_iter()
                .collect()
        };
        report.row(
            &format!("{name}{what}"),
            "instances/s",
            rate(ours),
            rate(peer),
            Better::More,
        );
        for place in 0..ours.cpu_us.len().max(peer.cpu_us.len()) {
            let part = [
                "the controller",
                "the spoke's API server",
                "the spoke's etcd",
            ];
            let part = part.get(place).copied().unwrap_or("another");
            let cpu = |cost: &Cost| -> Series {
                let of = cost.cpu_us.get(place);
                of.map(|(_, us)| us / 1000.0).into_iter().collect()
            };
            report.row(
                &format!("{name}{what}, CPU of {part}"),
                "ms/instance",
                cpu(ours),
                cpu(peer),
                Better::Less,
            );
        }
    }
    let counts = |of: fn((f64, f64)) -> f64| -> (Series, Series) {
        let of = |side: &Side| side.counts.map(of).into_iter().collect();
        (of(ours), of(peer))
    };
    let (of_ours, of_peer) = counts(|it| it.0);
    let name = format!("B17 created to ACTIVE{what}, requests to the cluster's API server");
    report.row(&name, "per instance", of_ours, of_peer, Better::Less);
    let (of_ours, _) = counts(|it| it.1);
    let name = format!("B17 created to ACTIVE{what}, reconciles by the hub");
    report.row(
        &name,
        "per instance",
        of_ours,
        Series::default(),
        Better::Less,
    );
    for (place, (name, ours)) in ours.rss_mb.iter().enumerate() {
        let of = peer.rss_mb.get(place);
        let peer_name = of.map_or("-", |(name, _)| name);
        report.row(
            &format!("B17 RSS{what} of {name} / {peer_name}"),
            "MB",
            *ours,
            of.map(|(_, mb)| *mb).into_iter().collect::<Series>(),
            Better::Less,
        );
    }
}

// === impl Side ===

impl Side {
    /// A side that was not measured.
    const fn nothing() -> Self {
        Self {
            create: Cost::nothing(),
            delete: Cost::nothing(),
            rss_mb: Vec::new(),
            counts: None,
        }
    }
}

async fn side(world: &World, count: usize) -> Side {
    world.define(DEFINITION, CHAIN).await;
    let processes = &world.processes;
    let before = world.counts().await;
    let (create, rss_mb) = create(world, count).await;
    let after = world.counts().await;
    let each = |before: u64, after: u64| float(after - before) / float(count as u64);
    let counts = (each(before.0, after.0), each(before.1, after.1));
    let api = &world.instances;
    let mut watch = api.watch(ALL).await;
    let names: Vec<String> = (0..count).map(name).collect();
    let (delete, ()) = Cost::of(processes, count, async {
        api.delete_all(PATH, &names, LOAD_WIDTH).await;
        watch
            .until(PATIENCE, |seen: &Counted| seen.total == 0)
            .await;
    })
    .await;
    say(&format!(
        "{}: {count} deleted, {:.0} a second",
        world.name, delete.rate
    ));
    world.is_clean().await;
    Side {
        create,
        delete,
        rss_mb,
        counts: Some(counts),
    }
}

/// Makes instances and waits until all are ACTIVE. Returns the cost, and the resident memory then.
pub(crate) async fn create(world: &World, count: usize) -> (Cost, Vec<(&'static str, f64)>) {
    let api: &Api = &world.instances;
    let mut watch = api.watch(ALL).await;
    let objects: Vec<Value> = (0..count).map(instance).collect();
    let (cost, ()) = Cost::of(&world.processes, count, async {
        api.create_all(PATH, &objects, LOAD_WIDTH).await;
        watch
            .until(PATIENCE, |seen: &Counted| seen.active == count)
            .await;
    })
    .await;
    say(&format!(
        "{}: {count} created to ACTIVE, {:.0} a second",
        world.name, cost.rate
    ));
    let of = |process: &(&'static str, u32)| (process.0, megabytes(rss(&vec![*process])));
    let rss_mb = world.processes.iter().map(of).collect();
    (cost, rss_mb)
}

fn name(index: usize) -> String {
    format!("chain-{index}")
}

/// An instance. Its children are called as it is, with `-1` to `-5` behind.
fn instance(index: usize) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1",
        "kind": "Chain",
        "metadata": {"name": name(index), "namespace": "default"},
        "spec": {"value": format!("value-{index}")},
    })
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    float(bytes >> 10) / 1024.0
}
