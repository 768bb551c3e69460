//! The servers that are measured: ours, kube-apiserver with etcd, and etcd alone.

use std::{path::PathBuf, process::Command, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use wheelhouse_tests::{
    Hub, Kubectl, Spoke, assets,
    process::{Process, Scratch, free_port},
    spoke::Options,
    wait::within,
};

use crate::{
    etcd,
    measure::Processes,
    wire::{Target, Wire},
};

/// The collection that is written to.
pub(crate) const PATH: &str = "/apis/bench.example.com/v1/namespaces/default/widgets";
/// All of them.
pub(crate) const ALL: &str = "/apis/bench.example.com/v1/widgets";

/// A running server.
pub(crate) enum Server {
    /// A hub; custom resources in root.
    Ours(Box<Hub>),
    /// kube-apiserver with etcd, without controllers and without its request limits.
    Peer(Box<Spoke>),
}

/// etcd without an API server.
pub(crate) struct Etcd {
    process: Process,
    port: u16,
    _scratch: Scratch,
}

// === impl Server ===

impl Server {
    /// Starts a hub that serves the kind of the benchmark.
    pub(crate) async fn ours() -> Self {
        let hub = Hub::start().await;
        define(&hub.root()).await;
        Self::Ours(Box::new(hub))
    }

    /// Starts the peer, serving the same kind.
    pub(crate) async fn peer() -> Self {
        let spoke = Spoke::start_with("peer", OPTIONS).await;
        define(&spoke.kubectl()).await;
        Self::Peer(Box::new(spoke))
    }

    /// Both, in turns.
    pub(crate) async fn start(ours: bool) -> Self {
        if ours {
            Self::ours().await
        } else {
            Self::peer().await
        }
    }

    /// Its processes.
    pub(crate) fn processes(&self) -> Processes {
        match self {
            Self::Ours(hub) => vec![("hub", hub.process().pid())],
            Self::Peer(spoke) => vec![
                ("kube-apiserver", spoke.api().pid()),
                ("etcd", spoke.etcd().pid()),
            ],
        }
    }

    /// Where it keeps its data.
    pub(crate) fn data(&self) -> PathBuf {
        match self {
            Self::Ours(hub) => hub.data().join("store"),
            Self::Peer(spoke) => spoke.etcd_data(),
        }
    }

    /// How to reach it.
    pub(crate) fn target(&self) -> Target {
        match self {
            Self::Ours(hub) => Target::of_kubeconfig(&hub.kubeconfig()),
            Self::Peer(spoke) => Target::of_kubeconfig(spoke.kubeconfig()),
        }
    }

    /// A client for requests one by one.
    pub(crate) async fn wire(&self, count: usize) -> Wire {
        self.target().wire(count).await
    }

    /// Ends all its processes as a power cut would, and starts them again, without a wait.
    pub(crate) fn power_cycle(&mut self) {
        match self {
            Self::Ours(hub) => {
                hub.kill();
                hub.spawn();
            }
            Self::Peer(spoke) => spoke.power_cycle(),
        }
    }

    /// Its name in reports.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Ours(_) => "ours",
            Self::Peer(_) => "kube-apiserver and etcd",
        }
    }
}

/// How the peer is started: as fast as it can be.
pub(crate) const OPTIONS: Options = Options {
    without_controllers: true,
    unthrottled: true,
    aggregates: false,
    audited: false,
    issuer: None,
    traces: None,
};

/// Serves the kind of the benchmark, and waits until it is served.
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
    within(Duration::from_mins(1), "widgets are served", || async {
        kubectl.run(&["get", "--raw", ALL]).await.ok()?;
        Ok(())
    })
    .await;
}

// === impl Etcd ===

impl Etcd {
    /// Starts etcd alone, with its own defaults.
    pub(crate) async fn start() -> Self {
        let scratch = Scratch::new("etcd");
        let port = free_port();
        let url = format!("http://127.0.0.1:{port}");
        let mut command = Command::new(assets::folder().join("etcd"));
        command.arg("--data-dir").arg(scratch.file("etcd"));
        command.args(["--listen-client-urls", &url]);
        command.args(["--advertise-client-urls", &url, "--log-level", "warn"]);
        command.args(["--listen-peer-urls", "http://127.0.0.1:0"]);
        let process = Process::start(&command, &scratch.file("etcd.log"));
        let target = Target::plain(port);
        within(Duration::from_mins(1), "etcd answers", || async {
            let connection = target.connect(0).await.map_err(|error| error.to_string())?;
            etcd::get(&connection, b"absent")
                .await
                .map_err(|error| error.to_string())
        })
        .await;
        Self {
            process,
            port,
            _scratch: scratch,
        }
    }

    /// Its process.
    pub(crate) fn processes(&self) -> Processes {
        vec![("etcd", self.process.pid())]
    }

    /// Its URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A client.
    pub(crate) async fn wire(&self, count: usize) -> Wire {
        Target::plain(self.port).wire(count).await
    }
}

/// A widget; 1.2 KB as it is served.
pub(crate) fn widget(namespace: &str, name: &str, index: usize) -> Value {
    json!({
        "apiVersion": "bench.example.com/v1",
        "kind": "Widget",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": "bench", "shard": format!("{}", index % 16)},
        },
        "spec": {"size": index, "colour": "blue", "payload": "x".repeat(600)},
    })
}

/// Bodies of widgets of the default namespace, made as they are asked for.
pub(crate) fn bodies(prefix: &str, count: usize) -> impl Iterator<Item = Bytes> {
    (0..count).map(move |index| {
        Bytes::from(widget("default", &format!("{prefix}-{index}"), index).to_string())
    })
}
