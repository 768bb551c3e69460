//! `Status`: the answer to a request that has no object to answer with, above all the refusals.
//!
//! Clients branch on `reason` first and on the texts sometimes, so both are Kubernetes' own. `details.kind` is the
//! plural resource, except for `Invalid`, where it is the kind.
//!
//! Source: `apimachinery/pkg/api/errors/errors.go`, `apimachinery/pkg/apis/meta/v1/types.go`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::field::{self, FieldError};
use crate::group::{GroupKind, GroupResource};
use crate::meta::ListMeta;
use crate::wire::{is_default, or_default};
use dialect::quote;

/// The cause that names a field which an apply conflicts on.
pub const CAUSE_FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
/// The cause of a refusal because the namespace goes away.
pub const CAUSE_NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
/// The cause of a refusal because the resource version lies in the future.
pub const CAUSE_RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";

/// The text of an optimistic-lock failure, which clients match on.
pub const OPTIMISTIC_LOCK_TEXT: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// An answer without an object.
///
/// As an error it prints its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub struct Status {
    #[serde(default)]
    api_version: Version1,
    /// The list's metadata; an expired list carries a continue token here.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Box<ListMeta>,
    /// Whether it went well.
    #[serde(rename = "status", default)]
    pub outcome: Outcome,
    /// For people; empty when left out.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "or_default"
    )]
    pub message: String,
    /// For programs.
    #[serde(default, skip_serializing_if = "StatusReason::is_unknown")]
    pub reason: StatusReason,
    /// What it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<StatusDetails>>,
    /// The HTTP code; 0 when left out.
    #[serde(
        default,
        skip_serializing_if = "is_default",
        deserialize_with = "or_default"
    )]
    pub code: u16,
}

/// Whether a request went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It was done.
    Success,
    /// It was not done; also what an unreadable outcome is taken for.
    #[default]
    #[serde(other)]
    Failure,
}

/// Every reason that has a name.
const REASONS: [StatusReason; 19] = [
    StatusReason::Unauthorized,
    StatusReason::Forbidden,
    StatusReason::NotFound,
    StatusReason::AlreadyExists,
    StatusReason::Conflict,
    StatusReason::Gone,
    StatusReason::Invalid,
    StatusReason::ServerTimeout,
    StatusReason::StoreReadError,
    StatusReason::Timeout,
    StatusReason::TooManyRequests,
    StatusReason::BadRequest,
    StatusReason::MethodNotAllowed,
    StatusReason::NotAcceptable,
    StatusReason::RequestEntityTooLarge,
    StatusReason::UnsupportedMediaType,
    StatusReason::InternalError,
    StatusReason::Expired,
    StatusReason::ServiceUnavailable,
];

/// Why a request was refused, for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StatusReason {
    /// No reason is given, or one that is not known here.
    #[default]
    Unknown,
    /// No or bad credential.
    Unauthorized,
    /// The authoriser says no.
    Forbidden,
    /// No such object or endpoint.
    NotFound,
    /// An object of this name exists.
    AlreadyExists,
    /// A precondition does not hold, or managers want different things.
    Conflict,
    /// The old form of [`Self::Expired`].
    Gone,
    /// A rule is broken.
    Invalid,
    /// The store was not reached in time.
    ServerTimeout,
    /// The store holds something unreadable.
    StoreReadError,
    /// The deadline passed.
    Timeout,
    /// Too much at once.
    TooManyRequests,
    /// Malformed.
    BadRequest,
    /// The endpoint does not serve this verb.
    MethodNotAllowed,
    /// No accepted media type can be served.
    NotAcceptable,
    /// The body is too large.
    RequestEntityTooLarge,
    /// The body is of an unknown media type.
    UnsupportedMediaType,
    /// A bug or a broken disk.
    InternalError,
    /// The revision is gone.
    Expired,
    /// Not ready, draining, or the spoke is away.
    ServiceUnavailable,
}

/// What a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The name of the object.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub name: String,
    /// The API group.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub group: String,
    /// The plural resource; for `Invalid` the kind.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub kind: String,
    /// The uid of the object.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub uid: String,
    /// One per broken rule or conflicting field.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub causes: Vec<StatusCause>,
    /// When to try again; 0 when left out.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub retry_after_seconds: u32,
}

/// One broken rule or conflicting field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusCause {
    /// For programs.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub message: String,
    /// The path of the field.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub field: String,
}

/// The constant `v1` of a Status; whatever else is read is taken for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Version1;

// === impl Status ===

impl Status {
    /// Makes a refusal from its parts.
    pub fn failure(code: u16, reason: StatusReason, message: impl Into<String>) -> Self {
        Self {
            api_version: Version1,
            metadata: Box::default(),
            outcome: Outcome::Failure,
            message: message.into(),
            reason,
            details: None,
            code,
        }
    }

    /// Reports that there is no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::failure(
            404,
            StatusReason::NotFound,
            format!("{resource} {} not found", quote(name)),
        )
        .with_resource(resource, name)
    }

    /// Reports that nothing is served at this path of a known group.
    pub fn resource_not_found() -> Self {
        Self::failure(
            404,
            StatusReason::NotFound,
            "the server could not find the requested resource",
        )
        .with_details(StatusDetails::default())
    }

    /// Reports that an object of this name exists.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::failure(
            409,
            StatusReason::AlreadyExists,
            format!("{resource} {} already exists", quote(name)),
        )
        .with_resource(resource, name)
    }

    /// Reports that an object of this name exists, but goes away.
    pub fn already_exists_terminating(resource: &GroupResource, name: &str) -> Self {
        let mut status = Self::already_exists(resource, name);
        status.message.insert_str(0, "object is being deleted: ");
        status
    }

    /// Reports that no free name was found for a `generateName`.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, seconds: u32) -> Self {
        Self::failure(
            409,
            StatusReason::AlreadyExists,
            format!(
                "{resource} {} already exists, the server was not able to generate a unique name for the object",
                quote(name)
            ),
        )
        .with_resource(resource, name)
        .retry_after(seconds)
    }

    /// Reports that a precondition does not hold.
    pub fn conflict(resource: &GroupResource, name: &str, detail: &str) -> Self {
        Self::failure(
            409,
            StatusReason::Conflict,
            format!(
                "Operation cannot be fulfilled on {resource} {}: {detail}",
                quote(name)
            ),
        )
        .with_resource(resource, name)
    }

    /// Reports that the object changed since it was read.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(resource, name, OPTIMISTIC_LOCK_TEXT)
    }

    /// Returns which rules are broken.
    pub fn invalid(kind: &GroupKind, name: &str, mut errors: Vec<FieldError>) -> Self {
        let has_more = field::shorten(&mut errors);
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&field::aggregate(&errors));
        }
        if has_more {
            message.push_str(", and more that is not told");
        }
        let causes = errors.into_iter().map(StatusCause::from).collect();
        Self::failure(422, StatusReason::Invalid, message).with_details(StatusDetails {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes,
            ..StatusDetails::default()
        })
    }

    /// Reports that the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, StatusReason::BadRequest, message)
    }

    /// Reports that there is no or a bad credential, and nothing more.
    pub fn unauthorized() -> Self {
        Self::failure(401, StatusReason::Unauthorized, "Unauthorized")
    }

    /// Denies, with the detail that comes after `is forbidden: `. An empty resource stands for a path that is
    /// not about a resource.
    pub fn forbidden(resource: &GroupResource, name: &str, detail: &str) -> Self {
        let message = if resource.resource.is_empty() {
            format!("forbidden: {detail}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {detail}")
        } else {
            format!("{resource} {} is forbidden: {detail}", quote(name))
        };
        Self::failure(403, StatusReason::Forbidden, message).with_resource(resource, name)
    }

    /// Reports that the endpoint does not serve a verb.
    pub fn method_not_allowed(resource: &GroupResource, verb: &str) -> Self {
        Self::failure(
            405,
            StatusReason::MethodNotAllowed,
            format!(
                "{verb} is not supported on resources of kind {}",
                quote(&resource.to_string())
            ),
        )
        .with_resource(resource, "")
    }

    /// Returns which media types can be served.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        Self::failure(
            406,
            StatusReason::NotAcceptable,
            format!(
                "only the following media types are accepted: {}",
                accepted.join(", ")
            ),
        )
    }

    /// Returns which media types a body may have.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        Self::failure(
            415,
            StatusReason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                accepted.join(", ")
            ),
        )
    }

    /// Reports that a revision is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, StatusReason::Expired, message)
    }

    /// Reports that a body has more than `bytes_max` bytes.
    pub fn too_large(bytes_max: usize) -> Self {
        Self::failure(
            413,
            StatusReason::RequestEntityTooLarge,
            format!("Request entity too large: limit is {bytes_max}"),
        )
    }

    /// Reports that there is too much at once.
    pub fn too_many_requests(seconds: u32) -> Self {
        Self::failure(
            429,
            StatusReason::TooManyRequests,
            "Too many requests, please try again later.",
        )
        .retry_after(seconds)
    }

    /// Reports that the deadline passed.
    pub fn timeout(message: impl fmt::Display) -> Self {
        Self::failure(504, StatusReason::Timeout, format!("Timeout: {message}"))
            .with_details(StatusDetails::default())
    }

    /// Reports that a resource version lies in the future.
    pub fn resource_version_too_large(requested: u64, current: u64) -> Self {
        let mut status = Self::timeout(format_args!(
            "Too large resource version: {requested}, current: {current}"
        ))
        .retry_after(1);
        status.details_mut().causes.push(StatusCause {
            reason: CAUSE_RESOURCE_VERSION_TOO_LARGE.to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        });
        status
    }

    /// Reports that the store was not reached in time.
    pub fn server_timeout(resource: &GroupResource, operation: &str, seconds: u32) -> Self {
        Self::failure(
            500,
            StatusReason::ServerTimeout,
            format!(
                "The {operation} operation against {resource} could not be completed at this time, please try again."
            ),
        )
        .with_resource(resource, operation)
        .retry_after(seconds)
    }

    /// Reports that the server, or what it stands for, is not there now.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, StatusReason::ServiceUnavailable, message)
    }

    /// Reports that the server failed.
    pub fn internal(message: impl fmt::Display) -> Self {
        let cause = StatusCause {
            message: message.to_string(),
            ..StatusCause::default()
        };
        Self::failure(
            500,
            StatusReason::InternalError,
            format!("Internal error occurred: {message}"),
        )
        .with_details(StatusDetails {
            causes: vec![cause],
            ..StatusDetails::default()
        })
    }

    /// Returns which managers own the fields that an apply wants otherwise. Each entry is the manager as rendered,
    /// `"name" using v1` for example, and the paths of its fields.
    pub fn apply_conflicts(conflicts: Vec<(String, Vec<String>)>) -> Self {
        let message = apply_conflict_message(&conflicts);
        let mut causes = Vec::new();
        for (manager, paths) in conflicts {
            causes.extend(paths.into_iter().map(|path| StatusCause {
                reason: CAUSE_FIELD_MANAGER_CONFLICT.to_owned(),
                message: format!("conflict with {manager}"),
                field: path,
            }));
        }
        Self::failure(409, StatusReason::Conflict, message).with_details(StatusDetails {
            causes,
            ..StatusDetails::default()
        })
    }

    /// Reports that an object is gone.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let mut status = Self::failure(0, StatusReason::Unknown, "").with_resource(resource, name);
        status.outcome = Outcome::Success;
        uid.clone_into(&mut status.details_mut().uid);
        status
    }

    /// Replaces the details.
    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn with_cause(mut self, cause: StatusCause) -> Self {
        self.details_mut().causes.push(cause);
        self
    }

    /// Returns when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details_mut().retry_after_seconds = seconds;
        self
    }

    /// Returns when to try again, if it says so.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details
            .as_ref()
            .map(|details| details.retry_after_seconds)
            .filter(|&it| it > 0)
    }

    /// Returns whether some cause has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details
            .iter()
            .flat_map(|details| &details.causes)
            .any(|cause| cause.reason == reason)
    }

    /// Returns whether this says that there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.reason == StatusReason::NotFound
            || (self.reason == StatusReason::Unknown && self.code == 404)
    }

    /// Returns whether this says that an object of this name exists.
    pub fn is_already_exists(&self) -> bool {
        self.reason == StatusReason::AlreadyExists
    }

    /// Returns whether this says that a precondition does not hold.
    pub fn is_conflict(&self) -> bool {
        self.reason == StatusReason::Conflict
            || (self.reason == StatusReason::Unknown && self.code == 409)
    }

    /// Returns whether this says that a revision is gone.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason, StatusReason::Expired | StatusReason::Gone)
            || (self.reason == StatusReason::Unknown && self.code == 410)
    }

    fn with_resource(self, resource: &GroupResource, name: &str) -> Self {
        self.with_details(StatusDetails {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..StatusDetails::default()
        })
    }

    fn details_mut(&mut self) -> &mut StatusDetails {
        self.details.get_or_insert_default()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "{:?} ({}) without a message", self.reason, self.code)
        } else {
            f.write_str(&self.message)
        }
    }
}

impl std::error::Error for Status {}

// === impl StatusReason ===

impl StatusReason {
    /// Returns whether no known reason is given.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands out a reference"
    )]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    /// Names the reason on the wire; empty where none is known.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Invalid => "Invalid",
            Self::ServerTimeout => "ServerTimeout",
            Self::StoreReadError => "StorageReadError",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::BadRequest => "BadRequest",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::InternalError => "InternalError",
            Self::Expired => "Expired",
            Self::ServiceUnavailable => "ServiceUnavailable",
        }
    }

    /// Recognises a reason of the wire; what is not known is [`Self::Unknown`].
    pub fn from_text(text: &str) -> Self {
        REASONS
            .into_iter()
            .find(|reason| reason.text() == text)
            .unwrap_or(Self::Unknown)
    }
}

impl Serialize for StatusReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for StatusReason {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(Self::from_text(text.as_deref().unwrap_or_default()))
    }
}

// === impl StatusCause ===

impl From<FieldError> for StatusCause {
    fn from(error: FieldError) -> Self {
        Self {
            reason: error.kind.cause().to_owned(),
            message: error.body(),
            field: error.path,
        }
    }
}

// === impl Version1 ===

impl Serialize for Version1 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("v1")
    }
}

impl<'de> Deserialize<'de> for Version1 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// Source: `structured-merge-diff/merge/conflict.go`.
fn apply_conflict_message(conflicts: &[(String, Vec<String>)]) -> String {
    let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
    if let ([(manager, paths)], 1) = (conflicts, count)
        && let [path] = paths.as_slice()
    {
        return format!("Apply failed with 1 conflict: conflict with {manager}: {path}");
    }
    let mut lines = Vec::new();
    for (manager, paths) in conflicts {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(paths.iter().map(|path| format!("- {path}")));
    }
    format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
}

#[cfg(test)]
mod tests;
