//! kro's kinds and keys: ResourceGraphDefinitions, GraphRevisions, and what they write on objects.
//!
//! Keys, values and manager names are kro's own, so that a cluster can move between kro and this project without
//! its objects being made anew. What users author (`template`, `selector`, the schemas) stays a raw value.
//!
//! Source: kro v0.9.4, `api/v1alpha1`, `api/internal.kro.run/v1alpha1`, `pkg/metadata`, `pkg/applyset`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crd::PrinterColumn;
use crate::meta::{Condition, ObjectMeta};
use crate::object;
use crate::status::Status;
use crate::wire::{is_default, or_default};

mod definitions;
mod gates;
pub mod keys;

pub use definitions::definitions;
pub use gates::{
    CEL_OMIT_FUNCTION, FeatureGates, INSTANCE_NODE_STATUS, INSTANCE_SCALE,
    RESOURCE_DELETION_POLICY, parse_switch,
};

/// The group of ResourceGraphDefinitions and the default group of the kinds that they generate.
pub const GROUP: &str = "kro.run";
/// The group of GraphRevisions.
pub const INTERNAL_GROUP: &str = "internal.kro.run";
/// The version of both.
pub const VERSION: &str = "v1alpha1";
/// The API version of ResourceGraphDefinitions.
pub const API_VERSION: &str = "kro.run/v1alpha1";
/// The API version of GraphRevisions.
pub const INTERNAL_API_VERSION: &str = "internal.kro.run/v1alpha1";
/// The kind of ResourceGraphDefinitions.
pub const RGD_KIND: &str = "ResourceGraphDefinition";
/// The plural of ResourceGraphDefinitions.
pub const RGD_RESOURCE: &str = "resourcegraphdefinitions";
/// The kind of GraphRevisions.
pub const REVISION_KIND: &str = "GraphRevision";
/// The plural of GraphRevisions.
pub const REVISION_RESOURCE: &str = "graphrevisions";

/// The definition of a kind by the resources that each of its instances stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceGraphDefinition {
    /// `kro.run/v1alpha1`.
    pub api_version: String,
    /// `ResourceGraphDefinition`.
    pub kind: String,
    /// Name, labels and the rest.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "or_default")]
    pub spec: RgdSpec,
    /// What is the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RgdStatus>,
}

/// What a ResourceGraphDefinition wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RgdSpec {
    /// What instances look like.
    pub schema: RgdSchema,
    /// What each instance stands for.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub resources: Vec<RgdResource>,
}

/// What instances look like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RgdSchema {
    /// The kind of instances.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The version of instances, without a group.
    #[serde(deserialize_with = "or_default")]
    pub api_version: String,
    /// The group of instances.
    pub group: String,
    /// `Namespaced` or `Cluster`.
    pub scope: String,
    /// The spec of instances in SimpleSchema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Value>,
    /// Named types that the spec refers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<Value>,
    /// The status of instances, each leaf an expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// The columns of instances, in place of the default ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_printer_columns: Option<Vec<PrinterColumn>>,
    /// Other names on the command line.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub short_names: Vec<String>,
    /// Names for many resources at once.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub categories: Vec<String>,
    /// What the generated definition carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RgdSchemaMetadata>,
}

/// What the generated definition carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RgdSchemaMetadata {
    /// Its labels.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
}

/// One node of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RgdResource {
    /// The name by which expressions refer to it.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    /// What is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Value>,
    /// What is read, in place of being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_ref: Option<ExternalRef>,
    /// When it is ready; all must be true.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub ready_when: Vec<String>,
    /// When it is there at all; all must be true.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub include_when: Vec<String>,
    /// Over what it is repeated: the product of all dimensions, each with one name.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub for_each: Vec<BTreeMap<String, String>>,
}

/// What a node reads in place of making it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalRef {
    /// The API version.
    #[serde(deserialize_with = "or_default")]
    pub api_version: String,
    /// The kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Which object, or which objects.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ExternalRefMetadata,
}

/// Which object, by name, or which objects, by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalRefMetadata {
    /// The name of the one object; a blank one counts as absent.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub name: String,
    /// The namespace; by default that of the instance, and for a selector all.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub namespace: String,
    /// A label selector, an expression that yields one, or one with expressions in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Value>,
}

/// What is the case with a ResourceGraphDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RgdStatus {
    /// `Active` or `Inactive`.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub state: String,
    /// The ids in the order in which they are applied.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub topological_order: Vec<String>,
    /// What it says about its state.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// The nodes that depend on others.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub resources: Vec<ResourceInformation>,
    /// The highest number that a revision of this definition ever had.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub last_issued_revision: i64,
}

/// What a node depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceInformation {
    /// The node.
    pub id: String,
    /// What it depends on.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub dependencies: Vec<Dependency>,
}

/// One node that another depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dependency {
    /// The node.
    pub id: String,
}

/// A ResourceGraphDefinition as it once was, which compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GraphRevision {
    /// `internal.kro.run/v1alpha1`.
    pub api_version: String,
    /// `GraphRevision`.
    pub kind: String,
    /// Name, labels and the rest.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// What was wanted.
    #[serde(deserialize_with = "or_default")]
    pub spec: GraphRevisionSpec,
    /// What is the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<GraphRevisionStatus>,
}

/// What a revision holds; it never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraphRevisionSpec {
    /// The number, from 1 upwards for each name.
    pub revision: i64,
    /// What was captured.
    pub snapshot: GraphRevisionSnapshot,
}

/// A captured ResourceGraphDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraphRevisionSnapshot {
    /// Its name.
    pub name: String,
    /// Its generation at that time.
    pub generation: i64,
    /// Its whole spec.
    pub spec: RgdSpec,
}

/// What is the case with a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GraphRevisionStatus {
    /// The ids in the order in which they are applied.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub topological_order: Vec<String>,
    /// What it says about its state.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// The nodes that depend on others.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub resources: Vec<ResourceInformation>,
}

// === impl ResourceGraphDefinition ===

impl ResourceGraphDefinition {
    /// Reads a definition.
    pub fn from_value(value: &Value) -> Result<Self, Status> {
        object::read(RGD_KIND, VERSION, value)
    }

    /// Renders the definition.
    pub fn to_value(&self) -> Value {
        object::write(self)
    }
}

// === impl RgdSpec ===

impl RgdSpec {
    /// Reads the spec of a definition or of a snapshot.
    pub fn from_value(value: &Value) -> Result<Self, Status> {
        object::read(RGD_KIND, VERSION, value)
    }
}

// === impl RgdSchema ===

impl Default for RgdSchema {
    fn default() -> Self {
        Self {
            kind: String::new(),
            api_version: String::new(),
            group: GROUP.to_owned(),
            scope: "Namespaced".to_owned(),
            spec: None,
            types: None,
            status: None,
            additional_printer_columns: None,
            short_names: Vec::new(),
            categories: Vec::new(),
            metadata: None,
        }
    }
}

impl RgdSchema {
    /// Returns whether instances have a namespace.
    pub fn is_namespaced(&self) -> bool {
        self.scope != "Cluster"
    }
}

// === impl GraphRevision ===

impl GraphRevision {
    /// Makes a revision with a name that the graph engine chose.
    pub fn new(name: &str, spec: GraphRevisionSpec) -> Self {
        Self {
            api_version: INTERNAL_API_VERSION.to_owned(),
            kind: REVISION_KIND.to_owned(),
            metadata: ObjectMeta {
                name: name.to_owned(),
                ..ObjectMeta::default()
            },
            spec,
            status: None,
        }
    }

    /// Reads a revision.
    pub fn from_value(value: &Value) -> Result<Self, Status> {
        object::read(REVISION_KIND, VERSION, value)
    }

    /// Renders the revision.
    pub fn to_value(&self) -> Value {
        object::write(self)
    }
}

#[cfg(test)]
mod tests;
