//! Helm: what it installs, upgrades, rolls back and uninstalls at a hub is what it does at a kube-apiserver.

use std::{collections::BTreeMap, path::PathBuf, process::Stdio};

use serde_json::Value;
use tokio::time::Instant;
use wheelhouse_tests::{assets, eventually, kubectl::Ran, process::Scratch};

use super::{
    charts::{self, Chart, differences, held},
    stage::{Server, Stage, say},
};

/// What every chart has besides the manifests: one object that an upgrade changes, and one that it removes.
const NOTES: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: chart-note}
data: {note: {{ .Values.note | quote }}}
{{- if .Values.extra }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: chart-extra}
data: {extra: \"true\"}
{{- end }}
";

#[tokio::test(flavor = "multi_thread")]
async fn releases_live_at_a_hub_as_at_a_kube_apiserver() {
    let (Some(binary), Some(charts)) = (assets::client("helm"), charts::all()) else {
        return;
    };
    let stage = Stage::set().await;
    let mut failed = Vec::new();
    for chart in &charts {
        let folder = Scratch::new("chart");
        write(chart, &folder);
        let direct = Helm::new(&binary, &folder, stage.direct())
            .live(chart)
            .await;
        for server in [stage.path(), stage.embedded()] {
            let name = server.name;
            let other = Helm::new(&binary, &folder, server).live(chart).await;
            for (step, found) in direct.compare(&other) {
                failed.push(format!("{} {step} {name}: {found}", chart.name));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Writes a chart folder for Helm.
fn write(chart: &Chart, folder: &Scratch) {
    let make = |name: &str| {
        let path = folder.file(name);
        std::fs::create_dir_all(&path).expect("a folder of the test's own");
    };
    make("chart/crds");
    make("chart/templates");
    let name = &chart.name;
    folder.write(
        "chart/Chart.yaml",
        format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n"),
    );
    folder.write("chart/values.yaml", "note: one\nextra: true\n");
    folder.write("chart/templates/notes.yaml", NOTES);
    for (index, document) in chart.documents.iter().enumerate() {
        folder.write(&format!("chart/templates/{index:03}.yaml"), document);
    }
    for (index, document) in chart.definitions.iter().enumerate() {
        folder.write(&format!("chart/crds/{index:03}.yaml"), document);
    }
}

/// Helm at one server.
struct Helm<'a> {
    binary: &'a PathBuf,
    folder: &'a Scratch,
    server: Server,
}

/// What one server held after each step.
#[derive(Default)]
struct Life {
    steps: BTreeMap<&'static str, BTreeMap<String, Value>>,
    /// What went wrong by itself.
    said: Vec<(&'static str, String)>,
}

impl Life {
    fn compare(&self, other: &Self) -> Vec<(&'static str, String)> {
        let mut found: Vec<(&'static str, String)> = other
            .said
            .iter()
            .filter(|it| !self.said.contains(it))
            .cloned()
            .collect();
        for (step, one) in &self.steps {
            let empty = BTreeMap::new();
            let other = other.steps.get(step).unwrap_or(&empty);
            found.extend(differences(one, other).into_iter().map(|it| (*step, it)));
        }
        found
    }
}

impl<'a> Helm<'a> {
    const fn new(binary: &'a PathBuf, folder: &'a Scratch, server: Server) -> Self {
        Self {
            binary,
            folder,
            server,
        }
    }

    async fn run(&self, arguments: &[&str]) -> Ran {
        let home = self.folder.file("home");
        let output = tokio::process::Command::new(self.binary)
            .args(arguments)
            .args(["--kube-apiserver", &self.server.url])
            .arg("--kubeconfig")
            .arg(&self.server.kubeconfig)
            .env("HOME", home)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .expect("helm can be started");
        output.into()
    }

    /// Installs, upgrades, rolls back and uninstalls a chart, and keeps what the server held in between.
    async fn live(&self, chart: &Chart) -> Life {
        let begun = Instant::now();
        let mut life = Life::default();
        let folder = self.folder.file("chart").display().to_string();
        let steps: [(&'static str, Vec<&str>); 3] = [
            (
                "install",
                vec!["install", &chart.name, &folder, "--no-hooks"],
            ),
            (
                "upgrade",
                vec![
                    "upgrade",
                    &chart.name,
                    &folder,
                    "--set=note=two,extra=false",
                    "--no-hooks",
                ],
            ),
            ("rollback", vec!["rollback", &chart.name, "1", "--no-hooks"]),
        ];
        for (step, arguments) in steps {
            if let Err(error) = self.run(&arguments).await.ok() {
                life.said.push((step, error));
                continue;
            }
            let manifest = self
                .run(&["get", "manifest", &chart.name])
                .await
                .succeeded("helm get manifest");
            life.steps
                .insert(step, held(&self.server.kubectl, &manifest).await);
            if let Err(error) = self.clean(&manifest).await {
                life.said.push((step, error));
            }
        }
        let history = self.run(&["history", &chart.name, "-o", "json"]).await;
        let history = history.ok().unwrap_or_default();
        let revisions: Value = serde_json::from_str(&history).unwrap_or_default();
        if revisions.as_array().map_or(0, Vec::len) != 3 {
            life.said.push(("history", history));
        }
        self.end(chart, &mut life).await;
        let seconds = begun.elapsed().as_secs_f64();
        say(&format!(
            "{} {}: {seconds:.1} s",
            chart.name, self.server.name
        ));
        life
    }

    /// Returns what somebody else's apply of the manifest would change, where it is anything.
    async fn clean(&self, manifest: &str) -> Result<(), String> {
        eventually("nobody writes while kubectl compares", || async {
            let compared = self.compare_once(manifest).await;
            // What would be applied has the version of what was read before, unless a controller wrote meanwhile.
            let is_disturbed = |line: &str| {
                let line = line.trim_start_matches(['+', '-']).trim_start();
                line.starts_with("resourceVersion:")
            };
            match compared {
                Err(text) if text.lines().any(is_disturbed) => Err(text),
                compared => Ok(compared),
            }
        })
        .await
    }

    /// [`Helm::clean`], of objects that a controller may write at the same time.
    async fn compare_once(&self, manifest: &str) -> Result<(), String> {
        let arguments = ["diff", "--server-side", "--field-manager=trial", "-f", "-"];
        let kubectl = &self.server.kubectl;
        let Err(text) = kubectl.run_with_input(&arguments, manifest).await.ok() else {
            return Ok(());
        };
        // Names of files and times differ each time, and klog's warnings hold a time.
        let is_warning = |line: &&str| line.contains(" diff.go:");
        let text: Vec<&str> = text.lines().filter(|line| !is_warning(line)).collect();
        let text = text.join("\n");
        let changes = text.lines().filter(|line| {
            line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---")
        });
        let changes: Vec<&str> = changes.collect();
        Err(if changes.is_empty() {
            text
        } else {
            changes.join("\n")
        })
    }

    async fn end(&self, chart: &Chart, life: &mut Life) {
        let manifest = self.run(&["get", "manifest", &chart.name]).await.stdout;
        if let Err(error) = self
            .run(&["uninstall", &chart.name, "--no-hooks"])
            .await
            .ok()
        {
            life.said.push(("uninstall", error));
        }
        let kubectl = &self.server.kubectl;
        eventually(
            &format!("{} is gone {}", chart.name, self.server.name),
            || async {
                let arguments = ["get", "-o", "name", "--ignore-not-found", "-f", "-"];
                let left = kubectl.run_with_input(&arguments, &manifest).await.ok()?;
                if left.is_empty() { Ok(()) } else { Err(left) }
            },
        )
        .await;
        // Helm leaves definitions.
        if !chart.definitions.is_empty() {
            let text = chart.definitions.join("---\n");
            // A kube-apiserver that is alone takes ten seconds for the ten of one chart, and a minute more once in eight times: its
            // finalizer looks again only then.
            kubectl
                .run_with_input(&["delete", "-f", "-", "--timeout=180s"], &text)
                .await
                .succeeded(&format!("the definitions are deleted {}", self.server.name));
        }
    }
}
