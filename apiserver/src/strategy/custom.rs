//! The base of custom resources, and of the hub's own kinds, which behave as if they were defined in the cluster: objects
//! that are whatever the schema of their definition says.
//!
//! Source: apiextensions-apiserver/pkg/registry/customresource/{strategy,validator}.go.

use api::growth::TooLarge;
use api::validation::NameRule;
use api::{FieldError, FieldPath, GroupKind, meta};
use schema::Schema;
use schema::fieldmanager::Model;
use schema::structural::{self, MalformedFields};
use schema::validate::{Findings, Part, inspect};
use serde_json::Value;

use super::endpoint::Endpoint;
use super::fields::put;
use super::paths::segments;
use super::rules::{
    AfterCommit, AuthorStamp, Generation, Grants, Judged, PutOfAbsent, PutWithoutVersion, TypeCheck,
};
use super::status::StatusMetadata;
use super::typing::{ListForm, Typing};
use super::version::{StatusMode, VersionRules};
use super::{Deletion, Strategy};
use crate::negotiate::MediaType;

/// Objects that are whatever the schema of their definition says.
#[derive(Debug)]
pub(super) struct Unstructured;

/// The strategy of custom resources.
pub(super) const CUSTOM: Strategy = Strategy {
    typing: &Unstructured,
    name: NameRule::DnsSubdomain,
    stored_as: None,
    author: AuthorStamp::Absent,
    grants: Grants::Nothing,
    status_metadata: StatusMetadata::Kept,
    selectable: &[],
    endpoints: &[],
    scale_selector: None,
    deprecation: None,
    generation: Generation::Counted,
    put_of_absent: PutOfAbsent::NotFound,
    put_without_version: PutWithoutVersion::Refused,
    judged: Judged::Schema,
    prepare_create,
    prepare_update: |_endpoint, _object, _live| {},
    validate: |_object, _live| Vec::new(),
    doubts: |_object, _live| Vec::new(),
    canonicalize: |_object| {},
    allocation: None,
    after_commit: AfterCommit::Answers,
    deletion: Deletion::PLAIN,
};

/// The strategy of instances of graphs, and of what graphs are made of: custom resources that carry their author.
pub(super) const AUTHORED: Strategy = Strategy {
    author: AuthorStamp::Stamped,
    ..CUSTOM
};

/// A new object has no status where that is written apart.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the signature is that of all strategies"
)]
fn prepare_create(version: &VersionRules, object: &mut Value) -> Result<(), TooLarge> {
    if version.status == StatusMode::Subresource {
        put(object, "status", None);
    }
    Ok(())
}

/// The counts of replicas of a custom resource are counts.
fn validate_scale(version: &VersionRules, object: &Value) -> Vec<FieldError> {
    let Some(paths) = &version.scale else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    for path in [&paths.spec_replicas, &paths.status_replicas] {
        let field = FieldPath::new(path.as_str());
        match nested(object, path, "int64", Value::as_i64) {
            Err(detail) => errors.push(FieldError::invalid(&field, 0, detail)),
            Ok(Some(count)) if count < 0 => {
                let detail = "should be a non-negative integer";
                errors.push(FieldError::invalid(&field, count, detail));
            }
            Ok(Some(count)) if count > i64::from(i32::MAX) => {
                let detail = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(&field, count, detail));
            }
            Ok(_) => {}
        }
    }
    if let Some(path) = &paths.label_selector
        && let Err(detail) = nested(object, path, "string", |value| value.as_str().map(drop))
    {
        let field = FieldPath::new(path.as_str());
        errors.push(FieldError::invalid(&field, "", detail));
    }
    errors
}

/// Returns the value at a path, if there is one.
///
/// # Errors
/// It is of another type, or something on the way is no object; in the words of apimachinery (`unstructured.NestedInt64`).
fn nested<T>(
    object: &Value,
    path: &str,
    go_type: &str,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, String> {
    let wrong = |names: &[&str], value: &Value, wanted: &str| {
        format!(
            ".{} accessor error: {} is of the type {}, expected {wanted}",
            names.join("."),
            dialect::value::plain(value),
            dialect::value::type_name(value)
        )
    };
    let names: Vec<&str> = segments(path).collect();
    let mut value = object;
    for (index, name) in names.iter().enumerate() {
        let Some(fields) = value.as_object() else {
            let way = names.get(..=index).unwrap_or_default();
            return if value.is_null() {
                Ok(None)
            } else {
                Err(wrong(way, value, "map[string]interface{}"))
            };
        };
        let Some(inner) = fields.get(*name) else {
            return Ok(None);
        };
        value = inner;
    }
    read(value)
        .map(Some)
        .ok_or_else(|| wrong(&names, value, go_type))
}

// === impl Unstructured ===

impl Typing for Unstructured {
    fn object_media(&self) -> &'static [MediaType] {
        &[MediaType::Json, MediaType::Yaml]
    }

    /// Strategic merge needs Go types.
    fn patch_media(&self) -> &'static [MediaType] {
        &[
            MediaType::JsonPatch,
            MediaType::MergePatch,
            MediaType::ApplyYaml,
        ]
    }

    fn list_form(&self) -> ListForm {
        ListForm::Untyped
    }

    fn type_check(&self) -> TypeCheck {
        TypeCheck::OnValidation
    }

    fn model(&self) -> Model {
        Model::Dynamic
    }

    fn undeclared(&self, _version: &VersionRules, _config: &Value) -> Option<String> {
        None
    }

    fn read(&self, _version: &VersionRules, _object: &mut Value) -> Result<(), String> {
        Ok(())
    }

    fn default(&self, version: &VersionRules, object: &mut Value) -> Result<(), TooLarge> {
        structural::default(object, &version.schema)
    }

    fn coerce(&self, schema: &Schema, object: &mut Value) {
        // Dropping what is malformed cannot fail.
        let _coerced = structural::coerce_metadata(object, schema, MalformedFields::Dropped);
        structural::prune(object, schema);
    }

    fn upgrade_stored(&self, version: &VersionRules, object: &mut Value) {
        if meta::generation(object) == 0 {
            meta::set_generation(object, 1);
        }
        structural::drop_nulls(object, &version.schema);
    }

    /// A custom resource says its type, and it must be the endpoint's.
    fn validate_type(&self, version: &VersionRules, object: &Value) -> Vec<FieldError> {
        let api_version = version.api_version.as_str();
        [
            ("kind", meta::kind(object), version.gvk.kind.as_str()),
            ("apiVersion", meta::api_version(object), api_version),
        ]
        .into_iter()
        .filter(|(_, said, want)| said != want)
        .map(|(name, said, want)| {
            FieldError::invalid(&FieldPath::new(name), said, format!("must be {want}"))
        })
        .collect()
    }

    fn validate_schema(
        &self,
        version: &VersionRules,
        endpoint: Endpoint,
        object: &Value,
        live: Option<&Value>,
        before: &[FieldError],
    ) -> Findings {
        let part = if endpoint == Endpoint::Status {
            Part::Status
        } else {
            Part::Object
        };
        let mut findings = inspect(object, &version.schema, live, part, before);
        findings.errors.extend(validate_scale(version, object));
        findings
    }

    /// Any count is written into the object, which is validated then.
    fn validate_replicas(&self, _replicas: i64) -> Option<FieldError> {
        None
    }

    /// As in Kubernetes, a custom resource is called what it calls itself.
    fn kind_in_errors(&self, _version: &VersionRules, object: &Value) -> GroupKind {
        let group = match meta::api_version(object).split_once('/') {
            Some((group, _)) => group,
            None => "",
        };
        GroupKind::new(group, meta::kind(object))
    }

    fn unknown_label(&self, _version: &VersionRules, label: &str) -> String {
        format!("field label not supported: {label}")
    }
}
