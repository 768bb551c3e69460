//! What becomes of a child that nothing wants any more, where the gate `ResourceDeletionPolicy` is open: it is deleted, retained or
//! orphaned, as its annotation says.
//!
//! The policy is an annotation of the object and not a field of the definition, so that a definition stays valid for kro, and a
//! deletion, which has no graph, can read it. kro has none yet; its issues 542 and 1419 and its proposal KREP-014 ask for one.

use std::collections::BTreeMap;

use api::kro::keys;
use api::meta;
use api::wheelhouse::keys::{ANNOTATION_DELETION_POLICY, HUB};
use dialect::quote;
use serde_json::{Map, Value, json};

/// How much of a refused value a message shows, in characters.
const SHOWN_MAX: usize = 64;

/// The labels by which a child says what it belongs to.
const LABELS: [&str; 12] = [
    keys::LABEL_NODE_ID,
    keys::LABEL_COLLECTION_INDEX,
    keys::LABEL_COLLECTION_SIZE,
    keys::LABEL_OWNED,
    keys::LABEL_KRO_VERSION,
    keys::LABEL_INSTANCE_ID,
    keys::LABEL_INSTANCE_NAME,
    keys::LABEL_INSTANCE_NAMESPACE,
    keys::LABEL_INSTANCE_GROUP,
    keys::LABEL_INSTANCE_VERSION,
    keys::LABEL_INSTANCE_KIND,
    keys::LABEL_APPLYSET_PART_OF,
];

/// What becomes of a child that nothing wants any more.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ChildPolicy {
    /// It is deleted.
    #[default]
    Delete,
    /// It stays, and goes on saying what it belonged to: an instance of the same name takes it up again.
    Retain,
    /// It stays, and nothing says any more that it was made for an instance.
    Orphan,
}

// === impl ChildPolicy ===

impl ChildPolicy {
    /// Reads the policy of an object; one without the annotation is deleted.
    ///
    /// # Errors
    /// Names the value that is none. Nothing may be deleted then: whoever wrote it meant something else than the default.
    pub fn of(object: &Value) -> Result<Self, String> {
        match &object["metadata"]["annotations"][ANNOTATION_DELETION_POLICY] {
            Value::Null => Ok(Self::Delete),
            Value::String(text) => Self::parse(text),
            // An API server refuses it, and a template that has not been filled in may have anything.
            other => Err(refusal(&other.to_string())),
        }
    }

    /// Reads the value of the annotation.
    ///
    /// # Errors
    /// Names the value that is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        [Self::Delete, Self::Retain, Self::Orphan]
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or_else(|| refusal(text))
    }

    /// Names the policy as it stands in the annotation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::Retain => "Retain",
            Self::Orphan => "Orphan",
        }
    }

    /// Returns the merge patch that lets an object stay without its instance; nothing where it needs none, or is deleted.
    ///
    /// What names the instance as its owner goes, because the garbage collector would delete the object after it. An orphan loses
    /// the labels too, and the manager that applied it: the fields it set belong to nobody. The patch names uid and version, so that
    /// it changes the object that it was made for, as it was.
    ///
    /// `owners` are the uids by which the instance is known.
    pub fn parting_patch(self, object: &Value, owners: &[&str]) -> Option<Value> {
        let mut metadata = Map::new();
        if self != Self::Delete {
            part_from_owners(object, owners, &mut metadata);
        }
        if self == Self::Orphan {
            part_from_set(object, &mut metadata);
            part_from_manager(object, &mut metadata);
        }
        if metadata.is_empty() {
            return None;
        }
        for field in ["uid", "resourceVersion"] {
            metadata.insert(field.to_owned(), object["metadata"][field].clone());
        }
        Some(json!({"metadata": metadata}))
    }
}

fn refusal(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    let shown = quote(&shown);
    format!("annotation {ANNOTATION_DELETION_POLICY}: {shown} is not Delete, Retain or Orphan")
}

fn part_from_owners(object: &Value, owners: &[&str], metadata: &mut Map<String, Value>) {
    let named = object["metadata"]["ownerReferences"].as_array();
    let named = named.map(Vec::as_slice).unwrap_or_default();
    let is_instance = |owner: &&Value| {
        let uid = owner["uid"].as_str().unwrap_or_default();
        !uid.is_empty() && owners.contains(&uid)
    };
    let left: Vec<&Value> = named.iter().filter(|owner| !is_instance(owner)).collect();
    if left.len() < named.len() {
        metadata.insert("ownerReferences".to_owned(), json!(left));
    }
}

fn part_from_set(object: &Value, metadata: &mut Map<String, Value>) {
    let has_label = |key: &&str| meta::label(object, key).is_some();
    let mut labels: BTreeMap<&str, Value> = LABELS
        .into_iter()
        .chain([HUB])
        .filter(has_label)
        .map(|key| (key, Value::Null))
        .collect();
    if meta::label(object, keys::LABEL_MANAGED_BY) == Some(keys::MANAGED_BY_KRO) {
        labels.insert(keys::LABEL_MANAGED_BY, Value::Null);
    }
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), json!(labels));
    }
    if meta::annotation(object, keys::ANNOTATION_APPLY_ORDER).is_some() {
        let annotations = json!({keys::ANNOTATION_APPLY_ORDER: null});
        metadata.insert("annotations".to_owned(), annotations);
    }
}

/// Source: kubernetes `docs/reference/using-api/server-side-apply`, "Clearing managedFields": an empty list changes nothing, and one
/// with an empty entry clears it.
fn part_from_manager(object: &Value, metadata: &mut Map<String, Value>) {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.map(Vec::as_slice).unwrap_or_default();
    let is_ours = |entry: &&Value| entry["manager"] == keys::MANAGER_APPLYSET;
    let left: Vec<&Value> = entries.iter().filter(|entry| !is_ours(entry)).collect();
    if left.len() == entries.len() {
        return;
    }
    let left = if left.is_empty() {
        json!([{}])
    } else {
        json!(left)
    };
    metadata.insert("managedFields".to_owned(), left);
}

#[cfg(test)]
mod tests {
    use api::kro::RgdSpec;

    use super::*;
    use crate::resolve::builtin_kinds::BuiltinKinds;
    use crate::{CompileOptions, compile_with};

    fn child() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "labels": {
                    keys::LABEL_APPLYSET_PART_OF: "applyset-x", keys::LABEL_OWNED: "true", keys::LABEL_INSTANCE_ID: "i",
                    keys::LABEL_MANAGED_BY: keys::MANAGED_BY_KRO, HUB: "h", "app": "web",
                },
                "annotations": {keys::ANNOTATION_APPLY_ORDER: "1", ANNOTATION_DELETION_POLICY: "Orphan", "note": "x"},
                "ownerReferences": [{"uid": "mirror"}, {"uid": "another"}, {"uid": ""}],
                "managedFields": [
                    {"manager": keys::MANAGER_APPLYSET, "operation": "Apply"},
                    {"manager": "kubectl", "operation": "Update"},
                ],
            },
            "data": {"a": "b"},
        })
    }

    #[test]
    fn a_value_that_is_none_is_refused_and_absence_is_deletion() {
        let of = |value: Value| {
            let annotations = json!({ANNOTATION_DELETION_POLICY: value});
            ChildPolicy::of(&json!({"metadata": {"annotations": annotations}}))
        };
        assert_eq!(ChildPolicy::of(&json!({})), Ok(ChildPolicy::Delete));
        assert_eq!(of(json!("Delete")), Ok(ChildPolicy::Delete));
        assert_eq!(of(json!("Retain")), Ok(ChildPolicy::Retain));
        assert_eq!(of(json!("Orphan")), Ok(ChildPolicy::Orphan));
        for value in [json!("retain"), json!(""), json!(true), json!("Retain ")] {
            let refused = of(value.clone()).expect_err("no policy");
            assert!(
                refused.ends_with("is not Delete, Retain or Orphan"),
                "{value}: {refused}"
            );
        }
        let long = of(json!("x".repeat(1000))).expect_err("no policy");
        assert!(long.len() < 200, "{long}");
    }

    #[test]
    fn a_template_that_says_another_word_is_refused_where_policies_count() {
        let compiled = |is_open: bool, policy: Value| {
            let metadata =
                json!({"name": "c", "annotations": {ANNOTATION_DELETION_POLICY: policy}});
            let spec = json!({
                "schema": {"kind": "Web", "apiVersion": "v1", "spec": {"policy": "string"}},
                "resources": [{"id": "data", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}],
            });
            let spec: RgdSpec = serde_json::from_value(spec).expect("a spec");
            let options = CompileOptions {
                deletion_policy: is_open,
                ..CompileOptions::default()
            };
            let compiled = compile_with(&spec, "web", &BuiltinKinds, &options);
            compiled.map(|_| ()).map_err(|error| error.to_string())
        };
        for policy in ["Retain", "Orphan", "Delete", "${schema.spec.policy}"] {
            assert_eq!(compiled(true, json!(policy)), Ok(()), "{policy}");
        }
        let want = "failed to build resourcegraphdefinition \"web\": resource \"data\": annotation \
                    wheelhouse.dev/deletion-policy: \"keep\" is not Delete, Retain or Orphan";
        assert_eq!(compiled(true, json!("keep")), Err(want.to_owned()));
        assert_eq!(compiled(false, json!("keep")), Ok(()), "as in kro");
    }

    #[test]
    fn an_orphan_loses_what_says_whose_it_was_and_nothing_else() {
        let mut object = child();
        let patch = ChildPolicy::Orphan.parting_patch(&object, &["i", "mirror"]);
        let patch = patch.expect("it has what an orphan has not");
        assert_eq!(patch["metadata"]["uid"], "u", "it is for this object");
        assert_eq!(patch["metadata"]["resourceVersion"], "7", "as it is");
        json_patch::merge(&mut object, &patch);
        let metadata = &object["metadata"];
        assert_eq!(metadata["labels"], json!({"app": "web"}));
        let annotations = json!({ANNOTATION_DELETION_POLICY: "Orphan", "note": "x"});
        assert_eq!(metadata["annotations"], annotations);
        assert_eq!(
            metadata["ownerReferences"],
            json!([{"uid": "another"}, {"uid": ""}])
        );
        assert_eq!(
            metadata["managedFields"],
            json!([{"manager": "kubectl", "operation": "Update"}])
        );
        assert_eq!(object["data"], json!({"a": "b"}));
        let again = ChildPolicy::Orphan.parting_patch(&object, &["i", "mirror"]);
        assert_eq!(again, None, "it is done");
    }

    #[test]
    fn an_only_manager_is_cleared_by_an_empty_entry() {
        let object = json!({"metadata": {"managedFields": [{"manager": keys::MANAGER_APPLYSET}]}});
        let patch = ChildPolicy::Orphan.parting_patch(&object, &[]);
        let fields = patch.map(|patch| patch["metadata"]["managedFields"].clone());
        assert_eq!(fields, Some(json!([{}])));
    }

    #[test]
    fn what_is_retained_loses_its_owner_alone() {
        let object = child();
        let patch = ChildPolicy::Retain.parting_patch(&object, &["mirror"]);
        let owners = json!([{"uid": "another"}, {"uid": ""}]);
        let want =
            json!({"metadata": {"uid": "u", "resourceVersion": "7", "ownerReferences": owners}});
        assert_eq!(patch, Some(want));
        let patch = ChildPolicy::Retain.parting_patch(&object, &["i", ""]);
        assert_eq!(patch, None, "an empty uid names nobody");
        let patch = ChildPolicy::Delete.parting_patch(&object, &["mirror"]);
        assert_eq!(patch, None, "it goes");
    }
}
