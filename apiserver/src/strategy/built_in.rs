//! The base of built-in kinds: objects that are Go structs in Kubernetes, and what they all do.
//!
//! Their defaults and first states are those of [`schema::builtin`], which knows them by kind.
//! Source: apiserver/pkg/registry/generic/registry/store.go, apimachinery/pkg/runtime/serializer.

use api::growth::TooLarge;
use api::validation::NameRule;
use api::{FieldError, FieldPath, GroupKind};
use schema::Schema;
use schema::fieldmanager::Model;
use schema::validate::Findings;
use serde_json::Value;

use super::endpoint::Endpoint;
use super::go_types::{go_type_error, is_empty_bytes};
use super::rules::{
    AfterCommit, AuthorStamp, Generation, Grants, Judged, PutOfAbsent, PutWithoutVersion, TypeCheck,
};
use super::status::StatusMetadata;
use super::typing::{ListForm, Typing};
use super::version::VersionRules;
use super::{Deletion, Strategy};
use crate::negotiate::MediaType;
use crate::protobuf;

/// Objects that are Go structs in Kubernetes.
#[derive(Debug)]
pub(super) struct GoTypes;

/// What a built-in kind does unless it says otherwise.
pub(super) const BUILT_IN: Strategy = Strategy {
    typing: &GoTypes,
    name: NameRule::DnsSubdomain,
    stored_as: None,
    author: AuthorStamp::Absent,
    grants: Grants::Nothing,
    status_metadata: StatusMetadata::Written,
    selectable: &[],
    endpoints: &[],
    scale_selector: None,
    deprecation: None,
    generation: Generation::Absent,
    put_of_absent: PutOfAbsent::NotFound,
    put_without_version: PutWithoutVersion::Replaces,
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

/// A built-in kind whose rules say what has to be there.
pub(super) const RULED: Strategy = Strategy {
    judged: Judged::RulesAndEnums,
    ..BUILT_IN
};

/// Sets what a new object begins with and clients cannot choose: an empty status, for most kinds.
///
/// # Errors
/// As [`Typing::default`].
pub(super) fn prepare_create(version: &VersionRules, object: &mut Value) -> Result<(), TooLarge> {
    schema::builtin::prepare_for_create(object, &version.gvk, &version.schema)
}

/// An error for a field that cannot be changed.
pub(super) fn immutable(path: &FieldPath, value: &Value) -> FieldError {
    FieldError::invalid(path, value.clone(), "field is immutable")
}

/// Returns an error for each of the fields, by their paths, that an update changes and must not.
pub(super) fn validate_fixed(
    object: &Value,
    live: Option<&Value>,
    fixed: &[&[&str]],
) -> Vec<FieldError> {
    let Some(live) = live else {
        return Vec::new();
    };
    let changed = fixed.iter().filter_map(|path| {
        let at = |object: &Value| {
            path.iter()
                .fold(object.clone(), |value, name| value[*name].clone())
        };
        let (new, old) = (at(object), at(live));
        let whole = path
            .iter()
            .fold(FieldPath::root(), |whole, name| whole.child(name));
        (new != old).then(|| immutable(&whole, &new))
    });
    changed.collect()
}

// === impl GoTypes ===

impl Typing for GoTypes {
    fn object_media(&self) -> &'static [MediaType] {
        &[MediaType::Json, MediaType::Yaml, MediaType::Protobuf]
    }

    fn patch_media(&self) -> &'static [MediaType] {
        &[
            MediaType::JsonPatch,
            MediaType::MergePatch,
            MediaType::StrategicMergePatch,
            MediaType::ApplyYaml,
        ]
    }

    fn list_form(&self) -> ListForm {
        ListForm::Typed
    }

    fn type_check(&self) -> TypeCheck {
        TypeCheck::OnDecoding
    }

    fn model(&self) -> Model {
        Model::Native
    }

    fn unknown_fields(&self, version: &VersionRules, object: &Value) -> Vec<String> {
        let mut unknown = schema::structural::unknown_fields(object, &version.schema);
        let in_schemas =
            protobuf::unknown_in_schemas(object, &version.api_version, &version.gvk.kind);
        if !in_schemas.is_empty() {
            unknown.extend(in_schemas);
            unknown.sort();
            // What is at the root of a schema is known to both.
            unknown.dedup();
        }
        unknown
    }

    fn undeclared(&self, version: &VersionRules, config: &Value) -> Option<String> {
        let (api_version, kind) = (&version.api_version, &version.gvk.kind);
        let mut paths = protobuf::unknown_in_schemas(config, api_version, kind).into_iter();
        paths.next().map(|path| format!(".{path}"))
    }

    fn read(&self, version: &VersionRules, object: &mut Value) -> Result<(), String> {
        let schema = &version.schema;
        // Go takes null for any type: clients send `creationTimestamp: null` with every object.
        schema::builtin::read_nulls(object, schema);
        let misread = protobuf::read_go(object, &version.api_version, &version.gvk.kind).err();
        // A value of a wrong type is no finding of validation but cannot be read at all.
        let errors = schema::validate(object, schema, None);
        if let Some(text) = go_type_error(version, object, misread, &errors) {
            return Err(text);
        }
        protobuf::omit_zeros(object, &version.api_version, &version.gvk.kind);
        Ok(())
    }

    fn default(&self, version: &VersionRules, object: &mut Value) -> Result<(), TooLarge> {
        schema::builtin::complete(object, &version.gvk, &version.schema)
    }

    fn coerce(&self, _schema: &Schema, _object: &mut Value) {}

    fn upgrade_stored(&self, _version: &VersionRules, _object: &mut Value) {}

    fn validate_type(&self, _version: &VersionRules, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Built-in kinds know no ratcheting.
    fn validate_schema(
        &self,
        version: &VersionRules,
        _endpoint: Endpoint,
        object: &Value,
        _live: Option<&Value>,
        _before: &[FieldError],
    ) -> Findings {
        let mut errors = schema::builtin::validate(object, &version.schema);
        errors.retain(|error| !is_empty_bytes(error));
        Findings {
            errors,
            warnings: Vec::new(),
        }
    }

    fn validate_replicas(&self, replicas: i64) -> Option<FieldError> {
        let path = FieldPath::new("spec").child("replicas");
        (replicas < 0)
            .then(|| FieldError::invalid(&path, replicas, "must be greater than or equal to 0"))
    }

    fn kind_in_errors(&self, version: &VersionRules, _object: &Value) -> GroupKind {
        version.gvk.group_kind()
    }

    fn unknown_label(&self, version: &VersionRules, label: &str) -> String {
        if !version.selectable.is_empty() {
            return format!("field label not supported: {label}");
        }
        let quoted = dialect::quote(label);
        format!(
            "{quoted} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    }
}
