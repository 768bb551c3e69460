//! Where an instance was made: at the hub's path, or in the spoke itself; and what passes between the two copies of it.
//!
//! Of an instance that was made in a spoke, the spoke has the truth: its spec, and the labels and annotations that somebody in the spoke has
//! put on it, come to the hub. The hub has the truth of the status.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::keys::{ANNOTATION_ORIGIN, ORIGIN_SPOKE};
use crate::{kro, meta};

/// Beginnings of the keys of labels and annotations by which other tools track what they own: each copy is tracked by the tools on
/// its own side.
pub const TRACKING_PREFIXES: &[&str] = &[
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "meta.helm.sh/",
    "kubectl.kubernetes.io/",
    "internal.wheelhouse.dev/",
    "kcp.io/",
];

/// Labels that Helm and Argo CD set on what they track.
pub const TRACKING_LABELS: &[&str] = &[
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/instance",
    "helm.sh/chart",
];

/// Beginnings of the keys that hub and kro write for themselves.
const OWN_PREFIXES: &[&str] = &[
    "kro.run/",
    "internal.kro.run/",
    "applyset.",
    "wheelhouse.dev/",
];

/// Returns whether an instance was made in its spoke.
pub fn is_of_spoke(instance: &Value) -> bool {
    meta::annotation(instance, ANNOTATION_ORIGIN) == Some(ORIGIN_SPOKE)
}

/// Returns whether annotations say that an instance was made in its spoke.
pub fn is_marked_of_spoke(annotations: &BTreeMap<String, String>) -> bool {
    annotations
        .get(ANNOTATION_ORIGIN)
        .is_some_and(|origin| origin == ORIGIN_SPOKE)
}

/// Returns whether a label or annotation of this key is the user's, and the same in both copies.
pub fn is_shared(key: &str) -> bool {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| key.starts_with(prefix));
    key == kro::keys::ANNOTATION_RECONCILE
        || !(begins(OWN_PREFIXES) || begins(TRACKING_PREFIXES) || TRACKING_LABELS.contains(&key))
}

/// Returns whether a text is a uid as API servers issue them: it names records of the hub, so nothing else is taken from a spoke.
///
/// Source: `apimachinery/pkg/util/uuid/uuid.go`: RFC 9562 in lower case.
pub fn is_uid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// Returns what passes from one copy to the other when an instance changes, as a merge patch (RFC 7396); `None` if nothing does.
pub fn difference(live: &Value, object: &Value) -> Option<Value> {
    let mut patch = json!({});
    if let Some(spec) = merge_patch(&live["spec"], &object["spec"]) {
        patch["spec"] = spec;
    }
    for part in ["labels", "annotations"] {
        if let Some(keys) = merge_patch(&shared(live, part), &shared(object, part)) {
            patch["metadata"][part] = keys;
        }
    }
    patch
        .as_object()
        .is_some_and(|it| !it.is_empty())
        .then_some(patch)
}

/// Returns the labels or annotations that are the same in both copies.
pub fn shared(object: &Value, part: &str) -> Value {
    let keys = object["metadata"][part].as_object().into_iter().flatten();
    let keys = keys.filter(|(key, _)| is_shared(key));
    Value::Object(
        keys.map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

/// Returns the merge patch from one value to another; `None` where they are the same.
fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Some(before), Some(after)) = (from.as_object(), to.as_object()) else {
        return Some(to.clone());
    };
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let mut patch: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in after {
        let known = before.get(key).unwrap_or(&Value::Null);
        if let Some(value) = merge_patch(known, value) {
            patch.insert(key.clone(), value);
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_keys_are_shared_and_those_of_tools_are_not() {
        for (key, want) in [
            ("team", true),
            ("example.com/tier", true),
            ("app.kubernetes.io/name", true),
            (kro::keys::ANNOTATION_RECONCILE, true),
            ("kro.run/owned", false),
            ("applyset.kubernetes.io/id", false),
            ("wheelhouse.dev/origin", false),
            ("internal.wheelhouse.dev/author", false),
            ("kubectl.kubernetes.io/last-applied-configuration", false),
            ("argocd.argoproj.io/tracking-id", false),
            ("app.kubernetes.io/instance", false),
        ] {
            assert_eq!(is_shared(key), want, "{key}");
        }
    }

    #[test]
    fn nothing_but_a_uid_is_one() {
        for (text, want) in [
            ("0a1b2c3d-1234-4abc-9def-0123456789ab", true),
            ("0A1B2C3D-1234-4ABC-9DEF-0123456789AB", false),
            ("0a1b2c3d-1234-4abc-9def-0123456789a", false),
            ("0a1b2c3d-1234-4abc-9def-0123456789ab/../x", false),
            ("0a1b2c3d/1234-4abc-9def-0123456789ab", false),
            ("", false),
        ] {
            assert_eq!(is_uid(text), want, "{text}");
        }
    }

    #[test]
    fn a_patch_holds_what_is_the_spokes_and_changes() {
        let live = json!({"metadata": {"labels": {"team": "a", "kro.run/owned": "true"}, "finalizers": ["f"]},
            "spec": {"size": 1, "names": ["a"], "more": {"x": 1, "y": 2}}, "status": {"state": "ACTIVE"}});
        // (what, where it differs, what stands there, the patch)
        for (name, path, value, want) in [
            ("nothing", "/metadata/finalizers", json!([]), json!(null)),
            (
                "the hub's own label",
                "/metadata/labels",
                json!({"team": "a"}),
                json!(null),
            ),
            ("a status", "/status/state", json!("ERROR"), json!(null)),
            (
                "a number",
                "/spec/size",
                json!(2),
                json!({"spec": {"size": 2}}),
            ),
            (
                "a list as a whole",
                "/spec/names",
                json!(["a", "b"]),
                json!({"spec": {"names": ["a", "b"]}}),
            ),
            (
                "a field that goes",
                "/spec/more",
                json!({"y": 2}),
                json!({"spec": {"more": {"x": null}}}),
            ),
            (
                "a label that goes",
                "/metadata/labels",
                json!({}),
                json!({"metadata": {"labels": {"team": null}}}),
            ),
        ] {
            let mut object = live.clone();
            *object.pointer_mut(path).expect("it has it") = value;
            assert_eq!(
                difference(&live, &object).unwrap_or_default(),
                want,
                "{name}"
            );
        }
    }
}
