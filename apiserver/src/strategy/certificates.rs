//! Certificate signing requests.
//!
//! Source: kubernetes/pkg/registry/certificates/certificates/strategy.go.

use serde_json::Value;

use super::Strategy;
use super::built_in::BUILT_IN;
use super::endpoint::Endpoint;

pub(super) const REQUESTS: Strategy = Strategy {
    selectable: &[("spec.signerName", "spec.signerName")],
    endpoints: &[("approval", Endpoint::Approval)],
    prepare_update,
    ..BUILT_IN
};

/// `approval` changes the conditions and metadata.
fn prepare_update(endpoint: Endpoint, object: &mut Value, live: &Value) {
    if endpoint != Endpoint::Approval {
        return;
    }
    let conditions = object["status"]["conditions"].clone();
    let metadata = object["metadata"].clone();
    object.clone_from(live);
    object["metadata"] = metadata;
    object["status"]["conditions"] = conditions;
}
