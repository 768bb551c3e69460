//! Kinds of which only a few facts differ from the base: small kinds of the core group, and whole groups.
//!
//! Source: kubernetes/pkg/registry/*/*/strategy.go (`AllowCreateOnUpdate`, `AllowUnconditionalUpdate`).

use api::validation::NameRule;
use api::{FieldError, FieldPath, meta};
use serde_json::Value;

use super::Strategy;
use super::built_in::{BUILT_IN, validate_fixed};
use super::checks::{Findings, Place, Rules, dns_label, judge, labels, one_of, required};
use super::pods::{containers, scheduling};
use super::rules::{Generation, Judged, PutOfAbsent, PutWithoutVersion};
use super::status::StatusMetadata;
use super::{networking, scaling, services};

pub(super) const PRIORITY_CLASSES: Strategy = Strategy {
    judged: Judged::Rules,
    generation: Generation::Counted,
    validate: validate_priority_class,
    ..BUILT_IN
};

/// Kinds with a generation.
const COUNTED: Strategy = Strategy {
    generation: Generation::Counted,
    ..BUILT_IN
};

/// Kinds whose metadata is not written with the status.
const WITH_STATUS: Strategy = Strategy {
    status_metadata: StatusMetadata::Kept,
    ..BUILT_IN
};

const COUNTED_WITH_STATUS: Strategy = Strategy {
    status_metadata: StatusMetadata::Kept,
    ..COUNTED
};

/// Kinds whose updates name the version that they change.
const VERSIONED: Strategy = Strategy {
    put_without_version: PutWithoutVersion::Refused,
    ..BUILT_IN
};

const API_SERVICES: Strategy = Strategy {
    status_metadata: StatusMetadata::Kept,
    ..VERSIONED
};

/// Kinds that a PUT creates, and whose updates name the version that they change.
const CREATED_BY_PUT: Strategy = Strategy {
    put_of_absent: PutOfAbsent::Creates,
    ..VERSIONED
};

const RUNTIME_CLASSES: Strategy = Strategy {
    validate: |object, _live| judge(object, RUNTIME_CLASS),
    ..CREATED_BY_PUT
};

const RUNTIME_CLASS: &Rules = &[
    ("handler", required),
    ("handler", dns_label),
    ("overhead.podFixed", |place, findings| {
        // The rules are those of the limits of a container.
        let path = FieldPath::new("overhead").child("limits");
        containers::resource_list(&path, place, findings);
    }),
    ("scheduling.nodeSelector", labels),
    ("scheduling.tolerations", scheduling::tolerations),
    ("scheduling.tolerations", |tolerations, findings| {
        findings.unique(tolerations.items());
    }),
];

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
        ("policy", "poddisruptionbudgets") => &scaling::BUDGETS,
        ("autoscaling", "horizontalpodautoscalers") => &scaling::AUTOSCALERS,
        ("networking.k8s.io", "ingresses") => &networking::INGRESSES,
        ("networking.k8s.io", "ingressclasses") => &networking::INGRESS_CLASSES,
        ("networking.k8s.io", "networkpolicies") => &networking::NETWORK_POLICIES,
        ("discovery.k8s.io", "endpointslices") => &services::ENDPOINT_SLICES,
        ("node.k8s.io", "runtimeclasses") => &RUNTIME_CLASSES,
        ("apiregistration.k8s.io", _) => &API_SERVICES,
        ("coordination.k8s.io", "leases") => &LEASES,
        ("coordination.k8s.io" | "node.k8s.io", _) => &CREATED_BY_PUT,
        ("discovery.k8s.io", _) | ("resource.k8s.io", "deviceclasses" | "resourceslices") => {
            &COUNTED
        }
        ("flowcontrol.apiserver.k8s.io", _) | ("resource.k8s.io", "devicetaintrules") => {
            &COUNTED_WITH_STATUS
        }
        ("networking.k8s.io", "servicecidrs")
        | ("resource.k8s.io" | "storagemigration.k8s.io" | "internal.apiserver.k8s.io", _) => {
            &WITH_STATUS
        }
        ("networking.k8s.io", "ipaddresses") => &ADDRESSES,
        _ => &BUILT_IN,
    }
}

/// Priorities above are the system's own.
const PRIORITY_MAX: i64 = 1_000_000_000;

fn validate_priority_class(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let mut errors = validate_fixed(object, live, &[&["value"], &["preemptionPolicy"]]);
    let is_system = meta::name(object).starts_with("system-");
    if !is_system && object["value"].as_i64().is_some_and(|it| it > PRIORITY_MAX) {
        let detail = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
        errors.push(FieldError::forbidden(&FieldPath::new("value"), detail));
    }
    let policy = |policy: &Place<'_>, findings: &mut Findings| {
        if policy.is_set() {
            one_of(policy, &["PreemptLowerPriority", "Never"], findings);
        }
    };
    errors.extend(judge(object, &[("preemptionPolicy", policy)]));
    errors
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
