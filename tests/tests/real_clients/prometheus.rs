//! Prometheus scrapes a hub with a ServiceAccount of its own, takes the alert rules, and answers every query of the dashboard. A spoke
//! goes away, then the hub: the rules that are about it are pending, and no other.

use std::{collections::BTreeMap, process::Command};

use serde_json::{Value, json};
use wheelhouse_tests::{
    Hub, Kubectl, assets, eventually,
    manifests::shipped,
    pki::token_kubeconfig,
    process::{Process, Scratch, free_port},
};

use super::stage::{Stage, say};

const DEMO: &str = include_str!("../../../cli/src/dev/demo.yaml");

/// What lets the scraper read, as docs/metrics.md says.
const RIGHTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics}
rules:
- {nonResourceURLs: ["/metrics"], verbs: ["get"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics}
subjects: [{kind: ServiceAccount, name: scraper, namespace: default}]
"#;

/// The panels that are empty while nothing is wrong.
const QUIET: [&str; 1] = ["Requests that failed, by code"];

struct Prometheus {
    _process: Process,
    /// Asks its API, which is plain HTTP.
    kubectl: Kubectl,
}

impl Prometheus {
    async fn start(binary: &std::path::Path, hub: &Hub, scratch: &Scratch) -> Self {
        let root = hub.root();
        root.must(&["create", "serviceaccount", "scraper"]).await;
        root.apply(RIGHTS).await;
        let token = root.must(&["create", "token", "scraper"]).await;
        let authority = hub.authority();
        let rules: Value =
            serde_saphyr::from_str(&shipped("monitoring/alerts.yaml")).expect("the rules are YAML");
        let configuration = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [scratch.write("rules.yaml", rules["spec"].to_string())],
            "scrape_configs": [{
                "job_name": "wheelhouse",
                "scheme": "https",
                "tls_config": {"ca_file": scratch.write("hub.crt", authority)},
                "authorization": {"credentials_file": scratch.write("token", token.trim())},
                "static_configs": [{"targets": [hub.server().trim_start_matches("https://")]}],
            }],
        });
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = Command::new(binary);
        command
            .arg("--config.file")
            .arg(scratch.write("prometheus.yaml", configuration.to_string()))
            .arg("--storage.tsdb.path")
            .arg(scratch.file("data"))
            .args(["--web.listen-address", &address]);
        let process = Process::start(&command, &scratch.file("prometheus.log"));
        let url = format!("http://{address}");
        let file = scratch.write("prometheus.kubeconfig", token_kubeconfig("p", &url, "", ""));
        Self {
            _process: process,
            kubectl: Kubectl::new(&file),
        }
    }

    async fn ask(&self, path: &str) -> Result<Value, String> {
        let answer = self.kubectl.run(&["get", "--raw", path]).await.ok()?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        let is_success = answer["status"] == "success";
        is_success
            .then(|| answer["data"].clone())
            .ok_or_else(|| answer.to_string())
    }

    /// The states of the alerts, of those that are not inactive: by name, with the clusters that they are about.
    async fn alerts(&self) -> Result<BTreeMap<String, Vec<String>>, String> {
        let rules = self.ask("/api/v1/rules").await?;
        let mut found = BTreeMap::new();
        let groups = rules["groups"].as_array().cloned().unwrap_or_default();
        let mut count = 0;
        for rule in groups
            .iter()
            .filter_map(|it| it["rules"].as_array())
            .flatten()
        {
            count += 1;
            if rule["health"] != "ok" {
                return Err(rule.to_string());
            }
            let alerts = rule["alerts"].as_array().into_iter().flatten();
            let clusters = alerts
                .map(|it| text(&it["labels"]["cluster"]))
                .collect::<Vec<_>>();
            if rule["state"] != "inactive" {
                found.insert(text(&rule["name"]), clusters);
            }
        }
        if count < 10 {
            return Err(format!("{count} rules were evaluated: {rules}"));
        }
        Ok(found)
    }

    /// Waits until these alerts are not inactive, and no others.
    async fn pending(&self, what: &str, want: &[(&str, &str)]) {
        let want: BTreeMap<String, Vec<String>> = want
            .iter()
            .map(|(name, cluster)| ((*name).to_owned(), vec![(*cluster).to_owned()]))
            .collect();
        eventually(what, || async {
            let mut found = self.alerts().await?;
            // The trial itself makes requests fail; they count for five minutes.
            found.remove("WheelhouseRequestsFail");
            (found == want).then_some(()).ok_or(format!("{found:?}"))
        })
        .await;
    }

    /// Returns what a panel of the dashboard shows: the values of each of its queries.
    async fn panel(&self, panel: &Value) -> Result<Vec<Vec<f64>>, String> {
        let mut shown = Vec::new();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = text(&target["expr"]).replace("$job", "wheelhouse");
            let query = encoded(&query.replace("$__rate_interval", "10s"));
            let found = self.ask(&format!("/api/v1/query?query={query}")).await?;
            let samples = found["result"].as_array().cloned().unwrap_or_default();
            let values = samples.iter().map(|it| text(&it["value"][1]).parse());
            let values: Result<_, _> = values.collect();
            shown.push(values.map_err(|error| format!("{error}: {found}"))?);
        }
        Ok(shown)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn encoded(query: &str) -> String {
    let hexadecimal = query.bytes().map(|byte| format!("%{byte:02X}"));
    hexadecimal.collect::<Vec<_>>().concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_takes_the_rules_and_the_dashboard() {
    let Some(binary) = assets::client("prometheus") else {
        return;
    };
    let mut stage = Stage::set().await;
    stage.hub.root().apply(DEMO).await;
    let instance = assets::workspace().join("deploy/example/webapp.yaml");
    let instance = instance.display().to_string();
    eventually("the demo is taken", || async {
        let apply = ["apply", "-f", &instance];
        stage.hub.at("inner").run(&apply).await.ok()
    })
    .await;
    let scratch = Scratch::new("prometheus");
    let prometheus = Prometheus::start(&binary, &stage.hub, &scratch).await;
    prometheus
        .pending("no alert, while nothing is wrong", &[])
        .await;
    let dashboard: Value =
        serde_json::from_str(&shipped("monitoring/dashboard.json")).expect("the dashboard is JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    assert!(panels.len() > 10, "{dashboard}");
    for panel in panels {
        shows(&prometheus, panel).await;
    }

    say("the spoke goes away");
    stage.east.stop_api();
    prometheus
        .pending(
            "the spoke's alert",
            &[("WheelhouseSpokeUnreachable", "east")],
        )
        .await;
    let away = &panels[0];
    assert_eq!(away["title"], "Spokes that do not answer");
    assert_eq!(prometheus.panel(away).await, Ok(vec![vec![1.0]]), "east");
    let failed = panels.iter().find(|it| it["title"] == QUIET[0]);
    let failed = failed.expect("the panel is there");
    eventually(
        "requests to the spoke fail, and the panel shows it",
        || async {
            let asked = stage.hub.at("east").run(&["get", "pods"]).await;
            let shown = prometheus.panel(failed).await?;
            let is_shown = asked.code != 0 && shown[0].iter().any(|it| *it > 0.0);
            is_shown.then_some(()).ok_or(format!("{asked:?} {shown:?}"))
        },
    )
    .await;

    say("the hub goes away");
    stage.hub.kill();
    prometheus
        .pending(
            "the hub's alert, and what nobody knows is no alert",
            &[("WheelhouseDown", "")],
        )
        .await;
}

/// Each query of a panel is answered, with values where something is counted all the time.
async fn shows(prometheus: &Prometheus, panel: &Value) {
    let title = text(&panel["title"]);
    eventually(&format!("the panel {title:?}"), || async {
        let shown = prometheus.panel(panel).await?;
        // A quantile of what did not happen in the interval is not a number.
        let is_shown = |values: &Vec<f64>| values.iter().any(|it| !it.is_nan());
        let is_whole = !shown.is_empty() && shown.iter().all(is_shown);
        let holds = is_whole || QUIET.contains(&&*title);
        holds.then_some(()).ok_or(format!("{shown:?}"))
    })
    .await;
}
