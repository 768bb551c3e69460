//! Controllers made with client-go and controller-runtime (`tests/controllers/`), over the paths of logical clusters: a restart
//! of the hub neither loses a change nor shows one that was not made.

use std::{collections::BTreeSet, path::Path, process::Command, time::Duration};

use serde_json::json;
use wheelhouse_tests::{
    Kubectl, assets,
    process::{Process, Scratch},
    wait::within,
};

use super::stage::{Stage, gone, until};

/// A Lease of 30 s must run out, and more on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// A second embedded cluster.
const SECOND: &str = "apiVersion: wheelhouse.dev/v1alpha1\nkind: Spoke\n\
                      metadata: {name: second}\nspec: {provider: Embedded}\n";
const WEBAPP: &str = include_str!("../../fixtures/webapp.yaml");

/// The logical clusters of the manager: a spoke's path and two embedded ones.
const CLUSTERS: [&str; 3] = ["inner", "east", "second"];

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_over_three_clusters_goes_on_after_a_restart_and_hands_over() {
    let Some(binary) = assets::client("controllers") else {
        return;
    };
    let mut stage = Stage::set().await;
    stage.hub.root().apply(SECOND).await;
    let account = ["get", "serviceaccount", "default", "-n", "default"];
    until(&stage.hub.at("second"), &account, "it is served", |_| true).await;
    let scratch = Scratch::new("manager");
    let urls = CLUSTERS.map(|cluster| format!("{}/clusters/{cluster}", stage.hub.server()));
    let start = |name: &str| {
        let mut command = program(&binary, "manager", &stage.hub.kubeconfig());
        for url in &urls {
            command.args(["--server", url]);
        }
        Process::start(&command, &scratch.file(name))
    };
    let first = start("first.log");
    says(&first, "leading").await;
    let second = start("second.log");
    let clusters = CLUSTERS.map(|cluster| stage.hub.at(cluster));
    for kubectl in &clusters {
        kubectl.apply(&original("a", "one")).await;
        copied(kubectl, "a", "one", &first).await;
        // What an owner has is put back, which needs the second watch.
        kubectl.must(&["delete", "configmap", "a-copy"]).await;
        copied(kubectl, "a", "one", &first).await;
    }
    stage.hub.kill();
    stage.hub.launch().await;
    for kubectl in &clusters {
        let uid = uid(kubectl, "a-copy").await;
        kubectl.apply(&original("a", "two")).await;
        kubectl.apply(&original("b", "two")).await;
        copied(kubectl, "a", "two", &first).await;
        copied(kubectl, "b", "two", &first).await;
        assert_eq!(
            self::uid(kubectl, "a-copy").await,
            uid,
            "the copy is the same"
        );
    }
    assert!(first.runs(), "{}", first.log());
    assert!(
        !second.log().contains("leading"),
        "one leads at a time: {}",
        second.log()
    );
    drop(first);
    says(&second, "leading").await;
    for kubectl in &clusters {
        kubectl.apply(&original("c", "three")).await;
        copied(kubectl, "c", "three", &second).await;
        kubectl
            .must(&["delete", "configmap", "a", "--timeout=60s"])
            .await;
        gone(kubectl, &["get", "configmap", "a-copy"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_see_each_change_once_over_a_restart() {
    let Some(binary) = assets::client("controllers") else {
        return;
    };
    let mut stage = Stage::set().await;
    let root = stage.hub.root();
    root.apply(WEBAPP).await;
    root.must(&[
        "wait",
        "--for=condition=Ready",
        "rgd/webapp",
        "--timeout=30s",
    ])
    .await;
    let scratch = Scratch::new("informers");
    let mut told = Vec::new();
    for cluster in ["inner", "east"] {
        let kubectl = stage.hub.at(cluster);
        for number in 0..20 {
            kubectl
                .apply(&original(&format!("before-{number}"), "one"))
                .await;
        }
        let mut command = program(&binary, "informers", &stage.hub.kubeconfig());
        command.args([
            "--server",
            &format!("{}/clusters/{cluster}", stage.hub.server()),
        ]);
        let process = Process::start(&command, &scratch.file(&format!("{cluster}.log")));
        says(&process, "synced").await;
        told.push((kubectl, process));
    }
    for (kubectl, _) in &told {
        kubectl.must(&["delete", "configmap", "before-0"]).await;
        kubectl.apply(&original("before-1", "two")).await;
    }
    stage.hub.kill();
    // What changes while the hub is away, at the spoke.
    stage
        .east
        .kubectl()
        .must(&["delete", "configmap", "before-2"])
        .await;
    stage.east.kubectl().apply(&original("away", "one")).await;
    stage.hub.launch().await;
    for (kubectl, process) in &told {
        kubectl.apply(&original("after", "one")).await;
        kubectl.apply(&shop()).await;
        says(process, "added configmap/after ").await;
        says(process, "added webapp/shop ").await;
        same(kubectl, process).await;
        let added = process.log().matches("added configmap/before-5 ").count();
        assert_eq!(added, 1, "what lives is not added again: {}", process.log());
    }
    says(&told[1].1, "deleted configmap/before-2 ").await;
    says(&told[1].1, "added configmap/away ").await;
}

/// Compares what the informer was told, added up, with what is there.
async fn same(kubectl: &Kubectl, process: &Process) {
    within(PATIENCE, "the informer knows what is there", || async {
        let arguments = ["get", "configmap", "-l", "trial.example.org/source"];
        let list = kubectl.json(&arguments).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let there: BTreeSet<String> = items
            .iter()
            .map(|it| {
                it["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect();
        let mut known = BTreeSet::new();
        for line in process.log().lines() {
            let (event, rest) = line.split_once(" configmap/").unwrap_or_default();
            let name = rest.split(' ').next().unwrap_or_default().to_owned();
            match event {
                "added" => drop(known.insert(name)),
                "deleted" => drop(known.remove(&name)),
                _ => {}
            }
        }
        if known == there {
            Ok(())
        } else {
            Err(format!("known {known:?}, there {there:?}"))
        }
    })
    .await;
}

fn program(binary: &Path, name: &str, kubeconfig: &Path) -> Command {
    let mut command = Command::new(binary);
    command.arg(name).arg("--kubeconfig").arg(kubeconfig);
    command
}

fn original(name: &str, text: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"trial.example.org/source": "true"}},
        "data": {"text": text},
    })
    .to_string()
}

fn shop() -> String {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "WebApp",
        "metadata": {"name": "shop", "namespace": "default"}, "spec": {"message": "hello"},
    })
    .to_string()
}

async fn says(process: &Process, text: &str) {
    within(PATIENCE, &format!("it says {text:?}"), || async {
        let log = process.log();
        if log.contains(text) {
            Ok(())
        } else {
            Err(format!("runs: {}\n{log}", process.runs()))
        }
    })
    .await;
}

async fn copied(kubectl: &Kubectl, name: &str, text: &str, process: &Process) {
    let copy = format!("{name}-copy");
    within(PATIENCE, &format!("{copy} is {text}"), || async {
        let object = kubectl.json(&["get", "configmap", &copy]).await;
        let object = object.map_err(|error| format!("{error}\n{}", process.log()))?;
        if object["data"]["text"] == text {
            Ok(())
        } else {
            Err(object.to_string())
        }
    })
    .await;
}

async fn uid(kubectl: &Kubectl, name: &str) -> String {
    let object = kubectl
        .json(&["get", "configmap", name])
        .await
        .expect("it is there");
    object["metadata"]["uid"].to_string()
}
