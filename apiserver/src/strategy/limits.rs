//! How much there may be: quotas and limit ranges.
//!
//! Source: kubernetes/pkg/apis/core/validation/validation.go (`ValidateResourceQuotaSpec`, `ValidateLimitRange`).

use api::FieldError;
use api::validation::is_qualified_name;

use super::built_in::RULED;
use super::checks::{Findings, Place, Rules, amount, is_standard, judge};
use super::pods::containers::{any_resource_name, resource_name};
use super::rules::PutOfAbsent;
use super::{Deletion, Strategy};

pub(super) const LIMIT_RANGES: Strategy = Strategy {
    put_of_absent: PutOfAbsent::Creates,
    validate: |object, _live| judge(object, LIMIT_RANGE),
    ..RULED
};

pub(super) const RESOURCE_QUOTAS: Strategy = Strategy {
    deletion: Deletion::ANSWERED_WITH_OBJECT,
    validate: |object, _live| judge(object, RESOURCE_QUOTA),
    ..RULED
};

const RESOURCE_QUOTA: &Rules = &[("spec.hard", hard), ("spec.scopeSelector", scopes)];

const LIMIT_RANGE: &Rules = &[
    ("spec.limits", |limits, findings| {
        findings.unique(limits.items().map(|it| it.at("type")));
    }),
    ("spec.limits[]", limit),
];

/// What a scope that only counts pods of one sort can be asked.
const EXISTING: [&str; 5] = [
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    "CrossNamespacePodAffinity",
];
const EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

fn hard(hard: &Place<'_>, findings: &mut Findings) {
    for (name, place) in hard.members() {
        any_resource_name(name, &place, findings);
        if !name.contains('/') && !is_standard(name) {
            let detail = "must be a standard resource for quota";
            findings.push(FieldError::invalid(&place.path, name, detail));
        }
        amount(name, &place, findings);
    }
}

fn scopes(selector: &Place<'_>, findings: &mut Findings) {
    // Kubernetes tells these of the list, not of its items.
    let path = selector.path.child("matchExpressions");
    for expression in selector.at("matchExpressions").items() {
        let told = |field: &str| Place {
            value: expression.at(field).value,
            path: path.child(field),
        };
        let (scope, operator, values) = (told("scopeName"), told("operator"), told("values"));
        let is_existing = EXISTING.contains(&scope.text());
        if !is_existing && !["PriorityClass", "VolumeAttributesClass"].contains(&scope.text()) {
            findings.push(FieldError::invalid(
                &scope.path,
                scope.text(),
                "unsupported scope",
            ));
        }
        if is_existing && operator.text() != "Exists" {
            findings.push(FieldError::invalid(&operator.path, operator.text(), EXISTS));
        }
        match operator.text() {
            "In" | "NotIn" if values.count() == 0 => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                findings.required(&values, detail);
            }
            "Exists" | "DoesNotExist" if values.count() > 0 => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                findings.invalid(&values, detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator";
                findings.push(FieldError::invalid(&operator.path, other, detail));
            }
        }
    }
}

fn limit(limit: &Place<'_>, findings: &mut Findings) {
    let kind = limit.at("type");
    let wrong = is_qualified_name(kind.text());
    if wrong.is_empty()
        && !kind.text().contains('/')
        && !["Pod", "Container", "PersistentVolumeClaim"].contains(&kind.text())
    {
        findings.invalid(&kind, "must be a standard limit type or fully qualified");
    }
    for detail in wrong {
        findings.push(FieldError::invalid(&kind.path, kind.text(), detail));
    }
    for field in [
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ] {
        let place = limit.at(field);
        if kind.text() == "Pod" && field.starts_with("default") {
            if place.count() > 0 {
                findings.forbidden(&place, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, place) in place.members() {
            match kind.text() {
                "Pod" | "Container" => resource_name(name, &place, findings),
                _ => any_resource_name(name, &place, findings),
            }
        }
    }
    let bounds = ["min", "max"].map(|field| limit.at(field).at("storage").is_set());
    if kind.text() == "PersistentVolumeClaim" && bounds == [false, false] {
        let detail =
            "either minimum or maximum storage value is required, but neither was provided";
        findings.required(&limit.at("limits"), detail);
    }
    bounds_in_order(limit, findings);
    ratios(limit, findings);
}

/// The least is not above the most, and what is given by default lies between them.
fn bounds_in_order(limit: &Place<'_>, findings: &mut Findings) {
    /// The lesser, the greater, which of them is told of, which of their values is shown, and what they are called.
    const PAIRS: [(&str, &str, &str, &str, [&str; 2]); 6] = [
        ("min", "max", "min", "min", ["min value", "max value"]),
        (
            "min",
            "defaultRequest",
            "defaultRequest",
            "defaultRequest",
            ["min value", "default request value"],
        ),
        (
            "defaultRequest",
            "max",
            "defaultRequest",
            "defaultRequest",
            ["default request value", "max value"],
        ),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "defaultRequest",
            ["default request value", "default limit value"],
        ),
        (
            "min",
            "default",
            "default",
            "min",
            ["min value", "default value"],
        ),
        (
            "default",
            "max",
            "default",
            "max",
            ["default value", "max value"],
        ),
    ];
    for (lesser, greater, told, shown, names) in PAIRS {
        for (resource, place) in limit.at(lesser).members() {
            let (Some(low), Some(high)) =
                (place.quantity(), limit.at(greater).at(resource).quantity())
            else {
                continue;
            };
            if low > high {
                let [low_name, high_name] = names;
                let detail = format!("{low_name} {low} is greater than {high_name} {high}");
                let value = limit.at(shown).at(resource).value.clone();
                let path = limit.at(told).path.key(resource);
                findings.push(FieldError::invalid(&path, value, detail));
            }
        }
    }
}

/// Limits are at most so many times the requests.
fn ratios(limit: &Place<'_>, findings: &mut Findings) {
    for (_, ratio) in limit.at("maxLimitRequestRatio").members() {
        if let Some(value) = ratio.quantity()
            && value.to_float() < 1.0
        {
            findings.invalid(&ratio, format!("ratio {value} is less than 1"));
        }
    }
    for (resource, ratio) in limit.at("maxLimitRequestRatio").members() {
        let bound = |field: &str| limit.at(field).at(resource).quantity();
        let (Some(value), Some(min), Some(max)) = (ratio.quantity(), bound("min"), bound("max"))
        else {
            continue;
        };
        let most = max.to_float() / min.to_float();
        if value.to_float() > most {
            let detail = format!("ratio {value} is greater than max/min = {most:.6}");
            findings.invalid(&ratio, detail);
        }
    }
}
