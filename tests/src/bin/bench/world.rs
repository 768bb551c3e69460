//! Where instances are made: through a hub, on a real spoke or an embedded one, or by kro on a cluster of its own.

use std::{path::Path, process::Command};

use wheelhouse_tests::{
    Hub, Kubectl, Spoke, assets, eventually,
    process::{Process, Scratch},
    spoke::Options,
};

use crate::{load::Api, measure::Processes};

const OPTIONS: Options = Options {
    without_controllers: true,
    unthrottled: true,
    aggregates: false,
    audited: false,
    issuer: None,
    traces: None,
};

/// The collection of definitions.
pub(crate) const DEFINITIONS: &str = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";
const EMBEDDED: &str = "apiVersion: wheelhouse.dev/v1alpha1\nkind: Spoke\nmetadata: {name: inner}\nspec: {provider: Embedded}\n";

/// One side of a comparison.
pub(crate) struct World {
    /// Its name in reports.
    pub(crate) name: &'static str,
    /// Where definitions are applied.
    pub(crate) definitions: Api,
    /// Where instances are.
    pub(crate) instances: Api,
    /// Where their children are, asked without a way through the hub.
    pub(crate) children: Api,
    /// The controller first; then the API server and the store of the cluster, where they are others.
    pub(crate) processes: Processes,
    root: Kubectl,
    near: Kubectl,
    _hub: Option<Hub>,
    cluster: Option<Spoke>,
    _kro: Option<(Process, Scratch)>,
}

// === impl World ===

impl World {
    /// A hub and a real spoke.
    pub(crate) async fn spoke() -> Self {
        let (hub, spoke) = tokio::join!(Hub::start(), Spoke::start_with("east", OPTIONS));
        hub.join(&spoke).await;
        Self {
            name: "ours",
            definitions: Api::connect(&hub.kubeconfig(), "").await,
            instances: Api::connect(&hub.kubeconfig(), "/clusters/east").await,
            children: Api::connect(spoke.kubeconfig(), "").await,
            processes: vec![
                ("hub", hub.process().pid()),
                ("kube-apiserver", spoke.api().pid()),
                ("etcd", spoke.etcd().pid()),
            ],
            root: hub.root(),
            near: spoke.kubectl(),
            _hub: Some(hub),
            cluster: Some(spoke),
            _kro: None,
        }
    }

    /// A hub with an embedded spoke: one process for everything.
    pub(crate) async fn embedded() -> Self {
        let hub = Hub::start().await;
        hub.root().apply(EMBEDDED).await;
        let ready = [
            "wait",
            "--for=condition=Ready",
            "spoke/inner",
            "--timeout=60s",
        ];
        hub.root().must(&ready).await;
        let inner = Api::connect(&hub.kubeconfig(), "/clusters/inner").await;
        Self {
            name: "ours, embedded",
            definitions: Api::connect(&hub.kubeconfig(), "").await,
            instances: inner.clone(),
            children: inner,
            processes: vec![("hub", hub.process().pid())],
            root: hub.root(),
            near: hub.at("inner"),
            _hub: Some(hub),
            cluster: None,
            _kro: None,
        }
    }

    /// kro as it is fastest here: 40 workers, rate limits and client QPS lifted.
    pub(crate) async fn kro() -> Self {
        let spoke = Spoke::start_with("peer", OPTIONS).await;
        let scratch = Scratch::new("kro");
        let crds = assets::peers_folder()
            .join("kro-crds")
            .display()
            .to_string();
        let kubectl = spoke.kubectl();
        kubectl.must(&["apply", "--server-side", "-f", &crds]).await;
        eventually("kro's kinds are served", || async {
            kubectl.run(&["get", "--raw", DEFINITIONS]).await.ok()?;
            Ok::<(), String>(())
        })
        .await;
        let kro = start_kro(spoke.kubeconfig(), &scratch);
        let api = Api::connect(spoke.kubeconfig(), "").await;
        Self {
            name: "kro",
            definitions: api.clone(),
            instances: api.clone(),
            children: api,
            processes: vec![
                ("kro", kro.pid()),
                ("kube-apiserver", spoke.api().pid()),
                ("etcd", spoke.etcd().pid()),
            ],
            root: kubectl.clone(),
            near: kubectl,
            _hub: None,
            cluster: Some(spoke),
            _kro: Some((kro, scratch)),
        }
    }

    /// Returns how its cluster is reached, if it is one beside the hub.
    pub(crate) fn kubeconfig(&self) -> Option<&Path> {
        self.cluster.as_ref().map(|it| it.kubeconfig().as_path())
    }

    /// Applies a definition and waits until its instances can be made.
    pub(crate) async fn define(&self, definition: &str, name: &str) {
        self.root.apply(definition).await;
        let name = format!("rgd/{name}");
        let ready = ["wait", "--for=condition=Ready", &name, "--timeout=60s"];
        self.root.must(&ready).await;
    }

    /// Returns how many requests the hub or kro's cluster has answered, watches and their like apart, and how many instances the hub
    /// has reconciled.
    pub(crate) async fn counts(&self) -> (u64, u64) {
        let raw = ["get", "--raw", "/metrics"];
        let root = self.root.must(&raw).await;
        let near = match &self.cluster {
            Some(spoke) => spoke.kubectl().must(&raw).await,
            None => root.clone(),
        };
        let requests = sum(&near, "apiserver_request_total{", |it| {
            !it.contains(r#"verb="WATCH""#)
        });
        let reconciles = sum(&root, "controller_runtime_reconcile_total{", |it| {
            it.contains(r#"controller="instance""#)
        });
        (requests, reconciles)
    }

    /// Checks that no child is left.
    pub(crate) async fn is_clean(&self) {
        let owned = [
            "get",
            "configmaps",
            "-l",
            "kro.run/owned=true",
            "-o",
            "name",
        ];
        let left = self.near.must(&owned).await;
        assert!(left.trim().is_empty(), "nothing is left behind: {left}");
    }
}

/// Adds up samples of a metric.
fn sum(metrics: &str, name: &str, counts: impl Fn(&str) -> bool) -> u64 {
    let samples = metrics
        .lines()
        .filter(|line| line.starts_with(name) && counts(line));
    samples
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
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
