//! How a resource behaves beyond its schema: what Kubernetes writes in Go, one strategy per resource.
//!
//! Custom resources all have the one [`Strategy::custom`]; built-in resources have [`Strategy::built_in`], which looks
//! the few that differ up in tables. What a single kind does with its own fields (a Namespace's phase, a Secret's
//! stringData) is in [`crate::admit::kinds`].
//! Source: kubernetes/pkg/registry/*/strategy.go; apiextensions-apiserver/pkg/registry/customresource/strategy.go.

use api::GroupResource;
use api::validation::NameRule;

/// The rules of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strategy {
    /// Custom resources are told from built-in ones in several places where Kubernetes does.
    pub(crate) origin: Origin,
    /// What a name may be.
    pub(crate) name: NameRule,
    /// Whether changes of the desired state are counted.
    pub(crate) generation: Generation,
    /// What a PUT of an object that is not there does.
    pub(crate) put_of_absent: PutOfAbsent,
    /// What a PUT without resourceVersion does.
    pub(crate) put_without_version: PutWithoutVersion,
    /// What becomes of dependents where the deleter does not say.
    pub(crate) default_propagation: Propagation,
}

/// Where the rules come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A definition, or one of our own kinds that behave as if they had one.
    Custom,
    /// Kubernetes itself.
    BuiltIn,
}

/// `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Counts changes outside of metadata and (where it is a subresource) status.
    Counted,
    /// Is not set.
    Absent,
}

/// A PUT of an object that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutOfAbsent {
    /// 404.
    NotFound,
    /// Creates it.
    Creates,
}

/// A PUT without resourceVersion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutWithoutVersion {
    /// 422.
    Refused,
    /// Replaces whatever is there.
    Replaces,
}

/// What becomes of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are collected after it is gone.
    Background,
    /// They stay.
    Orphan,
    /// Kinds whose objects own nothing: the finalizers of garbage collection are never set.
    Unsupported,
}

/// Resources that count generations, beside those with a spec and a controller.
const COUNTED: &[(&str, &[&str])] = &[
    ("", &["pods", "podtemplates", "replicationcontrollers"]),
    ("admissionregistration.k8s.io", &[]),
    ("apiextensions.k8s.io", &[]),
    (
        "apps",
        &["daemonsets", "deployments", "replicasets", "statefulsets"],
    ),
    ("batch", &[]),
    ("discovery.k8s.io", &[]),
    ("flowcontrol.apiserver.k8s.io", &[]),
    (
        "networking.k8s.io",
        &["ingresses", "ingressclasses", "networkpolicies"],
    ),
    ("policy", &[]),
    (
        "resource.k8s.io",
        &["deviceclasses", "devicetaintrules", "resourceslices"],
    ),
    ("scheduling.k8s.io", &[]),
];

/// Resources that a PUT may create.
const CREATED_BY_PUT: &[(&str, &[&str])] = &[
    ("", &["events", "services", "endpoints", "limitranges"]),
    ("events.k8s.io", &[]),
    ("coordination.k8s.io", &[]),
    ("node.k8s.io", &[]),
    ("rbac.authorization.k8s.io", &[]),
];

/// Resources that insist on a resourceVersion.
const VERSION_REQUIRED: &[(&str, &[&str])] = &[
    ("admissionregistration.k8s.io", &[]),
    ("apiextensions.k8s.io", &[]),
    ("apiregistration.k8s.io", &[]),
    ("coordination.k8s.io", &[]),
    ("node.k8s.io", &[]),
    ("policy", &[]),
    (
        "storage.k8s.io",
        &[
            "csidrivers",
            "csinodes",
            "csistoragecapacities",
            "volumeattachments",
        ],
    ),
];

/// Whether a table of groups and their resources (none listed: all) holds a resource.
fn listed(table: &[(&str, &[&str])], resource: &GroupResource) -> bool {
    table.iter().any(|(group, resources)| {
        *group == resource.group
            && (resources.is_empty() || resources.contains(&resource.resource.as_str()))
    })
}

// === impl Strategy ===

impl Strategy {
    /// The rules of custom resources.
    pub(crate) const fn custom() -> Self {
        Self {
            origin: Origin::Custom,
            name: NameRule::DnsSubdomain,
            generation: Generation::Counted,
            put_of_absent: PutOfAbsent::NotFound,
            put_without_version: PutWithoutVersion::Refused,
            default_propagation: Propagation::Background,
        }
    }

    /// The rules of a built-in resource.
    pub(crate) fn built_in(resource: &GroupResource) -> Self {
        let name = match (resource.group.as_str(), resource.resource.as_str()) {
            ("", "namespaces" | "services") => NameRule::DnsLabel,
            ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
            _ => NameRule::DnsSubdomain,
        };
        let default_propagation = match (resource.group.as_str(), resource.resource.as_str()) {
            ("batch", _) | ("", "replicationcontrollers") => Propagation::Orphan,
            ("" | "events.k8s.io", "events") => Propagation::Unsupported,
            _ => Propagation::Background,
        };
        let choose = |table| listed(table, resource);
        Self {
            origin: Origin::BuiltIn,
            name,
            generation: if choose(COUNTED) {
                Generation::Counted
            } else {
                Generation::Absent
            },
            put_of_absent: if choose(CREATED_BY_PUT) {
                PutOfAbsent::Creates
            } else {
                PutOfAbsent::NotFound
            },
            put_without_version: if choose(VERSION_REQUIRED) {
                PutWithoutVersion::Refused
            } else {
                PutWithoutVersion::Replaces
            },
            default_propagation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_resources_differ_where_kubernetes_lets_them() {
        for (group, resource, counted, created, refused) in [
            ("", "configmaps", false, false, false),
            ("", "services", false, true, false),
            ("apps", "deployments", true, false, false),
            ("apps", "controllerrevisions", false, false, false),
            ("coordination.k8s.io", "leases", false, true, true),
            (
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                true,
                false,
                true,
            ),
        ] {
            let strategy = Strategy::built_in(&GroupResource::new(group, resource));
            let found = (
                strategy.generation == Generation::Counted,
                strategy.put_of_absent == PutOfAbsent::Creates,
                strategy.put_without_version == PutWithoutVersion::Refused,
            );
            assert_eq!(found, (counted, created, refused), "{group}/{resource}");
        }
    }
}
