//! Classes and drivers of storage.
//!
//! Source: `kubernetes/pkg/apis/storage/v1/defaults.go`.

use serde_json::{Value, json};

use super::{Fields, child, set};

pub(super) fn complete(fields: &mut Fields, kind: &str) {
    match kind {
        "StorageClass" => {
            set(fields, "reclaimPolicy", json!("Delete"));
            set(fields, "volumeBindingMode", json!("Immediate"));
        }
        "CSIDriver" => {
            let spec = child(fields, "spec");
            for (name, value) in [
                ("attachRequired", true),
                ("podInfoOnMount", false),
                ("storageCapacity", false),
                ("requiresRepublish", false),
                ("seLinuxMount", false),
            ] {
                set(spec, name, json!(value));
            }
            set(spec, "fsGroupPolicy", json!("ReadWriteOnceWithFSType"));
            let modes = spec.get("volumeLifecycleModes").and_then(Value::as_array);
            if modes.is_none_or(Vec::is_empty) {
                spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
            }
        }
        _ => {}
    }
}
