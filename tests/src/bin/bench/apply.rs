//! `hack/bench apply`: instances of five ConfigMaps in a chain, ours on one real spoke, kro on
//! another.
//!
//! kro runs as it is fastest here: 40 workers, rate limits and client QPS lifted.

use std::{path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;
use wheelhouse_tests::{
    Hub, Kubectl, Spoke, assets,
    process::{Process, Scratch},
    spoke::Options,
};

use crate::{
    load::{Api, Counted},
    report::{Better, Report, say},
};

/// How many requests the load generator has under way.
const LOAD_WIDTH: usize = 16;

/// How long a phase may take before the run is given up: tuned kro needs 225 s to delete 1,000.
const PATIENCE: Duration = Duration::from_mins(15);

/// The definition: each ConfigMap needs the one before it.
const DEFINITION: &str = include_str!("../../../fixtures/chain.yaml");

const PATH: &str = "/apis/kro.run/v1alpha1/namespaces/default/chains";
const ALL: &str = "/apis/kro.run/v1alpha1/chains";

/// What one side needed.
struct Side {
    create_rate: f64,
    delete_rate: f64,
    create_cpu_ms: Vec<(String, f64)>,
    delete_cpu_ms: Vec<(String, f64)>,
    rss_mb: Vec<(String, f64)>,
}

/// Runs both sides in turns.
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
pub(crate) async fn run(count: usize, report: &mut Report) {
    let ours = ours(count).await;
    let peer = kro(count).await;
    report.row(
        "created to ACTIVE",
        "instances/s",
        ours.create_rate,
        peer.create_rate,
        Better::More,
    );
    report.row(
        "deleted to gone",
        "instances/s",
        ours.delete_rate,
        peer.delete_rate,
        Better::More,
    );
    let rows = [
        (
            "controller CPU, create",
            &ours.create_cpu_ms,
            &peer.create_cpu_ms,
            0,
        ),
        (
            "kube-apiserver CPU, create",
            &ours.create_cpu_ms,
            &peer.create_cpu_ms,
            1,
        ),
        (
            "etcd CPU, create",
            &ours.create_cpu_ms,
            &peer.create_cpu_ms,
            2,
        ),
        (
            "controller CPU, delete",
            &ours.delete_cpu_ms,
            &peer.delete_cpu_ms,
            0,
        ),
        (
            "kube-apiserver CPU, delete",
            &ours.delete_cpu_ms,
            &peer.delete_cpu_ms,
            1,
        ),
        (
            "etcd CPU, delete",
            &ours.delete_cpu_ms,
            &peer.delete_cpu_ms,
            2,
        ),
    ];
    for (what, ours, peer, index) in rows {
        report.row(
            what,
            "ms/instance",
            ours[index].1,
            peer[index].1,
            Better::Less,
        );
    }
    for index in 0..3 {
        let what = format!("RSS of {} / {}", ours.rss_mb[index].0, peer.rss_mb[index].0);
        report.row(
            &what,
            "MB",
            ours.rss_mb[index].1,
            peer.rss_mb[index].1,
            Better::Less,
        );
    }
    report.note(format!(
        "{count} instances of five ConfigMaps in a chain; ours: hub with mirror."
    ));
}

async fn ours(count: usize) -> Side {
    let options = Options {
        without_controllers: true,
        unthrottled: true,
        aggregates: false,
        audited: false,
        traces: None,
    };
    let (hub, spoke) = tokio::join!(Hub::start(), Spoke::start_with("east", options));
    hub.join(&spoke).await;
    hub.root().apply(DEFINITION).await;
    hub.root()
        .must(&[
            "wait",
            "--for=condition=Ready",
            "rgd/chain",
            "--timeout=60s",
        ])
        .await;
    let api = Api::connect(&hub.kubeconfig(), "/clusters/east").await;
    let processes = [
        ("hub", hub.process()),
        ("kube-apiserver", spoke.api()),
        ("etcd", spoke.etcd()),
    ];
    let side = measure(&api, count, &processes, "ours").await;
    left_clean(&spoke.kubectl()).await;
    side
}

async fn kro(count: usize) -> Side {
    let options = Options {
        without_controllers: true,
        unthrottled: true,
        aggregates: false,
        audited: false,
        traces: None,
    };
    let spoke = Spoke::start_with("peer", options).await;
    let scratch = Scratch::new("kro");
    let crds = assets::peers_folder().join("kro-crds");
    spoke
        .kubectl()
        .must(&["apply", "--server-side", "-f", &crds.display().to_string()])
        .await;
    let controller = start_kro(spoke.kubeconfig(), &scratch);
    spoke.kubectl().apply(DEFINITION).await;
    spoke
        .kubectl()
        .must(&[
            "wait",
            "--for=condition=Ready",
            "rgd/chain",
            "--timeout=60s",
        ])
        .await;
    let api = Api::connect(spoke.kubeconfig(), "").await;
    let processes = [
        ("kro", &controller),
        ("kube-apiserver", spoke.api()),
        ("etcd", spoke.etcd()),
    ];
    let side = measure(&api, count, &processes, "kro").await;
    left_clean(&spoke.kubectl()).await;
    side
}

fn start_kro(kubeconfig: &Path, scratch: &Scratch) -> Process {
    let mut command = Command::new(assets::peers_folder().join("kro"));
    command.arg("--kubeconfig").arg(kubeconfig);
    command.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    for worker in [
        "resource-graph-definition",
        "graph-revision",
        "dynamic-controller",
    ] {
        command.arg(format!("--{worker}-concurrent-reconciles=40"));
    }
    command.args([
        "--dynamic-controller-rate-limiter-rate-limit=100000",
        "--dynamic-controller-rate-limiter-burst-limit=100000",
        "--client-qps=100000",
        "--client-burst=100000",
    ]);
    Process::start(&command, &scratch.file("kro.log"))
}

async fn measure(api: &Api, count: usize, processes: &[(&str, &Process); 3], side: &str) -> Side {
    let mut watch = api.watch(ALL).await;
    let before = usages(processes);
    let start = Instant::now();
    let objects: Vec<Value> = (0..count).map(instance).collect();
    api.create_all(PATH, &objects, LOAD_WIDTH).await;
    watch
        .until(PATIENCE, |seen: &Counted| seen.active == count)
        .await;
    let created = start.elapsed();
    let middle = usages(processes);
    say(&format!(
        "{side}: {count} created to ACTIVE in {created:.1?}"
    ));
    let start = Instant::now();
    let names: Vec<String> = (0..count).map(name).collect();
    api.delete_all(PATH, &names, LOAD_WIDTH).await;
    watch
        .until(PATIENCE, |seen: &Counted| seen.total == 0)
        .await;
    let deleted = start.elapsed();
    let after = usages(processes);
    say(&format!("{side}: {count} deleted in {deleted:.1?}"));
    let instances = per(count);
    let cpu = |from: &[(u64, u64)], to: &[(u64, u64)]| {
        let used = from
            .iter()
            .zip(to)
            .map(|(from, to)| per_instance(to.0 - from.0, count));
        processes
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .zip(used)
            .collect()
    };
    Side {
        create_rate: instances / created.as_secs_f64(),
        delete_rate: instances / deleted.as_secs_f64(),
        create_cpu_ms: cpu(&before, &middle),
        delete_cpu_ms: cpu(&middle, &after),
        rss_mb: processes
            .iter()
            .zip(&middle)
            .map(|((name, _), usage)| ((*name).to_owned(), megabytes(usage.1)))
            .collect(),
    }
}

async fn left_clean(spoke: &Kubectl) {
    let left = spoke
        .must(&[
            "get",
            "configmaps",
            "-l",
            "kro.run/owned=true",
            "-o",
            "name",
        ])
        .await;
    assert!(left.trim().is_empty(), "nothing is left behind: {left}");
}

fn usages(processes: &[(&str, &Process); 3]) -> Vec<(u64, u64)> {
    processes
        .iter()
        .map(|(_, process)| process.usage())
        .collect()
}

fn name(index: usize) -> String {
    format!("chain-{index}")
}

fn instance(index: usize) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1",
        "kind": "Chain",
        "metadata": {"name": name(index), "namespace": "default"},
        "spec": {"value": format!("value-{index}")},
    })
}

fn per(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn per_instance(total_ms: u64, count: usize) -> f64 {
    f64::from(u32::try_from(total_ms).unwrap_or(u32::MAX)) / per(count)
}

fn megabytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 20).unwrap_or(u32::MAX))
}
