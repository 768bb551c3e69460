//! How objects are typed: as Go structs, which built-in kinds are in Kubernetes, or as whatever a definition's schema says.
//!
//! The two implementations are [`GoTypes`](super::built_in::GoTypes) and [`Unstructured`](super::custom::Unstructured).
//! They differ wherever Kubernetes' generic code and that of its apiextensions-apiserver do: what may be sent, when a type
//! is checked, who owns which field, what a schema is asked.

use std::fmt;

use api::growth::TooLarge;
use api::{FieldError, GroupKind};
use schema::Schema;
use schema::fieldmanager::Model;
use schema::validate::Findings;
use serde_json::Value;

use super::endpoint::Endpoint;
use super::rules::TypeCheck;
use super::version::VersionRules;
use crate::negotiate::MediaType;

/// How objects are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListForm {
    /// As a Go struct, whose items have no type of their own.
    Typed,
    /// As whatever objects there are, each with its type; `continue` is told on the last page too.
    Untyped,
}

/// How the objects of a kind are typed.
pub(crate) trait Typing: fmt::Debug + Send + Sync {
    /// The media types in which an object may be sent.
    fn object_media(&self) -> &'static [MediaType];

    /// The media types in which a patch may be sent.
    fn patch_media(&self) -> &'static [MediaType];

    /// How objects are listed.
    fn list_form(&self) -> ListForm;

    /// When the type that an object says is checked.
    fn type_check(&self) -> TypeCheck;

    /// How objects are held while the owners of their fields are compared.
    fn model(&self) -> Model;

    /// Returns the paths of the fields that the kind does not know, in order.
    fn unknown_fields(&self, version: &VersionRules, object: &Value) -> Vec<String> {
        schema::structural::unknown_fields(object, &version.schema)
    }

    /// Returns the path of a field of an apply that the kind does not know and its schema does not speak of.
    fn undeclared(&self, version: &VersionRules, config: &Value) -> Option<String>;

    /// Brings what a client sent into the kind's types.
    ///
    /// # Errors
    /// A value has a type that cannot be read; in Kubernetes' words.
    fn read(&self, version: &VersionRules, object: &mut Value) -> Result<(), String>;

    /// Fills in the defaults that the schema or Kubernetes' Go code gives.
    ///
    /// # Errors
    /// They would take more memory than one object may.
    fn default(&self, version: &VersionRules, object: &mut Value) -> Result<(), TooLarge>;

    /// Drops what the schema of a version does not know from an object that was stored under another one.
    fn coerce(&self, schema: &Schema, object: &mut Value);

    /// Sets what every object has by now and a stored one may lack.
    fn upgrade_stored(&self, version: &VersionRules, object: &mut Value);

    /// Returns what is wrong with the type that an object says; if anything is, nothing else is looked at.
    fn validate_type(&self, version: &VersionRules, object: &Value) -> Vec<FieldError>;

    /// Validates an object against its schema. `live` is the object before the change; new objects have none. `before` is
    /// what is wrong with its metadata.
    fn validate_schema(
        &self,
        version: &VersionRules,
        endpoint: Endpoint,
        object: &Value,
        live: Option<&Value>,
        before: &[FieldError],
    ) -> Findings;

    /// Validates the count of replicas that a `Scale` says.
    fn validate_replicas(&self, replicas: i64) -> Option<FieldError>;

    /// The kind that a refusal of an object names.
    fn kind_in_errors(&self, version: &VersionRules, object: &Value) -> GroupKind;

    /// The message for a field selector that names no selectable field.
    fn unknown_label(&self, version: &VersionRules, label: &str) -> String;
}
