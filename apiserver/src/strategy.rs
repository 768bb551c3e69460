//! One [`Strategy`] for each kind: everything that the server does with its objects beyond what every object goes through.
//!
//! What Kubernetes writes in Go, a `strategy.go` for each resource: defaults, first states, what an update keeps, what is
//! validated, allocated and released, how an object is deleted, which subresources there are. A strategy is chosen once,
//! when a kind is registered, by [`built_in()`], [`own()`] or [`custom()`], and carried by the registry's `ResourceScope`;
//! handlers and admission ask it and know no kind by name.
//!
//! One file per family of kinds, one constant per kind. A kind is one of two bases, [`BUILT_IN`](built_in::BUILT_IN) or
//! [`CUSTOM`](custom::CUSTOM), with what is different about it; how the objects of a base are typed is its [`Typing`].
//! `docs/adding-a-resource.md` is the checklist for another kind.
//!
//! Invariant: strategies are pure but for allocation, which reads the store; what they change is written by their caller.
//!
//! Source: apiserver/pkg/registry/rest/{create,update,delete}.go, kubernetes/pkg/registry/*/*/strategy.go.

pub(crate) mod endpoint;
pub(crate) mod fields;
pub(crate) mod paths;
pub(crate) mod rules;
pub(crate) mod status;
pub(crate) mod typing;
pub(crate) mod version;

// The bases.
mod built_in;
mod custom;
mod go_types;

// What rules of fields are made of.
mod addresses;
mod checks;

// The families.
mod admission;
mod certificates;
pub(crate) mod definitions;
mod events;
mod groups;
mod limits;
pub(crate) mod namespaces;
mod networking;
mod own;
pub(crate) mod pods;
mod rbac;
mod scaling;
mod secrets;
mod services;
mod volumes;
mod workloads;

use api::growth::TooLarge;
use api::query::DeleteOptions;
use api::validation::NameRule;
use api::{FieldError, GroupResource, LogicalCluster, Status};
use jiff::Timestamp;
use serde_json::Value;
use storage::{Store, Write};

use endpoint::Endpoint;
use rules::{
    AfterCommit, AuthorStamp, DeletedAnswer, Generation, Grants, Judged, Propagation, PutOfAbsent,
    PutWithoutVersion,
};
use status::StatusMetadata;
use typing::Typing;
use version::VersionRules;

/// The rules of a kind.
#[derive(Debug)]
pub(crate) struct Strategy {
    /// How objects are decoded, defaulted, owned and judged by their schema.
    pub(crate) typing: &'static dyn Typing,
    /// What a name may be.
    pub(crate) name: NameRule,
    /// The kind that objects are stored as, where it is another one.
    pub(crate) stored_as: Option<&'static StoredAs>,
    /// Whether objects carry their author.
    pub(crate) author: AuthorStamp,
    /// Whether objects give rights, which their writer has to have.
    pub(crate) grants: Grants,
    /// Which metadata is written with the status.
    pub(crate) status_metadata: StatusMetadata,

    /// Field selectors beside those of metadata: what they are called, and the path to the field. Those of a custom
    /// resource are in its definition.
    pub(crate) selectable: &'static [(&'static str, &'static str)],
    /// Subresources beside `status` and `scale`.
    pub(crate) endpoints: &'static [(&'static str, Endpoint)],
    /// The path of the selector that a `Scale` shows. That of a custom resource is in its definition.
    pub(crate) scale_selector: Option<&'static str>,
    /// A warning for everyone who uses the kind.
    pub(crate) deprecation: Option<&'static str>,

    /// Whether changes of the desired state are counted.
    pub(crate) generation: Generation,
    /// What a PUT of an object that is not there does.
    pub(crate) put_of_absent: PutOfAbsent,
    /// What a PUT without resourceVersion does.
    pub(crate) put_without_version: PutWithoutVersion,
    /// Who says what is wrong with the values of an object.
    pub(crate) judged: Judged,
    /// Sets what a new object begins with, before it is validated.
    pub(crate) prepare_create: fn(&VersionRules, &mut Value) -> Result<(), TooLarge>,
    /// Restores what an update at an endpoint cannot change: the new object, then the live one.
    pub(crate) prepare_update: fn(Endpoint, &mut Value, &Value),
    /// Validates an object by rules that its schema does not hold; with the live object where it is an update.
    pub(crate) validate: fn(&Value, Option<&Value>) -> Vec<FieldError>,
    /// Returns what is doubtful about a valid object, to warn its writer; with the live object where it is an update.
    pub(crate) doubts: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Brings a valid object into its final form.
    pub(crate) canonicalize: fn(&mut Value),
    /// What is allocated to objects, if anything.
    pub(crate) allocation: Option<Allocation>,
    /// What a write waits for after it is committed.
    pub(crate) after_commit: AfterCommit,

    /// How objects are deleted.
    pub(crate) deletion: Deletion,
}

/// Another kind that objects are stored as, which names its fields differently.
#[derive(Debug)]
pub(crate) struct StoredAs {
    /// The resource among whose objects they lie.
    pub(crate) resource: (&'static str, &'static str),
    /// The version of what is stored.
    pub(crate) version: &'static str,
    /// The kind of what is stored.
    pub(crate) kind: &'static str,
    /// Renames the fields of an object for an `apiVersion`.
    pub(crate) convert: fn(&mut Value, &str),
}

/// Values that must be unique beside names.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// Allocates what an object needs and does not have yet; with the live object where it is an update. The writes belong
    /// into the commit of the object, which may collide.
    pub(crate) allocate: fn(&Holder<'_>, &mut Value, Option<&Value>) -> Result<Vec<Write>, Status>,
    /// Releases everything that an object holds, as writes for the commit of its deletion.
    pub(crate) release: fn(&Holder<'_>, &Value) -> Vec<Write>,
}

/// The object that something is allocated to, and the store that shows what is taken.
#[derive(Debug)]
pub(crate) struct Holder<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) cluster: &'a LogicalCluster,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// How objects of a kind are deleted.
#[derive(Debug)]
pub(crate) struct Deletion {
    /// What becomes of dependents where the deleter does not say.
    pub(crate) propagation: Propagation,
    /// A warning for a deleter who does not say what becomes of dependents.
    pub(crate) warning: Option<&'static str>,
    /// Returns why the object of a name may not be deleted.
    pub(crate) forbid: fn(&str) -> Option<&'static str>,
    /// Marks an object that is never removed at the first request; `None` for kinds without such a rule.
    pub(crate) mark: fn(&Value, &DeleteOptions, Timestamp) -> Option<Value>,
    /// Returns how many seconds an object is given to end, of those that are asked for. Most kinds have no such period.
    pub(crate) grace: Option<fn(&Value, Option<i64>) -> i64>,
    /// Whether a terminating object without finalizers may be removed.
    pub(crate) may_be_removed: fn(&Value) -> bool,
    /// What the deletion answers with.
    pub(crate) answer: DeletedAnswer,
}

/// Returns the strategy of a resource that Kubernetes itself has.
pub(crate) fn built_in(resource: &GroupResource) -> &'static Strategy {
    find(&resource.group, &resource.resource)
}

/// Returns the fields by which the objects under a storage key are selected, of a resource of Kubernetes or of the hub itself.
pub(crate) fn selectable(group: &str, resource: &str) -> &'static [(&'static str, &'static str)] {
    match group {
        api::kro::INTERNAL_GROUP => own::find(group, resource).selectable,
        group => find(group, resource).selectable,
    }
}

fn find(group: &str, name: &str) -> &'static Strategy {
    match group {
        "" => core(name),
        "apps" => workloads::apps(name),
        "batch" => workloads::batch(name),
        "certificates.k8s.io" => &certificates::REQUESTS,
        "events.k8s.io" => &events::EVENTS,
        "rbac.authorization.k8s.io" => rbac::of(name),
        "scheduling.k8s.io" => &groups::PRIORITY_CLASSES,
        "storage.k8s.io" => volumes::storage(name),
        api::admission::GROUP => admission::of(name),
        api::crd::GROUP => &definitions::DEFINITIONS,
        group => groups::of(group, name),
    }
}

/// The kinds of the core group.
fn core(resource: &str) -> &'static Strategy {
    match resource {
        "configmaps" => &secrets::CONFIG_MAPS,
        "endpoints" => &services::ENDPOINTS,
        "events" => &events::CORE_EVENTS,
        "limitranges" => &limits::LIMIT_RANGES,
        "namespaces" => &namespaces::NAMESPACES,
        "nodes" => &pods::NODES,
        "persistentvolumes" => &volumes::VOLUMES,
        "persistentvolumeclaims" => &volumes::CLAIMS,
        "pods" => &pods::PODS,
        "podtemplates" => &workloads::POD_TEMPLATES,
        "replicationcontrollers" => &workloads::REPLICATION_CONTROLLERS,
        "resourcequotas" => &limits::RESOURCE_QUOTAS,
        "secrets" => &secrets::SECRETS,
        "serviceaccounts" => &secrets::SERVICE_ACCOUNTS,
        "services" => &services::SERVICES,
        _ => &built_in::BUILT_IN,
    }
}

/// Returns the strategy of a kind of the project's or of kro's.
pub(crate) fn own(resource: &GroupResource) -> &'static Strategy {
    own::of(resource)
}

/// Returns the strategy of a custom resource.
pub(crate) fn custom(author: AuthorStamp) -> &'static Strategy {
    match author {
        AuthorStamp::Stamped => &custom::AUTHORED,
        AuthorStamp::Absent => &custom::CUSTOM,
    }
}

// === impl StoredAs ===

impl PartialEq for StoredAs {
    /// Kinds are compared by their names; there is one conversion to each.
    fn eq(&self, other: &Self) -> bool {
        (self.resource, self.version, self.kind) == (other.resource, other.version, other.kind)
    }
}

impl Eq for StoredAs {}

// === impl Deletion ===

impl Deletion {
    /// An object goes at once, unless finalizers hold it.
    pub(crate) const PLAIN: Self = Self {
        propagation: Propagation::Background,
        warning: None,
        forbid: |_name| None,
        mark: |_live, _options, _now| None,
        grace: None,
        may_be_removed: |_object| true,
        answer: DeletedAnswer::Status,
    };

    /// As [`Deletion::PLAIN`], and answered with the object.
    pub(crate) const ANSWERED_WITH_OBJECT: Self = Self {
        answer: DeletedAnswer::Object,
        ..Self::PLAIN
    };
}

#[cfg(test)]
mod tests;
