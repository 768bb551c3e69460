//! Unmodified kubectl, run as a user runs it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::Value;
use tokio::io::AsyncWriteExt;

use crate::assets;

/// kubectl with a kubeconfig and, where it is given, a server.
#[derive(Debug, Clone)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
    server: Option<String>,
    environment: Vec<(String, String)>,
}

/// What one run printed and how it ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit code; -1 after a signal.
    pub code: i32,
}

impl From<std::process::Output> for Ran {
    fn from(output: std::process::Output) -> Self {
        Self {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

impl Ran {
    /// Passes the standard output on if the run succeeded.
    ///
    /// # Errors
    ///
    /// Both outputs and the exit code, as one text.
    pub fn ok(self) -> Result<String, String> {
        if self.code == 0 {
            return Ok(self.stdout);
        }
        Err(format!(
            "exit {}: {}{}",
            self.code, self.stderr, self.stdout
        ))
    }

    /// Passes the standard output on; the run must have succeeded.
    ///
    /// # Panics
    ///
    /// Where it failed, with both outputs: the test cannot go on.
    pub fn succeeded(self, what: &str) -> String {
        assert!(
            self.code == 0,
            "{what}: exit {}: {}{}",
            self.code,
            self.stderr,
            self.stdout
        );
        self.stdout
    }
}

impl Kubectl {
    /// Uses the kubectl of the assets with a kubeconfig; its discovery cache lies beside that file.
    pub fn new(kubeconfig: &Path) -> Self {
        Self {
            binary: assets::folder().join("kubectl"),
            cache: kubeconfig.with_extension("kubectl-cache"),
            kubeconfig: kubeconfig.to_owned(),
            server: None,
            environment: Vec::new(),
        }
    }

    /// The same, with another binary.
    #[must_use]
    pub fn binary(mut self, binary: &Path) -> Self {
        binary.clone_into(&mut self.binary);
        self
    }

    /// The same, with `--server`.
    #[must_use]
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }

    /// Returns what `--server` names.
    pub fn url(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The same, with one more environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Makes the command, for a test that wants to hold the process itself.
    pub fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.binary);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache);
        if let Some(server) = &self.server {
            command.arg("--server").arg(server);
        }
        command
            .args(arguments)
            .kill_on_drop(true)
            .stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// Runs kubectl and waits for its end.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with_input(arguments, "").await
    }

    /// Runs kubectl with a text on standard input.
    pub async fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("kubectl can be started");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // kubectl may end without reading; the broken pipe then says nothing new.
        drop(stdin.write_all(input.as_bytes()).await);
        drop(stdin);
        let output = child.wait_with_output().await.expect("kubectl ends");
        output.into()
    }

    /// Runs kubectl, which must succeed, and passes its output on.
    pub async fn must(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments).await;
        ran.succeeded(&format!("kubectl {arguments:?}"))
    }

    /// [`must`](Self::must), with the arguments as one types them: none has a space in it.
    pub async fn typed(&self, line: &str) -> String {
        let arguments: Vec<&str> = line.split(' ').collect();
        self.must(&arguments).await
    }

    /// Applies a manifest, which must succeed.
    pub async fn apply(&self, manifest: &str) -> String {
        let ran = self.run_with_input(&["apply", "-f", "-"], manifest).await;
        ran.succeeded(&format!("kubectl apply of {manifest}"))
    }

    /// Gets an object or a list as JSON.
    ///
    /// # Errors
    ///
    /// What kubectl printed.
    pub async fn json(&self, arguments: &[&str]) -> Result<Value, String> {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["-o", "json"]).collect();
        let text = self.run(&arguments).await.ok()?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }
}
