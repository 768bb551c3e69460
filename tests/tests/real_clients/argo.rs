//! A running Argo CD: its API server, repository server and controllers, a Git repository, and the `argocd` command.

use std::{path::PathBuf, process::Command, sync::Mutex, time::Duration};

use serde_json::{Value, json};
use wheelhouse_tests::{
    Kubectl, Spoke, assets, eventually,
    kubectl::Ran,
    process::{Process, Scratch, free_port},
    wait::within,
};

/// How long Argo CD may take for a sync, with its own waits between two attempts.
pub(crate) const PATIENCE: Duration = Duration::from_mins(4);
/// Where Argo CD lives.
const NAMESPACE: &str = "argocd";

/// Health of an instance, as an administrator of Argo CD tells it.
const HEALTH: &str = r#"
local status = {status = "Progressing", message = "no state yet"}
if obj.status ~= nil and obj.status.state ~= nil then
  status.message = obj.status.state
  if obj.status.state == "ACTIVE" then status.status = "Healthy" end
  if obj.status.state == "ERROR" then status.status = "Degraded" end
end
return status
"#;

/// Argo CD. Dropping it ends its processes.
pub(crate) struct Argo {
    binary: PathBuf,
    server: String,
    control: Kubectl,
    processes: Mutex<Vec<Process>>,
    scratch: Scratch,
}

impl Argo {
    /// Starts Argo CD with its own objects in a cluster; `None` where a program is missing, which is said visibly.
    pub(crate) async fn start(home: &Spoke) -> Option<Self> {
        let binary = assets::client("argocd")?;
        let redis = assets::client("redis-server")?;
        let argo = Self {
            binary,
            server: format!("127.0.0.1:{}", free_port()),
            control: home.kubectl(),
            processes: Mutex::default(),
            scratch: Scratch::new("argo"),
        };
        argo.install().await;
        let cache = format!("127.0.0.1:{}", free_port());
        let (_, port) = cache.split_once(':').expect("an address");
        let mut command = Command::new(redis);
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", port]);
        command.current_dir(argo.scratch.path());
        argo.spawn("redis", &command);
        argo.components(home, &cache).await;
        Some(argo)
    }

    /// Its definitions and settings.
    async fn install(&self) {
        let folder = self.binary.parent().expect("a folder").join("manifests");
        self.control.must(&["create", "namespace", NAMESPACE]).await;
        for (part, skipped) in [
            ("crds", "kustomization.yaml"),
            ("base/config", "kustomization.yaml"),
        ] {
            for entry in std::fs::read_dir(folder.join(part)).expect("hack/real-clients kept it") {
                let path = entry.expect("the folder can be read").path();
                if path.ends_with(skipped) {
                    continue;
                }
                let file = path.display().to_string();
                let arguments = ["apply", "--server-side", "-n", NAMESPACE, "-f", &file];
                self.control.must(&arguments).await;
            }
        }
        let settings = json!({"data": {"resource.customizations.health.kro.run_WebApp": HEALTH}});
        self.patch("configmap", "argocd-cm", &settings).await;
        for crd in ["applications", "applicationsets", "appprojects"] {
            let crd = format!("crd/{crd}.argoproj.io");
            self.control
                .must(&["wait", "--for=condition=Established", &crd])
                .await;
        }
    }

    async fn components(&self, home: &Spoke, cache: &str) {
        let (_, port) = self.server.split_once(':').expect("an address");
        let repositories = format!("127.0.0.1:{}", free_port());
        let (_, repositories_port) = repositories.split_once(':').expect("an address");
        let kubeconfig = home.kubeconfig().display().to_string();
        let metrics = || free_port().to_string();
        let common = ["--kubeconfig", &kubeconfig, "--namespace", NAMESPACE];
        let repository = [
            "--repo-server",
            &repositories,
            "--repo-server-plaintext",
            "--redis",
            cache,
        ];

        let mut command = self.component("argocd-repo-server");
        command.args([
            "--redis",
            cache,
            "--port",
            repositories_port,
            "--disable-tls",
        ]);
        command.args(["--address", "127.0.0.1", "--metrics-address", "127.0.0.1"]);
        command.args(["--metrics-port", &metrics()]);
        self.spawn("repo-server", &command);

        let mut command = self.component("argocd-server");
        command
            .args(common)
            .args(repository)
            .args(["--insecure", "--disable-auth"]);
        command.args(["--address", "127.0.0.1", "--port", port]);
        command.args(["--metrics-port", &metrics()]);
        self.spawn("server", &command);
        // The controller does not recover where it starts before these.
        eventually(
            "Argo CD's server has made its secret and project",
            || async {
                let secret = self.get("secret", "argocd-secret").await?;
                let project = self.get("appproject", "default").await?;
                let done = !secret["data"]["server.secretkey"].is_null() && !project.is_null();
                done.then_some(()).ok_or_else(|| self.logs())
            },
        )
        .await;

        let mut command = self.component("argocd-application-controller");
        command
            .args(common)
            .args(repository)
            .args(["--metrics-port", &metrics()]);
        command.args(["--app-resync", "20", "--self-heal-timeout-seconds", "1"]);
        self.spawn("application-controller", &command);

        let mut command = self.component("argocd-applicationset-controller");
        command.env("KUBECONFIG", home.kubeconfig());
        command.args(common).args([
            "--argocd-repo-server",
            &repositories,
            "--repo-server-plaintext",
        ]);
        for flag in ["--metrics-addr", "--probe-addr", "--webhook-addr"] {
            command.arg(format!("{flag}=127.0.0.1:{}", free_port()));
        }
        self.spawn("applicationset-controller", &command);
    }

    fn component(&self, name: &str) -> Command {
        let mut command = Command::new(&self.binary);
        let empty = self.scratch.file("empty");
        std::fs::create_dir_all(&empty).expect("a folder of the trial's own");
        command
            .env("ARGOCD_BINARY_NAME", name)
            .env("ARGOCD_GPG_ENABLED", "false");
        command
            .env("ARGOCD_CONTROLLER_REPLICAS", "1")
            .env("ARGOCD_CONTROLLER_SHARD", "0");
        command
            .env("ARGOCD_TLS_DATA_PATH", &empty)
            .env("ARGOCD_SSH_DATA_PATH", &empty);
        command
            .env("HOME", self.scratch.path())
            .env("TMPDIR", self.scratch.path());
        command
    }

    fn spawn(&self, name: &str, command: &Command) {
        let process = Process::start(command, &self.scratch.file(&format!("{name}.log")));
        self.processes
            .lock()
            .expect("no panic holds it")
            .push(process);
    }

    /// Returns the last lines of all components that say what went wrong.
    ///
    /// # Panics
    ///
    /// Where a component has ended: nothing more will happen.
    pub(crate) fn logs(&self) -> String {
        let processes = self.processes.lock().expect("no panic holds it");
        for process in processes.iter() {
            assert!(
                process.runs(),
                "a component of Argo CD ended: {}",
                process.log()
            );
        }
        let mut lines = Vec::new();
        for process in processes.iter() {
            let log = process.log();
            let bad = |line: &&str| line.contains("\"error\"") || line.contains("level=error");
            let last: Vec<String> = log
                .lines()
                .rev()
                .filter(bad)
                .take(5)
                .map(String::from)
                .collect();
            lines.extend(last);
        }
        lines.join("\n")
    }

    /// Counts how often its components have logged a text.
    pub(crate) fn said(&self, text: &str) -> usize {
        let processes = self.processes.lock().expect("no panic holds it");
        let counts = processes.iter().map(|it| it.log().matches(text).count());
        counts.sum()
    }

    /// Runs the `argocd` command.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ran {
        let output = tokio::process::Command::new(&self.binary)
            .args(["--server", &self.server, "--plaintext", "--config"])
            .arg(self.scratch.file("argocd.config"))
            .args(arguments)
            .env("HOME", self.scratch.path())
            .env("KUBECTL_EXTERNAL_DIFF", "diff -u")
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .expect("argocd can be started");
        output.into()
    }

    /// kubectl where Argo CD keeps its own objects.
    pub(crate) const fn control(&self) -> &Kubectl {
        &self.control
    }

    /// Gets one of its objects.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> Result<Value, String> {
        self.control
            .json(&["get", "-n", NAMESPACE, kind, name])
            .await
    }

    async fn patch(&self, kind: &str, name: &str, patch: &Value) {
        let patch = patch.to_string();
        let arguments = [
            "patch",
            "-n",
            NAMESPACE,
            kind,
            name,
            "--type=merge",
            "-p",
            &patch,
        ];
        self.control.must(&arguments).await;
    }

    /// Waits until an application is synced, at a revision where one is named, and healthy.
    pub(crate) async fn synced(&self, name: &str, revision: &str) {
        within(
            PATIENCE,
            &format!("{name} is synced and healthy"),
            || async {
                let application = self.get("application", name).await?;
                let status = &application["status"];
                let at = status["sync"]["revision"].as_str().unwrap_or_default();
                let finished = status["operationState"]["phase"] == "Succeeded"
                    && application["operation"].is_null();
                if status["sync"]["status"] == "Synced"
                    && status["health"]["status"] == "Healthy"
                    && finished
                    && (revision.is_empty() || at == revision)
                {
                    return Ok(());
                }
                Err(format!("{status} {}", self.logs()))
            },
        )
        .await;
    }

    /// Asks it to look at the repository and the cluster again.
    pub(crate) async fn refresh(&self, application: &str) {
        let annotation =
            json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}}});
        self.patch("application", application, &annotation).await;
    }

    /// Writes a kubeconfig for the command.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        self.scratch.write(name, content).display().to_string()
    }
}

/// A local Git repository with one folder of manifests, `web`.
pub(crate) struct Repository {
    scratch: Scratch,
}

impl Repository {
    pub(crate) fn new() -> Self {
        let repository = Self {
            scratch: Scratch::new("repository"),
        };
        std::fs::create_dir_all(repository.scratch.file("web"))
            .expect("a folder of the trial's own");
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        repository
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.scratch.path().display())
    }

    /// Writes manifests, removes the ones without text, commits, and returns the revision.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> String {
        for (name, text) in files {
            let file = self.scratch.file(&format!("web/{name}.yaml"));
            if text.is_empty() {
                std::fs::remove_file(file).expect("it was written");
            } else {
                std::fs::write(file, text).expect("a folder of the trial's own");
            }
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "change"]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=trial",
                "-c",
                "user.email=trial@example.org",
            ])
            .args(arguments)
            .current_dir(self.scratch.path())
            .output()
            .expect("git can be started");
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("git prints text")
    }
}
