//! The objects that join a cluster.

use std::collections::BTreeMap;

use api::wheelhouse::{
    self,
    keys::{LABEL_SPOKE_SECRET, SECRET_KEY_KUBECONFIG},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Returns the Secret and the Spoke that join a cluster: what `wheelhouse spoke add` writes.
pub fn join_objects(
    name: &str,
    kubeconfig: &str,
    labels: &BTreeMap<String, String>,
) -> (Value, Value) {
    let secret_name = format!("spoke-{name}");
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name,
            "namespace": "kube-system",
            "labels": {LABEL_SPOKE_SECRET: name},
        },
        "type": "Opaque",
        "data": {SECRET_KEY_KUBECONFIG: STANDARD.encode(kubeconfig)},
    });
    let spoke = json!({
        "apiVersion": wheelhouse::API_VERSION,
        "kind": wheelhouse::SPOKE_KIND,
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "provider": "Kubeconfig",
            "trustMasters": true,
            "connection": {"type": "Direct", "secretRef": {
                "namespace": "kube-system",
                "name": secret_name,
                "key": SECRET_KEY_KUBECONFIG,
            }},
        },
    });
    (secret, spoke)
}
