//! Events: one place in the store, two groups with different names for the same fields.
//!
//! Source: kubernetes/pkg/apis/events/v1/conversion.go.

use serde_json::{Map, Value};

/// Names in `v1` and in `events.k8s.io/v1`.
const NAMES: [(&str, &str); 8] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// Renames the fields of an event for another group.
pub(crate) fn convert_event(object: &mut Value, api_version: &str) {
    let to_core = api_version == "v1";
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let mut renamed = Map::new();
    for (core, events) in NAMES {
        let (from, to) = if to_core {
            (events, core)
        } else {
            (core, events)
        };
        if let Some(value) = fields.remove(from) {
            renamed.insert(to.to_owned(), value);
        }
    }
    fields.extend(renamed);
}
