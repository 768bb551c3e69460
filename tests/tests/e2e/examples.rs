//! kro's own examples are accepted and served.

use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;
use wheelhouse_tests::{Kubectl, assets, eventually};

use super::stage::{Stage, gone};

#[tokio::test(flavor = "multi_thread")]
async fn the_kubernetes_examples_of_kro_are_accepted_and_served() {
    let Some(corpus) = assets::corpus() else {
        return;
    };
    let stage = Stage::bare().await;
    let examples = read(&corpus.join("kro-examples"));
    assert_eq!(examples.len(), 12, "{examples:?}");
    // Two of them define the same kind, which only one definition can hold at a time: the second
    // one comes after the first has gone.
    let mut first: Vec<&Example> = Vec::new();
    let mut second: Vec<&Example> = Vec::new();
    for example in &examples {
        let taken = first.iter().any(|other| other.kind == example.kind);
        if taken {
            second.push(example);
        } else {
            first.push(example);
        }
    }
    let root = stage.hub.root();
    for example in &first {
        root.must(&["apply", "-f", &example.file.display().to_string()])
            .await;
    }
    for example in &first {
        served(&stage, example).await;
    }
    for example in &second {
        let holder = first
            .iter()
            .find(|other| other.kind == example.kind)
            .expect("it has one");
        withdraw(&stage, holder).await;
        root.must(&["apply", "-f", &example.file.display().to_string()])
            .await;
        served(&stage, example).await;
    }
}

#[derive(Debug)]
struct Example {
    file: PathBuf,
    name: String,
    kind: String,
    api_version: String,
}

fn read(folder: &Path) -> Vec<Example> {
    let entries = std::fs::read_dir(folder).expect("the corpus has kro's examples");
    let mut folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("kubernetes-"))
        })
        .collect();
    folders.sort();
    folders
        .into_iter()
        .map(|folder| {
            let file = folder.join("rgd.yaml");
            let text = std::fs::read_to_string(&file).expect("it can be read");
            // One of them repeats a key: the last one counts, as for kubectl.
            let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
            let definition: Value =
                serde_saphyr::from_str_with_options(&text, options).expect("it is YAML");
            let schema = &definition["spec"]["schema"];
            let group = schema["group"].as_str().unwrap_or("kro.run");
            Example {
                file,
                name: definition["metadata"]["name"]
                    .as_str()
                    .expect("a name")
                    .to_owned(),
                kind: schema["kind"].as_str().expect("a kind").to_owned(),
                api_version: format!(
                    "{group}/{}",
                    schema["apiVersion"].as_str().expect("a version")
                ),
            }
        })
        .collect()
}

async fn served(stage: &Stage, example: &Example) {
    let name = format!("rgd/{}", example.name);
    eventually(&format!("{name} is Active and Ready"), || async {
        let definition = stage.hub.root().json(&["get", &name]).await?;
        let conditions = definition["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let ready = conditions
            .into_iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True");
        if ready && definition["status"]["state"] == "Active" {
            return Ok(());
        }
        Err(definition["status"].to_string())
    })
    .await;
    let api_version = format!("--api-version={}", example.api_version);
    for kubectl in [stage.path(), stage.direct()] {
        let explained = kubectl
            .must(&["explain", &example.kind, &api_version])
            .await;
        assert!(
            explained.contains(&example.kind),
            "{example:?} is served: {explained}"
        );
    }
}

/// Takes a definition and its CRD away, as a user would.
async fn withdraw(stage: &Stage, example: &Example) {
    let root = stage.hub.root();
    let selector = format!("kro.run/resource-graph-definition-name={}", example.name);
    root.must(&["delete", "rgd", &example.name]).await;
    let places: [Kubectl; 2] = [root, stage.path()];
    for kubectl in &places {
        let listed = kubectl
            .must(&["get", "crd", "-l", &selector, "-o", "name"])
            .await;
        for crd in listed.lines() {
            kubectl.must(&["delete", crd]).await;
            gone(kubectl, &["get", crd]).await;
        }
    }
}
