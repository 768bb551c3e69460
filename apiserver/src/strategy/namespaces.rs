//! Namespaces: their phase, their own kind of finalizers, and the label with their name.
//!
//! Source: kubernetes/pkg/registry/core/namespace/{strategy,storage/storage}.go.

use api::GroupResource;
use api::meta::{self, FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use api::query::{DeleteOptions, Propagation};
use api::validation::NameRule;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::built_in::BUILT_IN;
use super::endpoint::Endpoint;
use super::{Deletion, Strategy};

pub(super) const NAMESPACES: Strategy = Strategy {
    name: NameRule::DnsLabel,
    selectable: &[("status.phase", "status.phase")],
    endpoints: &[("finalize", Endpoint::Finalize)],
    prepare_update,
    canonicalize: label,
    deletion: Deletion {
        forbid: |name| {
            PERMANENT
                .contains(&name)
                .then_some("this namespace may not be deleted")
        },
        mark,
        may_be_removed: is_empty,
        ..Deletion::PLAIN
    },
    ..BUILT_IN
};

/// Namespaces that cannot be deleted.
const PERMANENT: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The entry of `spec.finalizers` that stands until the namespace is empty.
pub(crate) const CLUSTER_FINALIZER: &str = "kubernetes";

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The resource of namespaces, for admission into them.
pub(crate) fn resource() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// Labels a namespace with its name, which may have been generated just now.
fn label(object: &mut Value) {
    let name = meta::name(object).to_owned();
    if !name.is_empty() {
        meta::set_label(object, NAME_LABEL, &name);
    }
}

/// Only `finalize` changes the finalizers of the spec.
fn prepare_update(endpoint: Endpoint, object: &mut Value, live: &Value) {
    if endpoint == Endpoint::Finalize {
        object["status"] = live["status"].clone();
    } else {
        object["spec"] = live["spec"].clone();
    }
}

/// Whether no finalizer of the spec is left.
fn is_empty(object: &Value) -> bool {
    object["spec"]["finalizers"]
        .as_array()
        .is_none_or(Vec::is_empty)
}

/// A namespace terminates first, and is emptied; garbage collection is told by finalizers as for other objects.
fn mark(live: &Value, options: &DeleteOptions, now: Timestamp) -> Option<Value> {
    if meta::is_terminating(live) {
        return None;
    }
    let mut object = live.clone();
    meta::set_deletion_timestamp(&mut object, &meta::time_now_text(now));
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    object["status"]["phase"] = json!("Terminating");
    let wanted = match (options.orphan_dependents, options.propagation) {
        (Some(true), _) | (None, Some(Propagation::Orphan)) => Some(FINALIZER_ORPHAN),
        (Some(false), _) | (None, Some(Propagation::Foreground)) => Some(FINALIZER_FOREGROUND),
        (None, Some(Propagation::Background)) => None,
        (None, None) => return Some(object),
    };
    meta::remove_finalizer(&mut object, FINALIZER_ORPHAN);
    meta::remove_finalizer(&mut object, FINALIZER_FOREGROUND);
    if let Some(finalizer) = wanted {
        meta::add_finalizer(&mut object, finalizer);
    }
    Some(object)
}
