//! Flux's kustomize-controller lives in an embedded cluster of the hub, and applies the manifests of the corpus to a spoke, to the spoke's path and to
//! an embedded cluster: all hold the same, a second reconcile changes nothing, and deletion leaves nothing.
//!
//! Its source is an ExternalArtifact, which the trial serves.

use std::{path::PathBuf, process::Command, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};
use wheelhouse_tests::{
    Kubectl, assets,
    process::{Process, Scratch, free_port},
    wait::within,
};

use super::{
    charts::{self, Chart, differences, held},
    stage::{Server, Stage},
};

/// The namespace of Flux itself.
const HOME: &str = "flux-system";

/// How long a reconcile may take; a failed one is tried again after some time.
const PATIENCE: Duration = Duration::from_mins(3);

/// A running Flux. Dropping it ends its processes.
struct Flux {
    home: Kubectl,
    processes: Vec<Process>,
    server: JoinSet<()>,
    scratch: Scratch,
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_are_kept_at_a_hub_as_at_a_kube_apiserver() {
    let Some(charts) = charts::all() else { return };
    let stage = Stage::set().await;
    let Some(flux) = Flux::start(&stage, &charts).await else {
        return;
    };
    let mut failed = Vec::new();
    for chart in &charts {
        let mut seen = Vec::new();
        for (server, cluster) in [
            (stage.direct(), None),
            (stage.path(), Some("east")),
            (stage.embedded(), Some("inner")),
        ] {
            let kubeconfig = match cluster {
                None => server.kubeconfig.clone(),
                Some(cluster) => stage.kubeconfig(cluster).await,
            };
            seen.push((server.name, flux.live(chart, &server, &kubeconfig).await));
        }
        let (_, direct) = seen.remove(0);
        for (name, other) in seen {
            let found = match (&direct, &other) {
                (Ok(one), Ok(other)) => differences(one, other),
                (Err(one), Err(other)) if cause(one) == cause(other) => Vec::new(),
                (Err(one), Err(other)) => vec![format!("{other}; directly: {one}")],
                (Ok(_), Err(error)) => vec![error.clone()],
                (Err(error), Ok(_)) => vec![format!("only directly: {error}")],
            };
            failed.extend(
                found
                    .into_iter()
                    .map(|it| format!("{} {name}: {it}", chart.name)),
            );
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// What was refused, without what the attempt has changed before: another attempt changes nothing.
fn cause(error: &str) -> &str {
    error.split("\\n").next().unwrap_or(error)
}

impl Flux {
    async fn start(stage: &Stage, charts: &[Chart]) -> Option<Self> {
        let binary = assets::client("kustomize-controller")?;
        let mut flux = Self {
            home: stage.hub.at("inner"),
            processes: Vec::new(),
            server: JoinSet::new(),
            scratch: Scratch::new("flux"),
        };
        let crds = binary
            .with_file_name("config/crd/bases")
            .display()
            .to_string();
        flux.home
            .must(&["apply", "--server-side", "-f", &crds])
            .await;
        flux.home.must(&["create", "namespace", HOME]).await;
        let kubeconfig = stage.kubeconfig("inner").await;
        let command = flux.controller(&binary, &kubeconfig);
        let log = flux.scratch.file("kustomize.log");
        flux.processes.push(Process::start(&command, &log));
        flux.publish(charts).await;
        Some(flux)
    }

    fn controller(&self, binary: &PathBuf, kubeconfig: &PathBuf) -> Command {
        let mut command = Command::new(binary);
        command
            .env("KUBECONFIG", kubeconfig)
            .env("RUNTIME_NAMESPACE", HOME);
        command
            .env("TMPDIR", self.folder("tmp"))
            .env("HOME", self.folder("tmp"));
        command.args([
            "--events-addr=",
            "--log-level=info",
            "--feature-gates=ExternalArtifact=true",
        ]);
        for flag in ["--metrics-addr", "--health-addr"] {
            command.arg(format!("{flag}=127.0.0.1:{}", free_port()));
        }
        command
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.scratch.file(name);
        std::fs::create_dir_all(&folder).expect("a folder of the trial's own");
        folder
    }

    /// Serves each chart in a folder of its own, as one artifact.
    async fn publish(&mut self, charts: &[Chart]) {
        let folder = self.folder("charts");
        for chart in charts {
            let own = folder.join(&chart.name);
            std::fs::create_dir_all(&own).expect("a folder of the trial's own");
            std::fs::write(own.join("all.yaml"), chart.manifest()).expect("it is writable");
        }
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program)
                .args(arguments)
                .current_dir(&folder)
                .output();
            let output = output.expect("it can be started");
            assert!(
                output.status.success(),
                "{program} {arguments:?}: {output:?}"
            );
            String::from_utf8(output.stdout).expect("it prints text")
        };
        run(
            "tar",
            &["--create", "--gzip", "--file", "../charts.tar.gz", "."],
        );
        let digest = run("sha256sum", &["../charts.tar.gz"]);
        let digest = digest
            .split(' ')
            .next()
            .expect("the digest comes first")
            .to_owned();
        let archive = std::fs::read(self.scratch.file("charts.tar.gz")).expect("tar wrote it");
        let (address, server) = serve(archive).await;
        self.server = server;
        let artifact = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "ExternalArtifact",
            "metadata": {"name": "charts", "namespace": HOME}, "spec": {},
        });
        self.home.apply(&artifact.to_string()).await;
        let status = json!({"status": {
            "artifact": {
                "digest": format!("sha256:{digest}"), "revision": format!("latest@sha256:{digest}"),
                "lastUpdateTime": "2026-01-01T00:00:00Z", "path": "charts.tar.gz",
                "url": format!("http://{address}/charts.tar.gz"),
            },
            "conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "served",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        }});
        let (patch, kind) = (status.to_string(), "externalartifact");
        let arguments = [
            "patch",
            "-n",
            HOME,
            kind,
            "charts",
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        self.home.must(&arguments).await;
    }

    /// Waits until a Kustomization is Ready in a generation, or returns why it is not.
    async fn ready(&self, name: &str, generation: i64) -> Result<Value, String> {
        let mut last = Value::Null;
        let arguments = ["get", "-n", HOME, "kustomization", name];
        let end = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < end {
            let object = self.home.json(&arguments).await?;
            let conditions = object["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let ready = conditions
                .into_iter()
                .find(|it| it["type"] == "Ready")
                .unwrap_or_default();
            // Flux writes the conditions first and the rest of the status after them.
            let status = &object["status"];
            let is_whole = status["lastAppliedRevision"].is_string()
                && status["lastAppliedRevision"] == status["lastAttemptedRevision"];
            let is_ready = ready["status"] == "True"
                && ready["observedGeneration"].as_i64() >= Some(generation);
            if is_ready && is_whole {
                return Ok(object);
            }
            last = ready;
            // What the server refuses as it is would be refused again: metrics-server has no selector.
            if last["message"]
                .as_str()
                .is_some_and(|it| it.contains("(Invalid)"))
            {
                break;
            }
            assert!(self.processes.iter().all(Process::runs), "{}", self.logs());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Err(format!("kustomization {name}: {}", last["message"]))
    }

    fn logs(&self) -> String {
        let bad = |line: &&str| line.contains("\"error\"") || line.contains("rror:");
        let mut lines = Vec::new();
        for process in &self.processes {
            let log = process.log();
            lines.extend(log.lines().rev().filter(bad).take(5).map(String::from));
        }
        lines.join("\n")
    }

    /// Applies a chart, reconciles it again, deletes it, and returns what the server held in between.
    async fn live(
        &self,
        chart: &Chart,
        server: &Server,
        kubeconfig: &PathBuf,
    ) -> Result<std::collections::BTreeMap<String, Value>, String> {
        let text = std::fs::read_to_string(kubeconfig).expect("it was written");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "target", "namespace": HOME},
            "stringData": {"value": text},
        });
        self.home.apply(&secret.to_string()).await;
        let name = chart.name.as_str();
        // The controller, unlike kubectl, has no namespace for what names none.
        let named = |document: &String| {
            let object: Value = serde_saphyr::from_str(document).expect("a manifest is YAML");
            object["metadata"]["namespace"].is_string()
        };
        let namespace = (!chart.documents.iter().any(named)).then_some("default");
        let kustomization = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": name, "namespace": HOME},
            "spec": {
                "interval": "1h", "retryInterval": "2s", "timeout": "1m", "prune": true, "path": format!("./{name}"),
                "deletionPolicy": "WaitForTermination", "targetNamespace": namespace,
                "sourceRef": {"kind": "ExternalArtifact", "name": "charts"},
                "kubeConfig": {"secretRef": {"name": "target"}},
            },
        });
        self.home.apply(&kustomization.to_string()).await;
        let result = self.kept(chart, server).await;
        self.home
            .must(&[
                "delete",
                "kustomization",
                "-n",
                HOME,
                name,
                "--timeout=170s",
            ])
            .await;
        result
    }

    async fn kept(
        &self,
        chart: &Chart,
        server: &Server,
    ) -> Result<std::collections::BTreeMap<String, Value>, String> {
        let name = chart.name.as_str();
        let object = self.ready(name, 1).await?;
        // What it applied is what its inventory names.
        let entries = object["status"]["inventory"]["entries"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        assert_eq!(
            entries.len(),
            chart.definitions.len() + chart.documents.len(),
            "{name} {}: {}\n{}",
            server.name,
            object["status"],
            self.logs()
        );
        let manifest = chart.manifest();
        let before = versions(&server.kubectl, &manifest).await;
        let annotation =
            r#"{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":"again"}}}"#;
        self.home
            .must(&[
                "patch",
                "kustomization",
                "-n",
                HOME,
                name,
                "--type=merge",
                "-p",
                annotation,
            ])
            .await;
        within(PATIENCE, "it reconciles again", || async {
            let object = self
                .home
                .json(&["get", "-n", HOME, "kustomization", name])
                .await?;
            let handled = object["status"]["lastHandledReconcileAt"] == "again";
            handled
                .then_some(())
                .ok_or_else(|| object["status"].to_string())
        })
        .await;
        self.ready(name, 1).await?;
        let after = versions(&server.kubectl, &manifest).await;
        if before != after {
            return Err(format!(
                "{name} {}: a second reconcile changed an object",
                server.name
            ));
        }
        Ok(held(&server.kubectl, &manifest).await)
    }
}

/// Serves one file over HTTP for as long as the second of what is returned lives; the first is the address.
async fn serve(file: Vec<u8>) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a loopback port is free");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    let mut server = JoinSet::new();
    server.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                file.len()
            );
            // A client that leaves asks again.
            drop(stream.read(&mut request).await);
            drop(stream.write_all(head.as_bytes()).await);
            drop(stream.write_all(&file).await);
            drop(stream.shutdown().await);
        }
    });
    (address.to_string(), server)
}

/// Returns the generations of what is held, which an apply that changes something raises.
async fn versions(kubectl: &Kubectl, manifest: &str) -> Vec<String> {
    let arguments = ["get", "-o", "json", "-f", "-"];
    let text = kubectl
        .run_with_input(&arguments, manifest)
        .await
        .succeeded("kubectl get");
    let list: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
    let items = list["items"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![list]);
    items
        .iter()
        .map(|it| {
            format!(
                "{} {} {}",
                it["kind"], it["metadata"]["name"], it["metadata"]["generation"]
            )
        })
        .collect()
}
