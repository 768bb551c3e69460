//! Field ownership: server-side apply, and the owners that every other write leaves in `metadata.managedFields`.
//!
//! The parts, from the inside out: [`FieldSet`] and its FieldsV1 form; walks over values by schema (check, collect,
//! compare, merge, remove); update and apply on sets of owned fields; and, in this file, the rules of Kubernetes
//! around them: who a writer is, what is never owned, when an object is tracked, when a time changes.
//!
//! Invariants:
//! - [`update`] never fails a write: where owners cannot be told, the object leaves untracked.
//! - [`apply`] returns an object whose owners are set, or an error and no effect.
//! - Nothing here defaults, prunes or validates: callers do that before an update and after an apply.
//!
//! Source: `apimachinery/pkg/util/managedfields`, `structured-merge-diff`; api-compat 3.

mod atomic;
mod cap;
mod codec;
mod collect;
mod compare;
mod convert;
mod element;
mod last_applied;
mod managed;
mod merge;
mod model;
mod operate;
mod reconcile;
mod remove;
mod scale;
mod set;
mod text;
mod timestamps;
mod typed;

use std::sync::LazyLock;

use api::Status;
use api::status::StatusReason;
use serde_json::{Map, Value};

pub use codec::FieldsError;
pub use convert::{OneVersion, SameObject, VersionConverter};
pub use element::{ElementError, KeyField, PathElement, path_text};
pub use managed::{ManagedEntry, ManagedFields, ManagedFieldsError, ManagerIdentity, Operation};
pub use model::Model;
pub use operate::Conflict;
pub use scale::{ReplicasPath, scale_from_parent, scale_to_parent};
pub use set::FieldSet;
pub use timestamps::keep_times_if_unchanged;
pub use typed::{TypedError, TypedErrors};

pub(crate) use model::OBJECT_META;

use crate::structural::Schema;

use model::{EMPTY_MAP, MANAGED_FIELDS, Place};
use operate::{Failure, Ownership, Scope};
use typed::Duplicates;

/// The name of the owner of what an object held before it was first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// What nobody owns: it is the server's, or identifies the object.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::from_field_names(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// What a write needs to know of the kind and the endpoint.
#[derive(Debug, Clone, Copy)]
pub struct TypeContext<'a> {
    /// The version of the endpoint, `group/version`.
    pub api_version: &'a str,
    /// The kind of the endpoint.
    pub kind: &'a str,
    /// The schema of that version.
    pub schema: &'a Schema,
    /// Whether the kind is built in.
    pub model: Model,
    /// The subresource, empty for the object itself.
    pub subresource: &'a str,
    /// What this endpoint never writes: `status`, or at `/status` all but it.
    pub reset: &'a FieldSet,
    /// The other versions; `None` if there is one version.
    pub converter: Option<&'a dyn VersionConverter>,
}

/// A write of a whole object: create, replace, and every patch but apply.
#[derive(Debug)]
pub struct UpdateInput<'a> {
    /// The kind and the endpoint.
    pub context: TypeContext<'a>,
    /// The stored object; `None` for a create.
    pub live: Option<&'a Value>,
    /// The object as it will be stored, with the owners that the request sent.
    pub new: &'a mut Value,
    /// Who writes.
    pub manager: &'a str,
    /// The time, in RFC 3339 and UTC with whole seconds.
    pub now: &'a str,
}

/// A server-side apply.
#[derive(Debug)]
pub struct ApplyInput<'a> {
    /// The kind and the endpoint.
    pub context: TypeContext<'a>,
    /// The stored object; `None` if there is none.
    pub live: Option<&'a Value>,
    /// What is applied, as the request sent it.
    pub config: Value,
    /// Who applies.
    pub manager: &'a str,
    /// Whether conflicts take fields from their owners.
    pub force: bool,
    /// The time, in RFC 3339 and UTC with whole seconds.
    pub now: &'a str,
}

/// What an apply makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyOutcome {
    /// The whole object, its owners set.
    pub object: Value,
    /// Whether it differs from the stored one, in content or in owners.
    pub changed: bool,
}

/// Why owners could not be told. The write goes on untracked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrackingError {
    /// The object to store is not what its schema says.
    #[error("failed to convert new object ({object}) to smd typed: {errors}")]
    New {
        /// The object as messages name it.
        object: String,
        /// What is wrong with it.
        errors: TypedErrors,
    },
    /// The stored object is not what its schema says.
    #[error("failed to convert live object ({object}) to smd typed: {errors}")]
    Live {
        /// The object as messages name it.
        object: String,
        /// What is wrong with it.
        errors: TypedErrors,
    },
    /// An object has no form in the version of an owner.
    #[error("failed to convert an object to another version: {0}")]
    Conversion(String),
}

/// Why an apply is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Others own fields and want them otherwise; by manager.
    #[error("apply conflicts with other managers")]
    Conflicts(Vec<Conflict>),
    /// The configuration is of another kind or version than the endpoint.
    #[error("invalid object type: {0}")]
    InvalidType(String),
    /// The configuration says who owns its fields.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsInConfig,
    /// The configuration sets a field that the schema does not know, or of another type; the message is Kubernetes'.
    #[error("{0}")]
    Typed(String),
    /// The owners in the stored object cannot be read.
    #[error("failed to decode managed fields: {0}")]
    ManagedFields(ManagedFieldsError),
    /// The owners of what was there before cannot be told.
    #[error("failed to create manager for existing fields: {0}")]
    Existing(TrackingError),
    /// An object has no form in the version of an owner.
    #[error("{0}")]
    Conversion(String),
}

/// Gives the writer what its write changed, takes it from the others, and sets the owners in the new object.
///
/// # Errors
///
/// Why field owners cannot be computed; the new object is then untracked and can be stored as it is.
pub fn update(input: UpdateInput<'_>) -> Result<(), TrackingError> {
    let UpdateInput {
        context,
        live,
        new,
        manager,
        now,
    } = input;
    let sent = take_managed_fields(new);
    let managed = owners_before(context.subresource, live, sent.as_ref());
    if managed.is_empty() && live.is_some_and(has_uid) {
        return Ok(());
    }
    let managed = track(
        context,
        live.unwrap_or(&EMPTY_MAP),
        new,
        managed,
        manager,
        now,
    )?;
    set_managed_fields(new, managed);
    Ok(())
}

/// Merges a configuration into the stored object.
///
/// # Errors
///
/// Names the conflicts with other managers, or what is wrong with the configuration.
pub fn apply(input: ApplyInput<'_>) -> Result<ApplyOutcome, ApplyError> {
    let ApplyInput {
        context,
        live,
        config,
        manager,
        force,
        now,
    } = input;
    let live_object = live.unwrap_or(&EMPTY_MAP);
    let mut managed =
        ManagedFields::decode(managed_fields(live_object)).map_err(ApplyError::ManagedFields)?;
    check_type(context, &config)?;
    if managed.is_empty() && live.is_some() {
        managed = track(
            context,
            &EMPTY_MAP,
            live_object,
            managed,
            BEFORE_FIRST_APPLY,
            now,
        )
        .map_err(ApplyError::Existing)?;
    }
    check_config(context, live_object, &config)?;
    let applied = last_applied::Applied::of(manager, live_object, &config);
    let identity = ManagerIdentity::applier(manager, context.subresource);
    let one = context.one_version();
    let scope = context.scope(&one);
    let (object, mut managers) = if force || applied.is_none() {
        let ownership = if force {
            Ownership::Take
        } else {
            Ownership::Respect
        };
        let done = operate::apply(scope, live_object, config, managed, &identity, ownership)?;
        (done.object, done.managers)
    } else {
        last_applied::apply(scope, live_object, config, managed, &identity)?
    };
    strip(&mut managers, &identity);
    if object.is_some() {
        touch(&mut managers, &identity, now);
    }
    let mut changed = object.is_some();
    let mut object = object.unwrap_or_else(|| without_managed_fields(live_object));
    if let Some(applied) = applied {
        changed |= applied.refresh(&mut object);
    }
    set_managed_fields(&mut object, managers);
    changed = changed || live.is_none() || managed_fields(&object) != managed_fields(live_object);
    Ok(ApplyOutcome { object, changed })
}

/// Merges a configuration into an object whose owners stay as they are, as admission policies do. `managedFields` are left
/// out of what is returned.
///
/// # Errors
/// The configuration has fields that the schema does not know, sets a list, map or struct that can only be set as a whole, or
/// says who owns its fields; the object is not what its schema says. In Kubernetes' words.
///
/// Source: `ApplyStructuredMergeDiff` in `apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go`.
pub fn merge_unowned(schema: &Schema, live: &Value, config: Value) -> Result<Value, String> {
    let place = Place::Root(schema);
    typed::check(place, &config, Duplicates::Refused)
        .map_err(|errors| format!("failed to convert patch object to typed object: {errors}"))?;
    let atomic = atomic::places(place, &config);
    if !atomic.is_empty() {
        let text = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs";
        return Err(format!("{text}: {}", atomic.join(", ")));
    }
    typed::check(place, live, Duplicates::Allowed)
        .map_err(|errors| format!("failed to convert original object to typed object: {errors}"))?;
    Ok(merge::merge(place, live, config))
}

/// What an object holds at the leaves of a set: what a manager has applied, given its fields. Keys of list items are
/// there only as far as they are in the set, as they are in every set of an applier.
pub fn extract(schema: &Schema, object: &Value, fields: &FieldSet) -> Value {
    remove::extract_items(Place::Root(schema), object, &fields.clone().leaves())
}

// === impl TypeContext ===

impl<'a> TypeContext<'a> {
    fn one_version(&self) -> OneVersion<'a> {
        OneVersion {
            api_version: self.api_version,
            schema: self.schema,
        }
    }

    fn scope<'s>(&self, one: &'s OneVersion<'a>) -> Scope<'s>
    where
        'a: 's,
    {
        Scope {
            api_version: self.api_version,
            place: Place::Root(self.schema),
            model: self.model,
            reset: self.reset,
            converter: self.converter.map_or(one, |converter| converter),
        }
    }
}

/// The owners that an update starts from: those that the request sent, if it may send any and they can be read, else
/// those of the stored object. A request that sends an empty list starts anew.
fn owners_before(subresource: &str, live: Option<&Value>, sent: Option<&Value>) -> ManagedFields {
    if subresource.is_empty() {
        if is_reset(sent) {
            return ManagedFields::default();
        }
        match ManagedFields::decode(sent) {
            Ok(managed) if !managed.is_empty() => return managed,
            Ok(_) | Err(_) => {}
        }
    }
    ManagedFields::decode(live.and_then(managed_fields)).unwrap_or_default()
}

/// An empty list, or one empty entry.
fn is_reset(sent: Option<&Value>) -> bool {
    let Some(Value::Array(entries)) = sent else {
        return false;
    };
    match entries.as_slice() {
        [] => true,
        [Value::Object(entry)] => entry.values().all(|value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            _ => false,
        }),
        _ => false,
    }
}

/// The owners after a write of a whole object.
fn track(
    context: TypeContext<'_>,
    live: &Value,
    new: &Value,
    managed: ManagedFields,
    manager: &str,
    now: &str,
) -> Result<ManagedFields, TrackingError> {
    let one = context.one_version();
    let scope = context.scope(&one);
    typed::check(scope.place, new, Duplicates::Allowed).map_err(|errors| TrackingError::New {
        object: object_text(new),
        errors,
    })?;
    typed::check(scope.place, live, Duplicates::Allowed).map_err(|errors| TrackingError::Live {
        object: object_text(live),
        errors,
    })?;
    let (mut managed, written) =
        operate::update(scope, live, new, managed).map_err(|failure| match failure {
            Failure::Conversion(message) => TrackingError::Conversion(message),
            // A write that takes ownership has no conflicts.
            Failure::Conflicts(_) => TrackingError::Conversion("unexpected conflicts".to_owned()),
        })?;
    let written = written.difference(&NEVER_OWNED);
    // Who changed nothing gains nothing, and its time stays.
    if !written.is_empty() {
        let identity = ManagerIdentity::updater(manager, context.api_version, context.subresource);
        let before = managed
            .take(&identity)
            .map(|entry| entry.set)
            .unwrap_or_default();
        managed.put(ManagedEntry {
            identity,
            api_version: context.api_version.to_owned(),
            set: before.union(written),
            time: Some(now.to_owned()),
        });
    }
    cap::cap_updaters(&mut managed);
    Ok(managed)
}

fn strip(managers: &mut ManagedFields, identity: &ManagerIdentity) {
    if let Some(mut entry) = managers.take(identity) {
        entry.set = entry.set.difference(&NEVER_OWNED);
        if !entry.set.is_empty() {
            managers.put(entry);
        }
    }
}

fn touch(managers: &mut ManagedFields, identity: &ManagerIdentity, now: &str) {
    let mut entries = managers.entries_mut().iter_mut();
    if let Some(entry) = entries.find(|entry| entry.identity == *identity) {
        entry.time = Some(now.to_owned());
    }
}

fn check_type(context: TypeContext<'_>, config: &Value) -> Result<(), ApplyError> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if (api_version, kind) == (context.api_version, context.kind) {
        return Ok(());
    }
    Err(ApplyError::InvalidType(type_text(api_version, kind)))
}

/// A kind as Go prints it, `apps/v1, Kind=Deployment`; the core group is the empty one.
fn type_text(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

fn check_config(context: TypeContext<'_>, live: &Value, config: &Value) -> Result<(), ApplyError> {
    if managed_fields(config).is_some_and(|fields| !fields.is_null()) {
        return Err(ApplyError::ManagedFieldsInConfig);
    }
    let place = Place::Root(context.schema);
    typed::check(place, config, Duplicates::Refused).map_err(|errors| {
        ApplyError::Typed(format!(
            "failed to create typed patch object ({}): {errors}",
            object_text(config)
        ))
    })?;
    typed::check(place, live, Duplicates::Allowed).map_err(|errors| {
        ApplyError::Typed(format!(
            "failed to create typed live object ({}): {errors}",
            object_text(live)
        ))
    })
}

/// The refusal of a config with a field, at `.path`, that its type does not have.
pub fn undeclared(config: &Value, path: &str) -> ApplyError {
    ApplyError::Typed(format!(
        "failed to create typed patch object ({}): {path}: field not declared in schema",
        object_text(config)
    ))
}

/// An object as messages name it: `namespace/name; group/version, Kind=Kind`.
fn object_text(object: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = object.get("metadata");
    format!(
        "{}/{}; {}",
        text(metadata.and_then(|metadata| metadata.get("namespace"))),
        text(metadata.and_then(|metadata| metadata.get("name"))),
        type_text(&text(object.get("apiVersion")), &text(object.get("kind")))
    )
}

fn has_uid(object: &Value) -> bool {
    let uid = object
        .get("metadata")
        .and_then(|metadata| metadata.get("uid"));
    uid.and_then(Value::as_str)
        .is_some_and(|uid| !uid.is_empty())
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(MANAGED_FIELDS))
}

fn without_managed_fields(object: &Value) -> Value {
    let Value::Object(fields) = object else {
        return object.clone();
    };
    let copied = fields.iter().map(|(name, value)| {
        let value = match value {
            Value::Object(metadata) if name == "metadata" => Value::Object(
                metadata
                    .iter()
                    .filter(|(name, _)| *name != MANAGED_FIELDS)
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            ),
            value => value.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(copied.collect())
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return None;
    };
    metadata.remove(MANAGED_FIELDS)
}

fn set_managed_fields(object: &mut Value, managed: ManagedFields) {
    take_managed_fields(object);
    if managed.is_empty() {
        return;
    }
    let Value::Object(fields) = object else {
        return;
    };
    let metadata = fields
        .entry("metadata")
        .and_modify(|metadata| {
            if metadata.is_null() {
                *metadata = Value::Object(Map::new());
            }
        })
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        metadata.insert(MANAGED_FIELDS.to_owned(), Value::Array(managed.encode()));
    }
}

// === impl ApplyError ===

impl From<Failure> for ApplyError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Conflicts(conflicts) => Self::Conflicts(conflicts),
            Failure::Conversion(message) => Self::Conversion(message),
        }
    }
}

impl From<ApplyError> for Status {
    /// Exhaustive on purpose: a new error must choose its status here.
    fn from(error: ApplyError) -> Self {
        let message = error.to_string();
        match error {
            ApplyError::Conflicts(conflicts) => Self::apply_conflicts(
                conflicts
                    .into_iter()
                    .map(|conflict| {
                        let paths = conflict.paths.iter().map(|path| path_text(path)).collect();
                        (conflict.manager.to_string(), paths)
                    })
                    .collect(),
            ),
            ApplyError::InvalidType(_) | ApplyError::ManagedFieldsInConfig => {
                Self::bad_request(message)
            }
            // Kubernetes answers these as errors without a reason.
            ApplyError::Typed(_)
            | ApplyError::ManagedFields(_)
            | ApplyError::Existing(_)
            | ApplyError::Conversion(_) => Self::failure(500, StatusReason::Unknown, message),
        }
    }
}

#[cfg(test)]
mod tests;
