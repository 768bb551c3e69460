//! CustomResourceDefinitions: how kinds are defined.
//!
//! Schemas stay raw values; the `schema` crate reads them.
//!
//! Source: `apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admission::WebhookClientConfig;
use crate::group::{GroupKind, GroupResource, GroupVersionKind, GroupVersionResource};
use crate::meta::{Condition, ObjectMeta};
use crate::object;
use crate::status::Status;
use crate::wire::{is_default, or_default};

/// The group of definitions.
pub const GROUP: &str = "apiextensions.k8s.io";
/// The version of definitions.
pub const VERSION: &str = "v1";
/// The API version of definitions.
pub const API_VERSION: &str = "apiextensions.k8s.io/v1";
/// The kind of definitions.
pub const KIND: &str = "CustomResourceDefinition";
/// The plural of definitions.
pub const RESOURCE: &str = "customresourcedefinitions";
/// The finalizer under which the objects of a kind are deleted with its definition.
pub const FINALIZER_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The annotation that a definition in a protected group needs.
pub const ANNOTATION_API_APPROVED: &str = "api-approved.kubernetes.io";

/// The condition that the kind is served.
pub const CONDITION_ESTABLISHED: &str = "Established";
/// The condition that no other kind has the names.
pub const CONDITION_NAMES_ACCEPTED: &str = "NamesAccepted";
/// The condition that the definition goes away.
pub const CONDITION_TERMINATING: &str = "Terminating";

/// Whether objects of a kind have a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// They have one.
    Namespaced,
    /// They have none.
    Cluster,
}

/// The definition of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomResourceDefinition {
    /// `apiextensions.k8s.io/v1`.
    #[serde(default)]
    pub api_version: String,
    /// `CustomResourceDefinition`.
    #[serde(default)]
    pub kind: String,
    /// Name, labels and the rest.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: DefinitionSpec,
    /// What is the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DefinitionStatus>,
}

/// What a definition wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionSpec {
    /// The API group.
    pub group: String,
    /// The names.
    pub names: Names,
    /// Whether objects have a namespace.
    pub scope: Scope,
    /// The versions.
    #[serde(default, deserialize_with = "or_default")]
    pub versions: Vec<DefinitionVersion>,
    /// How objects change between versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversion: Option<Conversion>,
    /// Whether unknown fields are kept everywhere; must be false in `v1`.
    #[serde(
        default,
        skip_serializing_if = "is_default",
        deserialize_with = "or_default"
    )]
    pub preserve_unknown_fields: bool,
}

/// The names of a kind.
#[expect(clippy::struct_field_names, reason = "they are called so on the wire")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Names {
    /// The plural resource.
    #[serde(deserialize_with = "or_default")]
    pub plural: String,
    /// The singular; by default the kind in lower case.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub singular: String,
    /// Other names on the command line.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub short_names: Vec<String>,
    /// The kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The kind of lists; by default the kind with `List` behind.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub list_kind: String,
    /// Names for many resources at once.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub categories: Vec<String>,
}

/// One version of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DefinitionVersion {
    /// The version.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Whether it is served.
    #[serde(deserialize_with = "or_default")]
    pub served: bool,
    /// Whether objects are stored in it; one version is.
    #[serde(deserialize_with = "or_default")]
    pub storage: bool,
    /// Whether its use is warned of.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub deprecated: bool,
    /// The text of the warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation_warning: Option<String>,
    /// The schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Validation>,
    /// The subresources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresources: Option<Subresources>,
    /// The columns behind the name.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub additional_printer_columns: Vec<PrinterColumn>,
    /// The fields by which objects can be selected.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub selectable_fields: Vec<SelectableField>,
}

/// The schema of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Validation {
    /// The schema as it was sent.
    #[serde(rename = "openAPIV3Schema", skip_serializing_if = "Option::is_none")]
    pub open_api_v3_schema: Option<Value>,
}

/// The subresources of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subresources {
    /// There if the status is written apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusSubresource>,
    /// There if objects can be scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<ScaleSubresource>,
}

/// Present if the status is a subresource of its own.
#[expect(
    clippy::empty_structs_with_brackets,
    reason = "it is {} on the wire, and would be null without"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusSubresource {}

/// Where the numbers of a scale are.
#[expect(clippy::struct_field_names, reason = "they are called so on the wire")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleSubresource {
    /// The wanted number, below `.spec.`.
    pub spec_replicas_path: String,
    /// The number that is there, below `.status.`.
    pub status_replicas_path: String,
    /// The selector of what is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector_path: Option<String>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrinterColumn {
    /// The heading.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The OpenAPI type.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub type_: String,
    /// The OpenAPI format.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub format: String,
    /// For people.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub description: String,
    /// 0 for columns that are always shown.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub priority: i32,
    /// Where the cell comes from.
    #[serde(deserialize_with = "or_default")]
    pub json_path: String,
}

/// A field by which objects can be selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectableField {
    /// Where it is, `.spec.color` for example.
    pub json_path: String,
}

/// How objects change between versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conversion {
    /// `None` or `Webhook`.
    #[serde(deserialize_with = "or_default")]
    pub strategy: String,
    /// Whom to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Value>,
}

/// The webhook that converts the objects of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConversionWebhook {
    /// How it is called.
    #[serde(deserialize_with = "or_default")]
    pub client_config: WebhookClientConfig,
    /// The versions of ConversionReview that it takes, the preferred one first.
    #[serde(deserialize_with = "or_default")]
    pub conversion_review_versions: Vec<String>,
}

/// What is the case with a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DefinitionStatus {
    /// What it says about its state.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// The names that are served.
    #[serde(deserialize_with = "or_default")]
    pub accepted_names: Names,
    /// The versions in which objects may be stored.
    #[serde(deserialize_with = "or_default")]
    pub stored_versions: Vec<String>,
}

// === impl Scope ===

impl Scope {
    /// Names the scope on the wire.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Namespaced => "Namespaced",
            Self::Cluster => "Cluster",
        }
    }

    /// Returns whether objects have a namespace.
    pub const fn is_namespaced(self) -> bool {
        matches!(self, Self::Namespaced)
    }
}

// === impl CustomResourceDefinition ===

impl CustomResourceDefinition {
    /// Makes a definition from its spec, under the name that it must have.
    pub fn new(spec: DefinitionSpec) -> Self {
        let name = spec.group_resource().to_string();
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            metadata: ObjectMeta {
                name,
                ..ObjectMeta::default()
            },
            spec,
            status: None,
        }
    }

    /// Reads a definition.
    ///
    /// # Errors
    /// 400 where a field has the wrong type or one without which nothing can be said is missing.
    pub fn from_value(value: &Value) -> Result<Self, Status> {
        object::read(KIND, VERSION, value)
    }

    /// Renders the definition.
    pub fn to_value(&self) -> Value {
        object::write(self)
    }

    /// Names what the definition defines.
    pub fn group_resource(&self) -> GroupResource {
        self.spec.group_resource()
    }

    /// Returns whether a condition holds.
    pub fn is_condition_true(&self, type_: &str) -> bool {
        self.status
            .iter()
            .flat_map(|status| &status.conditions)
            .any(|condition| condition.type_ == type_ && condition.is_true())
    }

    /// Returns whether the kind is served.
    pub fn is_established(&self) -> bool {
        self.is_condition_true(CONDITION_ESTABLISHED)
    }
}

// === impl DefinitionSpec ===

impl DefinitionSpec {
    /// Names what the definition defines.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.as_str(), self.names.plural.as_str())
    }

    /// Names the kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.as_str(), self.names.kind.as_str())
    }

    /// Names the type of a version.
    pub fn gvk(&self, version: &str) -> GroupVersionKind {
        self.group_kind().with_version(version)
    }

    /// Names the endpoint of a version.
    pub fn gvr(&self, version: &str) -> GroupVersionResource {
        self.group_resource().with_version(version)
    }

    /// Borrows a version.
    pub fn version(&self, name: &str) -> Option<&DefinitionVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Borrows the version in which objects are stored.
    pub fn storage_version(&self) -> Option<&DefinitionVersion> {
        self.versions.iter().find(|version| version.storage)
    }

    /// Sets the names that have defaults.
    pub fn set_name_defaults(&mut self) {
        let names = &mut self.names;
        if names.singular.is_empty() {
            names.singular = names.kind.to_lowercase();
        }
        if names.list_kind.is_empty() && !names.kind.is_empty() {
            names.list_kind = format!("{}List", names.kind);
        }
    }
}

// === impl DefinitionVersion ===

impl DefinitionVersion {
    /// Borrows the schema.
    pub fn open_api_schema(&self) -> Option<&Value> {
        self.schema.as_ref()?.open_api_v3_schema.as_ref()
    }

    /// Returns whether the status is written apart.
    pub fn has_status(&self) -> bool {
        self.subresources
            .as_ref()
            .is_some_and(|it| it.status.is_some())
    }

    /// Borrows where the numbers of a scale are.
    pub fn scale(&self) -> Option<&ScaleSubresource> {
        self.subresources.as_ref()?.scale.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_keeps_what_it_was_sent() {
        let value = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
                "conversion": {"strategy": "None"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-any": 1.0}},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                    "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1}],
                    "selectableFields": [{"jsonPath": ".spec.n"}],
                }],
            },
        });
        let mut definition = CustomResourceDefinition::from_value(&value).unwrap();
        assert_eq!(definition.to_value(), value);
        assert_eq!(
            definition.group_resource().to_string(),
            "widgets.example.com"
        );
        assert!(definition.spec.storage_version().unwrap().has_status());
        definition.spec.set_name_defaults();
        assert_eq!(definition.spec.names.singular, "widget");
        assert_eq!(definition.spec.names.list_kind, "WidgetList");
        assert!(!definition.is_established());
    }

    #[test]
    fn a_field_of_the_wrong_type_is_a_bad_request() {
        let status =
            CustomResourceDefinition::from_value(&json!({"spec": {"group": 1}})).unwrap_err();
        assert_eq!(status.code, 400);
    }
}
