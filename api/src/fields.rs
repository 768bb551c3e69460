//! The names of the fields in log lines, spans and audit events.
//!
//! Facts go into fields with these names and no others, so that one query finds them in every component.

/// The logical cluster.
pub const CLUSTER: &str = "cluster";
/// The request verb.
pub const VERB: &str = "verb";
/// The API group.
pub const GROUP: &str = "group";
/// The API version.
pub const VERSION: &str = "version";
/// The plural resource.
pub const RESOURCE: &str = "resource";
/// The subresource.
pub const SUBRESOURCE: &str = "subresource";
/// The namespace.
pub const NAMESPACE: &str = "namespace";
/// The name of the object.
pub const NAME: &str = "name";
/// The authenticated user.
pub const USER: &str = "user";
/// The id that ties a request to its audit events.
pub const AUDIT_ID: &str = "audit_id";
/// The opaque version string that clients see.
pub const RESOURCE_VERSION: &str = "resource_version";
/// The store's commit number.
pub const REVISION: &str = "revision";
/// The field manager.
pub const FIELD_MANAGER: &str = "field_manager";
/// Whether nothing is stored.
pub const DRY_RUN: &str = "dry_run";
/// The spoke.
pub const SPOKE: &str = "spoke";
/// The reconciler.
pub const RECONCILER: &str = "reconciler";
/// The key of the object that is reconciled.
pub const KEY: &str = "key";
/// Why something is done.
pub const REASON: &str = "reason";
/// The number of the attempt.
pub const ATTEMPT: &str = "attempt";
/// How long it took.
pub const LATENCY_MS: &str = "latency_ms";
/// The error with its chain of causes.
pub const ERROR: &str = "error";
/// The HTTP method, named as in OpenTelemetry.
pub const HTTP_REQUEST_METHOD: &str = "http.request.method";
/// The HTTP code, named as in OpenTelemetry.
pub const HTTP_RESPONSE_STATUS_CODE: &str = "http.response.status_code";

/// All of them, for the check that no other is used.
pub const ALL: &[&str] = &[
    CLUSTER,
    VERB,
    GROUP,
    VERSION,
    RESOURCE,
    SUBRESOURCE,
    NAMESPACE,
    NAME,
    USER,
    AUDIT_ID,
    RESOURCE_VERSION,
    REVISION,
    FIELD_MANAGER,
    DRY_RUN,
    SPOKE,
    RECONCILER,
    KEY,
    REASON,
    ATTEMPT,
    LATENCY_MS,
    ERROR,
    HTTP_REQUEST_METHOD,
    HTTP_RESPONSE_STATUS_CODE,
];
