//! Manifests that `deploy/` ships, and what a kube-apiserver says of them.

use std::process::Command;

use serde_json::{Value, json};

use crate::{Kubectl, assets};

/// Returns the text of a file below `deploy/`.
pub fn shipped(path: &str) -> String {
    let file = assets::workspace().join("deploy").join(path);
    std::fs::read_to_string(&file).expect(path)
}

/// Returns the digest of the chart, which the plain manifests name.
pub fn chart_digest() -> String {
    let output = Command::new(assets::workspace().join("hack/manifests"))
        .arg("--digest")
        .output()
        .expect("hack/manifests can be started");
    let digest = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert_eq!(digest.len(), 64, "{output:?}");
    digest
}

/// Parses the documents of a manifest.
pub fn documents(manifest: &str) -> Vec<Value> {
    let documents = manifest.split("\n---\n");
    let parsed = documents.map(|text| {
        let text = text.trim_start_matches("---\n");
        serde_saphyr::from_str::<Value>(text).expect(text)
    });
    parsed.filter(Value::is_object).collect()
}

/// Returns the only object of a kind.
pub fn of_kind<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    let mut found = documents.iter().filter(|object| object["kind"] == kind);
    let object = found.next().expect(kind);
    assert!(found.next().is_none(), "one {kind}");
    object
}

/// Returns a Pod of a workload's template, with its claims as empty volumes.
pub fn pod(workload: &Value) -> Value {
    let template = match workload["kind"].as_str() {
        Some("CronJob") => &workload["spec"]["jobTemplate"]["spec"]["template"],
        _ => &workload["spec"]["template"],
    };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "one", "namespace": workload["metadata"]["namespace"], "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    });
    let claims = workload["spec"]["volumeClaimTemplates"].as_array();
    let volumes = pod["spec"]["volumes"].as_array_mut();
    let volumes = volumes.expect("the workload has volumes");
    for claim in claims.into_iter().flatten() {
        volumes.push(json!({"name": claim["metadata"]["name"], "emptyDir": {}}));
    }
    pod
}

/// Returns whether a kube-apiserver takes a manifest without a warning, and stores nothing of it.
///
/// # Errors
///
/// The refusal or the warning.
pub async fn admitted(kubectl: &Kubectl, manifest: &str) -> Result<(), String> {
    let arguments = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
    let ran = kubectl.run_with_input(&arguments, manifest).await;
    if ran.code == 0 && ran.stderr.is_empty() {
        return Ok(());
    }
    Err(format!("exit {}: {}", ran.code, ran.stderr))
}
