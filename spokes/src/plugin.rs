//! Credential plug-ins: programs that the operator of a hub names, and that print a credential.
//!
//! # Invariants
//! - Which program runs, and with which arguments, is the operator's alone to say: nothing that is stored in the hub, and
//!   nothing that a cluster says, is part of it, except what the protocol hands over in `KUBERNETES_EXEC_INFO`.
//! - A program that hangs or prints without end is ended, and harms the one spoke that it was asked for.
//! - What a program prints is in no message.
//!
//! Source: KEP-541, `client-go/plugin/pkg/client/auth/exec/exec.go`.

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, process::Command, time::timeout};

/// How long a program may take. Those of clouds ask their API for a token.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much a program may print: a certificate and its key have some kilobytes.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// How long before its end a credential is replaced. Source: the clock of the cluster may be ahead of ours.
const RENEWAL: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// A program and how it is run.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Plugin {
    /// The version of the protocol.
    pub(crate) api_version: String,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// What is set in its environment, beside that of the hub.
    pub(crate) env: Vec<(String, String)>,
    /// What it is told of the cluster.
    pub(crate) cluster: Option<Value>,
}

/// What a program has printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Issued {
    /// The user of a kubeconfig, with the credential in it.
    pub(crate) user: Value,
    /// When it is to be replaced.
    pub(crate) renew_at: Option<jiff::Timestamp>,
}

/// Why a program gave no credential.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PluginFault {
    #[error("plug-in {0:?} cannot be started: {1}")]
    Start(String, #[source] std::io::Error),
    #[error("plug-in {0:?} did not end within {PATIENCE:?}")]
    Slow(String),
    #[error("plug-in {0:?} failed ({1}); run it by hand to see why")]
    Failed(String, std::process::ExitStatus),
    #[error("plug-in {0:?} printed more than {OUTPUT_BYTES_MAX} bytes")]
    Endless(String),
    #[error("plug-in {0:?} printed no ExecCredential of {1}")]
    NoCredential(String, String),
}

// === impl Plugin ===

impl Plugin {
    /// Reads the `exec` of a kubeconfig's user. `None` for what names no program.
    pub(crate) fn parse(exec: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let items = |field: &str| exec[field].as_array().into_iter().flatten();
        Some(Self {
            api_version: text(&exec["apiVersion"])?,
            command: text(&exec["command"])?,
            args: items("args").filter_map(text).collect(),
            env: items("env")
                .filter_map(|it| Some((text(&it["name"])?, text(&it["value"])?)))
                .collect(),
            cluster: None,
        })
    }

    /// Runs the program and reads what it prints.
    ///
    /// # Cancel safety
    /// Dropping the future ends the program.
    pub(crate) async fn run(&self) -> Result<Issued, PluginFault> {
        let name = || self.command.clone();
        match timeout(PATIENCE, self.output()).await {
            Ok(output) => self.read(&output?),
            Err(_elapsed) => Err(PluginFault::Slow(name())),
        }
    }

    async fn output(&self) -> Result<Vec<u8>, PluginFault> {
        let name = || self.command.clone();
        let start = |error| PluginFault::Start(name(), error);
        let mut child = Command::new(&self.command)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("KUBERNETES_EXEC_INFO", self.info().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(start)?;
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            let mut bounded = stdout.take(OUTPUT_BYTES_MAX + 1);
            bounded.read_to_end(&mut output).await.map_err(start)?;
        }
        if output.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(PluginFault::Endless(name()));
        }
        let status = child.wait().await.map_err(start)?;
        if status.success() {
            Ok(output)
        } else {
            Err(PluginFault::Failed(name(), status))
        }
    }

    fn info(&self) -> Value {
        let mut info = json!({
            "apiVersion": self.api_version, "kind": "ExecCredential", "spec": {"interactive": false},
        });
        if let Some(cluster) = &self.cluster {
            info["spec"]["cluster"] = cluster.clone();
        }
        info
    }

    fn read(&self, output: &[u8]) -> Result<Issued, PluginFault> {
        let wrong = || PluginFault::NoCredential(self.command.clone(), self.api_version.clone());
        let printed: Value = serde_json::from_slice(output).map_err(|_unsaid| wrong())?;
        if printed["apiVersion"] != self.api_version.as_str() {
            return Err(wrong());
        }
        let status = &printed["status"];
        let text = |field: &str| status[field].as_str().filter(|it| !it.is_empty());
        let mut user = json!({});
        if let Some(token) = text("token") {
            user["token"] = json!(token);
        }
        if let (Some(certificate), Some(key)) =
            (text("clientCertificateData"), text("clientKeyData"))
        {
            user["client-certificate-data"] = json!(encoded(certificate));
            user["client-key-data"] = json!(encoded(key));
        }
        if user.as_object().is_none_or(serde_json::Map::is_empty) {
            return Err(wrong());
        }
        let expires = text("expirationTimestamp").and_then(api::meta::parse_time);
        Ok(Issued {
            user,
            renew_at: expires.map(|end| end - RENEWAL),
        })
    }
}

// === impl Issued ===

impl Issued {
    /// Whether it is to be used no longer.
    pub(crate) fn is_due(&self, now: jiff::Timestamp) -> bool {
        self.renew_at.is_some_and(|at| at <= now)
    }
}

fn encoded(text: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "client.authentication.k8s.io/v1";

    fn shell(script: &str) -> Plugin {
        let exec = json!({"apiVersion": VERSION, "command": "sh", "args": ["-c", script],
            "env": [{"name": "WHO", "value": "east"}]});
        Plugin::parse(&exec).expect("it names a program")
    }

    #[tokio::test]
    async fn what_a_program_prints_is_a_credential_or_a_fault_that_does_not_show_it() {
        let status = |status: &str| {
            format!(
                r#"echo '{{"apiVersion": "{VERSION}", "kind": "ExecCredential", "status": {{{status}}}}}'"#
            )
        };
        let pair = r#""clientCertificateData": "c", "clientKeyData": "k""#;
        for (name, script, want) in [
            (
                "a token",
                status(r#""token": "hunter2""#),
                Ok(json!({"token": "hunter2"})),
            ),
            (
                "a certificate",
                status(pair),
                Ok(json!({"client-certificate-data": "Yw==", "client-key-data": "aw=="})),
            ),
            (
                "half of one",
                status(r#""clientKeyData": "k""#),
                Err("printed no ExecCredential"),
            ),
            (
                "nothing in it",
                status(""),
                Err("printed no ExecCredential"),
            ),
            (
                "another version",
                status(r#""token": "hunter2""#).replace("/v1", "/v1beta1"),
                Err("printed no ExecCredential"),
            ),
            (
                "no JSON",
                "echo hunter2".to_owned(),
                Err("printed no ExecCredential"),
            ),
            (
                "a failure",
                "echo hunter2; exit 3".to_owned(),
                Err("failed (exit status: 3)"),
            ),
            ("no end", "yes hunter2".to_owned(), Err("printed more than")),
        ] {
            let got = shell(&script).run().await;
            match want {
                Ok(user) => assert_eq!(got.map(|it| it.user).ok(), Some(user), "{name}"),
                Err(said) => {
                    let error = got.err().expect(name).to_string();
                    assert!(
                        error.contains(said) && !error.contains("hunter2"),
                        "{name}: {error}"
                    );
                }
            }
        }
    }

    #[tokio::test]
    async fn a_program_is_told_of_the_cluster_and_when_its_credential_ends_is_noted() {
        let mut plugin = shell(
            r#"printf '%s' "$KUBERNETES_EXEC_INFO" | sed "s|\"spec\":.*|\"status\": {\"token\": \"$WHO\", \"expirationTimestamp\": \"2026-01-01T00:10:00Z\"}}|""#,
        );
        plugin.cluster = Some(json!({"server": "https://east"}));
        assert_eq!(plugin.info()["spec"]["cluster"]["server"], "https://east");
        let issued = plugin.run().await.expect("a credential");
        assert_eq!(issued.user, json!({"token": "east"}));
        let at = |text: &str| api::meta::parse_time(text).expect("a time");
        assert!(!issued.is_due(at("2026-01-01T00:08:59Z")));
        assert!(issued.is_due(at("2026-01-01T00:09:00Z")), "a minute before");
    }
}
