//! Pods become ready as a kubelet would make them: kube-controller-manager makes them, and nothing
//! in a test runs them.

use serde_json::{Value, json};

use crate::{kubectl::Kubectl, wait::eventually};

/// Makes the one Pod of an application in the default namespace Running and Ready, once it is there.
pub async fn make_ready(spoke: &Kubectl, app: &str) {
    make_all_ready(spoke, app, 1).await;
}

/// The same, for an application of several Pods.
pub async fn make_all_ready(spoke: &Kubectl, app: &str, count: usize) {
    let selector = format!("app={app}");
    eventually(&format!("{count} pods of {app} are ready"), || async {
        let pods = spoke.json(&["get", "pods", "-l", &selector]).await?;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let living = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let (ready, waiting): (Vec<&Value>, Vec<&Value>) = living.partition(|pod| is_ready(pod));
        for pod in &waiting {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let status = json!({"status": {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "ContainersReady", "status": "True"},
                ],
            }})
            .to_string();
            let arguments = ["patch", "pod", name, "--subresource=status", "-p", &status];
            spoke.run(&arguments).await.ok()?;
        }
        if waiting.is_empty() && ready.len() == count {
            return Ok(());
        }
        Err(format!("{} ready, {} waiting", ready.len(), waiting.len()))
    })
    .await;
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
