//! A hub: the `wheelhouse` binary as a user starts it.

use std::{io::Write as _, path::PathBuf, process::Command, time::Duration};

use crate::{
    Spoke, assets,
    kubectl::{Kubectl, Ran},
    process::{Process, Scratch},
    wait::within,
};

/// Lines of the hub's log that a failed test shows.
const LOG_LINE_COUNT: usize = 300;

/// A running hub. Dropping it ends the process and removes its folder.
#[derive(Debug)]
pub struct Hub {
    process: Option<Process>,
    listen: String,
    scratch: Scratch,
    settings: Settings,
}

/// How a hub is started.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Where its data is; by default in a folder of its own.
    pub data: Option<PathBuf>,
    /// Environment variables of its process.
    pub environment: Vec<(String, String)>,
    /// Further arguments of `wheelhouse serve`.
    pub arguments: Vec<String>,
    /// How many bytes of address space its process gets (`RLIMIT_AS`); without a limit by default.
    pub address_limit: Option<u64>,
}

impl Hub {
    /// Starts a hub on an empty data folder and waits until it is ready.
    pub async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    /// [`Hub::start`], with settings that hold for every later launch too.
    pub async fn start_with(settings: Settings) -> Self {
        let mut hub = Self {
            process: None,
            listen: "127.0.0.1:0".to_owned(),
            scratch: Scratch::new("hub"),
            settings,
        };
        hub.launch().await;
        // A restart must find the port that kubeconfigs name.
        let server = hub.server();
        server
            .trim_start_matches("https://")
            .clone_into(&mut hub.listen);
        hub
    }

    /// Adds arguments of `wheelhouse serve`, for later launches.
    pub fn add_arguments(&mut self, arguments: &[&str]) {
        let arguments = arguments.iter().map(|it| (*it).to_owned());
        self.settings.arguments.extend(arguments);
    }

    /// Starts the hub again on the same folder and port, after [`Hub::kill`], and waits until it is ready.
    pub async fn launch(&mut self) {
        self.spawn();
        let kubeconfig = self.kubeconfig();
        let process = self.process();
        within(Duration::from_mins(1), "the hub is ready", || async {
            assert!(process.runs(), "the hub ended:\n{}", process.log());
            if kubeconfig.is_file() {
                Ok(())
            } else {
                Err("no kubeconfig yet".to_owned())
            }
        })
        .await;
    }

    /// [`Hub::launch`] without the wait.
    pub fn spawn(&mut self) {
        let kubeconfig = self.kubeconfig();
        drop(std::fs::remove_file(&kubeconfig));
        let mut command = limited(self.settings.address_limit);
        command.args(["serve", "--listen", &self.listen, "--data-dir"]);
        command.arg(self.data());
        command.arg("--kubeconfig-out").arg(&kubeconfig);
        command.args(&self.settings.arguments);
        // Events would bury what a failed test wants to know.
        let is_audited = |argument: &String| argument.starts_with("--audit-log-path");
        if !self.settings.arguments.iter().any(is_audited) {
            command.arg("--audit-log-path=");
        }
        command.env("RUST_BACKTRACE", "1");
        command.env("NO_COLOR", "1");
        command.env("WHEELHOUSE_LOG", "info,wheelhouse_client::reflector=debug");
        command.envs(self.settings.environment.iter().cloned());
        self.process = Some(Process::start(&command, &self.scratch.file("hub.log")));
    }

    /// Returns the certificate of its authority, as PEM.
    ///
    /// # Panics
    /// It has none yet.
    pub fn authority(&self) -> String {
        std::fs::read_to_string(self.data().join("pki/ca.crt")).expect("the hub made it")
    }

    /// Returns the folder of its data.
    pub fn data(&self) -> PathBuf {
        let own = || self.scratch.file("data");
        self.settings.data.clone().unwrap_or_else(own)
    }

    /// Ends the hub as a power cut would.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// The process of the hub.
    ///
    /// # Panics
    ///
    /// While it is down.
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("the hub runs")
    }

    /// Returns the file that `--kubeconfig-out` named.
    pub fn kubeconfig(&self) -> PathBuf {
        self.scratch.file("hub.kubeconfig")
    }

    /// Returns the URL of the hub, of the root logical cluster.
    pub fn server(&self) -> String {
        let text = std::fs::read_to_string(self.kubeconfig()).expect("the hub wrote a kubeconfig");
        let value: serde_json::Value =
            serde_saphyr::from_str(&text).expect("the kubeconfig is YAML");
        let clusters = value["clusters"]
            .as_array()
            .expect("the kubeconfig has clusters");
        let root = clusters.iter().find(|cluster| cluster["name"] == "root");
        root.expect("a cluster named root")["cluster"]["server"]
            .as_str()
            .expect("it has a server")
            .to_owned()
    }

    /// kubectl at the root logical cluster.
    pub fn root(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig())
    }

    /// kubectl at a spoke's logical cluster.
    pub fn at(&self, cluster: &str) -> Kubectl {
        self.root()
            .server(format!("{}/clusters/{cluster}", self.server()))
    }

    /// Runs the `wheelhouse` command line against this hub.
    pub async fn wheelhouse(&self, arguments: &[&str]) -> Ran {
        let output = tokio::process::Command::new(assets::wheelhouse())
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .kill_on_drop(true)
            .output()
            .await
            .expect("wheelhouse can be started");
        output.into()
    }

    /// Joins a spoke under its own name and waits until it is Ready.
    pub async fn join(&self, spoke: &Spoke) {
        let from = spoke.kubeconfig().display().to_string();
        let added = self
            .wheelhouse(&["spoke", "add", spoke.name(), "--from", &from])
            .await;
        added.succeeded(&format!("spoke add {}", spoke.name()));
        let name = format!("spoke/{}", spoke.name());
        self.root()
            .must(&["wait", "--for=condition=Ready", &name, "--timeout=60s"])
            .await;
    }
}

/// Returns the command that runs the binary, with at most so many bytes of address space.
fn limited(address_limit: Option<u64>) -> Command {
    let Some(bytes) = address_limit else {
        return Command::new(assets::wheelhouse());
    };
    let mut command = Command::new("sh");
    // The shell's process becomes the hub's, so the process id is that of the hub.
    command.args(["-c", r#"ulimit -v "$0" && exec "$@""#]);
    command.arg((bytes / 1024).to_string());
    command.arg(assets::wheelhouse());
    command
}

impl Drop for Hub {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.scratch.file("hub.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let from = lines.len().saturating_sub(LOG_LINE_COUNT);
            let (_, last) = lines.split_at(from);
            let last = last.join("\n");
            // Nobody is left to tell when standard error is gone.
            drop(writeln!(std::io::stderr(), "the hub's last lines:\n{last}"));
        }
    }
}
