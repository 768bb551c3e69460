//! Events: one place in the store, two groups with different names for the same fields.
//!
//! Source: kubernetes/pkg/apis/events/v1/conversion.go.

use serde_json::{Map, Value};

use super::built_in::BUILT_IN;
use super::rules::{Propagation, PutOfAbsent};
use super::{Deletion, StoredAs, Strategy};

/// Events of the core group, which is what all events are stored as.
pub(super) const CORE_EVENTS: Strategy = Strategy {
    selectable: &[
        ("involvedObject.kind", "involvedObject.kind"),
        ("involvedObject.namespace", "involvedObject.namespace"),
        ("involvedObject.name", "involvedObject.name"),
        ("involvedObject.uid", "involvedObject.uid"),
        ("involvedObject.apiVersion", "involvedObject.apiVersion"),
        (
            "involvedObject.resourceVersion",
            "involvedObject.resourceVersion",
        ),
        ("involvedObject.fieldPath", "involvedObject.fieldPath"),
        ("reason", "reason"),
        ("reportingComponent", "reportingComponent"),
        ("source", "source.component"),
        ("type", "type"),
    ],
    ..EITHER
};

/// Events of `events.k8s.io`.
pub(super) const EVENTS: Strategy = Strategy {
    selectable: &[
        ("regarding.kind", "regarding.kind"),
        ("regarding.namespace", "regarding.namespace"),
        ("regarding.name", "regarding.name"),
        ("regarding.uid", "regarding.uid"),
        ("regarding.apiVersion", "regarding.apiVersion"),
        ("regarding.resourceVersion", "regarding.resourceVersion"),
        ("regarding.fieldPath", "regarding.fieldPath"),
        ("reason", "reason"),
        ("reportingController", "reportingController"),
        ("type", "type"),
    ],
    ..EITHER
};

/// What events of both groups do.
const EITHER: Strategy = Strategy {
    stored_as: Some(&StoredAs {
        resource: ("", "events"),
        version: "v1",
        kind: "Event",
        convert,
    }),
    put_of_absent: PutOfAbsent::Creates,
    deletion: Deletion {
        propagation: Propagation::Unsupported,
        ..Deletion::PLAIN
    },
    ..BUILT_IN
};

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
pub(super) fn convert(object: &mut Value, api_version: &str) {
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
