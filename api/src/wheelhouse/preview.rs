//! Previews: what a ResourceGraphDefinition would do to the fleet, asked for before it is applied.
//!
//! A `DefinitionPreview` is created and never stored, as a `SubjectAccessReview` is: the answer is the object with a status. It is a kind of its own
//! and no subresource of the definition, because a definition that does not exist yet can be previewed too; because the right to ask
//! is then a rule of RBAC as any other (`create` on `definitionpreviews`); and because `kubectl create -f` and `kubectl explain` work with
//! it. It is created at the path of the logical cluster that the definition would be written to.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::wire::is_default;

/// The kind of previews.
pub const PREVIEW_KIND: &str = "DefinitionPreview";
/// The plural of previews.
pub const PREVIEW_RESOURCE: &str = "definitionpreviews";

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreviewSpec {
    /// The `ResourceGraphDefinition` as it would be applied.
    pub definition: Value,
    /// The one instance that is looked at. Its children are compared with what is there, and not with what the definition asks for now.
    pub instance: Option<InstanceName>,
}

/// An instance of the kind that the definition generates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceName {
    /// Its logical cluster.
    pub cluster: String,
    /// Empty where the kind has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a definition would do, as far as the caller may know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreviewStatus {
    /// Whether it compiles.
    pub accepted: bool,
    /// Why it does not, in kro's words, or why it would not be served.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether it says something else than the one of this name that is there.
    pub changed: bool,
    /// What would become of the CustomResourceDefinition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crd: Option<CrdPreview>,
    /// Counts over all clusters.
    pub summary: Summary,
    /// The clusters that it is for, or that have instances of it.
    pub clusters: Vec<ClusterPreview>,
    /// What was not looked at, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
}

/// What would become of the generated definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdPreview {
    /// Its name.
    pub name: String,
    /// `Create`, `Update`, `None`, or `Refused`.
    pub action: String,
    /// Why it would be refused.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Changes that instances which exist may not survive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breaking: Vec<String>,
    /// Other changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other: Vec<String>,
}

/// Counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// Clusters that were looked at.
    pub clusters: u64,
    /// Clusters that were not.
    pub unknown_clusters: u64,
    /// Instances that there are.
    pub instances: u64,
    /// Those that were looked at.
    pub examined: u64,
    /// Those that the new schema does not allow.
    pub invalid: u64,
    /// Those for which nothing would be written, because something fails.
    pub failing: u64,
    /// Children that would be made.
    pub created: u64,
    /// Children that would be changed.
    pub updated: u64,
    /// Children that would be deleted.
    pub deleted: u64,
    /// Children that would not be wanted any more, and stay: by their deletion policy.
    #[serde(skip_serializing_if = "is_default")]
    pub kept: u64,
    /// Instances whose deletions would wait to be confirmed.
    pub held: u64,
}

/// What would happen in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPreview {
    /// Its name.
    pub cluster: String,
    /// `Serves`, `Begins`, or `Ends`: whether it has the kind, now and then.
    pub serving: String,
    /// Why it was not looked at, or not at all of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Instances that there are.
    pub instances: u64,
    /// Those that were looked at.
    pub examined: u64,
    /// Those to which something would happen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<InstancePreview>,
    /// How many such are left out.
    #[serde(skip_serializing_if = "is_default")]
    pub changes_omitted: u64,
}

/// What would happen to an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstancePreview {
    /// Its namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Why the new schema does not allow it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<String>,
    /// Why nothing would be written for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// Why its deletions would wait to be confirmed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub confirmation: String,
    /// Whether what is deleted stays until all nodes are there.
    #[serde(skip_serializing_if = "is_default")]
    pub deletions_wait: bool,
    /// Its children that would change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildPreview>,
    /// How many such are left out.
    #[serde(skip_serializing_if = "is_default")]
    pub children_omitted: u64,
    /// Nodes of which it cannot be told what they would want.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<NodePreview>,
}

/// What would happen to a child.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChildPreview {
    /// `Create`, `Update`, `Delete`, or, for what stays though it is not wanted any more, `Retain` or `Orphan`.
    pub action: String,
    /// Its node.
    #[serde(rename = "nodeID")]
    pub node_id: String,
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Fields that would change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldPreview>,
    /// How many such are left out.
    #[serde(skip_serializing_if = "is_default")]
    pub fields_omitted: u64,
}

/// A field that would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldPreview {
    /// Where, as `.spec.replicas`.
    pub path: String,
    /// What is asked for now, as JSON, cut where it is long; absent where nothing is, or where it may be secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What would be asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// A node that cannot be told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePreview {
    /// Its id.
    pub id: String,
    /// Why, in a word.
    pub reason: String,
    /// Why.
    pub message: String,
}

/// Builds what is served of previews: a definition, though nothing of them is stored.
pub fn definition() -> Value {
    let any = |description: &str| {
        json!({
            "type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true,
        })
    };
    let spec = json!({
        "type": "object",
        "required": ["definition"],
        "properties": {
            "definition": any("The ResourceGraphDefinition, as it would be applied."),
            "instance": {
                "type": "object",
                "description": "The one instance that is looked at: its children are compared with what is there, and not with what the \
                                definition asks for now.",
                "required": ["cluster", "name"],
                "properties": {
                    "cluster": {"type": "string", "description": "Its logical cluster."},
                    "namespace": {"type": "string", "description": "Its namespace; empty where its kind has none."},
                    "name": {"type": "string", "description": "Its name."},
                },
            },
        },
    });
    let schema = json!({
        "type": "object",
        "description": "What a ResourceGraphDefinition would do to the clusters, instances and objects that you may see, if it were applied \
                        here. It is created, answered, and not stored.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": any("The answer."),
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PREVIEW_RESOURCE}.{}", super::GROUP)},
        "spec": {
            "group": super::GROUP,
            "scope": "Cluster",
            "names": {
                "kind": PREVIEW_KIND, "listKind": "DefinitionPreviewList", "plural": PREVIEW_RESOURCE,
                "singular": "definitionpreview",
            },
            "versions": [{
                "name": super::VERSION, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}
