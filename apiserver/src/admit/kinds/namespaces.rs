//! Namespaces: their phase, their own kind of finalizers, and the label with their name.

use api::meta;
use serde_json::Value;

use crate::call::Endpoint;

/// The entry of `spec.finalizers` that stands until the namespace is empty.
pub(crate) const CLUSTER_FINALIZER: &str = "kubernetes";

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Labels a namespace with its name, which may have been generated just now.
pub(super) fn label(object: &mut Value) {
    let name = meta::name(object).to_owned();
    if !name.is_empty() {
        meta::set_label(object, NAME_LABEL, &name);
    }
}

/// Only `finalize` changes the finalizers of the spec.
pub(super) fn prepare_update(endpoint: Endpoint, object: &mut Value, live: &Value) {
    if endpoint == Endpoint::Finalize {
        object["status"] = live["status"].clone();
    } else {
        object["spec"] = live["spec"].clone();
    }
}

/// Whether no finalizer of the spec is left.
pub(super) fn is_empty(object: &Value) -> bool {
    finalizers(object).is_empty()
}

fn finalizers(object: &Value) -> Vec<Value> {
    object["spec"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}
