//! Kinds of which only a few facts differ from the base: small kinds of the core group, and whole groups.
//!
//! Source: kubernetes/pkg/registry/*/*/strategy.go (`AllowCreateOnUpdate`, `AllowUnconditionalUpdate`).

use api::validation::NameRule;
use api::{FieldError, FieldPath};
use serde_json::Value;

use super::built_in::BUILT_IN;
use super::rules::{Generation, PutOfAbsent, PutWithoutVersion};
use super::workloads::validate_fixed;
use super::{Deletion, Strategy};

pub(super) const LIMIT_RANGES: Strategy = Strategy {
    put_of_absent: PutOfAbsent::Creates,
    ..BUILT_IN
};

pub(super) const RESOURCE_QUOTAS: Strategy = Strategy {
    deletion: Deletion::ANSWERED_WITH_OBJECT,
    ..BUILT_IN
};

pub(super) const PRIORITY_CLASSES: Strategy = Strategy {
    generation: Generation::Counted,
    validate: validate_priority_class,
    ..BUILT_IN
};

/// Kinds with a generation.
const COUNTED: Strategy = Strategy {
    generation: Generation::Counted,
    ..BUILT_IN
};

/// Kinds whose updates name the version that they change.
const VERSIONED: Strategy = Strategy {
    put_without_version: PutWithoutVersion::Refused,
    ..BUILT_IN
};

/// Kinds with a generation whose updates name the version that they change.
const COUNTED_AND_VERSIONED: Strategy = Strategy {
    generation: Generation::Counted,
    ..VERSIONED
};

/// Kinds that a PUT creates, and whose updates name the version that they change.
const CREATED_BY_PUT: Strategy = Strategy {
    put_of_absent: PutOfAbsent::Creates,
    ..VERSIONED
};

const LEASES: Strategy = Strategy {
    validate: validate_lease,
    ..CREATED_BY_PUT
};

/// Kinds that are named by an address.
const ADDRESSES: Strategy = Strategy {
    name: NameRule::IpAddress,
    ..BUILT_IN
};

/// The strategies of groups without a family of their own.
pub(super) fn of(group: &str, resource: &str) -> &'static Strategy {
    match (group, resource) {
        ("policy", _) => &COUNTED_AND_VERSIONED,
        ("apiregistration.k8s.io", _) => &VERSIONED,
        ("coordination.k8s.io", "leases") => &LEASES,
        ("coordination.k8s.io" | "node.k8s.io", _) => &CREATED_BY_PUT,
        ("discovery.k8s.io" | "flowcontrol.apiserver.k8s.io", _)
        | ("networking.k8s.io", "ingresses" | "ingressclasses" | "networkpolicies")
        | ("resource.k8s.io", "deviceclasses" | "devicetaintrules" | "resourceslices") => &COUNTED,
        ("networking.k8s.io", "ipaddresses") => &ADDRESSES,
        _ => &BUILT_IN,
    }
}

fn validate_priority_class(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    validate_fixed(object, live, &[&["value"], &["preemptionPolicy"]])
}

/// Source: kubernetes/pkg/apis/coordination/validation/validation.go.
fn validate_lease(object: &Value, _live: Option<&Value>) -> Vec<FieldError> {
    let (spec, path) = (&object["spec"], FieldPath::new("spec"));
    let least = [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ];
    let too_small = least.into_iter().filter_map(|(name, least, detail)| {
        let count = spec[name].as_i64().filter(|count| *count < least)?;
        Some(FieldError::invalid(&path.child(name), count, detail))
    });
    let is_set = |name: &str| spec[name].as_str().is_some_and(|it| !it.is_empty());
    let unled = is_set("preferredHolder") && !is_set("strategy");
    let unled = unled.then(|| {
        let detail = "may only be specified if `strategy` is defined";
        FieldError::forbidden(&path.child("preferredHolder"), detail)
    });
    too_small.chain(unled).collect()
}
